// Vectors as wide as those of the processor that the file is compiled for, and what kernels do with them.
//
// Generated code is compiled for one processor (-march=native), so unlike in kernels/pointwise.hpp there is one set of
// functions. All of it stands in an inline namespace of the instruction set's name: files that were compiled for
// different ones may be linked together, and share nothing.
// Main names: real, integer, lanes, load, store, load_some, store_some, sum, largest, FXX_KERNEL. Cost: light, 0.1 s.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fxx/kernels/expression.hpp"
#include "fxx/kernels/processor.hpp"

#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"  // nothing that takes vectors is called, all is inlined
#endif

namespace fxx::kernels {

namespace detail::native {
#define FXX_KERNEL_SET FXX_KERNEL_ISA
#define FXX_KERNEL_TARGET
#include "fxx/kernels/functions.inc"
}  // namespace detail::native

inline namespace FXX_KERNEL_ISA {

using namespace detail::native::FXX_KERNEL_ISA;

/// Vectors that hold so many elements, the last one in part.
constexpr int vectors_of(int elements) { return (elements + lanes - 1) / lanes; }

/// The first `Count` elements; zeros behind them. Reads no more than these.
template <int Count>
FXX_KERNEL real load_some(const float* from) {
  static_assert(Count > 0 && Count <= lanes, "fxx::kernels: a vector has fewer elements than that");
  if constexpr (Count == lanes) {
    return load(from);
  } else if constexpr (lanes == 4 && Count >= 2) {
    // Not by way of memory, whose parts a processor would wait for.
    half low, high{};
    __builtin_memcpy(&low, from, sizeof low);
    if constexpr (Count == 3) high[0] = from[2];
    return joined(low, high);
  } else {
    real v{};
    __builtin_memcpy(&v, from, Count * sizeof(float));
    return v;
  }
}
/// Writes the first `Count` elements.
template <int Count>
FXX_KERNEL void store_some(float* to, real v) {
  static_assert(Count > 0 && Count <= lanes, "fxx::kernels: a vector has fewer elements than that");
  if constexpr (Count == lanes) {
    store(to, v);
  } else if constexpr (lanes == 4 && Count == 3) {
    const half low = lower_half(v);
    __builtin_memcpy(to, &low, sizeof low);
    to[2] = v[2];
  } else {
    __builtin_memcpy(to, &v, Count * sizeof(float));
  }
}

namespace detail_of_vectors {
template <int Shift, int... I>
FXX_KERNEL real rotated(real v, kernels::detail::Indices<I...>) {
  return __builtin_shufflevector(v, v, ((I + Shift) % lanes)...);
}
/// Combines all elements in pairs that lie half of the rest apart, so the order is the same whatever the compiler does.
template <int Shift, class Combine>
FXX_KERNEL real reduced(real v, Combine combine) {
  if constexpr (Shift == 0) return v;
  else return reduced<Shift / 2>(combine(v, rotated<Shift>(v, kernels::detail::indices<lanes>())), combine);
}
}  // namespace detail_of_vectors

FXX_KERNEL float sum(real v) {
  return detail_of_vectors::reduced<lanes / 2>(v, [](real a, real b) __attribute__((always_inline)) { return a + b; })[0];
}
/// nan when one of them is.
FXX_KERNEL float largest(real v) {
  return detail_of_vectors::reduced<lanes / 2>(
      v, [](real a, real b) __attribute__((always_inline)) { return maximum(a, b); })[0];
}

}  // namespace FXX_KERNEL_ISA

}  // namespace fxx::kernels

#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif
