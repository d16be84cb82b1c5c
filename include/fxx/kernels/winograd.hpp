// Convolutions with a 3 x 3 kernel and stride 1 by Winograd's algorithm, channels last: 2.25 times fewer products with
// tiles of 2 x 2 outputs, 4 times fewer with 4 x 4.
//
// Each tile of the input, two pixels larger than its outputs, is transformed; matrix products over the channels give the
// transformed outputs, one for each pixel of the tile, for many tiles at once; these are transformed back. Weights are
// transformed when they are packed, in double precision, and take (outputs + 2)^2 / 9 times their memory.
//
//   constexpr WinogradShape layer = {.outputs = 4, .channels = 64, .out_channels = 64, .out_height = 56,
//                                    .out_width = 56, .in_row = 58};
//   winograd<layer>(part, in, weights, workspace,
//                   [&](int image, int y, int x, int channel, real sum, auto width) { ... });
//
// The input has its padding around it, filled up to whole tiles: rows * outputs + 2 rows of at least columns * outputs
// + 2 pixels. Whatever stands in pixels that no output needs must be finite. Outputs of a tile in which something is not,
// or overflows on the way, are computed once more as they are defined, from the weights that the transformed ones were
// made of: nan and infinities stand where they belong, and what is finite is. Tiles of all images are computed together.
// A part (kernels/parallel.hpp) is some of the tiles, of few tiles some of the channels; then each transforms all inputs.
// Of normally distributed numbers and up to 256 channels, the error is within 8e-7 of the largest output with tiles of 2,
// within 2e-6 with tiles of 4. (Of few outputs, which may all be small, relative to three times the root of the channels,
// which such outputs deviate by.) The points of tiles of 4 are 0, 3/4, -3/4, 3/2, -3/2 and infinity, whose error is a
// quarter of that of 0, 1, -1, 2, -2 at the same speed.
// Method: A. Lavin, S. Gray, Fast Algorithms for Convolutional Neural Networks, 2015.
// Main names: WinogradShape, winograd, pack_winograd. Cost: light; a convolution takes the compiler 0.15 s,
// another of the same shape half of that.
#pragma once

#include "fxx/kernels/convolution.hpp"

#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

namespace fxx::kernels::inline FXX_KERNEL_ISA {

/// Sizes of a convolution, how its input lies, and what is computed together.
struct WinogradShape {
  int outputs = 4;  // a tile has so many in each direction: 2 or 4
  int channels = 1, out_channels = 1;
  int out_height = 1, out_width = 1;
  int in_row = 1;    // pixels of a row of the input
  int in_pixel = 0;  // floats from one pixel of the input to the next; 0: `channels`
  int images = 1;
  int in_image = 0;     // floats from one image of the input to the next; 0: rows * outputs + 2 rows
  TileShape sums = {};  // of the products: tiles by vectors of outputs; nothing: what takes the least time
  int at_once = 0;      // tiles that are computed together; 0: as `block` says

  // Found by the compiler, never while the program runs.
  consteval int side() const { return outputs + 2; }  // of a tile of the input
  consteval int points() const { return side() * side(); }
  consteval int rows() const { return (out_height + outputs - 1) / outputs; }  // of tiles
  consteval int columns() const { return (out_width + outputs - 1) / outputs; }
  consteval int tiles() const { return images * rows() * columns(); }
  consteval int pixel() const { return in_pixel ? in_pixel : channels; }
  consteval std::ptrdiff_t image() const {
    return in_image ? in_image : static_cast<std::ptrdiff_t>(rows() * outputs + 2) * in_row * pixel();
  }
  /// Tiles that are computed together: what they hold in between is about half a megabyte, more where it would be so few
  /// tiles that reading weights takes longer. Weights of more than 4 MB are not read twice for less than a megabyte.
  consteval int block() const {
    const int fit = at_once ? at_once : (1 << 17) / (points() * vectors_of(channels) * lanes);
    const int most = fit < 16 && !at_once ? 16 : fit;
    if (most >= tiles() || (!at_once && packed() >= 1 << 20 && 2 * fit >= tiles())) return tiles();
    const int rows_of_tile = sums.rows ? sums.rows : tile_shape(most, vectors_of(out_channels), 14).rows;
    return most < rows_of_tile ? rows_of_tile : most / rows_of_tile * rows_of_tile;
  }
  consteval TileShape tile() const { return sums.rows ? sums : tile_shape(block(), vectors_of(out_channels), 14); }
  // Rows of transformed inputs and outputs lie a vector further apart than they are long, so that they are spread over
  // the sets of the cache.
  consteval int row() const { return (vectors_of(channels) + 1) * lanes; }
  consteval int point() const { return block() * row() + lanes; }
  consteval int out_point() const { return block() * tile().vectors * lanes + lanes; }
  /// Are parts some of the tiles? Else some of the panels of weights.
  consteval bool parts_of_tiles() const {
    const int blocks = tiles() / tile().rows, panels = (vectors_of(out_channels) + tile().vectors - 1) / tile().vectors;
    return blocks >= 8 || blocks >= panels;
  }
  /// Floats of the workspace of each part; it lies at a multiple of 64 bytes.
  consteval std::size_t workspace() const {
    return static_cast<std::size_t>(points()) * static_cast<std::size_t>(point() + out_point());
  }
  /// Floats of packed weights.
  consteval std::size_t packed() const {
    return static_cast<std::size_t>(points()) * packed_size(out_channels, channels);
  }
};

namespace detail_of_winograd {

template <int Outputs>
struct Transform;
template <>
struct Transform<2> {
  static constexpr double weights[4][3] = {{1, 0, 0}, {.5, .5, .5}, {.5, -.5, .5}, {0, 0, 1}};
  /// What the weights were: so much of the point, and of the next taken off.
  static constexpr float back[3] = {1, 1, 1};
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
  static constexpr float back[3] = {at_0, at_a / (2 * a), 1};
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

/// Where the tiles of an input lie, and where they go transformed, in floats. Known when the program runs, so that
/// convolutions of other sizes share the functions: the loads and stores of a tile take their distances from registers.
struct InputTiles {
  int columns, of_image;  // tiles
  int channels;
  std::ptrdiff_t row, pixel, image;            // of the input, from one to the next
  std::ptrdiff_t transformed_row, transformed_point;
};

/// The tile at `in` of `Width_` channels, transformed, to `out`.
template <int Outputs, int Width_>
FXX_KERNEL void transform_input(const InputTiles& tiles, const float* __restrict in, float* __restrict out) {
  constexpr int side = Outputs + 2;
  real between[side][side];
  // One pointer for a column and one for a row: g++ would keep each of the seventy addresses.
#pragma GCC unroll 6
  for (int j = 0; j < side; ++j, in += tiles.pixel) {
    real column[side], transformed[side];
    asm("" : "+r"(in));
#pragma GCC unroll 6
    for (int i = 0; i < side; ++i) column[i] = load_some<Width_>(in + i * tiles.row);
    Transform<Outputs>::input(column, transformed);
#pragma GCC unroll 6
    for (int i = 0; i < side; ++i) between[i][j] = transformed[i];
  }
#pragma GCC unroll 6
  for (int i = 0; i < side; ++i, out += side * tiles.transformed_point) {
    real transformed[side];
    Transform<Outputs>::input(between[i], transformed);
    asm("" : "+r"(out));
#pragma GCC unroll 6
    for (int j = 0; j < side; ++j) store(out + j * tiles.transformed_point, transformed[j]);
  }
}
/// One vector of a tile's outputs as they are defined. `weights`: the transformed ones of these outputs, `wide` floats
/// from one to the next. Slow, and seldom called.
template <int Outputs>
[[gnu::noinline]] void sums_of_tile(const InputTiles& tiles, const float* __restrict in, const float* __restrict weights,
                                    int wide, real* __restrict sums) {
  constexpr int side = Outputs + 2, at[3] = {0, 1, side - 1};
  constexpr const float(&back)[3] = Transform<Outputs>::back;
  for (int i = 0; i < Outputs * Outputs; ++i) sums[i] = real{};
#pragma GCC unroll 1
  for (int c = 0; c < tiles.channels; ++c) {
    const auto point = [&](int i, int j) {
      return load(weights + (static_cast<std::ptrdiff_t>(i * side + j) * tiles.channels + c) * wide);
    };
    const auto of_row = [&](int i, int s) {
      return (s == 1 ? point(i, 1) - point(i, 2) : point(i, at[s])) * back[s];
    };
#pragma GCC unroll 1
    for (int r = 0; r < 3; ++r)
#pragma GCC unroll 1
      for (int s = 0; s < 3; ++s) {
        const real weight = (r == 1 ? of_row(1, s) - of_row(2, s) : of_row(at[r], s)) * back[r];
#pragma GCC unroll 1
        for (int i = 0; i < Outputs; ++i)
#pragma GCC unroll 1
          for (int j = 0; j < Outputs; ++j)
            sums[i * Outputs + j] = sums[i * Outputs + j] + weight * in[(i + r) * tiles.row + (j + s) * tiles.pixel + c];
      }
  }
}
/// Nothing but 0 comes of a number less itself.
FXX_KERNEL bool any_is_no_number(real value) { return sum(value - value) != 0; }
/// One vector of a tile's transformed outputs, which lie Shape.out_point() apart, to its outputs. `again(sums)` computes
/// them as they are defined.
template <WinogradShape Shape, int Width_, class Again, class Finish>
FXX_KERNEL void transform_output(const float* __restrict from, int image, int y, int x, int channel, const Again& again,
                                 const Finish& finish) {
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
  // What is not finite in any point is in the first row of these, or in the last.
  real all = between[0][0] + between[outputs - 1][0];
#pragma GCC unroll 6
  for (int j = 1; j < side; ++j) all = all + (between[0][j] + between[outputs - 1][j]);
  real results[outputs * outputs];
#pragma GCC unroll 6
  for (int i = 0; i < outputs; ++i) Transform<outputs>::output(between[i], results + i * outputs);
  if (any_is_no_number(all)) [[unlikely]]
    again(results);
  // A row at a time: what follows the sums, written out for all rows, takes the compiler a tenth longer.
#pragma GCC unroll 1
  for (int i = 0; i < outputs; ++i)
    if (Shape.out_height % outputs == 0 || y + i < Shape.out_height) {
#pragma GCC unroll 6
      for (int j = 0; j < outputs; ++j)
        if (Shape.out_width % outputs == 0 || x + j < Shape.out_width)
          finish(image, y + i, x + j, channel, results[i * outputs + j], Width<Width_>{});
    }
}

/// Calls `each(number of the tile from the first, image, y, x)`.
template <WinogradShape Shape, class Each>
FXX_KERNEL void for_tiles(Range tiles, const Each& each) {
  constexpr int columns = Shape.columns(), of_image = Shape.rows() * columns, outputs = Shape.outputs;
  for (int tile = tiles.begin; tile < tiles.end; ++tile) {
    const int image = tile / of_image, in_image = tile % of_image;
    each(tile - tiles.begin, image, in_image / columns * outputs, in_image % columns * outputs);
  }
}
// Functions of their own, which know nothing of what becomes of the outputs: steps of one shape share them, and a call
// is nothing beside what they do.

/// Some tiles, transformed, to `transformed`, one row of channels a tile and point. `Last`: channels that fill no vector.
template <int Outputs, int Last>
[[gnu::noinline]] void transform_inputs(InputTiles tiles, Range some, const float* __restrict in,
                                        float* __restrict transformed) {
  for (int tile = some.begin; tile < some.end; ++tile, transformed += tiles.transformed_row) {
    const int image = tile / tiles.of_image, y = tile % tiles.of_image / tiles.columns, x = tile % tiles.columns;
    const float* const from = in + image * tiles.image + Outputs * (y * tiles.row + x * tiles.pixel);
    const int whole = tiles.channels - Last;
    for (int c = 0; c < whole; c += lanes) transform_input<Outputs, lanes>(tiles, from + c, transformed + c);
    if constexpr (Last != 0) transform_input<Outputs, Last>(tiles, from + whole, transformed + whole);
  }
}
/// So many channels are added up one after the other, then to those before them: what rounding leaves grows with the
/// root of how many they are.
constexpr int summed_channels = 32;
/// The products of so many transformed tiles with one panel of weights, for every point.
template <WinogradShape Shape, int Vectors>
[[gnu::noinline]] void multiply_points(int tiles, const float* __restrict transformed, const float* __restrict weights,
                                       float* __restrict products) {
  constexpr int wide = Vectors * lanes, rest = Shape.channels % summed_channels;
  constexpr int all = Shape.channels, begun = rest > summed_channels / 2 ? rest : rest + summed_channels;
  constexpr int first = all < 2 * summed_channels ? all : begun;
  for (int point = 0; point < Shape.points(); ++point) {
    const float* const from = transformed + static_cast<std::ptrdiff_t>(point) * Shape.point();
    const float* const by = weights + static_cast<std::ptrdiff_t>(point) * Shape.channels * wide;
    float* const to = products + static_cast<std::ptrdiff_t>(point) * Shape.out_point();
    constexpr int tile_rows = Shape.tile().rows;
    auto ahead = read_ahead<wide * 4, (Shape.block() + tile_rows - 1) / tile_rows, tile_rows + 1>(
        by, static_cast<std::ptrdiff_t>(all) * wide * 4, (tiles + tile_rows - 1) / tile_rows);
    detail_of_gemm::for_row_tiles<Shape.tiles(), tile_rows>(
        {0, tiles}, [&]<int Count>(Width<Count>, int row) __attribute__((always_inline)) {
          const float* const rows = from + static_cast<std::ptrdiff_t>(row) * Shape.row();
          float* const sums = to + row * wide;
          int depth = first;
          for (int channel = 0; channel < all; channel += depth, depth = summed_channels) {
            Tile<Count, Vectors> tile;
            tile.template add<Shape.row()>(rows + channel, by + channel * wide, first < all ? depth : all, ahead);
            if (first == all || channel == 0)
              tile.template finish<lanes>([&](int r, int c, real sum, auto)
                                              __attribute__((always_inline)) { store(sums + r * wide + c, sum); });
            else
              tile.template finish<lanes>([&](int r, int c, real sum, auto) __attribute__((always_inline)) {
                float* const at = sums + r * wide + c;
                store(at, load(at) + sum);
              });
          }
        });
  }
}

/// Where the tiles of the input lie.
template <WinogradShape Shape>
inline constexpr InputTiles input_tiles = {
    Shape.columns(), Shape.rows() * Shape.columns(), Shape.channels, Shape.in_row * Shape.pixel(),
    Shape.pixel(),   Shape.image(),                  Shape.row(),    Shape.point()};

/// No more than Shape.block() tiles, in whole rows of the tile of sums but for the last of all, and some panels.
template <WinogradShape Shape, class Finish>
FXX_KERNEL void tiles(Range some, Range panels, const float* __restrict in, const float* __restrict packed,
                      float* __restrict workspace, const Finish& finish) {
  constexpr int points = Shape.points();
  float* const transformed = workspace;
  float* const products = workspace + static_cast<std::ptrdiff_t>(points) * Shape.point();
  constexpr auto& input = input_tiles<Shape>;
  transform_inputs<Shape.outputs, Shape.channels % lanes>(input, some, in, transformed);
  detail_of_gemm::for_each_panel<Shape.out_channels, Shape.tile().vectors>([&](
      int number, int channel, auto vectors, auto last) __attribute__((always_inline)) {
    if (number < panels.begin || number >= panels.end) return;
    constexpr int wide = vectors * lanes;
    const float* const weights = packed + static_cast<std::ptrdiff_t>(channel) * points * Shape.channels;
    multiply_points<Shape, vectors>(some.end - some.begin, transformed, weights, products);
    for_tiles<Shape>(
        some, [&](int t, int image, int y, int x) __attribute__((always_inline)) {
          const float* from = products + t * wide;
          constexpr int whole = last == lanes ? wide : wide - lanes;
          const auto again = [&](int v) __attribute__((always_inline)) {
            return [=](real* sums) __attribute__((always_inline)) {
              sums_of_tile<Shape.outputs>(input, in + image * input.image + y * input.row + x * input.pixel, weights + v,
                                          wide, sums);
            };
          };
          for (int v = 0; v < whole; v += lanes)
            transform_output<Shape, lanes>(from + v, image, y, x, channel + v, again(v), finish);
          if constexpr (whole < wide)
            transform_output<Shape, last>(from + whole, image, y, x, channel + whole, again(whole), finish);
        });
  });
}

}  // namespace detail_of_winograd

namespace detail_of_winograd {
/// Panels of `wide` outputs.
template <int Outputs, class Weights>
[[gnu::noinline]] void pack(float* packed, int channels, int out_channels, int wide, const Weights& weights) {
  constexpr int side = Outputs + 2, points = side * side;
  constexpr auto& transform = Transform<Outputs>::weights;
  for (int first = 0; first < out_channels; first += wide) {
    const int left = vectors_of(out_channels - first) * lanes, width = left < wide ? left : wide;
    for (int n = first; n < first + width; ++n)
      for (int c = 0; c < channels; ++c) {
        double rows[side][3];
        for (int i = 0; i < side; ++i)
          for (int s = 0; s < 3; ++s) {
            rows[i][s] = 0;
            for (int r = 0; r < 3 && n < out_channels; ++r)
              rows[i][s] += transform[i][r] * double(weights(n, r, s, c));
          }
        for (int i = 0; i < side; ++i)
          for (int j = 0; j < side; ++j) {
            double value = 0;
            for (int s = 0; s < 3; ++s) value += rows[i][s] * transform[j][s];
            packed[(static_cast<std::ptrdiff_t>(i * side + j) * channels + c) * width + n - first] =
                static_cast<float>(value);
          }
      }
    packed += static_cast<std::ptrdiff_t>(points) * channels * width;
  }
}
}  // namespace detail_of_winograd

/// Weights for `winograd`, transformed; Shape.packed() floats. `weights(n, r, s, c)` gives an element.
template <WinogradShape Shape, class Weights>
void pack_winograd(float* packed, const Weights& weights) {
  constexpr int wide = Shape.tile().vectors * lanes;
  detail_of_winograd::pack<Shape.outputs>(packed, Shape.channels, Shape.out_channels, wide, weights);
}

/// The convolution; `workspace` has Shape.workspace() floats for each part. `finish(image, y, x, channel, sum, width)`
/// gets every sum once. Errors as above.
template <WinogradShape Shape, class Finish>
FXX_KERNEL void winograd(Part part, const float* __restrict in, const float* __restrict packed,
                         float* __restrict workspace, const Finish& finish) {
  static_assert(Shape.outputs == 2 || Shape.outputs == 4, "fxx::kernels: tiles have 2 x 2 or 4 x 4 outputs");
  static_assert(Shape.in_row >= Shape.columns() * Shape.outputs + 2,
                "fxx::kernels: a row of the input is filled up to whole tiles, and two pixels more");
  constexpr TileShape shape = Shape.tile();
  constexpr int panels = (vectors_of(Shape.out_channels) + shape.vectors - 1) / shape.vectors;
  constexpr int block = Shape.block() >= Shape.tiles() ? Shape.tiles() : Shape.block() / shape.rows * shape.rows;
  const Range mine = Shape.parts_of_tiles() ? part.of(Shape.tiles(), shape.rows) : Range{0, Shape.tiles()};
  const Range my_panels = Shape.parts_of_tiles() ? Range{0, panels} : part.of(panels);
  workspace += part.index * static_cast<std::ptrdiff_t>(Shape.workspace());
  for (int first = mine.begin; first < mine.end; first += block)
    detail_of_winograd::tiles<Shape>({first, first + block < mine.end ? first + block : mine.end}, my_panels, in,
                                     packed, workspace, finish);
}

}  // namespace fxx::kernels::inline FXX_KERNEL_ISA

#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif
