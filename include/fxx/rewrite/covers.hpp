// Whether a pattern matches all that another one, or the result of a rule, describes; or anything of it.
//
// What rules are checked by: that they do not match their own results, are not shadowed, do not undo each other.
// Main names: covers, may_match, Reading, BuiltOperands. Exponential in commutative calls and alternatives, of which a
// pattern has max_choices at most. Cost: light.
#pragma once

#include "fxx/rewrite/survey.hpp"

namespace fxx::inline FXX_ABI::rewrite {

struct CaptureBinding {
  std::uint64_t id;
  const Term* to;
};

/// The names of `p`, which reads the same as `t`, hold what they hold elsewhere in the pattern.
constexpr bool binds_alike(const Term* p, const Term* t, CaptureBinding* bound, int& n) {
  for (int i = 0; i < p->size; ++i) {
    if (!is_capture(p[i]) && p[i].kind != Term::Kind::rest) continue;
    int known = 0;
    while (known < n && bound[known].id != p[i].id) ++known;
    if (known == n) bound[n++] = {p[i].id, t + i};
    else if (!same(bound[known].to, t + i)) return false;
  }
  return true;
}

/// Which of the alternatives in a pattern is looked at, by the place of the term: chosen when it is met first.
struct Reading {
  const Term* at[max_choices];
  std::uint8_t taken[max_choices];
  int count = 0;
  bool too_many = false;

  constexpr const Term* member(const Term* alternatives) {
    int k = 0;
    while (k < count && at[k] != alternatives) ++k;
    if (k == max_choices) return too_many = true, alternatives + 1;
    if (k == count) {
      at[count] = alternatives;
      taken[count++] = 0;
    }
    const Term* child = alternatives + 1;
    for (int i = taken[k]; i > 0; --i) child += child->size;
    return child;
  }
  /// The next reading of what has been met; false after the last one.
  constexpr bool advance() {
    while (count > 0 && taken[count - 1] + 1 >= at[count - 1]->children) --count;
    if (count == 0) return false;
    ++taken[count - 1];
    return true;
  }
  /// What stands inside of wrappers and alternatives; `t` itself when it is neither.
  constexpr const Term* inside(const Term* t) {
    while (is_wrapper(*t) || t->kind == Term::Kind::alternatives) t = is_wrapper(*t) ? t + 1 : member(t);
    return t;
  }
};

/// Of the items of a list, how many stand before those that may be none, and how many behind them.
struct FixedItems {
  int before = 0, behind = 0;
  constexpr explicit FixedItems(const Term* list) {
    const Term* item = list + 1;
    bool opened = false;
    for (int i = 0; i < list->children; ++i, item += item->size) {
      if (is_open(*item)) opened = true, behind = 0;
      else ++(opened ? behind : before);
    }
  }
};

constexpr bool covers(const Term* p, const Term* t, Choices& c, Reading& d, CaptureBinding* bound, int& n);
/// May what stands for the constant `t` in a graph be of a kind that the capture `p` does not hold?
constexpr bool has_other_spellings(const Term* p, const Term* t, const Parameter& parameter) {
  using K = Term::Kind;
  while (is_wrapper(*p)) ++p;
  while (is_wrapper(*t)) ++t;
  if (!is_constant(*t)) return false;
  const Type& type = parameter.type;
  if (p->kind == K::size) return type.list || type.base != ValueType::integer;
  if (p->kind == K::scalar || p->kind == K::near) return type.list;
  return p->kind == K::sequence && type.list_size > 0;
}
/// An argument of a call.
constexpr bool covers_argument(const Term* p, const Term* t, const Parameter& parameter, Choices& c, Reading& d,
                               CaptureBinding* bound, int& n) {
  return !(c.graphs && has_other_spellings(p, t, parameter)) && covers(p, t, c, d, bound, n);
}
/// The items of a list, where one in `p` may stand for any number of those in `t`, which are as many as there are.
constexpr bool covers_items(const Term* p, const Term* t, Choices& c, Reading& d, CaptureBinding* bound, int& n) {
  const int taken = t->children - p->children + 1;  // by the open one
  const Term *pc = p + 1, *tc = t + 1;
  bool opened = false;
  if (has_open_items(t)) {
    if (!has_open_items(p)) return false;
    const FixedItems wanted(p), there(t);
    if (wanted.before > there.before || wanted.behind > there.behind) return false;
  }
  for (int i = 0; i < p->children; ++i, pc += pc->size) {
    if (!is_open(*pc)) {
      if (!opened && i >= t->children) return false;
      if (!covers(pc, tc, c, d, bound, n)) return false;
      tc += tc->size;
      continue;
    }
    if (opened || taken < 0) return false;  // of two nothing more is known
    opened = true;
    if (pc->kind == Term::Kind::rest) {
      for (int k = 0; k < n; ++k)
        if (bound[k].id == pc->id) return false;
      bound[n++] = {pc->id, pc};  // equals nothing
    }
    for (int k = 1; k < pc->size; ++k)
      if (pc[k].shared) return false;
    for (int k = 0; k < taken; ++k, tc += tc->size) {
      const int outside = n;  // names of an item are its own
      if (pc->kind == Term::Kind::each && tc->kind == Term::Kind::rest && pc[1].kind != Term::Kind::any) return false;
      const Term* item = tc->kind == Term::Kind::each ? tc + 1 : tc;
      if (pc->kind == Term::Kind::each && !covers(pc + 1, item, c, d, bound, n)) return false;
      n = outside;
    }
  }
  return opened || p->children == t->children;
}

/// Does the result `t` build a link of the chain `p`?
constexpr bool is_built_link(const Term* p, const Term* t) {
  const bool chain = t->kind == Term::Kind::operands;
  if (!chain && (t->kind != Term::Kind::call || t->children < 2 || !gives_two(t))) return false;
  for (std::uint64_t i = 1; i <= p->id; ++i)
    if (p[i].id == (chain ? t[1].id : t->id)) return true;
  return false;
}
/// What a chain that a result builds surely has, among others perhaps.
struct BuiltOperands {
  static constexpr int most = 16;
  const Term* at[most]{};
  int count = 0, calls = 0;
  bool others = false, unclear = false;

  constexpr void add(const Term* p, const Term* t) {
    using K = Term::Kind;
    if (!is_built_link(p, t)) {
      others = others || is_open(*t) || count == most;
      if (is_open(*t) || count == most) return;
      calls += t->kind == K::call;
      at[count++] = t;
      return;
    }
    const bool chain = t->kind == K::operands;
    const Term* operand = t + 1;
    for (int i = 0, n = chain ? t->children : 2; i < n; ++i, operand += operand->size) {
      if (chain && i < static_cast<int>(t->id)) continue;
      // A number makes a call of another overload of it.
      if (chain && !is_open(*operand) && sort_of(operand) != Sort::node) unclear = true;
      add(p, operand);
    }
  }
};
/// Does the chain that a rule builds as `t` says match `p`, a chain of the rule's own pattern?
constexpr bool covers_built(const Term* p, const Term* t, Choices& c, Reading& d, CaptureBinding* bound, int& n) {
  using K = Term::Kind;
  BuiltOperands all;
  all.add(p, t);
  int closed = 0;
  const Term *first = p + 1 + p->id, *end = p + p->size, *rest = nullptr;
  bool each = false;
  for (const Term* item = first; item != end; item += item->size) {
    closed += !is_open(*item);
    each = each || item->kind == K::each;
    if (item->kind == K::rest) rest = item;
  }
  if (all.unclear || (!rest && (each || all.others || all.count != closed))) return false;
  if (all.count < 2 && t->kind == K::operands) {
    // A chain of one operand is no call. A rest of what is a chain with one other operand is never empty.
    bool more = false;
    for (int i = 1; i < t->size; ++i) more = more || (t[i].kind == K::rest && rest && t[i].id == rest->id);
    if (!more || each || closed != 1 || all.count != 1) return false;
  }
  const auto is_bound = [&](std::uint64_t name) {
    for (int i = 0; i < n; ++i)
      if (bound[i].id == name) return true;
    return false;
  };
  bool used[BuiltOperands::most]{};
  for (const Term* item = first; item != end; item += item->size) {
    if (item->kind == K::rest) {
      if (is_bound(item->id)) return false;
      bound[n++] = {item->id, p + 1};  // equals nothing
    }
    if (is_open(*item)) continue;
    const int k = all.count ? c.take(all.count) : 0;
    if (!all.count || used[k]) return false;
    used[k] = true;
    const Term* operand = all.at[k];
    if (operand->kind == K::call || operand->kind == K::scalar || operand->kind == K::size || is_constant(*operand)) {
      if (!covers(item, operand, c, d, bound, n)) return false;
      continue;
    }
    // What is captured may be a chain itself, of which all operands then belong to this one: some tensor is there.
    if (!rest || (operand->kind != K::tensor && operand->kind != K::constant)) return false;
    if (item->kind == K::any) continue;
    if ((item->kind != K::tensor && item->kind != K::value) || is_bound(item->id)) return false;
    bound[n++] = {item->id, p + 1};
  }
  return true;
}

/// Does every node that `t` describes in the reading `d` match `p`, in the reading `c`? Captures of `t` are unknown
/// values.
constexpr bool covers(const Term* p, const Term* t, Choices& c, Reading& d, CaptureBinding* bound, int& n) {
  using K = Term::Kind;
  const auto bind = [&] {
    // Two calls that read the same are two nodes all the same, for all that is known.
    for (int i = 0; i < n; ++i)
      if (bound[i].id == p->id) {
        const Term& to = *bound[i].to;
        // What stands there may be 2 in one place and 2.0 in the other, which a name does not hold together.
        if (is_constant(to) && to.value->is_number()) return false;
        return to.kind == K::named ? t->kind == K::tensor && t->id == to.id : !has_call(t) && same(&to, t);
      }
    bound[n++] = {p->id, t};
    return true;
  };
  if (p->kind == K::where) {
    for (const Term* w = t; is_wrapper(*w) || w->kind == K::alternatives; w = is_wrapper(*w) ? w + 1 : d.member(w))
      if (w->kind == K::where && w->condition == p->condition) return covers(p + 1, t, c, d, bound, n);
    return false;
  }
  if (p->kind == K::named || p->kind == K::bound) {
    // The name is that of a node, which captures of `t` stand for where it has a name there, too.
    for (int i = 0; i < n; ++i)
      if (bound[i].id == p->id) return false;
    const Term* node = t;
    while ((is_wrapper(*node) && node->kind != K::named) || node->kind == K::alternatives)
      node = is_wrapper(*node) ? node + 1 : d.member(node);
    bound[n++] = {p->id, node};
    return covers(p + 1, t, c, d, bound, n);
  }
  if (p->kind == K::any) return true;
  t = d.inside(t);
  const bool node = t->kind == K::tensor || t->kind == K::constant || t->kind == K::call || t->kind == K::operands ||
                    t->kind == K::module;
  switch (p->kind) {
    case K::value: return bind();
    case K::tensor: return node && bind();
    case K::optional:
      return (node || t->kind == K::optional || (is_constant(*t) && t->value->kind == Literal::Kind::none)) && bind();
    case K::constant: return t->kind == K::constant && bind();
    case K::sequence:
      return (t->kind == K::sequence || t->kind == K::list ||
              (is_constant(*t) && t->value->kind == Literal::Kind::integers)) &&
             bind();
    case K::size: return (t->kind == K::size || (is_constant(*t) && t->value->kind == Literal::Kind::integer)) && bind();
    case K::scalar:
      return (t->kind == K::scalar || t->kind == K::near || (is_constant(*t) && t->value->is_number())) && bind();
    case K::literal:
    case K::standard: return is_constant(*t) && *p->value == *t->value;
    case K::near:
      return ((is_constant(*t) && t->value->is_number()) || t->kind == K::near) &&
             is_near(t->value->number(), p->value->number());
    case K::alternatives: {
      int k = c.take(p->children);
      const Term* child = p + 1;
      while (k--) child += child->size;
      return covers(child, t, c, d, bound, n);
    }
    case K::list: {
      if (t->kind != K::list) return false;
      if (has_open_items(t) && same(p, t)) return binds_alike(p, t, bound, n);
      return covers_items(p, t, c, d, bound, n);
    }
    case K::chain: {
      if (t->kind == K::chain) return same(p, t) && binds_alike(p, t, bound, n);
      if (!is_plain_link(p + 1)) return false;
      if (p->least == 0 && c.take(2) == 1) return covers(p + 1 + p[1].size, t, c, d, bound, n);
      c.chain = p;
      c.links = p->least - 1;
      return covers(p + 1, t, c, d, bound, n);
    }
    case K::hole: {
      if (!c.chain) return false;
      const Term* link = c.chain + 1;
      // With as many links as it wants it is a match, and with more of them too.
      const bool another = c.links > 0 || (t->kind == K::call && t->id == link->id && c.take(2) == 1);
      --c.links;
      return covers(another ? link : link + link->size, t, c, d, bound, n);
    }
    case K::call: {
      if (t->kind != K::call || t->id != p->id) return false;
      if (p->once && !t->once && (!c.result || t == c.result)) return false;
      const Term *pc = p + 1, *tc = t + 1;
      int i = 0;
      if (two_orders(p)) {
        const Term *first = tc, *second = tc + tc->size;
        const bool swapped = c.take(2) == 1;
        if (!covers(pc, swapped ? second : first, c, d, bound, n)) return false;
        if (!covers(pc + pc->size, swapped ? first : second, c, d, bound, n)) return false;
        for (; i < 2; ++i) pc += pc->size, tc += tc->size;
      } else if (two_orders(t) && !same(pc, pc + pc->size)) {
        // What `t` describes may also stand the other way round.
        const int known = n;
        const Term *second = tc + tc->size, *third = second + second->size, *last = pc + pc->size;
        if (!covers(pc, second, c, d, bound, n) || !covers(last, tc, c, d, bound, n)) return false;
        for (int k = 2; k < p->children; ++k, third += third->size) {
          last += last->size;
          if (!covers(last, third, c, d, bound, n)) return false;
        }
        n = known;
      }
      for (; i < p->children; ++i, pc += pc->size, tc += tc->size)
        if (!covers_argument(pc, tc, p->op->parameters[static_cast<std::size_t>(i)], c, d, bound, n)) return false;
      return true;
    }
    case K::operands:
      if (c.built && is_built_link(p, t)) return covers_built(p, t, c, d, bound, n);
      [[fallthrough]];
    default: return same(p, t) && binds_alike(p, t, bound, n);  // of chains and searches nothing more is known
  }
}

/// Some reading of `p` covers `t`, whichever of its alternatives it is. `result`: `t` is part of this result of a rule,
/// `built`: of the rule of `p`; `graphs`: `t` is a pattern, and what it finds counts.
constexpr bool covers(const Term* p, const Term* t, bool built = false, const Term* result = nullptr,
                      bool graphs = false) {
  const Term* inner = t;
  while (is_wrapper(*inner)) ++inner;
  if (p->kind == Term::Kind::call && inner->kind != Term::Kind::alternatives &&
      (inner->kind != Term::Kind::call || p->id != inner->id))
    return false;
  Reading d;
  do {
    Choices c;
    c.built = built;
    c.graphs = graphs;
    c.result = result && result->kind == Term::Kind::call ? result : nullptr;
    bool covered = false;
    do {
      CaptureBinding bound[32];
      int n = 0;
      covered = covers(p, t, c, d, bound, n);
    } while (!covered && c.advance());
    if (!covered || d.too_many) return false;
  } while (d.advance());
  return true;
}

/// Could a value that `t` describes match `p`? False only where it surely does not.
constexpr bool may_match(const Term* p, const Term* t) {
  using K = Term::Kind;
  while (is_wrapper(*p)) ++p;
  if (p->kind == K::alternatives) {
    const Term* child = p + 1;
    for (int i = 0; i < p->children; ++i, child += child->size)
      if (may_match(child, t)) return true;
    return false;
  }
  if (is_constant(*p) && is_constant(*t)) return *p->value == *t->value;
  if (p->kind == K::call && is_constant(*t)) return false;
  if (p->kind != K::call || t->kind != K::call) return true;
  if (p->id != t->id) return false;
  const auto all = [&](bool changed_over) {
    const Term *pc = p + 1, *tc = t + 1;
    for (int i = 0; i < p->children; ++i, pc += pc->size, tc += tc->size) {
      const Term* argument = !changed_over || i > 1 ? tc : i == 0 ? tc + tc->size : t + 1;
      if (!may_match(pc, argument)) return false;
    }
    return true;
  };
  return all(false) || (two_orders(p) && all(true));
}

}  // namespace fxx::inline FXX_ABI::rewrite
