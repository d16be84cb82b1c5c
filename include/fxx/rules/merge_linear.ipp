// Bodies of rules/merge_linear.hpp.
#pragma once

#include <algorithm>

#include "fxx/rules/merge_linear.hpp"

namespace fxx::inline FXX_ABI::rules {

namespace merge_linear_rules {

FXX_INLINE bool can_merge(const Match& m) {
  const Match& first = m.members()[0];
  return std::all_of(m.members().begin(), m.members().end(), [&](const Match& member) {
    return rank_of(member[weight]) == 2 && merging::may_join(member, first);
  });
}

FXX_INLINE Argument merge(const Match& m) {
  const auto [joined, joined_bias] = merging::joined(m);
  Node* whole =
      joined_bias.is_none() ? m.call(ops::linear, {m[x], joined}) : m.call(ops::linear, {m[x], joined, joined_bias});
  return merging::parts_of(m, whole, -1);
}

FXX_INLINE bool nobody_writes(const Match& m) {
  return std::all_of(m.members().begin(), m.members().end(),
                     [](const Match& member) { return layout_is_free(*member.root()); });
}

FXX_INLINE Argument one_for_all(const Match& m) {
  Node* one = m.call(ops::silu, {m[x]});
  std::vector<Argument> values;
  for (const Match& member : m.members())
    values.push_back(!values.empty() && reaches_output(*member.root()) ? m.call(ops::clone, {one}) : one);
  return Argument::list(std::move(values));
}

}  // namespace merge_linear_rules

}  // namespace fxx::inline FXX_ABI::rules
