// Softmax and normalisation of rows whose length is known, fused with what stands before and behind them.
//
// `get(column, width)` gives `width` elements of the row, computed or loaded. `put(column, value, width)` gets the
// results:
//
//   softmax<128>([&](int c, auto width) { return load_some<width>(scores + c) * scale + load_some<width>(mask + c); },
//                [&](int c, real p, auto width) { store_some<width>(weights + c, p); });
//
// A row of up to `longest_row` elements stands on the stack in between, and `get` is asked once for each element; of
// longer ones it is asked again for each pass, two to four times. Whatever `put` writes may be what `get` reads.
// Errors are in units of 2^-23, of rows of normally distributed numbers with any mean and deviation; exponentials are of
// numbers below zero, so nothing overflows.
// Main names: softmax, top_of_row, powers_in_place, log_softmax, column_softmax, column_log_softmax, row_log_sum_exp,
// column_log_sum_exp, layer_norm, rms_norm, GroupShape, group_norm.
// Cost: light; each takes the compiler 0.05 s.
#pragma once

#include "fxx/kernels/reductions.hpp"

#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

namespace fxx::kernels::inline FXX_KERNEL_ISA {

/// Elements of a row that is kept on the stack, 16 kB: longer ones are asked for again.
inline constexpr int longest_row = 4096;

namespace detail_of_rows {
/// A row, on the stack or not.
template <int N, class Get>
struct Row {
  static constexpr bool kept = N <= longest_row;
  real vectors[kept ? vectors_of(N) : 1];
  const Get& get;

  FXX_KERNEL explicit Row(const Get& get_) : get(get_) { keep(get_); }
  /// Puts other elements in their place, where there is one.
  template <class Of>
  FXX_KERNEL void keep(const Of& of) {
    if constexpr (kept)
      for_each_vector<N>([&](int c, auto width) __attribute__((always_inline)) { vectors[c / lanes] = of(c, width); });
  }
  template <class Width_>
  FXX_KERNEL real operator()(int c, Width_ width) const {
    if constexpr (kept) return vectors[c / lanes];
    else return get(c, width);
  }
};
/// e^x for x of no more than zero, with gradual underflow; exactly 0 below -132, so that what is hidden costs no more.
FXX_KERNEL real vanishing_exponential(real x) {
  // 2^n is 2^(n + 64), which is normal, or 0 where n is -191, times 2^-64: one rounding.
  const Exponential e = reduced(no_less(x, -132.3f));
  return (e.p + 1.f) * of_bits((integer)(((natural)e.shifted + 191u) << 23)) * 0x1p-64f;
}
/// e^x for any x, exactly 0 where that would be less than 1e-37.
FXX_KERNEL real exponential_or_zero(real x) { return x < -85.f ? splat(0.f) : exponential_above(x); }
/// That of no more than zero without gradual underflow: 0 where it would be less than 2^-125.5, as the vectors of
/// LibTorch's attention have it (exp_u20).
FXX_KERNEL real cut_exponential(real x) {
  const Exponential e = reduced(no_less(x, -87.f));
  return x < -86.98996734619141f ? splat(0.f) : (e.p + 1.f) * power_of_two(e.shifted);
}
}  // namespace detail_of_rows

/// e^x / sum of e^x. As in LibTorch, a row with nan, with plus infinity, or of nothing but minus infinity is all nan.
/// Within 4 + (largest - x) / 2 units of the result, the second for rounding x - largest, as any computation in floats
/// does, with gradual underflow. An exponential an element.
template <int N, class Get, class Put>
FXX_KERNEL void softmax(const Get& get, const Put& put) {
  using namespace detail_of_rows;
  Row<N, Get> row(get);
  const float most = row_largest<N>(row);
  const auto power = [&](int c, auto width) __attribute__((always_inline)) {
    return vanishing_exponential(row(c, width) - most);
  };
  if constexpr (row.kept) {
    row.keep(power);
    const float factor = 1.f / row_sum<N>(row);
    for_each_vector<N>(
        [&](int c, auto width) __attribute__((always_inline)) { put(c, unfused(row(c, width) * factor), width); });
  } else {
    const float factor = 1.f / row_sum<N>(power);
    for_each_vector<N>(
        [&](int c, auto width) __attribute__((always_inline)) { put(c, unfused(power(c, width) * factor), width); });
  }
}
/// Of a row in memory whose length is known when it runs, the largest, and no less than `least`; what is behind its end
/// up to a whole vector, for which it has room, becomes minus infinity.
FXX_KERNEL float top_of_row(float* row, int count, float least = -__builtin_inff()) {
  const int size = vectors_of(count) * lanes;
  for (int i = count; i < size; ++i) row[i] = -__builtin_inff();
  real most = splat(least);
  for (int i = 0; i < size; i += lanes) most = maximum(most, load(row + i));
  return largest(most);
}
/// Such a row becomes e^(x - top), within 1.5 + (top - x) / 2 units; with `Cut` what is before `end_of_cut`, a whole number
/// of vectors, without gradual underflow. Returns the sum.
template <bool Cut = false>
FXX_KERNEL float powers_in_place(float* row, int count, float top, int end_of_cut = 0) {
  const int size = vectors_of(count) * lanes;
  real total = splat(0.f);
  int i = 0;
  if constexpr (Cut)
    for (; i < size && i < end_of_cut; i += lanes) {
      const real e = detail_of_rows::cut_exponential(load(row + i) - top);
      total = total + e;
      store(row + i, e);
    }
  for (; i < size; i += lanes) {
    const real e = detail_of_rows::vanishing_exponential(load(row + i) - top);
    total = total + e;
    store(row + i, e);
  }
  return sum(total);
}
/// x - log(sum of e^x), within 1.5 units of the result's magnitude and 1. nan as above; minus infinity stays.
template <int N, class Get, class Put>
FXX_KERNEL void log_softmax(const Get& get, const Put& put) {
  using namespace detail_of_rows;
  const Row<N, Get> row(get);
  const float most = row_largest<N>(row);
  const float total = row_sum<N>([&](int c, auto width) __attribute__((always_inline)) {
    return vanishing_exponential(row(c, width) - most);
  });
  const float shift = logarithm(splat(total))[0];
  for_each_vector<N>(
      [&](int c, auto width) __attribute__((always_inline)) { put(c, (row(c, width) - most) - shift, width); });
}
/// log(sum of e^x): plus infinity where an element is, minus infinity where all are. Within 1 unit of the sum of the
/// result's magnitude, the largest element's and 1.
template <int N, class Get>
FXX_KERNEL float row_log_sum_exp(const Get& get) {
  using namespace detail_of_rows;
  const Row<N, Get> row(get);
  float most = row_largest<N>(row);
  if (__builtin_fabsf(most) > 3.40282347e38f) most = 0.f;
  const float total = row_sum<N>([&](int c, auto width) __attribute__((always_inline)) {
    return exponential_or_zero(row(c, width) - most);
  });
  return most + logarithm(splat(total))[0];
}
/// The same of each column, for which `get` is asked twice: `put(column, value, width)`. Errors are those of
/// row_log_sum_exp.
template <int Rows, int Columns, class Get, class Put>
FXX_KERNEL void column_log_sum_exp(const Get& get, const Put& put, Part part = Part{}) {
  using namespace detail_of_rows;
  for_each_chunk<Columns>(part, [&](Range range) __attribute__((always_inline)) {
    real most[chunk_vectors<Columns>] = {};
    {
      const ChunkCascade<Rows, Columns, Largest> tops(range, get);
      for (int i = 0; i < chunk_vectors<Columns>; ++i)
        most[i] = absolute(tops.total(i)) > 3.40282347e38f ? splat(0.f) : tops.total(i);
    }
    const ChunkCascade<Rows, Columns, Add> sums(range, [&](int row, int c, auto width) __attribute__((always_inline)) {
      return exponential_or_zero(get(row, c, width) - most[(c - range.begin) / lanes]);
    });
    for_each_vector_of<Columns>(range, [&](int c, auto width) __attribute__((always_inline)) {
      const int i = (c - range.begin) / lanes;
      put(c, most[i] + logarithm(sums.total(i)), width);
    });
  });
}

namespace detail_of_rows {
/// Columns that are kept on the stack: 8 kB for each vector.
inline constexpr int longest_column = 128;
template <int Rows, int Columns, bool Log, class Get, class Put>
FXX_KERNEL void column_softmax(const Get& get, const Put& put, Part part) {
  constexpr bool kept = Rows <= longest_column;
  for_each_vector_of<Columns>(part.of(Columns, lanes), [&](int c, auto width) __attribute__((always_inline)) {
    real vectors[kept ? Rows : 1];
    real most = get(0, c, width);
    vectors[0] = most;
    for (int row = 1; row < Rows; ++row) {
      const real v = get(row, c, width);
      if (kept) vectors[row] = v;
      most = maximum(most, v);
    }
    const auto distance = [&](int row) __attribute__((always_inline)) {
      return (kept ? vectors[row] : get(row, c, width)) - most;
    };
    Cascade<Rows, 1, Add> cascade;
    cascade.add([&](int row, int) __attribute__((always_inline)) {
      const real away = distance(row), power = vanishing_exponential(away);
      if (kept && !Log) vectors[row] = power;
      return power;
    });
    const real total = cascade.total(0), factor = Log ? logarithm(total) : 1.f / total;
    for (int row = 0; row < Rows; ++row) {
      if constexpr (Log) put(row, c, distance(row) - factor, width);
      else put(row, c, unfused((kept ? vectors[row] : vanishing_exponential(distance(row))) * factor), width);
    }
  });
}
}  // namespace detail_of_rows

/// softmax of each column: `get(row, column, width)`, `put(row, column, value, width)`. Of up to 128 rows `get` is asked
/// once for each element, of more three times. Errors and nan as softmax.
template <int Rows, int Columns, class Get, class Put>
FXX_KERNEL void column_softmax(const Get& get, const Put& put, Part part = Part{}) {
  detail_of_rows::column_softmax<Rows, Columns, false>(get, put, part);
}
/// The same with the errors of log_softmax.
template <int Rows, int Columns, class Get, class Put>
FXX_KERNEL void column_log_softmax(const Get& get, const Put& put, Part part = Part{}) {
  detail_of_rows::column_softmax<Rows, Columns, true>(get, put, part);
}

/// (x - mean) / sqrt(variance + eps), the variance being that of all elements, around the mean. Within 2 units of the
/// result and of mean |x| / sqrt(variance + eps), which is what rounding the mean leaves. A row with nan or an infinity is
/// all nan.
template <int N, class Get, class Put>
FXX_KERNEL void layer_norm(float eps, const Get& get, const Put& put) {
  using namespace detail_of_rows;
  const Row<N, Get> row(get);
  const Spread<float> spread = row_spread<N>(row);
  const float factor = 1.f / __builtin_sqrtf(spread.squares * (1.f / N) + eps);
  for_each_vector<N>([&](int c, auto width) __attribute__((always_inline)) {
    put(c, unfused((row(c, width) - spread.mean) * factor), width);
  });
}
/// x / sqrt(mean of x^2 + eps), within 2 units. Beside an infinity, which becomes nan, all are 0, as in LibTorch.
template <int N, class Get, class Put>
FXX_KERNEL void rms_norm(float eps, const Get& get, const Put& put) {
  using namespace detail_of_rows;
  const Row<N, Get> row(get);
  const float squares =
      row_sum<N>(of_values(row, [](real v) __attribute__((always_inline)) { return v * v; }));
  const float factor = 1.f / __builtin_sqrtf(squares * (1.f / N) + eps);
  for_each_vector<N>([&](int c, auto width) __attribute__((always_inline)) {
    put(c, unfused(row(c, width) * factor), width);
  });
}

/// Pixels of channels, of which `channels / groups` in turn are one group.
struct GroupShape {
  int pixels = 1, channels = 1, groups = 1;
  consteval int size() const { return channels / groups; }
  /// Floats of the workspace. It may be millions, which is why it is not on the stack.
  constexpr std::size_t workspace() const { return 3 * static_cast<std::size_t>(vectors_of(channels)) * lanes; }
};
namespace detail_of_rows {
/// The mean of a group of channels, of which there are sums.
template <GroupShape Shape>
FXX_KERNEL float mean_of_group(const float* channels) {
  double total = 0;
  for (int c = 0; c < Shape.size(); ++c) total += static_cast<double>(channels[c]);
  return static_cast<float>(total / (static_cast<double>(Shape.pixels) * Shape.size()));
}
}  // namespace detail_of_rows
/// (x - mean) / sqrt(variance + eps) of the pixels' channels that are one group, channels last; as many groups as
/// channels make it the norm of instances. `get(pixel, channel, width)` is asked three times for each element,
/// four times where a group is of almost one value. `put(pixel, channel, value, width)` gets the results. `workspace` is
/// the caller's own. Errors as layer_norm's, but 3 units.
template <GroupShape Shape, class Get, class Put>
FXX_KERNEL void group_norm(float eps, float* __restrict workspace, const Get& get, const Put& put) {
  static_assert(Shape.channels % Shape.groups == 0, "fxx::kernels: groups of channels are of one size");
  using namespace detail_of_rows;
  constexpr std::ptrdiff_t room = Shape.workspace() / 3;
  // The last two are sums before they are what their names say.
  float *const near = workspace, *const means = near + room, *const factors = means + room;
  column_sums<Shape.pixels, Shape.channels>(get, [&](int c, real sum, auto width) __attribute__((always_inline)) {
    store_some<width>(means + c, sum);
  });
  for (int c = 0; c < Shape.channels; c += Shape.size()) {
    const float mean = mean_of_group<Shape>(means + c);
    for (int k = c; k < c + Shape.size(); ++k) near[k] = mean;
  }
  for (bool first = true, lost = true; lost; first = false) {
    columns_reduced<Shape.pixels, Shape.channels, Add, Distances>(
        [&](int pixel, int c, auto width) __attribute__((always_inline)) {
          return distance_of(get(pixel, c, width) - load_some<width>(near + c));
        },
        [&](int c, const Distances& all, auto width) __attribute__((always_inline)) {
          store_some<width>(means + c, all.sum);
          store_some<width>(factors + c, all.squares);
        });
    lost = false;
    for (int c = 0; c < Shape.channels; c += Shape.size()) {
      const float squares = mean_of_group<Shape>(factors + c);
      const Spread<float> group = settled(near[c], mean_of_group<Shape>(means + c), squares, 1);
      const float factor = 1.f / __builtin_sqrtf(group.squares + eps);
      const bool group_lost = first && is_lost(group.squares, squares);
      lost = lost || group_lost;
      for (int k = c; k < c + Shape.size(); ++k) {
        means[k] = group.mean, factors[k] = factor;
        if (group_lost) near[k] = group.mean;
      }
    }
  }
  for (int pixel = 0; pixel < Shape.pixels; ++pixel)
    for_each_vector<Shape.channels>([&](int c, auto width) __attribute__((always_inline)) {
      const real distance = get(pixel, c, width) - load_some<width>(means + c);
      put(pixel, c, unfused(distance * load_some<width>(factors + c)), width);
    });
}

}  // namespace fxx::kernels::inline FXX_KERNEL_ISA

#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif
