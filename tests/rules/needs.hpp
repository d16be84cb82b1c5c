// On which inputs the rules that ship hold, where that is not all of them. The tests verify the rules on just these
// (tests/torch/verified.hpp), and docs/shipped_rules.md is made from this too, so it says what is tested.
#pragma once

#include <string_view>

namespace fxx::test {

/// The words of VerifyOptions.
struct Needs {
  bool bits = false;           // holds to the bit; otherwise up to rounding
  bool moderate = false;       // no number overflows, or nearly does
  bool finite_inputs = false;  // no nan, no infinity goes in
  bool finite_only = false;    // holds for the elements that the pattern makes finite
  std::string_view note = {};  // what else the inputs of the test have
};
struct NeedsOf {
  std::string_view set, rule;  // no rule: all of the set that are not named
  Needs needs;
};

inline constexpr NeedsOf all_needs[] = {
    // 1 / y overflows for a y that is nearly zero, and x y does not.
    {"strength_reduction", "by the reciprocal", {.moderate = true}},
    // lerp starts from y when that is nearer, and an infinite y makes nan of it.
    {"strength_reduction", "lerp", {.finite_inputs = true}},
    // With AVX-512 LibTorch leaves gelu to oneDNN, which makes nan of infinity: pytorch issue 185770.
    {"activations", "gelu", {.finite_inputs = true}},
    {"activations", "gelu, halved last", {.finite_inputs = true}},
    {"activations", "gelu, half of the sum", {.finite_inputs = true}},
    {"normalisation", "", {.moderate = true}},
    // exp(x) / sum(exp(x)) keeps an infinite element to itself, and so does the logarithm of the sum; the operators make
    // nan of the whole row.
    {"normalisation", "softmax", {.moderate = true, .finite_inputs = true}},
    {"normalisation", "log softmax", {.moderate = true, .finite_inputs = true}},
    {"normalisation", "log softmax, by hand", {.moderate = true, .finite_inputs = true}},
    {"rearrangement", "", {.bits = true}},
    {"rotary", "", {.bits = true}},
    {"rotary", "rotary embedding, complex", {.moderate = true}},
    {"einsums", "", {.moderate = true}},
    // Of a query that is masked from all keys the operator makes zeros.
    {"attention", "", {.moderate = true, .finite_only = true}},
    // A mask that fills in minus infinity hides keys that are nan; the operator adds minus infinity to them.
    {"attention", "attention, divided, hidden", {.moderate = true, .finite_inputs = true, .finite_only = true}},
    {"attention", "attention, scaled query, hidden", {.moderate = true, .finite_inputs = true, .finite_only = true}},
    {"attention", "attention, divided query, hidden", {.moderate = true, .finite_inputs = true, .finite_only = true}},
    {"attention", "attention, scaled, hidden", {.moderate = true, .finite_inputs = true, .finite_only = true}},
    {"attention", "attention, divided, seen", {.moderate = true, .finite_inputs = true, .finite_only = true}},
    {"attention", "attention, scaled, seen", {.moderate = true, .finite_inputs = true, .finite_only = true}},
    // What is dropped in between is the same only on average.
    {"attention_dropout", "", {.moderate = true, .finite_only = true, .note = "a rate of 0 or 1"}},
    // A weight that is nan or infinite is multiplied in another order.
    {"inference", "", {.moderate = true, .finite_only = true}},
    {"inference", "fold scale before",
     {.moderate = true, .finite_only = true, .note = "factors that are finite and not 0"}},
    {"merge_linear", "", {.moderate = true}},
    {"merge_convolution", "", {.moderate = true}},
};

/// None for a rule that holds on all inputs. O(table).
constexpr Needs needs_of(std::string_view set, std::string_view rule) {
  Needs found;
  for (const NeedsOf& n : all_needs)
    if (n.set == set && n.rule.empty()) found = n.needs;
  for (const NeedsOf& n : all_needs)
    if (n.set == set && n.rule == rule) found = n.needs;
  return found;
}

}  // namespace fxx::test
