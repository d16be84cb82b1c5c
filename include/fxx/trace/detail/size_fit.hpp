// Finds the expression over dynamic sizes that a number follows, from its values in several traces.
//
// Kinds of expressions are tried from the simple to the involved; the first kind that has one decides. Sums and
// products of sizes are solved for, so there is one at most. Divisions are enumerated, and where several fit, sizes are
// named that would tell them apart.
// Main names: SizeFit. Cost: light; a kind costs microseconds to a few milliseconds, and every number is looked for
// once.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "fxx/trace/detail/size_expressions.hpp"

namespace fxx::inline FXX_ABI::detail {

/// Sums and products of int64 without overflow.
__extension__ typedef __int128 WideInteger;

/// A dynamic size: what the dimensions of one name have in common.
struct SizeSymbol {
  std::string name;
  std::int64_t minimum, maximum, multiple_of;
  std::size_t input;  // the first dimension that has it
  std::int64_t dim;

  bool allows(std::int64_t size) const { return size >= minimum && size <= maximum && size % multiple_of == 0; }
};

/// A real number made of sizes: root(e / over) * factor + added, with what is not needed left out.
struct SizeReal {
  int e = SizeExpressions::none, over = SizeExpressions::none;
  bool root = false;
  enum class Factor : std::uint8_t { none, times, divided_by, divides } use = Factor::none;  // divides: factor / ...
  double factor = 1, added = 0;
};

class SizeFit {
 public:
  static constexpr int none = SizeExpressions::none;

  struct Answer {
    int expression = none;
    int rival = none;               // another one that fits as well; `none` when there is none
    std::vector<std::int64_t> ask;  // sizes that would tell; empty when there is no doubt
  };

  /// `sets`: the sizes of each trace.
  SizeFit(std::span<const SizeSymbol> symbols, std::vector<std::vector<std::int64_t>> sets);

  SizeExpressions& expressions() { return expressions_; }
  /// The size of an intermediate tensor: from now on numbers may follow from it. Of several that are equal, one that
  /// the code asked for serves before the others, and the last of those: what comes before it may be fused away.
  void add_read(int leaf, bool asked);
  /// The expression for a number. `operands`: sizes of the tensors that it is used with, which may be read as well.
  Answer integer(const SizeValues& values, std::span<const int> operands);
  /// An expression over sizes of inputs, for a size that is only described; `none` unless there is exactly one.
  int description(const SizeValues& values);
  std::optional<SizeReal> real(std::span<const double> values, std::span<const int> operands);

  /// Do the sets tell all symbols apart, and are there enough of them?
  bool independent() const;
  bool enough_sets() const;

  /// Sizes that test what a few traces gave: large, odd, prime, a multiple of much; each symbol is the largest once.
  std::vector<std::vector<std::int64_t>> held_back() const;
  /// Sizes for numbers that no simple expression gives: each symbol alone and all together, small and large.
  std::vector<std::vector<std::int64_t>> survey() const;
  /// Adds, for each symbol, the sizes below, at and above those where the expression changes its piece.
  void add_breaks(int e, std::vector<std::vector<std::int64_t>>& points) const;
  /// Every answer that was given so far.
  template <class F>
  void for_each_answer(F&& f) const {
    for (const auto& [values, answer] : known_)
      if (answer.expression != none) f(answer.expression);
  }

 private:
  bool covered(int e) const;
  bool enough(int e, std::size_t unknowns) const;
  bool affine(const SizeValues& x, const SizeValues& values, std::int64_t& factor, std::int64_t& added) const;
  int affine_in(int e, const SizeValues& values, bool without_constant);
  int affine_in_product(std::span<const int> factors, const SizeValues& values, bool without_constant);
  int solved(std::span<const int> terms, const SizeValues& values, bool with_constant);

  int sums_and_products(const SizeValues& values);
  int shifted_products(const SizeValues& values);
  const Answer& probably(const SizeValues& values);
  Answer over_reads_or_divided(const SizeValues& values, std::span<const int> operands);
  void add_over_atoms(const SizeValues& values, std::span<const int> atoms, std::vector<int>& found);
  Answer divisions(const SizeValues& values, std::span<const int> atoms, std::vector<int> found);

  bool informative(const SizeValues& values) const;
  int composed(const SizeValues& values);
  void make_parts();
  int truncated(int numerator, std::int64_t divisor, bool remainder);
  int truncated_quotient(int base, const SizeValues& values);
  int truncated_remainder(int base, std::int64_t factor, const SizeValues& values);
  bool affine_where(const SizeValues& x, const SizeValues& values, const std::vector<bool>& taken,
                    std::int64_t& factor, std::int64_t& added) const;
  int bounded(int of, const SizeValues& values);
  int divided_part(int part, const SizeValues& values);
  int joined_parts(const SizeValues& values);
  int extreme_parts(const SizeValues& values);
  int over_parts(const SizeValues& values);
  std::int64_t allowed_near(std::size_t i, std::int64_t size) const;

  void add_floors(int numerator, const SizeValues& values, std::int64_t factor, std::vector<int>& found);
  void add_remainders(int numerator, const SizeValues& values, std::vector<int>& found);
  Answer add_extremes(const SizeValues& values, std::vector<int>& found);
  void make_floors();
  void add_floor_products(const SizeValues& values, std::int64_t added, std::vector<int>& found);
  void collect_constants(int e, std::vector<std::int64_t>& found) const;
  std::vector<std::int64_t> confirming(int e) const;
  Answer decide(std::vector<int> candidates) const;
  std::vector<std::vector<std::int64_t>> trial_sets(std::span<const int> candidates, bool all_at_once) const;
  double value_of(const SizeReal& real, std::size_t trace) const;

  std::span<const SizeSymbol> symbols_;
  std::vector<std::vector<std::int64_t>> sets_;
  SizeExpressions expressions_;
  std::vector<bool> covered_;   // symbols of which every allowed size was traced
  std::vector<int> leaves_;     // of the symbols
  std::vector<int> monomials_;  // products of up to three symbols
  std::vector<int> floors_;     // n // k and (n + k - 1) // k
  std::vector<int> parts_;      // one operator with one constant, each value once
  std::map<SizeValues, int> part_of_;
  std::vector<int> atoms_;      // sizes that are read, and expressions found that are no sums of products
  std::vector<int> asked_;
  SizeValues scratch_;
  std::map<SizeValues, Answer> known_;
  std::map<SizeValues, Answer> described_;
};

}  // namespace fxx::inline FXX_ABI::detail

#if defined(FXX_HEADER_ONLY)
#include "fxx/trace/detail/size_fit.ipp"
#endif
