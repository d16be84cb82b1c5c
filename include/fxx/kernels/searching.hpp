// Where elements would stand in a row that is in order.
//
//   places_among<100, false>(boundaries, 1, load_some<width>(x + i), [](int) { return 0; }, width)
//
// Exact.
// Main names: places_among. Cost: light.
#pragma once

#include "fxx/kernels/integers.hpp"

#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

namespace fxx::kernels::inline FXX_KERNEL_ISA {

namespace detail_of_searching {
template <class T, class V>
FXX_KERNEL bool is_behind(T element, V x, bool right) {
  return right ? !(element > x) : !(element >= x);  // nan is behind all
}
}  // namespace detail_of_searching

/// How many of N elements, `stride` apart and in order, are less than x (`Right`: no more than it): of all of them for nan.
/// The row of element e begins at `from[at(e)]`. `x`: floats, or integers, of which the first `width` count.
template <int N, bool Right, class T, class V, class At, int Count>
FXX_KERNEL integer_64 places_among(const T* from, std::ptrdiff_t stride, V x, const At& at, Width<Count>) {
  return detail_of_integers::elements([&](int e) __attribute__((always_inline)) {
    if (e >= Count) return std::int64_t{0};
    const T* row = from + at(e);
    // Halves what is left, whichever half that is.
    std::ptrdiff_t first = 0;
    for (std::ptrdiff_t left = N; left > 0;) {
      const std::ptrdiff_t half = left / 2;
      const bool behind = detail_of_searching::is_behind(row[(first + half) * stride], x[e], Right);
      first += behind ? half + 1 : 0;
      left = behind ? left - half - 1 : half;
    }
    return std::int64_t{first};
  });
}

}  // namespace fxx::kernels::inline FXX_KERNEL_ISA

#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif
