// What is told of the inputs on which rules that ship are tested, beside their laws (rewrite/law.hpp), which their types
// say: docs/rules.md is made from both.
#pragma once

#include <string_view>

namespace fxx::test {

struct Needs {
  bool bits = false;           // holds to the bit; otherwise up to rounding
  std::string_view note = {};  // what else the inputs of the test are
};
struct NeedsOf {
  std::string_view set, rule;  // no rule: all of the set that are not named
  Needs needs;
};

// Of rules whose inputs have to suit each other the tests make them, of numbers that say nothing of nan and infinities.
inline constexpr std::string_view small_numbers = "tested with numbers from -2 to 2";

inline constexpr NeedsOf all_needs[] = {
    // Of others, and of booleans, LibTorch reads memory that nobody wrote to.
    {"reroll", "pad, reflecting", {.note = "paddings of 0 and more"}},
    {"reroll", "pad, replicating", {.note = "paddings of 0 and more"}},
    {"reroll", "pad, around", {.note = "paddings of 0 and more"}},
    // Of one number, which is its mean, both sides keep nothing but rounding.
    {"normalisation", "layer norm by rms norm", {.note = small_numbers}},
    // The logarithm of what is hardly more than nothing knows few digits.
    {"normalisation", "log of softmax", {.note = small_numbers}},
    {"normalisation", "group norm", {.note = small_numbers}},
    {"normalisation", "group norm by batch norm", {.note = small_numbers}},
    {"normalisation", "group norm takes its weight", {.note = small_numbers}},
    {"normalisation", "group norm takes its bias", {.note = small_numbers}},
    {"rearrangement", "", {.bits = true, .note = small_numbers}},
    {"rotary", "", {.bits = true, .note = small_numbers}},
    {"rotary", "rotary embedding, complex", {.note = small_numbers}},
    {"einsums", "", {.note = small_numbers}},
    {"attention", "attention, filled", {.note = small_numbers}},
    {"attention", "attention, divided, filled", {.note = small_numbers}},
    {"attention", "attention, scaled query, filled", {.note = small_numbers}},
    {"attention", "attention, divided query, filled", {.note = small_numbers}},
    {"attention_scores", "scale before the mask", {.bits = true}},
    {"attention_scores", "scale before the mask, divided", {.bits = true}},
    {"attention_scores", "scale before the mask, seen", {.bits = true}},
    {"attention_scores", "scale before the mask, seen, divided", {.bits = true}},
    {"attention", "attention, grouped keys, repeated", {.note = small_numbers}},
    {"attention", "attention, grouped keys, expanded", {.note = small_numbers}},
    // What is dropped in between is the same only on average.
    {"attention_dropout", "", {.note = "a rate of 0 or 1"}},
    {"inference", "fold scale before", {.note = "factors that are finite and not 0"}},
    {"onednn", "", {.note = small_numbers}},
    {"merge_convolution", "", {.note = "tested mostly with numbers from 0.25 to 2.25, either sign"}},
};

/// Nothing where all inputs that the law leaves are tested. O(table).
constexpr Needs needs_of(std::string_view set, std::string_view rule) {
  Needs found;
  for (const NeedsOf& n : all_needs)
    if (n.set == set && n.rule.empty()) found = n.needs;
  for (const NeedsOf& n : all_needs)
    if (n.set == set && n.rule == rule) found = n.needs;
  return found;
}

}  // namespace fxx::test
