// Convolutions that read the same value, computed as one.
// Main names: rules::merge_convolution. Cost: light.
#pragma once

#include "fxx/rules/merging.hpp"

namespace fxx::inline FXX_ABI::rules {

namespace merge_convolution_rules {
using namespace pattern;
using merging::bias;
using merging::weight;
inline constexpr auto stride = value<"stride">;
inline constexpr auto padding = value<"padding">;
inline constexpr auto dilation = value<"dilation">;

/// The same windows over the same value: then the results differ in their channels alone.
bool can_merge(const Match& m);
/// The channels stand so many dimensions from the end, with a batch and without.
Argument merged_convolution(const Match& m, const Operator& convolution, int dimensions);
template <auto Convolution, int Dimensions>
inline constexpr auto merge = [](const Match& m) { return merged_convolution(m, Convolution, Dimensions); };
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
      rule<"merge convolutions, 1d", law::sums>(
          siblings(x, conv1d(x, weight, bias, stride, padding, dilation)) >> merge<ops::conv1d, 1>, can_merge),
      rule<"merge convolutions, 2d", law::sums>(
          siblings(x, conv2d(x, weight, bias, stride, padding, dilation)) >> merge<ops::conv2d, 2>, can_merge),
      rule<"merge convolutions, 3d", law::sums>(
          siblings(x, conv3d(x, weight, bias, stride, padding, dilation)) >> merge<ops::conv3d, 3>, can_merge),
      rule<"merge convolutions of one pixel", law::sums>(
          siblings(x, conv2d(x, pixel, bias, stride, padding, dilation)) >> merge<ops::conv2d, 2>, can_merge));
}();

}  // namespace fxx::inline FXX_ABI::rules

#if defined(FXX_HEADER_ONLY)
#include "fxx/rules/merge_convolution.ipp"
#endif
