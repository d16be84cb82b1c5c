// Bodies of rules/equal_calls.hpp.
#pragma once

#include "fxx/passes/merge_equal.hpp"
#include "fxx/rewrite/matcher.hpp"
#include "fxx/rules/equal_calls.hpp"

namespace fxx::inline FXX_ABI::rules {

namespace equal_call_rules {

FXX_INLINE rewrite::RewriteReport apply(const void*, Graph& graph, const rewrite::RewriteOptions&) {
  rewrite::RewriteReport report;
  report.nodes_before = report.visited = graph.size();
  report.rewrites = merge_equal(graph);
  report.nodes_after = graph.size();
  report.fired = {{"equal calls", report.rewrites}};
  return report;
}

FXX_INLINE std::string describe(const void*) { return "equal calls: of calls that compute the same, the first\n"; }

FXX_INLINE std::string explain(const void*, std::string_view rule, Node*) {
  const std::string_view all[] = {"equal calls"};
  if (rule != all[0]) rewrite::detail::no_such_rule("the set has no rule", rule, all);
  return "rule 'equal calls' is no pattern: it compares calls with all others";
}

FXX_INLINE std::vector<std::string_view> names() { return {"equal calls"}; }

FXX_INLINE std::vector<std::string_view> no_classes() { return {}; }

}  // namespace equal_call_rules

}  // namespace fxx::inline FXX_ABI::rules
