// A pattern as plain data: the form in which patterns are compared, merged and built.
//
// The types of rewrite/pattern.hpp write themselves into arrays of Term; from there on all is ordinary constexpr code.
// Terms stand in prefix order; `size` counts a term with everything below it.
// Main names: Term, Condition, Survey, same, covers, may_match, Choices, Reading. Cost: light.
#pragma once

#include <cstdint>
#include <string_view>

#include "fxx/ir/fwd.hpp"
#include "fxx/ir/operator.hpp"

namespace fxx::inline FXX_ABI::rewrite {

/// What a pattern asks of a value besides its form, `x.where(rank_is<4>)`.
struct Condition {
  bool (*holds)(const Argument&) = nullptr;
  std::string_view name = {};  // for people
  bool counts_users = false;   // so that it may come true when a user goes
  bool looks_behind = false;   // at what the value is computed from, however far away
};

struct Term {
  enum class Kind : std::uint8_t {
    call,
    alternatives,
    list,      // a list of these items
    tensor,    // captures a node
    optional,  // captures a node or None
    constant,  // captures a node whose value does not depend on the inputs
    scalar,    // captures a number
    sequence,  // captures a list
    size,      // captures an integer, or a size that a node computes
    value,     // captures whatever is there
    any,
    literal,
    near,      // a number, up to rounding
    standard,  // a parameter left out of the pattern: its default
    // These stand around another term.
    where,  // which also has to fulfil a condition
    named,  // whose node is captured
    bound,  // and a name has this constant
    // From here on what a full search finds (rewrite/term_matcher.hpp), not the tree.
    rest,      // in a list, or among operands: captures all others
    each,      // in a list, or among operands: any number of values of one form
    operands,  // of a chain of one associative operator, in any order
    chain,     // a chain of unknown length: what one link is, with a hole; what it hangs on
    hole,
    module,   // a call of a module of this class
    outputs,  // several values that are replaced together
  };
  Kind kind = Kind::any;
  bool once = false;          // calls: the node has a single user
  bool shared = false;        // captures inside of each and chain: one value for all of them
  std::uint8_t children = 0;  // calls: one per parameter; others: one per member
  std::uint16_t size = 1;
  std::uint64_t id = 0;  // calls: operator; captures: hash of the name; modules: hash of the class
  const Operator* op = nullptr;
  const Literal* value = nullptr;  // literals, defaults of parameters left out, what a name is bound to
  int least = 0;                   // chain: the least length
  std::string_view name = {};  // captures, modules
  const Condition* condition = nullptr;
};

constexpr bool is_capture(const Term& t) { return t.kind >= Term::Kind::tensor && t.kind <= Term::Kind::value; }
/// Gives a name a value.
constexpr bool binds_name(const Term& t) {
  using K = Term::Kind;
  return is_capture(t) || t.kind == K::named || t.kind == K::bound || t.kind == K::rest;
}
constexpr bool is_wrapper(const Term& t) { return t.kind >= Term::Kind::where && t.kind <= Term::Kind::bound; }
/// Is there something in the pattern that the tree cannot tell?
constexpr bool needs_search(const Term* t) {
  for (int i = 0, n = t->size; i < n; ++i)
    if (t[i].kind >= Term::Kind::rest) return true;
  return false;
}
constexpr bool is_constant(const Term& t) { return t.kind == Term::Kind::literal || t.kind == Term::Kind::standard; }
/// Equal up to rounding in single precision.
constexpr bool is_near(double a, double b) {
  const double difference = a > b ? a - b : b - a, size = b < 0 ? -b : b;
  return difference <= 1e-6 * size;
}

/// Is the literal what the parameter has when it is left out? One number says a whole list of it, on either side.
constexpr bool is_default(const Parameter& parameter, const Literal& value) {
  const Literal& standard = parameter.standard;
  if (standard == value) return true;
  if (standard.kind == Literal::Kind::integer && value.kind == Literal::Kind::integers) {
    if (value.count == 0 || value.count != parameter.type.list_size) return false;
    for (int i = 0; i < value.count; ++i)
      if (value.items[i] != standard.integer) return false;
    return true;
  }
  if (standard.kind != Literal::Kind::integers || value.kind != Literal::Kind::integer || standard.count == 0)
    return false;
  for (int i = 0; i < standard.count; ++i)
    if (standard.items[i] != value.integer) return false;
  return true;
}

/// The same of a list whose items are all constants.
constexpr bool is_default(const Parameter& parameter, const Term* list) {
  const Literal& standard = parameter.standard;
  const bool one = standard.kind == Literal::Kind::integer && parameter.type.list;  // for all of a list of fixed size
  if (!one && standard.kind != Literal::Kind::integers) return false;
  if (list->children != (one ? parameter.type.list_size : standard.count)) return false;
  for (int i = 0; i < list->children; ++i)
    if (list[1 + i].kind != Term::Kind::literal ||
        !(*list[1 + i].value == Literal::of(one ? standard.integer : standard.items[i])))
      return false;
  return true;
}

/// Same pattern, letter for letter. Wildcards stand for unknown values, so they equal nothing.
constexpr bool same(const Term* a, const Term* b) {
  if (a->size != b->size) return false;
  for (int i = 0; i < a->size; ++i) {
    if (is_constant(a[i]) && is_constant(b[i])) {
      if (!(*a[i].value == *b[i].value)) return false;
    } else if (a[i].kind != b[i].kind || a[i].id != b[i].id || (a[i].kind == Term::Kind::any && !a[i].op) ||
               a[i].children != b[i].children || a[i].once != b[i].once || a[i].condition != b[i].condition ||
               a[i].least != b[i].least || (a[i].value && !(*a[i].value == *b[i].value))) {
      return false;
    }
  }
  return true;
}

inline constexpr int max_choices = 24;  // commutative operators and alternatives in one pattern

/// One way of reading a pattern: which order each commutative call takes, which alternative is chosen.
struct Choices {
  std::uint8_t taken[max_choices], options[max_choices];  // as many as counted or fixed
  int count = 0, fixed = 0;
  const Term* chain = nullptr;   // whose link is looked at: its hole holds the next link, or the end
  int links = 0;                 // that it wants yet
  bool built = false;            // what is looked at is the result of the pattern's own rule
  bool graphs = false;           // what is looked at is what a pattern finds in graphs, where 2 may be [2, 2] or 2.0
  const Term* result = nullptr;  // what is looked at is a result with this root: calls below that have one user

  constexpr int take(int among) {
    if (count == max_choices) return 0;  // of more than that, only the first is considered
    if (count >= fixed) taken[count] = 0;
    options[count] = static_cast<std::uint8_t>(among);
    return taken[count++];
  }
  /// The next reading; false after the last one.
  constexpr bool advance() {
    int i = count - 1;
    while (i >= 0 && taken[i] + 1 >= options[i]) --i;
    if (i < 0) return false;
    ++taken[i];
    fixed = i + 1;
    count = 0;
    return true;
  }
};

/// Are all arguments of the call but the first two what they are by default?
constexpr bool gives_two(const Term* t) {
  const Term* rest = t + 1 + t[1].size;
  rest += rest->size;
  for (int i = 2; i < t->children; ++i, rest += rest->size)
    if (!is_constant(*rest) || !(*rest->value == t->op->parameters[static_cast<std::size_t>(i)].standard)) return false;
  return true;
}
/// May the first two arguments of the call change places, and does that make a difference? Not when it takes more than
/// two and one of the others is not what it is by default: in `x + 2 y` the factor belongs to y.
constexpr bool two_orders(const Term* t) {
  return t->kind == Term::Kind::call && has(t->op->traits, Trait::commutative) &&
         !same(t + 1, t + 1 + t[1].size) && gives_two(t);
}

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
    Readings own;
    if (kind == K::alternatives) {
      own.count = 0;
      const Term* child = &term + 1;
      for (int k = 0; k < term.children; ++k, child += child->size) {
        const Readings one = readings(child);
        own.count += one.count, own.tests += one.tests;
      }
      i += term.size - 1;
    } else if (kind == K::call || kind == K::operands || kind == K::module || kind == K::chain) {
      if (kind == K::operands) own.count = static_cast<std::int64_t>(term.id);
      own.tests = 3 * own.count;  // its operator, its users, its order
    } else if (kind != K::any) {
      own.tests = 1;
    }
    all.tests = all.tests * own.count + own.tests * all.count;
    all.count *= own.count;
    if (all.tests > Readings::most) all.tests = Readings::most;
    if (all.count > Readings::most) all.count = Readings::most;
  }
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

constexpr bool is_open(const Term& item) { return item.kind == Term::Kind::rest || item.kind == Term::Kind::each; }
constexpr bool has_open_items(const Term* list) {
  const Term* item = list + 1;
  for (int k = 0; k < list->children; ++k, item += item->size)
    if (is_open(*item)) return true;
  return false;
}

/// Can a link of a chain be read in one way only, with one place for the next link?
constexpr bool is_plain_link(const Term* link) {
  int holes = 0;
  for (int i = 0; i < link->size; ++i) {
    holes += link[i].kind == Term::Kind::hole;
    if (link[i].kind == Term::Kind::alternatives || link[i].kind >= Term::Kind::outputs || two_orders(link + i))
      return false;
  }
  return holes == 1;
}

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
