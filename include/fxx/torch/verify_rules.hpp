// Rules checked by running: both sides of a rule on random inputs, and the input on which they differ as C++. Of the
// inputs are left out those that the law of the rule leaves out (rewrite/law.hpp), and no others.
//
// For each rule, graphs are made of its pattern: all its readings, tensors of many shapes, dtypes and layouts, with
// infinities, nan, zeros of both signs, denormals, no elements; in some, calls are written in place, or somebody else
// uses what lies inside of the pattern. Where the pattern runs, the rule is applied to a copy of the graph, with its guard
// and its callable as in rewriting, and both graphs are run.
// Main names: verify, VerifyOptions, VerifyReport. Cost: tensor (ATen/core/ivalue.h); a rule 10 ms to compile and about
// 0.1 s to run.
#pragma once

#include <ATen/core/ivalue.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "fxx/rewrite/phases.hpp"

namespace fxx::inline FXX_ABI {

/// Numbers that are the same on every machine and in every run. Splitmix64, which costs nothing to seed: one is made for
/// everything that is chosen.
class VerifyRandom {
 public:
  explicit VerifyRandom(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  /// At least 0, below `bound`, which is not 0.
  std::size_t below(std::size_t bound) { return static_cast<std::size_t>(next() % bound); }
  /// True so many times in a hundred.
  bool chance(int percent) { return static_cast<int>(below(100)) < percent; }
  template <class T>
  T pick(std::initializer_list<T> among) {
    return among.begin()[below(among.size())];
  }
  /// In [0, 1).
  double real() { return static_cast<double>(next() >> 11) * 0x1p-53; }

 private:
  std::uint64_t state_;
};

/// What a capture of a rule holds, where the usual choice would hardly ever suit: a tensor, a number, a list, None; no
/// value leaves it to the usual choice. It is told the capture's name, of a wildcard the name of its parameter, and is
/// asked in the order of the pattern. Tensors keep their values and strides.
using VerifyInputs = std::function<std::optional<c10::IValue>(std::string_view capture, VerifyRandom& random)>;

struct VerifyOptions {
  /// What a rule promises of floating-point results. Integers and booleans are always compared exactly, and so are
  /// shapes, dtypes and what is written to inputs.
  enum class Law : std::uint8_t {
    bits,      // the same bits; any nan is a nan
    values,    // equal numbers: the two zeros are one
    rounding,  // the error, against float64, is at most `factor` times what the pattern's own may be; zeros keep signs
  };
  Law law = Law::rounding;
  double factor = 16;
  /// What is assumed besides what the rule needs: inputs that this leaves out are left out, and the rule is applied as
  /// where it may be taken for granted (RewriteOptions::assume).
  fxx::Law assume = fxx::law::exact;
  /// Compare only elements where the pattern gives a finite number: for laws that say what happens elsewhere, as where
  /// the written form overflows.
  bool finite_only = false;
  /// Compare the signs of zeros where results may be rounded: one over them are two infinities. Sums in another order
  /// (law::sums) and what is too small to be told from 0 (law::no_overflow) may have another zero, and
  /// law::unsigned_zero says that it does not matter.
  bool signs_of_zeros = true;
  /// Leave out cases whose inputs hold nan or infinities: for laws in which what is no number spreads further.
  bool finite_inputs = false;
  /// Leave out cases in which numbers overflow, or nearly do, on either side: a value on the way is finite and its
  /// square is not, or is infinite though all inputs are finite. For laws that multiply in another order.
  bool moderate = false;
  /// Compare strides too.
  bool strides = false;
  /// Compare gradients of all floating-point inputs too, in cases that are float64; not at corners, where they may be
  /// either slope: where those of the pattern change when its inputs are nudged.
  bool gradients = false;
  /// Cases compared of one rule after which it is taken to hold; those that it takes not to be called unverified.
  std::size_t cases = 200, least_cases = 20;
  /// Inputs tried of one rule at most: most random ones suit neither the operators nor the guard.
  std::size_t tries = 20000;
  std::uint64_t seed = 1;
  /// Own inputs, by the name of the rule.
  std::map<std::string, VerifyInputs> inputs = {};
};

struct VerifyReport {
  struct Rule {
    std::string name;
    /// Inputs tried; those on which the pattern ran; on which the rule fired; where both sides were compared.
    std::size_t tried = 0, ran = 0, fired = 0, compared = 0;
    /// Compared cases by what was in them: "float32" and so on, "empty", "0-d", "shapes that differ", "not contiguous",
    /// "expanded", "nan or inf", "gradients"; "in place", where a call inside of the pattern is written in place, and
    /// "used elsewhere", where the graph returns such a call's value too.
    std::map<std::string, std::size_t> seen;
    /// Enough cases were compared.
    bool enough = false;
    /// Where the two sides differ: "element [0]: the pattern gives 1.5, the replacement 1". Empty when they do not.
    std::string difference;
    /// The same as C++: two functions, the inputs, the calls.
    std::string counter_example;

    bool verified() const { return enough && difference.empty(); }
  };
  std::vector<Rule> rules;

  /// All rules are verified.
  bool ok() const;
  /// The rule of that name; null when there is none.
  const Rule* find(std::string_view rule) const;
  /// A line a rule, with the counter-example where there is one, and a last line that counts.
  std::string to_string() const;
  /// Throws RuleError: (E410) with the counter-example when a rule is wrong, (E411) when one was not verified.
  void check() const;
};

namespace detail {

/// A rule without its type.
struct RuleToVerify {
  std::string_view name;
  const rewrite::Term* pattern;
  std::uint64_t shared;  // by siblings; else 0
  const void* rule;
  Law needs;
  rewrite::RewriteReport (*apply)(const void* rule, Graph& graph, Law assumed);
};
VerifyReport verify_rules(std::span<const RuleToVerify> rules, const VerifyOptions& options);

template <class Rule>
rewrite::RewriteReport apply_alone(const void* rule, Graph& graph, Law assumed) {
  const rewrite::Ruleset<Rule> alone(*static_cast<const Rule*>(rule));
  return alone.apply(graph, {.assume = assumed});
}
template <class Rule>
RuleToVerify to_verify(const Rule& rule) {
  return {Rule::name, rewrite::flat<typename Rule::pattern>.data(), rewrite::detail::facts_of<Rule>[0].shared, &rule,
          Rule::needs, &apply_alone<Rule>};
}

template <class... Rules>
void add_rules(const rewrite::Ruleset<Rules...>& rules, std::vector<RuleToVerify>& all) {
  rules.for_each([&](const auto& rule) { all.push_back(to_verify(rule)); });
}
template <class Set>
  requires std::is_same_v<Set, rewrite::AnyRuleset>
void add_rules(const Set&, std::vector<RuleToVerify>&) {
  static_assert(
      sizeof(Set) == 0,
      "fxx::verify: an AnyRuleset no longer knows the types of its rules; verify the set that it was made of");
}
template <class... Sets>
void add_rules(const rewrite::Phases<Sets...>& phases, std::vector<RuleToVerify>& all) {
  boost::hana::unpack(phases.sets, [&](const auto&... set) { (add_rules(set, all), ...); });
}

}  // namespace detail

/// Runs both sides of every rule of the set, or of all phases, each rule alone. A rule fails when shape, dtype or values
/// of the results differ, when only the replacement throws, or when guard or callable throw; where the pattern throws, the
/// rule may do as it likes. The counter-example is made as small as simple retries make it. A rule that hardly ever fires
/// on what was tried is reported as not verified; VerifyOptions::inputs helps there. The same seed gives the same report.
/// The CPU's default generator draws the same numbers afterwards as without this. O(rules x cases). What
/// VerifyOptions::inputs throws passes.
template <class Set>
  requires rewrite::detail::is_ruleset<Set>
VerifyReport verify(const Set& rules, const VerifyOptions& options = {}) {
  std::vector<detail::RuleToVerify> all;
  detail::add_rules(rules, all);
  return detail::verify_rules(all, options);
}
/// Likewise for one rule.
template <class Rule>
  requires rewrite::is_rule<Rule>
VerifyReport verify(const Rule& rule, const VerifyOptions& options = {}) {
  const detail::RuleToVerify one[] = {detail::to_verify(rule)};
  return detail::verify_rules(one, options);
}

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/torch/verify_rules.ipp"
#endif
