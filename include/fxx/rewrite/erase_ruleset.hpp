// Making an AnyRuleset of a rule set.
// Main names: erase. Cost: light; it compiles what applying the set costs.
#pragma once

#include "fxx/rewrite/any_ruleset.hpp"
#include "fxx/rewrite/describe.hpp"

namespace fxx::inline FXX_ABI::rewrite {

namespace detail {
template <class... Rules>
struct erased {
  using Set = Ruleset<Rules...>;
  static const Set& set(const void* rules) { return *static_cast<const Set*>(rules); }
  static RewriteReport apply(const void* rules, Graph& graph, const RewriteOptions& options) {
    return set(rules).apply(graph, options);
  }
  static std::string describe(const void* rules) { return set(rules).describe(); }
  static std::string explain(const void* rules, std::string_view rule, Node* node) {
    return rewrite::explain(set(rules), rule, node);
  }
  static std::vector<std::string_view> rule_names() { return {Rules::name...}; }
  static constexpr RulesetCalls calls = {&apply, &describe, &explain, &rule_names, &Set::module_classes};
};
}  // namespace detail

/// The set under a name, without the types of its rules. It must outlive what is returned.
template <class... Rules>
constexpr AnyRuleset erase(std::string_view name, const Ruleset<Rules...>& rules) {
  return {name, &rules, detail::erased<Rules...>::calls};
}
template <class... Rules>
AnyRuleset erase(std::string_view name, const Ruleset<Rules...>&& temporary) = delete;
constexpr AnyRuleset erase(std::string_view name, const AnyRuleset& rules) { return rules.named(name); }

}  // namespace fxx::inline FXX_ABI::rewrite
