// Integer expressions over dynamic sizes, each kept once, with what they are in every trace.
//
// Main names: SizeExpressions. Building, looking up: O(log) of how many there are. Cost: light.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "fxx/config.hpp"

namespace fxx::inline FXX_ABI::detail {

/// One number, as it is in each of the traces.
using SizeValues = std::vector<std::int64_t>;
/// How many different ones there are.
std::size_t count_distinct(SizeValues values);

class SizeExpressions {
 public:
  enum class Kind : std::uint8_t { constant, symbol, read, add, sub, mul, floordiv, mod, minimum, maximum, neg };
  struct Term {
    Kind kind;
    int a = none, b = none;  // operands
    std::int64_t value = 0;  // of a constant; which symbol or read
  };
  static constexpr int none = -1;

  explicit SizeExpressions(std::size_t traces) : traces_(traces) {}

  int constant(std::int64_t value);
  /// A dynamic size, or one that is read from a tensor when the graph runs.
  int leaf(Kind kind, std::int64_t which, SizeValues values);
  /// `none` when an operand is, or when the value does not exist in some trace: it is too large, or divides what may be
  /// negative, which C++ and Python round differently.
  int make(Kind kind, int a, int b = none);
  /// factor * e, e + added, and both, without what does nothing.
  int scaled(int e, std::int64_t factor);
  /// -e; of a - b it is b - a.
  int negated(int e);
  int plus(int e, std::int64_t added);
  int affine(int e, std::int64_t factor, std::int64_t added);
  /// The sum of factors[i] * terms[i], and `added`.
  int sum(std::span<const int> terms, std::span<const std::int64_t> factors, std::int64_t added);
  /// (e + added) // divisor; nothing negative is divided.
  int floor_divided(int e, std::int64_t added, std::int64_t divisor);

  const Term& term(int e) const { return terms_[static_cast<std::size_t>(e)]; }
  const SizeValues& values(int e) const { return values_[static_cast<std::size_t>(e)]; }
  /// What the size that `read` reads probably is, so that it can be told at other sizes.
  void describe(int read, int meaning) { meanings_[read] = meaning; }
  /// At other sizes; nothing where it does not exist, or is read from a tensor and not described.
  std::optional<std::int64_t> evaluate(int e, std::span<const std::int64_t> sizes) const;
  /// Calls f(which) for every symbol in `e`; repeats included.
  template <class F>
  void for_each_symbol(int e, F&& f) const {
    const Term& t = term(e);
    if (t.kind == Kind::symbol) f(static_cast<std::size_t>(t.value));
    if (t.a != none) for_each_symbol(t.a, f);
    if (t.b != none) for_each_symbol(t.b, f);
  }
  bool reads(int e) const;
  /// How many operands there are in it.
  std::size_t length(int e) const;
  /// Is `part` in it?
  bool contains(int e, int part) const;
  /// "2*batch + 1", as Python writes it. `names` of symbols and of reads.
  std::string text(int e, std::span<const std::string> symbols, std::span<const std::string> reads) const;

 private:
  static std::optional<std::int64_t> apply(Kind kind, std::int64_t a, std::int64_t b);
  std::string text(int e, std::span<const std::string> symbols, std::span<const std::string> reads, int least) const;
  int keep(Term term, SizeValues values);

  std::size_t traces_;
  std::vector<Term> terms_;
  std::deque<SizeValues> values_;  // which stay where they are
  std::map<int, int> meanings_;    // of reads
  std::map<std::tuple<Kind, int, int, std::int64_t>, int> known_;
};

}  // namespace fxx::inline FXX_ABI::detail

#if defined(FXX_HEADER_ONLY)
#include "fxx/trace/detail/size_expressions.ipp"
#endif
