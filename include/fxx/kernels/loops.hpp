// Loops of generated code around expressions: element by element over tensors with any strides, and zeros around images.
//
//   pointwise<1000>(part, [&](int i, auto width) FXX_KERNEL_LAMBDA {
//     store_some<width>(out + i, apply<Function::relu>(load_some<width>(a + i) + load_some<width>(b + i)));
//   });
//
// Main names: pointwise, apply, pointwise_shared, apply_shared, gathered, scattered, copy_strided, clear_border, row_of, FXX_KERNEL_LAMBDA.
// Cost: light.
#pragma once

#include <time.h>

#include "fxx/kernels/copies.hpp"
#include "fxx/kernels/memory.hpp"
#include "fxx/kernels/module.hpp"
#include "fxx/kernels/parallel.hpp"

/// Of a lambda that a kernel calls: stands behind its parameters.
#define FXX_KERNEL_LAMBDA __attribute__((always_inline))

#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

namespace fxx::kernels::inline FXX_KERNEL_ISA {

/// A function of vectors; its error stands in kernels/functions.inc.
template <Function F, class... A>
FXX_KERNEL auto apply(A... arguments) {
  return Call<F>::of(arguments...);
}

/// `apply`, compiled once for all places where it stands. A call keeps no vector in a register, which is the price of
/// modules with thousands of functions.
template <Function F, class... A>
[[gnu::noinline]] auto apply_shared(A... arguments) {
  return Call<F>::of(arguments...);
}

/// Calls `each(i, width)` for the part's share of N elements.
template <int N, class Each>
FXX_KERNEL void pointwise(Part part, const Each& each) {
  const Range mine = part.of(N, lanes);
  int i = mine.begin;
#pragma GCC unroll 4
  for (; i + lanes <= mine.end; i += lanes) each(i, Width<lanes>{});
  if constexpr (N % lanes != 0)
    if (i < mine.end) each(i, Width<N % lanes>{});
}

namespace detail_of_loops {
[[gnu::noinline]] inline Range shared_range(Part part, int elements) { return part.of(elements, lanes); }
}  // namespace detail_of_loops
/// `pointwise` with as little for the compiler to do as possible: `each` stands there once, twice where there is a rest.
template <int N, class Each>
FXX_KERNEL void pointwise_shared(Part part, const Each& each) {
  const Range mine = detail_of_loops::shared_range(part, N);
  constexpr int whole = N / lanes * lanes;
  if constexpr (whole > 0)
    for (int i = mine.begin; i + lanes <= mine.end; i += lanes) each(i, Width<lanes>{});
  if constexpr (N > whole)
    if (mine.begin < mine.end && mine.end > whole) each(whole, Width<N - whole>{});
}

/// `at(i)` is where element i stands; zeros behind the first `Count`.
template <int Count, class T, class At>
FXX_KERNEL real gathered(const T* from, const At& at) {
  real v{};
  for (int i = 0; i < Count; ++i) v[i] = to_single(from[at(i)]);
  return v;
}
/// Whole numbers where they are bytes.
template <int Count, class T, class At>
FXX_KERNEL void scattered(T* to, const At& at, real v) {
  for (int i = 0; i < Count; ++i)
    if constexpr (__is_same(T, float) || __is_same(T, std::uint8_t)) to[at(i)] = static_cast<T>(v[i]);
    else to[at(i)] = of_single<T>(v[i]);
}
/// One byte for all lanes.
FXX_KERNEL integer splat_mask(const unsigned char* from) { return integer{} - (*from != 0); }
/// The same of bytes, as a mask.
template <int Count, class At>
FXX_KERNEL integer mask_gathered(const unsigned char* from, const At& at) {
  integer v{};
  for (int i = 0; i < Count; ++i) v[i] = from[at(i)] ? -1 : 0;
  return v;
}
/// A mask as bytes of 0 and 1.
template <int Count, class At>
FXX_KERNEL void mask_scattered(unsigned char* to, const At& at, integer mask) {
  for (int i = 0; i < Count; ++i) to[at(i)] = static_cast<unsigned char>(mask[i] & 1);
}
/// Elements of any type, so far apart.
template <int Count, class T>
FXX_KERNEL void copy_strided(const T* from, std::ptrdiff_t from_stride, T* to, std::ptrdiff_t to_stride) {
  for (int i = 0; i < Count; ++i) to[i * to_stride] = from[i * from_stride];
}

/// A row of a table of `Rows`; notes a number that is none, and gives the first row then. `FromEnd`: -1 is the last.
template <long Rows, bool FromEnd = false>
FXX_KERNEL std::ptrdiff_t row_of(std::int64_t index, int& fault) {
  if (detail_of_copies::in_range<FromEnd>(index, Rows)) return static_cast<std::ptrdiff_t>(index);
  __atomic_store_n(&fault, fault_of_index, __ATOMIC_RELAXED);
  return 0;
}

/// Notes the time at the end of a step, when somebody asked for it.
inline void note_time(std::int64_t* times, Part part, int number) {
  if (!times || part.index != 0) return;
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  times[number] = static_cast<std::int64_t>(now.tv_sec) * 1000000000 + now.tv_nsec;
}

/// An image with zeros around it, channels last.
struct BorderShape {
  int images = 1, rows = 1, pixels = 1, channels = 1;  // with what is around
  int top = 0, left = 0, bottom = 0, right = 0;
  int zero = 0;  // what stands for it, in images of bytes
};
/// Writes the zeros around the pixels, and nothing else. A part is some of the rows.
template <BorderShape Shape, class Element>
FXX_KERNEL void clear_border(Part part, Element* image) {
  static_assert(Shape.zero == 0 || sizeof(Element) == 1, "fxx::kernels: only bytes may stand for what is less");
  const Range mine = part.of(Shape.images * Shape.rows);
  constexpr std::ptrdiff_t row = static_cast<std::ptrdiff_t>(Shape.pixels) * Shape.channels;
  const auto clear = [](Element* from, std::ptrdiff_t count) {
    __builtin_memset(from, Shape.zero, static_cast<std::size_t>(count) * sizeof(Element));
  };
  for (int i = mine.begin; i < mine.end; ++i) {
    const int y = i % Shape.rows;
    Element* const at = image + i * row;
    if (y < Shape.top || y >= Shape.rows - Shape.bottom) {
      clear(at, row);
    } else {
      if constexpr (Shape.left > 0) clear(at, Shape.left * Shape.channels);
      if constexpr (Shape.right > 0) clear(at + row - Shape.right * Shape.channels, Shape.right * Shape.channels);
    }
  }
}

}  // namespace fxx::kernels::inline FXX_KERNEL_ISA

#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif
