// What one walk over a pattern finds: in how many ways it can be read, what its names hold, how much a reading takes.
//
// Main names: Survey, survey, Readings, readings, Extent, extent_of, Sort, are_of_one_sort. Linear in the terms, but
// where captures are compared with each other. Cost: light.
#pragma once

#include "fxx/rewrite/term.hpp"

namespace fxx::inline FXX_ABI::rewrite {

/// The ways in which a pattern can be read, apart from orders: alternatives add up, what stands beside each other
/// multiplies.
struct Readings {
  static constexpr std::int64_t most = 1 << 24;  // counts no further
  std::int64_t count = 1, tests = 0;             // tests: of all readings together, at most
};
constexpr Readings readings(const Term* t) {
  using K = Term::Kind;
  Readings all;
  for (int i = 0, end = t->size; i < end; ++i) {
    const Term& term = t[i];
    const K kind = term.kind;
    if (kind != K::alternatives && kind != K::operands) {
      // Of a call its operator, its users, its order.
      if (kind == K::call || kind == K::module || kind == K::chain) all.tests += 3 * all.count;
      else if (kind != K::any) all.tests += all.count;
      continue;
    }
    Readings own;
    if (kind == K::alternatives) {
      own.count = 0;
      const Term* child = &term + 1;
      for (int k = 0; k < term.children; ++k, child += child->size) {
        const Readings one = readings(child);
        own.count += one.count, own.tests += one.tests;
      }
      i += term.size - 1;
    } else {
      own.count = static_cast<std::int64_t>(term.id);
      own.tests = 3 * own.count;
    }
    if (all.tests > Readings::most) all.tests = Readings::most;
    all.tests = all.tests * own.count + own.tests * all.count;
    all.count *= own.count;
    if (all.count > Readings::most) all.count = Readings::most;
  }
  if (all.tests > Readings::most) all.tests = Readings::most;
  return all;
}

constexpr bool starts_with_call(const Term* p) {
  using K = Term::Kind;
  if (is_wrapper(*p)) return starts_with_call(p + 1);
  if (p->kind == K::chain) return p->least > 0;
  if (p->kind != K::alternatives && p->kind != K::outputs)
    return p->kind == K::call || p->kind == K::operands || p->kind == K::module;
  const Term* child = p + 1;
  for (int i = 0; i < p->children; ++i, child += child->size)
    if (!starts_with_call(child)) return false;
  return true;
}

/// What a name may hold; `any` where that depends.
enum class Sort : std::uint8_t { any, node, number, list };
constexpr Sort sort_of(const Term* t) {
  using K = Term::Kind;
  while (is_wrapper(*t) && t->kind != K::bound) ++t;
  switch (t->kind) {
    case K::tensor:
    case K::optional:
    case K::constant:
    case K::operands: return Sort::node;
    case K::scalar:
    case K::size: return Sort::number;
    case K::sequence:
    case K::rest: return Sort::list;
    case K::call: {
      // Other results are lists, numbers and sizes that a node computes.
      const auto& returns = t->op->returns;
      return returns.size() == 1 && returns[0].type.base == ValueType::tensor && !returns[0].type.list ? Sort::node
                                                                                                       : Sort::any;
    }
    case K::alternatives: {
      const Sort first = sort_of(t + 1);
      const Term* child = t + 1;
      for (int i = 0; i < t->children; ++i, child += child->size)
        if (sort_of(child) != first) return Sort::any;
      return first;
    }
    default: return Sort::any;
  }
}
constexpr bool are_of_one_sort(const Term* a, const Term* b) {
  const Sort first = sort_of(a), second = sort_of(b);
  return first == second || first == Sort::any || second == Sort::any;
}

/// What rule sets ask of a pattern, found in one walk: a look at a term costs the compiler more than the question.
struct Survey {
  int two_kinds = -1;      // a capture that stands for two kinds of argument
  bool searched = false;   // as needs_search says
  bool nested = false;     // an each or a chain inside of another
  bool once = false;       // a call that is to have a single user
  bool constant = false;   // it asks what values are computed from
  bool with_call = false;  // as starts_with_call says
  int depth = 0;           // calls above each other
};
constexpr Survey survey(const Term* p) {
  using K = Term::Kind;
  constexpr int most = 32;  // names, calls around each other
  Survey s;
  s.with_call = starts_with_call(p);
  const Term* names[most];
  int names_count = 0, group_end = 0, around[most], depth = 0;
  for (int i = 0, n = p->size; i < n; ++i) {
    const Term& t = p[i];
    const K kind = t.kind;
    if (kind >= K::any && kind <= K::standard) continue;
    while (depth > 0 && around[depth - 1] <= i) --depth;
    if (kind == K::call || kind == K::operands || kind == K::module || kind == K::chain) {
      s.once = s.once || t.once;
      if (kind == K::call && depth < most) around[depth++] = i + t.size;
      // What is new far away may end a chain of any length; a few levels are looked at again.
      const int down = kind == K::chain || kind == K::operands ? depth + 4 : depth;
      if (down > s.depth) s.depth = down;
    } else if ((kind >= K::tensor && kind <= K::value) || kind == K::named || kind == K::rest) {
      int k = 0;
      while (k < names_count && names[k]->id != t.id) ++k;
      if (k == names_count) names[names_count < most ? names_count++ : most - 1] = &t;
      else if (names[k]->kind != kind && s.two_kinds < 0 &&
               ((is_capture(t) && is_capture(*names[k])) || !are_of_one_sort(names[k], &t)))
        s.two_kinds = i;
    }
    if (kind == K::constant || (kind == K::where && t.condition->looks_behind)) s.constant = true;
    if (kind == K::where && t.condition->counts_users) {
      s.once = true;
      if (depth >= s.depth) s.depth = depth + 1;  // its users are as far below the root as those of a call there
    }
    if (kind < K::rest) continue;
    s.searched = true;
    if (kind != K::each && kind != K::chain) continue;
    s.nested = s.nested || i < group_end;
    group_end = i + (kind == K::each ? t.size : 1 + p[i + 1].size);
  }
  return s;
}

/// What one reading of a pattern takes at most.
struct Extent {
  int calls = 0, tests = 0, names = 0, items = 0;  // names: and conditions, and whatever else stands around a term
};
constexpr Extent extent_of(const Term* t) {
  using K = Term::Kind;
  Extent e;
  for (int i = 0, end = t->size; i < end; ++i) {
    const Term& term = t[i];
    const K kind = term.kind;
    if (kind == K::alternatives) {
      Extent largest;
      const Term* child = &term + 1;
      for (int k = 0; k < term.children; ++k, child += child->size) {
        const Extent one = extent_of(child);
        if (one.calls > largest.calls) largest.calls = one.calls;
        if (one.tests > largest.tests) largest.tests = one.tests;
        if (one.names > largest.names) largest.names = one.names;
        if (one.items > largest.items) largest.items = one.items;
      }
      e.calls += largest.calls, e.tests += largest.tests, e.names += largest.names, e.items += largest.items;
      i += term.size - 1;
    } else if (kind == K::call || kind == K::operands || kind == K::module || kind == K::chain) {
      ++e.calls, e.tests += 3;
    } else if (kind != K::any) {
      ++e.tests;
      if (kind == K::list) e.items += term.children;
      else if (kind != K::literal && kind != K::near && kind != K::standard) ++e.names;
    }
  }
  return e;
}

constexpr bool has_call(const Term* t) {
  for (int i = 0; i < t->size; ++i)
    if (t[i].kind == Term::Kind::call) return true;
  return false;
}

}  // namespace fxx::inline FXX_ABI::rewrite
