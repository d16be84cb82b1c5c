// The sets that ship, by name, as they were compiled once: a file that applies them costs the compiler no rule.
//
// With FXX_COMPILED_LIB they are in the library; header-only, including this costs what all rules cost. Whoever adds
// rules of their own to a set, or wants one tree for several, includes the header of the set instead.
// Main names: rules::library, rules::find_in_library, rules::apply_all, rules::apply_exact. Cost: light.
#pragma once

#include <span>
#include <string_view>

#include "fxx/rewrite/any_ruleset.hpp"

namespace fxx::inline FXX_ABI::rules {

/// Every set of rules/, each under its name in this namespace: `inference`, `attention`, ...; `algebra` in its parts.
std::span<const rewrite::AnyRuleset> library();
/// Null when no set has this name.
const rewrite::AnyRuleset* find_in_library(std::string_view name);

/// The sets of rules::all, in its order, each named "all".
std::span<const rewrite::AnyRuleset> phases_of_all();
/// `rules::all.apply(target, options)`: for a model that only infers.
template <class Target>
rewrite::RewriteReport apply_all(Target& target, const rewrite::RewriteOptions& options = {}) {
  rewrite::RewriteReport report;
  for (const rewrite::AnyRuleset& phase : phases_of_all()) report.add(phase.apply(target, options));
  return report;
}

/// The sets of rules::exact, in its order, each named "exact".
std::span<const rewrite::AnyRuleset> phases_of_exact();
/// `rules::exact.apply(target, options)`: for a model that only infers, and whose numbers are to stay what they are.
template <class Target>
rewrite::RewriteReport apply_exact(Target& target, const rewrite::RewriteOptions& options = {}) {
  rewrite::RewriteReport report;
  for (const rewrite::AnyRuleset& phase : phases_of_exact()) report.add(phase.apply(target, options));
  return report;
}

}  // namespace fxx::inline FXX_ABI::rules

#if defined(FXX_HEADER_ONLY)
#include "fxx/rules/library.ipp"
#endif
