// Of trace/detail/size_fit.hpp: the sizes that tell expressions apart, and test the one that is left.
//
// A size is worth a trace where the code may do something else than the expression says: at small, large and odd sizes,
// and where a variant of the expression (another constant, another rounding, a side of min or max less) that fits all
// traces has another value.
#pragma once

#include <algorithm>
#include <iterator>
#include <set>

#include "fxx/trace/detail/size_fit.hpp"

namespace fxx::inline FXX_ABI::detail {

FXX_INLINE std::int64_t SizeFit::allowed_near(std::size_t i, std::int64_t size) const {
  const SizeSymbol& s = symbols_[i];
  const std::int64_t least = std::max<std::int64_t>(s.minimum, (2 + s.multiple_of - 1) / s.multiple_of * s.multiple_of);
  return std::clamp(size / s.multiple_of * s.multiple_of, least, std::max(least, s.maximum));
}

FXX_INLINE const std::vector<std::vector<std::int64_t>>& SizeFit::survey() {
  if (!survey_.empty()) return survey_;
  // The smallest size, one below a multiple of nearly everything, primes, a multiple of much, and then all magnitudes.
  constexpr std::int64_t one[] = {2,   25199, 5,  1021, 3,  24},
                         ladder[] = {2,  25199, 5,  1021, 47, 100003, 331, 8,   129, 600, 20160, 15, 3,     63,   257, 900,
                                     33, 2049,  23, 96,   449, 160,   769, 3001, 11, 64,  511,   4,  31,    120,  7,   1544,
                                     191, 17,   383, 79,  6,  40,     256, 10007, 1200, 9, 101,  49, 4099,  13,   999, 19,
                                     128, 223,  57, 32,   255, 16,    65,  29,  127, 513, 1023,  1025, 1543, 2053},
                         large = 2520, middle = 24;
  const std::int64_t small = symbols_.size() == 2 ? 2 : 3;
  constexpr std::size_t count = std::size(ladder);
  const std::size_t n = symbols_.size();
  const auto add = [&](auto&& size) {
    std::vector<std::int64_t> set;
    for (std::size_t i = 0; i < n; ++i) set.push_back(allowed_near(i, size(i)));
    if (std::find(survey_.begin(), survey_.end(), set) == survey_.end()) survey_.push_back(std::move(set));
  };
  const auto add_all = [&](std::int64_t first, std::int64_t step) {
    add([&](std::size_t i) { return first + step * static_cast<std::int64_t>(i); });
  };
  if (n == 1)
    for (const std::int64_t size : one) add_all(size, 0);
  // Of several symbols, each takes every size of a block in turn.
  for (std::size_t k = 0; k < count; ++k) {
    if (n > 1 && k == (n == 2 ? 4 : n)) {
      add_all(small, n == 2 ? 0 : 1);
      add_all(large, -510);
      add_all(middle, -8);
    }
    add([&](std::size_t i) { return ladder[(k / n * n + (i + k % n) % n) % count]; });
  }
  if (n > 1)
    for (std::size_t k = 0; k < count; k += 4)
      for (std::size_t i = 0; i < n; ++i) add([&](std::size_t j) { return j == i ? ladder[(k + i) % count] : sets_[0][j]; });
  return survey_;
}

FXX_INLINE bool SizeFit::may_ask(const std::vector<std::int64_t>& set) const {
  return std::find(sets_.begin(), sets_.end(), set) == sets_.end() &&
         std::find(refused_.begin(), refused_.end(), set) == refused_.end();
}

/// Calls f(size) for the sizes of symbol i where `e` changes its piece, with symbol i changed alone.
template <class F>
void SizeFit::for_each_break(int e, std::size_t i, F&& f) const {
  using Kind = SizeExpressions::Kind;
  std::vector<int> extremes;
  std::vector<std::int64_t> constants;
  bool divides = false, uses = expressions_.reads(e);
  const auto look = [&](int of, auto&& self) -> void {
    const SizeExpressions::Term& t = expressions_.term(of);
    divides = divides || t.kind == Kind::floordiv || t.kind == Kind::mod;
    if (t.kind == Kind::minimum || t.kind == Kind::maximum) extremes.push_back(of);
    uses = uses || (t.kind == Kind::symbol && t.value == static_cast<std::int64_t>(i));
    for (const int operand : {t.a, t.b})
      if (operand != none) self(operand, self);
  };
  look(e, look);
  if (!uses || (!divides && extremes.empty())) return;
  const std::int64_t step = symbols_[i].multiple_of;
  const auto add = [&](std::int64_t size) {
    size = size / step * step;
    if (size >= 2 && symbols_[i].allows(size)) f(size);
  };
  collect_constants(e, constants);
  std::sort(constants.begin(), constants.end());
  for (std::int64_t c : constants) {
    c = std::abs(c);
    if (c < 2 || c > 200000) continue;
    for (const std::int64_t many : {c, 2 * c, 3 * c, std::max<std::int64_t>(1, 2000 / c) * c}) {
      add(many - step);
      add(many);
      add(many + step);
    }
  }
  // Where the other side of min and max takes over.
  for (int piece : extremes) {
    const SizeExpressions::Term& t = expressions_.term(piece);
    std::vector<std::int64_t> at = sets_[0];
    int last = 0, found = 0;
    std::int64_t before = 0;
    for (std::int64_t x = allowed_near(i, 2); x <= std::min<std::int64_t>(symbols_[i].maximum, 4096 * step) && found < 3;
         x += step) {
      at[i] = x;
      const auto a = expressions_.evaluate(t.a, at), b = expressions_.evaluate(t.b, at);
      if (!a || !b) continue;
      const int side = *a < *b ? -1 : *a > *b;
      if (last != 0 && side != 0 && side != last) {
        ++found;
        add(before);
        add(before + step);
        add(x);
        add(x + step);
      }
      if (side != 0) last = side, before = x;
    }
  }
}

/// Sets where the expressions may have other values than others: those of the survey, and those where a piece changes,
/// each symbol alone and all together. Only sets that can be asked for.
FXX_INLINE std::vector<std::vector<std::int64_t>> SizeFit::probes(std::span<const int> expressions) {
  constexpr std::size_t most_of_survey = 40, most_breaks = 60;
  std::vector<std::vector<std::int64_t>> sets;
  const auto add = [&](std::vector<std::int64_t> set) {
    if (may_ask(set)) sets.push_back(std::move(set));
  };
  std::vector<std::vector<std::int64_t>> breaks(symbols_.size());
  for (std::size_t i = 0; i < symbols_.size(); ++i)
    for (int e : expressions)
      for_each_break(e, i, [&](std::int64_t size) {
        if (breaks[i].size() < most_breaks && std::find(breaks[i].begin(), breaks[i].end(), size) == breaks[i].end())
          breaks[i].push_back(size);
      });
  std::size_t longest = 0;
  for (const auto& of : breaks) longest = std::max(longest, of.size());
  for (std::size_t k = 0; k < std::min(most_of_survey, survey().size()); ++k) add(survey()[k]);
  for (std::size_t i = 0; i < symbols_.size(); ++i)
    for (const std::int64_t size : breaks[i]) {
      std::vector<std::int64_t> set = sets_[0];
      set[i] = size;
      add(set);
      if (symbols_.size() == 1) continue;
      // A piece may show only where another size is small, or large.
      for (std::size_t j = 0; j < set.size(); ++j)
        if (j != i) set[j] = allowed_near(j, 2);
      add(set);
      for (std::size_t j = 0; j < set.size(); ++j)
        if (j != i) set[j] = allowed_near(j, 1021);
      add(set);
    }
  if (symbols_.size() > 1)
    for (std::size_t k = 0; k < longest; ++k) {
      std::vector<std::int64_t> set = sets_[0];
      for (std::size_t i = 0; i < symbols_.size(); ++i)
        if (!breaks[i].empty()) set[i] = breaks[i][k % breaks[i].size()];
      add(std::move(set));
    }
  std::sort(sets.begin(), sets.end());
  sets.erase(std::unique(sets.begin(), sets.end()), sets.end());
  // Of sets that tell as much, the one that costs least.
  std::stable_sort(sets.begin(), sets.end(), [](const auto& a, const auto& b) {
    return std::accumulate(a.begin(), a.end(), std::int64_t{0}) < std::accumulate(b.begin(), b.end(), std::int64_t{0});
  });
  return sets;
}

/// A set that can be asked for, where the expression has another value than the usual one.
FXX_INLINE std::optional<std::vector<std::int64_t>> SizeFit::unusual(int e, std::int64_t usual) {
  const auto fits = [&](const std::vector<std::int64_t>& set) {
    const auto value = expressions_.evaluate(e, set);
    return value && *value != usual && may_ask(set);
  };
  for (const std::int64_t others : {std::int64_t{0}, std::int64_t{2}, std::int64_t{1021}})
    for (std::size_t i = 0; i < symbols_.size(); ++i)
      for (std::int64_t size = 2; size < 16; ++size) {
        std::vector<std::int64_t> set = sets_[0];
        for (std::size_t j = 0; j < set.size() && others != 0; ++j) set[j] = allowed_near(j, others);
        set[i] = allowed_near(i, size * symbols_[i].multiple_of);
        if (fits(set)) return set;
      }
  for (const auto& set : probes({&e, 1}))
    if (fits(set)) return set;
  return std::nullopt;
}

/// What few traces do not tell apart is endless: the more of them the shortest expression has survived, the less much
/// longer ones count.
FXX_INLINE std::size_t SizeFit::length_beside_shortest() const {
  const std::size_t usual_traces = 7 + 3 * symbols_.size(), more = sets_.size() - std::min(sets_.size(), usual_traces);
  return 6 - std::min<std::size_t>(6, more);
}

/// The first candidate, and the set that leaves the fewest of them whatever its answer is.
FXX_INLINE SizeFit::Answer SizeFit::told_apart(std::vector<SizeCandidate> found) {
  if (found.empty()) return {};
  const std::size_t longest = found[0].length + length_beside_shortest();
  std::vector<int> candidates;
  for (const SizeCandidate& candidate : found)
    if (candidate.length <= longest) candidates.push_back(candidate.expression);
  Answer answer{candidates[0], none, {}};
  if (candidates.size() == 1) return answer;
  const auto sets = probes(std::span(candidates).first(std::min<std::size_t>(candidates.size(), 8)));
  std::size_t fewest = candidates.size();
  std::vector<std::optional<std::int64_t>> results;
  for (const auto& set : sets) {
    results.clear();
    for (int e : candidates) results.push_back(expressions_.evaluate(e, set));
    const auto first = results[0];
    std::size_t rival = 1;
    while (rival < results.size() && results[rival] == first) ++rival;
    if (rival == results.size()) continue;
    std::sort(results.begin(), results.end());
    std::size_t largest = 0;
    for (std::size_t i = 0, run = 0; i < results.size(); ++i) {
      run = i && results[i] == results[i - 1] ? run + 1 : 1;
      largest = std::max(largest, run);
    }
    if (largest >= fewest) continue;
    fewest = largest;
    answer.rival = candidates[rival];
    answer.ask = set;
  }
  return answer;
}

/// `e` with the operand number `place`, counted through the whole expression, replaced by what `change` makes of it.
template <class Change>
int SizeFit::changed(int e, int& place, Change&& change) {
  if (place-- == 0) return change(e);
  const SizeExpressions::Term t = expressions_.term(e);
  if (t.a == none) return e;
  const int a = place < 0 ? t.a : changed(t.a, place, change);
  const int b = t.b == none || place < 0 ? t.b : changed(t.b, place, change);
  if (a == none || (t.b != none && b == none)) return none;
  return a == t.a && b == t.b ? e : expressions_.make(t.kind, a, b);
}

/// `e` with one operand replaced wherever it stands.
FXX_INLINE int SizeFit::replaced(int e, int from, int to) {
  if (e == from) return to;
  const SizeExpressions::Term t = expressions_.term(e);
  if (t.a == none) return e;
  const int a = replaced(t.a, from, to), b = t.b == none ? none : replaced(t.b, from, to);
  if (a == none || (t.b != none && b == none)) return none;
  return a == t.a && b == t.b ? e : expressions_.make(t.kind, a, b);
}

/// Expressions beside `e` that fit all traces: with one constant or one rounding changed, a side of min or max or a
/// remainder left out, and with bounds at what the traces have shown of a remainder.
FXX_INLINE std::vector<int> SizeFit::variants(int e) {
  using Kind = SizeExpressions::Kind;
  std::vector<int> found;
  const SizeValues values = expressions_.values(e);
  const auto keep = [&](int variant) {
    if (variant != none && variant != e && expressions_.values(variant) == values &&
        std::find(found.begin(), found.end(), variant) == found.end())
      found.push_back(variant);
  };
  std::vector<int> operands;
  const auto look = [&](int of, auto&& self) -> void {
    operands.push_back(of);
    const SizeExpressions::Term t = expressions_.term(of);
    for (const int operand : {t.a, t.b})
      if (operand != none) self(operand, self);
  };
  look(e, look);
  const auto with = [&](std::size_t place, auto&& change) {
    int at = static_cast<int>(place);
    keep(changed(e, at, change));
  };
  // One number that stands at several places, as in what is truncated towards zero.
  std::vector<std::int64_t> constants;
  for (int of : operands)
    if (const auto t = expressions_.term(of); t.kind == Kind::constant)
      if (std::find(constants.begin(), constants.end(), t.value) == constants.end()) constants.push_back(t.value);
  for (const std::int64_t value : constants) {
    if (std::abs(value / 2) > far_number) continue;
    const int from = expressions_.constant(value);
    if (std::count(operands.begin(), operands.end(), from) < 2) continue;
    for (const std::int64_t step : constants)
      for (std::int64_t by = std::abs(step), k = 0; k < 8 && by != 0 && by < far_number; ++k, by *= 2)
        for (const std::int64_t other : {value - by, value + by}) keep(replaced(e, from, expressions_.constant(other)));
    for (const std::int64_t other : {value - 1, value + 1}) keep(replaced(e, from, expressions_.constant(other)));
  }
  for (std::size_t place = 0; place < operands.size() && place < 40; ++place) {
    const SizeExpressions::Term t = expressions_.term(operands[place]);
    switch (t.kind) {
      case Kind::constant:
        if (std::abs(t.value / 2) > far_number) break;
        for (const std::int64_t other : {t.value - 1, t.value + 1})
          with(place, [&](int) { return expressions_.constant(other); });
        break;
      case Kind::floordiv: {
        const SizeExpressions::Term by = expressions_.term(t.b);
        if (by.kind != Kind::constant || std::abs(by.value / 2) > far_number) break;
        for (const std::int64_t added : {by.value - 1, std::int64_t{1} - by.value, by.value / 2})
          with(place, [&](int) { return expressions_.make(Kind::floordiv, expressions_.plus(t.a, added), t.b); });
        // (n + k - 1) // k with both numbers changed.
        const SizeExpressions::Term sum = expressions_.term(t.a);
        if (sum.kind == Kind::add && expressions_.term(sum.b).kind == Kind::constant)
          for (const std::int64_t more : {-1, 1})
            with(place, [&](int) {
              return expressions_.make(Kind::floordiv,
                                       expressions_.plus(sum.a, expressions_.term(sum.b).value + more),
                                       expressions_.constant(by.value + more));
            });
        break;
      }
      case Kind::sub: {
        // (n - 8) // 2, which C++ rounds towards zero, is n // 2 - 4 where nothing is negative.
        const SizeExpressions::Term quotient = expressions_.term(t.a), less = expressions_.term(t.b);
        if (quotient.kind != Kind::floordiv || less.kind != Kind::constant) break;
        const SizeExpressions::Term by = expressions_.term(quotient.b);
        std::int64_t all = 0;
        if (by.kind != Kind::constant || __builtin_mul_overflow(less.value, by.value, &all)) break;
        with(place, [&](int) { return truncated(expressions_.plus(quotient.a, -all), by.value, false); });
        break;
      }
      case Kind::mod: {
        with(place, [&](int) { return t.a; });
        const SizeValues& x = expressions_.values(operands[place]);
        const auto [low, high] = std::minmax_element(x.begin(), x.end());
        const std::int64_t least = *low, most = *high;
        if (least > 0)
          with(place, [&](int of) { return expressions_.make(Kind::maximum, of, expressions_.constant(least)); });
        if (const auto by = expressions_.term(t.b); by.kind != Kind::constant || most < by.value - 1)
          with(place, [&](int of) { return expressions_.make(Kind::minimum, of, expressions_.constant(most)); });
        break;
      }
      case Kind::minimum:
      case Kind::maximum: {
        with(place, [&](int) { return t.a; });
        with(place, [&](int) { return t.b; });
        // A bound may be a size that was the same where it was met.
        const SizeExpressions::Term bound = expressions_.term(t.b);
        if (bound.kind != Kind::constant) break;
        const SizeValues &x = expressions_.values(operands[place]), &free = expressions_.values(t.a);
        std::size_t met = 0;
        while (met < x.size() && (x[met] != bound.value || free[met] == bound.value)) ++met;
        if (met == x.size()) break;
        for (int n : leaves_) {
          const std::int64_t at = expressions_.values(n)[met];
          for (const std::int64_t factor : {std::int64_t{1}, std::int64_t{-1}, at > 1 ? bound.value / at : 1})
            with(place, [&](int) {
              return expressions_.make(t.kind, t.a, expressions_.affine(n, factor, bound.value - factor * at));
            });
        }
        break;
      }
      default: break;
    }
  }
  return found;
}

/// A set that can be asked for, where the two have different values: each symbol alone, at every size up to 1500.
FXX_INLINE std::optional<std::vector<std::int64_t>> SizeFit::differing_set(int a, int b) const {
  std::vector<bool> uses(symbols_.size());
  for (int e : {a, b}) expressions_.for_each_symbol(e, [&](std::size_t i) { uses[i] = true; });
  for (std::size_t i = 0; i < symbols_.size(); ++i) {
    std::vector<std::int64_t> set = sets_[0];
    for (std::int64_t size = 2; uses[i] && size <= 1500; ++size) {
      set[i] = size * symbols_[i].multiple_of;
      if (symbols_[i].allows(set[i]) && expressions_.evaluate(a, set) != expressions_.evaluate(b, set) && may_ask(set))
        return set;
    }
  }
  return std::nullopt;
}

/// Where an expression takes few values, adds the sizes below and at those where it goes from one to the next: nothing
/// else shows that these are the right ones.
FXX_INLINE void SizeFit::add_steps(int e, std::vector<std::vector<std::int64_t>>& asked) const {
  constexpr std::size_t few = 6;
  std::vector<bool> uses(symbols_.size());
  expressions_.for_each_symbol(e, [&](std::size_t i) { uses[i] = true; });
  for (std::size_t i = 0; i < symbols_.size(); ++i) {
    std::vector<std::int64_t> set = sets_[0], steps;
    std::optional<std::int64_t> before;
    for (std::int64_t size = 2; uses[i] && size <= 1500 && steps.size() <= few; ++size) {
      set[i] = size * symbols_[i].multiple_of;
      if (!symbols_[i].allows(set[i])) continue;
      const auto value = expressions_.evaluate(e, set);
      if (before && value && *value != *before) steps.push_back(set[i]);
      before = value;
    }
    if (steps.size() > few) continue;
    for (const std::int64_t size : steps)
      for (const std::int64_t at : {size - symbols_[i].multiple_of, size}) {
        set[i] = at;
        if (may_ask(set) && std::find(asked.begin(), asked.end(), set) == asked.end()) asked.push_back(set);
      }
  }
}

/// Whether f(term) holds for `e` or one of its operands.
template <class F>
bool SizeFit::any_term(int e, F&& f) const {
  const SizeExpressions::Term& t = expressions_.term(e);
  return f(t) || (t.a != none && any_term(t.a, f)) || (t.b != none && any_term(t.b, f));
}
/// Whether it divides, or takes the smaller or larger of two.
FXX_INLINE bool SizeFit::has_pieces(int e) const {
  using Kind = SizeExpressions::Kind;
  return any_term(e, [](const auto& t) {
    return t.kind == Kind::floordiv || t.kind == Kind::mod || t.kind == Kind::minimum || t.kind == Kind::maximum;
  });
}
/// Whether it divides by what changes: then its pieces are at small sizes.
FXX_INLINE bool SizeFit::divides_by_size(int e) const {
  using Kind = SizeExpressions::Kind;
  return any_term(e, [&](const auto& t) {
    return (t.kind == Kind::floordiv || t.kind == Kind::mod) && expressions_.term(t.b).kind != Kind::constant;
  });
}
/// Whether it has a bound, a remainder of a large number, or one value at half of the sizes that were traced and are not
/// small: a further piece would not show where it is at the bound, or below that number. Remainders of small divisors are
/// equal often by chance.
FXX_INLINE bool SizeFit::may_saturate(int e) const {
  using Kind = SizeExpressions::Kind;
  constexpr std::int64_t small_size = 24, small_divisor = 16, large_divisor = 100;
  if (!has_pieces(e)) return false;
  if (any_term(e, [](const auto& t) { return t.kind == Kind::minimum || t.kind == Kind::maximum; })) return true;
  const auto is_rest = [&](const auto& t) {
    return t.kind == Kind::mod && expressions_.term(t.b).kind == Kind::constant;
  };
  if (any_term(e, [&](const auto& t) { return is_rest(t) && expressions_.term(t.b).value > large_divisor; })) return true;
  const auto is_small_rest = [&](const auto& t) { return is_rest(t) && expressions_.term(t.b).value <= small_divisor; };
  if (any_term(e, is_small_rest)) return false;
  std::map<std::vector<std::int64_t>, std::int64_t> of_sizes;
  for (std::size_t t = 0; t < sets_.size(); ++t) {
    std::vector<std::int64_t> sizes;
    expressions_.for_each_symbol(e, [&](std::size_t i) { sizes.push_back(sets_[t][i]); });
    if (std::all_of(sizes.begin(), sizes.end(), [&](auto size) { return size > small_size; }))
      of_sizes.emplace(std::move(sizes), expressions_.values(e)[t]);
  }
  SizeValues values;
  for (const auto& [sizes, value] : of_sizes) values.push_back(value);
  std::int64_t usual = 0;
  return values.size() > 1 && 2 * (values.size() - count_unusual(values, usual)) >= values.size();
}
/// Marks the symbols that an answer has; a size that is read may have any of them.
FXX_INLINE void SizeFit::mark_used(int e) {
  if (e == none) return;
  if (expressions_.reads(e)) used_.assign(used_.size(), true);
  expressions_.for_each_symbol(e, [&](std::size_t i) { used_[i] = true; });
}

/// Sets that no expression asks for, where pieces show that it lacks: small sizes beside large ones, and sizes between
/// those of the survey. More of them where an answer is at a bound at many sizes, where it divides by a size, and where
/// a symbol has not shown in any answer. Those were chosen one by one: each told most of a million pairs of drawn
/// expressions apart that are equal in all sets before it.
FXX_INLINE std::vector<std::vector<std::int64_t>> SizeFit::unasked_sets(std::span<const int> answers,
                                                                        const std::vector<bool>& asked) const {
  const std::size_t n = symbols_.size();
  std::vector<std::vector<std::int64_t>> sets;
  const auto add = [&](auto&& size) {
    std::vector<std::int64_t> set;
    for (std::size_t i = 0; i < n; ++i) set.push_back(allowed_near(i, size(i)));
    if (may_ask(set) && std::find(sets.begin(), sets.end(), set) == sets.end()) sets.push_back(std::move(set));
  };
  const auto add_all = [&](auto&& of_one, auto&& of_two) {
    if (n == 1)
      for (const std::int64_t size : of_one) add([&](std::size_t) { return size; });
    if (n == 2)
      for (const auto& [a, b] : of_two) add([&, a = a, b = b](std::size_t i) { return i == 0 ? a : b; });
  };
  const auto any = [&](auto&& f) { return std::any_of(answers.begin(), answers.end(), f); };
  bool unused = false;
  for (std::size_t i = 0; i < n; ++i) unused = unused || (asked[i] && !used_[i] && !covered_[i]);
  if (unused || any([&](int e) { return has_pieces(e); })) {
    constexpr std::int64_t small = 2, large = 1400, of_one[] = {3, 4, 9, 30, 500, 800, large};
    constexpr std::int64_t of_two[][2] = {{2, 3},  {3, 2},   {9, 9},   {4, 30},      {30, 4},
                                          {5, 99}, {99, 5}, {61, 53}, {800, large}, {large, 500}};
    add_all(of_one, of_two);
    for (std::size_t alone = 0; n > 1 && alone < n; ++alone)
      add([&](std::size_t i) { return i == alone ? small : large; });
  }
  if (unused || any([&](int e) { return divides_by_size(e) || may_saturate(e); })) {
    constexpr std::int64_t of_one[] = {13, 7, 110, 617, 61, 296, 11, 900, 71, 14, 41, 92, 576, 6, 397, 735};
    constexpr std::int64_t of_two[][2] = {
        {300, 800}, {13, 7},   {3500, 5000}, {7, 230},   {540, 11}, {5000, 71}, {71, 2600}, {11, 620},
        {950, 950}, {193, 300}, {700, 13},    {16, 400}, {2600, 12}, {89, 3500}, {4, 4},     {400, 37},
        {6, 540},   {230, 193}, {3, 7},       {620, 1500}, {6, 2},  {4, 7},     {5, 3},     {13, 14}};
    add_all(of_one, of_two);
    constexpr std::size_t of_more = 8, apart = 5;
    for (std::size_t k = 0; n > 2 && k < of_more; ++k)
      add([&](std::size_t i) { return of_one[(k + apart * i) % std::size(of_one)]; });
  }
  return sets;
}

FXX_INLINE std::vector<std::vector<std::int64_t>> SizeFit::tests(const std::vector<bool>& asked_of) {
  std::vector<int> answers;
  for (const auto& [values, answer] : known_)
    if (answer.expression != none) answers.push_back(answer.expression);
  struct Rival {
    int expression, variant;
  };
  std::vector<Rival> rivals;
  std::vector<int> doubtful;
  for (int e : answers) {
    const std::size_t before = rivals.size();
    for (int variant : variants(e)) rivals.push_back({e, variant});
    if (rivals.size() > before) doubtful.push_back(e);
  }
  std::vector<std::vector<std::int64_t>> asked = unasked_sets(answers, asked_of);
  for (int e : answers) add_steps(e, asked);
  if (rivals.empty()) return asked;
  auto sets = probes(doubtful);
  std::vector<std::vector<bool>> tells;
  for (const auto& set : sets) {
    std::vector<bool>& of = tells.emplace_back();
    for (const Rival& r : rivals)
      of.push_back(expressions_.evaluate(r.expression, set) != expressions_.evaluate(r.variant, set));
  }
  // What none of these tells may show at a size between them.
  std::size_t scans = 0;
  for (std::size_t r = 0; r < rivals.size() && scans < 8; ++r) {
    if (std::any_of(tells.begin(), tells.end(), [&](const auto& of) { return of[r]; })) continue;
    ++scans;
    if (auto set = differing_set(rivals[r].expression, rivals[r].variant)) {
      std::vector<bool>& of = tells.emplace_back();
      for (const Rival& other : rivals)
        of.push_back(expressions_.evaluate(other.expression, *set) != expressions_.evaluate(other.variant, *set));
      sets.push_back(std::move(*set));
    }
  }
  std::vector<bool> told(rivals.size());
  for (;;) {
    std::size_t best = 0, most = 0;
    for (std::size_t s = 0; s < sets.size(); ++s) {
      std::size_t count = 0;
      for (std::size_t r = 0; r < rivals.size(); ++r) count += tells[s][r] && !told[r];
      if (count > most) most = count, best = s;
    }
    if (most == 0) return asked;
    asked.push_back(sets[best]);
    for (std::size_t r = 0; r < rivals.size(); ++r) told[r] = told[r] || tells[best][r];
  }
}

}  // namespace fxx::inline FXX_ABI::detail
