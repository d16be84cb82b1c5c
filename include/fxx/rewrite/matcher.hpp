// Running a decision tree on a node: the interpreter, and the match that guards and replacements see.
//
// Main names: RuleTable, Match, match_node. One copy of this code serves every rule set. Matching allocates nothing and
// costs O(tests on the way). Cost: light.
#pragma once

#include <initializer_list>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "fxx/ir/graph.hpp"
#include "fxx/rewrite/pattern.hpp"
#include "fxx/rewrite/law.hpp"
#include "fxx/rewrite/search_patterns.hpp"
#include "fxx/rewrite/spelling.hpp"
#include "fxx/rewrite/term_matcher.hpp"
#include "fxx/rewrite/tree.hpp"

namespace fxx::inline FXX_ABI::rewrite {

class Match;
/// A guard: does the rule apply to this match?
using Ask = bool (*)(const void* guard, const Match&);
/// A callable replacement: the new value, or None to decline; for siblings one value a member.
using Build = Argument (*)(const void* build, const Match&);

struct RuleTable;
/// What the engine needs of a rule.
struct RuleFacts {
  std::string_view name;
  const Term* result = nullptr;      // null: a callable builds
  const Term* pattern = nullptr;     // null for a member of siblings
  bool searched = false;             // the tree does not tell all of it
  Ask ask = nullptr;                 // null: no guard
  Build build = nullptr;             // null: built from terms
  const RuleTable* alone = nullptr;  // its own tree, for siblings; null otherwise
  std::uint64_t shared = 0;          // the capture that siblings share
  Law needs = law::exact;
};

/// What the engine needs of a rule set: plain pointers to constants, so the engine is compiled once.
struct RuleTable {
  const State* states;
  const Branch* edges;
  const CapturePlace* captures;
  const Branch* slots;  // root table
  std::uint64_t mask;
  const Sieve* sieve;
  const RuleFacts* rules;
  const void* const* callables;  // of each rule what builds its result, and its guard
  int count, depth;
  bool uses_once;      // a pattern asks how many users a value has
  bool uses_constant;  // or what it is computed from
  Law assumed = law::any;  // rules that need more do not match

  std::uint16_t root(std::uint64_t op) const { return find_root(slots, mask, op); }
  /// The rule needs no more than is assumed, and has no guard, or its guard agrees.
  bool agrees(int rule, const Match& m) const {
    return holds(rules[rule].needs, assumed) && (!rules[rule].ask || rules[rule].ask(callables[2 * rule + 1], m));
  }
  /// Of a rule with a callable.
  Argument build(int rule, const Match& m) const { return rules[rule].build(callables[2 * rule], m); }
};

/// A rule that matched: its root, the nodes under it, what its captures hold.
class Match {
 public:
  Graph& graph() const { return *graph_; }
  Node* root() const { return nodes_[0]; }
  /// The nodes that the pattern's calls matched, root first.
  std::span<Node* const> nodes() const {
    if (found_) return found_->nodes;
    return {nodes_, static_cast<std::size_t>(nodes_count_)};
  }
  int rule() const { return rule_; }
  /// May so much be taken for granted of the numbers in tensors (RewriteOptions::assume)? For guards and callables of
  /// rules that need it for some matches only, or make something else without it; the report counts it as needed.
  bool may_assume(Law law) const {
    if (!holds(law, assumed_)) return false;
    needs_ = needs_ | law;
    return true;
  }
  /// What guard and callable were allowed to assume.
  Law needs() const { return needs_; }

  /// What a capture holds; the default of the schema when the argument was left out; None where the alternative that is
  /// there does not bind it. Throws RuleError (E406) when nothing in the pattern does, or only items of a group do.
  template <fixed_string Name, Term::Kind What>
  Argument operator[](capture<Name, What>) const {
    return get(capture<Name, What>::id, Name.view());
  }
  /// The same, which must be a node. Throws GraphError (E112) when it is not.
  template <fixed_string Name, Term::Kind What>
  Node* node(capture<Name, What>) const {
    return get(capture<Name, What>::id, Name.view()).node();
  }
  template <fixed_string Name, class P>
  Argument operator[](named_of<Name, P>) const {
    return get(named_of<Name, P>::id, Name.view());
  }
  /// `rest<"others">`: a list.
  template <fixed_string Name>
  Argument operator[](rest_of<Name>) const {
    return get(rest_of<Name>::id, Name.view());
  }
  /// None when the name, of which this is the hash, is not bound.
  Argument get(std::uint64_t capture) const;
  /// As `operator[]`.
  Argument get(std::uint64_t capture, std::string_view name) const;

  /// What one item of an `each`, or one link of a `chain`, holds: `item[x]`.
  class Item {
   public:
    Item(const Match& match, const Found::Item& item) : match_(&match), item_(&item) {}
    template <class Capture>
    Argument operator[](Capture) const {
      for (const Found::Binding& b : item_->bindings)
        if (b.id == Capture::id) return b.value;
      return match_->get_beside(*item_, Capture::id, Capture::form.term.name);
    }

   private:
    const Match* match_;
    const Found::Item* item_;
  };
  /// The items that the `each` or `chain` of this name matched, in their order; links from the outermost. Throws
  /// RuleError (E406) when the pattern has none of that name.
  template <fixed_string Name>
  std::vector<Item> group() const {
    std::vector<Item> items;
    for (const Found::Item* item : group_items(hash_of(Name.view()), Name.view())) items.emplace_back(*this, *item);
    return items;
  }
  std::vector<const Found::Item*> group_items(std::uint64_t hash, std::string_view name) const;
  std::vector<const Found::Item*> group_items(std::uint64_t name) const;
  /// The arguments that captures hold, in the order of the pattern's tests.
  std::vector<Argument> captures() const;

  /// A new node before the root of the match. Called by replacements; when they decline in the end, it is removed
  /// again.
  Node* call(const Operator& op, Arguments args, KeywordArguments kwargs = {}) const {
    return graph_->call_function(op, args, kwargs);
  }

  /// For siblings: all members in the order of the graph, this one first. For several outputs: one for each, in the
  /// order of the pattern, and all have the same nodes. Else only this one.
  std::span<const Match> members() const {
    return group_ ? std::span<const Match>(*group_) : std::span<const Match>(this, 1);
  }

 private:
  friend class MatchEngine;
  Argument value_of(const CapturePlace& capture) const;
  Argument get_beside(const Found::Item& item, std::uint64_t capture, std::string_view name) const;
  Graph* graph_ = nullptr;
  Node* nodes_[max_registers];  // the first nodes_count_
  const CapturePlace* captures_ = nullptr;
  const Term* pattern_ = nullptr;
  int captures_count_ = 0, nodes_count_ = 0, rule_ = -1;
  Law assumed_ = law::any;
  mutable Law needs_ = law::exact;
  std::uint32_t changed_over_ = 0;  // commutative calls whose arguments were taken the other way round, by register
  const std::vector<Match>* group_ = nullptr;
  const Found* found_ = nullptr;  // by a search, with all bindings and nodes
};

/// Numbers the stretches of a graph between mutations that others can see; a rule never matches across two of them.
/// A mutation of a fresh temporary that only it uses is invisible and splits nothing.
class Regions {
 public:
  Regions() = default;
  explicit Regions(const Graph& graph) { survey(graph); }
  /// Looks at the graph the first time, O(nodes). Where nothing matches, nobody asks.
  void survey(const Graph& graph);
  bool none() const { return numbers_.empty(); }
  struct IsBefore {
    bool operator()(const Node* a, const Node* b) const { return a->is_before(*b); }
  };
  /// All nodes with effects, visible or not, in the order of the graph.
  const std::set<const Node*, IsBefore>& effects() const { return effects_; }
  /// Of a node that nobody has placed yet, in no region.
  std::uint32_t of(const Node& node) const { return node.index() < numbers_.size() ? numbers_[node.index()] : ~0u; }
  /// A node made while rewriting belongs where it was put.
  void place(const Node& fresh, const Node& beside);
  /// Before a node is erased: afterwards it keeps the position that it had, whatever becomes of those around it.
  void forget(const Node& node) {
    if (!effects_.empty()) effects_.erase(&node);
  }

 private:
  std::vector<std::uint32_t> numbers_;
  std::set<const Node*, IsBefore> effects_;
  bool surveyed_ = false;
};

namespace detail {
struct Registers;
}

class MatchEngine {
 public:
  MatchEngine(Graph& graph, const RuleTable& rules, Regions& regions)
      : graph_(graph), rules_(rules), regions_(regions) {}
  /// Where matching `root` begins in the tree; 0 when no rule starts with its operator.
  std::uint16_t state_for(const Node& root);
  /// Walks the tree for `root` from there; the lowest rule that matches and whose guard agrees ends up in `match`, of
  /// those after the one of number `after`.
  bool match_node(std::uint16_t state, Node* root, Match& match, int after = -1);
  /// Why the rule would not match if it were the only one; "" when it would.
  std::string explain(int rule, Node* root);
  /// Where the rule, which matches nowhere, comes nearest to it: the first node at which most of its pattern is there,
  /// null when none has its first operator; and the reason. O(nodes x pattern).
  std::string nearest(int rule, Node*& node);

 private:
  /// Looks only for members of a family when `shared` is given: matches of rule `only` that share this argument.
  bool run(const RuleTable& table, std::uint16_t pc, Node* root, Match& match, int only, const Argument* shared,
           int below = 1 << 16);
  bool accept(const RuleTable& table, const State& state, const detail::Registers& regs, int rule,
              const Argument* shared, Match& match);
  bool accept_search(const Term* pattern, Match& candidate, Match& match);
  bool stands_together(const Found& found, Match& candidate);
  std::string why_not(int rule, Node* root, TermMatcher& search, bool& whole);
  std::string why_declined(int rule, const Found& found);
  /// False when there are too few, or another one, `speaker`, stands for all of them.
  bool collect_siblings(Match& match, int rule, const Node** speaker = nullptr);
  inline std::uint64_t operator_id(const Node& node);
  void resolve_methods();
  bool can_be_taken_out(std::span<Node* const> nodes) const;
  static bool shares_draws(std::span<Node* const> nodes, std::span<Node* const> roots, const Match& match);

  Graph& graph_;
  const RuleTable& rules_;
  Regions& regions_;
  bool methods_resolved_ = false;
  int asked_ = -1;  // the only rule whose matches count; -1: all
  int after_ = -1;  // matches of rules up to this one do not count
  std::vector<Match> group_, candidates_;  // siblings: of the match so far, of the one being looked at
  Found found_;                            // of the match so far
};

/// What `explain` says of one rule of a table. O(nodes).
std::string explain_match(const RuleTable& rules, int rule, Node* root);
/// The number of the rule of that name. Throws RuleError (E405) when there is none.
int number_of_rule(const RuleTable& rules, std::string_view name);

namespace detail {
/// Throws RuleError (E405): what has no rule of that name, and the rules that there are, each once.
[[noreturn]] void no_such_rule(std::string_view what, std::string_view name, std::span<const std::string_view> rules);
}  // namespace detail

/// Is every user of `node` one of `nodes`, which are all replaced?
bool used_within(const Node& node, std::span<Node* const> nodes);

/// Could `value`, and what it is computed from, be computed before `place` instead, where `nodes` are replaced?
bool can_move_before(const Node& value, const Node& place, std::span<Node* const> nodes, const Regions& regions);

}  // namespace fxx::inline FXX_ABI::rewrite

#if defined(FXX_HEADER_ONLY)
#include "fxx/rewrite/matcher.ipp"
#include "fxx/rewrite/replaced.hpp"  // whose bodies hold can_move_before
#endif
