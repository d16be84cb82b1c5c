// What is said of words of the pattern language that are called otherwise than they can be.
//
// Each has an overload that takes whatever no other does, so that the first thing a compiler says is how it is written,
// not a list of candidates.
// Main names: misused. Cost: light.
#pragma once

#include <cstdint>

#include "fxx/config.hpp"

namespace fxx::inline FXX_ABI::rewrite {

namespace detail {
enum class Call : std::uint8_t {
  list,
  near,
  arg,
  each,
  with,
  maybe,
  chain,
  between,
  siblings,
  outputs,
  arrow,
  any_of,
  infix
};
/// What was called otherwise than it can be.
template <Call What, class... Given>
consteval void misused() {
  static_assert(What != Call::list,
                "fxx::list: an item is not a pattern; write numbers as 0_c and captures as tensor<\"x\">");
  static_assert(What != Call::near, "fxx::near: only a constant is near something; write near(0.5_c)");
  static_assert(What != Call::arg,
                "fxx::arg: an argument by its name is one pattern; write arg<\"dim\">(1_c), arg<\"dim\">(x)");
  static_assert(What != Call::each, "fxx::each: all items match one pattern; write each<\"items\">(relu(x))");
  static_assert(What != Call::with, "fxx::with: write with<\"s\">(1_c, p): what the name is where p is there");
  static_assert(What != Call::maybe,
                "fxx::maybe: write maybe([](auto p) { return relu(p); }, x): a callable that makes a pattern out of a "
                "pattern, and what it may stand around");
  static_assert(What != Call::chain,
                "fxx::chain: write chain<\"links\">([](auto p) { return relu(p); }, x): a callable that makes a link, "
                "and what the innermost stands around");
  static_assert(What != Call::between, "fxx::between: write s.where(between(0_c, 1_c)): two constants");
  static_assert(What != Call::siblings,
                "fxx::siblings: write siblings(x, linear(x, w, b)): the tensor that they share, and one of them");
  static_assert(What != Call::outputs, "fxx::outputs: write outputs(p, q): two patterns or more");
  static_assert(What != Call::arrow, "fxx::rule: p >> r is a whole rule; what becomes of r is a rule of its own");
  static_assert(What != Call::any_of, "fxx::any_of: write any_of<ops::relu, ops::sigmoid>(x): one operator or more");
  static_assert(What != Call::infix,
                "fxx::op: patterns have + - * / and |, which is either of two; other operators are called by name: "
                "pow(x, 2_c), remainder(x, y), bitwise_not(x)");
}
}  // namespace detail
}  // namespace fxx::inline FXX_ABI::rewrite
