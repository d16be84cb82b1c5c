// Vectors of int64, as many as a vector has floats: what indices, positions and masks are computed with.
//
//   store_64(out + i, apply_64<Function::add>(load_64(a + i, width), splat_64(1)), width);
//
// Sums, differences and products wrap around. A mask is what comparisons of floats give, so that either chooses among
// the other's values. All of it is exact, but for the float nearest to an integer. Integers of 8, 16 and 32 bits are read
// as such vectors, and cut off to their bits where they are written.
// Main names: integer_64, splat_64, positions_64, load_64, store_64, apply_64, divisor_64, real_of_64, integer_64_of,
// row_sum_64, row_largest_64, row_arg_largest_64, running_sum_64. Cost: light.
#pragma once

#include "fxx/kernels/memory.hpp"
#include "fxx/kernels/module.hpp"
#include "fxx/kernels/reductions.hpp"

#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

namespace fxx::kernels::inline FXX_KERNEL_ISA {

/// Two vectors, since twice the bytes of one fit none.
struct integer_64 {
  typedef std::int64_t Half __attribute__((vector_size(lanes * 4)));
  typedef std::uint64_t Natural __attribute__((vector_size(lanes * 4)));
  Half low, high;

  FXX_KERNEL std::int64_t operator[](int i) const { return i < lanes / 2 ? low[i] : high[i - lanes / 2]; }
};

namespace detail_of_integers {
using Half = integer_64::Half;
using Natural = integer_64::Natural;
/// `of` of both halves.
template <class Of>
FXX_KERNEL integer_64 halves(integer_64 x, integer_64 y, const Of& of) {
  return {of(x.low, y.low), of(x.high, y.high)};
}
/// `of(element)` for each element.
template <class Of>
FXX_KERNEL integer_64 elements(const Of& of) {
  integer_64 v;
#pragma GCC unroll 16
  for (int i = 0; i < lanes / 2; ++i) v.low[i] = of(i), v.high[i] = of(i + lanes / 2);
  return v;
}
/// The lower 32 bits of each: of masks, the same mask.
FXX_KERNEL integer narrowed_32(Half low, Half high) {
  return bits_of(joined((half) __builtin_convertvector(low, half_of_integers),
                        (half) __builtin_convertvector(high, half_of_integers)));
}
/// What comparisons of both halves give, as a mask.
template <class Of>
FXX_KERNEL integer compared(integer_64 x, integer_64 y, const Of& of) {
  return narrowed_32(of(x.low, y.low), of(x.high, y.high));
}
FXX_KERNEL std::int64_t quotient(std::int64_t x, std::int64_t y) {
  return y == -1 ? static_cast<std::int64_t>(-static_cast<std::uint64_t>(x)) : x / y;
}
}  // namespace detail_of_integers

/// The same number in every lane.
FXX_KERNEL integer_64 splat_64(std::int64_t v) { return {integer_64::Half{} + v, integer_64::Half{} + v}; }
/// `at(i)` for element i.
template <class At>
FXX_KERNEL integer_64 positions_64(const At& at) {
  return detail_of_integers::elements([&](int i) __attribute__((always_inline)) { return std::int64_t{at(i)}; });
}
/// Of 32 bits, as comparisons have.
FXX_KERNEL integer_64 widened_64(integer v) {
  return {__builtin_convertvector((half_of_integers)lower_half((real)v), integer_64::Half),
          __builtin_convertvector((half_of_integers)upper_half((real)v), integer_64::Half)};
}
/// `put` for a kernel that gives places in columns of 32 bits.
template <class Put>
FXX_KERNEL auto put_widened(const Put& put) {
  return [&put](int c, integer v, auto width) __attribute__((always_inline)) { put(c, widened_64(v), width); };
}
/// The nearest floats.
FXX_KERNEL real real_of_64(integer_64 v) {
  return joined(__builtin_convertvector(v.low, half), __builtin_convertvector(v.high, half));
}
/// To zero; what int64 cannot hold, and nan, become the least number, as the processor has it.
FXX_KERNEL integer_64 integer_64_of(real x) {
  return detail_of_integers::elements([&](int i) __attribute__((always_inline)) {
    return detail_of_memory::integer_64_of(x[i]);
  });
}

/// The same by way of 32 bits, as LibTorch converts to 32, 16 and 8 bits with a sign.
FXX_KERNEL integer_64 narrow_64_of(real x) { return widened_64(detail_of_memory::integer_of(x)); }

// --- memory ----------------------------------------------------------------------------------------------------------

/// `at(i)` is where element i stands; zeros behind the first `Count`.
template <int Count, class T, class At>
FXX_KERNEL integer_64 gathered_64(const T* from, const At& at) {
  return detail_of_integers::elements([&](int i) __attribute__((always_inline)) {
    return i < Count ? static_cast<std::int64_t>(from[at(i)]) : 0;
  });
}
/// The first `Count` elements to where `at(i)` says.
template <int Count, class T, class At>
FXX_KERNEL void scattered_64(T* to, const At& at, integer_64 v) {
  for (int i = 0; i < Count; ++i) to[at(i)] = static_cast<T>(v[i]);
}
/// The first `width` elements, of any integers; zeros behind them.
template <class T, int Count>
FXX_KERNEL integer_64 load_64(const T* from, Width<Count>) {
  using namespace detail_of_memory;
  if constexpr (sizeof(T) == 8) {
    return {(integer_64::Half)read<in_lower(Count), lanes / 2>(from),
            (integer_64::Half)read<in_upper(Count), lanes / 2>(from + in_lower(Count))};
  } else {
    static_assert(__is_same(T, std::int8_t) || __is_same(T, std::uint8_t) || __is_same(T, std::int16_t) ||
                      __is_same(T, std::int32_t),
                  "fxx::kernels: integers have 8, 16, 32 or 64 bits");
    const auto v = read<Count, lanes>(from);
    if constexpr (sizeof(T) == 1) return widened_64(widened_bytes(v));
    else return widened_64(__builtin_convertvector(v, integer));
  }
}
/// Writes the first `width` elements; what their type has no bits for is cut off.
template <class T, int Count>
FXX_KERNEL void store_64(T* to, integer_64 v, Width<Count>) {
  using namespace detail_of_memory;
  if constexpr (sizeof(T) == 8) {
    write<in_lower(Count)>(to, v.low);
    write<in_upper(Count)>(to + in_lower(Count), v.high);
  } else {
    const integer bits = detail_of_integers::narrowed_32(v.low, v.high);
    if constexpr (sizeof(T) == 1) write<Count>(to, narrowed_bytes<T>(bits));
    else write<Count>(to, __builtin_convertvector(bits, Narrow<T>));
  }
}

// --- functions -------------------------------------------------------------------------------------------------------

/// A function of integers, as LibTorch has it of int64. Divisors are not 0.
template <Function F>
FXX_KERNEL integer_64 apply_64(integer_64 x) {
  using namespace detail_of_integers;
  const auto of = [&](auto f) __attribute__((always_inline)) { return integer_64{f(x.low), f(x.high)}; };
  if constexpr (F == Function::negate) {
    return of([](Half v) __attribute__((always_inline)) { return (Half)(-(Natural)v); });
  } else if constexpr (F == Function::absolute) {
    return of([](Half v) __attribute__((always_inline)) { return v < 0 ? (Half)(-(Natural)v) : v; });
  } else if constexpr (F == Function::square) {
    return of([](Half v) __attribute__((always_inline)) { return (Half)((Natural)v * (Natural)v); });
  } else if constexpr (F == Function::relu) {
    return of([](Half v) __attribute__((always_inline)) { return v < 0 ? Half{} : v; });
  } else if constexpr (F == Function::bitwise_not) {
    return of([](Half v) __attribute__((always_inline)) { return ~v; });
  } else {
    static_assert(F == Function::sign, "fxx::kernels: a function that integers do not have");
    return of([](Half v) __attribute__((always_inline)) { return (v < 0) - (v > 0); });
  }
}
/// Of two: an integer_64, or of a comparison its mask.
template <Function F>
FXX_KERNEL auto apply_64(integer_64 x, integer_64 y) {
  using namespace detail_of_integers;
  if constexpr (F == Function::add) {
    return halves(
        x, y, [](Half a, Half b) __attribute__((always_inline)) { return (Half)((Natural)a + (Natural)b); });
  } else if constexpr (F == Function::subtract) {
    return halves(
        x, y, [](Half a, Half b) __attribute__((always_inline)) { return (Half)((Natural)a - (Natural)b); });
  } else if constexpr (F == Function::multiply) {
    return halves(
        x, y, [](Half a, Half b) __attribute__((always_inline)) { return (Half)((Natural)a * (Natural)b); });
  } else if constexpr (F == Function::maximum) {
    return halves(
        x, y, [](Half a, Half b) __attribute__((always_inline)) { return a > b ? a : b; });
  } else if constexpr (F == Function::minimum) {
    return halves(
        x, y, [](Half a, Half b) __attribute__((always_inline)) { return a < b ? a : b; });
  } else if constexpr (F == Function::bitwise_and) {
    return halves(
        x, y, [](Half a, Half b) __attribute__((always_inline)) { return a & b; });
  } else if constexpr (F == Function::bitwise_or) {
    return halves(
        x, y, [](Half a, Half b) __attribute__((always_inline)) { return a | b; });
  } else if constexpr (F == Function::bitwise_xor) {
    return halves(
        x, y, [](Half a, Half b) __attribute__((always_inline)) { return a ^ b; });
  } else if constexpr (F == Function::shift_left) {  // 0 by 64 and more, and by less than 0
    return halves(
        x, y, [](Half a, Half b) __attribute__((always_inline)) {
          return (Natural)b < 64 ? (Half)((Natural)a << ((Natural)b & 63)) : Half{};
        });
  } else if constexpr (F == Function::shift_right) {  // the sign by these
    return halves(
        x, y, [](Half a, Half b) __attribute__((always_inline)) { return a >> ((Natural)b < 63 ? b : Half{} + 63); });
  } else if constexpr (F == Function::floor_divide) {
    return elements([&](int i) __attribute__((always_inline)) {
      const std::int64_t a = x[i], b = y[i], q = quotient(a, b);
      return q - (b != -1 && a % b != 0 && (a < 0) != (b < 0));
    });
  } else if constexpr (F == Function::remainder) {  // with the sign of y
    return elements([&](int i) __attribute__((always_inline)) {
      const std::int64_t b = y[i], r = b == -1 ? 0 : x[i] % b;
      return r != 0 && (r < 0) != (b < 0) ? r + b : r;
    });
  } else if constexpr (F == Function::rest_of_division) {  // with the sign of x
    return elements([&](int i) __attribute__((always_inline)) { return y[i] == -1 ? std::int64_t{0} : x[i] % y[i]; });
  } else if constexpr (F == Function::divide) {  // to zero
    return elements([&](int i) __attribute__((always_inline)) { return quotient(x[i], y[i]); });
  } else if constexpr (F == Function::less) {
    return compared(
        x, y, [](Half a, Half b) __attribute__((always_inline)) { return a < b; });
  } else if constexpr (F == Function::less_or_equal) {
    return compared(
        x, y, [](Half a, Half b) __attribute__((always_inline)) { return a <= b; });
  } else if constexpr (F == Function::greater) {
    return compared(
        x, y, [](Half a, Half b) __attribute__((always_inline)) { return a > b; });
  } else if constexpr (F == Function::greater_or_equal) {
    return compared(
        x, y, [](Half a, Half b) __attribute__((always_inline)) { return a >= b; });
  } else if constexpr (F == Function::equal) {
    return compared(
        x, y, [](Half a, Half b) __attribute__((always_inline)) { return a == b; });
  } else {
    static_assert(F == Function::not_equal, "fxx::kernels: a function that integers do not have");
    return compared(
        x, y, [](Half a, Half b) __attribute__((always_inline)) { return a != b; });
  }
}
/// `yes` where the mask holds, else `no`.
template <Function F>
FXX_KERNEL integer_64 apply_64(integer where, integer_64 yes, integer_64 no) {
  static_assert(F == Function::select, "fxx::kernels: a function that integers do not have");
  const integer_64 holds = widened_64(where);
  return {holds.low ? yes.low : no.low, holds.high ? yes.high : no.high};
}

namespace detail_of_integers {
template <Function F, class R, class... A>
[[gnu::noinline]] void put_shared(R& result, const A&... arguments) {
  result = apply_64<F>(arguments...);
}
}  // namespace detail_of_integers
/// `apply_64`, compiled once for all places where it stands.
template <Function F, class... A>
FXX_KERNEL auto apply_64_shared(const A&... arguments) {
  decltype(apply_64<F>(A{}...)) result;
  detail_of_integers::put_shared<F>(result, arguments...);
  return result;
}

/// What may be divided by: 1 in the place of 0, which is noted as a fault where it is one of the first `width` elements.
template <int Count>
FXX_KERNEL integer_64 divisor_64(integer_64 y, Width<Count>, int& fault) {
  bool none = false;
  const integer_64 result = detail_of_integers::elements([&](int i) __attribute__((always_inline)) {
    none = none || (i < Count && y[i] == 0);
    return y[i] == 0 ? std::int64_t{1} : y[i];
  });
  if (none) __atomic_store_n(&fault, fault_of_division, __ATOMIC_RELAXED);
  return result;
}

/// A place among so many: 0 for what is none, which is a fault as above.
template <int Count>
FXX_KERNEL integer_64 place_64(integer_64 x, std::int64_t places, Width<Count>, int& fault) {
  bool none = false;
  const integer_64 result = detail_of_integers::elements([&](int i) __attribute__((always_inline)) {
    const bool is_one = static_cast<std::uint64_t>(x[i]) < static_cast<std::uint64_t>(places);
    none = none || (i < Count && !is_one);
    return is_one ? x[i] : std::int64_t{0};
  });
  if (none) __atomic_store_n(&fault, fault_of_index, __ATOMIC_RELAXED);
  return result;
}

// --- rows ------------------------------------------------------------------------------------------------------------

// `get(column, width)` gives vectors of a row of N elements, as in kernels/reductions.hpp.

namespace detail_of_integers {
template <int N, Function F, class Get>
FXX_KERNEL std::int64_t row_combined(const Get& get, std::int64_t neutral) {
  integer_64 all = splat_64(neutral);
  detail_of_rows::for_each_vector<N>([&](int c, auto width) __attribute__((always_inline)) {
    const integer_64 v = get(c, width);
    if constexpr (width == lanes) all = apply_64<F>(all, v);
    else
      all = apply_64<F>(
          all, apply_64<Function::select>(detail_of_rows::iota() < static_cast<int>(width), v, splat_64(neutral)));
  });
  std::int64_t result = all[0];
  for (int i = 1; i < lanes; ++i) result = apply_64<F>(splat_64(result), splat_64(all[i]))[0];
  return result;
}
/// The first place of the element that is better than all others.
template <int N, class Get, class Better>
FXX_KERNEL int row_place(const Get& get, const Better& better) {
  int place = 0;
  std::int64_t best = get(0, Width<1>{})[0];
  detail_of_rows::for_each_vector<N>([&](int c, auto width) __attribute__((always_inline)) {
    const integer_64 v = get(c, width);
    for (int i = 0; i < width; ++i)
      if (better(v[i], best)) best = v[i], place = c + i;
  });
  return place;
}
}  // namespace detail_of_integers

/// Sum, product and extremes of a row; exact, or what is left of 64 bits.
template <int N, class Get>
FXX_KERNEL std::int64_t row_sum_64(const Get& get) {
  return detail_of_integers::row_combined<N, Function::add>(get, 0);
}
template <int N, class Get>
FXX_KERNEL std::int64_t row_product_64(const Get& get) {
  return detail_of_integers::row_combined<N, Function::multiply>(get, 1);
}
template <int N, class Get>
FXX_KERNEL std::int64_t row_largest_64(const Get& get) {
  return detail_of_integers::row_combined<N, Function::maximum>(get, -0x7fffffffffffffff - 1);
}
template <int N, class Get>
FXX_KERNEL std::int64_t row_smallest_64(const Get& get) {
  return detail_of_integers::row_combined<N, Function::minimum>(get, 0x7fffffffffffffff);
}
/// Where it stands: the first of several.
template <int N, class Get>
FXX_KERNEL int row_arg_largest_64(const Get& get) {
  return detail_of_integers::row_place<N>(get, [](std::int64_t a, std::int64_t b) { return a > b; });
}
/// The same of the smallest.
template <int N, class Get>
FXX_KERNEL int row_arg_smallest_64(const Get& get) {
  return detail_of_integers::row_place<N>(get, [](std::int64_t a, std::int64_t b) { return a < b; });
}
// Columns: `get(row, column, width)` gives vectors of a row, `put(column, value, width)` gets what the rows are reduced to.

namespace detail_of_integers {
/// Calls `some(range)` for so many of the part's columns at a time that what they are reduced to stays in the first cache.
template <int Columns, class Some>
FXX_KERNEL void for_each_chunk(Part part, const Some& some) {
  constexpr int chunk = detail_of_rows::chunk_vectors<Columns> * lanes;
  const Range mine = part.of(Columns, lanes);
  for (int first = mine.begin; first < mine.end; first += chunk)
    some(Range{first, first + chunk < mine.end ? first + chunk : mine.end});
}
template <int Rows, int Columns, Function F, class Get, class Put>
FXX_KERNEL void columns_combined(const Get& get, std::int64_t neutral, const Put& put, Part part) {
  for_each_chunk<Columns>(part, [&](Range range) __attribute__((always_inline)) {
    integer_64 all[detail_of_rows::chunk_vectors<Columns>];
    for (integer_64& v : all) v = splat_64(neutral);
    for (int row = 0; row < Rows; ++row)
      detail_of_rows::for_each_vector_of<Columns>(range, [&](int c, auto width) __attribute__((always_inline)) {
        integer_64& v = all[(c - range.begin) / lanes];
        v = apply_64<F>(v, get(row, c, width));
      });
    detail_of_rows::for_each_vector_of<Columns>(range, [&](int c, auto width) __attribute__((always_inline)) {
      put(c, all[(c - range.begin) / lanes], width);
    });
  });
}
template <int Rows, int Columns, Function Better, class Get, class Put>
FXX_KERNEL void column_places(const Get& get, const Put& put, Part part) {
  for_each_chunk<Columns>(part, [&](Range range) __attribute__((always_inline)) {
    integer_64 best[detail_of_rows::chunk_vectors<Columns>] = {};
    integer place[detail_of_rows::chunk_vectors<Columns>] = {};
    for (int row = 0; row < Rows; ++row)
      detail_of_rows::for_each_vector_of<Columns>(range, [&](int c, auto width) __attribute__((always_inline)) {
        const int i = (c - range.begin) / lanes;
        const integer_64 v = get(row, c, width);
        const integer better = row == 0 ? integer{} - 1 : apply_64<Better>(v, best[i]);
        best[i] = row == 0 ? v : apply_64<Function::select>(better, v, best[i]);
        place[i] = better ? integer{} + row : place[i];
      });
    detail_of_rows::for_each_vector_of<Columns>(range, [&](int c, auto width) __attribute__((always_inline)) {
      put(c, place[(c - range.begin) / lanes], width);
    });
  });
}
}  // namespace detail_of_integers

/// Sums, products and extremes of columns; exact, or what is left of 64 bits.
template <int Rows, int Columns, class Get, class Put>
FXX_KERNEL void column_sums_64(const Get& get, const Put& put, Part part = Part{}) {
  detail_of_integers::columns_combined<Rows, Columns, Function::add>(get, 0, put, part);
}
template <int Rows, int Columns, class Get, class Put>
FXX_KERNEL void column_products_64(const Get& get, const Put& put, Part part = Part{}) {
  detail_of_integers::columns_combined<Rows, Columns, Function::multiply>(get, 1, put, part);
}
template <int Rows, int Columns, class Get, class Put>
FXX_KERNEL void column_largest_64(const Get& get, const Put& put, Part part = Part{}) {
  detail_of_integers::columns_combined<Rows, Columns, Function::maximum>(get, -0x7fffffffffffffff - 1, put, part);
}
template <int Rows, int Columns, class Get, class Put>
FXX_KERNEL void column_smallest_64(const Get& get, const Put& put, Part part = Part{}) {
  detail_of_integers::columns_combined<Rows, Columns, Function::minimum>(get, 0x7fffffffffffffff, put, part);
}
/// `put(column, row, width)` gets an integer vector: the first row of the largest element.
template <int Rows, int Columns, class Get, class Put>
FXX_KERNEL void column_arg_largest_64(const Get& get, const Put& put, Part part = Part{}) {
  detail_of_integers::column_places<Rows, Columns, Function::greater>(get, put, part);
}
/// The same of the smallest.
template <int Rows, int Columns, class Get, class Put>
FXX_KERNEL void column_arg_smallest_64(const Get& get, const Put& put, Part part = Part{}) {
  detail_of_integers::column_places<Rows, Columns, Function::less>(get, put, part);
}
/// `put(column, value, width)`: element i becomes the sum of those up to it.
template <int N, class Get, class Put>
FXX_KERNEL void running_sum_64(const Get& get, const Put& put) {
  std::uint64_t total = 0;
  detail_of_rows::for_each_vector<N>([&](int c, auto width) __attribute__((always_inline)) {
    integer_64 sums = get(c, width);
    for (int i = 0; i < lanes / 2; ++i)
      sums.low[i] = static_cast<std::int64_t>(total += static_cast<std::uint64_t>(sums.low[i]));
    for (int i = 0; i < lanes / 2; ++i)
      sums.high[i] = static_cast<std::int64_t>(total += static_cast<std::uint64_t>(sums.high[i]));
    put(c, sums, width);
  });
}

}  // namespace fxx::kernels::inline FXX_KERNEL_ISA

#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif
