// One operator instead of several with weights of their own, and its result in parts.
// Cost: light.
#pragma once

#include <vector>

#include "fxx/rewrite/functions.hpp"
#include "fxx/rules/guards.hpp"

namespace fxx::inline FXX_ABI::rules {

namespace merging {
using namespace pattern;
inline constexpr auto weight = constant<"weight">;
inline constexpr auto bias = optional<"bias">;

/// Rows of a weight, which are the features or channels that come out; -1 when they are not known.
inline std::int64_t rows_of(const Match& member) {
  const TensorMeta* meta = meta_of(member[weight]);
  return meta && meta->dim() > 0 ? meta->shape[0] : -1;
}
/// Are weights and biases constants that can stand in one tensor, and may each result be a part of a larger one, which
/// has gaps? One of the first member's kind has a bias, or has none.
inline bool may_join(const Match& member, const Match& first) {
  // A linear also takes a bias of one number for all rows.
  if (rows_of(member) <= 0 || is_other_than_vector(member[bias], rows_of(member))) return false;
  if (!is_constant_or_none(member[bias]) || member[bias].is_none() != first[bias].is_none()) return false;
  // LibTorch takes integers of two dtypes where a bias lies so, and not where it lies otherwise.
  const TensorMeta *of_weight = meta_of(member[weight]), *of_bias = meta_of(member[bias]);
  if (of_bias && of_bias->dtype != of_weight->dtype) return false;
  return of_weight->dtype == meta_of(first[weight])->dtype && layout_is_free(*member.root());
}
/// `build(weight, bias)` of the joined ones, taken apart again in dimension `dim`.
template <class Build>
Argument merged(const Match& m, std::int64_t dim, Build build) {
  std::vector<Argument> weights, biases, sizes, parts;
  for (const Match& member : m.members()) {
    weights.push_back(member[weight]);
    biases.push_back(member[bias]);
    sizes.push_back(rows_of(member));
  }
  Node* joined = m.call(ops::cat, {Argument::list(weights)});
  Node* whole = build(joined, m[bias].is_none() ? Argument() : m.call(ops::cat, {Argument::list(biases)}));
  Node* split = m.call(ops::split_with_sizes, {whole, Argument::list(sizes), dim});
  for (std::size_t i = 0; i < sizes.size(); ++i) parts.push_back(m.call(ops::operator_getitem, {split, i}));
  for (const Match& member : m.members()) views_become_reshapes(*member.root());
  return Argument::list(parts);
}
}  // namespace merging

}  // namespace fxx::inline FXX_ABI::rules
