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
#include <type_traits>

#include "fxx/meta/fixed_string.hpp"
#include "fxx/ops/operation.hpp"
#include "fxx/rewrite/conditions.hpp"
#include "fxx/rewrite/misused.hpp"
#include "fxx/rewrite/term.hpp"

namespace fxx::inline FXX_ABI::rewrite {

struct pattern_base {
  static constexpr bool mistaken = false;  // a mistake in it was reported already, so no later check speaks of it
  // What an overload is chosen by, as a number, so that calls with the same kinds of arguments share the choice; 0 when
  // it takes a closer look.
  static constexpr int code = 0;
};
template <class P>
concept Pattern = __is_base_of(pattern_base, P);  // std::is_base_of_v would be a variable a type
/// `relu("x")` gets a sentence.
template <class... Args>
concept Texts = sizeof...(Args) > 0 && (__is_same(Args, const char*) && ...);

constexpr int code_of(Term::Kind kind, Literal::Kind literal = Literal::Kind::absent) {
  return 1 + int(kind) + 256 * int(literal);
}

/// The code that all of them have, or 0.
constexpr int common_code(std::initializer_list<int> codes) {
  for (const int code : codes)
    if (code != *codes.begin()) return 0;
  return *codes.begin();
}

/// What a pattern says, as data, which every pattern has as `form`. Constants, since a function a type that writes the
/// terms took the compiler twice the memory.
struct Form {
  Term term = {};                        // of the outermost; its size counts all
  const Form* const* members = nullptr;  // what stands below it: of a call the arguments that are given
  int count = 0;
  std::string_view keyword = {};  // of the parameter that it stands for, where that is said
};
template <class... Ps>
inline constexpr const Form* forms[sizeof...(Ps)] = {&Ps::form...};
template <>
inline constexpr const Form* const* forms<> = nullptr;

namespace detail {
/// The form of a term around these members.
constexpr Form form_of(const Term& term, const Form* const* members, int count) {
  Form f{.term = term, .members = members, .count = count};
  // A call also has a term for each parameter that is left out.
  const int children = term.kind == Term::Kind::call ? term.op->arity() : count;
  int size = 1 + children - count;
  for (int i = 0; i < count; ++i) size += members[i]->term.size;
  f.term.children = static_cast<std::uint8_t>(children);
  f.term.size = static_cast<std::uint16_t>(size);
  return f;
}
constexpr Form call_form(const Operator& op, const Form* const* arguments, int count) {
  return form_of({.kind = Term::Kind::call, .id = op.id, .op = &op}, arguments, count);
}
constexpr Form single_form(Form f) {
  f.term.once = true;
  return f;
}
constexpr Form keyword_form(Form f, std::string_view name) {
  f.keyword = name;
  return f;
}
/// What argument of a call stands for parameter `i`: its position, or -1 for the default.
constexpr int source_of(const Form& call, int i) {
  int found = -1;
  for (int at = 0; at < call.count; ++at) {
    const std::string_view keyword = call.members[at]->keyword;
    if (keyword.empty() ? at == i : call.term.op->index_of(keyword) == i) found = at;
  }
  return found;
}
/// Writes the terms of a pattern, in prefix order.
constexpr void write(const Form& form, Term*& out) {
  *out++ = form.term;
  const bool is_call = form.term.kind == Term::Kind::call;
  bool keyed = false;
  for (int i = 0; i < form.count; ++i) keyed = keyed || form.members[i]->keyword.size() > 0;
  if (!is_call || !keyed)
    for (int i = 0; i < form.count; ++i) write(*form.members[i], out);
  if (!is_call) return;
  for (int i = keyed ? 0 : form.count; i < form.term.children; ++i) {
    if (const int source = keyed ? source_of(form, i) : -1; source >= 0) {
      write(*form.members[source], out);
    } else {
      *out++ = {.kind = Term::Kind::standard, .value = &form.term.op->parameters[static_cast<std::size_t>(i)].standard};
    }
  }
}
}  // namespace detail

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
  static constexpr int code = code_of(What);
  static constexpr std::uint64_t id = hash_of(Name.view());
  static constexpr Form form{.term = {.kind = What, .id = id, .name = Name.view()}};
};

struct wildcard : followed<wildcard> {
  static constexpr Term::Kind kind = Term::Kind::any;
  static constexpr int code = code_of(kind);
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
  static constexpr int code = code_of(kind, value.kind);
  static constexpr Form form{.term = {.kind = Kind, .value = &value}};
};
template <fixed_string Text>
struct text_literal : pattern_base {
  static constexpr Term::Kind kind = Term::Kind::literal;
  static constexpr Literal value = Literal::of(Text.view());
  static constexpr int code = code_of(kind, value.kind);
  static constexpr Form form{.term = {.kind = kind, .value = &value}};
};
template <std::int64_t... Items>
struct integers_literal : pattern_base {
  static constexpr Term::Kind kind = Term::Kind::literal;
  static constexpr Literal value{.kind = Literal::Kind::integers, .count = sizeof...(Items), .items = {Items...}};
  static constexpr int code = code_of(kind, value.kind);
  static constexpr Form form{.term = {.kind = kind, .value = &value}};
};
struct none_literal : pattern_base {
  static constexpr Term::Kind kind = Term::Kind::literal;
  static constexpr Literal value{.kind = Literal::Kind::none};
  static constexpr int code = code_of(kind, value.kind);
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

namespace detail {
/// Of a call that gives a number, what kind of number; else absent.
constexpr Literal::Kind number_given(const Operator& op) {
  if (op.returns.size() != 1 || op.returns[0].type.list) return Literal::Kind::absent;
  switch (op.returns[0].type.base) {
    case ValueType::integer: return Literal::Kind::integer;
    case ValueType::scalar:
    case ValueType::real: return Literal::Kind::real;
    case ValueType::boolean: return Literal::Kind::boolean;
    default: return Literal::Kind::absent;
  }
}
}  // namespace detail
/// What all calls that give the same have in common, which then is one constant.
template <Literal::Kind Number>
struct call_base : pattern_base {
  static constexpr Term::Kind kind = Term::Kind::call;
  static constexpr int code = code_of(kind, Number);
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
  static constexpr int code = common_code(std::initializer_list<int>{Ps::code...});
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
  static constexpr int code = mistaken ? 0 : code_of(kind);
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

namespace detail {
constexpr bool binds_outside(const Term* all, int n, int first, int last, std::uint64_t id) {
  for (int i = 0; i < n; ++i)
    if ((i < first || i >= last) && binds_name(all[i]) && all[i].id == id) return true;
  return false;
}
/// A name that stands inside of an `each` or `chain` and outside of it too is one value for all of them.
constexpr void mark_shared(Term* all, int n) {
  for (int i = 0; i < n; ++i) {
    if (all[i].kind != Term::Kind::each && all[i].kind != Term::Kind::chain) continue;
    const int first = i + 1, last = first + (all[i].kind == Term::Kind::each ? all[i].size - 1 : all[first].size);
    for (int k = first; k < last; ++k)
      if (binds_name(all[k]) && binds_outside(all, n, first, last, all[k].id)) all[k].shared = true;
  }
}
}  // namespace detail
/// The terms of one pattern, and what a walk over them finds.
template <std::size_t Size>
struct Flat {
  Term terms[Size]{};
  Survey survey = {};
  constexpr const Term* data() const { return terms; }
  constexpr const Term* begin() const { return terms; }
  constexpr const Term* end() const { return terms + Size; }
  constexpr const Term& operator[](std::size_t i) const { return terms[i]; }
};
template <std::size_t Size>
constexpr Flat<Size> flatten(const Form& form) {
  Flat<Size> flat;
  Term* out = flat.terms;
  detail::write(form, out);
  detail::mark_shared(flat.terms, int(Size));
  flat.survey = survey(flat.terms);
  return flat;
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

/// All users of `shared` that match `P` alone, two or more, as one match; the replacement is a callable.
template <class Shared, class P>
struct siblings_of : pattern_base {
  static constexpr bool mistaken = P::mistaken;
  static constexpr Term::Kind kind = Term::Kind::outputs;  // like those it stands at the root alone
  static constexpr std::uint64_t shared = Shared::id;
  using member = P;
  static constexpr Form form = P::form;
};
template <class P>
concept Siblings = requires { typename P::member; };

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

// --- which overload a call means -------------------------------------------------------------------------------------

/// What the compiler knows of an argument before it chooses an overload.
struct Given {
  Term::Kind kind = Term::Kind::any;
  Literal::Kind literal = Literal::Kind::absent;  // and of a call that gives a number
  std::string_view keyword = {};
  const Given* members = nullptr;  // of alternatives, which must all fit
  int count = 0;
};
template <class P>
struct givens;
template <class P>
constexpr Given given() {
  Given g{.kind = P::kind};
  if constexpr (is_keyword<P>) {
    g = given<typename P::pattern>();
    g.keyword = P::name;
  } else if constexpr (requires { typename P::pattern; }) {
    return given<typename P::pattern>();
  } else if constexpr (P::kind == Term::Kind::alternatives) {
    g.members = givens<P>::all;
    g.count = sizeof(givens<P>::all) / sizeof(Given);
  } else if constexpr (requires { P::value.kind; }) {
    g.literal = P::value.kind;
  } else if constexpr (P::kind == Term::Kind::call) {
    g.literal = Literal::Kind(P::code >> 8);
  }
  return g;
}
template <class... Ps>
struct givens<either<Ps...>> {
  static constexpr Given all[] = {given<Ps>()...};
};

constexpr bool could_be(const Given& g, const Type& type) {
  using K = Term::Kind;
  using L = Literal::Kind;
  const bool number = type.base == ValueType::scalar || type.base == ValueType::integer || type.base == ValueType::real;
  switch (g.kind) {
    case K::tensor:
    case K::constant:
    case K::call:
      if (type.base == ValueType::other) return true;
      if (g.literal == L::boolean) return type.base == ValueType::boolean || type.base == ValueType::scalar;
      if (g.literal != L::absent) return number && (!type.list || type.list_size > 0);
      return type.base == ValueType::tensor && (!type.list || g.kind == K::call);
    case K::optional: return type.base == ValueType::tensor && !type.list;
    case K::scalar:
    case K::near: return (number || type.base == ValueType::other) && (!type.list || type.list_size > 0);
    case K::size: return number || type.base == ValueType::other;
    case K::list:
    case K::sequence: return type.list || type.base == ValueType::other;
    case K::rest:
    case K::each: return false;
    case K::literal:
      if (type.base == ValueType::other) return true;
      switch (g.literal) {
        case L::none: return type.optional;
        case L::boolean: return type.base == ValueType::boolean || type.base == ValueType::scalar;
        case L::integer: return number && (!type.list || type.list_size > 0);
        case L::real: return type.base == ValueType::scalar || type.base == ValueType::real;
        case L::string: return type.base == ValueType::string;
        case L::integers: return type.list && type.base == ValueType::integer;
        default: return true;
      }
    case K::alternatives:
      for (int i = 0; i < g.count; ++i)
        if (!could_be(g.members[i], type)) return false;
      return true;
    default: return true;
  }
}

enum class Misfit : std::uint8_t { none, too_few, too_many, keyword, kind };

constexpr Misfit misfit(const Operator& op, const Given* args, int count) {
  const int arity = op.arity();
  bool seen[64]{};
  for (int i = 0; i < count; ++i) {
    int at = i;
    if (!args[i].keyword.empty()) {
      at = op.index_of(args[i].keyword);
      if (at < 0) return Misfit::keyword;
    }
    if (at >= arity) return Misfit::too_many;
    if (seen[at]) return Misfit::keyword;
    seen[at] = true;
    if (!could_be(args[i], op.parameters[std::size_t(at)].type)) return Misfit::kind;
  }
  for (int i = 0; i < arity; ++i)
    if (!seen[i] && !op.parameters[std::size_t(i)].has_default()) return Misfit::too_few;
  return Misfit::none;
}

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

struct Overload {
  const Operator* op;
  int key;  // place in the table; -1 of the user's own
};
constexpr int number_of(OperatorIndex key) { return int(key); }
template <class Key>
constexpr int number_of(Key) {
  return -1;
}
template <auto... Keys>
inline constexpr Overload overloads_of[] = {{&fxx::detail::parsed<Keys>, number_of(Keys)}...};
struct Selected {
  int overload = -1;
  Misfit misfit = Misfit::none;
};
// No templates: they would be instantiated for every call in every pattern.
constexpr Selected select(const Overload* overloads, int overloads_count, const Given* args, int count) {
  Selected s;
  for (int at = 0; at < overloads_count; ++at) {
    const Misfit m = misfit(*overloads[at].op, args, count);
    if (m == Misfit::none && s.overload < 0) s.overload = at;
    else if (s.misfit == Misfit::none || (m == Misfit::kind && s.misfit != Misfit::none)) s.misfit = m;
  }
  if (s.overload >= 0 || s.misfit != Misfit::kind) return s;
  // What no overload has, or takes, is said before the kinds.
  bool too_many = true, too_few = true;
  for (int at = 0; at < overloads_count; ++at) {
    too_many = too_many && count > overloads[at].op->arity();
    too_few = too_few && count < overloads[at].op->required;
  }
  if (too_many) s.misfit = Misfit::too_many;
  if (too_few) s.misfit = Misfit::too_few;
  for (int i = 0; i < count; ++i) {
    bool known = args[i].keyword.empty();
    for (int at = 0; at < overloads_count && !known; ++at) known = overloads[at].op->index_of(args[i].keyword) >= 0;
    if (!known) s.misfit = Misfit::keyword;
  }
  return s;
}

}  // namespace detail

template <int... Codes>
struct codes;
namespace detail {
template <int... Codes>
constexpr int choose(codes<Codes...>*, const Overload* overloads, int n) {
  if ((false || ... || (Codes == 0))) return -1;
  const Given given[] = {Given{.kind = Term::Kind((Codes - 1) & 255), .literal = Literal::Kind((Codes - 1) >> 8)}...,
                         {}};
  const int at = select(overloads, n, given, int(sizeof...(Codes))).overload;
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
    constexpr Given given[] = {detail::given<Args>()..., {}};
    constexpr Selected s = select(overloads_of<First, More...>, int(1 + sizeof...(More)), given, int(sizeof...(Args)));
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
    constexpr int key = detail::key_for<codes<Args::code...>, Keys...>;
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
/// `0_c`, `0.5_c`: numbers that the compiler can compare.
template <char... C>
consteval auto operator""_c() {
  constexpr Literal v = detail::number<C...>::value;
  static_assert(v.is_number(), "fxx::_c: not a decimal number");
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
