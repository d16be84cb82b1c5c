// Products with a matrix that is made while the program runs.
//
// For many rows it is packed as `gemm` reads it (pack_rows, pack_columns), a vector at a time. For few, which read it once,
// packing would take longer than the product: `matmul_by_rows` multiplies with a matrix where it lies row by row, as
// torch::bmm gets it, `matmul_by_columns` where it lies column by column, as a transposed one does:
//
//   matmul_by_rows<M, N, K, a_stride, stride>(part, a, matrix,
//                                             [&](int row, int column, real sum, auto width) { ... });
//
// `finish` and errors are gemm's. By rows, sums run over k in order, in chains as there; by columns, each is that of as
// many as a vector has elements, of which each has its own chains. A part is some of the columns.
// Main names: matmul_by_rows, matmul_by_columns, pack_rows, pack_columns. Cost: light; each takes the compiler 0.07 s.
#pragma once

#include "fxx/kernels/gemm.hpp"
#include "fxx/kernels/transpose.hpp"

#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

namespace fxx::kernels::inline FXX_KERNEL_ISA {

namespace detail_of_gemm {
/// Calls `each(column, width, where k = 0 of these columns is packed, floats to the next k)` for this part of the
/// vectors of columns.
template <int N, int K, int Vectors, class Each>
FXX_KERNEL void for_packed_vectors(Part part, float* packed, const Each& each) {
  const Range mine = part.of(N, lanes);
  for_each_panel<N, Vectors>([&](int, int first, auto vectors, auto last) __attribute__((always_inline)) {
    constexpr int wide = vectors * lanes;
    const auto vector = [&](int column, auto width) __attribute__((always_inline)) {
      if (column >= mine.begin && column < mine.end)
        each(column, width, packed + static_cast<std::ptrdiff_t>(first) * K + (column - first), wide);
    };
    for (int column = first; column < first + wide - lanes; column += lanes) vector(column, Width<lanes>{});
    vector(first + wide - lanes, last);
  });
}
/// Some of `M` rows, in tiles of `Rows`, with columns of a matrix whose rows lie `Apart` floats apart.
template <int M, int K, int Stride, int Apart, int Rows, int Vectors, int Last, class Finish>
FXX_KERNEL void product_in_place(Range rows, const float* __restrict a, const float* __restrict matrix, int column,
                                 const Finish& finish) {
  for_row_tiles<M, Rows>(
      rows, [&]<int Count>(Width<Count>, int row) __attribute__((always_inline)) {
        using Sums = TileOfDepth<Count, Vectors, K>;
        typename Sums::Totals totals;
        Sums tile(totals);
        tile.template add<Stride, Apart, Last>(a + static_cast<std::ptrdiff_t>(row) * Stride, matrix, Width<K>{});
        tile.complete();
        tile.template finish<Last>([&](int r, int c, real sum, auto width)
                                       __attribute__((always_inline)) { finish(row + r, column + c, sum, width); });
      });
}
}  // namespace detail_of_gemm

/// Packs for `gemm` with this tile what lies row by row, `Stride` floats apart: element (k, n) is matrix[k * Stride + n].
/// A part is some of the columns. Exact; a vector at a time.
template <int N, int K, int Stride, TileShape Shape>
FXX_KERNEL void pack_rows(Part part, float* packed, const float* __restrict matrix) {
  detail_of_gemm::for_packed_vectors<N, K, Shape.vectors>(
      part, packed, [&](int column, auto width, float* to, int step) __attribute__((always_inline)) {
        const float* from = matrix + column;
#pragma GCC unroll 4
        for (int k = 0; k < K; ++k)
          store(to + k * step, load_some<width>(from + static_cast<std::ptrdiff_t>(k) * Stride));
      });
}
/// The same of what lies column by column: element (k, n) is matrix[n * Stride + k].
template <int N, int K, int Stride, TileShape Shape>
FXX_KERNEL void pack_columns(Part part, float* packed, const float* __restrict matrix) {
  detail_of_gemm::for_packed_vectors<N, K, Shape.vectors>(
      part, packed, [&](int column, auto width, float* to, int step) __attribute__((always_inline)) {
        const float* from = matrix + static_cast<std::ptrdiff_t>(column) * Stride;
        const auto square = [&]<int Count>(Width<Count>, int k) __attribute__((always_inline)) {
          constexpr int columns = width;
          Square v{};
#pragma GCC unroll 16
          for (int n = 0; n < columns; ++n)
            v.rows[n] = load_some<Count>(from + static_cast<std::ptrdiff_t>(n) * Stride + k);
          v.transpose();
#pragma GCC unroll 16
          for (int i = 0; i < Count; ++i) store(to + (k + i) * step, v.rows[i]);
        };
        constexpr int whole = K / lanes * lanes;
        for (int k = 0; k < whole; k += lanes) square(Width<lanes>{}, k);
        if constexpr (K > whole) square(Width<K - whole>{}, whole);
      });
}

/// `M` rows of `a`, `Stride` floats apart, times a matrix that lies row by row, `Apart` floats apart: element (k, n) is
/// matrix[k * Apart + n]. M N K multiplications and additions; the matrix is read once a tile of rows.
template <int M, int N, int K, int Stride, int Apart, class Finish>
FXX_KERNEL void matmul_by_rows(Part part, const float* __restrict a, const float* __restrict matrix,
                               const Finish& finish) {
  constexpr TileShape shape = gemm_tile(M, N, Stride, Distance::near);
  constexpr int panels = (vectors_of(N) + shape.vectors - 1) / shape.vectors;
  detail_of_gemm::for_each_panel<N, shape.vectors>([&](int panel, int column, auto vectors,
                                                       auto last) __attribute__((always_inline)) {
    detail_of_gemm::product_in_place<M, K, Stride, Apart, shape.rows, vectors, last>(
        detail_of_gemm::rows_of_panel<M, shape.rows, panels>(part, panel), a, matrix + column, column, finish);
  });
}

namespace detail_of_gemm {
/// Sums of products of a row of `K` elements with each of `Count` others, no more than a vector has elements: that of
/// number n lies `Apart * place(n)` floats behind `others`.
template <int K, int Apart, int Count, class Place>
FXX_KERNEL real row_by_others(const float* __restrict row, const float* __restrict others, const Place& place) {
  constexpr int few = lanes < 16 ? lanes / 2 : lanes, most = Count < few ? Count : few;  // sums that stay in registers
  constexpr int whole = K / lanes * lanes;
  constexpr int chain = longest_chain * lanes;  // each lane has a chain of its own
  Square square{};
#pragma GCC unroll 2
  for (int first = 0; first < Count; first += few) {
    real sums[most] = {};
    const auto end_chain = [&]() __attribute__((always_inline)) {
#pragma GCC unroll 16
      for (int n = 0; n < most; ++n)
        if (first + n < Count) square.rows[first + n] = square.rows[first + n] + sums[n], sums[n] = real{};
    };
    const auto add = [&](int k, auto width) __attribute__((always_inline)) {
      const real own = load_some<width>(row + k);
#pragma GCC unroll 16
      for (int n = 0; n < most; ++n)
        if (first + n < Count) {
          const float* const other = others + static_cast<std::ptrdiff_t>(place(first + n)) * Apart;
          sums[n] = multiply_add(own, load_some<width>(other + k), sums[n]);
        }
    };
    // Long rows are 12 % slower with AVX2 when this is unrolled, short ones up to 8 % faster.
    if constexpr (whole <= 128) {
#pragma GCC unroll 4
      for (int k = 0; k < whole; k += lanes) add(k, Width<lanes>{});
    } else if constexpr (whole <= chain) {
      for (int k = 0; k < whole; k += lanes) add(k, Width<lanes>{});
    } else {
      for (int k = 0; k < whole;) {
        const int end = whole - k < chain ? whole : k + chain;
        for (; k < end; k += lanes) add(k, Width<lanes>{});
        if (k < whole) end_chain();
      }
    }
    if constexpr (K > whole) add(whole, Width<K - whole>{});
    if constexpr (whole > chain) {
      end_chain();
    } else {
#pragma GCC unroll 16
      for (int n = 0; n < most; ++n)
        if (first + n < Count) square.rows[first + n] = sums[n];
    }
  }
  return square.sums_of_each();
}
}  // namespace detail_of_gemm

/// The same where the matrix lies column by column: element (k, n) is matrix[n * Apart + k]. It is read once a row.
template <int M, int N, int K, int Stride, int Apart, class Finish>
FXX_KERNEL void matmul_by_columns(Part part, const float* __restrict a, const float* __restrict matrix,
                                  const Finish& finish) {
  constexpr int whole = N / lanes * lanes;
  const auto vector = [&]<int Count>(int column, Width<Count> width) __attribute__((always_inline)) {
    for (int row = 0; row < M; ++row)
      finish(row, column,
             detail_of_gemm::row_by_others<K, Apart, Count>(
                 a + static_cast<std::ptrdiff_t>(row) * Stride, matrix + static_cast<std::ptrdiff_t>(column) * Apart,
                 [](int n) __attribute__((always_inline)) { return n; }),
             width);
  };
  const Range mine = part.of(N, lanes);
  for (int column = mine.begin; column < mine.end && column < whole; column += lanes) vector(column, Width<lanes>{});
  if constexpr (N > whole)
    if (mine.end > whole) vector(whole, Width<N - whole>{});
}

}  // namespace fxx::kernels::inline FXX_KERNEL_ISA

#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif
