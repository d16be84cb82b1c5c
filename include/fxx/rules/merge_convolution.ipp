// Bodies of rules/merge_convolution.hpp.
#pragma once

#include <algorithm>

#include "fxx/rules/merge_convolution.hpp"

namespace fxx::inline FXX_ABI::rules {

namespace merge_convolution_rules {

/// 2 and [2, 2] say the same.
FXX_INLINE bool same_window(const Argument& a, const Argument& b) {
  if (a.is_sequence() == b.is_sequence()) return a == b;
  const Argument &list = a.is_sequence() ? a : b, &one = a.is_sequence() ? b : a;
  return std::all_of(list.items().begin(), list.items().end(), [&](const Argument& item) { return item == one; });
}

FXX_INLINE bool can_merge(const Match& m) {
  const Match& first = m.members()[0];
  const TensorMeta* kernel = meta_of(first[weight]);
  if (!kernel || kernel->is_dynamic()) return false;
  for (const Match& member : m.members()) {
    if (!merging::may_join(member, first) || !may_be_of_one_type({member[weight], member[bias]})) return false;
    const TensorMeta& meta = *meta_of(member[weight]);
    if (!std::equal(meta.shape.begin() + 1, meta.shape.end(), kernel->shape.begin() + 1, kernel->shape.end()))
      return false;
    if (!same_window(member[stride], first[stride]) || !same_window(member[padding], first[padding]) ||
        !same_window(member[dilation], first[dilation]))
      return false;
  }
  return true;
}

FXX_INLINE Argument merged_convolution(const Match& m, const Operator& convolution, int dimensions) {
  const auto [joined, joined_bias] = merging::joined(m);
  Node* whole = m.call(convolution, {m[x], joined, joined_bias, m[stride], m[padding], m[dilation]});
  return merging::parts_of(m, whole, -1 - dimensions);
}

}  // namespace merge_convolution_rules

}  // namespace fxx::inline FXX_ABI::rules
