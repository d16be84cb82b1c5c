// Matrix products of sizes that are known: the micro-kernel, packed weights, the loop around them.
//
//   out[m][n] = finish(sum over k of a[m][k] w[k][n])
//
// The weights are packed once (pack_weights) into panels as wide as the tile; the last is filled up with zeros. What
// becomes of a sum is the caller's: `finish(row, column, sum, width)` gets `width` elements of it, from `column` on, and
// stores them, so bias, activation and what is added are computed before anything is written:
//
//   gemm<M, N, K, K>(a, weights, [&](int row, int column, real sum, auto width) {
//     store_some<width>(out + row * N + column, no_less(sum + load_some<width>(bias + column), 0.f));
//   });
//
// Sums run over k in order, one rounding a product where the processor has it: within K units of the last place of
// sum |a w|. The tile of AVX-512 reaches 99 % of the arithmetic peak where `a` and a panel lie in the cache.
// Main names: gemm, Tile, TileShape, gemm_tile, packed_size, pack_weights. Cost: light; a product takes the compiler 0.07 s.
#pragma once

#include "fxx/kernels/vector.hpp"

#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

namespace fxx::kernels::inline FXX_KERNEL_ISA {

/// A number as a type, for arguments that choose what is compiled.
template <int N>
struct Width {
  static constexpr int value = N;
  constexpr operator int() const { return N; }
};

/// Rows and vectors of sums that stay in registers.
struct TileShape {
  int rows, vectors;
};
/// The tile that takes the least time for so many rows and vectors. A processor loads as often as it multiplies, and for
/// each k a tile loads its vectors and an element of every row; ten multiplications hide how long one takes.
constexpr TileShape tile_shape(int rows, int vectors, int most_rows = 14) {
  const int registers = lanes == 16 ? 32 : 16;
  const auto cycles = [](int r, int v) {
    if (r * v == 0) return 0;
    const int loads = v + r, products = r * v;
    const int most = loads > products ? loads : products;
    return (most > 10 ? most : 10) * 16 + 8;  // and what starting and ending a tile takes
  };
  TileShape best{1, 1};
  long least = -1;
  for (int v = 1; v <= 4 && v <= vectors; ++v)
    for (int r = 1; r <= most_rows && r <= rows && r * v + v + 1 <= registers; ++r) {
      const long whole_rows = rows / r, whole_panels = vectors / v;
      const int last_row = rows % r, last_panel = vectors % v;
      const long time = whole_panels * (whole_rows * cycles(r, v) + cycles(last_row, v)) +
                        whole_rows * cycles(r, last_panel) + cycles(last_row, last_panel);
      if (least < 0 || time <= least) {
        least = time;
        best = {r, v};
      }
    }
  return best;
}
/// Of a product of `m` rows that lie `stride` floats apart. Rows that lie a multiple of 4096 bytes apart share one set
/// of the cache, so there are no more of them than it has ways.
constexpr TileShape gemm_tile(int m, int n, int stride) {
  return tile_shape(m, vectors_of(n), stride % 1024 == 0 ? 8 : 14);
}

/// `Rows` by `Vectors` vectors of sums in registers.
template <int Rows, int Vectors>
struct Tile {
  real sums[Rows][Vectors];

  FXX_KERNEL Tile() {
#pragma GCC unroll 32
    for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 8
      for (int v = 0; v < Vectors; ++v) sums[r][v] = real{};
  }
  /// Adds products of rows of `a`, `Stride` floats apart, with `depth` rows of a panel, which lie `PanelStride` apart
  /// and whose last vector has `Last` elements.
  template <int Stride, int PanelStride = Vectors * lanes, int Last = lanes>
  FXX_KERNEL void add(const float* __restrict a, const float* __restrict panel, int depth) {
#pragma GCC unroll 2
    for (int k = 0; k < depth; ++k) {
      real weights[Vectors];
#pragma GCC unroll 8
      for (int v = 0; v < Vectors - 1; ++v) weights[v] = load(panel + v * lanes);
      weights[Vectors - 1] = load_some<Last>(panel + (Vectors - 1) * lanes);
      panel += PanelStride;
#pragma GCC unroll 32
      for (int r = 0; r < Rows; ++r) {
        const real row = splat(a[r * Stride + k]);
#pragma GCC unroll 8
        for (int v = 0; v < Vectors; ++v) sums[r][v] = multiply_add(row, weights[v], sums[r][v]);
      }
    }
  }
  /// Of the last vector, `Last` elements count.
  template <int Last, class Finish>
  FXX_KERNEL void finish(const Finish& finish) const {
#pragma GCC unroll 32
    for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 8
      for (int v = 0; v < Vectors - 1; ++v) finish(r, v * lanes, sums[r][v], Width<lanes>{});
      finish(r, (Vectors - 1) * lanes, sums[r][Vectors - 1], Width<Last>{});
    }
  }
};

namespace detail_of_gemm {
/// All rows of `a` with one panel.
template <int M, int K, int Stride, int Rows, int Vectors, int Last, class Finish>
FXX_KERNEL void panel_product(const float* __restrict a, const float* __restrict panel, int column,
                              const Finish& finish) {
  constexpr int whole = M / Rows * Rows;
  const auto some_rows = [&]<int Count>(Width<Count>, int row) __attribute__((always_inline)) {
    Tile<Count, Vectors> tile;
    tile.template add<Stride>(a + static_cast<std::ptrdiff_t>(row) * Stride, panel, K);
    tile.template finish<Last>([&](int r, int c, real sum, auto width) __attribute__((always_inline)) {
      finish(row + r, column + c, sum, width);
    });
  };
  for (int row = 0; row < whole; row += Rows) some_rows(Width<Rows>{}, row);
  if constexpr (M > whole) some_rows(Width<M - whole>{}, whole);
}
}  // namespace detail_of_gemm

/// Floats of packed weights: columns are filled up to whole vectors.
constexpr std::size_t packed_size(int n, int k) {
  return static_cast<std::size_t>(vectors_of(n)) * lanes * static_cast<std::size_t>(k);
}
/// Packs weights for `gemm` with this tile: `weights(column, k)` gives an element. Panels stand behind each other, each
/// k by k; the last has as many vectors as are left.
template <class Weights>
void pack_weights(float* packed, int n, int k, TileShape shape, const Weights& weights) {
  for (int first = 0; first < n; first += shape.vectors * lanes) {
    const int left = vectors_of(n - first), vectors = left < shape.vectors ? left : shape.vectors;
    for (int row = 0; row < k; ++row)
      for (int column = first; column < first + vectors * lanes; ++column)
        *packed++ = column < n ? weights(column, row) : 0.f;
  }
}

/// `M` rows of `a`, `Stride` floats apart, times packed weights of `N` columns.
template <int M, int N, int K, int Stride, TileShape Shape = gemm_tile(M, N, Stride), class Finish>
FXX_KERNEL void gemm(const float* __restrict a, const float* __restrict packed, const Finish& finish) {
  constexpr int wide = Shape.vectors * lanes, whole = N / wide * wide;
  for (int column = 0; column < whole; column += wide)
    detail_of_gemm::panel_product<M, K, Stride, Shape.rows, Shape.vectors, lanes>(
        a, packed + static_cast<std::ptrdiff_t>(column) * K, column, finish);
  if constexpr (N > whole) {
    constexpr int vectors = vectors_of(N - whole);
    detail_of_gemm::panel_product<M, K, Stride, Shape.rows, vectors, N - whole - (vectors - 1) * lanes>(
        a, packed + static_cast<std::ptrdiff_t>(whole) * K, whole, finish);
  }
}

}  // namespace fxx::kernels::inline FXX_KERNEL_ISA

#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif
