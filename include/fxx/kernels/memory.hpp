// Elements of other types in memory as vectors of floats: doubles, halves, integers, bytes, masks.
//
//   store_as(out, load_as(in, width) * 2.f, width);   // of pointers to any of the types below
//
// `load_as` gives zeros behind the elements that it reads; it reads and writes no others. float32 cannot hold all
// integers: those of more than 24 bits are rounded to the nearest, and arithmetic on them is no matter of vectors.
// Stores round doubles, bfloat16 and float16 to the nearest, to even where two are, and cut off what integers have no
// room for as conversions of LibTorch do: to zero, and through an integer that is wider where there is one.
// Main names: load_as, store_as, to_single, of_single, load_mask, store_mask, bfloat16, float16. Cost: light.
#pragma once

#include "fxx/kernels/gemm.hpp"

#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

namespace fxx::kernels {

/// 16 bits each, as they lie in memory: the upper half of a float, and IEEE 754's.
struct bfloat16 {
  std::uint16_t bits;
};
struct float16 {
  std::uint16_t bits;
};

inline namespace FXX_KERNEL_ISA {

namespace detail_of_memory {

template <class T, int Count>
struct VectorOf {
  typedef T type __attribute__((vector_size(sizeof(T) * Count)));
};
template <class T>
using Narrow = typename VectorOf<T, lanes>::type;

/// `Count` of the `All` elements of a vector of another type; zeros behind them.
template <int Count, int All, class T>
FXX_KERNEL auto read(const T* from) {
  using V = typename VectorOf<T, All>::type;
#if FXX_KERNEL_MASKED
  if constexpr (Count > 0 && Count < All && sizeof(V) >= 16) return detail_of_vectors::masked_load<V, Count>(from);
#endif
  V v{};
  if constexpr (Count > 0) __builtin_memcpy(&v, from, Count * sizeof(T));
  return v;
}
template <int Count, class T, class V>
FXX_KERNEL void write(T* to, const V& v) {
#if FXX_KERNEL_MASKED
  if constexpr (Count > 0 && Count * sizeof(T) < sizeof(V) && sizeof(V) >= 16)
    return detail_of_vectors::masked_store<Count>(to, v);
#endif
  if constexpr (Count > 0) __builtin_memcpy(to, &v, Count * sizeof(T));
}
/// How many of `Count` elements stand in the lower half of a vector, and in the upper.
constexpr int in_lower(int count) { return count < lanes / 2 ? count : lanes / 2; }
constexpr int in_upper(int count) { return count - in_lower(count); }

#if defined(__aarch64__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
// Shuffles of bytes: g++ 12 converts the elements of vectors as short as these one by one.
FXX_KERNEL integer widened(Narrow<std::uint16_t> bits) {
  return (integer)__builtin_shufflevector(bits, Narrow<std::uint16_t>{}, 0, 4, 1, 5, 2, 6, 3, 7);
}
template <class V>
FXX_KERNEL integer widened_bytes(V bytes) {
  typedef std::uint8_t All __attribute__((vector_size(16)));
  const All all = (All)natural{(std::uint32_t)bytes};
  const All pairs = __builtin_shufflevector(all, All{}, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  typedef std::uint16_t Halves __attribute__((vector_size(16)));
  const integer wide = (integer)__builtin_shufflevector((Halves)pairs, Halves{}, 0, 8, 1, 9, 2, 10, 3, 11);
  if constexpr (__is_same(V, Narrow<signed char>)) return (integer)((natural)wide << 24) >> 24;
  else return wide;
}
template <class T>
FXX_KERNEL Narrow<T> narrowed_bytes(integer v) {
  typedef std::uint8_t All __attribute__((vector_size(16)));
  const All all = (All)v;
  return (Narrow<T>)((natural)__builtin_shufflevector(all, all, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12))[0];
}
#else
FXX_KERNEL integer widened(Narrow<std::uint16_t> bits) { return __builtin_convertvector(bits, integer); }
/// By way of 16 bits: what g++ 12 makes of both steps at once takes eight times as long.
template <class V>
FXX_KERNEL integer widened_bytes(V bytes) {
  if constexpr (__is_same(V, Narrow<signed char>))
    return __builtin_convertvector(__builtin_convertvector(bytes, Narrow<std::int16_t>), integer);
  else
    return widened(__builtin_convertvector(bytes, Narrow<std::uint16_t>));
}
template <class T>
FXX_KERNEL Narrow<T> narrowed_bytes(integer v) {
  return __builtin_convertvector(v, Narrow<T>);
}
#endif
FXX_KERNEL Narrow<std::uint16_t> narrowed(integer bits) { return __builtin_convertvector(bits, Narrow<std::uint16_t>); }

/// Floats of the bits of halves, in the lower 16 bits of each element.
FXX_KERNEL real of_half(integer bits) {
  // Moved to a float's place they are too small by 2^112, denormals too; infinity and nan have their own exponent.
  const integer magnitude = (bits & 0x7fff) << 13;
  const real value = of_bits(magnitude) * 0x1p112f;
  const integer special = magnitude >= 0x0f800000;
  const integer all = special ? magnitude | 0x7f800000 : bits_of(value);
  return of_bits(all | (integer)((natural)(bits & 0x8000) << 16));
}
FXX_KERNEL integer half_of_real(real x) {
  const integer sign = (integer)((natural)bits_of(x) >> 16) & 0x8000, magnitude = bits_of(x) & 0x7fffffff;
  // Of denormals the addition rounds; 0x1p-1f has its last place where they have theirs.
  const integer denormal = bits_of(of_bits(magnitude) + 0.5f) - 0x3f000000;
  const integer odd = (magnitude >> 13) & 1;
  const integer normal = (integer)((natural)magnitude + 0xc8000fffu + (natural)odd) >> 13;
  const integer finite = magnitude < 0x38800000 ? denormal : normal;
  const integer beyond = magnitude > 0x7f800000 ? (integer{} + 0x7e00) : (integer{} + 0x7c00);
  return sign | (magnitude >= 0x47800000 ? beyond : finite);
}
FXX_KERNEL integer bfloat16_of_real(real x) {
  const natural bits = (natural)bits_of(x);
  const natural rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return x != x ? (integer{} + 0x7fc0) : (integer)rounded;
}
/// To zero; what int32 cannot hold and nan become the least number, as the processor has it.
FXX_KERNEL integer integer_of(real x) {
  const integer fits = (x >= -2147483648.f) & (x < 2147483648.f);
  const integer value = __builtin_convertvector(fits ? x : splat(0.f), integer);
  return fits ? value : integer{} - 2147483647 - 1;
}
FXX_KERNEL std::int64_t integer_64_of(float x) {
  return x >= -0x1p63f && x < 0x1p63f ? static_cast<std::int64_t>(x) : -0x7fffffffffffffff - 1;
}

}  // namespace detail_of_memory

/// The first `width` elements as floats. T: float, double, bfloat16, float16, bool, an integer of 8 to 64 bits.
template <class T, int Count>
FXX_KERNEL real load_as(const T* from, Width<Count>) {
  using namespace detail_of_memory;
  static_assert(Count > 0 && Count <= lanes, "fxx::kernels: a vector has fewer elements than that");
  if constexpr (__is_same(T, float)) {
    return load_some<Count>(from);
  } else if constexpr (__is_same(T, double)) {
    return joined(in_single(read<in_lower(Count), lanes / 2>(from)),
                  in_single(read<in_upper(Count), lanes / 2>(from + in_lower(Count))));
  } else if constexpr (__is_same(T, bfloat16) || __is_same(T, Bfloat16)) {
    return of_bits(widened(read<Count, lanes>(reinterpret_cast<const std::uint16_t*>(from))) << 16);
  } else if constexpr (__is_same(T, float16)) {
    return of_half(widened(read<Count, lanes>(reinterpret_cast<const std::uint16_t*>(from))));
  } else if constexpr (__is_same(T, bool)) {
    return ones(widened_bytes(read<Count, lanes>(reinterpret_cast<const std::uint8_t*>(from))) != 0);
  } else if constexpr (sizeof(T) == 8) {
    real value{};
    for (int i = 0; i < Count; ++i) value[i] = static_cast<float>(from[i]);
    return value;
  } else if constexpr (sizeof(T) == 4) {
    return __builtin_convertvector(read<Count, lanes>(from), real);
  } else {
    const auto value = read<Count, lanes>(from);
    if constexpr (sizeof(T) == 1) return __builtin_convertvector(widened_bytes(value), real);
    else return __builtin_convertvector(__builtin_convertvector(value, integer), real);
  }
}
/// Writes the first `width` elements as such.
template <class T, int Count>
FXX_KERNEL void store_as(T* to, real x, Width<Count>) {
  using namespace detail_of_memory;
  static_assert(Count > 0 && Count <= lanes, "fxx::kernels: a vector has fewer elements than that");
  if constexpr (__is_same(T, float)) {
    store_some<Count>(to, x);
  } else if constexpr (__is_same(T, Bfloat16)) {
    store_bfloat16<Count>(to, x);
  } else if constexpr (__is_same(T, double)) {
    write<in_lower(Count)>(to, in_double(lower_half(x)));
    write<in_upper(Count)>(to + in_lower(Count), in_double(upper_half(x)));
  } else if constexpr (__is_same(T, bfloat16)) {
    write<Count>(to, narrowed(bfloat16_of_real(x)));
  } else if constexpr (__is_same(T, float16)) {
    write<Count>(to, narrowed(half_of_real(x)));
  } else if constexpr (__is_same(T, bool)) {
    write<Count>(to, narrowed_bytes<std::uint8_t>((x != 0.f) & 1));
  } else if constexpr (sizeof(T) == 8) {
    for (int i = 0; i < Count; ++i) to[i] = static_cast<T>(integer_64_of(x[i]));
  } else if constexpr (sizeof(T) == 4) {
    write<Count>(to, integer_of(x));
  } else if constexpr (sizeof(T) == 1) {
    write<Count>(to, narrowed_bytes<T>(integer_of(x)));
  } else {
    write<Count>(to, __builtin_convertvector(integer_of(x), Narrow<T>));
  }
}

/// One element of such a type as a float, and a float as one, in the same way.
template <class T>
FXX_KERNEL float to_single(T v) {
  if constexpr (__is_same(T, Bfloat16)) return to_float(v);
  else if constexpr (__is_same(T, bfloat16) || __is_same(T, float16)) return load_as(&v, Width<1>{})[0];
  else return static_cast<float>(v);
}
template <class T>
FXX_KERNEL T of_single(float v) {
  T result;
  store_as(&result, splat(v), Width<1>{});
  return result;
}

/// Bytes that are not zero as a comparison that holds: what `where` and `select` choose by.
template <class T, int Count>
FXX_KERNEL integer load_mask(const T* from, Width<Count>) {
  static_assert(sizeof(T) == 1, "fxx::kernels: masks are bytes");
  using namespace detail_of_memory;
  return widened_bytes(read<Count, lanes>(reinterpret_cast<const std::uint8_t*>(from))) != 0;
}
/// 1 where it holds, 0 where not.
template <class T, int Count>
FXX_KERNEL void store_mask(T* to, integer mask, Width<Count>) {
  static_assert(sizeof(T) == 1, "fxx::kernels: masks are bytes");
  using namespace detail_of_memory;
  write<Count>(reinterpret_cast<std::uint8_t*>(to), narrowed_bytes<std::uint8_t>(mask & 1));
}

}  // namespace FXX_KERNEL_ISA

}  // namespace fxx::kernels

#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif
