// Convolutions in which every channel has its own kernel, channels last; also row by row between other kernels.
//
//   out[image][y][x][c] =
//       finish(sum over r, s of in[image][y stride + r dilation][x stride + s dilation][c] w[c][r][s])
//
// `channels` of the ConvolutionShape (kernels/convolution.hpp) counts all of them, `out_channels` and `groups` count for
// nothing. depthwise_convolution is one pass over an image that has its padding around it. depthwise_by_rows makes the
// rows that a window reaches, filters them, and hands each row of outputs on while it is in a core's own caches: the
// pixelwise products before and behind a depthwise convolution are several times as wide as what goes in and comes out,
// and so their results need no memory but some rows.
//
//   depthwise_by_rows<filter, MadeRows{.height = 112, .width = 112, .above = 1, .before = 1}>(
//       part, weights, workspace,
//       [&](int image, int y, float* row) { ... },                                       // pixels of a row of the input
//       [&](int image, int y, int x, int channel, real sum, auto width) { ... },
//       [&](int image, int y) { ... });                                                  // a row of outputs is there
//
// A part (kernels/parallel.hpp) is some of the rows, of few rows some of the channels; by rows, each part makes the rows
// that it reads, so some at the border of two are made twice. Sums run over r, s in order:
// within half of the products in units of 2^-23 sum |in w|, of normally distributed numbers within 2.
// Main names: depthwise_convolution, depthwise_by_rows, pack_depthwise, MadeRows. Cost: light; one takes the compiler
// 0.1 s.
#pragma once

#include "fxx/kernels/convolution.hpp"

#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

namespace fxx::kernels::inline FXX_KERNEL_ISA {

/// Weights for `depthwise_convolution`: kernel pixel by kernel pixel, channels filled up to whole vectors;
/// packed_size(channels, kernel_height * kernel_width) floats. `weights(c, r, s)` gives an element.
template <class Weights>
void pack_depthwise(float* packed, const ConvolutionShape& shape, const Weights& weights) {
  for (int r = 0; r < shape.kernel_height; ++r)
    for (int s = 0; s < shape.kernel_width; ++s)
      for (int c = 0; c < vectors_of(shape.channels) * lanes; ++c)
        *packed++ = c < shape.channels ? weights(c, r, s) : 0.f;
}

namespace detail_of_depthwise {
/// A vector of channels of `Count` pixels from `x` on; `rows(r)` is where the first window of the row finds row r of the
/// kernel.
template <ConvolutionShape Shape, int Count, int Width_, class Rows, class Finish>
FXX_KERNEL void channels_of_pixels(const Rows& rows, const float* __restrict packed, int x, int channel,
                                   const Finish& finish) {
  constexpr int pixel = Shape.pixel(), wide = vectors_of(Shape.channels) * lanes;
  real sums[Count];
#pragma GCC unroll 16
  for (int p = 0; p < Count; ++p) sums[p] = real{};
  for (int r = 0; r < Shape.kernel_height; ++r) {
    const float* from = rows(r) + static_cast<std::ptrdiff_t>(x) * Shape.stride_width * pixel + channel;
#pragma GCC unroll 8
    for (int s = 0; s < Shape.kernel_width; ++s) {
      const real weight = load(packed + (r * Shape.kernel_width + s) * wide + channel);
#pragma GCC unroll 16
      for (int p = 0; p < Count; ++p)
        sums[p] = multiply_add(load_some<Width_>(from + (p * Shape.stride_width + s * Shape.dilation_width) * pixel),
                               weight, sums[p]);
    }
  }
#pragma GCC unroll 16
  for (int p = 0; p < Count; ++p) finish(x + p, channel, sums[p], Width<Width_>{});
}
/// A row of outputs: `finish(x, channel, sum, width)` for some of the channels.
template <ConvolutionShape Shape, class Rows, class Finish>
FXX_KERNEL void row_of_outputs(const Rows& rows, const float* __restrict packed, Range channels, const Finish& finish) {
  static_assert(Shape.groups == 1, "fxx::kernels: a convolution of single channels has all of them in one group");
  constexpr int most = FXX_KERNEL_REGISTERS == 32 ? 8 : 7, times = (Shape.out_width + most - 1) / most;
  constexpr int count = (Shape.out_width + times - 1) / times;
  // Channels inside: lines of the cache are read whole, and those of pixels that share a set do not drive each other out.
  detail_of_convolution::for_pixels<Shape.out_width, count>([&](auto pixels, int x) __attribute__((always_inline)) {
    int channel = channels.begin;
    for (; channel + lanes <= channels.end; channel += lanes)
      channels_of_pixels<Shape, pixels, lanes>(rows, packed, x, channel, finish);
    if constexpr (constexpr int last = Shape.channels % lanes; last != 0)
      if (channel < channels.end) channels_of_pixels<Shape, pixels, last>(rows, packed, x, channel, finish);
  });
}
/// Of rows that lie in memory, some or all channels; `done(image, y)` behind each.
template <ConvolutionShape Shape, class Finish, class Done>
FXX_KERNEL void rows_in_memory(Range rows, Range channels, const float* __restrict in, const float* __restrict packed,
                               const Finish& finish, const Done& done) {
  using namespace detail_of_convolution;
  for_rows<Shape.out_height>(
      rows, [&](int image, int y) __attribute__((always_inline)) {
        const float* const first = window<Shape>(in, image, y, 0);
        row_of_outputs<Shape>(
            [&](int r) __attribute__((always_inline)) {
              return first + static_cast<std::ptrdiff_t>(r) * Shape.dilation_height * Shape.in_row * Shape.pixel();
            },
            packed, channels,
            [&](int x, int channel, real sum, auto width)
                __attribute__((always_inline)) { finish(image, y, x, channel, sum, width); });
        done(image, y);
      });
}
}  // namespace detail_of_depthwise

/// `in`: an image with its padding around it. `packed`: by pack_depthwise. `finish(image, y, x, channel, sum, width)`
/// gets every sum once. Errors as above. Each vector of weights is read once for up to eight pixels of a row.
template <ConvolutionShape Shape, class Finish>
FXX_KERNEL void depthwise_convolution(Part part, const float* __restrict in, const float* __restrict packed,
                                      const Finish& finish) {
  constexpr bool by_rows = Shape.rows() >= 16;
  detail_of_depthwise::rows_in_memory<Shape>(by_rows ? part.of(Shape.rows()) : Range{0, Shape.rows()},
                                             by_rows ? Range{0, Shape.channels} : part.of(Shape.channels, lanes), in,
                                             packed, finish, [](int, int) {});
}

/// The same, and `done(image, y)` when all of a row has been finished.
template <ConvolutionShape Shape, class Finish, class Done>
FXX_KERNEL void depthwise_by_rows(Part part, const float* __restrict in, const float* __restrict packed,
                                  const Finish& finish, const Done& done) {
  detail_of_depthwise::rows_in_memory<Shape>(part.of(Shape.rows()), Range{0, Shape.channels}, in, packed, finish, done);
}

/// An input that is not in memory: so many rows of so many pixels, with rows of zeros above and below and pixels of
/// zeros before and behind each row, which nobody makes. The shape's `in_row` counts those of a row.
struct MadeRows {
  int height = 1, width = 1;
  int above = 0, before = 0;
};
/// Floats of the workspace of each part.
constexpr std::size_t made_rows(const ConvolutionShape& shape) {
  const int rows = (shape.kernel_height - 1) * shape.dilation_height + 2;
  return static_cast<std::size_t>(rows) * static_cast<std::size_t>(shape.in_row * shape.pixel());
}
/// `make(image, y, row)` writes pixels of a row of the input; it is called when the first window reaches the row.
/// `workspace` is the part's own.
template <ConvolutionShape Shape, MadeRows In, class Make, class Finish, class Done>
FXX_KERNEL void depthwise_by_rows(Part part, const float* __restrict packed, float* __restrict workspace,
                                  const Make& make, const Finish& finish, const Done& done) {
  constexpr int kept = (Shape.kernel_height - 1) * Shape.dilation_height + 1, pixel = Shape.pixel();
  constexpr std::ptrdiff_t row_size = static_cast<std::ptrdiff_t>(Shape.in_row) * pixel;
  static_assert(Shape.in_row >= In.before + In.width, "fxx::kernels: a row has room for its pixels");
  const auto clear = [](float* from, std::ptrdiff_t count) __attribute__((always_inline)) {
    __builtin_memset(from, 0, static_cast<std::size_t>(count) * sizeof(float));
  };
  float* const zeros = workspace + kept * row_size;
  clear(zeros, row_size);
  int held[kept];  // the row of the input that each place has
  for (int i = 0; i < kept; ++i) {
    held[i] = -1;
    float* const row = workspace + i * row_size;
    clear(row, In.before * pixel);
    clear(row + (In.before + In.width) * pixel, (Shape.in_row - In.before - In.width) * pixel);
  }
  int current = 0;
  detail_of_convolution::for_rows<Shape.out_height>(
      part.of(Shape.rows()), [&](int image, int y) __attribute__((always_inline)) {
        if (image != current)
          for (int i = 0; i < kept; ++i) held[i] = -1;
        current = image;
        const float* rows[Shape.kernel_height];
        for (int r = 0; r < Shape.kernel_height; ++r) {
          const int at = y * Shape.stride_height + r * Shape.dilation_height - In.above;
          rows[r] = zeros;
          if (at < 0 || at >= In.height) continue;
          float* const row = workspace + at % kept * row_size;
          if (held[at % kept] != at) make(image, at, row + In.before * pixel);
          held[at % kept] = at;
          rows[r] = row;
        }
        detail_of_depthwise::row_of_outputs<Shape>(
            [&](int r) __attribute__((always_inline)) { return rows[r]; }, packed, Range{0, Shape.channels},
            [&](int x, int channel, real sum, auto width)
                __attribute__((always_inline)) { finish(image, y, x, channel, sum, width); });
        done(image, y);
      });
}

}  // namespace fxx::kernels::inline FXX_KERNEL_ISA

#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif
