// Calls that compute the same value, made once: then a value that was written twice is one, as other rules have it.
// Main names: rules::equal_calls. Cost: light.
#pragma once

#include "fxx/rewrite/any_ruleset.hpp"

namespace fxx::inline FXX_ABI::rules {

namespace equal_call_rules {
rewrite::RewriteReport apply(const void* rules, Graph& graph, const rewrite::RewriteOptions& options);
std::string describe(const void* rules);
std::string explain(const void* rules, std::string_view rule, Node* node);
std::vector<std::string_view> names();
std::vector<std::string_view> no_classes();
inline constexpr rewrite::detail::RulesetCalls calls = {&apply, &describe, &explain, &names, &no_classes};
}  // namespace equal_call_rules

/// Not a set of patterns, but `merge_equal` (fxx/passes/merge_equal.hpp), to be applied like one and before others:
/// `(x - x.mean(-1, true)) / (x - x.mean(-1, true)).pow(2)...` writes one difference twice. Its one rule is "equal
/// calls". Law: exact. Needs: nobody who writes to what is read, or to the values.
inline constexpr rewrite::AnyRuleset equal_calls{"equal_calls", nullptr, equal_call_rules::calls};

}  // namespace fxx::inline FXX_ABI::rules

#if defined(FXX_HEADER_ONLY)
#include "fxx/rules/equal_calls.ipp"
#endif
