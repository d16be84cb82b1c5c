// Softmax and normalisation of rows whose length is known, fused with what stands before and behind them.
//
// `get(column, width)` gives `width` elements of the row, computed or loaded; it is asked once for each. `put(column,
// value, width)` gets the results:
//
//   softmax<128>([&](int c, auto width) { return load_some<width>(scores + c) * scale + load_some<width>(mask + c); },
//                [&](int c, real p, auto width) { store_some<width>(weights + c, p); });
//
// A row stands on the stack in between, so it should fit into the first cache: some thousand elements.
// Main names: softmax, softmax_in_place, log_softmax, layer_norm, rms_norm, row_sum, row_largest. Cost: light; each takes the compiler
// 0.05 s.
#pragma once

#include "fxx/kernels/gemm.hpp"

#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

namespace fxx::kernels::inline FXX_KERNEL_ISA {

namespace detail_of_rows {
/// The first `Count` elements, `otherwise` behind them.
template <int Count>
FXX_KERNEL real first_or(real v, float otherwise) {
  if constexpr (Count == lanes) {
    return v;
  } else {
    integer index;
#pragma GCC unroll 16
    for (int i = 0; i < lanes; ++i) index[i] = i;
    return index < Count ? v : splat(otherwise);
  }
}
/// Calls `each(column, width)` for the vectors of a row of N elements.
template <int N, class Each>
FXX_KERNEL void for_each_vector(const Each& each) {
  constexpr int whole = N / lanes * lanes;
#pragma GCC unroll 4
  for (int column = 0; column < whole; column += lanes) each(column, Width<lanes>{});
  if constexpr (N > whole) each(whole, Width<N - whole>{});
}
/// A row on the stack.
template <int N>
struct Row {
  real vectors[vectors_of(N)];
  FXX_KERNEL real& operator[](int column) { return vectors[column / lanes]; }
  template <class Get>
  FXX_KERNEL explicit Row(const Get& get) {
    for_each_vector<N>([&](int c, auto width) __attribute__((always_inline)) { (*this)[c] = get(c, width); });
  }
};
/// Combines `of(vector)` of all vectors; elements behind the row count as `neutral`.
template <int N, class Of, class Combine>
FXX_KERNEL real combined(Row<N>& row, float neutral, const Of& of, const Combine& combine) {
  // Two chains, so that one addition need not wait for the other.
  real chains[2] = {splat(neutral), splat(neutral)};
  for_each_vector<N>([&](int c, auto width) __attribute__((always_inline)) {
    real& chain = chains[c / lanes % 2];
    chain = combine(chain, first_or<width>(of(row[c]), neutral));
  });
  return combine(chains[0], chains[1]);
}
template <int N, class Of>
FXX_KERNEL float sum_of(Row<N>& row, const Of& of) {
  return sum(combined(row, 0.f, of, [](real a, real b) __attribute__((always_inline)) { return a + b; }));
}
template <int N>
FXX_KERNEL float largest_of(Row<N>& row) {
  return largest(combined(
      row, -__builtin_inff(), [](real v) __attribute__((always_inline)) { return v; },
      [](real a, real b) __attribute__((always_inline)) { return maximum(a, b); }));
}
/// e^x for x of no more than zero, and exactly 0 where that would be less than 1e-38.
FXX_KERNEL real vanishing_exponential(real x) { return x < -87.f ? splat(0.f) : exponential_above(x); }
}  // namespace detail_of_rows

/// Sum of a row, in lanes and then of these: within N / lanes + 4 units of the last place of the sum of magnitudes.
template <int N, class Get>
FXX_KERNEL float row_sum(const Get& get) {
  detail_of_rows::Row<N> row(get);
  return detail_of_rows::sum_of(row, [](real v) __attribute__((always_inline)) { return v; });
}
/// nan when the row has one.
template <int N, class Get>
FXX_KERNEL float row_largest(const Get& get) {
  detail_of_rows::Row<N> row(get);
  return detail_of_rows::largest_of(row);
}

/// e^x / sum of e^x. As in LibTorch, a row with nan, with plus infinity, or of nothing but minus infinity is all nan.
/// Error: 4 units, and as a part of the result what rounding x - largest loses, as in any such computation in floats.
template <int N, class Get, class Put>
FXX_KERNEL void softmax(const Get& get, const Put& put) {
  using namespace detail_of_rows;
  Row<N> row(get);
  const float most = largest_of(row);
  for_each_vector<N>([&](int c, auto) __attribute__((always_inline)) { row[c] = vanishing_exponential(row[c] - most); });
  const float factor = 1.f / sum_of(row, [](real v) __attribute__((always_inline)) { return v; });
  for_each_vector<N>([&](int c, auto width) __attribute__((always_inline)) { put(c, row[c] * factor, width); });
}
/// softmax of a row in memory whose length is known when it runs. It has room for whole vectors; what is behind its
/// end becomes 0.
FXX_KERNEL void softmax_in_place(float* row, int count) {
  using namespace detail_of_rows;
  const int size = vectors_of(count) * lanes;
  for (int i = count; i < size; ++i) row[i] = -__builtin_inff();
  real most = load(row);
  for (int i = lanes; i < size; i += lanes) most = maximum(most, load(row + i));
  const float top = largest(most);
  real total = splat(0.f);
  for (int i = 0; i < size; i += lanes) {
    const real e = vanishing_exponential(load(row + i) - top);
    total = total + e;
    store(row + i, e);
  }
  const float factor = 1.f / sum(total);
  for (int i = 0; i < size; i += lanes) store(row + i, load(row + i) * factor);
}
/// x - log(sum of e^x).
template <int N, class Get, class Put>
FXX_KERNEL void log_softmax(const Get& get, const Put& put) {
  using namespace detail_of_rows;
  Row<N> row(get);
  const float most = largest_of(row);
  const float total = sum_of(row, [&](real v) __attribute__((always_inline)) { return vanishing_exponential(v - most); });
  const float shift = logarithm(splat(total))[0];
  for_each_vector<N>([&](int c, auto width) __attribute__((always_inline)) { put(c, (row[c] - most) - shift, width); });
}

/// (x - mean) / sqrt(variance + eps), the variance being that of all elements, around the mean.
template <int N, class Get, class Put>
FXX_KERNEL void layer_norm(float eps, const Get& get, const Put& put) {
  using namespace detail_of_rows;
  Row<N> row(get);
  const float mean = sum_of(row, [](real v) __attribute__((always_inline)) { return v; }) * (1.f / N);
  const float squares = sum_of(row, [&](real v) __attribute__((always_inline)) { return (v - mean) * (v - mean); });
  const float factor = 1.f / __builtin_sqrtf(squares * (1.f / N) + eps);
  for_each_vector<N>([&](int c, auto width) __attribute__((always_inline)) { put(c, (row[c] - mean) * factor, width); });
}
/// x / sqrt(mean of x^2 + eps).
template <int N, class Get, class Put>
FXX_KERNEL void rms_norm(float eps, const Get& get, const Put& put) {
  using namespace detail_of_rows;
  Row<N> row(get);
  const float squares = sum_of(row, [](real v) __attribute__((always_inline)) { return v * v; });
  const float factor = 1.f / __builtin_sqrtf(squares * (1.f / N) + eps);
  for_each_vector<N>([&](int c, auto width) __attribute__((always_inline)) { put(c, row[c] * factor, width); });
}

}  // namespace fxx::kernels::inline FXX_KERNEL_ISA

#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif
