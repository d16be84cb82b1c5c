// The pattern language: captures, literals, wildcards, calls, alternatives, lists, as empty types.
//
//   tensor<"x">    a node                          scalar<"s">   a number                _     anything
//   optional<"b">  a node, or None, or left out    value<"v">    whatever is there       0_c   a number: 0_c, 0.5_c
//   constant<"w">  a node that the inputs do not reach    lit<false>, text<"tanh">, ints<1, 1>, near(1.41421356_c)
//   p | q          either                          list(p, q)    a list of these items
//   relu(x), conv2d(x, w, b), arg<"dim">(-1_c)     calls, positional or by keyword (rewrite/functions.hpp)
//   p.once()       the value has one user          siblings(x, linear(x, w, b))  all such users of x together
//   p.where(rank_is<4>)  that also fulfils a condition (rewrite/conditions.hpp)   sequence<"dims">  a list
//   p.as<"n">()    whose node is captured          sym_int<"n">  an integer, or a size that a node computes
//   rest<"others">, each(p), operands_of<op>(p, q), maybe(f, p), chain(f, p), module<"Class">(x), outputs(p, q):
//   rewrite/search_patterns.hpp
//
// A parameter that a pattern leaves out must have its default value in the graph. The same capture twice must bind
// equal arguments. Commutative operators match in either order.
// Main names: Pattern, call_operator, flat. Cost: light.
#pragma once

#include <bit>
#include <initializer_list>

#include "fxx/meta/fixed_string.hpp"
#include "fxx/ops/operation.hpp"
#include "fxx/rewrite/conditions.hpp"
#include "fxx/rewrite/misused.hpp"
#include "fxx/rewrite/overload.hpp"

namespace fxx::inline FXX_ABI::rewrite {

struct pattern_base {
  static constexpr bool mistaken = false;  // a mistake in it was reported already, so no later check speaks of it
  // What an overload is chosen by, as a number, so that calls with the same kinds of arguments share the choice; 0 when
  // it takes a closer look.
  static constexpr int code = 0;
};
template <class P>
concept Pattern = __is_base_of(pattern_base, P);  // std::is_base_of_v would be a variable a type
/// `relu("x")` and `relu()` get a sentence.
template <class... Args>
concept Texts = (true && ... && __is_same(Args, const char*));

template <class P, class... Conditions>
struct where_of;
template <fixed_string Name, class P>
struct named_of;

/// What may follow a pattern after a dot.
template <class Self>
struct followed : pattern_base {
  /// Matches only values that fulfil all conditions: those of rewrite/conditions.hpp, or a callable without captures
  /// that takes an `Argument`, a `Node`, a `TensorMeta` or a `double` and says true or false.
  template <class... Conditions>
  consteval where_of<Self, Conditions...> where(Conditions...) const {
    (detail::condition_fits<Conditions, Self::kind>(), ...);
    return {};
  }
  /// Matches only where the value has one user, which is the pattern.
  consteval where_of<Self, conditions::one_user_t> once() const {
    constexpr bool has_users = Self::kind != Term::Kind::scalar && Self::kind != Term::Kind::sequence;
    static_assert(has_users, "fxx::once: a number or a list has no users; ask it of a tensor or a call");
    return {};
  }
  /// Captures the node that matches; the same name twice is the same node.
  template <fixed_string Name>
  consteval named_of<Name, Self> as() const {
    return {};
  }
};

/// Binds an argument.
template <fixed_string Name, Term::Kind What>
struct capture : followed<capture<Name, What>> {
  static constexpr Term::Kind kind = What;
  static constexpr int code = detail::code_of(What);
  static constexpr std::uint64_t id = hash_of(Name.view());
  static constexpr Form form{.term = {.kind = What, .id = id, .name = Name.view()}};
};

struct wildcard : followed<wildcard> {
  static constexpr Term::Kind kind = Term::Kind::any;
  static constexpr int code = detail::code_of(kind);
  static constexpr Form form{};
};

/// Stands for what a reported mistake leaves behind, so that one mistake gives one error.
struct mistake : wildcard {
  static constexpr bool mistaken = true;
  static constexpr int code = 0;
};

/// A real number as a template argument. Its bits, since clang 16 takes no double there.
struct real_bits {
  std::uint64_t bits;
  constexpr explicit real_bits(double value) : bits(std::bit_cast<std::uint64_t>(value)) {}
  constexpr explicit real_bits(std::uint64_t b) : bits(b) {}
  constexpr double value() const { return std::bit_cast<double>(bits); }
  constexpr real_bits operator-() const { return real_bits(-value()); }
};

namespace detail {
constexpr Literal literal_of(real_bits v) { return Literal::of(v.value()); }
template <class T>
constexpr Literal literal_of(T v) {
  return Literal::of(v);
}
}  // namespace detail
/// A constant: a boolean, an integer or a real.
template <auto Value, Term::Kind Kind = Term::Kind::literal>
struct literal : pattern_base {
  static constexpr Term::Kind kind = Kind;
  static constexpr Literal value = detail::literal_of(Value);
  static constexpr int code = detail::code_of(kind, value.kind);
  static constexpr Form form{.term = {.kind = Kind, .value = &value}};
};
template <fixed_string Text>
struct text_literal : pattern_base {
  static constexpr Term::Kind kind = Term::Kind::literal;
  static constexpr Literal value = Literal::of(Text.view());
  static constexpr int code = detail::code_of(kind, value.kind);
  static constexpr Form form{.term = {.kind = kind, .value = &value}};
};
template <std::int64_t... Items>
struct integers_literal : pattern_base {
  static constexpr Term::Kind kind = Term::Kind::literal;
  static constexpr Literal value{.kind = Literal::Kind::integers, .count = sizeof...(Items), .items = {Items...}};
  static constexpr int code = detail::code_of(kind, value.kind);
  static constexpr Form form{.term = {.kind = kind, .value = &value}};
};
struct none_literal : pattern_base {
  static constexpr Term::Kind kind = Term::Kind::literal;
  static constexpr Literal value{.kind = Literal::Kind::none};
  static constexpr int code = detail::code_of(kind, value.kind);
  static constexpr Form form{.term = {.kind = kind, .value = &value}};
};

template <class P>
struct single : followed<single<P>> {
  static constexpr bool mistaken = P::mistaken;
  static constexpr Term::Kind kind = Term::Kind::call;
  static constexpr int code = P::code;
  static constexpr Form form = detail::single_form(P::form);
};

/// `arg<"dim">(p)`: an argument by its name in the schema.
template <fixed_string Name, class P>
struct keyword : pattern_base {
  static constexpr bool mistaken = P::mistaken;
  static constexpr Term::Kind kind = P::kind;
  static constexpr std::string_view name = Name.view();
  using pattern = P;
  static constexpr Form form = detail::keyword_form(P::form, name);
};
template <class P>
inline constexpr bool is_keyword = false;
template <fixed_string Name, class P>
inline constexpr bool is_keyword<keyword<Name, P>> = true;

/// What all calls that give the same have in common, which then is one constant.
template <Literal::Kind Number>
struct call_base : pattern_base {
  static constexpr Term::Kind kind = Term::Kind::call;
  static constexpr int code = detail::code_of(kind, Number);
};
/// `Key` is an OperatorIndex, or an `op<"...">`. It has the members of `followed` itself: patterns are calls for the most
/// part, and a base class a call took the compiler as much memory as the call.
template <auto Key, class... Args>
struct call : call_base<detail::number_given(fxx::detail::parsed<Key>)> {
  static constexpr Form form = detail::call_form(fxx::detail::parsed<Key>, forms<Args...>, int(sizeof...(Args)));
  /// Matches only where this call's result has one user.
  consteval single<call> once() const { return {}; }
  template <class... Conditions>
  consteval where_of<call, Conditions...> where(Conditions...) const {
    (detail::condition_fits<Conditions, Term::Kind::call>(), ...);
    return {};
  }
  template <fixed_string Name>
  consteval named_of<Name, call> as() const {
    return {};
  }
};

template <class... Ps>
struct either : followed<either<Ps...>> {
  static constexpr bool mistaken = (false || ... || Ps::mistaken);
  static constexpr Term::Kind kind = Term::Kind::alternatives;
  static constexpr int code = detail::common_code(std::initializer_list<int>{Ps::code...});
  static constexpr Form form = detail::form_of({.kind = kind}, forms<Ps...>, int(sizeof...(Ps)));
};
template <class... Ps, Pattern Q>
consteval auto operator|(either<Ps...>, Q) {
  constexpr bool few = sizeof...(Ps) < 255;
  static_assert(few, "fxx::op: a value has 255 alternatives at most");
  if constexpr (few) return either<Ps..., Q>{};
  else return mistake{};
}
template <Pattern P, Pattern Q>
consteval either<P, Q> operator|(P, Q) {
  return {};
}

template <class... Ps>
struct list_of : pattern_base {
  static constexpr bool mistaken = (false || ... || Ps::mistaken);
  static constexpr Term::Kind kind = Term::Kind::list;
  static constexpr int code = mistaken ? 0 : detail::list_code(forms<Ps...>, int(sizeof...(Ps)));
  static constexpr Form form = detail::form_of({.kind = kind}, forms<Ps...>, int(sizeof...(Ps)));
};
template <class... Args>
consteval mistake list(Args...) {
  detail::misused<detail::Call::list, Args...>();
  return {};
}
/// A list argument with exactly these items: `cat(list(x, y), 1_c)`.
template <Pattern... Ps>
consteval auto list(Ps...) {
  constexpr bool few = sizeof...(Ps) <= 64, flat = (true && ... && (Ps::kind != Term::Kind::list));
  static_assert(few, "fxx::list: a list in a pattern holds 64 items at most");
  static_assert(flat, "fxx::list: an item is a list itself; no operator takes lists of lists");
  if constexpr (few && flat) return list_of<Ps...>{};
  else return mistake{};
}

/// Computed once a type.
template <class P>
inline constexpr Flat<P::form.term.size> flat = flatten<P::form.term.size>(P::form);
/// Does some capture of the pattern have this id?
template <class P>
consteval bool binds(std::uint64_t id) {
  for (const Term& t : flat<P>)
    if (binds_name(t) && t.id == id) return true;
  return false;
}

namespace detail {
template <class P, class... Conditions>
inline constexpr const Form* form_under = &where_of<P, Conditions...>::form;
template <class P>
inline constexpr const Form* form_under<P> = &P::form;
template <bool Sound, class P>
consteval Form where_form() {
  return P::form;
}
template <bool Sound, class P, class First, class... More>
consteval Form where_form() {
  if constexpr (!Sound) return P::form;
  else return form_of({.kind = Term::Kind::where, .condition = &condition_of<First>}, &form_under<P, More...>, 1);
}
}  // namespace detail
/// `p.where(conditions...)`.
template <class P, class... Conditions>
struct where_of : followed<where_of<P, Conditions...>> {
  static constexpr bool sound = (true && ... && detail::is_condition<Conditions>);
  static constexpr bool mistaken = P::mistaken || !sound;
  static constexpr int code = mistaken ? 0 : P::code;
  static constexpr Term::Kind kind = P::kind;
  using pattern = P;
  static constexpr Form form = detail::where_form<sound, P, Conditions...>();
};
/// `p.as<"name">()`.
template <fixed_string Name, class P>
struct named_of : followed<named_of<Name, P>> {
  static constexpr bool mistaken = P::mistaken;
  static constexpr int code = P::code;
  static constexpr Term::Kind kind = P::kind;
  static constexpr std::uint64_t id = hash_of(Name.view());
  using pattern = P;
  static constexpr Form form = detail::form_of({.kind = Term::Kind::named, .id = id, .name = Name.view()}, forms<P>, 1);
};

struct siblings_base : pattern_base {};
/// All users of `shared` that match `P` alone, two or more, as one match; the replacement is a callable.
template <class Shared, class P>
struct siblings_of : siblings_base {
  static constexpr bool mistaken = P::mistaken;
  static constexpr Term::Kind kind = Term::Kind::outputs;  // like those it stands at the root alone
  static constexpr std::uint64_t shared = Shared::id;
  using member = P;
  static constexpr Form form = P::form;
};
/// By a base, since clang writes down the whole type where a requires-expression finds no such member.
template <class P>
concept Siblings = __is_base_of(siblings_base, P);

template <fixed_string Name, Term::Kind What, Pattern P>
consteval auto siblings(capture<Name, What>, P) {
  using Shared = capture<Name, What>;
  constexpr bool tensor = What == Term::Kind::tensor, bound = P::mistaken || binds<P>(Shared::id),
                 plain = !needs_search(flat<P>.data());
  static_assert(tensor, "fxx::siblings: the first argument is the tensor that they share: a capture tensor<\"x\">");
  static_assert(bound || !tensor,
                "fxx::siblings: the pattern of the siblings does not use the tensor that they share; "
                "capture it under the same name");
  static_assert(plain,
                "fxx::siblings: the pattern of the siblings holds rest, each, chain, operands_of or a module; siblings "
                "are matched by plain calls");
  if constexpr (tensor && bound && plain) return siblings_of<Shared, P>{};
  else return mistake{};
}

template <class... Args>
consteval mistake siblings(Args...) {
  detail::misused<detail::Call::siblings, Args...>();
  return {};
}

namespace detail {
/// Their names show the operator and the numbers in the compiler's message.
template <auto Operator, int Given, int Least, int Most, bool Fits>
consteval void wrong_arity() {
  static_assert(Fits, "fxx::op: wrong number of arguments for this operator; its schema says how many it takes");
}
template <auto Operator, bool Fits>
consteval void wrong_keyword() {
  static_assert(Fits,
                "fxx::op: the operator has no parameter of that name, or it is given twice; its schema names them");
}
template <auto Operator, bool Fits>
consteval void wrong_kind() {
  static_assert(Fits,
                "fxx::op: no overload of this operator takes arguments of these kinds; tensors are tensor<\"x\">, "
                "numbers scalar<\"s\"> or 1_c");
}
template <class Argument>
consteval void not_a_pattern() {
  static_assert(Pattern<Argument>,
                "fxx::op: an argument is not a pattern; write numbers as 0_c and captures as tensor<\"x\">");
}
template <class... Arguments>
consteval mistake not_patterns() {
  (not_a_pattern<Arguments>(), ...);
  return {};
}

template <int... Codes>
struct codes;
template <int... Codes>
constexpr int choose(codes<Codes...>*, const Overload* overloads, int n) {
  if ((false || ... || (Codes == 0))) return -1;
  const Given all[] = {given(Codes)..., {}};
  const int at = select(overloads, n, all, int(sizeof...(Codes))).overload;
  return at < 0 ? -1 : overloads[at].key;
}
/// The operator that takes arguments of these kinds, by its place in the table; -1 when it takes a closer look. One
/// constant for all calls alike.
template <class Codes, auto... Keys>
inline constexpr int key_for = choose(static_cast<Codes*>(nullptr), overloads_of<Keys...>, int(sizeof...(Keys)));

template <auto First, auto... More, class... Args>
consteval auto look_closer(Args...) {
  using fxx::detail::parsed;
  if constexpr ((Args::mistaken || ...)) {
    return mistake{};
  } else if constexpr ((false || ... || (Args::kind == Term::Kind::outputs))) {
    static_assert((true && ... && (Args::kind != Term::Kind::outputs)),
                  "fxx::op: outputs and siblings are whole patterns; they do not stand inside of a call");
    return mistake{};
  } else {
    constexpr Given all[] = {given(Args::form)..., {}};
    constexpr Selected s = select(overloads_of<First, More...>, int(1 + sizeof...(More)), all, int(sizeof...(Args)));
    if constexpr (s.overload == 0) {
      return call<First, Args...>{};
    } else if constexpr (s.overload > 0) {
      constexpr OperatorIndex keys[] = {First, More...};
      return call<keys[s.overload], Args...>{};
    } else {
      if constexpr (s.misfit == Misfit::kind) wrong_kind<First, false>();
      else if constexpr (s.misfit == Misfit::keyword) wrong_keyword<First, false>();
      else wrong_arity<First, int(sizeof...(Args)), parsed<First>.required, parsed<First>.arity(), false>();
      return mistake{};
    }
  }
}
}  // namespace detail

/// A call of the first overload among the operators that takes these patterns; one sentence when there is none.
template <auto... Keys, class... Args>
consteval auto call_operator(Args... args) {
  if constexpr (!(Pattern<Args> && ...)) {
    return detail::not_patterns<Args...>();
  } else {
    constexpr int key = detail::key_for<detail::codes<Args::code...>, Keys...>;
    if constexpr (key >= 0) return call<OperatorIndex(key), Args...>{};
    else return detail::look_closer<Keys...>(args...);
  }
}

template <auto... Keys>
struct choice {
  template <class... Args>
  consteval auto operator()(Args... args) const {
    static_assert(sizeof...(Keys) <= 255, "fxx::op: a value has 255 alternatives at most");
    if constexpr (sizeof...(Keys) == 0) {
      detail::misused<detail::Call::any_of, Args...>();
      return mistake{};
    } else if constexpr (sizeof...(Keys) > 255) {
      return mistake{};
    } else {
      return either<decltype(call_operator<Keys>(args...))...>{};
    }
  }
};
/// One of several operators with the same arguments: `any_of<ops::relu, ops::sigmoid>(x)`.
template <auto... Ops>
  requires(AnOperation<Ops> && ...)
inline constexpr choice<fxx::detail::key_of(Ops)...> any_of{};

/// A call of an operator that has no function here: `apply<op<"my::rotate(Tensor x) -> Tensor">>(x)`; or of just this
/// overload: `apply<ops::sum>(x)`.
template <auto Op, class... Args>
  requires AnOperation<Op>
consteval auto apply(Args... args) {
  return call_operator<fxx::detail::key_of(Op)>(args...);
}

template <fixed_string Name>
inline constexpr capture<Name, Term::Kind::tensor> tensor{};
template <fixed_string Name>
inline constexpr capture<Name, Term::Kind::optional> optional{};
template <fixed_string Name>
inline constexpr capture<Name, Term::Kind::constant> constant{};
template <fixed_string Name>
inline constexpr capture<Name, Term::Kind::scalar> scalar{};
template <fixed_string Name>
inline constexpr capture<Name, Term::Kind::sequence> sequence{};
template <fixed_string Name>
inline constexpr capture<Name, Term::Kind::size> sym_int{};
template <fixed_string Name>
inline constexpr capture<Name, Term::Kind::value> value{};
inline constexpr wildcard _{};
template <auto Value>
inline constexpr literal<Value> lit{};
template <fixed_string Text>
inline constexpr text_literal<Text> text{};
namespace detail {
template <std::int64_t... Items>
consteval auto integers() {
  constexpr bool fits = sizeof...(Items) <= Literal::max_items;
  static_assert(fits, "fxx::ints: a list of numbers in a pattern holds four at most");
  if constexpr (fits) return integers_literal<Items...>{};
  else return mistake{};
}
}  // namespace detail
template <std::int64_t... Items>
inline constexpr auto ints = detail::integers<Items...>();
inline constexpr none_literal none{};
/// A number that rounding may have changed, as in 1.4142135 for sqrt(2): within one part in a million.
/// `near(1.4142135_c)`.
template <auto Value>
consteval literal<Value, Term::Kind::near> near(literal<Value>) {
  return {};
}
template <class... Args>
consteval mistake near(Args...) {
  detail::misused<detail::Call::near, Args...>();
  return {};
}
namespace detail {
template <fixed_string Name>
struct keyword_maker {
  template <Pattern P>
  consteval keyword<Name, P> operator()(P) const {
    return {};
  }
  template <class... Args>
  consteval mistake operator()(Args...) const {
    misused<Call::arg, Args...>();
    return {};
  }
};
}  // namespace detail
template <fixed_string Name>
inline constexpr detail::keyword_maker<Name> arg{};

namespace literals {
namespace detail {
template <char... C>
struct number {
  static constexpr char text[] = {C...};
  static constexpr Literal value = parse_literal({text, sizeof...(C)});
};
}  // namespace detail
/// `0_c`, `0.5_c`, `0x1.8p-3_c`: numbers that the compiler can compare, each the one that C++ reads there.
template <char... C>
consteval auto operator""_c() {
  constexpr Literal v = detail::number<C...>::value;
  constexpr std::string_view text(detail::number<C...>::text, sizeof...(C));
  constexpr bool octal = text[0] == '0' && v.kind == Literal::Kind::integer && text.size() > 1;
  static_assert(v.is_number() && !octal, "fxx::_c: not a decimal number, nor a hexadecimal one with an exponent, such as 0x1.8p-3; "
                                         "integers fit into 64 bits with a sign, real numbers into a double");
  if constexpr (v.kind == Literal::Kind::real) return literal<real_bits(v.real)>{};
  else return literal<v.integer>{};
}
}  // namespace literals

/// The negative of a number: `-1_c`.
template <auto Value>
consteval auto operator-(literal<Value>) {
  return literal<-Value>{};
}

}  // namespace fxx::inline FXX_ABI::rewrite
