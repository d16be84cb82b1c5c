// Patterns of unknown size: rests of lists, items of one form, sums in any order, chains, modules, several outputs.
//
//   cat(list(x, rest<"others">))             a list: its first item, all others
//   cat(list(each<"parts">(relu(y))))        a list of any length whose items match; right: `list(each<"parts">(y))`
//   operands_of<ops::add_Tensor>(p, q, rest<"others">)  the operands of a chain of adds, however it is put together
//   maybe([](auto p) { return mul(p, s); }, x)          with the call around it or without
//   chain<"links">([](auto p) { return relu(p); }, x)  the call once or more often, one around the other
//   module<"my::Block">(x)                   a call of a module of that class
//   outputs(p, q)                            two values, replaced together by `outputs(r, s)` or a callable
//
// A name that stands inside of an `each` or a `chain` and outside of it too is one value for all; the other names
// inside are one value a time: `m.group<"parts">()`. The decision tree tests what it can, a search with backtracking
// does the rest (rewrite/term_matcher.hpp).
// Main names: rest, each, operands_of, maybe, chain, module, outputs, with. Cost: light.
#pragma once

#include "fxx/rewrite/pattern.hpp"

namespace fxx::inline FXX_ABI::rewrite {

template <fixed_string Name>
struct rest_of : pattern_base {
  static constexpr Term::Kind kind = Term::Kind::rest;
  static constexpr std::uint64_t id = hash_of(Name.view());
  static constexpr Form form{.term = {.kind = kind, .id = id, .name = Name.view()}};
};
/// All items of a list, or operands of a chain, that nothing else of the pattern matches; bound to a list.
template <fixed_string Name>
inline constexpr rest_of<Name> rest{};

template <fixed_string Name, class P>
struct each_of : pattern_base {
  static constexpr bool mistaken = P::mistaken;
  static constexpr Term::Kind kind = Term::Kind::each;
  static constexpr std::uint64_t id = hash_of(Name.view());
  static constexpr Form form = detail::form_of({.kind = kind, .id = id, .name = Name.view()}, forms<P>, 1);
};
template <fixed_string Name = "each", class... Args>
consteval mistake each(Args...) {
  detail::misused<detail::Call::each, Args...>();
  return {};
}
/// Any number of items, none too, that each match the pattern. On the right: one item for each of them. Among operands
/// it takes all that it can; only one that would bind a name which others share may be left to `rest`.
template <fixed_string Name = "each", Pattern P>
consteval each_of<Name, P> each(P) {
  return {};
}

template <auto Key>
struct operator_term : pattern_base {
  static constexpr const Operator* op = &fxx::detail::parsed<Key>;
  static constexpr Form form{.term = {.kind = Term::Kind::any, .id = op->means, .op = op}};
};
/// `operands_of<op, ...>(p...)`. Its first members are the operators, as `Term::any` with an id.
template <auto... Keys>
struct operators;
template <class Operators, class... Ps>
struct operands_pattern;
template <auto... Keys, class... Ps>
struct operands_pattern<operators<Keys...>, Ps...> : followed<operands_pattern<operators<Keys...>, Ps...>> {
  static constexpr bool mistaken = (false || ... || Ps::mistaken);
  static constexpr Term::Kind kind = Term::Kind::call;
  static constexpr const Form* const* members = forms<operator_term<Keys>..., Ps...>;
  static constexpr Form form =
      detail::form_of({.kind = Term::Kind::operands, .id = sizeof...(Keys), .op = members[0]->term.op}, members,
                      int(sizeof...(Keys) + sizeof...(Ps)));
};
namespace detail {
template <auto... Keys>
struct operands_maker {
  template <class... Ps>
  consteval auto operator()(Ps...) const {
    constexpr bool all = (Pattern<Ps> && ...);
    (not_a_pattern<Ps>(), ...);
    if constexpr (!all) return mistake{};
    else {
      constexpr bool several = sizeof...(Ps) > 1;
      static_assert(several, "fxx::operands_of: a chain has two operands or more; give two patterns or more");
      if constexpr (several) return operands_pattern<operators<Keys...>, Ps...>{};
      else return mistake{};
    }
  }
};
template <auto... Keys>
consteval auto make_operands() {
  using fxx::detail::parsed;
  constexpr bool fits = (true && ... && has(parsed<Keys>.traits, Trait::commutative)) ||
                        (true && ... && (parsed<Keys>.base_name() == "add" || parsed<Keys>.base_name() == "mul"));
  static_assert(fits, "fxx::operands_of: the operands of this operator may not change places");
  if constexpr (fits) return operands_maker<Keys...>{};
  else return [](auto...) consteval { return mistake{}; };
}
}  // namespace detail
/// `operands_of<ops::add_Tensor, ops::add_Scalar>(p, q, rest<"others">)`: all operands of a chain of these operators,
/// in any order and however it was put together: (a + b) + c, a + (b + c). Links that somebody else uses too end the
/// chain, and so does an argument besides the two operands, as in `a + 2 b`. On the right it builds such a chain of the
/// first operator.
template <auto... Ops>
  requires(AnOperation<Ops> && ...)
inline constexpr auto operands_of = detail::make_operands<fxx::detail::key_of(Ops)...>();

template <fixed_string Name, class Value, class P>
struct bound_of : followed<bound_of<Name, Value, P>> {
  static constexpr bool mistaken = P::mistaken || Value::mistaken;
  static constexpr Term::Kind kind = P::kind;
  using pattern = P;
  static constexpr Form form = detail::form_of(
      {.kind = Term::Kind::bound, .id = hash_of(Name.view()), .value = &Value::value, .name = Name.view()}, forms<P>,
      1);
};
namespace detail {
template <fixed_string Name>
struct bound_maker {
  template <class Value, Pattern P>
  consteval auto operator()(Value, P) const {
    constexpr bool constant = requires { Value::value.kind; };
    static_assert(constant, "fxx::with: the value is not a constant; write 1_c, lit<true>, text<\"tanh\"> or none");
    if constexpr (constant) return bound_of<Name, Value, P>{};
    else return mistake{};
  }
  template <class... Args>
  consteval mistake operator()(Args...) const {
    misused<Call::with, Args...>();
    return {};
  }
};
}  // namespace detail
/// `with<"scale">(1_c, p)`: matches `p`, and the capture "scale" is 1. For alternatives that do not hold it otherwise.
template <fixed_string Name>
inline constexpr detail::bound_maker<Name> with{};

namespace detail {
template <class F, class P>
concept MakesPattern = requires(F f, P p) { requires Pattern<decltype(f(p))>; };
}  // namespace detail
template <class... Args>
consteval mistake maybe(Args...) {
  detail::misused<detail::Call::maybe, Args...>();
  return {};
}
/// `maybe(f, p)`: `f(p)` or `p` alone. A name that only `f` binds is None when it is not there; `with` gives it a value,
/// which it needs where the right side has it for what cannot be None.
template <class F, Pattern P>
consteval auto maybe(F f, P p) {
  if constexpr (detail::MakesPattern<F, P>) return f(p) | p;
  else return detail::misused<detail::Call::maybe, F>(), mistake{};
}

struct hole_pattern : followed<hole_pattern> {
  static constexpr Term::Kind kind = Term::Kind::any;
  static constexpr Form form{.term = {.kind = Term::Kind::hole}};
};
template <fixed_string Name, int Least, class Link, class P>
struct chain_of : followed<chain_of<Name, Least, Link, P>> {
  static constexpr bool mistaken = P::mistaken || Link::mistaken;
  static constexpr Term::Kind kind = Term::Kind::call;
  static constexpr Form form = detail::form_of(
      {.kind = Term::Kind::chain, .id = hash_of(Name.view()), .least = Least, .name = Name.view()}, forms<Link, P>, 2);
};
namespace detail {
/// Is it a call around the hole, whichever of its alternatives is there?
constexpr bool is_link(const Term* t) {
  while (is_wrapper(*t)) ++t;
  bool around = t->kind == Term::Kind::alternatives;
  if (around) {
    const Term* child = t + 1;
    for (int i = 0; i < t->children; ++i, child += child->size) around = around && is_link(child);
    return around;
  }
  for (int i = 0; i < t->size; ++i) around = around || t[i].kind == Term::Kind::hole;
  return around && t->kind == Term::Kind::call;
}
}  // namespace detail
template <fixed_string Name = "chain", int Least = 1, class... Args>
consteval mistake chain(Args...) {
  detail::misused<detail::Call::chain, Args...>();
  return {};
}
/// `chain<"links">([](auto p) { return relu(p); }, x)`: the call `Least` times or more often, each around the next, and
/// the innermost around `x`. As many links as there are.
template <fixed_string Name = "chain", int Least = 1, class F, Pattern P>
consteval auto chain(F f, P) {
  constexpr bool pattern = detail::MakesPattern<F, hole_pattern>;
  static_assert(pattern, "fxx::chain: the first argument is not a callable that makes a pattern out of a pattern");
  static_assert(Least >= 0, "fxx::chain: the least number of links is zero or more");
  if constexpr (!pattern || Least < 0) {
    return mistake{};
  } else {
    using Link = decltype(f(hole_pattern{}));
    if constexpr (Link::mistaken) return mistake{};
    else {
      constexpr bool used = detail::is_link(flat<Link>.data());
      static_assert(used, "fxx::chain: a link has to be a call that holds what the next link is put into");
      if constexpr (used) return chain_of<Name, Least, Link, P>{};
      else return mistake{};
    }
  }
}

template <fixed_string Class, class... Args>
struct module_call : followed<module_call<Class, Args...>> {
  static constexpr bool mistaken = (false || ... || Args::mistaken);
  static constexpr Term::Kind kind = Term::Kind::call;
  static constexpr Form form =
      detail::form_of({.kind = Term::Kind::module, .id = hash_of(Class.view()), .name = Class.view()}, forms<Args...>,
                      int(sizeof...(Args)));
};
namespace detail {
template <fixed_string Class>
struct module_maker {
  template <class... Args>
  consteval auto operator()(Args...) const {
    constexpr bool all = (true && ... && Pattern<Args>);
    (not_a_pattern<Args>(), ...);
    if constexpr (all) return module_call<Class, Args...>{};
    else return mistake{};
  }
};
}  // namespace detail
/// `module<"torch::nn::LSTM">(x)`: a call of a module of this class, as its owner spells it. Its options are asked by
/// `.where([](const Node& n) { return module_info(n)->construct == ...; })`. Modules that are one operator are matched
/// as that operator, and by their class only where a rule names it.
template <fixed_string Class>
inline constexpr detail::module_maker<Class> module{};

template <class... Ps>
struct several : pattern_base {
  static constexpr bool mistaken = (false || ... || Ps::mistaken);
  static constexpr Term::Kind kind = Term::Kind::outputs;
  static constexpr Form form = detail::form_of({.kind = kind}, forms<Ps...>, int(sizeof...(Ps)));
};
template <class... Args>
consteval mistake outputs(Args...) {
  detail::misused<detail::Call::outputs, std::bool_constant<(sizeof...(Args) > 1)>>();
  return {};
}
/// Values that are found and replaced together. All but the first should use something that an earlier one captures:
/// they are looked for among its users, and where there is nothing, in the whole graph.
template <Pattern... Ps>
  requires(sizeof...(Ps) > 1)
consteval several<Ps...> outputs(Ps...) {
  return {};
}

// --- numbers -------------------------------------------------------------------------------------------------------

/// `scalar<"s">.where(between(0_c, 1_c))`: both ends count.
template <auto Low, auto High>
consteval conditions::between_t<literal<Low>, literal<High>> between(literal<Low>, literal<High>) {
  constexpr bool in_order = literal<Low>::value.number() <= literal<High>::value.number();
  static_assert(in_order, "fxx::between: no number is between these; the lower one stands first");
  return {};
}
template <class... Args>
consteval conditions::between_t<literal<0>, literal<1>> between(Args...) {
  detail::misused<detail::Call::between, Args...>();
  return {};
}
namespace detail {
template <class P>
concept Number = Pattern<P> && (P::kind == Term::Kind::scalar || P::kind == Term::Kind::size);
}
namespace detail {
template <class A, class B, bool Equal>
consteval mistake not_comparable() {
  constexpr bool patterns = Pattern<A> && Pattern<B>;
  static_assert(patterns, "fxx::where: what a number is compared with is not a pattern; write it as 0_c");
  static_assert(!patterns || !Equal,
                "fxx::where: == is no condition; a number stands as it is, mul(x, 0_c), and equal tensors are the same "
                "name twice, or eq(x, y)");
  static_assert(!patterns || Equal,
                "fxx::where: only a number is compared, and with a constant: scalar<\"s\"> > 0_c; a comparison of "
                "tensors is gt(x, y), one of two numbers is for the guard");
  return {};
}
/// Is it compared with a constant?
template <class P, class Q>
inline constexpr bool compares = false;
template <Number P, auto Value>
inline constexpr bool compares<P, literal<Value>> = true;
}  // namespace detail
#define FXX_RELATION(symbol, how, mirrored)                                                          \
  template <class A, class B>                                                                        \
    requires(Pattern<A> || Pattern<B>)                                                               \
  consteval auto operator symbol(A a, B b) {                                                         \
    using conditions::Relation, conditions::compared;                                                \
    if constexpr (detail::compares<A, B>) return a.where(compared<Relation::how, B>{});              \
    else if constexpr (detail::compares<B, A>) return b.where(compared<Relation::mirrored, A>{});    \
    else return detail::not_comparable<A, B, false>();                                               \
  }
FXX_RELATION(<, less, greater)
FXX_RELATION(<=, less_equal, greater_equal)
FXX_RELATION(>, greater, less)
FXX_RELATION(>=, greater_equal, less_equal)
/// `scalar<"s"> != 1_c`.
FXX_RELATION(!=, unequal, unequal)
#undef FXX_RELATION
template <class A, class B>
  requires(Pattern<A> || Pattern<B>)
consteval mistake operator==(A, B) {
  return detail::not_comparable<A, B, true>();
}
template <class A, class B>
  requires(Pattern<A> || Pattern<B>)
consteval mistake operator&&(A, B) {
  static_assert(sizeof(A) == 0,
                "fxx::where: patterns are not joined by &&; several conditions on one value are x.where(a, b), "
                "s.where(between(0_c, 1_c))");
  return {};
}

}  // namespace fxx::inline FXX_ABI::rewrite
