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

/// One operator with one constant, applied to a size: its values in every trace, for every constant that counts. What
/// the traces do not tell apart is kept once.
class SizeParts {
 public:
  struct Part {
    enum class Form : std::uint8_t {
      whole,  // the expression itself
      quotient,
      ceiling,
      remainder,
      minimum,
      maximum,
      missing,  // to a multiple
      below,    // the multiple below, and the one above
      above,
      over,  // the constant over the size
      modulo
    };
    Form form;
    int of;                  // the expression of the size
    std::int64_t low, high;  // the constants with these values
  };

  bool made() const { return traces_ > 0; }
  void start(std::size_t traces);
  void add(const Part& part, const std::int64_t* row);
  /// Adds all forms and constants of the size `of` with the values `n`.
  void add_all(int of, const SizeValues& n);
  int count() const { return static_cast<int>(parts_.size()); }
  const Part& operator[](int part) const { return parts_[static_cast<std::size_t>(part)]; }
  const std::int64_t* row(int part) const { return values_.data() + static_cast<std::size_t>(part) * traces_; }
  /// The part with these values; -1 when there is none.
  int find(const std::int64_t* row) const { return find(row, hash(row)); }
  /// The hash is linear: that of a sum of rows is the sum of their hashes, so that sums are looked up without them.
  std::uint64_t hash(const std::int64_t* row) const;
  std::uint64_t hash_of(int part) const { return hashes_[static_cast<std::size_t>(part)]; }
  /// Whether some part has the hash, which other values have too, but rarely.
  bool has_hash(std::uint64_t hash) const;

 private:
  /// Adds a part with the value value(t) in trace t.
  template <class F>
  void add_row(const Part& part, F&& value);
  int find(const std::int64_t* row, std::uint64_t hash) const;
  std::size_t slot(std::uint64_t hash) const;
  void place(int part);

  std::size_t traces_ = 0;
  std::vector<Part> parts_;
  std::vector<std::int64_t> values_;
  std::vector<std::uint64_t> weights_, hashes_;  // of the traces, and of the parts
  std::vector<int> slots_;                       // of a hash table, a power of two of them
};

/// An expression that fits, and how long it is as C++ writes it.
struct SizeCandidate {
  int expression;
  std::size_t length;
};
class ComposedFound;

class SizeFit {
 public:
  static constexpr int none = SizeExpressions::none;

  struct Answer {
    int expression = none;
    int rival = none;               // another one that fits as well; `none` when there is none
    std::vector<std::int64_t> ask;  // sizes that would tell; empty when there is no doubt
  };

  /// `sets`: the sizes of each trace. `refused`: sizes that cannot be traced.
  SizeFit(std::span<const SizeSymbol> symbols, std::vector<std::vector<std::int64_t>> sets,
          std::span<const std::vector<std::int64_t>> refused);

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

  /// Sizes for numbers that no simple expression gives, those that show most first; the first few are traced always, as
  /// tests of what the given sizes showed.
  const std::vector<std::vector<std::int64_t>>& survey();
  /// Sizes that tell every answer from its variants that fit all traces as well, and sizes that test the answers.
  /// `asked`: the symbols whose sizes the code may compute with; where no answer has one of them, a number that is the
  /// same in all traces may still follow from it.
  std::vector<std::vector<std::int64_t>> tests(const std::vector<bool>& asked);

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

  /// An expression that is a line between two bounds, or where it is none.
  struct Bounds {
    std::vector<std::size_t> taken;  // the traces that meet no bound
    std::optional<std::int64_t> low, high;
  };
  /// An expression, the traces where it is least and greatest, and one where it is neither, where there is one.
  struct Line {
    int base;
    std::size_t low, high, between;
  };
  std::size_t count_unusual(const SizeValues& values, std::int64_t& usual) const;
  std::optional<std::vector<std::int64_t>> unusual(int e, std::int64_t usual);
  Answer composed(const SizeValues& values);
  void make_parts();
  void add_whole_part(int e);
  int part_expression(const SizeParts::Part& part, std::int64_t k);
  template <class Make>
  void for_each_constant(const SizeParts::Part& part, Make&& make);
  int truncated(int numerator, std::int64_t divisor, bool remainder);
  Bounds everywhere() const;
  void add_quotients(int base, const SizeValues& values, const Bounds& bounds, ComposedFound& found);
  void add_composed_remainders(int base, std::int64_t factor, const std::int64_t* x, const SizeValues& values,
                               ComposedFound& found);
  bool is_line(const std::int64_t* x, const SizeValues& values, const Bounds& bounds, std::int64_t& factor,
               std::int64_t& added) const;
  void add_divided_part(const SizeParts::Part& part, const std::int64_t* x, const SizeValues& values,
                        ComposedFound& found);
  template <class Join>
  void with_partners(const SizeValues& rest, Join&& join);
  void add_sums_of_parts(const SizeValues& values, ComposedFound& found);
  void add_products_of_parts(const SizeValues& values, ComposedFound& found);
  void add_extreme_parts(const SizeValues& values, ComposedFound& found);
  void add_over_parts(const SizeValues& values, ComposedFound& found);

  std::int64_t allowed_near(std::size_t i, std::int64_t size) const;
  bool may_ask(const std::vector<std::int64_t>& set) const;
  template <class F>
  void for_each_break(int e, std::size_t i, F&& f) const;
  std::vector<std::vector<std::int64_t>> probes(std::span<const int> expressions);
  std::size_t length_beside_shortest() const;
  Answer told_apart(std::vector<SizeCandidate> candidates);
  template <class Change>
  int changed(int e, int& place, Change&& change);
  int replaced(int e, int from, int to);
  std::vector<int> variants(int e);
  template <class F>
  bool any_term(int e, F&& f) const;
  bool has_pieces(int e) const;
  bool divides_by_size(int e) const;
  bool may_saturate(int e) const;
  void mark_used(int e);
  std::vector<std::vector<std::int64_t>> unasked_sets(std::span<const int> answers,
                                                      const std::vector<bool>& asked) const;
  void add_steps(int e, std::vector<std::vector<std::int64_t>>& asked) const;
  std::optional<std::vector<std::int64_t>> differing_set(int a, int b) const;

  void add_floors(int numerator, const SizeValues& values, std::int64_t factor, std::vector<int>& found);
  void add_remainders(int numerator, const SizeValues& values, std::vector<int>& found);
  Answer add_extremes(const SizeValues& values, std::vector<int>& found);
  void make_floors();
  int floor_expression(int floor);
  const std::int64_t* floor_row(int floor) const {
    return floor_values_.data() + static_cast<std::size_t>(floor) * sets_.size();
  }
  void add_floor_products(const SizeValues& values, std::int64_t added, std::vector<int>& found);
  void collect_constants(int e, std::vector<std::int64_t>& found) const;
  std::vector<std::int64_t> confirming(int e) const;
  Answer decide(std::vector<int> candidates) const;
  std::vector<std::vector<std::int64_t>> trial_sets(std::span<const int> candidates, bool all_at_once) const;
  std::optional<SizeReal> find_real(std::span<const double> values, std::span<const int> operands);
  double value_of(const SizeReal& real, std::size_t trace) const;

  std::span<const SizeSymbol> symbols_;
  std::vector<std::vector<std::int64_t>> sets_, survey_;
  std::span<const std::vector<std::int64_t>> refused_;
  SizeExpressions expressions_;
  std::vector<bool> covered_;   // symbols of which every allowed size was traced
  std::vector<bool> used_;      // symbols that an answer has
  std::vector<int> leaves_;     // of the symbols
  std::vector<int> monomials_;  // products of up to three symbols
  struct Floor {
    int of;
    std::int64_t added, divisor;
  };
  std::vector<Floor> floors_;  // n // k and (n + k - 1) // k
  SizeValues floor_values_;
  SizeParts parts_;
  std::vector<int> bases_;  // sizes, and sums, differences and products of two
  std::vector<Line> lines_;  // of the bases
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
