// Many rules merged at compile time into one decision tree.
//
// Refused: a rule that an earlier one always shadows, duplicates, two rules of one name, pairs that undo each other
// wherever in their results, sets too large for the tables. Not seen: a rule that several earlier ones shadow together,
// circles of three rules or more.
// Main names: ruleset(rules...), Ruleset, RewriteReport. Cost: light; merging O(tests x fan-out), checks O(pairs with
// the same root operator). One rule more costs 3-5 ms and 0.4 MB with g++ 12.
#pragma once

#include <string>
#include <utility>

#include "fxx/rewrite/matcher.hpp"
#include "fxx/rewrite/rewriter.hpp"
#include "fxx/rewrite/rule.hpp"

namespace fxx::inline FXX_ABI::rewrite {

namespace detail {

struct Entry {
  const Term *pattern, *result;
  const Survey* survey;  // of the pattern
  std::string_view name;
  std::uint64_t name_id;
  int most_nodes;     // of the trie that come of the pattern
  bool fits, conditional;  // fits: there is room for each of its readings
};

struct Fault {
  enum class Kind : std::uint8_t { none, shadowed, duplicate, same_name, undone } kind = Kind::none;
  int later = 0, earlier = 0;
};

/// The operator that the pattern begins with; 0 when there may be several.
constexpr std::uint64_t root_of(const Term* t) {
  while (is_wrapper(*t)) ++t;
  return t->kind == Term::Kind::call ? t->id : 0;
}

/// One bit of 64 for an operator.
constexpr std::uint64_t bit_of(std::uint64_t id) { return id ? std::uint64_t{1} << (id & 63) : ~std::uint64_t{0}; }
/// Those of all calls of a pattern. `needed`: of those without which it does not match; 0 where it is no plain pattern.
constexpr std::uint64_t calls_named(const Term* pattern, bool needed) {
  std::uint64_t bits = 0;
  for (int i = 0; i < pattern->size; ++i) {
    const Term& t = pattern[i];
    if (t.kind == Term::Kind::call) bits |= t.id ? bit_of(t.id) : 0;
    else if (needed && (t.kind == Term::Kind::alternatives || t.kind >= Term::Kind::rest)) return 0;
  }
  return bits;
}
/// Those of all calls that the rule is sure to make when it fires; 0 when it may decline, or a callable builds.
constexpr std::uint64_t calls_made(const Entry& rule) {
  std::uint64_t bits = 0;
  if (rule.result && !rule.conditional)
    for (int i = 0; i < rule.result->size; ++i) {
      const Term& t = rule.result[i];
      if (t.kind == Term::Kind::call) bits |= bit_of(t.id);
      else if (t.kind == Term::Kind::each) i += t.size - 1;  // there may be none
    }
  return bits;
}
/// The first call in the result of `rule`, outermost first, that `by` matches for sure; -1 when there is none. Several
/// outputs are found inside.
constexpr int call_matched(const Entry& rule, const Term* by) {
  if (by->kind == Term::Kind::outputs) return holds_outputs(by, rule.result, false) ? 1 : -1;
  for (int i = 0; i < rule.result->size; ++i) {
    const Term& t = rule.result[i];
    if (t.kind == Term::Kind::each) i += t.size - 1;
    else if (t.kind == Term::Kind::call && covers(by, &t, false, rule.result)) return i;
  }
  return -1;
}
/// Might a third rule match some call in the results of two, and so end what these would do for ever?
constexpr bool third_steps_in(const Entry* const* rules, int n, int one, int other) {
  for (const int made : {one, other}) {
    const Term* result = rules[made]->result;
    for (int i = 0; i < result->size; ++i) {
      if (result[i].kind != Term::Kind::call) continue;
      for (int k = 0; k < n; ++k)
        if (k != one && k != other && may_match(rules[k]->pattern, result + i)) return true;
    }
  }
  return false;
}

/// The rules that begin with an operator of one bit, in order, as a list a bit; in the last those that begin with several.
/// Pairs are looked for in these, so a set of hundreds of rules takes the compiler few steps, of which clang does not
/// allow many.
struct RulesByRoot {
  static constexpr int several = 64;
  int first[several + 1], last[several + 1];
  int* next;
  constexpr RulesByRoot(int* links) : next(links) {
    for (int i = 0; i <= several; ++i) first[i] = -1;
  }
  static constexpr int list_of(std::uint64_t root) { return root ? static_cast<int>(root & 63) : several; }
  constexpr void add(std::uint64_t root, int rule) {
    const int list = list_of(root);
    next[rule] = -1;
    if (first[list] < 0) first[list] = rule;
    else next[last[list]] = rule;
    last[list] = rule;
  }
};

/// `checked`: the first so many rules are a set, and so are the others, so that only pairs across are looked at.
constexpr Fault diagnose(const Entry* const* rules, int n, int checked = 0) {
  const auto size = static_cast<std::size_t>(n);
  std::uint64_t slots = 64;
  while (slots < 2 * size) slots *= 2;
  const auto roots = new std::uint64_t[size], makes = new std::uint64_t[size];
  const auto needs = new std::uint64_t[size], names = new std::uint64_t[size];  // calls of the patterns
  const auto links = new int[size], named = new int[slots]{};  // named: rules by their name, counted from 1
  RulesByRoot by_root(links);
  Fault fault;
  const auto shadows = [&](int list, int later) {
    const Entry& b = *rules[later];
    for (int earlier = by_root.first[list]; earlier >= 0; earlier = links[earlier]) {
      const Entry& a = *rules[earlier];
      if ((needs[earlier] & ~names[later]) || a.conditional ||
          (roots[earlier] && roots[later] && roots[earlier] != roots[later]))
        continue;
      // Several outputs are found where the first of them is.
      const bool is_first = b.pattern->kind == Term::Kind::outputs && a.pattern->kind != Term::Kind::outputs;
      if (!covers(a.pattern, b.pattern + is_first, false, nullptr, true)) continue;
      const bool both = !b.conditional && covers(b.pattern, a.pattern, false, nullptr, true);
      fault = {both ? Fault::Kind::duplicate : Fault::Kind::shadowed, later, earlier};
      return true;
    }
    return false;
  };
  const auto undoes = [&](int list, int later) {
    const Entry& b = *rules[later];
    for (int earlier = by_root.first[list]; earlier >= 0; earlier = links[earlier]) {
      if (!(makes[earlier] & bit_of(roots[later]))) continue;
      // What either makes the other matches, so one of the two can always go on. Within a larger result a third rule
      // may take it away.
      const Entry& a = *rules[earlier];
      const int in_a = call_matched(a, b.pattern), in_b = in_a < 0 ? -1 : call_matched(b, a.pattern);
      if (in_b < 0 || ((in_a > 0 || in_b > 0) && third_steps_in(rules, n, earlier, later))) continue;
      fault = {Fault::Kind::undone, later, earlier};
      return true;
    }
    return false;
  };
  constexpr int several = RulesByRoot::several;
  for (int later = 0; later < n && fault.kind == Fault::Kind::none; ++later) {
    const Entry& b = *rules[later];
    roots[later] = root_of(b.pattern);
    makes[later] = calls_made(b);
    needs[later] = calls_named(b.pattern, true);
    names[later] = calls_named(b.pattern, false);
    std::uint64_t slot = b.name_id & (slots - 1);
    while (named[slot] && rules[named[slot] - 1]->name_id != b.name_id) slot = (slot + 1) & (slots - 1);
    if (named[slot]) {
      fault = {Fault::Kind::same_name, later, named[slot] - 1};
      break;
    }
    named[slot] = later + 1;
    if (later < checked) {
      by_root.add(roots[later], later);
      continue;
    }
    const int own = RulesByRoot::list_of(roots[later]);
    bool found = shadows(several, later);
    for (int list = own == several ? 0 : own; !found && list < several && (own == several || list == own); ++list)
      found = shadows(list, later);
    if (!found && makes[later]) {
      found = undoes(several, later);
      for (std::uint64_t left = makes[later]; !found && left; left &= left - 1)
        found = undoes(std::countr_zero(left), later);
    }
    if (checked == 0) by_root.add(roots[later], later);
  }
  delete[] roots;
  delete[] makes;
  delete[] needs;
  delete[] names;
  delete[] links;
  delete[] named;
  return fault;
}

/// Their names show which rules are meant.
template <word Later, word Earlier, Fault::Kind Kind>
consteval void rules_are_distinct() {
  using K = Fault::Kind;
  static_assert(Kind != K::shadowed,
                "fxx::ruleset: a rule can never fire, because an earlier rule matches everything that it matches; move "
                "it up or drop it");
  static_assert(Kind != K::duplicate,
                "fxx::ruleset: two rules have the same pattern, so the later one can never fire; drop one of them");
  static_assert(Kind != K::same_name, "fxx::ruleset: two rules have the same name; give each its own");
  static_assert(
      Kind != K::undone,
      "fxx::ruleset: two rules undo each other, so rewriting would never end; drop one of them or add a guard");
}

/// The replacement's terms; null when a callable builds.
template <class R>
inline constexpr const Term* result_terms = nullptr;
template <Pattern R>
inline constexpr const Term* result_terms<R> = flat<R>.terms;
/// At most this many trie nodes come of a pattern; besides its tests the root's operator and the end of each reading.
constexpr int most_nodes(const Term* pattern) {
  const Readings r = readings(pattern);
  return static_cast<int>(r.tests + 2 * r.count);
}
/// Is there room in a line for each reading of it, by what is counted without making them?
constexpr bool fits_line(const Term* pattern) {
  if (pattern->size <= max_registers && 3 * pattern->size + 2 <= max_tests) return true;
  const Extent e = extent_of(pattern);
  return e.calls <= max_registers && e.tests <= max_tests && e.names <= max_captures && e.items <= max_items;
}
/// Once a rule, however many sets have it.
template <class Rule>
inline constexpr Entry entry_of = {flat<typename Rule::pattern>.terms,
                                   result_terms<typename Rule::replacement>,
                                   &flat<typename Rule::pattern>.survey,
                                   Rule::name,
                                   hash_of(Rule::name),
                                   most_nodes(flat<typename Rule::pattern>.terms),
                                   fits_line(flat<typename Rule::pattern>.terms),
                                   Builds<Rule> || Guarded<Rule>};  // these may decline a match

/// Of the patterns, and one more is the root; 0 where it is so much that no compiler has the patience to find out what
/// readings share.
constexpr int sum_of_bounds(const Entry* const* rules, int n) {
  int sum = 1;
  for (int i = 0; i < n; ++i) {
    sum += rules[i]->most_nodes;
    if (sum > 8 * max_states) return 0;
  }
  return sum;
}

/// What a rule set is at run time, but for its callables. One object a set, and of a type that does not name the rules:
/// each symbol of a set's own holds all of its rules, and writing one of 13,000 letters takes the compiler 5 ms.
template <int States, int Edges, int Captures, int Roots>
struct FusedRules {
  Tree<States, Edges, Captures, Roots> tree;
  RootTable<root_table_size(Roots)> roots;
  int count, depth;
  bool uses_once, uses_constant;

  constexpr RuleTable table(const RuleFacts* facts, const void* const* callables) const {
    return {tree.states, tree.edges, tree.captures, roots.slots, roots.mask, &tree.sieve,
            facts,       callables,  count,         depth,       uses_once,  uses_constant,
            law::any};
  }
};

/// Everything about a rule set that its types decide.
template <class... Rules>
struct fused {
  static constexpr int count = sizeof...(Rules);
  static constexpr const Entry* entries[count] = {&entry_of<Rules>...};
  static constexpr int capacity = sum_of_bounds(entries, count);
  static constexpr auto trie = [] {
    Trie<capacity ? capacity : 1> t{};
    Builder b(t.nodes, t.captures);
    for (int i = 0; i < count && capacity > 0; ++i) b.add(entries[i]->pattern, static_cast<std::uint16_t>(i));
    t.facts = b.facts();
    if (capacity == 0) t.facts.too_large = true, t.facts.roots = 1;
    return t;
  }();
  static constexpr TrieFacts size = trie.facts;
  static constexpr FusedRules<size.states, size.edges, size.captures, size.roots> data = [] {
    FusedRules<size.states, size.edges, size.captures, size.roots> d{};
    if (!size.too_large) {
      Layout(trie.nodes, d.tree.states, d.tree.edges).lay_out(d.tree.roots);
      for (int i = 0; i < size.captures; ++i) d.tree.captures[i] = trie.captures[i];
      d.tree.sieve = size.sieve;
    }
    d.roots.add(d.tree.roots, size.roots);
    d.count = count;
    for (const Entry* e : entries) {
      if (e->survey->depth > d.depth) d.depth = e->survey->depth;
      if (e->survey->once) d.uses_once = true;
      if (e->survey->constant) d.uses_constant = true;
    }
    return d;
  }();
};

constexpr bool has_room(const Entry* const* rules, int n) {
  const auto size = static_cast<std::size_t>(sum_of_bounds(rules, n));
  if (size == 0) return false;
  std::allocator<TrieNode> nodes;
  std::allocator<CapturePlace> captures;
  TrieNode* const trie = nodes.allocate(size);
  CapturePlace* const places = captures.allocate(size);
  std::construct_at(trie);
  Builder b(trie, places);
  for (int i = 0; i < n; ++i) b.add(rules[i]->pattern, static_cast<std::uint16_t>(i));
  const bool room = !b.facts().too_large;
  nodes.deallocate(trie, size);
  captures.deallocate(places, size);
  return room;
}
/// Is there no room for the tree? Small patterns have room for sure, so that a set which is only declared, or a part of
/// another, costs no tree.
constexpr bool too_large(const Entry* const* rules, int n) {
  int most = 1;  // states
  for (int i = 0; i < n; ++i) {
    const int bound = rules[i]->most_nodes;
    most = bound > max_states - most ? max_states + 1 : most + bound;
    if (!rules[i]->fits && !has_room(rules + i, 1)) return true;
  }
  return most > max_states && !has_room(rules, n);
}

template <class... Rules>
inline constexpr const Entry* entries_of[sizeof...(Rules)] = {&entry_of<Rules>...};
/// A variable, so that it is found once: clang counts what a function finds while a larger expression is evaluated as
/// steps of that.
template <int Checked, class... Rules>
inline constexpr Fault fault_among = diagnose(entries_of<Rules...>, sizeof...(Rules), Checked);

template <int Checked, class... Rules>
consteval void check_distinct() {
  constexpr const Entry* const* entries = entries_of<Rules...>;
  constexpr Fault f = fault_among<Checked, Rules...>;
  if constexpr (f.kind != Fault::Kind::none) {
    rules_are_distinct<word<entries[f.later]->name.size()>(entries[f.later]->name),
                       word<entries[f.earlier]->name.size()>(entries[f.earlier]->name), f.kind>();
  } else {
    static_assert(!too_large(entries, sizeof...(Rules)),
                  "fxx::ruleset: a pattern has more than 24 calls, 96 tests or 32 captures, or the set more than 65535 "
                  "states; split it");
  }
}

// Free functions, named by the callable alone: as members of Ruleset their mangled names would hold every rule, n times,
// and rules with the same guard share one.
template <class Guard>
bool ask_rule(const void* guard, const Match& m) {
  return static_cast<bool>((*static_cast<const Guard*>(guard))(m));
}
template <class R>
Argument build_rule(const void* build, const Match& m) {
  return Argument((*static_cast<const R*>(build))(m));
}
/// A member of siblings alone is matched by the tree: no search, and who asks its guard asks once for all of them.
inline constexpr RuleFacts facts_of_member;
template <class Rule>
inline constexpr RuleTable alone_table = fused<Rule>::data.table(&facts_of_member, nullptr);
template <class Rule>
consteval RuleFacts facts() {
  RuleFacts f;
  f.name = Rule::name;
  f.needs = Rule::needs;
  f.result = result_terms<typename Rule::replacement>;
  f.pattern = flat<typename Rule::pattern>.terms;
  f.searched = flat<typename Rule::pattern>.survey.searched;
  if constexpr (Guarded<Rule>) f.ask = &ask_rule<typename Rule::guard_type>;
  if constexpr (Builds<Rule>) f.build = &build_rule<typename Rule::replacement>;
  if constexpr (Siblings<typename Rule::pattern>) {
    f.alone = &alone_table<Rule>;
    f.shared = Rule::pattern::shared;
  }
  return f;
}

template <class... Rules>
inline constexpr RuleFacts facts_of[sizeof...(Rules)] = {facts<Rules>()...};

/// The least number of calls in any reading; of the result the number it builds.
constexpr int calls_in(const Term* t) {
  using K = Term::Kind;
  const Term* child = t + 1;
  if (t->kind == K::alternatives) {
    int least = 1 << 16;
    for (int i = 0; i < t->children; ++i, child += child->size)
      if (const int n = calls_in(child); n < least) least = n;
    return least;
  }
  if (t->kind == K::chain) return t->least * calls_in(t + 1) + calls_in(t + 1 + t[1].size);
  if (t->kind == K::each) return 0;
  int n = t->kind == K::call || t->kind == K::module || t->kind == K::operands;
  for (int i = 0; i < t->children; ++i, child += child->size) n += calls_in(child);
  return n;
}
constexpr bool uses_twice(const Term* r) {
  for (int i = 0; i < r->size; ++i)
    for (int k = 0; k < i; ++k)
      if (is_capture(r[i]) && is_capture(r[k]) && r[i].id == r[k].id) return true;
  return false;
}
/// Does the result use a call that the pattern only names, so that it stays?
constexpr bool keeps_named(const Term* p, const Term* r) {
  for (int i = 0; i < p->size; ++i)
    for (int k = 0; p[i].kind == Term::Kind::named && k < r->size; ++k)
      if (is_capture(r[k]) && r[k].id == p[i].id) return true;
  return false;
}
template <class Rule>
consteval bool shrinks() {
  if constexpr (Builds<Rule> || Siblings<typename Rule::pattern>) return false;
  else {
    const Term* result = flat<typename Rule::replacement>.data();
    for (int i = 0; i < result->size; ++i)
      if (result[i].kind >= Term::Kind::rest) return false;
    const Term* pattern = flat<typename Rule::pattern>.data();
    return calls_in(result) < calls_in(pattern) && !uses_twice(result) && !keeps_named(pattern, result);
  }
}

// What is asked of each rule is an array and no fold: clang nests a fold as deep as there are rules, and refuses 257.

/// Whether all of the values are true.
template <std::size_t N>
consteval bool all_true(const bool (&each)[N]) {
  for (const bool one : each)
    if (!one) return false;
  return true;
}

/// One of many rules; its number tells it from another of the same type.
template <std::size_t, class Rule>
struct held {
  [[no_unique_address]] Rule rule;
};
/// A tuple that takes the compiler no function a rule.
template <class Numbers, class... Rules>
struct rule_list;
template <std::size_t... I, class... Rules>
struct rule_list<std::index_sequence<I...>, Rules...> : held<I, Rules>... {
  template <class F>
  constexpr void for_each(F&& f) const {
    const bool called[] = {(static_cast<void>(f(static_cast<const held<I, Rules>*>(this)->rule)), true)...};
    static_cast<void>(called);
  }
  /// Of each rule its callable and its guard.
  void callables(const void** out) const {
    const bool written[] = {(*out++ = &static_cast<const held<I, Rules>*>(this)->rule.build,
                             *out++ = &static_cast<const held<I, Rules>*>(this)->rule.guard, true)...};
    static_cast<void>(written);
  }
};
template <class... Rules>
using rules_in_order = rule_list<std::index_sequence_for<Rules...>, Rules...>;
}  // namespace detail

template <class... Rules>
class Ruleset;
/// In rewrite/describe.hpp.
template <class... Rules>
std::string describe(const Ruleset<Rules...>& rules);

template <class... Rules>
class Ruleset {
 public:
  using fused = detail::fused<Rules...>;
  static constexpr int count = sizeof...(Rules);
  [[no_unique_address]] detail::rules_in_order<Rules...> rules;

  constexpr explicit Ruleset(const Rules&... r) : rules{{r}...} {}

  /// Calls `f` with each rule, in order.
  template <class F>
  constexpr void for_each(F&& f) const {
    rules.for_each(f);
  }

  /// Whether rewriting ends on every graph whatever the limit: no rule's result has as many calls as the least that its
  /// pattern takes away. Callables, captures that the result uses twice and calls that it goes on using (`as`) are not
  /// looked through: they say no.
  static constexpr bool always_ends = detail::all_true({detail::shrinks<Rules>()...});

  /// The classes of modules that patterns name; calls of these are not opened before the rules are applied.
  static std::vector<std::string_view> module_classes() {
    std::vector<std::string_view> classes;
    for (const detail::Entry* e : fused::entries)
      for (int i = 0; i < e->pattern->size; ++i)
        if (e->pattern[i].kind == Term::Kind::module) classes.push_back(e->pattern[i].name);
    return classes;
  }

  /// The decision tree as text.
  std::string describe() const { return rewrite::describe(*this); }

  /// Rewrites `graph` until no rule matches. What may be dropped when it is replaced is dropped; everything else stays.
  /// Meta data of a replaced node goes to its replacement. O(nodes + rewrites).
  RewriteReport apply(Graph& graph, const RewriteOptions& options = {}) const {
    const void* callables[2 * count];
    rules.callables(callables);
    return rewrite_graph(graph, fused::data.table(detail::facts_of<Rules...>, callables), options);
  }
  /// The same for whatever owns a graph and knows how its modules spell operators, such as a GraphModule.
  template <class Module>
    requires requires(Module& m, const Ruleset& s, const RewriteOptions& o) { apply_rules(m, s, o); }
  RewriteReport apply(Module& module, const RewriteOptions& options = {}) const {
    return apply_rules(module, *this, options);
  }
};

namespace detail {
consteval auto refused_set() { return Ruleset<refused_rule<"refused">>({}); }
}  // namespace detail
/// All rules in one decision tree; the earlier rule wins where several match.
template <class... Rules>
consteval auto ruleset(Rules... rules) {
  constexpr bool all_rules = detail::all_true({true, is_rule<Rules>...});
  static_assert(sizeof...(Rules) > 0, "fxx::ruleset: give at least one rule");
  static_assert(all_rules, "fxx::ruleset: an argument is not a rule; write rule<\"name\">(pattern >> replacement)");
  if constexpr (!all_rules || sizeof...(Rules) == 0) {
    return detail::refused_set();
  } else if constexpr (!detail::all_true({!__is_same(typename Rules::replacement, detail::refused)...})) {
    return detail::refused_set();
  } else {
    detail::check_distinct<0, Rules...>();
    return Ruleset<Rules...>(rules...);
  }
}
template <class A, class B>
  requires(is_rule<A> || is_rule<B>)
consteval auto operator+(const A&, const B&) {
  static_assert(sizeof(A) == 0, "fxx::ruleset: + joins two sets; rules are put into one by ruleset(a, b)");
  return detail::refused_set();
}

/// Why the rule does not match where `node` is the root, in one sentence: the first condition that failed after most of
/// the pattern had matched. "" when it matches.
template <fixed_string Name, class P, class R, class Guard, Law Needs>
std::string explain(const rule_of<Name, P, R, Guard, Needs>& rule, Node* node) {
  using Rule = rule_of<Name, P, R, Guard, Needs>;
  const void* callables[] = {&rule.build, &rule.guard};
  return explain_match(detail::fused<Rule>::data.table(detail::facts_of<Rule>, callables), 0, node);
}
/// The same of the rule of that name. Throws RuleError (E405) when the set has none.
template <class... Rules>
std::string explain(const Ruleset<Rules...>& rules, std::string_view name, Node* node) {
  const void* callables[2 * sizeof...(Rules)];
  rules.rules.callables(callables);
  const RuleTable table = detail::fused<Rules...>::data.table(detail::facts_of<Rules...>, callables);
  return explain_match(table, number_of_rule(table, name), node);
}

namespace detail {
template <std::size_t... I, class... A, std::size_t... J, class... B>
consteval Ruleset<A..., B...> join(const rule_list<std::index_sequence<I...>, A...>& a,
                                   const rule_list<std::index_sequence<J...>, B...>& b) {
  return Ruleset<A..., B...>(static_cast<const held<I, A>&>(a).rule..., static_cast<const held<J, B>&>(b).rule...);
}
}  // namespace detail
/// The rules of both sets, those of `a` first. Refused where `ruleset` of all of them would be.
template <class... A, class... B>
consteval auto operator+(const Ruleset<A...>& a, const Ruleset<B...>& b) {
  if constexpr ((false || ... || __is_same(typename A::replacement, detail::refused))) {
    return a;
  } else if constexpr ((false || ... || __is_same(typename B::replacement, detail::refused))) {
    return b;
  } else {
    detail::check_distinct<int(sizeof...(A)), A..., B...>();
    return detail::join(a.rules, b.rules);
  }
}

}  // namespace fxx::inline FXX_ABI::rewrite
