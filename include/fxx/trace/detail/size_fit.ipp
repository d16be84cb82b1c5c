// Bodies of trace/detail/size_fit.hpp; those about divisions are in size_fit_divisions.ipp.
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numeric>

#include "fxx/trace/detail/size_fit.hpp"
#include "fxx/trace/detail/size_fit_composed.ipp"
#include "fxx/trace/detail/size_fit_divisions.ipp"
#include "fxx/trace/detail/size_fit_tests.ipp"

namespace fxx::inline FXX_ABI::detail {

/// Expressions that fit, and are looked at, at most.
inline constexpr std::size_t most_candidates = 1000;
/// Traces beside those of single symbols after which more of them confirm nothing.
inline constexpr std::size_t many_sets = 8;

// --- what is known of the traces -------------------------------------------------------------------------------------

FXX_INLINE SizeFit::SizeFit(std::span<const SizeSymbol> symbols, std::vector<std::vector<std::int64_t>> sets,
                            std::span<const std::vector<std::int64_t>> refused)
    : symbols_(symbols), sets_(std::move(sets)), refused_(refused), expressions_(sets_.size()) {
  using Kind = SizeExpressions::Kind;
  for (std::size_t i = 0; i < symbols_.size(); ++i) {
    SizeValues values;
    for (const auto& set : sets_) values.push_back(set[i]);
    const SizeSymbol& s = symbols_[i];
    covered_.push_back(static_cast<std::int64_t>(count_distinct(values)) > (s.maximum - s.minimum) / s.multiple_of);
    leaves_.push_back(expressions_.leaf(Kind::symbol, static_cast<std::int64_t>(i), std::move(values)));
  }
  used_.resize(symbols_.size());
  const std::size_t n = leaves_.size();
  monomials_ = leaves_;
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = i; j < n; ++j) monomials_.push_back(expressions_.make(Kind::mul, leaves_[i], leaves_[j]));
  const std::size_t pairs = monomials_.size();
  for (std::size_t k = n, i = 0; i < n; ++i)
    for (std::size_t j = i; j < n; ++j, ++k)
      for (std::size_t l = j; l < n && k < pairs; ++l)
        monomials_.push_back(expressions_.make(Kind::mul, monomials_[k], leaves_[l]));
  std::erase(monomials_, none);
}

/// Was every allowed size of its symbols traced?
FXX_INLINE bool SizeFit::covered(int e) const {
  bool all = !expressions_.reads(e);
  expressions_.for_each_symbol(e, [&](std::size_t i) { all = all && covered_[i]; });
  return all;
}
/// Is there a value more than the unknowns that were solved for, so that it confirms them?
FXX_INLINE bool SizeFit::enough(int e, std::size_t unknowns) const {
  return count_distinct(expressions_.values(e)) > unknowns || covered(e);
}

FXX_INLINE bool SizeFit::enough_sets() const {
  return std::find(covered_.begin(), covered_.end(), false) == covered_.end() || sets_.size() >= leaves_.size() + 2;
}

/// Solves values = sum of factors * columns (+ a constant) in integers. The elimination only has to come close: what
/// counts is that the rounded factors give every value exactly.
FXX_INLINE std::optional<std::vector<std::int64_t>> solve_linear(std::span<const SizeValues* const> columns,
                                                                 const SizeValues& values, bool with_constant) {
  constexpr std::size_t most_rows = 64;  // that the elimination looks at; all are checked in the end
  const std::size_t rows = std::min(values.size(), most_rows), n = columns.size() + with_constant;
  if (n > rows) return std::nullopt;
  const auto entry = [&](std::size_t t, std::size_t c) { return c < columns.size() ? (*columns[c])[t] : 1; };
  std::array<long double, 128> few;
  std::vector<long double> many(rows * (n + 1) > few.size() ? rows * (n + 1) : 0);
  long double* const m = many.empty() ? few.data() : many.data();
  const auto at = [&](std::size_t t, std::size_t c) -> long double& { return m[t * (n + 1) + c]; };
  long double largest = 0;
  for (std::size_t t = 0; t < rows; ++t) {
    for (std::size_t c = 0; c < n; ++c) at(t, c) = static_cast<long double>(entry(t, c));
    at(t, n) = static_cast<long double>(values[t]);
  }
  std::array<std::size_t, most_rows> row_of;
  std::array<bool, most_rows> used{};
  for (std::size_t c = 0; c < n; ++c) {
    std::size_t best = rows;
    for (std::size_t t = 0; t < rows; ++t)
      if (!used[t] && (best == rows || std::fabs(at(t, c)) > std::fabs(at(best, c)))) best = t;
    largest = 0;
    for (std::size_t t = 0; t < rows; ++t)
      largest = std::max(largest, std::fabs(static_cast<long double>(entry(t, c))));
    if (best == rows || std::fabs(at(best, c)) <= largest * 1e-12L) return std::nullopt;  // dependent columns
    used[best] = true;
    row_of[c] = best;
    for (std::size_t t = 0; t < rows; ++t) {
      if (t == best) continue;
      const long double factor = at(t, c) / at(best, c);
      for (std::size_t k = c; k <= n; ++k) at(t, k) -= factor * at(best, k);
    }
  }
  std::vector<std::int64_t> factors(n);
  for (std::size_t c = 0; c < n; ++c) {
    const long double factor = at(row_of[c], n) / at(row_of[c], c), rounded = std::round(factor);
    if (!(std::fabs(rounded) < 4e18L) || std::fabs(factor - rounded) > 1e-3L * std::max(1.0L, std::fabs(factor)))
      return std::nullopt;
    factors[c] = static_cast<std::int64_t>(rounded);
  }
  for (std::size_t t = 0; t < values.size(); ++t) {
    WideInteger sum = 0;
    for (std::size_t c = 0; c < n; ++c) {
      const WideInteger product = static_cast<WideInteger>(factors[c]) * entry(t, c);
      // More than a hundred numbers of this size can be added.
      if (product > (static_cast<WideInteger>(1) << 120) || product < -(static_cast<WideInteger>(1) << 120))
        return std::nullopt;
      sum += product;
    }
    if (sum != values[t]) return std::nullopt;
  }
  return factors;
}

FXX_INLINE bool SizeFit::independent() const {
  // The values 1, 2, 3... only fill the place: a dependence shows in the elimination before they matter. Exact
  // independence is asked for by solving for each symbol in terms of the others.
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    std::vector<const SizeValues*> others;
    for (std::size_t j = 0; j < leaves_.size(); ++j)
      if (j != i) others.push_back(&expressions_.values(leaves_[j]));
    if (count_distinct(expressions_.values(leaves_[i])) < 2) return false;
    if (solve_linear(others, expressions_.values(leaves_[i]), true)) return false;
  }
  return true;
}

FXX_INLINE void SizeFit::add_read(int leaf, bool asked) {
  const SizeValues& values = expressions_.values(leaf);
  if (count_distinct(values) < 2) return;
  if (asked) asked_.push_back(leaf);
  for (int& atom : atoms_) {
    if (expressions_.values(atom) != values) continue;
    const bool replaces = expressions_.term(atom).kind == SizeExpressions::Kind::read &&
                          std::find(asked_.begin(), asked_.end(), atom) == asked_.end() &&
                          std::none_of(known_.begin(), known_.end(), [&](const auto& known) {
                            return expressions_.contains(known.second.expression, atom);
                          });
    if (replaces) atom = leaf;
    return;
  }
  if (sums_and_products(values) == none) atoms_.push_back(leaf);
}

// --- integers --------------------------------------------------------------------------------------------------------

FXX_INLINE SizeFit::Answer SizeFit::integer(const SizeValues& values, std::span<const int> operands) {
  if (const auto known = known_.find(values); known != known_.end()) return known->second;
  Answer answer;
  if (count_distinct(values) == 1) answer.expression = expressions_.constant(values[0]);
  if (answer.expression == none) answer.expression = sums_and_products(values);
  const bool over_symbols = answer.expression != none;
  if (!over_symbols) answer = over_reads_or_divided(values, operands);
  // Few traces fit much by chance: what no simple expression gives, or one of many, is looked for in many traces.
  if (answer.expression == none || !answer.ask.empty())
    if (Answer other = composed(values); other.expression != none) answer = std::move(other);
  const bool all_covered = std::find(covered_.begin(), covered_.end(), false) == covered_.end();
  // A number that changes at few sizes alone could be anything: more of these are traced, as long as there are any.
  if (!over_symbols && answer.expression != none && answer.ask.empty() && !all_covered &&
      sets_.size() >= fewest_for_composed + 2 * leaves_.size()) {
    std::int64_t usual = 0;
    const std::size_t count = count_unusual(values, usual);
    const bool reads = expressions_.reads(answer.expression);
    const std::size_t enough = reads || count_distinct(values) > 2 ? 3 : 6;
    if (count < enough && reads && sets_.size() >= many_traces) return {};
    if (count < enough && !reads) {
      auto other = unusual(answer.expression, usual);
      if (!other && count < 2) return {};
      if (other) answer.ask = std::move(*other);
    }
  }
  if (answer.expression == none) return answer;
  if (answer.ask.empty()) answer.ask = confirming(answer.expression);
  mark_used(answer.expression);
  known_.emplace(values, answer);
  if (!over_symbols && std::find(atoms_.begin(), atoms_.end(), answer.expression) == atoms_.end()) {
    atoms_.push_back(answer.expression);
    if (parts_.made()) add_whole_part(answer.expression);
  }
  return answer;
}

FXX_INLINE SizeFit::Answer SizeFit::over_reads_or_divided(const SizeValues& values, std::span<const int> operands) {
  const auto equal = [&](std::span<const int> leaves) {
    for (std::size_t i = leaves.size(); i-- > 0;)
      if (expressions_.values(leaves[i]) == values) return leaves[i];
    return none;
  };
  // What C++ computes comes from sizes that it asked for, as far as it is known which.
  std::vector<int> found;
  if (!asked_.empty()) {
    std::vector<int> asked;
    for (int atom : atoms_)
      if (expressions_.term(atom).kind != SizeExpressions::Kind::read ||
          std::find(asked_.begin(), asked_.end(), atom) != asked_.end())
        asked.push_back(atom);
    found.push_back(equal(asked));
    if (found.back() != none && count_distinct(values) > 2) return {found.back(), none, {}};
    add_over_atoms(values, asked, found);
    std::erase(found, none);
    for (int atom : asked) expressions_.describe(atom, probably(expressions_.values(atom)).expression);
    if (!found.empty()) return decide(std::move(found));
  }
  const std::size_t distinct = count_distinct(values);
  int same = equal(atoms_);
  if (same == none) same = equal(operands);
  if (same != none && distinct > 2) return {same, none, {}};
  // A number that is now 0 and now 1 is equal to much by chance, so all that fits competes.
  std::vector<int> atoms(operands.begin(), operands.end());
  found.push_back(same);
  for (int atom : atoms_)
    if (std::none_of(operands.begin(), operands.end(),
                     [&](int e) { return expressions_.values(e) == expressions_.values(atom); }))
      atoms.push_back(atom);
  add_over_atoms(values, atoms, found);
  std::erase(found, none);
  if (found.empty() || distinct <= 3) return divisions(values, atoms_, std::move(found));
  for (int atom : atoms) expressions_.describe(atom, probably(expressions_.values(atom)).expression);
  return decide(std::move(found));
}

FXX_INLINE int SizeFit::description(const SizeValues& values) {
  const Answer& answer = probably(values);
  return answer.ask.empty() ? answer.expression : none;
}
FXX_INLINE const SizeFit::Answer& SizeFit::probably(const SizeValues& values) {
  const auto [at, fresh] = described_.try_emplace(values);
  if (!fresh) return at->second;
  Answer answer{sums_and_products(values), none, {}};
  if (answer.expression == none) answer = divisions(values, {}, {});
  return at->second = answer;
}

/// values = factor * x + added.
FXX_INLINE bool SizeFit::affine(const SizeValues& x, const SizeValues& values, std::int64_t& factor,
                                std::int64_t& added) const {
  const auto [low, high] = std::minmax_element(x.begin(), x.end());
  const auto a = static_cast<std::size_t>(low - x.begin()), b = static_cast<std::size_t>(high - x.begin());
  const WideInteger dx = static_cast<WideInteger>(x[b]) - x[a], dv = static_cast<WideInteger>(values[b]) - values[a];
  if (dx == 0 || dv == 0 || dv % dx != 0) return false;
  const WideInteger f = dv / dx;
  if (f > INT64_MAX || f < -INT64_MAX) return false;
  const WideInteger d = values[a] - f * x[a];
  if (d > INT64_MAX || d < INT64_MIN) return false;
  for (std::size_t t = 0; t < x.size(); ++t)
    if (f * x[t] + d != values[t]) return false;
  factor = static_cast<std::int64_t>(f);
  added = static_cast<std::int64_t>(d);
  return true;
}
FXX_INLINE int SizeFit::affine_in(int e, const SizeValues& values, bool without_constant) {
  std::int64_t factor = 0, added = 0;
  if (!affine(expressions_.values(e), values, factor, added) || (without_constant && added != 0)) return none;
  if (!enough(e, (factor != 1) + (added != 0))) return none;
  return expressions_.affine(e, factor, added);
}

/// The same in a product, which is built only when it serves.
FXX_INLINE int SizeFit::affine_in_product(std::span<const int> factors, const SizeValues& values,
                                          bool without_constant) {
  SizeValues& product = scratch_;
  product = expressions_.values(factors[0]);
  for (int e : factors.subspan(1))
    for (std::size_t t = 0; t < product.size(); ++t)
      if (__builtin_mul_overflow(product[t], expressions_.values(e)[t], &product[t])) return none;
  std::int64_t factor = 0, added = 0;
  if (!affine(product, values, factor, added) || (without_constant && added != 0)) return none;
  bool all_covered = true;
  for (int e : factors) all_covered = all_covered && covered(e);
  if (!all_covered && count_distinct(product) <= static_cast<std::size_t>(factor != 1) + (added != 0)) return none;
  int e = factors[0];
  for (int other : factors.subspan(1)) e = expressions_.make(SizeExpressions::Kind::mul, e, other);
  return expressions_.affine(e, factor, added);
}

FXX_INLINE int SizeFit::solved(std::span<const int> terms, const SizeValues& values, bool with_constant) {
  std::vector<const SizeValues*> columns;
  for (int e : terms) columns.push_back(&expressions_.values(e));
  const std::size_t unknowns = terms.size() + with_constant;
  if (unknowns >= sets_.size() && std::find(covered_.begin(), covered_.end(), false) != covered_.end()) return none;
  auto factors = solve_linear(columns, values, with_constant);
  if (!factors) return none;
  std::int64_t added = 0;
  if (with_constant) {
    added = factors->back();
    factors->pop_back();
  }
  return expressions_.sum(terms, *factors, added);
}

/// n, 2*n + 1, n*m*3, n*m + n + 1, n + m - 4.
FXX_INLINE int SizeFit::sums_and_products(const SizeValues& values) {
  for (int e : leaves_)
    if (expressions_.values(e) == values) return e;
  for (int e : leaves_)
    if (const int found = affine_in(e, values, false); found != none) return found;
  for (const bool without_constant : {true, false})
    for (int e : monomials_)
      if (const int found = affine_in(e, values, without_constant); found != none) return found;
  const std::size_t n = monomials_.size(), pairs = std::min(n, leaves_.size() * (leaves_.size() + 3) / 2);
  for (const bool with_constant : {false, true}) {
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = i + 1; j < n; ++j)
        if (const int e = solved(std::array{monomials_[i], monomials_[j]}, values, with_constant); e != none) return e;
    if (!with_constant)
      if (const int e = shifted_products(values); e != none) return e;
  }
  for (const bool with_constant : {false, true})
    for (std::size_t i = 0; i < pairs; ++i)
      for (std::size_t j = i + 1; j < pairs; ++j)
        for (std::size_t k = j + 1; k < pairs; ++k)
          if (const int e = solved(std::array{monomials_[i], monomials_[j], monomials_[k]}, values, with_constant);
              e != none)
            return e;
  return leaves_.size() > 2 ? solved(leaves_, values, true) : none;
}

/// 3*(n + 1)*(m - 2), k*(n + 1)*(m + 1): what padding does to an area.
FXX_INLINE int SizeFit::shifted_products(const SizeValues& values) {
  using Kind = SizeExpressions::Kind;
  constexpr std::int64_t most = 16;
  const std::size_t traces = values.size(), n = leaves_.size();
  const auto value = [&](std::size_t i, std::size_t t) { return expressions_.values(leaves_[i])[t]; };
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = i; j < n; ++j)
      for (std::size_t k = 0; k <= n; ++k) {  // n: no third factor
        if (k < n && (k == i || k == j)) continue;
        for (std::int64_t a = -most; a <= most; ++a)
          for (std::int64_t b = i == j ? a : -most; b <= most; ++b) {
            WideInteger factor = 0;
            bool fits = true;
            for (std::size_t t = 0; t < traces && fits; ++t) {
              WideInteger product = static_cast<WideInteger>(value(i, t) + a) * (value(j, t) + b);
              if (k < n) product *= value(k, t);
              if (t == 0) {
                if (product == 0 || values[t] % product != 0) fits = false;
                else factor = values[t] / product;
              }
              fits = fits && factor != 0 && product * factor == values[t];
            }
            if (!fits || (k == n && i == j && traces < 4)) continue;
            int e = expressions_.make(Kind::mul, expressions_.plus(leaves_[i], a), expressions_.plus(leaves_[j], b));
            if (k < n) e = expressions_.make(Kind::mul, e, leaves_[k]);
            return expressions_.scaled(e, static_cast<std::int64_t>(factor));
          }
      }
  return none;
}

/// 2*r + 1, n*r, r*q*3 + 1, n*r*q, r + q for sizes r, q that are read, or were found to be divisions: all of the
/// simplest of these kinds that fit.
FXX_INLINE void SizeFit::add_over_atoms(const SizeValues& values, std::span<const int> all, std::vector<int>& found) {
  if (all.empty()) return;
  // The latest ones: what code computes with it asked for not long ago.
  constexpr std::size_t most = 24;
  const std::vector<int> atoms(all.end() - static_cast<std::ptrdiff_t>(std::min(most, all.size())), all.end());
  std::vector<int> partners = atoms;
  partners.insert(partners.end(), leaves_.begin(), leaves_.end());
  const auto done = [&, before = found.size()] {
    std::erase(found, none);
    return found.size() > before;
  };
  for (int a : all) found.push_back(affine_in(a, values, false));
  if (done()) return;
  for (const bool without_constant : {true, false}) {
    for (std::size_t i = 0; i < atoms.size(); ++i)
      for (std::size_t j = i; j < partners.size(); ++j)
        found.push_back(affine_in_product(std::array{partners[j], atoms[i]}, values, without_constant));
    if (done()) return;
  }
  for (const bool with_constant : {false, true}) {
    for (std::size_t i = 0; i < atoms.size(); ++i)
      for (std::size_t j = i + 1; j < partners.size(); ++j)
        found.push_back(solved(std::array{atoms[i], partners[j]}, values, with_constant));
    if (done()) return;
  }
  for (std::size_t i = 0; i < atoms.size(); ++i)
    for (std::size_t j = i; j < partners.size(); ++j)
      for (std::size_t k = j; k < partners.size(); ++k)
        found.push_back(affine_in_product(std::array{partners[k], partners[j], atoms[i]}, values, true));
  std::erase(found, none);
}

// --- telling expressions apart ---------------------------------------------------------------------------------------

/// Sets of allowed sizes around the first one, nearest first, in the symbols that the candidates use: one symbol
/// changed, or all of them.
FXX_INLINE std::vector<std::vector<std::int64_t>> SizeFit::trial_sets(std::span<const int> candidates,
                                                                      bool all_at_once) const {
  constexpr std::int64_t upwards = 384, downwards = 128;
  std::vector<bool> uses(symbols_.size());
  for (int e : candidates) {
    if (expressions_.reads(e)) uses.assign(uses.size(), true);
    expressions_.for_each_symbol(e, [&](std::size_t i) { uses[i] = true; });
  }
  std::vector<std::vector<std::int64_t>> trials;
  const std::vector<std::int64_t>& base = sets_[0];
  const auto shifted = [&](std::size_t i, std::int64_t steps) {
    const std::int64_t size = base[i] + steps * symbols_[i].multiple_of;
    return symbols_[i].allows(size) && size > 1 ? size : base[i];
  };
  for (std::int64_t k = 1; k <= upwards + downwards; ++k) {
    std::vector<std::int64_t> trial = base;
    for (std::size_t i = 0; i < symbols_.size(); ++i) {
      if (!uses[i]) continue;
      trial[i] = shifted(i, k <= upwards ? k : upwards - k);
      if (all_at_once) continue;
      if (trial != base) trials.push_back(trial);
      trial[i] = base[i];
    }
    if (all_at_once && trial != base) trials.push_back(std::move(trial));
  }
  return trials;
}

/// How many numbers of its own an expression has. k - 1 in (n + k - 1) // k is none.
FXX_INLINE void SizeFit::collect_constants(int e, std::vector<std::int64_t>& found) const {
  using Kind = SizeExpressions::Kind;
  const SizeExpressions::Term& t = expressions_.term(e);
  if (t.kind == Kind::constant && std::find(found.begin(), found.end(), t.value) == found.end())
    found.push_back(t.value);
  if (t.kind == Kind::floordiv) {
    const SizeExpressions::Term& n = expressions_.term(t.a);
    if (n.kind == Kind::add && expressions_.term(n.b).kind == Kind::constant &&
        expressions_.term(n.b).value == expressions_.term(t.b).value - 1) {
      collect_constants(n.a, found);
      return collect_constants(t.b, found);
    }
  }
  if (t.a != none) collect_constants(t.a, found);
  if (t.b != none) collect_constants(t.b, found);
}

/// An expression with many numbers of its own fits few values easily: there have to be two more than those, or sizes
/// are named that give another value.
FXX_INLINE std::vector<std::int64_t> SizeFit::confirming(int e) const {
  std::vector<std::int64_t> constants;
  std::vector<int> leaves;
  bool divides = false;
  const auto look = [&](int of, auto&& self) -> void {
    using Kind = SizeExpressions::Kind;
    const SizeExpressions::Term& t = expressions_.term(of);
    divides = divides || (t.kind > Kind::mul && t.kind != Kind::neg);
    if (t.kind == Kind::symbol || t.kind == Kind::read) leaves.push_back(of);
    for (const int operand : {t.a, t.b})
      if (operand != none) self(operand, self);
  };
  look(e, look);
  collect_constants(e, constants);
  // Sums and products take another value, at other sizes, but for chance; divisions need not.
  const SizeValues& values = expressions_.values(e);
  std::vector<std::vector<std::int64_t>> different;
  for (std::size_t t = 0; t < sets_.size(); ++t) {
    std::vector<std::int64_t>& one = different.emplace_back();
    if (divides) one.push_back(values[t]);
    else
      for (int leaf : leaves) one.push_back(expressions_.values(leaf)[t]);
  }
  std::sort(different.begin(), different.end());
  different.erase(std::unique(different.begin(), different.end()), different.end());
  if (constants.empty() || different.size() >= constants.size() + 2 || covered(e) ||
      sets_.size() >= leaves_.size() + many_sets)
    return {};
  for (const bool all_at_once : {false, true})
    for (const auto& trial : trial_sets({&e, 1}, all_at_once)) {
      const auto value = expressions_.evaluate(e, trial);
      if (std::find(sets_.begin(), sets_.end(), trial) == sets_.end() &&
          (!value || std::find(values.begin(), values.end(), *value) == values.end()))
        return trial;
    }
  return {};
}

FXX_INLINE SizeFit::Answer SizeFit::decide(std::vector<int> candidates) const {
  std::erase(candidates, none);
  std::vector<int> seen;
  std::erase_if(candidates, [&](int e) {
    const auto at = std::lower_bound(seen.begin(), seen.end(), e);
    if (at != seen.end() && *at == e) return true;
    seen.insert(at, e);
    return false;
  });
  if (candidates.empty()) return {};
  if (candidates.size() > most_candidates) candidates.resize(most_candidates);
  Answer answer{candidates[0], none, {}};
  if (candidates.size() == 1) return answer;
  // A good question leaves few candidates whatever its answer is; the nearest one that halves them will do.
  std::size_t fewest = candidates.size();
  std::vector<std::optional<std::int64_t>> results;
  int unknown = none;
  for (const bool all_at_once : {false, true}) {
    for (const auto& trial : trial_sets(candidates, all_at_once)) {
      results.clear();
      for (int e : candidates) results.push_back(expressions_.evaluate(e, trial));
      std::size_t rival = 1;
      for (; rival < results.size(); ++rival) {
        if (results[rival] && results[0] && results[rival] != results[0]) break;
        if (unknown == none && (!results[rival] || !results[0])) unknown = candidates[rival];
      }
      if (rival == results.size()) continue;
      if (answer.rival == none) answer.rival = candidates[rival];
      std::sort(results.begin(), results.end());
      std::size_t largest = 0;
      for (std::size_t i = 0, run = 0; i < results.size(); ++i) {
        run = i && results[i] == results[i - 1] ? run + 1 : 1;
        largest = std::max(largest, run);
      }
      if (largest < fewest) {
        fewest = largest;
        answer.ask = trial;
      }
      if (fewest <= (candidates.size() + 1) / 2) break;
    }
    if (!answer.ask.empty()) return answer;
  }
  // Of a size that is read it may not be known what it is elsewhere; any other trace may tell.
  if (unknown != none && sets_.size() < leaves_.size() + many_sets)
    for (const auto& trial : trial_sets(candidates, false))
      if (std::find(sets_.begin(), sets_.end(), trial) == sets_.end()) return {candidates[0], unknown, trial};
  return answer;
}

// --- reals -----------------------------------------------------------------------------------------------------------

FXX_INLINE double SizeFit::value_of(const SizeReal& real, std::size_t trace) const {
  double x = static_cast<double>(expressions_.values(real.e)[trace]);
  if (real.over != none) x /= static_cast<double>(expressions_.values(real.over)[trace]);
  if (real.root) x = std::sqrt(x);
  switch (real.use) {
    case SizeReal::Factor::none: break;
    case SizeReal::Factor::times: x *= real.factor; break;
    case SizeReal::Factor::divided_by: x /= real.factor; break;
    case SizeReal::Factor::divides: x = real.factor / x; break;
  }
  return real.added == 0 ? x : x + real.added;
}

/// The number with this many digits: people write 0.1, not 0.10000000000000002.
FXX_INLINE double rounded_to_digits(double value, int digits) {
  char text[64];
  const auto end = std::to_chars(text, text + sizeof text, value, std::chars_format::scientific, digits - 1).ptr;
  double rounded = value;
  std::from_chars(text, end, rounded);
  return rounded;
}

FXX_INLINE std::optional<SizeReal> SizeFit::real(std::span<const double> values, std::span<const int> operands) {
  const std::optional<SizeReal> found = find_real(values, operands);
  if (found) mark_used(found->e), mark_used(found->over);
  return found;
}
FXX_INLINE std::optional<SizeReal> SizeFit::find_real(std::span<const double> values, std::span<const int> operands) {
  using Factor = SizeReal::Factor;
  bool single = true, positive = true;  // computed in single precision?
  for (double v : values) {
    if (!std::isfinite(v) || std::fabs(v) > 1e30 || (v != 0 && std::fabs(v) < 1e-30)) return std::nullopt;
    single = single && static_cast<double>(static_cast<float>(v)) == v;
    positive = positive && v > 0;
  }
  const double tolerance = single ? 1e-6 : 1e-13;
  std::optional<SizeReal> close;
  // True for an exact fit; the first that is exact up to rounding is kept for when there is none.
  const auto fits = [&](const SizeReal& candidate) {
    if (candidate.e == none) return false;
    bool exact = true, near = true;
    for (std::size_t t = 0; t < values.size() && near; ++t) {
      const double x = value_of(candidate, t);
      exact = exact && x == values[t];
      near = std::fabs(x - values[t]) <= tolerance * std::fabs(values[t]);
    }
    if (near && !close) close = candidate;
    return near && exact;
  };
  // The expression for whole numbers f(0), f(1) ...; none when they are not whole.
  const auto whole = [&](auto&& f, bool thorough) -> int {
    SizeValues rounded;
    for (std::size_t t = 0; t < values.size(); ++t) {
      const double x = f(t), r = std::round(x);
      if (!(std::fabs(r) < 1e15) || std::fabs(x - r) > std::min(0.1, tolerance * 4 * std::fabs(r))) return none;
      rounded.push_back(static_cast<std::int64_t>(r));
    }
    if (!thorough) return count_distinct(rounded) > 1 ? sums_and_products(rounded) : none;
    const Answer answer = integer(rounded, operands);
    return answer.ask.empty() ? answer.expression : none;
  };

  for (int k = 1; k <= 16; ++k) {
    const double factor = k, square = factor * factor;
    const Factor divided = k == 1 ? Factor::none : Factor::divided_by;
    SizeReal r{.e = whole([&](auto t) { return values[t] * factor; }, k == 1), .use = divided, .factor = factor};
    if (fits(r)) return r;
    if (!positive) continue;
    r = {.e = whole([&](auto t) { return factor / values[t]; }, k == 1), .use = Factor::divides, .factor = factor};
    if (fits(r)) return r;
    r = {.e = whole([&](auto t) { return values[t] * values[t] * square; }, k == 1),
         .root = true,
         .use = divided,
         .factor = factor};
    if (fits(r)) return r;
    r = {.e = whole([&](auto t) { return square / (values[t] * values[t]); }, k == 1),
         .root = true,
         .use = Factor::divides,
         .factor = factor};
    if (fits(r)) return r;
  }

  std::vector<int> bases = leaves_;
  bases.insert(bases.end(), atoms_.begin(), atoms_.end());
  bases.insert(bases.end(), operands.begin(), operands.end());
  for (int over : bases) {
    const SizeValues n = expressions_.values(over);
    if (std::find(n.begin(), n.end(), 0) != n.end()) continue;
    if (const SizeReal r{.e = whole([&](auto t) { return values[t] * static_cast<double>(n[t]); }, false),
                         .over = over};
        fits(r))
      return r;
  }
  bases.insert(bases.end(), monomials_.begin() + static_cast<std::ptrdiff_t>(leaves_.size()), monomials_.end());
  for (int e : bases)
    for (const bool root : {false, true})
      for (const bool inverse : {false, true}) {
        const double n = static_cast<double>(expressions_.values(e)[0]);
        if (n <= 0) continue;
        const double x = root ? std::sqrt(n) : n, factor = inverse ? values[0] * x : values[0] / x;
        for (const int digits : {7, 15, 17}) {
          const SizeReal r{.e = e,
                           .root = root,
                           .use = inverse ? Factor::divides : Factor::times,
                           .factor = rounded_to_digits(factor, digits)};
          if (fits(r)) return r;
          const SizeReal divided{
              .e = e, .root = root, .use = Factor::divided_by, .factor = rounded_to_digits(1 / factor, digits)};
          if (!inverse && fits(divided)) return divided;
        }
      }
  for (int e : leaves_) {
    const SizeValues& n = expressions_.values(e);
    const auto [low, high] = std::minmax_element(n.begin(), n.end());
    if (*low == *high || !enough(e, 2)) continue;
    const double factor =
        (values[static_cast<std::size_t>(high - n.begin())] - values[static_cast<std::size_t>(low - n.begin())]) /
        static_cast<double>(*high - *low);
    for (const int digits : {7, 15, 17}) {
      const double f = rounded_to_digits(factor, digits);
      const double added = values[static_cast<std::size_t>(low - n.begin())] - f * static_cast<double>(*low);
      if (factor == 0) continue;
      if (const SizeReal r{.e = e, .use = Factor::times, .factor = f, .added = rounded_to_digits(added, digits)};
          fits(r))
        return r;
    }
  }
  return close;
}

}  // namespace fxx::inline FXX_ABI::detail
