// Convolutions of sizes that are known, computed directly, channels last.
//
//   out[y][x][n] = finish(sum over r, s, c of in[y stride + r dilation][x stride + s dilation][c] w[n][r][s][c])
//
// The input has its padding around it already, written by whoever made it, so no pixel is a special case. A row of
// output pixels times a panel of output channels is a tile of sums (kernels/gemm.hpp), and where pixels of the input
// lie behind each other a row of the kernel is one loop. `finish(y, x, channel, sum, width)` gets `width` channels.
//
//   constexpr ConvolutionShape stem = {.channels = 3, .out_channels = 64, .out_height = 112, .out_width = 112,
//                                      .kernel_height = 7, .kernel_width = 7, .stride = 2, .in_row = 230};
//   convolution<stem>(in, weights, [&](int y, int x, int channel, real sum, auto width) { ... });
//
// Sums run over r, s, c in order: within (products + 1) units of the last place of sum |in w|.
// Main names: ConvolutionShape, convolution, depthwise_convolution, pack_convolution, pack_depthwise. Cost: light; a
// convolution takes the compiler 0.1 s.
#pragma once

#include "fxx/kernels/gemm.hpp"

#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

namespace fxx::kernels::inline FXX_KERNEL_ISA {

struct ConvolutionShape {
  int channels = 1, out_channels = 1;  // of one group
  int out_height = 1, out_width = 1;
  int kernel_height = 1, kernel_width = 1;
  int stride = 1, dilation = 1;  // in both directions
  int in_row = 1;                // pixels of a row of the input, with its padding
  int in_pixel = 0;              // floats from one pixel of the input to the next; 0: `channels`

  constexpr int pixel() const { return in_pixel ? in_pixel : channels; }
  /// Products in one element of the output.
  constexpr int depth() const { return kernel_height * kernel_width * channels; }
};

/// The tile of a convolution: pixels of a row by output channels.
constexpr TileShape convolution_tile(const ConvolutionShape& shape) {
  return tile_shape(shape.out_width, vectors_of(shape.out_channels));
}

/// Weights for `convolution`: `weights(n, r, s, c)` gives an element; packed_size(out_channels, depth()) floats.
template <class Weights>
void pack_convolution(float* packed, const ConvolutionShape& shape, const Weights& weights) {
  pack_weights(packed, shape.out_channels, shape.depth(), convolution_tile(shape), [&](int n, int k) {
    const int c = k % shape.channels, pixel = k / shape.channels;
    return weights(n, pixel / shape.kernel_width, pixel % shape.kernel_width, c);
  });
}

namespace detail_of_convolution {
/// `Count` pixels of row `y` from `x` on, and one panel of output channels.
template <ConvolutionShape Shape, int Count, int Vectors, int Last, class Finish>
FXX_KERNEL void pixels(const float* __restrict in, const float* __restrict panel, int y, int x, int channel,
                       const Finish& finish) {
  constexpr int pixel = Shape.pixel(), step = Shape.stride * pixel, wide = Vectors * lanes;
  constexpr bool behind_each_other = Shape.dilation == 1 && pixel == Shape.channels;
  constexpr int loops = behind_each_other ? 1 : Shape.kernel_width;
  constexpr int depth = behind_each_other ? Shape.kernel_width * Shape.channels : Shape.channels;
  Tile<Count, Vectors> tile;
  for (int r = 0; r < Shape.kernel_height; ++r) {
    const std::ptrdiff_t row = static_cast<std::ptrdiff_t>(y) * Shape.stride + r * Shape.dilation;
    const float* from = in + (row * Shape.in_row + static_cast<std::ptrdiff_t>(x) * Shape.stride) * pixel;
    for (int s = 0; s < loops; ++s) {
      tile.template add<step>(from + s * Shape.dilation * pixel, panel, depth);
      panel += depth * wide;
    }
  }
  tile.template finish<Last>([&](int p, int c, real sum, auto width) __attribute__((always_inline)) {
    finish(y, x + p, channel + c, sum, width);
  });
}
template <ConvolutionShape Shape, int Vectors, int Last, class Finish>
FXX_KERNEL void panel_convolution(const float* __restrict in, const float* __restrict panel, int channel,
                                  const Finish& finish) {
  constexpr int count = convolution_tile(Shape).rows, whole = Shape.out_width / count * count;
  for (int y = 0; y < Shape.out_height; ++y) {
    for (int x = 0; x < whole; x += count) pixels<Shape, count, Vectors, Last>(in, panel, y, x, channel, finish);
    if constexpr (Shape.out_width > whole)
      pixels<Shape, Shape.out_width - whole, Vectors, Last>(in, panel, y, whole, channel, finish);
  }
}
}  // namespace detail_of_convolution

/// A convolution of one group.
template <ConvolutionShape Shape, class Finish>
FXX_KERNEL void convolution(const float* __restrict in, const float* __restrict packed, const Finish& finish) {
  constexpr int wide = convolution_tile(Shape).vectors * lanes, whole = Shape.out_channels / wide * wide;
  for (int channel = 0; channel < whole; channel += wide)
    detail_of_convolution::panel_convolution<Shape, wide / lanes, lanes>(
        in, packed + static_cast<std::ptrdiff_t>(channel) * Shape.depth(), channel, finish);
  if constexpr (Shape.out_channels > whole) {
    constexpr int vectors = vectors_of(Shape.out_channels - whole);
    detail_of_convolution::panel_convolution<Shape, vectors, Shape.out_channels - whole - (vectors - 1) * lanes>(
        in, packed + static_cast<std::ptrdiff_t>(whole) * Shape.depth(), whole, finish);
  }
}

/// Weights for `depthwise_convolution`: kernel pixel by kernel pixel, channels filled up to whole vectors;
/// packed_size(channels, kernel_height * kernel_width) floats. `weights(c, r, s)` gives an element.
template <class Weights>
void pack_depthwise(float* packed, const ConvolutionShape& shape, const Weights& weights) {
  for (int r = 0; r < shape.kernel_height; ++r)
    for (int s = 0; s < shape.kernel_width; ++s)
      for (int c = 0; c < vectors_of(shape.channels) * lanes; ++c)
        *packed++ = c < shape.channels ? weights(c, r, s) : 0.f;
}

namespace detail_of_convolution {
template <ConvolutionShape Shape, int Count, int Width_, class Finish>
FXX_KERNEL void channels_of_pixels(const float* __restrict in, const float* __restrict packed, int y, int x,
                                   int channel, const Finish& finish) {
  constexpr int pixel = Shape.pixel(), wide = vectors_of(Shape.channels) * lanes;
  real sums[Count];
#pragma GCC unroll 16
  for (int p = 0; p < Count; ++p) sums[p] = real{};
  for (int r = 0; r < Shape.kernel_height; ++r) {
    const std::ptrdiff_t row = static_cast<std::ptrdiff_t>(y) * Shape.stride + r * Shape.dilation;
    const float* from = in + (row * Shape.in_row + static_cast<std::ptrdiff_t>(x) * Shape.stride) * pixel + channel;
#pragma GCC unroll 8
    for (int s = 0; s < Shape.kernel_width; ++s) {
      const real weight = load(packed + (r * Shape.kernel_width + s) * wide + channel);
#pragma GCC unroll 16
      for (int p = 0; p < Count; ++p)
        sums[p] = multiply_add(load_some<Width_>(from + (p * Shape.stride + s * Shape.dilation) * pixel), weight, sums[p]);
    }
  }
#pragma GCC unroll 16
  for (int p = 0; p < Count; ++p) finish(y, x + p, channel, sums[p], Width<Width_>{});
}
}  // namespace detail_of_convolution

/// A convolution in which every channel has its own kernel: `channels` of the shape counts, `out_channels` does not.
template <ConvolutionShape Shape, class Finish>
FXX_KERNEL void depthwise_convolution(const float* __restrict in, const float* __restrict packed,
                                      const Finish& finish) {
  constexpr int most = lanes == 16 ? 8 : 6, count = Shape.out_width < most ? Shape.out_width : most;
  constexpr int whole = Shape.out_width / count * count, last = Shape.channels % lanes;
  const auto row = [&]<int Width_>(Width<Width_>, int y, int channel) __attribute__((always_inline)) {
    using namespace detail_of_convolution;
    for (int x = 0; x < whole; x += count) channels_of_pixels<Shape, count, Width_>(in, packed, y, x, channel, finish);
    if constexpr (Shape.out_width > whole)
      channels_of_pixels<Shape, Shape.out_width - whole, Width_>(in, packed, y, whole, channel, finish);
  };
  for (int y = 0; y < Shape.out_height; ++y) {
    for (int channel = 0; channel + lanes <= Shape.channels; channel += lanes) row(Width<lanes>{}, y, channel);
    if constexpr (last != 0) row(Width<last>{}, y, Shape.channels - last);
  }
}

}  // namespace fxx::kernels::inline FXX_KERNEL_ISA

#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif
