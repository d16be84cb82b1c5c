// Of trace/detail/size_fit.hpp: operators applied to operators, as C++ writes them.
//
// Every expression of this kind that fits is a candidate, up to a number of them: few traces fit much by chance, and
// further traces tell the candidates apart.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <numeric>

#include "fxx/trace/detail/size_fit.hpp"

namespace fxx::inline FXX_ABI::detail {

/// Traces that the search needs beside two for each symbol: with fewer, nearly everything fits.
inline constexpr std::size_t fewest_for_composed = 5;
/// From here on, traces show more than a few sizes of each kind.
inline constexpr std::size_t many_traces = 40;
/// Divisors and bounds that are tried one by one.
inline constexpr std::int64_t largest_composed_constant = 1100;
/// Candidates of one kind after which the search goes on to the next kind: the next trace tells most of them apart.
inline constexpr std::size_t most_of_kind = 12;
/// Numbers beyond this are not looked at, so that products of two constants and one of them do not overflow.
inline constexpr std::int64_t far_number = std::int64_t{1} << 50;

// --- parts -----------------------------------------------------------------------------------------------------------

FXX_INLINE void SizeParts::start(std::size_t traces) {
  traces_ = traces;
  std::uint64_t state = 0;
  for (std::size_t t = 0; t < traces; ++t) {
    std::uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    weights_.push_back((z ^ (z >> 31)) | 1);
  }
}
FXX_INLINE std::uint64_t SizeParts::hash(const std::int64_t* row) const {
  std::uint64_t h = 0;
  for (std::size_t t = 0; t < traces_; ++t) h += static_cast<std::uint64_t>(row[t]) * weights_[t];
  return h;
}
FXX_INLINE std::size_t SizeParts::slot(std::uint64_t hash) const {
  hash = (hash ^ (hash >> 32)) * 0xff51afd7ed558ccd;
  return static_cast<std::size_t>(hash ^ (hash >> 32));
}
FXX_INLINE int SizeParts::find(const std::int64_t* row, std::uint64_t hash) const {
  if (slots_.empty()) return -1;
  for (std::size_t at = slot(hash);; ++at) {
    const int part = slots_[at & (slots_.size() - 1)];
    if (part < 0 || (hash_of(part) == hash && std::equal(row, row + traces_, this->row(part)))) return part;
  }
}
FXX_INLINE bool SizeParts::has_hash(std::uint64_t hash) const {
  if (slots_.empty()) return false;
  for (std::size_t at = slot(hash);; ++at) {
    const int part = slots_[at & (slots_.size() - 1)];
    if (part < 0 || hash_of(part) == hash) return part >= 0;
  }
}
FXX_INLINE void SizeParts::add(const Part& part, const std::int64_t* row) {
  add_row(part, [&](std::size_t t) { return row[t]; });
}
template <class F>
void SizeParts::add_row(const Part& part, F&& value) {
  if (parts_.size() * 2 >= slots_.size()) {
    slots_.assign(std::max<std::size_t>(16384, slots_.size() * 4), -1);
    for (std::size_t i = 0; i < parts_.size(); ++i) place(static_cast<int>(i));
  }
  const std::size_t begin = parts_.size() * traces_;
  if (values_.size() < begin + traces_) values_.resize((begin + traces_) * 2);
  std::int64_t* const row = values_.data() + begin;
  const std::uint64_t* const weights = weights_.data();
  const std::size_t traces = traces_;
  const std::int64_t first = value(0);
  std::uint64_t h = 0, changes = 0;
  for (std::size_t t = 0; t < traces; ++t) {
    const std::int64_t v = value(t);
    row[t] = v;
    changes |= static_cast<std::uint64_t>(v ^ first);
    h += static_cast<std::uint64_t>(v) * weights[t];
  }
  if (changes == 0) return;
  if (const int same = find(row, h); same >= 0) {
    // A run of constants that the traces do not tell apart is one part.
    Part& known = parts_[static_cast<std::size_t>(same)];
    if (known.form == part.form && known.of == part.of && part.low == known.high + 1) known.high = part.low;
    return;
  }
  parts_.push_back(part);
  hashes_.push_back(h);
  place(static_cast<int>(parts_.size()) - 1);
}
FXX_INLINE void SizeParts::place(int part) {
  std::size_t at = slot(hash_of(part));
  while (slots_[at & (slots_.size() - 1)] >= 0) ++at;
  slots_[at & (slots_.size() - 1)] = part;
}

FXX_INLINE void SizeParts::add_all(int of, const SizeValues& n) {
  if (std::any_of(n.begin(), n.end(), [](auto x) { return x < 0 || x > far_number; })) return;
  const bool divides = std::find(n.begin(), n.end(), 0) == n.end();
  using Form = Part::Form;
  constexpr std::int64_t most = largest_composed_constant, usual = 256;
  // Division is what costs: each size is divided by each constant once, and each constant by each size.
  const std::size_t rows = static_cast<std::size_t>(most + 1) * traces_;
  SizeValues quotients(rows), rests(rows);
  const auto divide = [&](bool inverse) {
    std::int64_t *q = quotients.data() + 2 * traces_, *r = rests.data() + 2 * traces_;
    for (std::int64_t k = 2; k <= most; ++k)
      for (const std::int64_t x : n) {
        const std::int64_t a = inverse ? k : x, b = inverse ? x : k;
        const bool narrow = a <= INT32_MAX && b <= INT32_MAX;
        *q = narrow ? static_cast<std::int32_t>(a) / static_cast<std::int32_t>(b) : a / b;
        *r++ = a - *q++ * b;
      }
  };
  // `value` is asked for x, k, x / k and x % k; for the inverse forms, for k / x and k % x.
  const auto all = [&](Part::Form form, std::int64_t last, auto&& value) {
    for (std::int64_t k = 2; k <= last; ++k) {
      const std::size_t at = static_cast<std::size_t>(k) * traces_;
      const std::int64_t *const x = n.data(), *const q = quotients.data() + at, *const r = rests.data() + at;
      add_row({form, of, k, k}, [=](std::size_t t) { return value(x[t], k, q[t], r[t]); });
    }
  };
  divide(false);
  all(Form::quotient, most, [](auto, auto, auto q, auto) { return q; });
  all(Form::ceiling, most, [](auto, auto, auto q, auto r) { return q + (r > 0); });
  all(Form::remainder, most, [](auto, auto, auto, auto r) { return r; });
  all(Form::minimum, most, [](auto x, auto k, auto, auto) { return std::min<std::int64_t>(x, k); });
  all(Form::maximum, most, [](auto x, auto k, auto, auto) { return std::max<std::int64_t>(x, k); });
  all(Form::missing, most, [](auto, auto k, auto, auto r) { return r > 0 ? k - r : 0; });
  all(Form::below, usual, [](auto x, auto, auto, auto r) { return x - r; });
  all(Form::above, usual, [](auto x, auto k, auto, auto r) { return r > 0 ? x + (k - r) : x; });
  if (!divides) return;
  divide(true);
  all(Form::over, most, [](auto, auto, auto q, auto) { return q; });
  all(Form::modulo, most, [](auto, auto, auto, auto r) { return r; });
}

FXX_INLINE int SizeFit::part_expression(const SizeParts::Part& part, std::int64_t k) {
  using Form = SizeParts::Part::Form;
  using Kind = SizeExpressions::Kind;
  const int n = part.of, by = expressions_.constant(k);
  switch (part.form) {
    case Form::whole: return n;
    case Form::quotient: return expressions_.floor_divided(n, 0, k);
    case Form::ceiling: return expressions_.floor_divided(n, k - 1, k);
    case Form::remainder: return expressions_.make(Kind::mod, n, by);
    case Form::minimum: return expressions_.make(Kind::minimum, n, by);
    case Form::maximum: return expressions_.make(Kind::maximum, n, by);
    case Form::missing:
      return expressions_.make(Kind::mod, expressions_.make(Kind::sub, by, expressions_.make(Kind::mod, n, by)), by);
    case Form::below: return expressions_.scaled(expressions_.floor_divided(n, 0, k), k);
    case Form::above: return expressions_.scaled(expressions_.floor_divided(n, k - 1, k), k);
    case Form::over: return expressions_.make(Kind::floordiv, by, n);
    case Form::modulo: return expressions_.make(Kind::mod, by, n);
  }
  return none;
}

FXX_INLINE void SizeFit::add_whole_part(int e) {
  if (e != none) parts_.add({SizeParts::Part::Form::whole, e, 0, 0}, expressions_.values(e).data());
}

FXX_INLINE void SizeFit::make_parts() {
  using Kind = SizeExpressions::Kind;
  if (parts_.made()) return;
  parts_.start(sets_.size());
  const auto add = [&](int e) { add_whole_part(e); };
  for (int n : leaves_) add(n);
  for (int atom : atoms_) add(atom);
  bases_ = leaves_;
  for (std::size_t i = 0; i < leaves_.size(); ++i)
    for (std::size_t j = i; j < leaves_.size(); ++j) {
      const int a = leaves_[i], b = leaves_[j];
      bases_.push_back(expressions_.make(Kind::mul, a, b));
      if (i == j) continue;
      bases_.push_back(expressions_.make(Kind::add, a, b));
      bases_.push_back(expressions_.make(Kind::sub, a, b));
      bases_.push_back(expressions_.make(Kind::sub, b, a));
      for (const Kind kind : {Kind::minimum, Kind::maximum}) add(expressions_.make(kind, a, b));
      for (const Kind kind : {Kind::floordiv, Kind::mod}) {
        add(expressions_.make(kind, a, b));
        add(expressions_.make(kind, b, a));
      }
    }
  std::erase(bases_, none);
  for (int base : bases_) add(base);
  for (int n : leaves_) parts_.add_all(n, expressions_.values(n));
  for (int base : bases_) {
    const SizeValues& x = expressions_.values(base);
    const auto [low, high] = std::minmax_element(x.begin(), x.end());
    const auto between = std::find_if(x.begin(), x.end(), [&](auto v) { return v != *low && v != *high; });
    lines_.push_back({base, static_cast<std::size_t>(low - x.begin()), static_cast<std::size_t>(high - x.begin()),
                      static_cast<std::size_t>((between == x.end() ? low : between) - x.begin())});
  }
}

// --- what fits -------------------------------------------------------------------------------------------------------

/// Collects expressions that have the values, each once.
class ComposedFound {
 public:
  ComposedFound(const SizeExpressions& expressions, const SizeValues& values)
      : expressions_(expressions), values_(values) {}

  /// `length`: of what C++ writes, where the expression is longer; 0: its own.
  void add(int e, std::size_t length = 0) {
    if (e == SizeExpressions::none || expressions_.values(e) != values_) return;
    if (std::any_of(found_.begin(), found_.end(), [&](const auto& known) { return known.expression == e; })) return;
    found_.push_back({e, length ? length : expressions_.length(e)});
  }
  /// Begins another kind of expressions.
  void next_kind() { before_ = found_.size(); }
  bool full() const { return found_.size() >= before_ + most_of_kind; }
  std::size_t size() const { return found_.size(); }
  /// The length of the shortest; very long when there is none.
  std::size_t shortest() const {
    std::size_t least = 1000;
    for (const SizeCandidate& candidate : found_) least = std::min(least, candidate.length);
    return least;
  }
  /// The short ones first.
  std::vector<SizeCandidate> take() {
    std::stable_sort(found_.begin(), found_.end(), [](const auto& a, const auto& b) { return a.length < b.length; });
    return std::move(found_);
  }

 private:
  const SizeExpressions& expressions_;
  const SizeValues& values_;
  std::vector<SizeCandidate> found_;
  std::size_t before_ = 0;
};

/// Calls make with the expressions of a part: its middle constant, its least and its greatest.
template <class Make>
void SizeFit::for_each_constant(const SizeParts::Part& part, Make&& make) {
  const std::int64_t middle = part.low + (part.high - part.low) / 2;
  make(part_expression(part, middle));
  if (part.low != middle) make(part_expression(part, part.low));
  if (part.high != middle) make(part_expression(part, part.high));
}

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

FXX_INLINE SizeFit::Bounds SizeFit::everywhere() const {
  Bounds all;
  for (std::size_t t = 0; t < sets_.size(); ++t) all.taken.push_back(t);
  return all;
}

/// Adds (factor * base + added) / divisor, truncated as in C++ and kept between the bounds, where it fits the traces that
/// meet no bound.
FXX_INLINE void SizeFit::add_quotients(int base, const SizeValues& values, const Bounds& bounds, ComposedFound& found) {
  using Kind = SizeExpressions::Kind;
  const SizeValues& x = expressions_.values(base);
  const auto& [at, least, most] = bounds;
  if (at.size() < 4) return;
  std::size_t largest = at[0], smallest = at[0];
  std::int64_t farthest = 0;
  for (const std::size_t t : at) {
    if (x[t] > far_number || x[t] < -far_number || values[t] > far_number || values[t] < -far_number) return;
    if (x[t] > x[largest]) largest = t;
    if (x[t] < x[smallest]) smallest = t;
    farthest = std::max({farthest, std::abs(x[t]), std::abs(values[t])});
  }
  const std::int64_t dx = x[largest] - x[smallest], dv = values[largest] - values[smallest];
  if (dx == 0 || dv == 0) return;
  struct Quotient {
    int rank;
    std::int64_t factor, first, last, divisor;
  };
  std::vector<Quotient> quotients;
  const auto interval = [&](std::int64_t a, std::int64_t k, auto unbounded, auto& low, auto& high) {
    using Integer = decltype(unbounded);
    low = -unbounded, high = unbounded;
    for (const std::size_t t : at) {
      const Integer v = static_cast<Integer>(values[t]) * k, product = static_cast<Integer>(a) * x[t];
      low = std::max<Integer>(low, (values[t] > 0 ? v : v - k + 1) - product);
      high = std::min<Integer>(high, (values[t] < 0 ? v : v + k - 1) - product);
      if (low > high) return;
    }
  };
  const long double slope = static_cast<long double>(dv) / static_cast<long double>(dx);
  for (std::int64_t k = 2; k <= largest_composed_constant && quotients.size() < 200; ++k) {
    const auto about = static_cast<std::int64_t>(slope * static_cast<long double>(k));
    const bool narrow = farthest < (std::int64_t{1} << 30) && std::abs(about) < (std::int64_t{1} << 30);
    for (std::int64_t a = about - 1; a <= about + 1; ++a) {
      if (a == 0 || a % k == 0) continue;
      WideInteger low = 0, high = 0;
      if (narrow) {
        std::int64_t from = 0, to = 0;
        interval(a, k, std::int64_t{1} << 61, from, to);
        low = from, high = to;
      } else {
        interval(a, k, static_cast<WideInteger>(1) << 100, low, high);
      }
      if (low > high || low < -far_number || high > far_number) continue;
      const auto first = static_cast<std::int64_t>(low), last = static_cast<std::int64_t>(high);
      const bool plain = first <= 0 && last >= 0, one = a == 1 || a == -1;
      quotients.push_back({(plain ? 0 : 1) + (one ? 0 : 2) + (std::gcd(a, k) == 1 ? 0 : 4), a, first, last, k});
    }
  }
  std::stable_sort(quotients.begin(), quotients.end(), [](const auto& p, const auto& q) { return p.rank < q.rank; });
  for (const Quotient& q : quotients) {
    if (found.full()) return;
    const auto add = [&](std::int64_t added) {
      const int numerator = expressions_.affine(base, q.factor, added);
      int e = truncated(numerator, q.divisor, false);
      if (e == none) return;
      const std::size_t length = expressions_.length(numerator) + 2 + (least ? 2 : 0) + (most ? 2 : 0);
      if (least) e = expressions_.make(Kind::maximum, e, expressions_.constant(*least));
      if (most) e = expressions_.make(Kind::minimum, e, expressions_.constant(*most));
      found.add(e, length);
    };
    // Of the numbers that fit: none, what rounds up, the one in the middle, and the ends, which the next trace tells.
    for (const std::int64_t usual : {std::int64_t{0}, q.divisor - 1, q.divisor / 2})
      if (usual >= q.first && usual <= q.last) add(usual);
    add(q.first + (q.last - q.first) / 2);
    add(q.first);
    add(q.last);
  }
}

/// Adds (factor * base + added) % divisor.
FXX_INLINE void SizeFit::add_composed_remainders(int base, std::int64_t factor, const std::int64_t* x,
                                                 const SizeValues& values, ComposedFound& found) {
  std::int64_t common = 0, most = 1;
  for (std::size_t t = 0; t < values.size(); ++t) {
    std::int64_t product = 0;
    if (__builtin_mul_overflow(x[t], factor, &product) || product > far_number || product < -far_number ||
        values[t] > far_number || values[t] < -far_number)
      return;
    common = std::gcd(common, product - values[t] - (x[0] * factor - values[0]));
    most = std::max(most, std::abs(values[t]));
    if (common == 1 || (common != 0 && common <= most)) return;
  }
  if (common == 0) return;
  std::size_t added_here = 0;
  for (std::int64_t k = most + 1; k <= std::min<std::int64_t>(common, 1 << 17) && added_here < 8; ++k) {
    if (common % k != 0) continue;
    const std::int64_t rest = (((values[0] - x[0] * factor) % k) + k) % k;
    // Where nothing is negative the smallest number serves; else its place is where the sign changes.
    std::int64_t low = -far_number, high = far_number;
    for (std::size_t t = 0; t < values.size(); ++t) {
      if (values[t] > 0) low = std::max(low, 1 - x[t] * factor);
      if (values[t] < 0) high = std::min(high, -1 - x[t] * factor);
    }
    std::int64_t added = rest;
    if (added > high) added -= (added - high + k - 1) / k * k;
    if (added < low) added += (low - added + k - 1) / k * k;
    if (added > high) continue;
    const std::size_t before = found.size();
    const int numerator = expressions_.affine(base, factor, added);
    if (numerator != none) found.add(truncated(numerator, k, true), expressions_.length(numerator) + 2);
    added_here += found.size() - before;
  }
}

/// Whether values = factor * x + added in the traces that meet no bound, for three values of x at least.
FXX_INLINE bool SizeFit::is_line(const std::int64_t* x, const SizeValues& values, const Bounds& bounds,
                                 std::int64_t& factor, std::int64_t& added) const {
  const auto& taken = bounds.taken;
  if (taken.size() < 3) return false;
  // Any two that differ give the line: most fail at the third.
  const std::size_t a = taken[0];
  std::size_t b = a;
  for (const std::size_t t : taken)
    if (values[t] != values[a]) {
      b = t;
      break;
    } else if (x[t] != x[a]) {
      return false;
    }
  const WideInteger dx = static_cast<WideInteger>(x[b]) - x[a], dv = static_cast<WideInteger>(values[b]) - values[a];
  if (dv == 0 || dx == 0 || dx > INT64_MAX || dx < -INT64_MAX || dv > INT64_MAX || dv < -INT64_MAX) return false;
  const std::int64_t f = static_cast<std::int64_t>(dv) / static_cast<std::int64_t>(dx);
  if (f * dx != dv || f > far_number || f < -far_number) return false;
  const WideInteger d = values[a] - static_cast<WideInteger>(f) * x[a];
  if (d > far_number || d < -far_number) return false;
  bool third = false;
  for (const std::size_t t : taken) {
    if (static_cast<WideInteger>(f) * x[t] + d != values[t]) return false;
    third = third || (x[t] != x[a] && x[t] != x[b]);
  }
  factor = f;
  added = static_cast<std::int64_t>(d);
  return third;
}

/// x / k, x % k, and what is missing to a multiple of k, for a part that is not negative.
FXX_INLINE void SizeFit::add_divided_part(const SizeParts::Part& part, const std::int64_t* x, const SizeValues& values,
                                          ComposedFound& found) {
  using Kind = SizeExpressions::Kind;
  std::int64_t low = 2, high = INT64_MAX;
  for (std::size_t t = 0; t < values.size(); ++t) {
    if (x[t] < 0 || values[t] < 0) return;
    low = std::max(low, x[t] / (values[t] + 1) + 1);
    if (values[t] > 0) high = std::min(high, x[t] / values[t]);
    if (low > high) break;
  }
  if (low <= high && high < INT64_MAX)
    for (const std::int64_t k : {low + (high - low) / 2, low, high})
      for_each_constant(part, [&](int e) { found.add(expressions_.make(Kind::floordiv, e, expressions_.constant(k))); });
  // The same rounded up: what is left of a number when its half is taken.
  low = 2, high = INT64_MAX;
  for (std::size_t t = 0; t < values.size() && low <= high; ++t) {
    if (values[t] == 0) {
      if (x[t] != 0) high = 0;
      continue;
    }
    low = std::max(low, (x[t] + values[t] - 1) / values[t]);
    if (values[t] > 1) high = std::min(high, (x[t] - 1) / (values[t] - 1));
  }
  if (low <= high && high < INT64_MAX)
    for (const std::int64_t k : {low + (high - low) / 2, low, high})
      for_each_constant(part, [&](int e) { found.add(expressions_.floor_divided(e, k - 1, k)); });
  // The greatest common divisor of what is missing is 1 for nearly every part, after two traces.
  std::int64_t common = 0, most = 1;
  for (std::size_t t = 0; t < values.size(); ++t) {
    common = std::gcd(common, x[t] - values[t] - (x[0] - values[0]));
    most = std::max(most, values[t]);
    if (common == 1 || (common != 0 && common <= most)) return;
  }
  for_each_constant(part, [&](int e) { add_composed_remainders(e, 1, x, values, found); });
}

/// Calls `join` with every part and line that has the values `rest`.
template <class Join>
void SizeFit::with_partners(const SizeValues& rest, Join&& join) {
  for (const Line& line : lines_) {
    const SizeValues& x = expressions_.values(line.base);
    const WideInteger dx = static_cast<WideInteger>(x[line.high]) - x[line.low],
                      dv = static_cast<WideInteger>(rest[line.high]) - rest[line.low];
    if (dx == 0 || dv == 0) continue;
    if (dv > INT64_MAX || dv < INT64_MIN || dx > INT64_MAX ||
        static_cast<std::int64_t>(dv) % static_cast<std::int64_t>(dx) != 0)
      continue;
    const WideInteger f = static_cast<std::int64_t>(dv) / static_cast<std::int64_t>(dx);
    const WideInteger d = rest[line.low] - f * x[line.low];
    if (d > far_number || d < -far_number) continue;
    bool fits = true;
    for (std::size_t t = 0; t < rest.size() && fits; ++t) fits = f * x[t] + d == rest[t];
    if (fits) join(expressions_.affine(line.base, static_cast<std::int64_t>(f), static_cast<std::int64_t>(d)));
  }
  if (const int other = parts_.find(rest.data()); other >= 0) for_each_constant(parts_[other], join);
}

/// Adds sums and differences of two parts, or of a part and a line.
FXX_INLINE void SizeFit::add_sums_of_parts(const SizeValues& values, ComposedFound& found) {
  using Kind = SizeExpressions::Kind;
  using Unsigned = std::uint64_t;
  const std::size_t traces = values.size();
  SizeValues rest(traces);
  // Most parts have no partner, which a hash and three traces tell. Where these overflow, the full test decides.
  struct Three {
    std::size_t low, high, between;
    Unsigned to_high, to_between;
  };
  std::vector<Three> three;
  for (const Line& line : lines_) {
    const SizeValues& x = expressions_.values(line.base);
    const auto from_low = [&](std::size_t t) {
      return static_cast<Unsigned>(x[t]) - static_cast<Unsigned>(x[line.low]);
    };
    three.push_back({line.low, line.high, line.between, from_low(line.high), from_low(line.between)});
  }
  const Unsigned hash = parts_.hash(values.data());
  for (int part = 0; part < parts_.count() && !found.full(); ++part) {
    const std::int64_t* const x = parts_.row(part);
    for (const Kind kind : {Kind::add, Kind::sub}) {
      const auto rest_at = [&](std::size_t t) {
        const auto v = static_cast<Unsigned>(values[t]), p = static_cast<Unsigned>(x[t]);
        return kind == Kind::add ? v - p : v + p;
      };
      const bool may_fit =
          parts_.has_hash(kind == Kind::add ? hash - parts_.hash_of(part) : hash + parts_.hash_of(part)) ||
          std::any_of(three.begin(), three.end(), [&](const Three& line) {
            const Unsigned low = rest_at(line.low);
            return (rest_at(line.high) - low) * line.to_between == (rest_at(line.between) - low) * line.to_high;
          });
      if (!may_fit) continue;
      bool fits = true;
      for (std::size_t t = 0; t < traces && fits; ++t)
        fits = kind == Kind::add ? !__builtin_sub_overflow(values[t], x[t], &rest[t])
                                 : !__builtin_add_overflow(values[t], x[t], &rest[t]);
      if (!fits) continue;
      with_partners(rest, [&](int other) {
        for_each_constant(parts_[part], [&](int e) { found.add(expressions_.make(kind, other, e)); });
      });
    }
  }
}

/// Adds products of two parts, or of a part and a line.
FXX_INLINE void SizeFit::add_products_of_parts(const SizeValues& values, ComposedFound& found) {
  using Kind = SizeExpressions::Kind;
  const std::size_t traces = values.size();
  SizeValues rest(traces);
  std::size_t products = 0;
  Bounds where;
  for (int part = 0; part < parts_.count() && !found.full(); ++part) {
    const std::int64_t* const x = parts_.row(part);
    bool fits = true;
    std::size_t whole = 0;
    for (std::size_t t = 0; t < traces && fits; ++t) {
      fits = x[t] == 0 ? values[t] == 0 : values[t] % x[t] == 0;
      whole += x[t] != 0;
    }
    if (!fits || whole < 4 || ++products > 400) continue;
    where.taken.clear();
    for (std::size_t t = 0; t < traces; ++t) {
      if (x[t] != 0) where.taken.push_back(t);
      rest[t] = x[t] != 0 ? values[t] / x[t] : 0;
    }
    const auto times = [&](int other) {
      for_each_constant(parts_[part], [&](int e) { found.add(expressions_.make(Kind::mul, e, other)); });
    };
    if (whole == traces) {
      with_partners(rest, times);
      continue;
    }
    for (const Line& line : lines_) {
      std::int64_t factor = 0, added = 0;
      if (is_line(expressions_.values(line.base).data(), rest, where, factor, added))
        times(expressions_.affine(line.base, factor, added));
    }
    for (int other = 0; other < parts_.count() && !found.full(); ++other) {
      const std::int64_t* const y = parts_.row(other);
      if (std::all_of(where.taken.begin(), where.taken.end(), [&](auto t) { return y[t] == rest[t]; }))
        for_each_constant(parts_[other], times);
    }
  }
}

/// Adds the smaller or the larger of two parts, lines or numbers.
FXX_INLINE void SizeFit::add_extreme_parts(const SizeValues& values, ComposedFound& found) {
  using Kind = SizeExpressions::Kind;
  const std::size_t traces = values.size(), masked = std::min<std::size_t>(traces, 64);
  std::vector<int> lines;
  for (const Line& base : lines_) {
    const SizeValues& x = expressions_.values(base.base);
    std::map<std::pair<std::int64_t, std::int64_t>, int> counts;
    for (std::size_t s = 0; s < traces; ++s)
      for (std::size_t t = s + 1; t < traces && t < s + 12; ++t) {
        std::int64_t dx = 0, dv = 0, product = 0, added = 0;
        if (__builtin_sub_overflow(x[t], x[s], &dx) || dx == 0 || __builtin_sub_overflow(values[t], values[s], &dv) ||
            dv % dx != 0)
          continue;
        if (__builtin_mul_overflow(dv / dx, x[s], &product) || __builtin_sub_overflow(values[s], product, &added))
          continue;
        ++counts[{dv / dx, added}];
      }
    for (const auto& [line, count] : counts)
      if (count >= 3 && line.first != 0) lines.push_back(expressions_.affine(base.base, line.first, line.second));
      else if (count >= 3) lines.push_back(expressions_.constant(line.second));
  }
  std::erase(lines, none);
  struct Side {
    std::uint64_t equal;  // the traces where it has the value
    int expression, part;
  };
  const std::uint64_t all = masked == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << masked) - 1;
  for (const Kind kind : {Kind::minimum, Kind::maximum}) {
    found.next_kind();
    std::vector<Side> sides;
    std::map<std::uint64_t, int> of_mask;
    const auto add = [&](const std::int64_t* x, int expression, int part) {
      std::uint64_t equal = 0;
      for (std::size_t t = 0; t < traces; ++t) {
        if (kind == Kind::minimum ? x[t] < values[t] : x[t] > values[t]) return;
        if (x[t] == values[t] && t < masked) equal |= std::uint64_t{1} << t;
      }
      constexpr int most_alike = 6;
      if (equal != 0 && ++of_mask[equal] <= most_alike) sides.push_back({equal, expression, part});
    };
    for (int e : lines) add(expressions_.values(e).data(), e, -1);
    for (int part = 0; part < parts_.count(); ++part) add(parts_.row(part), none, part);
    for (std::size_t i = 0; i < sides.size() && !found.full(); ++i)
      for (std::size_t j = i + 1; j < sides.size() && !found.full(); ++j) {
        if ((sides[i].equal | sides[j].equal) != all) continue;
        // What one trace alone shows could be anything.
        if (std::popcount(all & ~sides[j].equal) < 2 || std::popcount(all & ~sides[i].equal) < 2) continue;
        const auto with = [&](const Side& side, auto&& f) {
          if (side.part < 0) f(side.expression);
          else for_each_constant(parts_[side.part], f);
        };
        with(sides[i], [&](int a) { with(sides[j], [&](int b) { found.add(expressions_.make(kind, a, b)); }); });
      }
  }
}

/// Adds a number or a size over a part: c / n, n % (m / 2), (n + 3) / (m + 1).
FXX_INLINE void SizeFit::add_over_parts(const SizeValues& values, ComposedFound& found) {
  using Kind = SizeExpressions::Kind;
  const std::size_t traces = values.size();
  for (std::int64_t v : values)
    if (v < 0 || v > far_number) return;
  std::vector<std::int64_t> shifted(traces);
  std::vector<const std::int64_t*> bases;
  for (const Line& line : lines_) bases.push_back(expressions_.values(line.base).data());
  const std::int64_t greatest = *std::max_element(values.begin(), values.end());
  const auto divide_in = [&](auto zero, const std::int64_t* x, auto&& with) {
    using Integer = decltype(zero);  // that holds a value times x
    constexpr std::int64_t far_divisor = std::int64_t{1} << 30;
    const auto may_divide = [&] {
      return std::all_of(x, x + traces, [](std::int64_t v) { return v > 0 && v <= far_divisor; });
    };
    // Finds the numbers c with (y + c) / x = values. Nearly all parts have none, and a few traces tell that.
    const auto interval = [&](auto&& y, Integer low, Integer high, auto&& add) {
      for (std::size_t t = 0; t < traces; ++t) {
        if (x[t] <= 0 || x[t] > far_divisor) return;
        const Integer product = static_cast<Integer>(values[t]) * x[t] - y(t);
        low = std::max<Integer>(low, product);
        high = std::min<Integer>(high, product + x[t] - 1);
        if (low > high) return;
      }
      add(static_cast<std::int64_t>(low), static_cast<std::int64_t>(high));
    };
    bool rests = true;  // may it be what is left over?
    for (std::size_t t = 0; t < traces && rests; ++t) rests = values[t] < x[t];
    rests = rests && may_divide();
    interval([](std::size_t) { return std::int64_t{0}; }, 0, largest_composed_constant * 1000,
             [&](std::int64_t first, std::int64_t last) {
               for (const std::int64_t c : {first + (last - first) / 2, first, last})
                 with([&](int e) { found.add(expressions_.make(Kind::floordiv, expressions_.constant(c), e)); });
             });
    if (rests) {
      const auto largest = static_cast<std::size_t>(std::max_element(x, x + traces) - x);
      for (std::int64_t c = values[largest]; c <= largest_composed_constant; c += x[largest]) {
        bool fits = c >= 0;
        for (std::size_t t = 0; t < traces && fits; ++t) fits = c % x[t] == values[t];
        if (fits) with([&](int e) { found.add(expressions_.make(Kind::mod, expressions_.constant(c), e)); });
      }
    }
    for (std::size_t l = 0; l < lines_.size(); ++l) {
      const int base = lines_[l].base;
      const std::int64_t* const y = bases[l];
      interval([&](std::size_t t) { return y[t]; }, -largest_composed_constant, largest_composed_constant,
               [&](std::int64_t first, std::int64_t last) {
                 const auto add = [&](std::int64_t c) {
                   with([&](int e) { found.add(expressions_.make(Kind::floordiv, expressions_.plus(base, c), e)); });
                 };
                 if (first <= 0 && last >= 0) add(0);
                 add(first + (last - first) / 2);
                 add(first);
                 add(last);
               });
      bool fits = rests;
      for (std::size_t t = 0; t < traces && fits; ++t) fits = y[t] >= 0 && y[t] % x[t] == values[t];
      if (fits) with([&](int e) { found.add(expressions_.make(Kind::mod, base, e)); });
    }
  };
  const auto divide = [&](const std::int64_t* x, auto&& with) {
    // Bases are products of two sizes, which are not far.
    if (greatest < (std::int64_t{1} << 31)) divide_in(std::int64_t{0}, x, with);
    else divide_in(WideInteger{0}, x, with);
  };
  for (int part = 0; part < parts_.count() && !found.full(); ++part)
    divide(parts_.row(part), [&](auto&& make) { for_each_constant(parts_[part], make); });
  for (int n : leaves_)
    for (std::int64_t k = -16; k <= largest_composed_constant && !found.full(); ++k) {
      if (k == 0) continue;
      const SizeValues& x = expressions_.values(n);
      for (std::size_t t = 0; t < traces; ++t) shifted[t] = x[t] + k;
      divide(shifted.data(), [&](auto&& make) { make(expressions_.plus(n, k)); });
    }
}

/// How often the values are other than their most frequent one, `usual`.
FXX_INLINE std::size_t SizeFit::count_unusual(const SizeValues& values, std::int64_t& usual) const {
  SizeValues sorted = values;
  std::sort(sorted.begin(), sorted.end());
  std::size_t most = 0;
  for (std::size_t i = 0, run = 0; i < sorted.size(); ++i) {
    run = i && sorted[i] == sorted[i - 1] ? run + 1 : 1;
    if (run <= most) continue;
    most = run;
    usual = sorted[i];
  }
  return values.size() - most;
}

FXX_INLINE SizeFit::Answer SizeFit::composed(const SizeValues& values) {
  using Kind = SizeExpressions::Kind;
  if (sets_.size() < fewest_for_composed + 2 * leaves_.size()) return {};
  make_parts();
  ComposedFound found(expressions_, values);
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  const std::int64_t low = *least, high = *most;
  // A bound that one size alone meets could be anything.
  const bool may_be_low = std::count(values.begin(), values.end(), low) > 1,
             may_be_high = std::count(values.begin(), values.end(), high) > 1;
  const Bounds all = everywhere();
  std::vector<Bounds> bounds;
  for (const auto& [use_low, use_high] : {std::pair(false, true), std::pair(true, false), std::pair(true, true)}) {
    if ((use_low && !may_be_low) || (use_high && !may_be_high)) continue;
    Bounds& b = bounds.emplace_back();
    if (use_low) b.low = low;
    if (use_high) b.high = high;
    for (std::size_t t = 0; t < values.size(); ++t)
      if (!(use_low && values[t] == low) && !(use_high && values[t] == high)) b.taken.push_back(t);
  }
  const auto bounded = [&](const std::int64_t* x, auto&& with) {
    for (const Bounds& b : bounds) {
      std::int64_t factor = 0, added = 0;
      if (!is_line(x, values, b, factor, added)) continue;
      with([&](int of) {
        int e = expressions_.affine(of, factor, added);
        if (b.low) e = expressions_.make(Kind::maximum, e, expressions_.constant(*b.low));
        if (b.high) e = expressions_.make(Kind::minimum, e, expressions_.constant(*b.high));
        found.add(e);
      });
    }
  };
  for (int base : bases_) bounded(expressions_.values(base).data(), [&](auto&& make) { make(base); });
  found.next_kind();
  for (int part = 0; part < parts_.count() && !found.full(); ++part) {
    std::int64_t factor = 0, added = 0;
    if (is_line(parts_.row(part), values, all, factor, added))
      for_each_constant(parts_[part], [&](int e) { found.add(expressions_.affine(e, factor, added)); });
  }
  for (int base : bases_) {
    found.next_kind();
    add_quotients(base, values, all, found);
    found.next_kind();
    const std::int64_t* const x = expressions_.values(base).data();
    for (std::int64_t factor = 1; factor <= 300 && !found.full(); ++factor)
      for (const std::int64_t sign : {1, -1}) add_composed_remainders(base, sign * factor, x, values, found);
  }
  // With many traces the shortest expression counts alone, and a kind of longer ones need not be looked for.
  const auto counts = [&](std::size_t length) { return length <= found.shortest() + length_beside_shortest(); };
  constexpr std::size_t of_part = 3, of_two = 5, of_bounded_part = 5;
  found.next_kind();
  for (int part = 0; part < parts_.count() && !found.full() && counts(of_bounded_part); ++part)
    bounded(parts_.row(part), [&](auto&& make) { for_each_constant(parts_[part], make); });
  found.next_kind();
  for (int part = 0; part < parts_.count() && !found.full() && counts(of_part); ++part)
    add_divided_part(parts_[part], parts_.row(part), values, found);
  for (int base : leaves_)
    for (const Bounds& b : bounds) {
      found.next_kind();
      if (counts(of_two)) add_quotients(base, values, b, found);
    }
  found.next_kind();
  if (counts(of_two)) add_sums_of_parts(values, found);
  found.next_kind();
  if (counts(of_two)) add_products_of_parts(values, found);
  if (counts(of_two)) add_extreme_parts(values, found);
  found.next_kind();
  add_over_parts(values, found);
  return told_apart(found.take());
}

}  // namespace fxx::inline FXX_ABI::detail
