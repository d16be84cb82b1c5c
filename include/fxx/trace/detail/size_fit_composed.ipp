// Of trace/detail/size_fit.hpp: operators applied to operators, as C++ writes them, found from many traces.
#pragma once

#include <algorithm>
#include <map>
#include <numeric>

#include "fxx/trace/detail/size_fit.hpp"

namespace fxx::inline FXX_ABI::detail {

/// Traces that the search needs: enough to test what they determine.
inline constexpr std::size_t fewest_for_composed = 12;
/// From here on, traces show more than a few sizes of each kind.
inline constexpr std::size_t many_traces = 40;
/// Divisors and bounds that are tried one by one.
inline constexpr std::int64_t largest_composed_constant = 1100;

/// (factor * base + added) / divisor, truncated as C++ does it.
FXX_INLINE int SizeFit::truncated(int numerator, std::int64_t divisor, bool remainder) {
  using Kind = SizeExpressions::Kind;
  if (numerator == none) return none;
  const Kind kind = remainder ? Kind::mod : Kind::floordiv;
  const int by = expressions_.constant(divisor), zero = expressions_.constant(0);
  const SizeValues& n = expressions_.values(numerator);
  const auto [low, high] = std::minmax_element(n.begin(), n.end());
  if (*low >= 0) return expressions_.make(kind, numerator, by);
  // The parts above and below zero: what is negative is rounded towards zero.
  SizeValues negative = n;
  for (std::int64_t& x : negative)
    if (x == INT64_MIN) return none;
  const int minus = expressions_.negated(numerator);
  const int below = expressions_.make(kind, *high <= 0 ? minus : expressions_.make(Kind::maximum, minus, zero), by);
  if (*high <= 0) return expressions_.make(Kind::neg, below);
  return expressions_.make(Kind::sub, expressions_.make(kind, expressions_.make(Kind::maximum, numerator, zero), by),
                           below);
}

/// Every factor and divisor for which (factor * base + added) / divisor gives the values, truncated as in C++.
FXX_INLINE int SizeFit::truncated_quotient(int base, const SizeValues& values) {
  if (base == none) return none;
  const SizeValues& x = expressions_.values(base);
  constexpr std::int64_t far = std::int64_t{1} << 50;
  std::size_t largest = 0, smallest = 0;
  for (std::size_t t = 0; t < x.size(); ++t) {
    if (x[t] > far || x[t] < -far || values[t] > far || values[t] < -far) return none;
    if (x[t] > x[largest]) largest = t;
    if (x[t] < x[smallest]) smallest = t;
  }
  const std::int64_t dx = x[largest] - x[smallest], dv = values[largest] - values[smallest];
  if (dx == 0 || dv == 0) return none;
  for (std::int64_t k = 2; k <= largest_composed_constant; ++k) {
    const auto about = static_cast<std::int64_t>(static_cast<long double>(dv) * static_cast<long double>(k) /
                                                 static_cast<long double>(dx));
    for (std::int64_t a = about - 1; a <= about + 1; ++a) {
      if (a == 0 || (a % k == 0)) continue;
      WideInteger low = -(static_cast<WideInteger>(1) << 100), high = static_cast<WideInteger>(1) << 100;
      for (std::size_t t = 0; t < x.size() && low <= high; ++t) {
        const WideInteger at = static_cast<WideInteger>(values[t]) * k, product = static_cast<WideInteger>(a) * x[t];
        low = std::max<WideInteger>(low, (values[t] > 0 ? at : at - k + 1) - product);
        high = std::min<WideInteger>(high, (values[t] < 0 ? at : at + k - 1) - product);
      }
      if (low > high || low < -far || high > far) continue;
      const auto first = static_cast<std::int64_t>(low), last = static_cast<std::int64_t>(high);
      // Of the numbers that fit: none, what rounds up, or the one in the middle, which the next trace halves.
      std::int64_t added = first + (last - first) / 2;
      for (const std::int64_t usual : {k / 2, k - 1, std::int64_t{0}})
        if (usual >= first && usual <= last) added = usual;
      const int e = truncated(expressions_.affine(base, a, added), k, false);
      if (e != none && expressions_.values(e) == values) return e;
    }
  }
  return none;
}

/// The same of (factor * base + added) % divisor.
FXX_INLINE int SizeFit::truncated_remainder(int base, std::int64_t factor, const SizeValues& values) {
  if (base == none) return none;
  const SizeValues& x = expressions_.values(base);
  constexpr std::int64_t far = std::int64_t{1} << 50;
  std::int64_t common = 0, most = 1;
  for (std::size_t t = 0; t < x.size(); ++t) {
    std::int64_t product = 0;
    if (__builtin_mul_overflow(x[t], factor, &product) || product > far || product < -far || values[t] > far ||
        values[t] < -far)
      return none;
    common = std::gcd(common, product - values[t] - (x[0] * factor - values[0]));
    most = std::max(most, std::abs(values[t]));
    if (common == 1 || (common != 0 && common <= most)) return none;
  }
  if (common == 0) return none;
  for (std::int64_t k = most + 1; k <= std::min<std::int64_t>(common, 1 << 17); ++k) {
    if (common % k != 0) continue;
    const std::int64_t rest = (((values[0] - x[0] * factor) % k) + k) % k;
    // Where nothing is negative the smallest number serves; else its place is where the sign changes.
    std::int64_t low = -far, high = far;
    for (std::size_t t = 0; t < x.size(); ++t) {
      if (values[t] > 0) low = std::max(low, 1 - x[t] * factor);
      if (values[t] < 0) high = std::min(high, -1 - x[t] * factor);
    }
    std::int64_t added = rest;
    if (added > high) added -= (added - high + k - 1) / k * k;
    if (added < low) added += (low - added + k - 1) / k * k;
    if (added > high) continue;
    const int e = truncated(expressions_.affine(base, factor, added), k, true);
    if (e != none && expressions_.values(e) == values) return e;
  }
  return none;
}

/// One operator with one constant, of every size and of pairs of them.
FXX_INLINE void SizeFit::make_parts() {
  using Kind = SizeExpressions::Kind;
  if (!parts_.empty()) return;
  const auto add = [&](int e) {
    if (e == none || count_distinct(expressions_.values(e)) < 2) return;
    if (part_of_.try_emplace(expressions_.values(e), e).second) parts_.push_back(e);
  };
  // What one trace does not tell from the next serves once, with the constant in the middle.
  const auto add_all = [&](auto&& make) {
    std::vector<int> same;
    const auto flush = [&] {
      if (!same.empty()) add(same[(same.size() - 1) / 2]);
      same.clear();
    };
    for (std::int64_t k = 2; k <= largest_composed_constant; ++k) {
      const int e = make(k);
      if (e == none) continue;
      if (!same.empty() && expressions_.values(same[0]) != expressions_.values(e)) flush();
      same.push_back(e);
    }
    flush();
  };
  for (int n : leaves_) add(n);
  for (std::size_t i = 0; i < leaves_.size(); ++i)
    for (std::size_t j = i; j < leaves_.size(); ++j) {
      const int a = leaves_[i], b = leaves_[j];
      add(expressions_.make(Kind::mul, a, b));
      if (i == j) continue;
      for (const Kind kind : {Kind::add, Kind::sub, Kind::minimum, Kind::maximum}) add(expressions_.make(kind, a, b));
      for (const Kind kind : {Kind::floordiv, Kind::mod}) {
        add(expressions_.make(kind, a, b));
        add(expressions_.make(kind, b, a));
      }
    }
  for (int n : leaves_) {
    add_all([&](std::int64_t k) { return expressions_.floor_divided(n, 0, k); });
    add_all([&](std::int64_t k) { return expressions_.floor_divided(n, k - 1, k); });
    for (const Kind kind : {Kind::mod, Kind::minimum, Kind::maximum})
      add_all([&](std::int64_t k) { return expressions_.make(kind, n, expressions_.constant(k)); });
    for (std::int64_t k = 2; k <= 256; ++k) {
      const int by = expressions_.constant(k);
      add(expressions_.make(Kind::mod, expressions_.make(Kind::sub, by, expressions_.make(Kind::mod, n, by)), by));
    }
  }
}

/// factor * x + added where `taken` says so; false unless three values of x determine and test it.
FXX_INLINE bool SizeFit::affine_where(const SizeValues& x, const SizeValues& values, const std::vector<bool>& taken,
                                      std::int64_t& factor, std::int64_t& added) const {
  SizeValues some_x, some_values;
  for (std::size_t t = 0; t < x.size(); ++t)
    if (taken[t]) {
      some_x.push_back(x[t]);
      some_values.push_back(values[t]);
    }
  return !some_x.empty() && count_distinct(some_x) >= 3 && affine(some_x, some_values, factor, added);
}

/// min(max(factor * x + added, low), high), with what is not needed left out.
FXX_INLINE int SizeFit::bounded(int of, const SizeValues& values) {
  using Kind = SizeExpressions::Kind;
  const SizeValues& x = expressions_.values(of);
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  const std::int64_t low = *least, high = *most;
  for (const auto& [use_low, use_high] : {std::pair(false, true), std::pair(true, false), std::pair(true, true)}) {
    std::vector<bool> taken(values.size());
    for (std::size_t t = 0; t < values.size(); ++t)
      taken[t] = !(use_low && values[t] == low) && !(use_high && values[t] == high);
    std::int64_t factor = 0, added = 0;
    if (!affine_where(x, values, taken, factor, added)) continue;
    int e = expressions_.affine(of, factor, added);
    if (use_low) e = expressions_.make(Kind::maximum, e, expressions_.constant(low));
    if (use_high) e = expressions_.make(Kind::minimum, e, expressions_.constant(high));
    if (e != none && expressions_.values(e) == values) return e;
  }
  return none;
}

/// x / k, x % k, and what is missing to a multiple of k, for a part that is not negative.
FXX_INLINE int SizeFit::divided_part(int part, const SizeValues& values) {
  using Kind = SizeExpressions::Kind;
  const SizeValues& x = expressions_.values(part);
  std::size_t largest = 0;
  for (std::size_t t = 0; t < x.size(); ++t) {
    if (x[t] < 0 || values[t] < 0) return none;
    if (values[t] > values[largest]) largest = t;
  }
  std::int64_t low = 2, high = INT64_MAX;
  for (std::size_t t = 0; t < x.size() && low <= high; ++t) {
    low = std::max(low, x[t] / (values[t] + 1) + 1);
    if (values[t] > 0) high = std::min(high, x[t] / values[t]);
  }
  if (low <= high && high < INT64_MAX) {
    const int e = expressions_.make(Kind::floordiv, part, expressions_.constant(low + (high - low) / 2));
    if (e != none && expressions_.values(e) == values) return e;
  }
  if (const int e = truncated_remainder(part, 1, values); e != none) return e;
  return none;
}

/// All sums, differences and products of two parts, or of a part and a size.
FXX_INLINE int SizeFit::joined_parts(const SizeValues& values) {
  using Kind = SizeExpressions::Kind;
  const std::size_t traces = values.size();
  SizeValues rest(traces);
  std::vector<const SizeValues*> columns;
  for (int n : leaves_) columns.push_back(&expressions_.values(n));
  const auto partner = [&](const SizeValues& of) -> int {
    if (const auto known = part_of_.find(of); known != part_of_.end()) return known->second;
    for (int n : leaves_) {
      std::int64_t factor = 0, added = 0;
      if (affine(expressions_.values(n), of, factor, added)) return expressions_.affine(n, factor, added);
    }
    return none;
  };
  const auto check = [&](int e) { return e != none && expressions_.values(e) == values; };
  for (int part : parts_) {
    const SizeValues& x = expressions_.values(part);
    bool fits = true;
    for (std::size_t t = 0; t < traces && fits; ++t) fits = !__builtin_sub_overflow(values[t], x[t], &rest[t]);
    if (fits)
      if (const int other = partner(rest); other != none)
        if (const int e = expressions_.make(Kind::add, other, part); check(e)) return e;
    fits = true;
    for (std::size_t t = 0; t < traces && fits; ++t) fits = !__builtin_add_overflow(values[t], x[t], &rest[t]);
    if (fits)
      if (const int other = partner(rest); other != none)
        if (const int e = expressions_.make(Kind::sub, other, part); check(e)) return e;
  }
  std::size_t products = 0;
  for (int part : parts_) {
    const SizeValues& x = expressions_.values(part);
    bool fits = true;
    std::size_t whole = 0;
    for (std::size_t t = 0; t < traces && fits; ++t) {
      fits = x[t] == 0 ? values[t] == 0 : values[t] % x[t] == 0;
      whole += x[t] != 0;
    }
    if (!fits || whole < 6 || ++products > 400) continue;
    std::vector<bool> taken(traces);
    for (std::size_t t = 0; t < traces; ++t) {
      taken[t] = x[t] != 0;
      rest[t] = taken[t] ? values[t] / x[t] : 0;
    }
    for (int n : leaves_) {
      std::int64_t factor = 0, added = 0;
      if (!affine_where(expressions_.values(n), rest, taken, factor, added)) continue;
      if (const int e = expressions_.make(Kind::mul, part, expressions_.affine(n, factor, added)); check(e)) return e;
    }
    for (int other : parts_) {
      const SizeValues& y = expressions_.values(other);
      bool equal = true;
      for (std::size_t t = 0; t < traces && equal; ++t) equal = !taken[t] || y[t] == rest[t];
      if (!equal) continue;
      if (const int e = expressions_.make(Kind::mul, part, other); check(e)) return e;
    }
  }
  return none;
}

/// The smaller or the larger of two parts or lines.
FXX_INLINE int SizeFit::extreme_parts(const SizeValues& values) {
  using Kind = SizeExpressions::Kind;
  const std::size_t traces = values.size();
  std::vector<int> lines;
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    const SizeValues& x = expressions_.values(leaves_[i]);
    std::map<std::pair<std::int64_t, std::int64_t>, int> counts;
    for (std::size_t s = 0; s < traces; ++s)
      for (std::size_t t = s + 1; t < traces && t < s + 12; ++t) {
        const std::int64_t dx = x[t] - x[s];
        std::int64_t dv = 0, product = 0, added = 0;
        if (dx == 0 || __builtin_sub_overflow(values[t], values[s], &dv) || dv % dx != 0) continue;
        if (__builtin_mul_overflow(dv / dx, x[s], &product) || __builtin_sub_overflow(values[s], product, &added))
          continue;
        ++counts[{dv / dx, added}];
      }
    for (const auto& [line, count] : counts)
      if (count >= 3 && line.first != 0) lines.push_back(expressions_.affine(leaves_[i], line.first, line.second));
      else if (count >= 3) lines.push_back(expressions_.constant(line.second));
  }
  std::erase(lines, none);
  lines.insert(lines.end(), parts_.begin(), parts_.end());
  for (const Kind kind : {Kind::minimum, Kind::maximum}) {
    std::vector<int> beyond;
    for (int e : lines) {
      const SizeValues& x = expressions_.values(e);
      bool fits = true;
      std::size_t equal = 0;
      for (std::size_t t = 0; t < traces && fits; ++t) {
        fits = kind == Kind::minimum ? x[t] >= values[t] : x[t] <= values[t];
        equal += x[t] == values[t];
      }
      if (fits && equal >= 2) beyond.push_back(e);
    }
    for (std::size_t i = 0; i < beyond.size() && i < 600; ++i)
      for (std::size_t j = i + 1; j < beyond.size() && j < 600; ++j) {
        const SizeValues &x = expressions_.values(beyond[i]), &y = expressions_.values(beyond[j]);
        bool fits = true;
        for (std::size_t t = 0; t < traces && fits; ++t) fits = x[t] == values[t] || y[t] == values[t];
        if (!fits) continue;
        const int e = expressions_.make(kind, beyond[i], beyond[j]);
        if (e != none && expressions_.values(e) == values) return e;
      }
  }
  return none;
}

/// A number or a size over a part: c / n, n % (m / 2).
FXX_INLINE int SizeFit::over_parts(const SizeValues& values) {
  using Kind = SizeExpressions::Kind;
  const std::size_t traces = values.size();
  for (std::int64_t v : values)
    if (v < 0 || v > (std::int64_t{1} << 40)) return none;
  const std::int64_t largest = *std::max_element(values.begin(), values.end());
  const auto check = [&](int e) { return e != none && expressions_.values(e) == values; };
  std::vector<int> shifted = parts_;
  for (int n : leaves_)
    for (std::int64_t k = -16; k <= 1100; ++k)
      if (k != 0) shifted.push_back(expressions_.plus(n, k));
  for (int part : shifted) {
    if (part == none) continue;
    const SizeValues& x = expressions_.values(part);
    if (std::any_of(x.begin(), x.end(), [](auto v) { return v <= 0 || v > (std::int64_t{1} << 20); })) continue;
    std::int64_t low = 0, high = INT64_MAX;
    for (std::size_t t = 0; t < traces && low <= high; ++t) {
      low = std::max(low, values[t] * x[t]);
      high = std::min(high, values[t] * x[t] + x[t] - 1);
    }
    if (low <= high) {
      const int e = expressions_.make(Kind::floordiv, expressions_.constant(low + (high - low) / 2), part);
      if (check(e)) return e;
    }
    bool fits = true;
    for (std::size_t t = 0; t < traces && fits; ++t) fits = largest % x[t] == values[t];
    if (fits)
      if (const int e = expressions_.make(Kind::mod, expressions_.constant(largest), part); check(e)) return e;
    for (int n : leaves_) {
      const SizeValues& y = expressions_.values(n);
      for (const Kind kind : {Kind::floordiv, Kind::mod}) {
        fits = true;
        for (std::size_t t = 0; t < traces && fits; ++t)
          fits = (kind == Kind::mod ? y[t] % x[t] : y[t] / x[t]) == values[t];
        if (!fits) continue;
        if (const int e = expressions_.make(kind, n, part); check(e)) return e;
      }
    }
  }
  return none;
}

/// Whether the values are other than their most frequent one often enough to determine and test an expression.
FXX_INLINE bool SizeFit::informative(const SizeValues& values) const {
  SizeValues sorted = values;
  std::sort(sorted.begin(), sorted.end());
  std::size_t most = 0;
  for (std::size_t i = 0, run = 0; i < sorted.size(); ++i) {
    run = i && sorted[i] == sorted[i - 1] ? run + 1 : 1;
    most = std::max(most, run);
  }
  return values.size() - most >= (values.size() < many_traces ? 3 : 5);
}

FXX_INLINE int SizeFit::composed(const SizeValues& values) {
  using Kind = SizeExpressions::Kind;
  if (sets_.size() < fewest_for_composed + 4 * leaves_.size()) return none;
  make_parts();
  std::vector<int> bases = leaves_;
  for (std::size_t i = 0; i < leaves_.size(); ++i)
    for (std::size_t j = 0; j < leaves_.size(); ++j) {
      if (i <= j) bases.push_back(expressions_.make(Kind::mul, leaves_[i], leaves_[j]));
      if (i < j) bases.push_back(expressions_.make(Kind::add, leaves_[i], leaves_[j]));
      if (i != j) bases.push_back(expressions_.make(Kind::sub, leaves_[i], leaves_[j]));
    }
  std::erase(bases, none);
  for (int base : bases)
    if (const int e = bounded(base, values); e != none) return e;
  for (int part : parts_)
    if (const int e = affine_in(part, values, false); e != none) return e;
  for (int base : bases) {
    if (const int e = truncated_quotient(base, values); e != none) return e;
    for (std::int64_t factor = 1; factor <= 300; ++factor)
      for (const std::int64_t sign : {1, -1})
        if (const int e = truncated_remainder(base, sign * factor, values); e != none) return e;
  }
  for (int part : parts_) {
    if (const int e = bounded(part, values); e != none) return e;
    if (const int e = divided_part(part, values); e != none) return e;
  }
  if (const int e = joined_parts(values); e != none) return e;
  if (const int e = extreme_parts(values); e != none) return e;
  return over_parts(values);
}

// --- the sizes that test an expression -------------------------------------------------------------------------------

FXX_INLINE std::int64_t SizeFit::allowed_near(std::size_t i, std::int64_t size) const {
  const SizeSymbol& s = symbols_[i];
  const std::int64_t least = std::max<std::int64_t>(s.minimum, (2 + s.multiple_of - 1) / s.multiple_of * s.multiple_of);
  return std::clamp(size / s.multiple_of * s.multiple_of, least, std::max(least, s.maximum));
}

FXX_INLINE std::vector<std::vector<std::int64_t>> SizeFit::held_back() const {
  // The smallest, odd ones, a multiple of nearly everything, and large primes; of two symbols each is the larger once.
  constexpr std::int64_t tests[] = {2, 3, 11, 47, 1021, 20160, 100003};
  std::vector<std::vector<std::int64_t>> sets;
  for (const std::size_t apart : {3, 1, 6}) {
    for (std::size_t k = 0; k < std::size(tests); ++k) {
      std::vector<std::int64_t>& set = sets.emplace_back();
      for (std::size_t i = 0; i < symbols_.size(); ++i)
        set.push_back(allowed_near(i, tests[(k + apart * i) % std::size(tests)]));
    }
    if (symbols_.size() == 1) break;
  }
  return sets;
}

FXX_INLINE std::vector<std::vector<std::int64_t>> SizeFit::survey() const {
  constexpr std::int64_t ladder[] = {2,   3,   4,   5,   6,   7,   8,   9,   11,  13,  15,   16,   17,   19,   23,
                                     29,  31,  32,  33,  40,  47,  49,  57,  63,  64,   65,   79,   96,   101,  120,
                                     127, 128, 129, 160, 191, 223, 255, 256, 257, 331,  383,  449,  511,  513,  600,
                                     769, 900, 999, 1023, 1025, 1200, 1543, 2049, 3001, 4099, 10007, 20160, 100003};
  constexpr std::size_t count = std::size(ladder);
  std::vector<std::vector<std::int64_t>> sets;
  const std::size_t n = symbols_.size();
  for (std::size_t k = 0; k < count; ++k) {
    std::vector<std::int64_t>& set = sets.emplace_back();
    for (std::size_t i = 0; i < n; ++i) set.push_back(allowed_near(i, ladder[(k + i * 23) % count]));
  }
  if (n > 1) {
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t k = i % 2; k < count; k += 2) {
        sets.push_back(sets_[0]);
        sets.back()[i] = allowed_near(i, ladder[k]);
      }
    for (std::size_t k = 0; k < count; k += 2) {
      std::vector<std::int64_t>& set = sets.emplace_back();
      for (std::size_t i = 0; i < n; ++i) set.push_back(allowed_near(i, ladder[k] + static_cast<std::int64_t>(3 * i)));
    }
  }
  return sets;
}

FXX_INLINE void SizeFit::add_breaks(int e, std::vector<std::vector<std::int64_t>>& points) const {
  using Kind = SizeExpressions::Kind;
  points.resize(symbols_.size());
  std::vector<int> pieces;
  std::vector<std::int64_t> constants;
  const auto look = [&](int of, auto&& self) -> void {
    const SizeExpressions::Term& t = expressions_.term(of);
    if (t.kind >= Kind::floordiv && t.kind <= Kind::maximum) pieces.push_back(of);
    for (const int operand : {t.a, t.b})
      if (operand != none) self(operand, self);
  };
  look(e, look);
  if (pieces.empty()) return;
  collect_constants(e, constants);
  const auto add = [&](std::size_t i, std::int64_t size) {
    if (size < 2 || !symbols_[i].allows(size)) return;
    if (std::find(points[i].begin(), points[i].end(), size) == points[i].end()) points[i].push_back(size);
  };
  std::vector<bool> uses(symbols_.size());
  expressions_.for_each_symbol(e, [&](std::size_t i) { uses[i] = true; });
  for (std::size_t i = 0; i < symbols_.size(); ++i) {
    if (!uses[i] && !expressions_.reads(e)) continue;
    const std::int64_t step = symbols_[i].multiple_of;
    for (std::int64_t c : constants) {
      c = std::abs(c);
      if (c < 2 || c > 200000) continue;
      for (const std::int64_t size : {c - 1, c, c + 1}) add(i, size / step * step);
      if (c > 20000) continue;
      const std::int64_t many = 20000 / c * c;
      for (const std::int64_t size : {2 * c - 1, 2 * c, many - 1, many}) add(i, size / step * step);
    }
    // Where the other side of min and max takes over.
    for (int piece : pieces) {
      const SizeExpressions::Term& t = expressions_.term(piece);
      if (t.kind != Kind::minimum && t.kind != Kind::maximum) continue;
      std::vector<std::int64_t> at = sets_[0];
      int last = 0, found = 0;
      for (std::int64_t x = allowed_near(i, 2); x <= std::min<std::int64_t>(symbols_[i].maximum, 4096 * step) && found < 3;
           x += step) {
        at[i] = x;
        const auto a = expressions_.evaluate(t.a, at), b = expressions_.evaluate(t.b, at);
        if (!a || !b) continue;
        const int side = *a < *b ? -1 : *a > *b;
        if (last != 0 && side != last) {
          ++found;
          for (const std::int64_t size : {x - step, x, x + step}) add(i, size);
        }
        last = side;
      }
    }
  }
}

}  // namespace fxx::inline FXX_ABI::detail
