// The decision tree of a rule set, made at compile time by ordinary constexpr code over Term arrays.
//
// States stand in preorder: a test that holds goes on to the next state, one that fails jumps to `fail`. Each state
// holds the lowest rule below it, so tests shared by several rules keep their order of priority exact. Tests that many
// patterns make of one argument's operator become one binary search (`select`). A commutative call is a loop: what is
// below its `order` state is tried with its two arguments as they stand, then, from the `again` state at the end,
// changed over.
// Main names: Place, Test, State, Tree, Builder, Layout. Cost: light; merging N rules costs O(tests x fan-out).
#pragma once

#include <bit>
#include <cstdint>
#include <string>  // has std::allocator and std::construct_at, without the rest of <memory>

#include "fxx/rewrite/term.hpp"

namespace fxx::inline FXX_ABI::rewrite {

/// An argument of a node already matched: parameter `arg` of the node in register `reg`, or one item of that list, or
/// that node itself. Of a commutative call that is changed over, 0 means 1 and 1 means 0.
struct Place {
  static constexpr std::uint8_t whole = 255, self = 254;
  std::uint8_t reg = 0, arg = 0, item = whole;

  /// As one number, since each member of an object costs the compiler as much.
  static constexpr std::uint32_t packed(std::uint32_t reg, std::uint32_t arg, std::uint32_t item = whole) {
    return reg | arg << 8 | item << 16;
  }
  constexpr explicit Place(std::uint32_t packed)
      : reg(static_cast<std::uint8_t>(packed)),
        arg(static_cast<std::uint8_t>(packed >> 8)),
        item(static_cast<std::uint8_t>(packed >> 16)) {}
};

struct Test {
  enum class Kind : std::uint8_t {
    op,
    once,
    number,
    near,
    literal,
    node,
    optional,
    constant,
    scalar,
    sequence,
    size,
    list,
    condition,
    equal,
    order,
    again,
    accept,
    jump,
    select,
    halt
  };
  static constexpr std::uint32_t what_of(Kind kind, std::uint32_t place = Place::packed(0, 0)) {
    return static_cast<std::uint32_t>(kind) | place << 8;
  }
  std::uint32_t what = what_of(Kind::halt);  // the kind, and the place of what is tested
  // equal: the other argument; op, select: `reg` is where the node goes; accept: registers, captures
  std::uint32_t other_place = 0;
  // op: id; number, near: bits of the double; list: items; select: first edge; accept: first capture
  std::uint64_t payload = 0;
  const Literal* literal = nullptr;
  const Condition* condition = nullptr;
  bool left_out = false;  // an argument that was left out holds too; op: the operator writes to an argument

  constexpr Kind kind() const { return static_cast<Kind>(what & 255); }
  constexpr Place place() const { return Place(what >> 8); }
  constexpr Place other() const { return Place(other_place); }
  constexpr bool operator==(const Test& t) const {
    return what == t.what && payload == t.payload && other_place == t.other_place && left_out == t.left_out &&
           condition == t.condition && (literal == t.literal || (literal && t.literal && *literal == *t.literal));
  }
};

struct State : Test {
  std::uint16_t fail = 0;   // where to go when the test does not hold; again: where the loop starts
  std::uint16_t rule = 0;   // accept: the rule; other tests: the lowest rule below
  std::uint16_t edges = 0;  // select: how many
};
/// Of a select, or of the root table: sorted by op.
struct Branch {
  std::uint64_t op = 0;
  std::uint16_t state = 0;
};
struct CapturePlace {
  std::uint64_t id = 0;
  std::uint32_t packed_place = 0;
  const Literal* constant = nullptr;  // it is this constant, wherever it was matched
  constexpr Place place() const { return Place(packed_place); }
};

/// By the family of a node's operator, the families of operators, as bits, one of which is among its operands wherever
/// a rule matches. One look at them spares most nodes the walk through the tree.
struct Sieve {
  static constexpr std::uint64_t any = std::uint64_t{1} << 63;  // a rule that needs no operator there
  static constexpr std::uint64_t bit(const Operator& op) { return std::uint64_t{1} << op.family; }
  std::uint64_t operands[64] = {};
};

inline constexpr int max_registers = 24, max_tests = 96, max_captures = 32, max_items = 64, max_states = 65535;

namespace detail {

/// One reading of a pattern as a line of tests, level by level, operators first.
struct Line {
  Test tests[max_tests];
  CapturePlace captures[max_captures];
  const Parameter* parameters[max_captures];  // what is captured stands for; null for items of lists, and nodes
  int tests_count = 0, captures_count = 0, registers = 1;
  std::uint64_t root = 0;
  std::uint8_t family = 0;                // of the root
  std::uint64_t operands = 0;             // what some operand of the root has to be
  bool too_large = false, never = false;  // never: this reading contradicts itself; too_large: some reading was

  /// A test at the end of the line, to be filled in. In its place and field by field: making an object and copying it
  /// would cost the compiler ten times the memory.
  constexpr Test& test(Test::Kind kind, std::uint32_t place, bool left_out = false) {
    if (tests_count == max_tests) {
      too_large = true;
      --tests_count;
    }
    Test& t = tests[tests_count++];
    t.what = Test::what_of(kind, place);
    t.other_place = 0;
    t.left_out = left_out;
    t.payload = 0;
    t.literal = nullptr;
    t.condition = nullptr;
    return t;
  }
};

struct Pending {
  const Term* term;
  std::uint8_t reg;
};
/// A term without what stands around it, in one reading of the alternatives.
struct Chosen {
  const Term* term;
  int first, count;  // what stands around it, in Queue::around
};
struct Queue {
  Pending items[max_registers];
  int head = 0, tail = 0;
  const Term* around[max_captures];
  int around_count = 0;
  constexpr void add(const Term* term, std::uint8_t reg) {
    items[tail].term = term;
    items[tail++].reg = reg;
  }
};
/// How far a line had come when it began with a call.
struct Mark {
  int choices, tests, captures, registers, pending, around;
  std::uint64_t operands;
};
/// What a line is made with. One for all patterns: to make room for so much anew is most of what it costs the compiler.
struct Scratch {
  Queue queue;
  Mark marks[max_registers];              // one for each call of the queue
  Chosen children[64], items[max_items];  // of the call that is looked at
};

constexpr Chosen chosen(const Term* t, Choices& c, Line& out, Queue& queue) {
  const int first = queue.around_count;
  for (;;) {
    if (t->kind == Term::Kind::alternatives) {
      int k = c.take(t->children);
      ++t;
      while (k--) t += t->size;
      continue;
    }
    if (!is_wrapper(*t)) return {t, first, queue.around_count - first};
    if (queue.around_count == max_captures) out.too_large = true;
    else queue.around[queue.around_count++] = t;
    ++t;
  }
}

constexpr void line_up_literal(const Literal& value, std::uint32_t place, bool left_out, Line& out) {
  const bool number = value.is_number();
  // An unreadable default equals nothing but "left out".
  if (!number && value.kind == Literal::Kind::other) left_out = true;
  Test& t = out.test(number ? Test::Kind::number : Test::Kind::literal, place, left_out);
  t.literal = &value;
  if (number) t.payload = std::bit_cast<std::uint64_t>(value.number());
}
/// Place of a name among the captures so far; their number when it is new.
constexpr int find_capture(std::uint64_t id, const Line& out) {
  int k = 0;
  while (k < out.captures_count && out.captures[k].id != id) ++k;
  return k;
}
/// Binds a name, or tests that it has the same value as before. `parameter`: what stands there, but for items of lists.
constexpr void line_up_capture(std::uint64_t id, int at, std::uint32_t place, const Parameter* parameter,
                               const Literal* constant, Line& out) {
  if (at < out.captures_count) {
    const CapturePlace& known = out.captures[at];
    if (known.constant && constant) out.never = out.never || !(*known.constant == *constant);
    else if (known.constant) {
      line_up_literal(*known.constant, place, parameter && is_default(*parameter, *known.constant), out);
    }
    else if (constant) {
      const Parameter* other = out.parameters[at];
      line_up_literal(*constant, known.packed_place, other && is_default(*other, *constant), out);
    }
    else out.test(Test::Kind::equal, place).other_place = known.packed_place;
  } else if (out.captures_count == max_captures) {
    out.too_large = true;
  } else {
    out.parameters[out.captures_count] = parameter;
    CapturePlace& fresh = out.captures[out.captures_count++];
    fresh.id = id;
    fresh.packed_place = place;
    fresh.constant = constant;
  }
}

constexpr void line_up_value(const Chosen& given, std::uint32_t place, const Parameter& parameter, const Queue& queue,
                             Line& out) {
  using K = Term::Kind;
  const Term& t = *given.term;
  const Parameter* of = place >> 16 == Place::whole ? &parameter : nullptr;
  if (is_constant(t)) {
    line_up_literal(*t.value, place, of && is_default(parameter, *t.value), out);
  } else if (t.kind == K::near) {
    const bool left_out =
        of && parameter.standard.is_number() && is_near(parameter.standard.number(), t.value->number());
    out.test(Test::Kind::near, place, left_out).payload = std::bit_cast<std::uint64_t>(t.value->number());
  } else if (is_capture(t)) {
    const int at = find_capture(t.id, out);
    if (at == out.captures_count) {
      const Literal::Kind standard = parameter.standard.kind;
      if (t.kind == K::tensor) out.test(Test::Kind::node, place);
      if (t.kind == K::optional) out.test(Test::Kind::optional, place, standard == Literal::Kind::none);
      if (t.kind == K::constant) out.test(Test::Kind::constant, place);
      if (t.kind == K::scalar) out.test(Test::Kind::scalar, place, parameter.standard.is_number());
      if (t.kind == K::sequence) out.test(Test::Kind::sequence, place, standard == Literal::Kind::integers);
      if (t.kind == K::size) out.test(Test::Kind::size, place, standard == Literal::Kind::integer);
    }
    line_up_capture(t.id, at, place, of, nullptr, out);
  }
  for (int i = 0; i < given.count; ++i) {
    const Term& around = *queue.around[given.first + i];
    if (around.kind == K::where) out.test(Test::Kind::condition, place).condition = around.condition;
    else
      line_up_capture(around.id, find_capture(around.id, out), place, of,
                      around.kind == K::bound ? around.value : nullptr, out);
  }
}

/// The call that a link is, in one reading of its alternatives.
constexpr const Term* chosen_link(const Term* link, Choices& c) {
  for (;;) {
    if (link->kind == Term::Kind::alternatives) {
      int k = c.take(link->children);
      ++link;
      while (k--) link += link->size;
    } else if (is_wrapper(*link)) {
      ++link;
    } else {
      return link;
    }
  }
}
/// Tests the operator of the node there, if it has to be a certain one; calls are looked into later.
constexpr void line_up_call(const Term* t, std::uint32_t place, Choices& c, Line& out, Queue& queue) {
  using K = Term::Kind;
  const Operator* op = t->op;
  std::uint64_t id = t->id;
  bool writes = false;
  if (t->kind == K::call) {
    writes = t->op->mutates;
  } else if (t->kind == K::operands) {
    const Term& chosen_operator = t[1 + c.take(static_cast<int>(t->id))];
    id = chosen_operator.id;
    op = chosen_operator.op;
  } else if (t->kind == K::chain && t->least > 0) {
    const Term* link = chosen_link(t + 1, c);
    id = link->id;
    op = link->op;
  } else if (t->kind != K::module) {
    return;
  }
  if (queue.tail == max_registers || out.registers == max_registers) return void(out.too_large = true);
  const auto to = static_cast<std::uint8_t>(out.registers++);
  Test& test = out.test(Test::Kind::op, place, writes);
  test.payload = id;
  test.other_place = Place::packed(to, 0, 0);
  // A call of a module may be any operator, and passes for any.
  if ((place & 255) == 0 && !out.operands) out.operands = op ? Sieve::bit(*op) : 1;
  if (t->kind == K::call) queue.add(t, to);
}

inline constexpr Parameter no_parameter;

/// Begins the line: what it says of the root itself.
constexpr void line_up_root(const Term* root, Choices& c, Line& out, Queue& queue) {
  using K = Term::Kind;
  out.tests_count = out.captures_count = 0;
  out.operands = 0;
  out.registers = 1;
  queue.head = queue.tail = queue.around_count = 0;
  if (root->kind == K::outputs) ++root;  // the first of them is looked for here
  const Chosen start = chosen(root, c, out, queue);
  const Term* first = start.term;
  if (first->kind == K::operands) first += 1 + c.take(static_cast<int>(first->id));
  else if (first->kind == K::chain) first = chosen_link(first + 1, c);
  out.root = first->id;
  if (first->op) out.family = first->op->family;
  line_up_value(start, Place::packed(0, Place::self), no_parameter, queue, out);
  if (start.term->kind == K::call) queue.add(start.term, 0);
}

/// The line of the reading `c`. Most readings of a pattern begin like the one before, so the line goes on where they
/// differ: with the last call that was begun with no other choice than now. Returns how many tests are as they were; -1
/// when all is new.
constexpr int linearise(const Term* root, Choices& c, Line& out, Scratch& scratch) {
  using K = Term::Kind;
  Queue& queue = scratch.queue;
  Mark* const marks = scratch.marks;
  Chosen *const children = scratch.children, *const items = scratch.items;
  int kept = -1, known = c.fixed > 0 ? queue.head : 0;
  while (known > 0 && marks[known - 1].choices >= c.fixed) --known;
  out.never = false;
  if (known == 0) {
    line_up_root(root, c, out, queue);
  } else {
    const Mark& mark = marks[known - 1];
    c.count = mark.choices;
    kept = out.tests_count = mark.tests;
    out.captures_count = mark.captures;
    out.registers = mark.registers;
    out.operands = mark.operands;
    queue.head = known - 1;
    queue.tail = mark.pending;
    queue.around_count = mark.around;
  }
  while (queue.head < queue.tail && !out.never) {
    Mark& mark = marks[queue.head];
    mark.choices = c.count;
    mark.tests = out.tests_count;
    mark.captures = out.captures_count;
    mark.registers = out.registers;
    mark.operands = out.operands;
    mark.pending = queue.tail;
    mark.around = queue.around_count;
    const Term* t = queue.items[queue.head].term;
    const std::uint8_t reg = queue.items[queue.head++].reg;
    int items_count = 0;
    const Term* next = t + 1;
    // A call costs the compiler more than a look at what most terms are.
    for (int i = 0; i < t->children; ++i, next += next->size) {
      const K kind = next->kind;
      if (kind == K::alternatives || (kind >= K::where && kind <= K::bound)) children[i] = chosen(next, c, out, queue);
      else children[i].term = next, children[i].count = 0;
    }
    const std::uint32_t place_of_all = Place::packed(reg, 0);  // but for the number of the argument
    if (two_orders(t)) out.test(Test::Kind::order, place_of_all);
    if (t->once) out.test(Test::Kind::once, place_of_all);
    for (int i = 0; i < t->children; ++i) {
      const Term* child = children[i].term;
      const K kind = child->kind;
      if (kind != K::call && kind != K::list && kind < K::rest) continue;
      const std::uint32_t place = place_of_all | static_cast<std::uint32_t>(i) << 8;
      if (kind != K::list) {
        line_up_call(child, place, c, out, queue);
        continue;
      }
      if (has_open_items(child)) {
        out.test(Test::Kind::sequence, place);
        continue;
      }
      const bool left_out = is_default(t->op->parameters[static_cast<std::size_t>(i)], child);
      out.test(Test::Kind::list, place, left_out).payload = child->children;
      const Term* item = child + 1;
      for (int k = 0; k < child->children; ++k, item += item->size) {
        if (items_count == max_items) {
          out.too_large = true;
          break;
        }
        items[items_count] = chosen(item, c, out, queue);
        line_up_call(items[items_count++].term,
                     Place::packed(reg, static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(k)), c, out, queue);
      }
    }
    items_count = 0;
    for (int i = 0; i < t->children; ++i) {
      const Term* child = children[i].term;
      const K kind = child->kind;
      if (kind == K::standard) {
        line_up_literal(*child->value, place_of_all | static_cast<std::uint32_t>(i) << 8, true, out);
        continue;
      }
      if (children[i].count == 0 && (kind == K::call || kind == K::any)) continue;
      const Parameter& parameter = t->op->parameters[static_cast<std::size_t>(i)];
      if (kind == K::list && !has_open_items(child) && !out.too_large) {
        const bool left_out = is_default(parameter, child);
        for (int k = 0; k < child->children; ++k) {
          const Chosen& item = items[items_count++];
          const std::uint32_t at = Place::packed(reg, static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(k));
          if (left_out) line_up_literal(*item.term->value, at, true, out);
          else line_up_value(item, at, parameter, queue, out);
        }
      }
      line_up_value(children[i], place_of_all | static_cast<std::uint32_t>(i) << 8, parameter, queue, out);
    }
  }
  return kept;
}

constexpr Test root_test(std::uint64_t op) { return {.what = Test::what_of(Test::Kind::op), .payload = op}; }

}  // namespace detail

/// A test that follows another, and its place among the tests that do.
struct TrieNode {
  Test test{};
  std::uint16_t rule = 0;
  std::int32_t child = -1, last = -1, sibling = -1;
  // Tests of one argument's operator: the next of them, and how many the first is followed by; -1 for the others.
  std::int32_t alike = -1, more = 0;
};
struct TrieFacts {
  int nodes = 1, captures = 0, tests_before = 0;
  int states = 1, edges = 0, roots = 0;  // of the tree that it becomes; state 0 halts
  bool too_large = false;
  Sieve sieve = {};
};
/// Has room for more than it gets, which costs the compiler nothing.
template <int Capacity>
struct Trie {
  TrieNode nodes[Capacity]{};
  CapturePlace captures[Capacity]{};
  TrieFacts facts{};
};

/// Collects lines into a trie. Transient: lives only inside a constant evaluation.
class Builder {
 public:
  /// Room for the bounds of all patterns, and one node more; the first is the root.
  constexpr Builder(TrieNode* nodes, CapturePlace* captures) : trie_(nodes), captures_(captures) {}
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;

  constexpr void add(const Term* root, std::uint16_t rule) {
    Choices c;
    detail::Line& line = line_;
    int walked = -1;  // so many tests of the line are known to end at `path_[walked]`
    do {
      if (const int kept = detail::linearise(root, c, line, scratch_); kept < walked) walked = kept;
      if (line.never) continue;
      facts_.sieve.operands[line.family] |= line.operands ? line.operands : Sieve::any;
      if (walked < 0) path_[walked = 0] = step(0, detail::root_test(line.root), rule, true);
      int at = path_[walked];
      for (; walked < line.tests_count; path_[++walked] = at) at = step(at, line.tests[walked], rule, true);
      const Test leaf{.what = Test::what_of(Test::Kind::accept),
                      .other_place = Place::packed(static_cast<std::uint32_t>(line.registers),
                                                   static_cast<std::uint32_t>(line.captures_count), 0),
                      .payload = static_cast<std::uint64_t>(facts_.captures)};
      step(at, leaf, rule, false);
      for (int i = 0; i < line.captures_count; ++i) std::construct_at(captures_ + facts_.captures++, line.captures[i]);
      facts_.tests_before += line.tests_count + 1;
    } while (c.advance());
    facts_.too_large |= line.too_large;
  }

  constexpr const TrieFacts& facts() const { return facts_; }

 private:
  constexpr int step(int at, const Test& test, std::uint16_t rule, bool share) {
    // A call that writes may be matched as its twin that does not, so it may have two branches.
    const bool selects = at != 0 && test.kind() == Test::Kind::op && !test.left_out;
    int first = -1, before = -1;  // tests of the same argument's operator
    if (share) {
      for (int n = trie_[at].child; n >= 0; n = trie_[n].sibling) {
        const TrieNode& node = trie_[n];
        if (node.test.payload == test.payload && node.test == test) return n;
        if (!selects || node.test.what != test.what || node.test.left_out) continue;
        if (node.test.other_place != test.other_place) continue;
        if (first < 0) first = n;
        before = n;
      }
    }
    const int fresh = facts_.nodes++;
    std::construct_at(trie_ + fresh, test, rule);
    (trie_[at].last >= 0 ? trie_[trie_[at].last].sibling : trie_[at].child) = fresh;
    trie_[at].last = fresh;
    ++facts_.states;
    if (at == 0) ++facts_.roots;  // the state is the one that ends what begins with this operator
    if (test.kind() == Test::Kind::order) ++facts_.states;  // again
    if (first >= 0) {
      // The first two share a select and have a branch and a jump each, every further one has a branch and a jump.
      const bool two = trie_[first].more++ == 0;
      trie_[before].alike = fresh;
      trie_[fresh].more = -1;
      facts_.states += two;
      facts_.edges += 1 + two;
    }
    facts_.too_large |= facts_.states > max_states;
    return fresh;
  }
  TrieNode* trie_;
  CapturePlace* captures_;
  detail::Line line_;  // one for all patterns
  detail::Scratch scratch_;
  int path_[max_tests + 1];  // where the tests of the line lead in the trie
  TrieFacts facts_;
};

/// How the states of a trie stand behind each other. It knows the arrays of the tree and not its type, since a function
/// for each set took clang 6 ms.
class Layout {
 public:
  constexpr Layout(const TrieNode* trie, State* states, Branch* edges) : trie_(trie), states_(states), edges_(edges) {}

  constexpr void lay_out(Branch* sorted) const {
    int states = 1, edges = 0, roots = 0;  // state 0 halts
    for (int n = trie_[0].child; n >= 0; n = trie_[n].sibling) {
      int i = roots++;
      for (; i > 0 && sorted[i - 1].op > trie_[n].test.payload; --i) sorted[i] = sorted[i - 1];
      sorted[i] = {trie_[n].test.payload, static_cast<std::uint16_t>(states)};
      emit_children(n, states, edges);
      states_[states++] = State{};  // halt; g++ 12 zeroes elements that nobody writes, whatever their initialisers
    }
  }

 private:
  constexpr void emit_children(int n, int& states, int& edges) const {
    for (int c = trie_[n].child; c >= 0; c = trie_[c].sibling) {
      const TrieNode& node = trie_[c];
      if (node.more < 0) continue;  // already part of a select
      if (node.more == 0) {
        const int at = states++;
        emit_children(c, states, edges);
        if (node.test.kind() == Test::Kind::order) {
          State& again = states_[states++];
          static_cast<Test&>(again) = Test{};
          again.what = Test::what_of(Test::Kind::again, node.test.what >> 8);
          again.fail = static_cast<std::uint16_t>(at + 1);
          again.rule = node.rule;
        }
        State& state = states_[at];
        static_cast<Test&>(state) = node.test;
        state.fail = static_cast<std::uint16_t>(states);
        state.rule = node.rule;
        continue;
      }
      const int first = edges, members = node.more + 1;
      State& select = states_[states++];
      static_cast<Test&>(select) = node.test;
      select.what = Test::what_of(Test::Kind::select, node.test.what >> 8);
      select.payload = static_cast<std::uint64_t>(first);
      select.rule = node.rule;
      select.edges = static_cast<std::uint16_t>(members);
      edges += members;
      int filled = 0, jump = 0;  // of the jumps each holds the one before, until all know where they go
      for (int k = c; k >= 0; k = trie_[k].alike) {
        int i = first + filled;
        for (; i > first && edges_[i - 1].op > trie_[k].test.payload; --i) edges_[i] = edges_[i - 1];
        edges_[i] = {trie_[k].test.payload, static_cast<std::uint16_t>(states)};
        emit_children(k, states, edges);
        ++filled;
        static_cast<Test&>(states_[states]) = {.what = Test::what_of(Test::Kind::jump)};
        states_[states].fail = static_cast<std::uint16_t>(jump);
        jump = states++;
      }
      while (filled--) {
        const int before = states_[jump].fail;
        states_[jump].fail = static_cast<std::uint16_t>(states);
        jump = before;
      }
      select.fail = static_cast<std::uint16_t>(states);
    }
  }

  const TrieNode* trie_;
  State* states_;
  Branch* edges_;
};

/// The finished tree: constant data, no code.
template <int States, int Edges, int Captures, int Roots>
struct Tree {
  State states[States];
  Branch edges[Edges ? Edges : 1];
  Branch roots[Roots];
  CapturePlace captures[Captures ? Captures : 1];
  Sieve sieve;
};

/// Root operators in an open-addressed table, a quarter full: about one load a node. An id is a hash already.
template <int Size>
struct RootTable {
  static constexpr std::uint64_t mask = Size - 1;
  Branch slots[Size];
  constexpr void add(const Branch* roots, int n) {
    for (int i = 0; i < n; ++i) {
      std::uint64_t at = roots[i].op & mask;
      while (slots[at].op) at = (at + 1) & mask;
      slots[at] = roots[i];
    }
  }
};
constexpr int root_table_size(int roots) { return static_cast<int>(std::bit_ceil(static_cast<unsigned>(roots) * 4u)); }
/// First state for an operator, 0 when no rule starts with it.
constexpr std::uint16_t find_root(const Branch* slots, std::uint64_t mask, std::uint64_t op) {
  std::uint64_t at = op & mask;
  while (slots[at].op != op) {
    if (!slots[at].op) return 0;
    at = (at + 1) & mask;
  }
  return slots[at].state;
}

}  // namespace fxx::inline FXX_ABI::rewrite
