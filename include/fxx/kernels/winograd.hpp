// Convolutions with a 3 x 3 kernel and stride 1 by Winograd's algorithm, channels last: 2.25 times fewer products with
// tiles of 2 x 2 outputs, 4 times fewer with 4 x 4.
//
// Each tile of the input, two pixels larger than its outputs, is transformed; matrix products over the channels give the
// transformed outputs, one for each pixel of the tile, for many tiles at once; these are transformed back. Weights are
// transformed when they are packed, in double precision, and take (outputs + 2)^2 / 9 times their memory.
//
//   constexpr WinogradShape layer = {.outputs = 4, .channels = 64, .out_channels = 64, .out_height = 56,
//                                    .out_width = 56, .in_row = 58};
//   winograd<layer>(in, weights, workspace, [&](int y, int x, int channel, real sum, auto width) { ... });
//
// The input has its padding around it, filled up to whole tiles: rows * outputs + 2 rows of at least columns * outputs
// + 2 pixels. Whatever stands in pixels that no output needs must be finite.
// Largest error beside double precision, relative to the largest output, for normally distributed numbers: 4e-7 with
// tiles of 2 (128 channels), with tiles of 4 9e-7 (1 channel), 1.5e-6 (64) and 3e-6 (256). The points of tiles of 4 are
// 0, 3/4, -3/4, 3/2, -3/2 and infinity, whose error is a quarter of that of 0, 1, -1, 2, -2 at the same speed.
// Method: A. Lavin, S. Gray, Fast Algorithms for Convolutional Neural Networks, 2015.
// Main names: WinogradShape, winograd, pack_winograd. Cost: light; a convolution takes the compiler 0.25 s.
#pragma once

#include "fxx/kernels/convolution.hpp"

#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

namespace fxx::kernels::inline FXX_KERNEL_ISA {

struct WinogradShape {
  int outputs = 4;  // a tile has so many in each direction: 2 or 4
  int channels = 1, out_channels = 1;
  int out_height = 1, out_width = 1;
  int in_row = 1;  // pixels of a row of the input

  // Found by the compiler, never while the program runs.
  consteval int side() const { return outputs + 2; }  // of a tile of the input
  consteval int points() const { return side() * side(); }
  consteval int rows() const { return (out_height + outputs - 1) / outputs; }  // of tiles
  consteval int columns() const { return (out_width + outputs - 1) / outputs; }
  consteval int tiles() const { return rows() * columns(); }
  /// Tiles that are computed together: what they hold in between is about half a megabyte.
  consteval int block() const {
    const int fit = (1 << 17) / (points() * vectors_of(channels) * lanes), most = fit < 1 ? 1 : fit;
    if (most >= tiles()) return tiles();
    const int rows_of_tile = tile_shape(most, vectors_of(out_channels), 14).rows;
    return most / rows_of_tile * rows_of_tile;
  }
  consteval TileShape tile() const { return tile_shape(block(), vectors_of(out_channels), 14); }
  // Rows of transformed inputs and outputs lie a vector further apart than they are long, so that they are spread over
  // the sets of the cache.
  consteval int row() const { return (vectors_of(channels) + 1) * lanes; }
  consteval int point() const { return block() * row() + lanes; }
  consteval int out_point() const { return block() * tile().vectors * lanes + lanes; }
  /// Floats of the workspace, which lies at a multiple of 64 bytes.
  consteval std::size_t workspace() const {
    return static_cast<std::size_t>(points()) * static_cast<std::size_t>(point() + out_point());
  }
  /// Floats of packed weights.
  consteval std::size_t packed() const { return static_cast<std::size_t>(points()) * packed_size(out_channels, channels); }
};

namespace detail_of_winograd {

template <int Outputs>
struct Transform;
template <>
struct Transform<2> {
  static constexpr double weights[4][3] = {{1, 0, 0}, {.5, .5, .5}, {.5, -.5, .5}, {0, 0, 1}};
  FXX_KERNEL static void input(const real* d, real* o) {
    o[0] = d[0] - d[2];
    o[1] = d[1] + d[2];
    o[2] = d[2] - d[1];
    o[3] = d[1] - d[3];
  }
  FXX_KERNEL static void output(const real* m, real* o) {
    o[0] = m[0] + (m[1] + m[2]);
    o[1] = (m[1] - m[2]) - m[3];
  }
};
/// Points 0, a, -a, b, -b, infinity.
template <>
struct Transform<4> {
  static constexpr double a = 0.75, b = 1.5, a2 = a * a, b2 = b * b;
  static constexpr double at_0 = a2 * b2, at_a = 2 * a2 * (a2 - b2), at_b = 2 * b2 * (b2 - a2);
  static constexpr double weights[6][3] = {{1 / at_0, 0, 0},
                                           {1 / at_a, a / at_a, a2 / at_a},
                                           {1 / at_a, -a / at_a, a2 / at_a},
                                           {1 / at_b, b / at_b, b2 / at_b},
                                           {1 / at_b, -b / at_b, b2 / at_b},
                                           {0, 0, 1}};
  FXX_KERNEL static void input(const real* d, real* o) {
    constexpr float fa = a, fb = b, fa2 = a2, fb2 = b2, product = a2 * b2, sum = a2 + b2;
    const real p = d[4] - fb2 * d[2], q = fa * (d[3] - fb2 * d[1]);
    const real r = d[4] - fa2 * d[2], s = fb * (d[3] - fa2 * d[1]);
    o[0] = product * d[0] + (d[4] - sum * d[2]);
    o[1] = p + q;
    o[2] = p - q;
    o[3] = r + s;
    o[4] = r - s;
    o[5] = product * d[1] + (d[5] - sum * d[3]);
  }
  FXX_KERNEL static void output(const real* m, real* o) {
    constexpr float fa = a, fb = b, fa2 = a2, fb2 = b2, fa3 = a2 * a, fb3 = b2 * b;
    const real s = m[1] + m[2], t = m[1] - m[2], u = m[3] + m[4], v = m[3] - m[4];
    o[0] = m[0] + (s + u);
    o[1] = fa * t + fb * v;
    o[2] = fa2 * s + fb2 * u;
    o[3] = fa3 * t + (fb3 * v + m[5]);
  }
};

/// The tile at `in` of `Width_` channels, transformed, to `out`, whose points lie Shape.point() apart.
template <WinogradShape Shape, int Width_>
FXX_KERNEL void transform_input(const float* __restrict in, float* __restrict out) {
  constexpr int side = Shape.side();
  real between[side][side];
#pragma GCC unroll 6
  for (int j = 0; j < side; ++j) {
    real column[side], transformed[side];
#pragma GCC unroll 6
    for (int i = 0; i < side; ++i) column[i] = load_some<Width_>(in + (i * Shape.in_row + j) * Shape.channels);
    Transform<Shape.outputs>::input(column, transformed);
#pragma GCC unroll 6
    for (int i = 0; i < side; ++i) between[i][j] = transformed[i];
  }
#pragma GCC unroll 6
  for (int i = 0; i < side; ++i) {
    real transformed[side];
    Transform<Shape.outputs>::input(between[i], transformed);
#pragma GCC unroll 6
    for (int j = 0; j < side; ++j)
      store(out + static_cast<std::ptrdiff_t>(i * side + j) * Shape.point(), transformed[j]);
  }
}
/// One vector of a tile's transformed outputs, which lie Shape.out_point() apart, to its outputs.
template <WinogradShape Shape, int Width_, class Finish>
FXX_KERNEL void transform_output(const float* __restrict from, int y, int x, int channel, const Finish& finish) {
  constexpr int side = Shape.side(), outputs = Shape.outputs;
  real between[outputs][side];
#pragma GCC unroll 6
  for (int j = 0; j < side; ++j) {
    real column[side], transformed[outputs];
#pragma GCC unroll 6
    for (int i = 0; i < side; ++i)
      column[i] = load(from + static_cast<std::ptrdiff_t>(i * side + j) * Shape.out_point());
    Transform<outputs>::output(column, transformed);
#pragma GCC unroll 6
    for (int i = 0; i < outputs; ++i) between[i][j] = transformed[i];
  }
#pragma GCC unroll 6
  for (int i = 0; i < outputs; ++i) {
    real transformed[outputs];
    Transform<outputs>::output(between[i], transformed);
    if (Shape.out_height % outputs == 0 || y + i < Shape.out_height) {
#pragma GCC unroll 6
      for (int j = 0; j < outputs; ++j)
        if (Shape.out_width % outputs == 0 || x + j < Shape.out_width)
          finish(y + i, x + j, channel, transformed[j], Width<Width_>{});
    }
  }
}

/// `Count` tiles from number `first` on.
template <WinogradShape Shape, int Count, class Finish>
FXX_KERNEL void tiles(const float* __restrict in, const float* __restrict packed, float* __restrict workspace,
                      int first, const Finish& finish) {
  constexpr int outputs = Shape.outputs, points = Shape.points(), last_channels = Shape.channels % lanes;
  float* const transformed = workspace;
  float* const products = workspace + static_cast<std::ptrdiff_t>(points) * Shape.point();
  for (int t = 0; t < Count; ++t) {
    const int row = (first + t) / Shape.columns(), column = (first + t) % Shape.columns();
    const float* from = in + (static_cast<std::ptrdiff_t>(row) * outputs * Shape.in_row + column * outputs) * Shape.channels;
    float* to = transformed + t * Shape.row();
    for (int c = 0; c + lanes <= Shape.channels; c += lanes) transform_input<Shape, lanes>(from + c, to + c);
    if constexpr (last_channels != 0)
      transform_input<Shape, last_channels>(from + Shape.channels - last_channels, to + Shape.channels - last_channels);
  }
  const auto panel = [&]<int Vectors, int Last>(Width<Vectors>, Width<Last>, int channel)
                         __attribute__((always_inline)) {
    const float* weights = packed + static_cast<std::ptrdiff_t>(channel) * points * Shape.channels;
    constexpr int wide = Vectors * lanes;
    for (int point = 0; point < points; ++point) {
      const float* a = transformed + static_cast<std::ptrdiff_t>(point) * Shape.point();
      float* to = products + static_cast<std::ptrdiff_t>(point) * Shape.out_point();
      detail_of_gemm::panel_product<Count, Shape.channels, Shape.row(), Shape.tile().rows, Vectors, lanes>(
          a, weights + static_cast<std::ptrdiff_t>(point) * Shape.channels * wide, 0,
          [&](int t, int c, real sum, auto) __attribute__((always_inline)) { store(to + t * wide + c, sum); });
    }
    for (int t = 0; t < Count; ++t) {
      const int row = (first + t) / Shape.columns(), column = (first + t) % Shape.columns();
      for (int v = 0; v < Vectors - 1; ++v)
        transform_output<Shape, lanes>(products + t * wide + v * lanes, row * outputs, column * outputs,
                                       channel + v * lanes, finish);
      transform_output<Shape, Last>(products + t * wide + (Vectors - 1) * lanes, row * outputs, column * outputs,
                                    channel + (Vectors - 1) * lanes, finish);
    }
  };
  constexpr int wide = Shape.tile().vectors * lanes, whole = Shape.out_channels / wide * wide;
  for (int channel = 0; channel < whole; channel += wide) panel(Width<wide / lanes>{}, Width<lanes>{}, channel);
  if constexpr (Shape.out_channels > whole) {
    constexpr int vectors = vectors_of(Shape.out_channels - whole);
    panel(Width<vectors>{}, Width<Shape.out_channels - whole - (vectors - 1) * lanes>{}, whole);
  }
}

}  // namespace detail_of_winograd

/// Weights for `winograd`, transformed; Shape.packed() floats. `weights(n, r, s, c)` gives an element.
template <WinogradShape Shape, class Weights>
void pack_winograd(float* packed, const Weights& weights) {
  using Transform = detail_of_winograd::Transform<Shape.outputs>;
  constexpr int side = Shape.side(), points = Shape.points(), wide = Shape.tile().vectors * lanes;
  for (int first = 0; first < Shape.out_channels; first += wide) {
    const int left = vectors_of(Shape.out_channels - first) * lanes, width = left < wide ? left : wide;
    for (int n = first; n < first + width; ++n)
      for (int c = 0; c < Shape.channels; ++c) {
        double rows[side][3];
        for (int i = 0; i < side; ++i)
          for (int s = 0; s < 3; ++s) {
            rows[i][s] = 0;
            for (int r = 0; r < 3 && n < Shape.out_channels; ++r)
              rows[i][s] += Transform::weights[i][r] * double(weights(n, r, s, c));
          }
        for (int i = 0; i < side; ++i)
          for (int j = 0; j < side; ++j) {
            double value = 0;
            for (int s = 0; s < 3; ++s) value += rows[i][s] * Transform::weights[j][s];
            packed[(static_cast<std::ptrdiff_t>(i * side + j) * Shape.channels + c) * width + n - first] =
                static_cast<float>(value);
          }
      }
    packed += static_cast<std::ptrdiff_t>(points) * Shape.channels * width;
  }
}

/// The convolution; `workspace` has Shape.workspace() floats.
template <WinogradShape Shape, class Finish>
FXX_KERNEL void winograd(const float* __restrict in, const float* __restrict packed, float* __restrict workspace,
                         const Finish& finish) {
  static_assert(Shape.outputs == 2 || Shape.outputs == 4, "fxx::kernels: tiles have 2 x 2 or 4 x 4 outputs");
  static_assert(Shape.in_row >= Shape.columns() * Shape.outputs + 2,
                "fxx::kernels: a row of the input is filled up to whole tiles, and two pixels more");
  constexpr int block = Shape.block(), whole = Shape.tiles() / block * block;
  for (int first = 0; first < whole; first += block)
    detail_of_winograd::tiles<Shape, block>(in, packed, workspace, first, finish);
  if constexpr (Shape.tiles() > whole)
    detail_of_winograd::tiles<Shape, Shape.tiles() - whole>(in, packed, workspace, whole, finish);
}

}  // namespace fxx::kernels::inline FXX_KERNEL_ISA

#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif
