// On which inputs the rules that ship hold, where that is not all of them. The tests verify the rules on just these
// (tests/torch/verified.hpp), and docs/rules.md is made from this too, so it says what is tested.
#pragma once

#include <string_view>

namespace fxx::test {

/// The words of VerifyOptions.
struct Needs {
  bool bits = false;           // holds to the bit; otherwise up to rounding
  bool moderate = false;       // no number overflows, or nearly does
  bool finite_inputs = false;  // no nan, no infinity goes in
  bool finite_only = false;    // holds for the elements that the pattern makes finite
  std::string_view note = {};  // what else the inputs of the test are
};
struct NeedsOf {
  std::string_view set, rule;  // no rule: all of the set that are not named
  Needs needs;
};

// Of rules whose inputs have to suit each other the tests make them, of numbers that say nothing of nan and infinities.
inline constexpr std::string_view small_numbers = "tested with numbers from -2 to 2";

inline constexpr NeedsOf all_needs[] = {
    // 1 / y overflows for a y that is nearly zero, and x y and x / y do not.
    {"strength_reduction", "by the reciprocal", {.moderate = true, .finite_inputs = true}},
    {"strength_reduction", "times the reciprocal", {.moderate = true}},
    // lerp starts from y when that is nearer, and an infinite y makes nan of it.
    {"strength_reduction", "lerp", {.finite_inputs = true}},
    // With AVX-512 LibTorch leaves gelu to oneDNN, which makes nan of infinity: pytorch issue 185770.
    {"activations", "gelu", {.finite_inputs = true}},
    {"activations", "gelu, halved last", {.finite_inputs = true}},
    // Twice x, e^x and its sum overflow where x does not.
    {"activations", "gelu, tanh, halved last", {.moderate = true}},
    {"activations", "softplus", {.moderate = true}},
    {"activations", "softplus with a factor", {.moderate = true}},
    {"activations", "log_sigmoid", {.moderate = true}},
    {"activations", "log_sigmoid by softplus", {.moderate = true}},
    {"strength_reduction", "log of the sum of exponentials", {.moderate = true}},
    // a x may overflow where a b x does not.
    {"number_chains", "times a times b", {.moderate = true}},
    {"number_chains", "times a by b", {.moderate = true}},
    {"number_chains", "by a times b", {.moderate = true}},
    {"number_chains", "by a by b", {.moderate = true}},
    {"activations", "gelu, half of the sum", {.finite_inputs = true}},
    {"activations", "cube of gelu", {.moderate = true}},
    {"activations", "square of gelu", {.moderate = true}},
    // What half precision makes infinite on the way is added to.
    {"reroll", "linear, n-D", {.finite_inputs = true, .finite_only = true}},
    {"reroll", "linear, out of place", {.finite_inputs = true, .finite_only = true}},
    // Of others, and of booleans, LibTorch reads memory that nobody wrote to.
    {"reroll", "pad, reflecting", {.note = "paddings of 0 and more"}},
    {"reroll", "pad, replicating", {.note = "paddings of 0 and more"}},
    {"reroll", "pad, around", {.note = "paddings of 0 and more"}},
    {"normalisation", "", {.moderate = true}},
    // Next to an infinite weight it counts whether rounding leaves nothing.
    {"normalisation", "layer norm takes its weight", {.moderate = true, .finite_inputs = true}},
    {"normalisation", "layer norm, weighted first", {.moderate = true, .finite_inputs = true}},
    // Of one number, which is its mean, both sides keep nothing but rounding.
    {"normalisation", "layer norm by rms norm", {.moderate = true, .note = small_numbers}},
    // The logarithm of what is hardly more than nothing knows few digits.
    {"normalisation", "log of softmax", {.moderate = true, .note = small_numbers}},
    // What is infinite and taken off makes nan.
    {"normalisation", "logsumexp, shifted", {.moderate = true, .finite_only = true}},
    {"normalisation", "logsumexp, shifted, of fewer dimensions", {.moderate = true, .finite_only = true}},
    // exp(x) / sum(exp(x)) keeps an infinite element to itself, and so does the logarithm of the sum; the operators
    // make nan of the whole row.
    {"normalisation", "softmax", {.moderate = true, .finite_inputs = true}},
    {"normalisation", "log softmax", {.moderate = true, .finite_inputs = true}},
    {"normalisation", "log softmax, by hand", {.moderate = true, .finite_inputs = true}},
    {"normalisation", "group norm", {.moderate = true, .note = small_numbers}},
    {"normalisation", "group norm by batch norm", {.moderate = true, .note = small_numbers}},
    {"normalisation", "group norm takes its weight", {.moderate = true, .note = small_numbers}},
    {"normalisation", "group norm takes its bias", {.moderate = true, .note = small_numbers}},
    {"rearrangement", "", {.bits = true, .note = small_numbers}},
    {"rotary", "", {.bits = true, .note = small_numbers}},
    {"rotary", "rotary embedding, complex", {.moderate = true, .note = small_numbers}},
    {"einsums", "", {.moderate = true, .note = small_numbers}},
    // Of a query that is masked from all keys the operator makes zeros.
    {"attention", "", {.moderate = true, .finite_only = true}},
    // A mask that fills in minus infinity hides keys that are nan; the operator adds minus infinity to them.
    {"attention", "attention, divided, hidden", {.moderate = true, .finite_inputs = true, .finite_only = true}},
    {"attention", "attention, scaled query, hidden", {.moderate = true, .finite_inputs = true, .finite_only = true}},
    {"attention", "attention, divided query, hidden", {.moderate = true, .finite_inputs = true, .finite_only = true}},
    {"attention", "attention, scaled, hidden", {.moderate = true, .finite_inputs = true, .finite_only = true}},
    {"attention", "attention, divided, seen", {.moderate = true, .finite_inputs = true, .finite_only = true}},
    {"attention", "attention, scaled, seen", {.moderate = true, .finite_inputs = true, .finite_only = true}},
    {"attention", "attention, scaled query, seen", {.moderate = true, .finite_inputs = true, .finite_only = true}},
    {"attention", "attention, divided query, seen", {.moderate = true, .finite_inputs = true, .finite_only = true}},
    {"attention", "attention, bmm, hidden", {.moderate = true, .finite_inputs = true, .finite_only = true}},
    {"attention", "attention, bmm, divided, hidden", {.moderate = true, .finite_inputs = true, .finite_only = true}},
    {"attention", "attention, filled", {.moderate = true, .note = small_numbers}},
    {"attention", "attention, divided, filled", {.moderate = true, .note = small_numbers}},
    {"attention", "attention, scaled query, filled", {.moderate = true, .note = small_numbers}},
    {"attention", "attention, divided query, filled", {.moderate = true, .note = small_numbers}},
    {"attention_scores", "", {.moderate = true}},
    {"attention_scores", "scale before the mask", {.bits = true}},
    {"attention_scores", "scale before the mask, divided", {.bits = true}},
    {"attention_scores", "scale before the mask, seen", {.bits = true}},
    {"attention_scores", "scale before the mask, seen, divided", {.bits = true}},
    {"attention", "attention, grouped keys, repeated", {.moderate = true, .finite_only = true, .note = small_numbers}},
    {"attention", "attention, grouped keys, expanded", {.moderate = true, .finite_only = true, .note = small_numbers}},
    // What is dropped in between is the same only on average.
    {"attention_dropout", "", {.moderate = true, .finite_only = true, .note = "a rate of 0 or 1"}},
    // A weight that is nan or infinite is multiplied in another order.
    {"inference", "", {.moderate = true, .finite_only = true}},
    {"inference", "fold scale before",
     {.moderate = true, .finite_only = true, .note = "factors that are finite and not 0"}},
    {"merge_linear", "", {.moderate = true}},
    // oneDNN's relu makes 0 of nan, and nan of minus infinity.
    {"onednn", "", {.moderate = true, .finite_inputs = true, .note = small_numbers}},
    {"merge_convolution", "", {.moderate = true, .note = "tested mostly with numbers from 0.25 to 2.25, either sign"}},
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
