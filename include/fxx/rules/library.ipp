// Bodies of rules/library.hpp.
#pragma once

#include <vector>

#include "fxx/rewrite/erase_ruleset.hpp"
#include "fxx/rules/all.hpp"
#include "fxx/rules/library.hpp"
#include "fxx/rules/onednn.hpp"

namespace fxx::inline FXX_ABI::rules {

FXX_INLINE std::span<const rewrite::AnyRuleset> library() {
#define FXX_SET(name) rewrite::erase(#name, name)
  static constexpr rewrite::AnyRuleset sets[] = {
      FXX_SET(reroll),           FXX_SET(identities),        FXX_SET(number_chains), FXX_SET(strength_reduction),
      FXX_SET(casts),            FXX_SET(shapes),            FXX_SET(joins),         FXX_SET(activations),
      FXX_SET(normalisation),    FXX_SET(rearrangement),     FXX_SET(rotary),        FXX_SET(einsums),
      FXX_SET(attention),        FXX_SET(attention_dropout), FXX_SET(inference),     FXX_SET(merge_activation),
      FXX_SET(merge_linear),     FXX_SET(merge_convolution), FXX_SET(layout),        FXX_SET(rearrangements),
      FXX_SET(cleaning),         FXX_SET(cheaper),           FXX_SET(equal_calls),      FXX_SET(spellings),
      FXX_SET(attention_scores), FXX_SET(onednn)};
#undef FXX_SET
  return sets;
}

FXX_INLINE const rewrite::AnyRuleset* find_in_library(std::string_view name) {
  for (const rewrite::AnyRuleset& set : library())
    if (set.name() == name) return &set;
  return nullptr;
}

namespace detail {
template <class Phases>
std::vector<rewrite::AnyRuleset> erased_phases(std::string_view name, const Phases& phases) {
  return boost::hana::unpack(phases.sets, [&](const auto&... set) {
    return std::vector<rewrite::AnyRuleset>{rewrite::erase(name, set)...};
  });
}
}  // namespace detail

FXX_INLINE std::span<const rewrite::AnyRuleset> phases_of_all() {
  static const std::vector<rewrite::AnyRuleset> phases = detail::erased_phases("all", all);
  return phases;
}
FXX_INLINE std::span<const rewrite::AnyRuleset> phases_of_exact() {
  static const std::vector<rewrite::AnyRuleset> phases = detail::erased_phases("exact", exact);
  return phases;
}

}  // namespace fxx::inline FXX_ABI::rules
