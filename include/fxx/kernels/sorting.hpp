// Rows in order, and the first of them: elements and the places where they stood.
//
//   sort_rows<SortShape{.rows = 8, .length = 50000}>(part, in, 50000, workspace, values, places);
//   top_rows<SortShape{.rows = 8, .length = 50000, .count = 50, .descending = true}>(part, in, 50000, values, places);
//
// Of equal elements the first comes first, in either direction; zeros of both signs are equal. nan is greater than all
// numbers. Exact.
// Main names: SortShape, sort_rows, sort_workspace, top_rows, longest_top. Cost: light; each takes the compiler 0.1 s.
#pragma once

#include "fxx/kernels/memory.hpp"
#include "fxx/kernels/parallel.hpp"

#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

namespace fxx::kernels::inline FXX_KERNEL_ISA {

/// So many rows, and how much of each is wanted.
struct SortShape {
  int rows = 1, length = 1;
  int count = 0;  // of the elements that are wanted, the first in their order; 0: all
  bool descending = false;

  constexpr int wanted() const { return count ? count : length; }
};

namespace detail_of_sorting {

/// A number that orders as the element does: 32 bits, or 64 of int64.
FXX_KERNEL std::uint32_t key_of(float v) {
  if (v != v) return 0xffffffffu;
  const auto bits = __builtin_bit_cast(std::uint32_t, v + 0.f);
  return bits >> 31 ? ~bits : bits | 0x80000000u;
}
FXX_KERNEL std::uint64_t key_of(std::int64_t v) { return static_cast<std::uint64_t>(v) ^ (1ull << 63); }
FXX_KERNEL std::uint32_t key_of(std::int32_t v) { return static_cast<std::uint32_t>(v) ^ 0x80000000u; }

/// A key with the place of its element.
struct Narrow {
  typedef std::uint32_t Key;
  std::uint64_t bits;  // the key above the place

  FXX_KERNEL Narrow(Key key, std::uint32_t place) : bits(static_cast<std::uint64_t>(key) << 32 | place) {}
  FXX_KERNEL Key key() const { return static_cast<Key>(bits >> 32); }
  FXX_KERNEL std::uint32_t place() const { return static_cast<std::uint32_t>(bits); }
  FXX_KERNEL bool before(const Narrow& o) const { return bits < o.bits; }
};
struct Wide {
  typedef std::uint64_t Key;
  std::uint64_t bits;
  std::uint64_t at;

  FXX_KERNEL Wide(Key key, std::uint32_t place) : bits(key), at(place) {}
  FXX_KERNEL Key key() const { return bits; }
  FXX_KERNEL std::uint32_t place() const { return static_cast<std::uint32_t>(at); }
  FXX_KERNEL bool before(const Wide& o) const { return bits < o.bits || (bits == o.bits && at < o.at); }
};
template <class T>
struct ItemOf {
  typedef Narrow type;
};
template <>
struct ItemOf<std::int64_t> {
  typedef Wide type;
};

/// `count` items in order; `other` has room for as many. Returns where they stand, one or the other.
template <class Item>
inline Item* merged(Item* items, Item* other, int count) {
  constexpr int run = 16;
  for (int first = 0; first < count; first += run) {
    const int end = first + run < count ? first + run : count;
    for (int i = first + 1; i < end; ++i) {
      const Item item = items[i];
      int at = i;
      for (; at > first && item.before(items[at - 1]); --at) items[at] = items[at - 1];
      items[at] = item;
    }
  }
  for (int size = run; size < count; size *= 2) {
    for (int first = 0; first < count; first += 2 * size) {
      const int middle = first + size < count ? first + size : count;
      const int end = middle + size < count ? middle + size : count;
      int a = first, b = middle;
      for (int to = first; to < end; ++to) {
        const bool second = a == middle || (b < end && items[b].before(items[a]));
        other[to] = items[second ? b : a];
        b += second;
        a += !second;
      }
    }
    Item* const sorted = other;
    other = items;
    items = sorted;
  }
  return items;
}
/// The same, digit by digit from the lowest: items come in the order of their places. Digits that all have are left out.
template <class Item>
inline Item* by_digits(Item* items, Item* other, int count) {
  constexpr int digit = 11, values = 1 << digit;
  constexpr int digits = (static_cast<int>(sizeof(typename Item::Key)) * 8 + digit - 1) / digit;
  const auto of = [](const Item& item, int d) __attribute__((always_inline)) {
    return static_cast<unsigned>(item.key() >> (d * digit)) & (values - 1);
  };
  std::uint32_t counts[digits][values] = {};
  for (int i = 0; i < count; ++i)
    for (int d = 0; d < digits; ++d) ++counts[d][of(items[i], d)];
  for (int d = 0; d < digits; ++d) {
    std::uint32_t* const begins = counts[d];
    if (begins[of(items[0], d)] == static_cast<std::uint32_t>(count)) continue;
    std::uint32_t next = 0;
    for (int v = 0; v < values; ++v) {
      const std::uint32_t here = begins[v];
      begins[v] = next;
      next += here;
    }
    for (int i = 0; i < count; ++i) other[begins[of(items[i], d)]++] = items[i];
    Item* const sorted = other;
    other = items;
    items = sorted;
  }
  return items;
}

/// The first of a row in memory, as elements and places; either may be null.
template <class T, class Item>
FXX_KERNEL void put(const T* row, const Item* items, int count, T* values, std::int64_t* places) {
  if (values)
    for (int i = 0; i < count; ++i) values[i] = row[items[i].place()];
  if (places)
    for (int i = 0; i < count; ++i) places[i] = items[i].place();
}

}  // namespace detail_of_sorting

/// Floats of memory that a part of sort_rows works in, of rows of such elements.
template <class T>
constexpr std::size_t sort_workspace(int length) {
  return 2 * static_cast<std::size_t>(length) * sizeof(typename detail_of_sorting::ItemOf<T>::type) / sizeof(float);
}
/// `values` and `places` get rows of the wanted count, one behind the other; either may be null. Elements: float, or
/// integers of 8 to 64 bits.
template <SortShape Shape, class T>
inline void sort_rows(Part part, const T* in, std::ptrdiff_t row_stride, float* workspace, T* values,
                      std::int64_t* places) {
  using namespace detail_of_sorting;
  typedef typename ItemOf<T>::type Item;
  Item* const items = reinterpret_cast<Item*>(workspace);
  const Range mine = part.of(Shape.rows);
  for (int row = mine.begin; row < mine.end; ++row) {
    const T* const from = in + row * row_stride;
    for (int i = 0; i < Shape.length; ++i) {
      const auto key = key_of(from[i]);
      items[i] = Item(Shape.descending ? ~key : key, static_cast<std::uint32_t>(i));
    }
    const Item* const sorted = Shape.length < 512 ? merged(items, items + Shape.length, Shape.length)
                                                  : by_digits(items, items + Shape.length, Shape.length);
    const std::ptrdiff_t to = static_cast<std::ptrdiff_t>(row) * Shape.wanted();
    put(from, sorted, Shape.wanted(), values ? values + to : nullptr, places ? places + to : nullptr);
  }
}

/// As many of the first elements are found without sorting the others.
inline constexpr int longest_top = 128;
/// The same of up to `longest_top` elements: what is no better than the last of those found so far is passed over, a vector
/// at a time.
template <SortShape Shape, class T>
inline void top_rows(Part part, const T* in, std::ptrdiff_t row_stride, T* values, std::int64_t* places) {
  using namespace detail_of_sorting;
  typedef typename ItemOf<T>::type Item;
  constexpr int count = Shape.wanted();
  static_assert(count > 0 && count <= longest_top && count <= Shape.length, "fxx::kernels: so many are sorted");
  const Range mine = part.of(Shape.rows);
  alignas(Item) unsigned char memory[count * sizeof(Item)];
  Item* const best = reinterpret_cast<Item*>(memory);
  for (int row = mine.begin; row < mine.end; ++row) {
    const T* const from = in + row * row_stride;
    int found = 0;
    const auto item_at = [&](int i) __attribute__((always_inline)) {
      const auto key = key_of(from[i]);
      return Item(Shape.descending ? ~key : key, static_cast<std::uint32_t>(i));
    };
    const auto take = [&](int i) __attribute__((always_inline)) {
      const Item item = item_at(i);
      if (found == count && !item.before(best[count - 1])) return;
      int at = found < count ? found++ : count - 1;
      for (; at > 0 && item.before(best[at - 1]); --at) best[at] = best[at - 1];
      best[at] = item;
    };
    int i = 0;
    for (; i < count; ++i) take(i);
    if constexpr (__is_same(T, float)) {
      float last = from[best[count - 1].place()];
      for (; i + lanes <= Shape.length; i += lanes) {
        const real v = load(from + i);
        // nan is better than any number where the largest are wanted; where the smallest are, any number is better than it.
        const integer better = Shape.descending ? (v > last) | (v != v) : (v < last) | (integer{} - (last != last));
        if (!any(better)) continue;
        for (int e = 0; e < lanes; ++e) take(i + e);
        last = from[best[count - 1].place()];
      }
    }
    for (; i < Shape.length; ++i) take(i);
    const std::ptrdiff_t to = static_cast<std::ptrdiff_t>(row) * count;
    put(from, best, count, values ? values + to : nullptr, places ? places + to : nullptr);
  }
}

}  // namespace fxx::kernels::inline FXX_KERNEL_ISA

#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif
