// Pooling of sizes that are known, channels last: what padding adds is left out, so the input needs none around it.
//
//   constexpr PoolShape pool = {.channels = 64, .in_height = 112, .in_width = 112, .out_height = 56, .out_width = 56,
//                               .kernel_height = 3, .kernel_width = 3, .stride_height = 2, .stride_width = 2,
//                               .padding_height = 1, .padding_width = 1, .in_row = 112};
//   max_pool<pool>(part, in, [&](int image, int y, int x, int channel, real value, auto width) { ... });
//
// A part (kernels/parallel.hpp) is some of the rows, of few rows some of the channels. Every element of a window is read
// once for each window that it is in.
// Largest elements are exact. Means are within half of the elements in units of 2^-23 of the mean of magnitudes, those
// of all pixels within half of height and width; of normally distributed numbers both within 2. nan and infinities are
// in the means that they belong to.
// Main names: PoolShape, max_pool, average_pool, average_of_all. Cost: light; each takes the compiler 0.05 s.
#pragma once

#include "fxx/kernels/gemm.hpp"

#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

namespace fxx::kernels::inline FXX_KERNEL_ISA {

/// Sizes of windows and images, and how the input lies: [image][y][x][channel], without padding.
struct PoolShape {
  int channels = 1;
  int in_height = 1, in_width = 1, out_height = 1, out_width = 1;
  int kernel_height = 1, kernel_width = 1;
  int stride_height = 1, stride_width = 1;
  int padding_height = 0, padding_width = 0;
  int dilation_height = 1, dilation_width = 1;
  int in_row = 1;    // pixels from one row of the input to the next
  int in_pixel = 0;  // floats from one pixel of the input to the next; 0: `channels`
  int images = 1;
  int in_image = 0;  // floats from one image of the input to the next; 0: the rows lie behind each other
  // The input is divided into as many windows as there are outputs, of several sizes where that is not even: of kernel,
  // stride, padding and dilation nothing counts then.
  bool adaptive = false;
  int divisor = 0;  // of sums; 0: the elements, as they are counted

  constexpr int pixel() const { return in_pixel ? in_pixel : channels; }
  constexpr std::ptrdiff_t image() const {
    return in_image ? in_image : static_cast<std::ptrdiff_t>(in_height) * in_row * pixel();
  }
};

namespace detail_of_pooling {
/// Calls `each(offset)` for the elements of the window at (y, x) that are in the input. Returns how many there are.
template <PoolShape Shape, class Each>
FXX_KERNEL int for_each_in_window(int y, int x, const Each& each) {
  int count = 0;
  if constexpr (Shape.adaptive) {
    const auto window = [](std::ptrdiff_t at, int parts, int of) {
      return Range{static_cast<int>(at * of / parts), static_cast<int>(((at + 1) * of + parts - 1) / parts)};
    };
    const Range rows = window(y, Shape.out_height, Shape.in_height), columns = window(x, Shape.out_width, Shape.in_width);
    for (int row = rows.begin; row < rows.end; ++row)
      for (int column = columns.begin; column < columns.end; ++column)
        each((static_cast<std::ptrdiff_t>(row) * Shape.in_row + column) * Shape.pixel());
    return (rows.end - rows.begin) * (columns.end - columns.begin);
  }
  for (int r = 0; r < Shape.kernel_height; ++r) {
    const int row = y * Shape.stride_height - Shape.padding_height + r * Shape.dilation_height;
    if (row < 0 || row >= Shape.in_height) continue;
    for (int s = 0; s < Shape.kernel_width; ++s) {
      const int column = x * Shape.stride_width - Shape.padding_width + s * Shape.dilation_width;
      if (column < 0 || column >= Shape.in_width) continue;
      each((static_cast<std::ptrdiff_t>(row) * Shape.in_row + column) * Shape.pixel());
      ++count;
    }
  }
  return count;
}
/// Calls `each(channel, width)` for vectors of channels.
template <int Channels, class Each>
FXX_KERNEL void for_channels(Range channels, const Each& each) {
  int channel = channels.begin;
#pragma GCC unroll 4
  for (; channel + lanes <= channels.end; channel += lanes) each(channel, Width<lanes>{});
  if constexpr (constexpr int last = Channels % lanes; last != 0)
    if (channel < channels.end) each(channel, Width<last>{});
}
/// Calls `each(image, y, x, channel, width)` for all vectors of the part.
template <PoolShape Shape, class Each>
FXX_KERNEL void for_each_output(Part part, const Each& each) {
  constexpr int all = Shape.images * Shape.out_height;
  constexpr bool by_rows = all >= 16;
  const Range rows = by_rows ? part.of(all) : Range{0, all};
  const Range channels = by_rows ? Range{0, Shape.channels} : part.of(Shape.channels, lanes);
  for (int row = rows.begin; row < rows.end; ++row)
    for (int x = 0; x < Shape.out_width; ++x)
      for_channels<Shape.channels>(channels, [&](int channel, auto width) __attribute__((always_inline)) {
        each(row / Shape.out_height, row % Shape.out_height, x, channel, width);
      });
}
}  // namespace detail_of_pooling

/// The largest element of each window, minus infinity of an empty one; nan when there is one. Exact.
/// `finish(image, y, x, channel, value, width)` gets them, and the means below.
template <PoolShape Shape, class Finish>
FXX_KERNEL void max_pool(Part part, const float* __restrict in, const Finish& finish) {
  using namespace detail_of_pooling;
  for_each_output<Shape>(part, [&](int image, int y, int x, int channel, auto width) __attribute__((always_inline)) {
    const float* from = in + image * Shape.image() + channel;
    real most = splat(-__builtin_inff());
    for_each_in_window<Shape>(y, x, [&](std::ptrdiff_t at) __attribute__((always_inline)) {
      most = maximum(load_some<width>(from + at), most);
    });
    finish(image, y, x, channel, most, width);
  });
}
/// The mean of each window: divided by the elements that are in the input, or by all that the window has, cut off where
/// the padding ends, as LibTorch's count_include_pad has it, or by the divisor. Errors as above.
template <PoolShape Shape, bool CountPadding = true, class Finish>
FXX_KERNEL void average_pool(Part part, const float* __restrict in, const Finish& finish) {
  using namespace detail_of_pooling;
  for_each_output<Shape>(part, [&](int image, int y, int x, int channel, auto width) __attribute__((always_inline)) {
    const float* from = in + image * Shape.image() + channel;
    real total = splat(0.f);
    int count = for_each_in_window<Shape>(y, x, [&](std::ptrdiff_t at) __attribute__((always_inline)) {
      total = total + load_some<width>(from + at);
    });
    if constexpr (Shape.divisor != 0) {
      count = Shape.divisor;
    } else if constexpr (CountPadding && !Shape.adaptive) {
      const auto within = [](int first, int kernel, int end) {
        return (first + kernel < end ? first + kernel : end) - first;
      };
      count = within(y * Shape.stride_height - Shape.padding_height, Shape.kernel_height,
                     Shape.in_height + Shape.padding_height) *
              within(x * Shape.stride_width - Shape.padding_width, Shape.kernel_width,
                     Shape.in_width + Shape.padding_width);
    }
    finish(image, y, x, channel, total / splat(static_cast<float>(count)), width);
  });
}
/// The mean of all pixels of an image, as its only output: `finish(image, 0, 0, channel, mean, width)`. Errors as above.
template <PoolShape Shape, class Finish>
FXX_KERNEL void average_of_all(Part part, const float* __restrict in, const Finish& finish) {
  constexpr bool by_images = Shape.images >= 16;
  const Range images = by_images ? part.of(Shape.images) : Range{0, Shape.images};
  const Range channels = by_images ? Range{0, Shape.channels} : part.of(Shape.channels, lanes);
  for (int image = images.begin; image < images.end; ++image)
    detail_of_pooling::for_channels<Shape.channels>(channels, [&](int channel, auto width)
                                                                  __attribute__((always_inline)) {
      const float* from = in + image * Shape.image() + channel;
      real total = splat(0.f);
      for (int y = 0; y < Shape.in_height; ++y) {
        // A row at a time, so that sums of many pixels do not swallow the later ones.
        real row = splat(0.f);
        for (int x = 0; x < Shape.in_width; ++x)
          row = row + load_some<width>(from + (static_cast<std::ptrdiff_t>(y) * Shape.in_row + x) * Shape.pixel());
        total = total + row;
      }
      constexpr float pixels = static_cast<float>(Shape.in_height) * static_cast<float>(Shape.in_width);
      finish(image, 0, 0, channel, unfused(total * (1.f / pixels)), width);
    });
}

}  // namespace fxx::kernels::inline FXX_KERNEL_ISA

#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif
