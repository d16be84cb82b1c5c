// Convolutions that read the same value, computed as one.
// Main names: rules::merge_convolution. Cost: light.
#pragma once

#include <algorithm>

#include "fxx/rules/merging.hpp"

namespace fxx::inline FXX_ABI::rules {

namespace merge_convolution_rules {
using namespace pattern;
using merging::bias;
using merging::weight;
inline constexpr auto stride = value<"stride">;
inline constexpr auto padding = value<"padding">;
inline constexpr auto dilation = value<"dilation">;

/// 2 and [2, 2] say the same.
inline bool same_window(const Argument& a, const Argument& b) {
  if (a.is_sequence() == b.is_sequence()) return a == b;
  const Argument &list = a.is_sequence() ? a : b, &one = a.is_sequence() ? b : a;
  return std::all_of(list.items().begin(), list.items().end(), [&](const Argument& item) { return item == one; });
}
/// The same windows over the same value: then the results differ in their channels alone.
inline constexpr auto can_merge = [](const Match& m) {
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
};
/// The channels stand so many dimensions from the end, with a batch and without.
template <auto Convolution, int Dimensions>
inline constexpr auto merge = [](const Match& m) -> Argument {
  return merging::merged(m, -1 - Dimensions, [&](Node* joined, const Argument& joined_bias) {
    return m.call(Convolution, {m[x], joined, joined_bias, m[stride], m[padding], m[dilation]});
  });
};
}  // namespace merge_convolution_rules

/// Branches of an inception block: one convolution instead of several.
/// Law: conv(x, [w1; w2], [b1; b2]) = [conv(x, w1, b1), conv(x, w2, b2)] along the channels, up to rounding. Needs:
/// constant weights whose shapes are known, alike but for the output channels; the same stride, padding and dilation;
/// no groups. Of 2-D convolutions of different kernels over one value those of one pixel are merged, where these are
/// alike.
inline constexpr auto merge_convolution = [] {
  using namespace pattern;
  using namespace merge_convolution_rules;
  constexpr auto pixel = weight.where(shape_is<-1, -1, 1, 1>);
  return ruleset(
      rule<"merge convolutions, 1d">(
          siblings(x, conv1d(x, weight, bias, stride, padding, dilation)) >> merge<ops::conv1d, 1>, can_merge),
      rule<"merge convolutions, 2d">(
          siblings(x, conv2d(x, weight, bias, stride, padding, dilation)) >> merge<ops::conv2d, 2>, can_merge),
      rule<"merge convolutions, 3d">(
          siblings(x, conv3d(x, weight, bias, stride, padding, dilation)) >> merge<ops::conv3d, 3>, can_merge),
      rule<"merge convolutions of one pixel">(
          siblings(x, conv2d(x, pixel, bias, stride, padding, dilation)) >> merge<ops::conv2d, 2>, can_merge));
}();

}  // namespace fxx::inline FXX_ABI::rules
