// Sums, means, extremes, variances and norms of rows, and of columns: over the innermost axis, and over an outer one.
//
// `get(column, width)` gives `width` elements of a row, computed or loaded; a row may have any length, nothing of it is
// stored. Of columns `get(row, column, width)` gives elements of one row, and `put(column, value, width)` gets what the
// rows were reduced to:
//
//   const float mean = row_mean<1000>([&](int c, auto width) { return load_some<width>(x + c); });
//   column_sums<rows, columns>([&](int r, int c, auto width) { return load_some<width>(x + r * columns + c); },
//                              [&](int c, real sum, auto width) { store_some<width>(out + c, sum); });
//
// Sums are made of sums of 16, those of sums of 16, up to four levels; a row has four of them in each lane. So the
// error is within 8 + 8 log16(elements of a lane) units of 2^-23 of the sum of magnitudes, up to a million vectors,
// whatever the numbers are; of random ones, with signs or without, within 1 unit, in columns within 2. LibTorch adds in
// the same way, in as many steps or more. Means are within as many units of the mean of magnitudes. Extremes are exact,
// and nan when an element is.
// Every element is asked for once, of moments twice.
// Main names: row_sum, row_mean, row_largest, row_smallest, row_product, row_any, row_all, row_arg_largest,
// row_arg_smallest, row_moments, row_variance, row_deviation, row_norm, and column_sums to column_norms. Cost: light; each takes the
// compiler 0.05 s.
#pragma once

#include "fxx/kernels/gemm.hpp"

#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

namespace fxx::kernels::inline FXX_KERNEL_ISA {

namespace detail_of_rows {

/// 0, 1, 2, ...
FXX_KERNEL integer iota() {
  integer index;
#pragma GCC unroll 16
  for (int i = 0; i < lanes; ++i) index[i] = i;
  return index;
}
/// The first `Count` elements, `otherwise` behind them.
template <int Count>
FXX_KERNEL real first_or(real v, float otherwise) {
  if constexpr (Count == lanes) return v;
  else return iota() < Count ? v : splat(otherwise);
}
/// Distances from something near a mean, and their squares; or the sums of both.
struct Distances {
  real sum, squares;
};
FXX_KERNEL Distances distance_of(real distance) { return {distance, distance * distance}; }
template <int Count>
FXX_KERNEL Distances first_or(const Distances& v, float otherwise) {
  return {first_or<Count>(v.sum, otherwise), first_or<Count>(v.squares, otherwise)};
}
FXX_KERNEL void set_all(real& v, float value) { v = splat(value); }
FXX_KERNEL void set_all(Distances& v, float value) { v.sum = v.squares = splat(value); }
/// Calls `each(column, width)` for the vectors of some columns of N, which begin at a vector.
template <int N, class Each>
FXX_KERNEL void for_each_vector_of(Range columns, const Each& each) {
  int c = columns.begin;
  if constexpr (N >= lanes)  // g++ warns of what no call reaches
    for (; c + lanes <= columns.end; c += lanes) each(c, Width<lanes>{});
  if constexpr (N % lanes != 0)
    if (c < columns.end) each(c, Width<N % lanes>{});
}
/// Calls `each(column, width)` for the vectors of a row of N elements.
template <int N, class Each>
FXX_KERNEL void for_each_vector(const Each& each) {
  constexpr int whole = N / lanes * lanes;
#pragma GCC unroll 4
  for (int column = 0; column < whole; column += lanes) each(column, Width<lanes>{});
  if constexpr (N > whole) each(whole, Width<N - whole>{});
}

struct Add {
  static constexpr float neutral = 0.f;
  FXX_KERNEL real operator()(real a, real b) const { return a + b; }
  FXX_KERNEL Distances operator()(const Distances& a, const Distances& b) const {
    return {a.sum + b.sum, a.squares + b.squares};
  }
};
struct Multiply {
  static constexpr float neutral = 1.f;
  FXX_KERNEL real operator()(real a, real b) const { return a * b; }
};
struct Largest {
  static constexpr float neutral = -__builtin_inff();
  FXX_KERNEL real operator()(real a, real b) const { return maximum(b, a); }
};
struct Smallest {
  static constexpr float neutral = __builtin_inff();
  FXX_KERNEL real operator()(real a, real b) const { return minimum(b, a); }
};
/// Of masks as bits.
struct Or {
  static constexpr float neutral = 0.f;
  FXX_KERNEL real operator()(real a, real b) const { return of_bits(bits_of(a) | bits_of(b)); }
};

/// What `Count` values are combined to, as above: `add` takes one of each of the `Chains`, in turn.
template <int Count, int Chains, class Combine, class Value = real>
struct Cascade {
  static constexpr int step = 16;
  static constexpr int levels = Count <= step ? 1 : Count <= step * step ? 2 : Count <= step * step * step ? 3 : 4;
  Value sums[levels][Chains];

  FXX_KERNEL Cascade() {
#pragma GCC unroll 4
    for (int level = 0; level < levels; ++level)
#pragma GCC unroll 4
      for (int chain = 0; chain < Chains; ++chain) set_all(sums[level][chain], Combine::neutral);
  }
  /// Calls `value(i, chain)` for all i and chains.
  template <class Of>
  FXX_KERNEL void add(const Of& value) {
    for (int i = 0; i < Count;) {
      const int end = levels == 1 || i + step > Count ? Count : i + step;
      for (; i < end; ++i)
#pragma GCC unroll 4
        for (int chain = 0; chain < Chains; ++chain) sums[0][chain] = Combine{}(sums[0][chain], value(i, chain));
#pragma GCC unroll 4
      for (int level = 1, period = step; level < levels; ++level, period *= step)
        if (i % period == 0) up(level);
    }
#pragma GCC unroll 4
    for (int level = 1; level < levels; ++level) up(level);
  }
  FXX_KERNEL Value total(int chain) const { return sums[levels - 1][chain]; }

 private:
  FXX_KERNEL void up(int level) {
#pragma GCC unroll 4
    for (int chain = 0; chain < Chains; ++chain) {
      sums[level][chain] = Combine{}(sums[level][chain], sums[level - 1][chain]);
      set_all(sums[level - 1][chain], Combine::neutral);
    }
  }
};

/// A row that is runs of so many elements, which lie behind each other: `get(run, column, width)`.
template <int Length, class Get>
struct Runs {
  static constexpr int length = Length;
  Get get;
};
template <class Get>
concept IsInRuns = requires { Get::length; };

/// A row as one vector: elements of the same lanes are combined.
template <int N, class Combine, class Value = real, IsInRuns Get>
FXX_KERNEL Value row_as_vector(const Get& row);
template <int N, class Combine, class Value = real, class Get>
FXX_KERNEL Value row_as_vector(const Get& get) {
  constexpr int chains = 4, quads = N / (chains * lanes), rest = quads * chains * lanes, whole = N / lanes * lanes;
  Value total;
  set_all(total, Combine::neutral);
  if constexpr (quads > 0) {
    Cascade<quads, chains, Combine, Value> cascade;
    cascade.add([&](int i, int chain) __attribute__((always_inline)) {
      return get((i * chains + chain) * lanes, Width<lanes>{});
    });
    const Combine combine;
    total = combine(combine(cascade.total(0), cascade.total(1)), combine(cascade.total(2), cascade.total(3)));
  }
  for (int c = rest; c < whole; c += lanes) total = Combine{}(total, get(c, Width<lanes>{}));
  if constexpr (N > whole)
    total = Combine{}(total, first_or<N - whole>(get(whole, Width<N - whole>{}), Combine::neutral));
  return total;
}
template <int N, class Combine, class Value, IsInRuns Get>
FXX_KERNEL Value row_as_vector(const Get& row) {
  Cascade<N / Get::length, 1, Combine, Value> cascade;
  cascade.add([&](int run, int) __attribute__((always_inline)) {
    return row_as_vector<Get::length, Combine, Value>([&](int c, auto width) __attribute__((always_inline)) {
      return row.get(run, c, width);
    });
  });
  return cascade.total(0);
}
template <int N, class Combine, class Get>
FXX_KERNEL float row_reduced(const Get& get) {
  return detail_of_vectors::reduced<lanes / 2>(row_as_vector<N, Combine>(get), Combine{})[0];
}
/// `get` with a function of its values.
template <class Get, class Of>
FXX_KERNEL auto of_values(const Get& get, const Of& of) {
  if constexpr (IsInRuns<Get>) {
    const auto value = [&get, &of](int run, int c, auto width) __attribute__((always_inline)) {
      return of(get.get(run, c, width));
    };
    return Runs<Get::length, decltype(value)>{value};
  } else {
    return [&get, &of](int c, auto width) __attribute__((always_inline)) { return of(get(c, width)); };
  }
}
/// Does `of` hold for one element?
template <int N, class Get, class Of>
FXX_KERNEL bool row_has(const Get& get, const Of& of) {
  const auto bits = [&](real v) __attribute__((always_inline)) { return of_bits(of(v)); };
  return any(bits_of(row_as_vector<N, Or>(of_values(get, bits))));
}

/// The place of the first largest element, or of the first nan.
template <int N, class Get>
FXX_KERNEL int row_arg_largest(const Get& get) {
  constexpr int whole = N / lanes * lanes;
  integer index = iota(), place = index;
  real best = splat(-__builtin_inff());
  const auto add = [&](real v) __attribute__((always_inline)) {
    const integer better = (v > best) | ((v != v) & (best == best));
    best = better ? v : best;
    place = better ? index : place;
    index = index + lanes;
  };
  for (int c = 0; c < whole; c += lanes) add(get(c, Width<lanes>{}));
  if constexpr (N > whole) add(first_or<N - whole>(get(whole, Width<N - whole>{}), -__builtin_inff()));
  constexpr int count = N < lanes ? N : lanes;
  float value = best[0];
  int found = place[0];
  for (int i = 1; i < count; ++i) {
    const float v = best[i];
    const bool same = v == value || (v != v && value != value);
    if (same ? place[i] < found : v > value || v != v) value = v, found = place[i];
  }
  return found;
}
}  // namespace detail_of_rows

/// Errors of sums and means as above: of random numbers 1 unit.
template <int N, class Get>
FXX_KERNEL float row_sum(const Get& get) { return detail_of_rows::row_reduced<N, detail_of_rows::Add>(get); }
/// One division more.
template <int N, class Get>
FXX_KERNEL float row_mean(const Get& get) { return row_sum<N>(get) / static_cast<float>(N); }
/// Exact; nan when an element is.
template <int N, class Get>
FXX_KERNEL float row_largest(const Get& get) { return detail_of_rows::row_reduced<N, detail_of_rows::Largest>(get); }
/// The same of the smallest.
template <int N, class Get>
FXX_KERNEL float row_smallest(const Get& get) { return detail_of_rows::row_reduced<N, detail_of_rows::Smallest>(get); }
/// Within N / 2 units of 2^-23 of the product, as any order of the factors is; of random factors within sqrt(N).
template <int N, class Get>
FXX_KERNEL float row_product(const Get& get) { return detail_of_rows::row_reduced<N, detail_of_rows::Multiply>(get); }
/// Is one of them not zero? nan is not.
template <int N, class Get>
FXX_KERNEL bool row_any(const Get& get) {
  return detail_of_rows::row_has<N>(get, [](real v) __attribute__((always_inline)) { return v != 0.f; });
}
/// None of them is zero.
template <int N, class Get>
FXX_KERNEL bool row_all(const Get& get) {
  return !detail_of_rows::row_has<N>(get, [](real v) __attribute__((always_inline)) { return v == 0.f; });
}
/// Where the largest element stands: the first of several, the first nan when there is one. Exact.
template <int N, class Get>
FXX_KERNEL int row_arg_largest(const Get& get) { return detail_of_rows::row_arg_largest<N>(get); }
/// The same of the smallest.
template <int N, class Get>
FXX_KERNEL int row_arg_smallest(const Get& get) {
  return detail_of_rows::row_arg_largest<N>(
      [&](int c, auto width) __attribute__((always_inline)) { return -get(c, width); });
}

/// Of a row.
struct Moments {
  float mean, variance;
};
namespace detail_of_rows {
/// Of a sum of squares this is what rounding leaves of it, and no more.
inline constexpr float part_of_rounding = 2e-6f;
/// A mean, and the sum of (x - mean)^2; of columns as vectors.
template <class V>
struct Spread {
  V mean, squares;
};
/// Both out of sums around what is the mean but for rounding, which matters where a row is even: of one value throughout
/// it is all that there is.
FXX_KERNEL Spread<real> settled(real near, const Distances& all, int count) {
  const integer finite = all.squares < __builtin_inff();
  const real off = all.sum / static_cast<float>(count), around = all.squares - all.sum * off;
  const real squares = around > part_of_rounding * all.squares ? around : splat(0.f);
  return {finite ? near + off : near, finite ? squares : all.squares};
}
FXX_KERNEL Spread<float> settled(float near, float sum, float squares, int count) {
  const Spread<real> spread = settled(splat(near), {splat(sum), splat(squares)}, count);
  return {spread.mean[0], spread.squares[0]};
}
/// Nothing is left of the squares: the row is even, or so long and almost even that what differs is lost beside what
/// the mean was off. Around the mean as it is settled it is not.
FXX_KERNEL bool is_lost(float squares, float all) { return squares == 0.f && all != 0.f; }
/// Of no more elements nothing is lost: the mean is within 23 units, beside which a single element that differs by half
/// a unit is more than `part_of_rounding` of the squares.
inline constexpr int longest_unlost = 128;
template <int N, class Get>
FXX_KERNEL Spread<float> row_spread(const Get& get) {
  float near = row_sum<N>(get) * (1.f / N);
  for (bool first = true;; first = false) {
    const auto distance = [&](real v) __attribute__((always_inline)) { return distance_of(v - near); };
    const Distances all = row_as_vector<N, Add, Distances>(of_values(get, distance));
    const float squares = sum(all.squares);
    const Spread<float> spread = settled(near, sum(all.sum), squares, N);
    if (N <= longest_unlost || !first || !is_lost(spread.squares, squares)) return spread;
    near = spread.mean;
  }
}
/// A spread whose squares are of distances times `unit`, a power of two. LibTorch takes squares in double precision, which
/// has those of all distances.
template <class V>
struct SpreadInUnits {
  V mean, squares, unit;
};
/// That in which squares are numbers, by what they come to without.
FXX_KERNEL real unit_of(real squares) {
  const real up = squares < 1e-30f ? splat(0x1p64f) : splat(1.f);
  return squares == __builtin_inff() ? splat(0x1p-96f) : up;
}
template <int N, class Get>
FXX_KERNEL SpreadInUnits<float> row_spread_in_units(const Get& get) {
  const Spread<float> spread = row_spread<N>(get);
  const float unit = unit_of(splat(spread.squares))[0];
  if (unit == 1.f) return {spread.mean, spread.squares, unit};
  const auto distance = [&](real v) __attribute__((always_inline)) { return distance_of((v - spread.mean) * unit); };
  const Distances all = row_as_vector<N, Add, Distances>(of_values(get, distance));
  return {spread.mean, settled(0.f, sum(all.sum), sum(all.squares), N).squares, unit};
}
FXX_KERNEL float divisor_of(int count, float correction) {
  const float divisor = static_cast<float>(count) - correction;
  return divisor > 0.f ? divisor : 0.f;
}
}  // namespace detail_of_rows
/// The variance is the sum of (x - mean)^2 divided by N - correction, nan where there is nothing to divide by. `get` is
/// asked twice for each element, three times where squares of what is very small or large are to be taken, or of almost
/// one value throughout, and up to four times where it is one. Of random numbers, in units of 2^-23, the mean is within
/// 1 of the mean of magnitudes, the variance within 2 of itself and the square of 2 units of the mean of magnitudes,
/// which the mean may be off. Of one value throughout the mean is that and the variance 0, exactly.
template <int N, class Get>
FXX_KERNEL Moments row_moments(const Get& get, float correction = 1.f) {
  const detail_of_rows::SpreadInUnits<float> spread = detail_of_rows::row_spread_in_units<N>(get);
  return {spread.mean, spread.squares / detail_of_rows::divisor_of(N, correction) / spread.unit / spread.unit};
}
/// That of row_moments.
template <int N, class Get>
FXX_KERNEL float row_variance(const Get& get, float correction = 1.f) {
  return row_moments<N>(get, correction).variance;
}
/// Its root, also where the variance is no float. Errors are half of the variance's.
template <int N, class Get>
FXX_KERNEL float row_deviation(const Get& get, float correction = 1.f) {
  const detail_of_rows::SpreadInUnits<float> spread = detail_of_rows::row_spread_in_units<N>(get);
  return __builtin_sqrtf(spread.squares / detail_of_rows::divisor_of(N, correction)) / spread.unit;
}

/// (sum of |x|^p)^(1/p); for p = 0 the elements that are not zero, for infinity the largest magnitude, for minus
/// infinity the least. The choice costs nothing where p is known. As in LibTorch, squares may overflow. Exact for p of 0
/// (up to 2^24 elements) and of either infinity; of random numbers within 1 unit of 2^-23 for p of 1 and 2, in columns 2,
/// for others within 1 + (1.5 + |log(sum of |x|^p)| / 4) / p. nan where an element is, unless p is 0.
template <int N, class Get>
FXX_KERNEL float row_norm(float p, const Get& get) {
  using namespace detail_of_rows;
  const auto magnitude = [](real v) __attribute__((always_inline)) { return absolute(v); };
  const auto size = of_values(get, magnitude);
  if (p == 2.f) {
    const auto square = [](real v) __attribute__((always_inline)) { return v * v; };
    return __builtin_sqrtf(row_sum<N>(of_values(get, square)));
  }
  if (p == 1.f) return row_sum<N>(size);
  if (p == __builtin_inff()) return row_largest<N>(size);
  if (p == -__builtin_inff()) return row_smallest<N>(size);
  if (p == 0.f) {
    const auto counted = [](real v) __attribute__((always_inline)) { return ones(v != 0.f); };
    return row_sum<N>(of_values(get, counted));
  }
  const auto raised = [&](real v) __attribute__((always_inline)) { return power(absolute(v), splat(p)); };
  const real total = splat(row_sum<N>(of_values(get, raised)));
  return power(total, splat(1.f / p))[0];
}

/// A row for those above, but for places of elements, that is runs of `Length` elements in memory:
/// `get(run, column, width)`.
template <int Length, class Get>
FXX_KERNEL auto in_runs(const Get& get) {
  return detail_of_rows::Runs<Length, Get>{get};
}

// --- columns ---------------------------------------------------------------------------------------------------------

namespace detail_of_rows {
/// Calls `some(column, number of vectors, width of the last)` for groups of up to four vectors of some columns, which
/// begin at a group.
template <int Columns, class Some>
FXX_KERNEL void for_each_group_of(Range mine, const Some& some) {
  constexpr int wide = 4 * lanes, whole = Columns / wide * wide;
  if constexpr (whole > 0)  // g++ warns of what no call reaches
    for (int column = mine.begin; column + wide <= mine.end; column += wide) some(column, Width<4>{}, Width<lanes>{});
  if constexpr (Columns > whole) {
    constexpr int vectors = vectors_of(Columns - whole);
    if (mine.end > whole) some(whole, Width<vectors>{}, Width<Columns - whole - (vectors - 1) * lanes>{});
  }
}
/// The same of the part's columns.
template <int Columns, class Some>
FXX_KERNEL void for_each_group(const Some& some, Part part = Part{}) {
  for_each_group_of<Columns>(part.of(Columns, 4 * lanes), some);
}
/// Element `v` of a group: its width is that of the last vector only there. Both are known once a loop is unrolled.
template <int Vectors, int Last, class Each>
FXX_KERNEL auto with_width(int v, const Each& each) {
  if constexpr (Last == lanes) {
    return each(Width<lanes>{});
  } else if constexpr (Vectors == 1) {
    return each(Width<Last>{});
  } else {
    if (v == Vectors - 1) return each(Width<Last>{});
    return each(Width<lanes>{});
  }
}
/// Vectors of columns that are reduced at a time: what they come to stays in the first cache.
template <int Columns>
inline constexpr int chunk_vectors = vectors_of(Columns) < 32 ? vectors_of(Columns) : 32;
/// Calls `some(range)` for the part's columns, so many at a time.
template <int Columns, class Some>
FXX_KERNEL void for_each_chunk(Part part, const Some& some) {
  const Range mine = part.of(Columns, 4 * lanes);
  constexpr int chunk = chunk_vectors<Columns> * lanes;
  for (int first = mine.begin; first < mine.end; first += chunk)
    some(Range{first, first + chunk < mine.end ? first + chunk : mine.end});
}
/// The cascades of a chunk of columns, 16 rows at a time: they are read along the rows, as they lie in memory, and not
/// each column from top to bottom, where every element is on another page.
template <int Rows, int Columns, class Combine, class Value = real>
struct ChunkCascade {
  static constexpr int step = 16;
  static constexpr int levels = Rows <= step * step ? 1 : Rows <= step * step * step ? 2 : 3;
  Value sums[levels][chunk_vectors<Columns>];

  /// Combines all rows of `get(row, column, width)`.
  template <class Get>
  FXX_KERNEL ChunkCascade(Range range, const Get& get) {
    for (auto& level : sums)
      for (Value& sum : level) set_all(sum, Combine::neutral);
    for (int row = 0; row < Rows;) {
      const int end = row + step < Rows ? row + step : Rows;
      for_each_group_of<Columns>(range, [&]<int Vectors, int Last>(int column, Width<Vectors>, Width<Last>)
                                            __attribute__((always_inline)) {
        Value part[Vectors];
#pragma GCC unroll 4
        for (int v = 0; v < Vectors; ++v) set_all(part[v], Combine::neutral);
        for (int r = row; r < end; ++r)
#pragma GCC unroll 4
          for (int v = 0; v < Vectors; ++v)
            part[v] = Combine{}(part[v], with_width<Vectors, Last>(v, [&](auto width) __attribute__((always_inline)) {
                                  return get(r, column + v * lanes, width);
                                }));
        Value* const first = sums[0] + (column - range.begin) / lanes;
#pragma GCC unroll 4
        for (int v = 0; v < Vectors; ++v) first[v] = Combine{}(first[v], part[v]);
      });
      row = end;
      for (int level = 1, period = step * step; level < levels; ++level, period *= step)
        if (row % period == 0) up(level);
    }
    for (int level = 1; level < levels; ++level) up(level);
  }
  FXX_KERNEL const Value& total(int vector) const { return sums[levels - 1][vector]; }

 private:
  FXX_KERNEL void up(int level) {
    for (int i = 0; i < chunk_vectors<Columns>; ++i) {
      sums[level][i] = Combine{}(sums[level][i], sums[level - 1][i]);
      set_all(sums[level - 1][i], Combine::neutral);
    }
  }
};
/// Columns whose rows lie behind each other: element `at` of the whole is that of row `at / Columns`.
template <int Columns, class Get>
struct Behind {
  static constexpr int columns = Columns;
  Get get;
  FXX_KERNEL real operator()(int row, int column, auto width) const { return get(row * Columns + column, width); }
};
template <class Get>
concept IsBehind = requires { Get::columns; };
/// `get` with a function of its values.
template <class Get, class Of>
FXX_KERNEL auto of_columns(const Get& get, const Of& of) {
  if constexpr (IsBehind<Get>) {
    const auto value = [&get, &of](int at, auto width) __attribute__((always_inline)) { return of(get.get(at, width)); };
    return Behind<Get::columns, decltype(value)>{value};
  } else {
    return [&get, &of](int r, int c, auto width) __attribute__((always_inline)) { return of(get(r, c, width)); };
  }
}
/// Rows that are taken as one, a power of two, so that few columns fill up to four vectors.
template <int Rows, int Columns>
FXX_KERNEL constexpr int rows_together() {
  int together = 1;
  while (Rows % (2 * together) == 0 && 2 * together * Columns <= 4 * lanes) together *= 2;
  return together;
}
template <int Rows, int Columns, class Combine, class Value = real, class Get, class Put>
FXX_KERNEL void columns_reduced(const Get& get, const Put& put, Part part = Part{});
template <int Rows, int Columns, class Combine, class Value = real, IsBehind Get, class Put>
FXX_KERNEL void columns_reduced(const Get& columns, const Put& put, Part part = Part{}) {
  constexpr int together = rows_together<Rows, Columns>(), wide = together * Columns;
  const auto get = [&columns](int row, int column, auto width) __attribute__((always_inline)) {
    return columns.get(row * wide + column, width);
  };
  if constexpr (together == 1) {
    columns_reduced<Rows, Columns, Combine, Value>(get, put, part);
  } else if (part.index == 0) {  // there is no more than one group of columns
    float all[wide];
    columns_reduced<Rows / together, wide, Combine, Value>(
        get, [&](int c, real v, auto width) __attribute__((always_inline)) { store_some<width>(all + c, v); });
    for_each_vector<Columns>([&](int c, auto width) __attribute__((always_inline)) {
      real v = load_some<width>(all + c);
#pragma GCC unroll 64
      for (int row = 1; row < together; ++row) v = Combine{}(v, load_some<width>(all + row * Columns + c));
      put(c, v, width);
    });
  }
}
template <int Rows, int Columns, class Combine, class Value, class Get, class Put>
FXX_KERNEL void columns_reduced(const Get& get, const Put& put, Part part) {
  if constexpr (Rows > 16 && Columns > 4 * lanes) {
    for_each_chunk<Columns>(part, [&](Range range) __attribute__((always_inline)) {
      const ChunkCascade<Rows, Columns, Combine, Value> cascade(range, get);
      for_each_vector_of<Columns>(range, [&](int c, auto width) __attribute__((always_inline)) {
        put(c, cascade.total((c - range.begin) / lanes), width);
      });
    });
  } else {
    for_each_group<Columns>([&]<int Vectors, int Last>(int column, Width<Vectors>, Width<Last>)
                                __attribute__((always_inline)) {
      Cascade<Rows, Vectors, Combine, Value> cascade;
      cascade.add([&](int row, int v) __attribute__((always_inline)) {
        return with_width<Vectors, Last>(
            v, [&](auto width) __attribute__((always_inline)) { return get(row, column + v * lanes, width); });
      });
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v)
        with_width<Vectors, Last>(v, [&](auto width) __attribute__((always_inline)) {
          put(column + v * lanes, cascade.total(v), width);
        });
    }, part);
  }
}
/// `put` with a function of its values.
template <class Put, class Of>
FXX_KERNEL auto put_of(const Put& put, const Of& of) {
  return [&put, &of](int c, real v, auto width) __attribute__((always_inline)) { put(c, of(v), width); };
}
}  // namespace detail_of_rows

/// Errors of sums and means as above: of random numbers 2 units.
template <int Rows, int Columns, class Get, class Put>
FXX_KERNEL void column_sums(const Get& get, const Put& put, Part part = Part{}) {
  detail_of_rows::columns_reduced<Rows, Columns, detail_of_rows::Add>(get, put, part);
}
/// The same, divided by the rows.
template <int Rows, int Columns, class Get, class Put>
FXX_KERNEL void column_means(const Get& get, const Put& put, Part part = Part{}) {
  column_sums<Rows, Columns>(get, [&](int c, real sum, auto width) __attribute__((always_inline)) {
    put(c, sum / static_cast<float>(Rows), width);
  }, part);
}
/// Exact; nan when an element of the column is.
template <int Rows, int Columns, class Get, class Put>
FXX_KERNEL void column_largest(const Get& get, const Put& put, Part part = Part{}) {
  detail_of_rows::columns_reduced<Rows, Columns, detail_of_rows::Largest>(get, put, part);
}
/// The same of the smallest.
template <int Rows, int Columns, class Get, class Put>
FXX_KERNEL void column_smallest(const Get& get, const Put& put, Part part = Part{}) {
  detail_of_rows::columns_reduced<Rows, Columns, detail_of_rows::Smallest>(get, put, part);
}
/// Errors as row_product's.
template <int Rows, int Columns, class Get, class Put>
FXX_KERNEL void column_products(const Get& get, const Put& put, Part part = Part{}) {
  detail_of_rows::columns_reduced<Rows, Columns, detail_of_rows::Multiply>(get, put, part);
}
/// `put(column, mask, width)` gets an integer vector, as comparisons give: is one element not zero?
template <int Rows, int Columns, class Get, class Put>
FXX_KERNEL void column_any(const Get& get, const Put& put, Part part = Part{}) {
  const auto bits = [](real v) __attribute__((always_inline)) { return of_bits(v != 0.f); };
  detail_of_rows::columns_reduced<Rows, Columns, detail_of_rows::Or>(
      detail_of_rows::of_columns(get, bits),
      [&](int c, real mask, auto width) __attribute__((always_inline)) { put(c, bits_of(mask), width); }, part);
}
/// The same: is none zero?
template <int Rows, int Columns, class Get, class Put>
FXX_KERNEL void column_all(const Get& get, const Put& put, Part part = Part{}) {
  const auto bits = [](real v) __attribute__((always_inline)) { return of_bits(v == 0.f); };
  detail_of_rows::columns_reduced<Rows, Columns, detail_of_rows::Or>(
      detail_of_rows::of_columns(get, bits),
      [&](int c, real mask, auto width) __attribute__((always_inline)) { put(c, ~bits_of(mask), width); }, part);
}
/// `put(column, row, width)` gets an integer vector: the first row of the largest element, or of the first nan. Exact.
template <int Rows, int Columns, class Get, class Put>
FXX_KERNEL void column_arg_largest(const Get& get, const Put& put, Part part = Part{}) {
  using namespace detail_of_rows;
  constexpr int step = 16;  // rows, as of sums
  for_each_chunk<Columns>(part, [&](Range range) __attribute__((always_inline)) {
    real best[chunk_vectors<Columns>] = {};
    integer place[chunk_vectors<Columns>] = {};
    for_each_vector_of<Columns>(range, [&](int c, auto width) __attribute__((always_inline)) {
      best[(c - range.begin) / lanes] = get(0, c, width);
    });
    for (int row = 1; row < Rows; row += step) {
      const int end = row + step < Rows ? row + step : Rows;
      for_each_group_of<Columns>(range, [&]<int Vectors, int Last>(int column, Width<Vectors>, Width<Last>)
                                            __attribute__((always_inline)) {
        const int first = (column - range.begin) / lanes;
        real top[Vectors];
        integer at[Vectors];
#pragma GCC unroll 4
        for (int v = 0; v < Vectors; ++v) top[v] = best[first + v], at[v] = place[first + v];
        for (int r = row; r < end; ++r)
#pragma GCC unroll 4
          for (int v = 0; v < Vectors; ++v) {
            const real x = with_width<Vectors, Last>(
                v, [&](auto width) __attribute__((always_inline)) { return get(r, column + v * lanes, width); });
            const integer better = (x > top[v]) | ((x != x) & (top[v] == top[v]));
            top[v] = better ? x : top[v];
            at[v] = better ? integer{} + r : at[v];
          }
#pragma GCC unroll 4
        for (int v = 0; v < Vectors; ++v) best[first + v] = top[v], place[first + v] = at[v];
      });
    }
    for_each_vector_of<Columns>(range, [&](int c, auto width) __attribute__((always_inline)) {
      put(c, place[(c - range.begin) / lanes], width);
    });
  });
}
/// The same of the smallest.
template <int Rows, int Columns, class Get, class Put>
FXX_KERNEL void column_arg_smallest(const Get& get, const Put& put, Part part = Part{}) {
  column_arg_largest<Rows, Columns>(
      [&](int r, int c, auto width) __attribute__((always_inline)) { return -get(r, c, width); }, put, part);
}
namespace detail_of_rows {
/// `put(column, spread, width)` gets a SpreadInUnits<real>.
template <int Rows, int Columns, class Get, class Put>
FXX_KERNEL void column_spreads(const Get& get, const Put& put, Part part) {
  for_each_chunk<Columns>(part, [&](Range range) __attribute__((always_inline)) {
    const auto index = [&](int c) __attribute__((always_inline)) { return (c - range.begin) / lanes; };
    real near[chunk_vectors<Columns>] = {};
    {
      const ChunkCascade<Rows, Columns, Add> sums(range, get);
      for_each_vector_of<Columns>(range, [&](int c, auto) __attribute__((always_inline)) {
        near[index(c)] = sums.total(index(c)) / static_cast<float>(Rows);
      });
    }
    SpreadInUnits<real> spreads[chunk_vectors<Columns>] = {};
    bool again = false;
    for (bool first = true, lost = true; lost; first = false) {
      const ChunkCascade<Rows, Columns, Add, Distances> distances(
          range, [&](int row, int c, auto width) __attribute__((always_inline)) {
            return distance_of(get(row, c, width) - near[index(c)]);
          });
      again = lost = false;
      for_each_vector_of<Columns>(range, [&](int c, auto width) __attribute__((always_inline)) {
        const int v = index(c);
        const Distances all = distances.total(v);
        const Spread<real> spread = settled(near[v], all, Rows);
        const real unit = first_or<width>(unit_of(spread.squares), 1.f);
        spreads[v] = {spread.mean, spread.squares, unit};
        again = again || any(unit != 1.f);
        if (Rows <= longest_unlost || !first) return;
        // As is_lost has it: once more, around other means for those columns alone.
        const integer lost_here = (first_or<width>(spread.squares, 1.f) == 0.f) & (all.squares != 0.f);
        near[v] = lost_here ? spread.mean : near[v];
        lost = lost || any(lost_here);
      });
    }
    if (again) {
      const ChunkCascade<Rows, Columns, Add, Distances> in_units(
          range, [&](int row, int c, auto width) __attribute__((always_inline)) {
            const SpreadInUnits<real>& spread = spreads[index(c)];
            return distance_of((get(row, c, width) - spread.mean) * spread.unit);
          });
      for_each_vector_of<Columns>(range, [&](int c, auto) __attribute__((always_inline)) {
        // Of those columns alone: others are as they would be in another chunk, whatever part they are in.
        SpreadInUnits<real>& spread = spreads[index(c)];
        const real squares = settled(splat(0.f), in_units.total(index(c)), Rows).squares;
        spread.squares = spread.unit != 1.f ? squares : spread.squares;
      });
    }
    for_each_vector_of<Columns>(
        range, [&](int c, auto width) __attribute__((always_inline)) { put(c, spreads[index(c)], width); });
  });
}
}  // namespace detail_of_rows
/// `put(column, mean, variance, width)`; `get` is asked as often as by row_moments. Of random numbers the mean is within 2
/// units of 2^-23 of the mean of magnitudes, the variance as row_moments'.
template <int Rows, int Columns, class Get, class Put>
FXX_KERNEL void column_moments(const Get& get, float correction, const Put& put, Part part = Part{}) {
  const float divisor = detail_of_rows::divisor_of(Rows, correction);
  detail_of_rows::column_spreads<Rows, Columns>(
      get, [&](int c, const detail_of_rows::SpreadInUnits<real>& spread, auto width) __attribute__((always_inline)) {
        put(c, spread.mean, spread.squares / divisor / spread.unit / spread.unit, width);
      }, part);
}
/// `put(column, deviation, width)`: the root of the variance, also where that is no float.
template <int Rows, int Columns, class Get, class Put>
FXX_KERNEL void column_deviations(const Get& get, float correction, const Put& put, Part part = Part{}) {
  const float divisor = detail_of_rows::divisor_of(Rows, correction);
  detail_of_rows::column_spreads<Rows, Columns>(
      get, [&](int c, const detail_of_rows::SpreadInUnits<real>& spread, auto width) __attribute__((always_inline)) {
        put(c, square_root(spread.squares / divisor) / spread.unit, width);
      }, part);
}
/// As row_norm, with errors of columns.
template <int Rows, int Columns, class Get, class Put>
FXX_KERNEL void column_norms(float p, const Get& get, const Put& put, Part part = Part{}) {
  using namespace detail_of_rows;
  const auto magnitude = [](real v) __attribute__((always_inline)) { return absolute(v); };
  if (p == 2.f) {
    const auto square = [](real v) __attribute__((always_inline)) { return v * v; };
    column_sums<Rows, Columns>(of_columns(get, square), [&](int c, real v, auto width) __attribute__((always_inline)) {
      put(c, square_root(v), width);
    }, part);
  } else if (p == 1.f) {
    column_sums<Rows, Columns>(of_columns(get, magnitude), put, part);
  } else if (p == __builtin_inff()) {
    column_largest<Rows, Columns>(of_columns(get, magnitude), put, part);
  } else if (p == -__builtin_inff()) {
    column_smallest<Rows, Columns>(of_columns(get, magnitude), put, part);
  } else if (p == 0.f) {
    const auto counted = [](real v) __attribute__((always_inline)) { return ones(v != 0.f); };
    column_sums<Rows, Columns>(of_columns(get, counted), put, part);
  } else {
    const auto raised = [&](real v) __attribute__((always_inline)) { return power(absolute(v), splat(p)); };
    column_sums<Rows, Columns>(of_columns(get, raised), [&](int c, real v, auto width) __attribute__((always_inline)) {
      put(c, power(v, splat(1.f / p)), width);
    }, part);
  }
}

/// Columns for those above, but for places of elements and moments, whose rows lie behind each other in memory:
/// `get(at, width)`, `at` counted from the first row's first element. So few of them that several rows fit into four
/// vectors take as long as many.
template <int Columns, class Get>
FXX_KERNEL auto rows_behind(const Get& get) {
  return detail_of_rows::Behind<Columns, Get>{get};
}

}  // namespace fxx::kernels::inline FXX_KERNEL_ISA

#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif
