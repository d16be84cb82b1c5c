// Linears that read the same value, computed as one.
// Main names: rules::merge_linear, rules::merge_activation. Cost: light.
#pragma once

#include <algorithm>

#include "fxx/rules/merging.hpp"

namespace fxx::inline FXX_ABI::rules {

namespace merge_linear_rules {
using namespace pattern;
using merging::bias;
using merging::weight;

inline constexpr auto can_merge = [](const Match& m) {
  const Match& first = m.members()[0];
  return std::all_of(m.members().begin(), m.members().end(), [&](const Match& member) {
    return rank_of(member[weight]) == 2 && merging::may_join(member, first);
  });
};
inline constexpr auto merge = [](const Match& m) -> Argument {
  return merging::merged(m, -1, [&](Node* joined, const Argument& joined_bias) {
    return joined_bias.is_none() ? m.call(ops::linear, {m[x], joined}) : m.call(ops::linear, {m[x], joined, joined_bias});
  });
};
/// Nobody may write to what is several values.
inline constexpr auto nobody_writes = [](const Match& m) {
  return std::all_of(m.members().begin(), m.members().end(),
                     [](const Match& member) { return layout_is_free(*member.root()); });
};
inline bool leaves_graph(Node& value) {
  for (Node* node : sharing_memory(value))
    for (const Node* user : node->users())
      if (user->opcode() == Opcode::output) return true;
  return false;
}
/// Who gets several results may write to one of them, which must not be another.
inline constexpr auto one_for_all = [](const Match& m) -> Argument {
  Node* one = m.call(ops::silu, {m[x]});
  std::vector<Argument> values;
  for (const Match& member : m.members())
    values.push_back(!values.empty() && leaves_graph(*member.root()) ? m.call(ops::clone, {one}) : one);
  return Argument::list(std::move(values));
};
}  // namespace merge_linear_rules

/// A silu that every block of a network computes anew of one value, such as the embedding of the time in diffusion, is
/// computed once; apply it before merge_linear, which then finds that the linears behind read one value.
/// Law: silu(x) and silu(x) are one value. Needs: nobody who writes to it.
inline constexpr auto merge_activation = [] {
  using namespace pattern;
  using namespace merge_linear_rules;
  return ruleset(rule<"one silu for all">(siblings(x, silu(x)) >> one_for_all, nobody_writes));
}();

/// Queries, keys and values of attention, gate and up projection of an MLP: one matrix product instead of several.
/// Law: linear(x, [w1; w2], [b1; b2]) = [linear(x, w1, b1), linear(x, w2, b2)], up to rounding. Needs: constant weights
/// whose shapes are known, biases of one number a row.
inline constexpr auto merge_linear = [] {
  using namespace pattern;
  using namespace merge_linear_rules;
  return ruleset(rule<"merge linears">(siblings(x, linear(x, weight, bias)) >> merge, can_merge));
}();

}  // namespace fxx::inline FXX_ABI::rules
