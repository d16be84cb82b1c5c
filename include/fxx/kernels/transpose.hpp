// Matrices of floats transposed, a square of vectors at a time in registers.
//
//   transpose<rows, columns, row_stride, out_stride>(in, out);                     // out[c][r] = in[r][c]
//   transpose<rows, columns>([&](int r, int c, auto width) { return ...; },        // fused with what stands before
//                            [&](int c, int r, real value, auto width) { ... });   // and behind
//   transpose<rows, columns>(part.of(columns, lanes), ..., ...);                   // some of the columns
//   rows_as_columns<rows, length>(range, get, [&](const real* elements, int row, auto width) { ... });
//
// Exact. A channels-first image becomes one of channels last as a transpose of channels by pixels.
// Main names: transpose, rows_as_columns, Square, sums_of_each. Cost: light; a transpose takes the compiler 0.1 s.
#pragma once

#include "fxx/kernels/gemm.hpp"

#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

namespace fxx::kernels::inline FXX_KERNEL_ISA {

namespace detail_of_transpose {
/// Elements of `a` where the place has no bit of `D`, the others from `b`; of `b` those that stand D lower.
template <int D, int... I>
FXX_KERNEL real even_of(real a, real b, kernels::detail::Indices<I...>) {
  return __builtin_shufflevector(a, b, ((I & D) == 0 ? I : lanes + I - D)...);
}
template <int D, int... I>
FXX_KERNEL real odd_of(real a, real b, kernels::detail::Indices<I...>) {
  return __builtin_shufflevector(a, b, ((I & D) == 0 ? I + D : lanes + I)...);
}
template <int D>
FXX_KERNEL void transpose_by(real* rows) {
  constexpr auto all = kernels::detail::indices<lanes>();
#pragma GCC unroll 16
  for (int i = 0; i < lanes; ++i)
    if ((i & D) == 0) {
      const real a = rows[i], b = rows[i + D];
      rows[i] = even_of<D>(a, b, all);
      rows[i + D] = odd_of<D>(a, b, all);
    }
  if constexpr (2 * D < lanes) transpose_by<2 * D>(rows);
}
/// Halves the number of vectors, whose elements come to stand for more and more of them.
template <int D>
FXX_KERNEL void add_by(real* rows) {
  constexpr auto all = kernels::detail::indices<lanes>();
#pragma GCC unroll 16
  for (int i = 0; i < lanes; i += 2 * D)
    rows[i] = even_of<D>(rows[i], rows[i + D], all) + odd_of<D>(rows[i], rows[i + D], all);
  if constexpr (2 * D < lanes) add_by<2 * D>(rows);
}
}  // namespace detail_of_transpose

/// As many vectors as one has elements.
struct Square {
  real rows[lanes];
  /// Row i becomes column i.
  FXX_KERNEL void transpose() { detail_of_transpose::transpose_by<1>(rows); }
  /// Element i is the sum of row i. The rows are used up.
  FXX_KERNEL real sums_of_each() {
    detail_of_transpose::add_by<1>(rows);
    return rows[0];
  }
};

namespace detail_of_transpose {
template <int Rows, int Columns, class Get, class Put>
FXX_KERNEL void block(int row, int column, const Get& get, const Put& put) {
  Square square;
#pragma GCC unroll 16
  for (int i = 0; i < lanes; ++i) square.rows[i] = i < Rows ? get(row + i, column, Width<Columns>{}) : real{};
  square.transpose();
#pragma GCC unroll 16
  for (int i = 0; i < Columns; ++i) put(column + i, row, square.rows[i], Width<Rows>{});
}
}  // namespace detail_of_transpose

/// `get(row, column, width)` gives `width` elements of a row; `put(column, row, value, width)` gets as many of a
/// column, which are a row of the result.
/// `some`: the columns, from a multiple of the lanes up to one, or up to the last.
template <int Rows, int Columns, class Get, class Put>
FXX_KERNEL void transpose(Range some, const Get& get, const Put& put) {
  constexpr int whole_rows = Rows / lanes * lanes, whole_columns = Columns / lanes * lanes;
  const auto columns = [&]<int Count>(int row, Width<Count>) __attribute__((always_inline)) {
    for (int column = some.begin; column + lanes <= some.end; column += lanes)
      detail_of_transpose::block<Count, lanes>(row, column, get, put);
    if constexpr (Columns > whole_columns)
      if (some.begin <= whole_columns && some.end > whole_columns)
        detail_of_transpose::block<Count, Columns - whole_columns>(row, whole_columns, get, put);
  };
  for (int row = 0; row < whole_rows; row += lanes) columns(row, Width<lanes>{});
  if constexpr (Rows > whole_rows) columns(whole_rows, Width<Rows - whole_rows>{});
}
/// All columns.
template <int Rows, int Columns, class Get, class Put>
  requires(!__is_same(Get, const float*) && !__is_same(Get, float*))
FXX_KERNEL void transpose(const Get& get, const Put& put) {
  transpose<Rows, Columns>(Range{0, Columns}, get, put);
}
/// The same of matrices in memory, whose rows lie so far apart.
template <int Rows, int Columns, int RowStride = Columns, int OutStride = Rows>
FXX_KERNEL void transpose(const float* __restrict in, float* __restrict out) {
  transpose<Rows, Columns>(
      [&](int row, int column, auto width) __attribute__((always_inline)) {
        return load_some<width>(in + static_cast<std::ptrdiff_t>(row) * RowStride + column);
      },
      [&](int column, int row, real value, auto width) __attribute__((always_inline)) {
        store_some<width>(out + static_cast<std::ptrdiff_t>(column) * OutStride + row, value);
      });
}
/// Short rows, a vector of them at a time: `run(elements, row, width)` gets vectors of which `elements[k]` has element k
/// of `width` rows, the first of them `row`. `get(row, k, width)` gives `width` elements of a row.
/// `some`: the rows, from a multiple of the lanes up to one, or up to the last.
template <int Rows, int Length, class Get, class Run>
FXX_KERNEL void rows_as_columns(Range some, const Get& get, const Run& run) {
  constexpr int squares = (Length + lanes - 1) / lanes;
  const auto block = [&]<int Count>(int row, Width<Count> width) __attribute__((always_inline)) {
    Square all[squares];
#pragma GCC unroll 16
    for (int s = 0; s < squares; ++s) {
#pragma GCC unroll 16
      for (int i = 0; i < lanes; ++i) {
        constexpr Width<(Length < lanes ? Length : lanes)> most{};
        constexpr Width<Length - (squares - 1) * lanes> last{};
        if (i >= Count) all[s].rows[i] = real{};
        else if (s == squares - 1) all[s].rows[i] = get(row + i, s * lanes, last);
        else all[s].rows[i] = get(row + i, s * lanes, most);
      }
      all[s].transpose();
    }
    run(all[0].rows, row, width);
  };
  int row = some.begin;
  for (; row + lanes <= some.end; row += lanes) block(row, Width<lanes>{});
  if constexpr (Rows % lanes != 0)
    if (row < some.end) block(row, Width<Rows % lanes>{});
}

}  // namespace fxx::kernels::inline FXX_KERNEL_ISA

#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif
