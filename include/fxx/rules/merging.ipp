// Bodies of rules/merging.hpp.
#pragma once

#include <vector>

#include "fxx/rules/merging.hpp"

namespace fxx::inline FXX_ABI::rules {

namespace merging {

FXX_INLINE std::int64_t rows_of(const Match& member) {
  const TensorMeta* meta = meta_of(member[weight]);
  return meta && meta->dim() > 0 ? meta->shape[0] : -1;
}

FXX_INLINE bool may_join(const Match& member, const Match& first) {
  // A linear also takes a bias of one number for all rows.
  if (rows_of(member) <= 0 || is_other_than_vector(member[bias], rows_of(member))) return false;
  if (!is_constant_or_none(member[bias]) || member[bias].is_none() != first[bias].is_none()) return false;
  // LibTorch takes integers of two dtypes where a bias lies so, and not where it lies otherwise.
  const TensorMeta *of_weight = meta_of(member[weight]), *of_bias = meta_of(member[bias]);
  if (of_bias && of_bias->dtype != of_weight->dtype) return false;
  return of_weight->dtype == meta_of(first[weight])->dtype && layout_is_free(*member.root());
}

FXX_INLINE Joined joined(const Match& m) {
  std::vector<Argument> weights, biases;
  for (const Match& member : m.members()) {
    weights.push_back(member[weight]);
    biases.push_back(member[bias]);
  }
  return {m.call(ops::cat, {Argument::list(weights)}),
          m[bias].is_none() ? Argument() : m.call(ops::cat, {Argument::list(biases)})};
}

FXX_INLINE Argument parts_of(const Match& m, Node* whole, std::int64_t dim) {
  std::vector<Argument> sizes, parts;
  for (const Match& member : m.members()) sizes.push_back(rows_of(member));
  Node* split = m.call(ops::split_with_sizes, {whole, Argument::list(sizes), dim});
  for (std::size_t i = 0; i < sizes.size(); ++i) parts.push_back(m.call(ops::operator_getitem, {split, i}));
  for (const Match& member : m.members()) views_become_reshapes(*member.root());
  return Argument::list(parts);
}

}  // namespace merging

}  // namespace fxx::inline FXX_ABI::rules
