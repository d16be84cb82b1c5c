// A pattern as plain data: the form in which patterns are compared, merged and built.
//
// The types of rewrite/pattern.hpp write themselves into arrays of Term; from there on all is ordinary constexpr code.
// Terms stand in prefix order; `size` counts a term with everything below it.
// Main names: Term, Condition, same, Choices, two_orders. Cost: light.
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

constexpr bool is_open(const Term& item) { return item.kind == Term::Kind::rest || item.kind == Term::Kind::each; }
constexpr bool has_open_items(const Term* list) {
  const Term* item = list + 1;
  for (int k = 0; k < list->children; ++k, item += item->size)
    if (is_open(*item)) return true;
  return false;
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
  for (int i = 2; i < t->children; ++i, rest += rest->size) {
    if (rest->kind == Term::Kind::standard) continue;
    const Literal& standard = t->op->parameters[static_cast<std::size_t>(i)].standard;
    if (rest->kind != Term::Kind::literal || !(*rest->value == standard)) return false;
  }
  return true;
}
/// May the first two arguments of the call change places, and does that make a difference? Not when it takes more than
/// two and one of the others is not what it is by default: in `x + 2 y` the factor belongs to y.
constexpr bool two_orders(const Term* t) {
  return t->kind == Term::Kind::call && has(t->op->traits, Trait::commutative) &&
         !same(t + 1, t + 1 + t[1].size) && gives_two(t);
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

}  // namespace fxx::inline FXX_ABI::rewrite
