// What the tests of rewriting share.
#pragma once

#include <string>
#include <vector>

#include "fxx/rewrite/functions.hpp"
#include "fxx/trace/symbolic.hpp"
#include "graph_text.hpp"
#include "support.hpp"

namespace fxx::test {

/// What the rules make of a graph, without its inputs. Every result is checked, and must be one where no rule fires
/// again.
template <class Rules>
std::string rewritten(const Rules& rules, Graph& graph) {
  const auto report = rules.apply(graph);
  graph.lint();
  if (report.stopped_at_limit) return "stopped at the limit";
  if (rules.apply(graph).rewrites != 0) return "not a fixed point";
  return body_of(graph);
}
/// The same for what a function of proxies records.
template <class Rules, class F>
  requires std::is_invocable_v<F, Proxy> || std::is_invocable_v<F, Proxy, Proxy> ||
           std::is_invocable_v<F, Proxy, Proxy, Proxy>
std::string rewritten(const Rules& rules, F f) {
  std::vector<std::string> names = {"x", "y", "z"};
  names.resize(static_cast<std::size_t>(detail::proxy_arity<F>()));
  Graph graph = symbolic_graph(f, names);
  return rewritten(rules, graph);
}
/// Whether a rule fires at all.
template <class Rules, class F>
bool fires(const Rules& rules, F f) {
  Graph graph = symbolic_graph(f);
  const bool fired = rules.apply(graph).rewrites > 0;
  graph.lint();
  return fired;
}

}  // namespace fxx::test
