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

namespace detail_of_vectors {
#if !defined(__clang__) && defined(__AVX512BW__) && defined(__AVX512VL__)
#define FXX_KERNEL_MASKED 1
#else
#define FXX_KERNEL_MASKED 0
#endif
#if !defined(__clang__) && defined(__AVX2__) && !defined(__AVX512F__)
#define FXX_KERNEL_MASKED_FLOATS 1
#else
#define FXX_KERNEL_MASKED_FLOATS 0
#endif
#if FXX_KERNEL_MASKED
// g++ puts a vector of which it fills a part together in memory, and the processor waits for the parts. Parts that are a
// shorter vector need no mask; what is written so may be read again at once.
template <int Size>
constexpr auto first_bytes(int count) {
  if constexpr (Size == 64) return count == 64 ? ~0ull : (1ull << count) - 1;
  else if constexpr (Size == 32) return static_cast<unsigned>((1ull << count) - 1);
  else return static_cast<unsigned short>((1u << count) - 1);
}
/// The first `Count` elements of a vector; zeros behind them.
template <class V, int Count, class T>
FXX_KERNEL V masked_load(const T* from) {
  constexpr int bytes = Count * static_cast<int>(sizeof(T));
  static_assert(bytes > 0 && bytes < static_cast<int>(sizeof(V)), "fxx::kernels: a part of a vector");
  V v;
  const T(&part)[Count] = *reinterpret_cast<const T(*)[Count]>(from);
  if constexpr (bytes == 32) asm("vmovups %1, %t0" : "=v"(v) : "m"(part));
  else if constexpr (bytes == 16) asm("vmovups %1, %x0" : "=v"(v) : "m"(part));
  else if constexpr (bytes == 8) asm("vmovq %1, %x0" : "=v"(v) : "m"(part));
  else if constexpr (bytes == 4) asm("vmovd %1, %x0" : "=v"(v) : "m"(part));
  else if constexpr (sizeof(V) == 64 && bytes % 4 == 0)
    asm("vmovups %1, %0%{%2%}%{z%}" : "=v"(v) : "m"(part), "Yk"(static_cast<unsigned short>((1u << bytes / 4) - 1)));
  else asm("vmovdqu8 %1, %0%{%2%}%{z%}" : "=v"(v) : "m"(part), "Yk"(first_bytes<sizeof(V)>(bytes)));
  return v;
}
template <int Count, class T, class V>
FXX_KERNEL void masked_store(T* to, V v) {
  constexpr int bytes = Count * static_cast<int>(sizeof(T));
  static_assert(bytes > 0 && bytes < static_cast<int>(sizeof(V)), "fxx::kernels: a part of a vector");
  T(&part)[Count] = *reinterpret_cast<T(*)[Count]>(to);
  if constexpr (bytes == 32) asm("vmovups %t1, %0" : "=m"(part) : "v"(v));
  else if constexpr (bytes == 16) asm("vmovups %x1, %0" : "=m"(part) : "v"(v));
  else if constexpr (bytes == 8) asm("vmovq %x1, %0" : "=m"(part) : "v"(v));
  else if constexpr (bytes == 4) asm("vmovd %x1, %0" : "=m"(part) : "v"(v));
  else if constexpr (sizeof(V) == 64 && bytes % 4 == 0)
    asm("vmovups %1, %0%{%2%}" : "=m"(part) : "v"(v), "Yk"(static_cast<unsigned short>((1u << bytes / 4) - 1)));
  else asm("vmovdqu8 %1, %0%{%2%}" : "=m"(part) : "v"(v), "Yk"(first_bytes<sizeof(V)>(bytes)));
}
#elif FXX_KERNEL_MASKED_FLOATS
template <int Count>
FXX_KERNEL real partial_load(const float* from) {
  const float(&part)[Count] = *reinterpret_cast<const float(*)[Count]>(from);
  real v;
  if constexpr (Count == 4) {
    asm("vmovups %1, %x0" : "=x"(v) : "m"(part));
  } else if constexpr (Count == 2) {
    asm("vmovq %1, %x0" : "=x"(v) : "m"(part));
  } else {
    integer mask{};
    for (int i = 0; i < Count; ++i) mask[i] = -1;
    asm("vmaskmovps %1, %2, %0" : "=x"(v) : "m"(part), "x"(mask));
  }
  return v;
}
/// Some of four elements.
template <int Count>
FXX_KERNEL void store_of_half(float* to, half v) {
  typedef double Pairs __attribute__((vector_size(sizeof(half))));
  if constexpr (Count == 4) {
    __builtin_memcpy(to, &v, sizeof v);
  } else if constexpr (Count >= 2) {
    const double pair = ((Pairs)v)[0];
    __builtin_memcpy(to, &pair, sizeof pair);
    if constexpr (Count == 3) to[2] = v[2];
  } else if constexpr (Count == 1) {
    to[0] = v[0];
  }
}
#endif
}  // namespace detail_of_vectors

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
  } else if constexpr (Count == 1) {
    real v{};
    v[0] = *from;
    return v;
  } else {
#if FXX_KERNEL_MASKED
    return detail_of_vectors::masked_load<real, Count>(from);
#elif FXX_KERNEL_MASKED_FLOATS
    return detail_of_vectors::partial_load<Count>(from);
#else
    real v{};
    __builtin_memcpy(&v, from, Count * sizeof(float));
    return v;
#endif
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
  } else if constexpr (Count == 1) {
    *to = v[0];
  } else {
#if FXX_KERNEL_MASKED
    detail_of_vectors::masked_store<Count>(to, v);
#elif FXX_KERNEL_MASKED_FLOATS
    detail_of_vectors::store_of_half<(Count < 4 ? Count : 4)>(to, lower_half(v));
    if constexpr (Count > 4) detail_of_vectors::store_of_half<Count - 4>(to + 4, upper_half(v));
#else
    __builtin_memcpy(to, &v, Count * sizeof(float));
#endif
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

/// Added in pairs: within log2(lanes) / 2 units of 2^-23 of the sum of magnitudes, which is half a unit a step.
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
