// The operators as functions over patterns: `mul(sigmoid(x), x)`. Each picks the overload that its arguments mean.
//
// Constrained templates, so that `using namespace fxx::pattern` meets no quarrel with C's ::exp, ::div, ::abs.
// Main names: namespace fxx::pattern, all a rule needs. Cost: light.
#pragma once

#include "fxx/rewrite/ruleset.hpp"

namespace fxx::inline FXX_ABI::pattern {

namespace tag = ops::tag;

#define FXX_FUNCTION(name_, ...)                         \
  template <class... Args>                               \
    requires(rewrite::Pattern<Args> || ...)              \
  consteval auto name_(Args... args) {                   \
    return rewrite::call_operator<__VA_ARGS__>(args...); \
  }
#include "fxx/ops/functions.inc"
#undef FXX_FUNCTION

using namespace rewrite::literals;
using rewrite::_;
using rewrite::any_of;
using rewrite::apply;
using rewrite::arg;
using rewrite::constant;
using rewrite::ints;
using rewrite::list;
using rewrite::lit;
using rewrite::Match;
using rewrite::near;
using rewrite::none;
using rewrite::optional;
using rewrite::rule;
using rewrite::ruleset;
using rewrite::scalar;
using rewrite::siblings;
using rewrite::tensor;
using rewrite::text;
using rewrite::value;

inline constexpr auto x = tensor<"x">;
inline constexpr auto y = tensor<"y">;
inline constexpr auto z = tensor<"z">;
inline constexpr auto w = tensor<"w">;
inline constexpr auto b = optional<"b">;
inline constexpr auto s = scalar<"s">;

}  // namespace fxx::inline FXX_ABI::pattern

namespace fxx::inline FXX_ABI {
using rewrite::rule;
using rewrite::ruleset;
}  // namespace fxx::inline FXX_ABI

/// `x * sigmoid(x) + 1_c`, found where one side is a pattern. A number on the left of + and * goes to the right, where
/// operators take it.
namespace fxx::inline FXX_ABI::rewrite {
template <class P>
inline constexpr bool is_number = false;
template <class P>
  requires requires { P::kind; }
inline constexpr bool is_number<P> = P::kind == Term::Kind::literal || P::kind == Term::Kind::scalar;
#define FXX_INFIX(symbol, name, commutes)                                                       \
  template <class A, class B>                                                                   \
    requires(Pattern<A> || Pattern<B>)                                                          \
  consteval auto operator symbol(A a, B b) {                                                    \
    if constexpr (commutes && is_number<A> && !is_number<B>) return ::fxx::pattern::name(b, a); \
    else return ::fxx::pattern::name(a, b);                                                     \
  }
FXX_INFIX(+, add, true)
FXX_INFIX(-, sub, false)
FXX_INFIX(*, mul, true)
FXX_INFIX(/, div, false)
#undef FXX_INFIX
}  // namespace fxx::inline FXX_ABI::rewrite
