// Bodies of trace/detail/size_expressions.hpp.
#pragma once

#include <algorithm>

#include "fxx/trace/detail/size_expressions.hpp"

namespace fxx::inline FXX_ABI::detail {

FXX_INLINE std::size_t count_distinct(SizeValues values) {
  std::sort(values.begin(), values.end());
  return static_cast<std::size_t>(std::unique(values.begin(), values.end()) - values.begin());
}

FXX_INLINE std::optional<std::int64_t> SizeExpressions::apply(Kind kind, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  switch (kind) {
    case Kind::add: return __builtin_add_overflow(a, b, &result) ? std::nullopt : std::optional(result);
    case Kind::sub: return __builtin_sub_overflow(a, b, &result) ? std::nullopt : std::optional(result);
    case Kind::mul: return __builtin_mul_overflow(a, b, &result) ? std::nullopt : std::optional(result);
    case Kind::neg: return __builtin_sub_overflow(std::int64_t{0}, a, &result) ? std::nullopt : std::optional(result);
    case Kind::floordiv: return a < 0 || b <= 0 ? std::nullopt : std::optional(a / b);
    case Kind::mod: return a < 0 || b <= 0 ? std::nullopt : std::optional(a % b);
    case Kind::minimum: return std::min(a, b);
    case Kind::maximum: return std::max(a, b);
    default: return std::nullopt;
  }
}

FXX_INLINE int SizeExpressions::keep(Term term, SizeValues values) {
  const auto [at, fresh] = known_.try_emplace({term.kind, term.a, term.b, term.value}, static_cast<int>(terms_.size()));
  if (fresh) {
    terms_.push_back(term);
    values_.push_back(std::move(values));
  }
  return at->second;
}
FXX_INLINE int SizeExpressions::constant(std::int64_t value) {
  return keep({.kind = Kind::constant, .value = value}, SizeValues(traces_, value));
}
FXX_INLINE int SizeExpressions::leaf(Kind kind, std::int64_t which, SizeValues values) {
  return keep({.kind = kind, .value = which}, std::move(values));
}
FXX_INLINE int SizeExpressions::make(Kind kind, int a, int b) {
  if (a == none || (b == none && kind != Kind::neg)) return none;
  if (const auto known = known_.find({kind, a, b, 0}); known != known_.end()) return known->second;
  if (kind == Kind::add || kind == Kind::mul || kind == Kind::minimum || kind == Kind::maximum)
    if (const auto known = known_.find({kind, b, a, 0}); known != known_.end()) return known->second;
  SizeValues values(traces_);
  for (std::size_t t = 0; t < traces_; ++t) {
    const auto value = apply(kind, this->values(a)[t], b == none ? 0 : this->values(b)[t]);
    if (!value) return none;
    values[t] = *value;
  }
  return keep({.kind = kind, .a = a, .b = b}, std::move(values));
}

FXX_INLINE int SizeExpressions::scaled(int e, std::int64_t factor) {
  if (factor == 1 || e == none) return e;
  return factor == -1 ? make(Kind::neg, e) : make(Kind::mul, e, constant(factor));
}
FXX_INLINE int SizeExpressions::negated(int e) {
  if (e == none) return none;
  const Term t = term(e);
  if (t.kind == Kind::sub) return make(Kind::sub, t.b, t.a);
  if (t.kind == Kind::neg) return t.a;
  return make(Kind::neg, e);
}
FXX_INLINE int SizeExpressions::plus(int e, std::int64_t added) {
  if (added == 0 || e == none) return e;
  if (added > 0 || added == INT64_MIN) return make(Kind::add, e, constant(added));
  return make(Kind::sub, e, constant(-added));
}
FXX_INLINE int SizeExpressions::affine(int e, std::int64_t factor, std::int64_t added) {
  return sum({&e, 1}, {&factor, 1}, added);
}
FXX_INLINE int SizeExpressions::sum(std::span<const int> terms, std::span<const std::int64_t> factors,
                                    std::int64_t added) {
  // What is positive comes first, so that most sums need no negation: 3*a + 1 - b.
  int result = none;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    if (factors[i] <= 0) continue;
    const int term = scaled(terms[i], factors[i]);
    if (term == none) return none;
    result = result == none ? term : make(Kind::add, result, term);
    if (result == none) return none;
  }
  const bool added_first = result == none && added > 0;
  if (added_first) result = constant(added);
  for (std::size_t i = 0; i < terms.size(); ++i) {
    if (factors[i] >= 0) continue;
    if (result == none) result = scaled(terms[i], factors[i]);
    else if (factors[i] != INT64_MIN) result = make(Kind::sub, result, scaled(terms[i], -factors[i]));
    else return none;
    if (result == none) return none;
  }
  return added_first ? result : plus(result, added);
}
FXX_INLINE int SizeExpressions::floor_divided(int e, std::int64_t added, std::int64_t divisor) {
  const std::int64_t rest = (added % divisor + divisor) % divisor;
  return plus(make(Kind::floordiv, plus(e, rest), constant(divisor)), (added - rest) / divisor);
}

FXX_INLINE std::optional<std::int64_t> SizeExpressions::evaluate(int e, std::span<const std::int64_t> sizes) const {
  const Term& t = term(e);
  if (t.kind == Kind::constant) return t.value;
  if (t.kind == Kind::symbol) return sizes[static_cast<std::size_t>(t.value)];
  if (t.kind == Kind::read) {
    const auto known = meanings_.find(e);
    return known == meanings_.end() || known->second == none ? std::nullopt : evaluate(known->second, sizes);
  }
  const auto a = evaluate(t.a, sizes);
  const auto b = t.b == none ? std::optional<std::int64_t>(0) : evaluate(t.b, sizes);
  return a && b ? apply(t.kind, *a, *b) : std::nullopt;
}

FXX_INLINE bool SizeExpressions::reads(int e) const {
  const Term& t = term(e);
  return t.kind == Kind::read || (t.a != none && reads(t.a)) || (t.b != none && reads(t.b));
}

FXX_INLINE std::size_t SizeExpressions::length(int e) const {
  const Term& t = term(e);
  return 1 + (t.a != none ? length(t.a) : 0) + (t.b != none ? length(t.b) : 0);
}

FXX_INLINE bool SizeExpressions::contains(int e, int part) const {
  const Term& t = term(e);
  return e == part || (t.a != none && contains(t.a, part)) || (t.b != none && contains(t.b, part));
}

FXX_INLINE std::string SizeExpressions::text(int e, std::span<const std::string> symbols,
                                             std::span<const std::string> reads) const {
  return text(e, symbols, reads, 0);
}
FXX_INLINE std::string SizeExpressions::text(int e, std::span<const std::string> symbols,
                                             std::span<const std::string> reads, int least) const {
  constexpr int sum = 1, product = 2, unary = 3;
  const Term& t = term(e);
  const auto operand = [&](int of, int at_least) { return text(of, symbols, reads, at_least); };
  const auto joined = [&](const char* symbol, int strength, int left, int right) {
    const std::string all = operand(left, strength) + symbol + operand(right, strength + 1);
    return strength < least ? "(" + all + ")" : all;
  };
  switch (t.kind) {
    case Kind::constant:
      return t.value < 0 && least > 0 ? "(" + std::to_string(t.value) + ")" : std::to_string(t.value);
    case Kind::symbol: return symbols[static_cast<std::size_t>(t.value)];
    case Kind::read: return reads[static_cast<std::size_t>(t.value)];
    case Kind::add: return joined(" + ", sum, t.a, t.b);
    case Kind::sub: return joined(" - ", sum, t.a, t.b);
    case Kind::mul: {
      // A number stands in front, as people write it.
      const bool swapped = term(t.b).kind == Kind::constant;
      const int left = swapped ? t.b : t.a, right = swapped ? t.a : t.b;
      const auto factor = [&](int of) { return operand(of, term(of).kind == Kind::mul ? product : unary); };
      const std::string all = factor(left) + "*" + factor(right);
      return least > product ? "(" + all + ")" : all;
    }
    case Kind::floordiv: return joined("//", product, t.a, t.b);
    case Kind::mod: return joined(" % ", product, t.a, t.b);
    case Kind::neg: {
      const std::string all = "-" + operand(t.a, unary);
      return least > 0 ? "(" + all + ")" : all;
    }
    case Kind::minimum: return "min(" + operand(t.a, 0) + ", " + operand(t.b, 0) + ")";
    case Kind::maximum: return "max(" + operand(t.a, 0) + ", " + operand(t.b, 0) + ")";
  }
  return {};
}

}  // namespace fxx::inline FXX_ABI::detail
