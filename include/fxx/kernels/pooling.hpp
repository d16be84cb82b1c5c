// Pooling of sizes that are known, channels last: what padding adds is left out, so the input needs none around it.
//
//   constexpr PoolShape pool = {.channels = 64, .in_height = 112, .in_width = 112, .out_height = 56, .out_width = 56,
//                               .kernel_height = 3, .kernel_width = 3, .stride = 2, .padding = 1, .in_row = 113};
//   max_pool<pool>(in, [&](int y, int x, int channel, real value, auto width) { ... });
//
// Main names: PoolShape, max_pool, average_pool, average_of_all. Cost: light; each takes the compiler 0.05 s.
#pragma once

#include "fxx/kernels/rows.hpp"

#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

namespace fxx::kernels::inline FXX_KERNEL_ISA {

struct PoolShape {
  int channels = 1;
  int in_height = 1, in_width = 1, out_height = 1, out_width = 1;
  int kernel_height = 1, kernel_width = 1;
  int stride = 1, padding = 0, dilation = 1;  // in both directions
  int in_row = 1;                             // pixels from one row of the input to the next
};

namespace detail_of_pooling {
/// Calls `each(offset)` for the elements of the window at (y, x) that are in the input. Returns how many there are.
template <PoolShape Shape, class Each>
FXX_KERNEL int for_each_in_window(int y, int x, const Each& each) {
  int count = 0;
  for (int r = 0; r < Shape.kernel_height; ++r) {
    const int row = y * Shape.stride - Shape.padding + r * Shape.dilation;
    if (row < 0 || row >= Shape.in_height) continue;
    for (int s = 0; s < Shape.kernel_width; ++s) {
      const int column = x * Shape.stride - Shape.padding + s * Shape.dilation;
      if (column < 0 || column >= Shape.in_width) continue;
      each((static_cast<std::ptrdiff_t>(row) * Shape.in_row + column) * Shape.channels);
      ++count;
    }
  }
  return count;
}
/// Calls `each(y, x, channel, width)` for all vectors of the output.
template <PoolShape Shape, class Each>
FXX_KERNEL void for_each_output(const Each& each) {
  for (int y = 0; y < Shape.out_height; ++y)
    for (int x = 0; x < Shape.out_width; ++x)
      detail_of_rows::for_each_vector<Shape.channels>(
          [&](int channel, auto width) __attribute__((always_inline)) { each(y, x, channel, width); });
}
}  // namespace detail_of_pooling

/// The largest element of each window, minus infinity of an empty one; nan when there is one.
template <PoolShape Shape, class Finish>
FXX_KERNEL void max_pool(const float* __restrict in, const Finish& finish) {
  using namespace detail_of_pooling;
  for_each_output<Shape>([&](int y, int x, int channel, auto width) __attribute__((always_inline)) {
    real most = splat(-__builtin_inff());
    for_each_in_window<Shape>(y, x, [&](std::ptrdiff_t at) __attribute__((always_inline)) {
      most = maximum(load_some<width>(in + at + channel), most);
    });
    finish(y, x, channel, most, width);
  });
}
/// The mean of each window: divided by the elements that are in the input, or by all that the window has, cut off where
/// the padding ends, as LibTorch's count_include_pad has it.
template <PoolShape Shape, bool CountPadding = true, class Finish>
FXX_KERNEL void average_pool(const float* __restrict in, const Finish& finish) {
  using namespace detail_of_pooling;
  for_each_output<Shape>([&](int y, int x, int channel, auto width) __attribute__((always_inline)) {
    real total = splat(0.f);
    int count = for_each_in_window<Shape>(y, x, [&](std::ptrdiff_t at) __attribute__((always_inline)) {
      total = total + load_some<width>(in + at + channel);
    });
    if constexpr (CountPadding) {
      const auto within = [](int first, int kernel, int size) {
        const int end = first + kernel < size + Shape.padding ? first + kernel : size + Shape.padding;
        return end - first;
      };
      count = within(y * Shape.stride - Shape.padding, Shape.kernel_height, Shape.in_height) *
              within(x * Shape.stride - Shape.padding, Shape.kernel_width, Shape.in_width);
    }
    finish(y, x, channel, total / splat(static_cast<float>(count)), width);
  });
}
/// The mean of all pixels, a channel each: `finish(channel, mean, width)`.
template <PoolShape Shape, class Finish>
FXX_KERNEL void average_of_all(const float* __restrict in, const Finish& finish) {
  detail_of_rows::for_each_vector<Shape.channels>([&](int channel, auto width) __attribute__((always_inline)) {
    real total = splat(0.f);
    for (int y = 0; y < Shape.in_height; ++y) {
      // A row at a time, so that sums of many pixels do not swallow the later ones.
      real row = splat(0.f);
      for (int x = 0; x < Shape.in_width; ++x)
        row = row + load_some<width>(in + (static_cast<std::ptrdiff_t>(y) * Shape.in_row + x) * Shape.channels + channel);
      total = total + row;
    }
    finish(channel, total * (1.f / (static_cast<float>(Shape.in_height) * static_cast<float>(Shape.in_width))), width);
  });
}

}  // namespace fxx::kernels::inline FXX_KERNEL_ISA

#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif
