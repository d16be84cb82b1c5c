// Rows of a table that indices name, combined in bags: sums, means and largest elements, as torch::embedding_bag.
//
//   combine_bags<Bag::sum, bags>(part, indices, offsets, Unweighted{}, table, 10131227, fault,
//                                [&](int bag, int column, real v, auto width) { ... });
//
// Sums are added in the order of the indices: within half of the bag's rows in units of 2^-23 sum |w x|, means in units
// of that divided by the rows; of normally distributed numbers within 1.5. Largest elements are exact, nan when one is.
// Main names: Bag, BagShape, Unweighted, combine_bags. Cost: light; takes the compiler 0.05 s.
#pragma once

#include "fxx/kernels/loops.hpp"
#include "fxx/kernels/reductions.hpp"

#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

namespace fxx::kernels::inline FXX_KERNEL_ISA {

/// What becomes of the rows of a bag.
enum class Bag : std::uint8_t { sum, mean, largest };

/// `bags` bags of rows of `columns` floats.
struct BagShape {
  int bags = 1, columns = 1;
  long count = 0;            // of all indices
  long row_stride = 1;       // of the table; columns lie behind each other
  long left_out = -1;        // a row that is as if it were not in any bag
  bool last_offset = false;  // the offsets end with that of a bag behind the last, which is where that ends
};
/// Instead of weights: each row counts once.
struct Unweighted {};

/// Bag i has the rows that indices[offsets[i]] and those behind it name, up to those of the next bag. `weights`: what
/// each is multiplied with, of sums, or Unweighted. A bag of nothing is 0. Offsets that do not begin with 0, go down or
/// beyond `count`, and indices that no row of the table has, are a fault. `put(bag, column, value, width)` gets the
/// results. Every row that is named is read once, four vectors of its columns at a time; those that come are asked for
/// ahead.
template <Bag How, BagShape Shape, class Index, class Offset, class Weights, class Put>
FXX_KERNEL void combine_bags(Part part, const Index* indices, const Offset* offsets, Weights weights,
                             const float* table, std::int64_t rows, int& fault, const Put& put) {
  constexpr bool weighted = !__is_same(Weights, Unweighted);
  constexpr int ahead = 12;  // rows may come from memory, which is a hundred times as far as the next instruction
  const auto row_at = [&](std::int64_t i) __attribute__((always_inline)) {
    const auto index = static_cast<std::int64_t>(indices[i]);
    return static_cast<std::uint64_t>(index) < static_cast<std::uint64_t>(rows) ? index : std::int64_t{-1};
  };
  const Range mine = part.of(Shape.bags);
  for (int bag = mine.begin; bag < mine.end; ++bag) {
    std::int64_t begin = static_cast<std::int64_t>(offsets[bag]);
    std::int64_t end =
        bag + 1 < Shape.bags || Shape.last_offset ? static_cast<std::int64_t>(offsets[bag + 1]) : Shape.count;
    if (begin < 0 || begin > end || end > Shape.count || (bag == 0 && begin != 0)) {
      __atomic_store_n(&fault, fault_of_index, __ATOMIC_RELAXED);
      begin = end = 0;
    }
    std::int64_t left_out = 0;
    detail_of_rows::for_each_group<Shape.columns>([&]<int Vectors, int Last>(int column, Width<Vectors>, Width<Last>)
                                                      __attribute__((always_inline)) {
      real sums[Vectors];
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v) sums[v] = splat(How == Bag::largest ? -__builtin_inff() : 0.f);
      left_out = 0;
      for (std::int64_t i = begin; i < end; ++i) {
        if (column == 0 && i + ahead < Shape.count)
          if (const std::int64_t next = row_at(i + ahead); next >= 0)
            for (int line = 0; line < Shape.columns; line += 16)
              __builtin_prefetch(table + next * Shape.row_stride + line);
        const std::int64_t row = row_at(i);
        if (row < 0) {
          __atomic_store_n(&fault, fault_of_index, __ATOMIC_RELAXED);
          continue;
        }
        if (Shape.left_out >= 0 && row == Shape.left_out) {
          ++left_out;
          continue;
        }
        const float* const from = table + row * Shape.row_stride + column;
#pragma GCC unroll 4
        for (int v = 0; v < Vectors; ++v) {
          const real x = detail_of_rows::with_width<Vectors, Last>(
              v, [&](auto width) __attribute__((always_inline)) { return load_some<width>(from + v * lanes); });
          if constexpr (How == Bag::largest) sums[v] = maximum(sums[v], x);
          else if constexpr (weighted) sums[v] = multiply_add(x, weights[i], sums[v]);
          else sums[v] = sums[v] + x;
        }
      }
      const std::int64_t count = end - begin - left_out;
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v) {
        if (How == Bag::mean && count > 1) sums[v] = sums[v] / static_cast<float>(count);
        if (How == Bag::largest && count <= 0) sums[v] = splat(0.f);
        detail_of_rows::with_width<Vectors, Last>(
            v, [&](auto width) __attribute__((always_inline)) { put(bag, column + v * lanes, sums[v], width); });
      }
    });
  }
}

}  // namespace fxx::kernels::inline FXX_KERNEL_ISA

#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif
