// Linears that read the same value, computed as one.
// Main names: rules::merge_linear, rules::merge_activation. Cost: light.
#pragma once

#include "fxx/rules/merging.hpp"

namespace fxx::inline FXX_ABI::rules {

namespace merge_linear_rules {
using namespace pattern;
using merging::bias;
using merging::weight;

bool can_merge(const Match& m);
Argument merge(const Match& m);
/// Nobody may write to what is several values.
bool nobody_writes(const Match& m);
/// Who gets several results may write to one of them, which must not be another.
Argument one_for_all(const Match& m);
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
  return ruleset(rule<"merge linears", law::sums>(siblings(x, linear(x, weight, bias)) >> merge, can_merge));
}();

}  // namespace fxx::inline FXX_ABI::rules

#if defined(FXX_HEADER_ONLY)
#include "fxx/rules/merge_linear.ipp"
#endif
