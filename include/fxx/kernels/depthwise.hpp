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
// Sequences whose times lie behind each other, as LibTorch has them, are filtered where they lie (depthwise_sequences).
// Main names: depthwise_convolution, depthwise_by_rows, depthwise_sequences, pack_depthwise, MadeRows, SequenceShape.
// Cost: light; one takes the compiler 0.1 s.
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

/// Filters along sequences: channel c of image i lies `i * in_image + c * in_channel` floats behind the first one.
struct SequenceShape {
  int channels = 1, length = 1, out_length = 1;
  int kernel = 1, stride = 1, dilation = 1;  // stride: 1, 2 or 4
  int before = 0;                            // zeros in front; behind there are as many as windows reach
  int images = 1;
  int in_channel = 1, in_image = 0;

  /// Outputs that are made at a time, of what fits into the first cache.
  static constexpr int block = 16 * lanes;
  /// Elements of one residue of the stride that a block of outputs reads.
  constexpr int residue() const { return (block + (kernel - 1) * dilation / stride + lanes) / lanes * lanes; }
  /// Floats of the workspace of each part.
  constexpr std::size_t workspace() const {
    return static_cast<std::size_t>(residue() * stride) * (stride == 1 ? 1 : 2);
  }
};

namespace detail_of_depthwise {
template <int First, int... I>
FXX_KERNEL real every_second(real a, real b, kernels::detail::Indices<I...>) {
  return __builtin_shufflevector(a, b, (2 * I + First)...);
}
/// Elements of each residue of `Stride` one behind the other: out[r * count + i] = in[i * Stride + r], count a multiple of
/// the lanes.
template <int Stride>
FXX_KERNEL void sort_by_residue(const float* __restrict in, int count, float* __restrict out) {
  static_assert(Stride == 2 || Stride == 4, "fxx::kernels: strides of sequences are 1, 2 and 4");
  constexpr auto all = kernels::detail::indices<lanes>();
  for (int i = 0; i < count; i += lanes) {
    const float* const from = in + i * Stride;
    const real a = load(from), b = load(from + lanes);
    const real even = every_second<0>(a, b, all), odd = every_second<1>(a, b, all);
    if constexpr (Stride == 2) {
      store(out + i, even);
      store(out + count + i, odd);
    } else {
      const real c = load(from + 2 * lanes), d = load(from + 3 * lanes);
      const real even_2 = every_second<0>(c, d, all), odd_2 = every_second<1>(c, d, all);
      store(out + i, every_second<0>(even, even_2, all));
      store(out + count + i, every_second<0>(odd, odd_2, all));
      store(out + 2 * count + i, every_second<1>(even, even_2, all));
      store(out + 3 * count + i, every_second<1>(odd, odd_2, all));
    }
  }
}
/// `Count` vectors of outputs of a channel, from output `at` of the block on.
template <SequenceShape Shape, int Count, class Each>
FXX_KERNEL void outputs_of_sequence(const float* __restrict residues, const float* __restrict weights, int at,
                                    const Each& each) {
  constexpr int residue = Shape.residue();
  real sums[Count];
#pragma GCC unroll 4
  for (int v = 0; v < Count; ++v) sums[v] = real{};
#pragma GCC unroll 16
  for (int k = 0; k < Shape.kernel; ++k) {
    const int step = k * Shape.dilation;
    const float* const from = residues + step % Shape.stride * residue + step / Shape.stride + at;
    const real weight = splat(weights[k]);
#pragma GCC unroll 4
    for (int v = 0; v < Count; ++v) sums[v] = multiply_add(load(from + v * lanes), weight, sums[v]);
  }
#pragma GCC unroll 4
  for (int v = 0; v < Count; ++v) each(v, sums[v]);
}
}  // namespace detail_of_depthwise

/// `weights`: [channels][kernel]. `finish(image, channel, x, sum, width)` gets every sum once, `width` outputs from x on.
/// `workspace` is the part's own. Sums run over the kernel in order; errors as above. A part is some of the channels.
template <SequenceShape Shape, class Finish>
FXX_KERNEL void depthwise_sequences(Part part, const float* __restrict in, const float* __restrict weights,
                                    float* __restrict workspace, const Finish& finish) {
  constexpr int block = Shape.block, count = Shape.residue() * Shape.stride, last = Shape.out_length % lanes;
  const Range mine = part.of(Shape.images * Shape.channels);
  for (int row = mine.begin; row < mine.end; ++row) {
    const int image = row / Shape.channels, channel = row % Shape.channels;
    const float* const from = in + static_cast<std::ptrdiff_t>(image) * Shape.in_image +
                              static_cast<std::ptrdiff_t>(channel) * Shape.in_channel;
    const float* const filter = weights + static_cast<std::ptrdiff_t>(channel) * Shape.kernel;
    for (int first = 0; first < Shape.out_length; first += block) {
      const int begin = first * Shape.stride - Shape.before;  // of what the block reads, in the sequence
      const int low = begin < 0 ? (-begin < count ? -begin : count) : 0;
      const int left = Shape.length - begin, high = left < low ? low : left < count ? left : count;
      const auto bytes = [](int floats) __attribute__((always_inline)) {
        return static_cast<std::size_t>(floats) * sizeof(float);
      };
      __builtin_memset(workspace, 0, bytes(low));
      __builtin_memcpy(workspace + low, from + begin + low, bytes(high - low));
      __builtin_memset(workspace + high, 0, bytes(count - high));
      const float* residues = workspace;
      if constexpr (Shape.stride > 1) {
        detail_of_depthwise::sort_by_residue<Shape.stride>(workspace, Shape.residue(), workspace + count);
        residues = workspace + count;
      }
      const int here = Shape.out_length - first < block ? Shape.out_length - first : block;
      int x = 0;
      for (; x + 4 * lanes <= here; x += 4 * lanes)
        detail_of_depthwise::outputs_of_sequence<Shape, 4>(
            residues, filter, x, [&](int v, real sum) __attribute__((always_inline)) {
              finish(image, channel, first + x + v * lanes, sum, Width<lanes>{});
            });
      for (; x + lanes <= here; x += lanes)
        detail_of_depthwise::outputs_of_sequence<Shape, 1>(
            residues, filter, x, [&](int, real sum) __attribute__((always_inline)) {
              finish(image, channel, first + x, sum, Width<lanes>{});
            });
      if constexpr (last != 0)
        if (x < here)
          detail_of_depthwise::outputs_of_sequence<Shape, 1>(
              residues, filter, x, [&](int, real sum) __attribute__((always_inline)) {
                finish(image, channel, first + x, sum, Width<last>{});
              });
    }
  }
}

}  // namespace fxx::kernels::inline FXX_KERNEL_ISA

#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif
