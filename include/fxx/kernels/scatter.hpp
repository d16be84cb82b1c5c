// Elements that go to places which tensors tell: added to what stands there, multiplied, or put in its place.
//
//   scatter_rows<Combine::add, edges>(part, sums,
//       [&](int, int edge) { const long at = row_of<2708>(target[edge], fault); return Destination{at, at * 16}; },
//       [&](int, int edge, int c, auto width) { return load_some<width>(messages + edge * 16 + c); });
//
// Every place gets what is for it in the order of the rows, whatever the number of threads: these share what cannot meet,
// groups and columns, or the places; then each looks at all rows and takes those that go to its own.
// Sums of floats that meet are within half of their number in units of 2^-23 of the sum of magnitudes, of normally
// distributed ones within 1.5, of such ones without signs, where nothing cancels, within 1 + sqrt(number) / 2. Products
// lose half a unit of themselves each. All else is exact; the largest and the smallest are nan when one of them is.
// Main names: Combine, ScatterShape, Destination, scatter_rows, scatter_elements. Cost: light; each takes the compiler
// 0.05 s.
#pragma once

#include "fxx/kernels/integers.hpp"
#include "fxx/kernels/parallel.hpp"
#include "fxx/kernels/reductions.hpp"

#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

namespace fxx::kernels::inline FXX_KERNEL_ISA {

/// What becomes of an element and what stands where it goes.
enum class Combine : std::uint8_t { replace, add, multiply, largest, smallest };

/// Elements are counted by group, row and column. Those of different groups or columns never meet; those of different
/// rows may.
struct ScatterShape {
  int groups = 1, rows = 1, columns = 1;
  int places = 1;  // of Destination::number
};
/// Where a row goes, or an element.
struct Destination {
  std::ptrdiff_t number;  // equal where two meet; within ScatterShape::places
  std::ptrdiff_t offset;  // in elements
};

namespace detail_of_scatter {

template <Combine How, class V>
FXX_KERNEL V combined(V before, V v) {
  if constexpr (__is_same(V, real)) {
    if constexpr (How == Combine::add) return before + v;
    else if constexpr (How == Combine::multiply) return before * v;
    else if constexpr (How == Combine::largest) return maximum(before, v);
    else return minimum(before, v);
  } else if constexpr (__is_same(V, float)) {
    if constexpr (How == Combine::add) return before + v;
    else if constexpr (How == Combine::multiply) return before * v;
    else if constexpr (How == Combine::largest) return v > before || v != v ? v : before;
    else return v < before || v != v ? v : before;
  } else if constexpr (__is_same(V, std::int64_t)) {
    const auto a = static_cast<std::uint64_t>(before), b = static_cast<std::uint64_t>(v);
    if constexpr (How == Combine::add) return static_cast<std::int64_t>(a + b);
    else if constexpr (How == Combine::multiply) return static_cast<std::int64_t>(a * b);
    else if constexpr (How == Combine::largest) return v > before ? v : before;
    else return v < before ? v : before;
  } else {
    if constexpr (How == Combine::add) return apply_64<Function::add>(before, v);
    else if constexpr (How == Combine::multiply) return apply_64<Function::multiply>(before, v);
    else if constexpr (How == Combine::largest) return apply_64<Function::maximum>(before, v);
    else return apply_64<Function::minimum>(before, v);
  }
}
/// Some elements behind each other: floats, integers of any width, or masks, which only replace.
template <Combine How, class T, class V, int Count>
FXX_KERNEL void combine(T* to, V v, Width<Count> width) {
  if constexpr (__is_same(V, integer)) {
    static_assert(How == Combine::replace, "fxx::kernels: masks are put in the place of others");
    store_mask(to, v, width);
  } else if constexpr (__is_same(V, real)) {
    if constexpr (How != Combine::replace) v = combined<How>(load_some<Count>(to), v);
    store_some<Count>(to, v);
  } else {
    if constexpr (How != Combine::replace) v = combined<How>(load_64(to, width), v);
    store_64(to, v, width);
  }
}
/// Element `i` of the vector.
template <Combine How, class T, class V>
FXX_KERNEL void combine_one(T& to, const V& v, int i) {
  if constexpr (__is_same(V, integer)) {
    static_assert(How == Combine::replace, "fxx::kernels: masks are put in the place of others");
    to = static_cast<T>(v[i] & 1);
  } else if constexpr (How == Combine::replace) {
    to = static_cast<T>(v[i]);
  } else if constexpr (__is_same(V, real)) {
    to = combined<How>(to, v[i]);
  } else {
    to = static_cast<T>(combined<How>(std::int64_t{to}, v[i]));
  }
}

/// What a thread does: some groups, some columns, or what goes to some of the places.
struct Share {
  Range groups, columns, places;
  bool all_places;
};
template <ScatterShape Shape>
FXX_KERNEL Share share_of(Part part) {
  const Range all_groups{0, Shape.groups}, all_columns{0, Shape.columns}, all_places{0, Shape.places};
  constexpr int vectors = vectors_of(Shape.columns);
  const auto even = [&](int items) { return items >= 4 * part.count || items % part.count == 0; };
  if (part.count == 1) return {all_groups, all_columns, all_places, true};
  if (even(Shape.groups)) return {part.of(Shape.groups), all_columns, all_places, true};
  if (even(vectors)) return {all_groups, part.of(Shape.columns, lanes), all_places, true};
  return {all_groups, all_columns, part.of(Shape.places), false};
}
/// Calls `each(row)` for the rows that go to the share's places, in their order.
template <int Rows, class NumberOf, class Each>
FXX_KERNEL void for_each_own_row(const Share& share, const NumberOf& number_of, const Each& each) {
  if (share.all_places) {
    for (int row = 0; row < Rows; ++row) each(row);
    return;
  }
  // Those of a block are found first: whether one is among them is as good as random.
  constexpr int block = Rows < 256 ? Rows : 256;
  int own[block];
  for (int from = 0; from < Rows; from += block) {
    const int end = from + block < Rows ? from + block : Rows;
    int count = 0;
    for (int row = from; row < end; ++row) {
      const std::ptrdiff_t number = number_of(row);
      own[count] = row;
      count += (number >= share.places.begin) & (number < share.places.end);
    }
    for (int i = 0; i < count; ++i) each(own[i]);
  }
}
/// Calls `each(column, width)` for the vectors of the share's columns.
template <int Columns, class Each>
FXX_KERNEL void for_each_own_vector(Range columns, const Each& each) {
  if (columns.begin == 0 && columns.end == Columns) return detail_of_rows::for_each_vector<Columns>(each);
  detail_of_rows::for_each_vector_of<Columns>(columns, each);
}

}  // namespace detail_of_scatter

/// Rows of columns that lie behind each other where they go: `place(group, row)` is the Destination of the first,
/// `get(group, row, column, width)` gives elements, each of which is asked for once. A vector at a time.
template <Combine How, ScatterShape Shape, class T, class Place, class Get>
FXX_KERNEL void scatter_rows(Part part, T* out, const Place& place, const Get& get) {
  using namespace detail_of_scatter;
  const Share share = share_of<Shape>(part);
  for (int group = share.groups.begin; group < share.groups.end; ++group)
    for_each_own_row<Shape.rows>(
        share, [&](int row) __attribute__((always_inline)) { return place(group, row).number; },
        [&](int row) __attribute__((always_inline)) {
          T* const to = out + place(group, row).offset;
          for_each_own_vector<Shape.columns>(share.columns, [&](int c, auto width) __attribute__((always_inline)) {
            combine<How>(to + c, get(group, row, c, width), width);
          });
        });
}

/// Each element with a Destination of its own: `place(group, row, column)`. Where there is one column, vectors are of rows,
/// `get(group, row, 0, width)`. An element at a time.
template <Combine How, ScatterShape Shape, class T, class Place, class Get>
FXX_KERNEL void scatter_elements(Part part, T* out, const Place& place, const Get& get) {
  using namespace detail_of_scatter;
  const Share share = share_of<Shape>(part);
  const auto put = [&](int count, const auto& v, const auto& place_of) __attribute__((always_inline)) {
    for (int i = 0; i < count; ++i) {
      const Destination to = place_of(i);
      if (share.all_places || (to.number >= share.places.begin && to.number < share.places.end))
        combine_one<How>(out[to.offset], v, i);
    }
  };
  for (int group = share.groups.begin; group < share.groups.end; ++group)
    if constexpr (Shape.columns == 1) {
      detail_of_rows::for_each_vector<Shape.rows>([&](int row, auto width) __attribute__((always_inline)) {
        put(width, get(group, row, 0, width),
            [&](int i) __attribute__((always_inline)) { return place(group, row + i, 0); });
      });
    } else {
      for (int row = 0; row < Shape.rows; ++row)
        for_each_own_vector<Shape.columns>(share.columns, [&](int c, auto width) __attribute__((always_inline)) {
          put(width, get(group, row, c, width),
              [&](int i) __attribute__((always_inline)) { return place(group, row, c + i); });
        });
    }
}

}  // namespace fxx::kernels::inline FXX_KERNEL_ISA

#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif
