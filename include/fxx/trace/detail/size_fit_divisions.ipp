// Of trace/detail/size_fit.hpp: sizes that are made by dividing, as strides and windows make them.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "fxx/trace/detail/size_fit.hpp"

namespace fxx::inline FXX_ABI::detail {

/// Expressions that fit, and are looked at, at most.
inline constexpr std::size_t most_floors = 200;

/// ((n + b) // k) * factor + c: for every k the b that fit are an interval.
FXX_INLINE void SizeFit::add_floors(int numerator, const SizeValues& given, std::int64_t factor,
                                    std::vector<int>& found) {
  if (numerator == none || !enough(numerator, 2)) return;
  SizeValues values = given;
  const std::int64_t first = factor == 1 ? 0 : given[0];
  for (std::int64_t& v : values) v = (v - first) / factor;
  const SizeValues n = expressions_.values(numerator);
  constexpr std::int64_t largest = 256, far = std::int64_t{1} << 50;
  struct Floor {
    int rank;
    std::int64_t divisor, added;
    auto operator<=>(const Floor&) const = default;
  };
  std::vector<Floor> floors;
  for (std::int64_t v : values)
    if (v > far || v < -far) return;
  for (std::int64_t x : n)
    if (x > far || x < 0) return;
  for (std::int64_t k = 2; k <= largest; ++k) {
    std::int64_t low = -far * 1024, high = far * 1024;
    for (std::size_t t = 0; t < n.size() && low <= high; ++t) {
      low = std::max(low, values[t] * k - n[t]);
      high = std::min(high, values[t] * k + k - 1 - n[t]);
    }
    for (std::int64_t b = low; b <= high; ++b) floors.push_back({b == 0 ? 0 : b == k - 1 ? 1 : 2, k, b});
  }
  std::sort(floors.begin(), floors.end());
  if (floors.size() > most_floors) floors.resize(most_floors);
  for (const Floor& f : floors) {
    const std::int64_t rest = (f.added % f.divisor + f.divisor) % f.divisor;
    found.push_back(expressions_.affine(expressions_.floor_divided(numerator, rest, f.divisor), factor,
                                        (f.added - rest) / f.divisor * factor + first));
  }
}

/// n % k, what is missing to a multiple of k: (k - n % k) % k, and the multiples themselves, below and above; a
/// constant may be added to the first two.
FXX_INLINE void SizeFit::add_remainders(int numerator, const SizeValues& values, std::vector<int>& found) {
  using Kind = SizeExpressions::Kind;
  if (numerator == none || !enough(numerator, 1)) return;
  const SizeValues& n = expressions_.values(numerator);
  constexpr std::int64_t far = std::int64_t{1} << 50, largest_divisor = 4096;
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  for (std::size_t t = 0; t < n.size(); ++t)
    if (values[t] < -far || values[t] > far || n[t] < 0 || n[t] > far) return;
  std::int64_t below = 0, above = 0, multiple = 0, most_over = INT64_MIN, most_under = INT64_MIN;
  for (std::size_t t = 0; t < n.size(); ++t) {
    below = std::gcd(below, (n[t] - values[t]) - (n[0] - values[0]));
    above = std::gcd(above, (n[t] + values[t]) - (n[0] + values[0]));
    multiple = std::gcd(multiple, values[t]);
    most_over = std::max(most_over, values[t] - n[t]);
    most_under = std::max(most_under, n[t] - values[t]);
  }
  const auto keep = [&](int e) {
    if (e == none) return;
    const std::int64_t added = values[0] - expressions_.values(e)[0];
    for (std::size_t t = 0; t < n.size(); ++t)
      if (expressions_.values(e)[t] + added != values[t]) return;
    found.push_back(expressions_.plus(e, added));
  };
  for (std::int64_t k = std::max<std::int64_t>({2, most_over + 1, most_under + 1});
       k <= std::min(multiple, largest_divisor); ++k) {
    if (multiple % k != 0) continue;
    if (most_under <= 0) found.push_back(expressions_.scaled(expressions_.floor_divided(numerator, k - 1, k), k));
    if (most_over <= 0) found.push_back(expressions_.scaled(expressions_.floor_divided(numerator, 0, k), k));
  }
  for (std::int64_t k = std::max<std::int64_t>(2, *high - *low + 1); k <= largest_divisor; ++k) {
    if (below != 0 && below % k == 0) keep(expressions_.make(Kind::mod, numerator, expressions_.constant(k)));
    if (above == 0 || above % k != 0) continue;
    const int rest = expressions_.make(Kind::mod, numerator, expressions_.constant(k));
    const int missing = expressions_.make(Kind::sub, expressions_.constant(k), rest);
    keep(expressions_.make(Kind::mod, missing, expressions_.constant(k)));
  }
}

/// min(n, 16), max(n, 16), 2*min(n, m) + 1, max(n, m). Returns the first that needs another size to be sure of its
/// bound.
FXX_INLINE SizeFit::Answer SizeFit::add_extremes(const SizeValues& values, std::vector<int>& found) {
  using Kind = SizeExpressions::Kind;
  Answer doubtful;
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    const SizeValues& n = expressions_.values(leaves_[i]);
    for (const Kind kind : {Kind::minimum, Kind::maximum}) {
      const std::int64_t bound = kind == Kind::minimum ? *high : *low;
      const int e = expressions_.make(kind, leaves_[i], expressions_.constant(bound));
      if (expressions_.values(e) != values) continue;
      const auto is_beyond = [&](std::int64_t x) { return kind == Kind::minimum ? x > bound : x < bound; };
      SizeValues beyond, within;
      for (std::int64_t x : n) (is_beyond(x) ? beyond : within).push_back(x);
      if (count_distinct(within) < 2) continue;
      found.push_back(e);
      // A bound that one size alone has met could be anything: the next size beyond it tells.
      if (count_distinct(beyond) > 1 || doubtful.expression != none) continue;
      const std::int64_t step = symbols_[i].multiple_of;
      for (const std::int64_t x : {beyond[0] + step, beyond[0] - step})
        if (symbols_[i].allows(x) && x > 1 && is_beyond(x) && doubtful.expression == none) {
          doubtful = {e, none, sets_[0]};
          doubtful.ask[i] = x;
        }
    }
    for (std::size_t j = i + 1; j < leaves_.size(); ++j)
      for (const Kind kind : {Kind::minimum, Kind::maximum})
        found.push_back(affine_in(expressions_.make(kind, leaves_[i], leaves_[j]), values, false));
  }
  return doubtful;
}

/// n // k and (n + k - 1) // k for every symbol. They become expressions when they serve.
FXX_INLINE void SizeFit::make_floors() {
  if (!floors_.empty()) return;
  SizeValues row(sets_.size());
  for (std::int64_t k = 2; k <= 256; ++k)
    for (int n : leaves_)
      for (const std::int64_t b : {std::int64_t{0}, k - 1}) {
        const SizeValues& x = expressions_.values(n);
        bool changes = false, fits = true;
        for (std::size_t t = 0; t < row.size() && fits; ++t) {
          fits = x[t] >= 0;
          row[t] = (x[t] + b) / k;
          changes = changes || row[t] != row[0];
        }
        if (!fits || !changes) continue;
        floors_.push_back({n, b, k});
        floor_values_.insert(floor_values_.end(), row.begin(), row.end());
      }
}
FXX_INLINE int SizeFit::floor_expression(int floor) {
  const Floor& f = floors_[static_cast<std::size_t>(floor)];
  return expressions_.floor_divided(f.of, f.added, f.divisor);
}

/// 3*(n // 2)*(m // 4) + added, or that times a symbol. Every factor divides the product in every trace, which leaves
/// few of them.
FXX_INLINE void SizeFit::add_floor_products(const SizeValues& values, std::int64_t added, std::vector<int>& found) {
  SizeValues product = values;
  for (std::int64_t& v : product)
    if (__builtin_sub_overflow(v, added, &v)) return;
  const auto divides = [&](const std::int64_t* factor) {
    for (std::size_t t = 0; t < product.size(); ++t)
      if (factor[t] == 0 ? product[t] != 0 : product[t] % factor[t] != 0) return false;
    return true;
  };
  constexpr std::size_t most = 128;
  struct Factor {
    int of;
    bool floor;
    const std::int64_t* row;
  };
  std::vector<Factor> factors;
  for (int f = 0; f < static_cast<int>(floors_.size()) && factors.size() < most; ++f)
    if (divides(floor_row(f))) factors.push_back({f, true, floor_row(f)});
  // Most pairs are not proportional to the product, which floating point sees at once.
  const std::size_t first = static_cast<std::size_t>(
      std::find_if(product.begin(), product.end(), [](auto v) { return v != 0; }) - product.begin());
  if (first == product.size()) return;
  const auto try_factors = [&](std::span<const Factor> of) {
    double ratio = static_cast<double>(product[first]);
    for (const Factor& f : of) ratio /= static_cast<double>(f.row[first]);
    for (std::size_t t = 0; t < product.size(); ++t) {
      double difference = ratio;
      for (const Factor& f : of) difference *= static_cast<double>(f.row[t]);
      difference -= static_cast<double>(product[t]);
      if (!(std::fabs(difference) < 0.5 + 1e-9 * std::fabs(static_cast<double>(product[t])))) return;
    }
    std::vector<int> made;
    for (const Factor& f : of) made.push_back(f.floor ? floor_expression(f.of) : f.of);
    if (const int e = affine_in_product(made, product, true); e != none) found.push_back(expressions_.plus(e, added));
  };
  for (std::size_t i = 0; i < factors.size(); ++i)
    for (std::size_t j = i; j < factors.size(); ++j) {
      try_factors(std::array{factors[i], factors[j]});
      for (int n : leaves_)
        try_factors(std::array{Factor{n, false, expressions_.values(n).data()}, factors[i], factors[j]});
    }
}

/// All divisions that fit, the simple ones first: whether there is one only decides between an answer and a question.
FXX_INLINE SizeFit::Answer SizeFit::divisions(const SizeValues& values, std::span<const int> atoms,
                                              std::vector<int> found) {
  using Kind = SizeExpressions::Kind;
  for (int n : leaves_) add_floors(n, values, 1, found);
  for (int n : leaves_) add_remainders(n, values, found);
  const Answer doubtful = add_extremes(values, found);
  // The same of products and sums of two symbols.
  for (std::size_t i = leaves_.size(); i < monomials_.size(); ++i) add_floors(monomials_[i], values, 1, found);
  for (std::size_t i = 0; i < leaves_.size(); ++i)
    for (std::size_t j = i + 1; j < leaves_.size(); ++j) {
      const int sum = expressions_.make(Kind::add, leaves_[i], leaves_[j]);
      add_floors(sum, values, 1, found);
      add_remainders(sum, values, found);
    }
  // 3*(n // 2) + 1: then all differences are multiples of 3.
  std::int64_t common = 0;
  bool close = true;
  for (std::int64_t v : values) {
    std::int64_t difference = 0;
    close = close && !__builtin_sub_overflow(v, values[0], &difference) && difference != INT64_MIN;
    if (close) common = std::gcd(common, difference);
  }
  for (std::int64_t divisor = 1; close && divisor <= 8; ++divisor)
    if (common % divisor == 0 && common != 0)
      for (int n : leaves_)
        for (const std::int64_t factor : {common / divisor, -common / divisor})
          if (factor != 1) add_floors(n, values, factor, found);
  // Products of those with each other and with symbols.
  make_floors();
  // Most products are no line of the values. Where the arithmetic here overflows, affine_in_product decides.
  const auto may_be_line = [&](const std::int64_t* x, const std::int64_t* y) {
    using Unsigned = std::uint64_t;
    const auto from_first = [&](std::size_t t) {
      return static_cast<Unsigned>(x[t]) * static_cast<Unsigned>(y[t]) -
             static_cast<Unsigned>(x[0]) * static_cast<Unsigned>(y[0]);
    };
    const auto changed = [&](std::size_t t) {
      return static_cast<Unsigned>(values[t]) - static_cast<Unsigned>(values[0]);
    };
    for (std::size_t t = 2; t < values.size(); ++t)
      if (from_first(t) * changed(1) != from_first(1) * changed(t)) return false;
    return true;
  };
  for (int f = 0; f < static_cast<int>(floors_.size()); ++f) {
    const std::int64_t* const row = floor_row(f);
    for (int n : leaves_)
      if (may_be_line(expressions_.values(n).data(), row))
        found.push_back(affine_in_product(std::array{n, floor_expression(f)}, values, false));
    if (may_be_line(row, row)) {
      const int e = floor_expression(f);
      found.push_back(affine_in_product(std::array{e, e}, values, false));
    }
  }
  for (const std::int64_t added : {0, 1, -1, 2, -2}) add_floor_products(values, added, found);
  // 3*n // 4, and n * (n + 1) // 2, which is whole.
  for (int n : leaves_) {
    if (!enough(n, 2)) continue;
    const SizeValues x = expressions_.values(n);
    for (std::int64_t a = 2; a <= 16; ++a)
      for (std::int64_t k = 2; k <= 64; ++k)
        for (const std::int64_t b : {std::int64_t{0}, k - 1}) {
          bool fits = std::gcd(a, k) == 1;
          for (std::size_t t = 0; t < x.size() && fits; ++t) fits = x[t] >= 0 && (a * x[t] + b) / k == values[t];
          if (fits) found.push_back(expressions_.floor_divided(expressions_.scaled(n, a), b, k));
        }
  }
  for (const std::int64_t k : {2, 3, 6}) {
    SizeValues multiple = values;
    bool fits = true;
    for (std::int64_t& v : multiple) fits = fits && !__builtin_mul_overflow(v, k, &v);
    if (fits) found.push_back(expressions_.floor_divided(sums_and_products(multiple), 0, k));
  }
  // The same of sizes that are read.
  std::erase(found, none);
  const bool only_read = found.empty();
  for (int atom : atoms) {
    expressions_.describe(atom, probably(expressions_.values(atom)).expression);
    if (!only_read) continue;
    add_floors(atom, values, 1, found);
    add_remainders(atom, values, found);
  }
  const Answer answer = decide(std::move(found));
  return answer.ask.empty() && answer.expression == doubtful.expression ? doubtful : answer;
}

}  // namespace fxx::inline FXX_ABI::detail
