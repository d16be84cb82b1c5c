// Which overload of an operator a call in a pattern means, by what the compiler knows of its arguments.
//
// Plain functions over data: templates would be instantiated for every call in every pattern.
// Main names: Given, given, could_be, Overload, select. Cost: light.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "fxx/ops/operation.hpp"
#include "fxx/rewrite/form.hpp"

namespace fxx::inline FXX_ABI::rewrite::detail {

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

/// What is known of an argument.
struct Given {
  Term::Kind kind = Term::Kind::any;
  Literal::Kind literal = Literal::Kind::absent;  // of a call that gives a number, too; of a list that of its constants
  std::string_view keyword = {};
  const Form* form = nullptr;  // of alternatives, lists and each: their members all must fit
};
constexpr Given given(const Form& form) {
  using K = Term::Kind;
  const Form* f = &form;
  while (is_wrapper(f->term)) f = f->members[0];
  Given g{.kind = f->term.kind, .keyword = form.keyword};
  if (g.kind == K::call) g.literal = number_given(*f->term.op);
  else if (g.kind == K::literal || g.kind == K::near) g.literal = f->term.value->kind;
  else if (g.kind == K::list || g.kind == K::each || g.kind == K::alternatives) g.form = f;
  return g;
}

// Most calls are told by a number an argument, so that calls with the same kinds of arguments share the choice.
/// The number of such an argument.
constexpr int code_of(Term::Kind kind, Literal::Kind literal = Literal::Kind::absent) {
  return 1 + int(kind) + 256 * int(literal);
}
constexpr Given given(int code) {
  return {.kind = Term::Kind((code - 1) & 255), .literal = Literal::Kind((code - 1) >> 8)};
}
/// The code of alternatives: what all have, or 0.
constexpr int common_code(std::initializer_list<int> codes) {
  for (const int code : codes)
    if (code != *codes.begin()) return 0;
  return *codes.begin();
}
/// The kind of number that an item of a list is; absent where it is something else, `other` where that takes a closer
/// look.
constexpr Literal::Kind number_of_item(const Form& item) {
  using K = Term::Kind;
  using L = Literal::Kind;
  const Given g = given(item);
  switch (g.kind) {
    case K::literal:
      return g.literal == L::boolean || g.literal == L::integer || g.literal == L::real ? g.literal : L::other;
    case K::scalar:
    case K::near:
    case K::size: return L::integer;
    case K::call: return g.literal == L::absent || g.literal == L::boolean ? g.literal : L::integer;
    case K::each: return number_of_item(*g.form->members[0]);
    case K::list:
    case K::sequence:
    case K::alternatives: return L::other;
    default: return L::absent;
  }
}
/// The code of a list: its numbers count, which must be of one kind for that.
constexpr int list_code(const Form* const* items, int count) {
  using L = Literal::Kind;
  L all = L::absent;
  for (int i = 0; i < count; ++i) {
    const L one = number_of_item(*items[i]);
    if (one == L::other || (one != L::absent && all != L::absent && one != all)) return 0;
    if (one != L::absent) all = one;
  }
  return code_of(Term::Kind::list, all);
}

constexpr bool could_be(const Given& g, const Type& type);
/// May a list with items of this type hold it? Nodes compute sizes, too.
constexpr bool could_be_item(const Given& g, const Type& item) {
  using K = Term::Kind;
  switch (g.kind) {
    case K::tensor:
    case K::constant:
    case K::optional:
    case K::operands:
    case K::chain:
    case K::module:
    case K::rest: return true;
    case K::call: return g.literal == Literal::Kind::absent || could_be(g, item);
    case K::each:
    case K::alternatives:
      for (int i = 0; i < g.form->count; ++i)
        if (!could_be_item(given(*g.form->members[i]), item)) return false;
      return true;
    default: return could_be(g, item);
  }
}
constexpr bool could_be_list(const Given& g, const Type& type) {
  if (type.base == ValueType::other || !type.list) return type.base == ValueType::other;
  const Type item{.base = type.base, .optional = type.optional_items};
  if (!g.form)
    return g.literal == Literal::Kind::absent || could_be({.kind = Term::Kind::literal, .literal = g.literal}, item);
  for (int i = 0; i < g.form->count; ++i)
    if (!could_be_item(given(*g.form->members[i]), item)) return false;
  return true;
}
/// May the argument stand for a parameter of this type?
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
    case K::operands:
    case K::chain:
    case K::module: return type.base == ValueType::tensor || type.base == ValueType::other;
    case K::optional: return type.base == ValueType::tensor && !type.list;
    case K::scalar:
    case K::near: return (number || type.base == ValueType::other) && (!type.list || type.list_size > 0);
    case K::size: return number || type.base == ValueType::other;
    case K::list: return could_be_list(g, type);
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
      for (int i = 0; i < g.form->count; ++i)
        if (!could_be(given(*g.form->members[i]), type)) return false;
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

}  // namespace fxx::inline FXX_ABI::rewrite::detail
