// The operators as functions over patterns: `mul(sigmoid(x), x)`. Each picks the overload that its arguments mean.
//
// Constrained templates, so that `using namespace fxx::pattern` meets no quarrel with C's ::exp, ::div, ::abs. Of no
// arguments and of texts they say what is wrong.
// Main names: namespace fxx::pattern, all a rule needs. Cost: light.
#pragma once

#include "fxx/rewrite/describe.hpp"
#include "fxx/rewrite/phases.hpp"

namespace fxx::inline FXX_ABI::pattern {

using tag = OperatorIndex;

#define FXX_FUNCTION(name_, ...)                                         \
  template <class... Args>                                               \
    requires((rewrite::Pattern<Args> || ...) || rewrite::Texts<Args...>) \
  consteval auto name_(Args... args) {                                   \
    return rewrite::call_operator<__VA_ARGS__>(args...);                 \
  }
#include "fxx/ops/functions.inc"
#undef FXX_FUNCTION

using namespace rewrite::literals;
using rewrite::_;
using rewrite::a_constant;
using rewrite::any_of;
using rewrite::apply;
using rewrite::arg;
using rewrite::between;
using rewrite::boolean;
using rewrite::chain;
using rewrite::complex_valued;
using rewrite::constant;
using rewrite::device_is;
using rewrite::dtype_is;
using rewrite::each;
using rewrite::floating;
using rewrite::in_eval_mode;
using rewrite::in_train_mode;
using rewrite::integral;
using rewrite::ints;
using rewrite::list;
using rewrite::lit;
using rewrite::Match;
using rewrite::maybe;
using rewrite::memory_is;
using rewrite::module;
using rewrite::module_info;
using rewrite::module_option;
using rewrite::near;
using rewrite::none;
using rewrite::one_user;
using rewrite::operands_of;
using rewrite::option_is;
using rewrite::optional;
using rewrite::outputs;
using rewrite::rank_from;
using rewrite::rank_is;
using rewrite::rest;
using rewrite::rule;
using rewrite::ruleset;
using rewrite::scalar;
using rewrite::sequence;
using rewrite::shape_is;
using rewrite::siblings;
using rewrite::size_is;
using rewrite::sym_int;
using rewrite::tensor;
using rewrite::text;
using rewrite::value;
using rewrite::with;

inline constexpr auto x = tensor<"x">;
inline constexpr auto y = tensor<"y">;
inline constexpr auto z = tensor<"z">;
inline constexpr auto w = tensor<"w">;
inline constexpr auto b = optional<"b">;
inline constexpr auto s = scalar<"s">;

}  // namespace fxx::inline FXX_ABI::pattern

namespace fxx::inline FXX_ABI {
using rewrite::explain;
using rewrite::phases;
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
inline constexpr bool is_number<P> = P::kind == Term::Kind::literal || P::kind == Term::Kind::scalar ||
                                     (P::kind == Term::Kind::call && P::code > detail::code_of(Term::Kind::call));
#define FXX_INFIX(symbol, name, commutes)                                                            \
  template <class A, class B>                                                                        \
    requires(Pattern<A> || Pattern<B>)                                                               \
  consteval auto operator symbol(A a, B b) {                                                         \
    if constexpr (!(Pattern<A> && Pattern<B>)) return detail::not_patterns<A, B>();                  \
    else if constexpr (commutes && is_number<A> && !is_number<B>) return ::fxx::pattern::name(b, a); \
    else return ::fxx::pattern::name(a, b);                                                          \
  }
FXX_INFIX(+, add, true)
FXX_INFIX(-, sub, false)
FXX_INFIX(*, mul, true)
FXX_INFIX(/, div, false)
#undef FXX_INFIX
/// `-x` is neg(x).
template <Pattern P>
consteval auto operator-(P p) {
  constexpr bool tensor = P::kind != Term::Kind::scalar && P::kind != Term::Kind::size;
  static_assert(tensor, "fxx::op: a number that is captured has no minus in a pattern; a callable can compute with it");
  if constexpr (tensor) return ::fxx::pattern::neg(p);
  else return mistake{};
}
// Of C++'s other operators patterns have none.
#define FXX_NO_INFIX(symbol)                                                                         \
  template <class A, class B>                                                                        \
    requires(Pattern<A> || Pattern<B>)                                                               \
  consteval mistake operator symbol(A, B) {                                                          \
    if constexpr (!(is_mistaken<A> || is_mistaken<B>)) detail::misused<detail::Call::infix, A, B>(); \
    return {};                                                                                       \
  }
FXX_NO_INFIX(%)
FXX_NO_INFIX(^)
FXX_NO_INFIX(&)
FXX_NO_INFIX(||)
#undef FXX_NO_INFIX
template <Pattern P>
consteval mistake operator~(P) {
  detail::misused<detail::Call::infix, P>();
  return {};
}
template <Pattern P>
consteval mistake operator!(P) {
  detail::misused<detail::Call::infix, P>();
  return {};
}
}  // namespace fxx::inline FXX_ABI::rewrite
