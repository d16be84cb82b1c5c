// One search for a pattern made at run time.
#pragma once

#include <algorithm>
#include <optional>

#include "fxx/ir/print.hpp"
#include "fxx/ops/effects.hpp"
#include "fxx/ops/registry.hpp"
#include "fxx/rewrite/replaced.hpp"
#include "fxx/rewrite/subgraph_matcher.hpp"
#include "fxx/rewrite/subgraph_matcher/same_operation.ipp"

namespace fxx::inline FXX_ABI::rewrite::detail {

/// One search of a graph. What is still to be compared is a list of pairs whose tails are shared, so that going back to
/// a choice is going back to a place in it; what was bound since is on a trail.
class SubgraphSearch {
 public:
  SubgraphSearch(const SubgraphMatcher& matcher, const Graph& graph, const MatchQuestion* question)
      : matcher_(matcher),
        graph_(graph),
        question_(question),
        regions_((resolve(graph), graph)),
        bound_(matcher.pattern().index_bound()),
        stands_for_(graph.index_bound()),
        taken_(graph.index_bound()),
        depth_(depths(graph)),
        pattern_depth_(depths(matcher.pattern())),
        all_(matcher.anchors_.size()) {}

  std::vector<InternalMatch> run() {
    const Node* anchor = matcher_.anchors_[0];
    for (Node* node : graph_.nodes())
      if (could_be(*anchor, *node)) start(anchor, node);
    return std::move(found_);
  }
  /// Why it is not found there; empty when it is.
  std::string explain(Node* node) {
    explain_ = true;
    start(matcher_.anchors_[0], node);
    return found_.empty() ? "the pattern does not match at %" + std::string(node->name()) + ": " + reason_ : "";
  }

 private:
  /// Whose argument a value is; without a parameter one of a module or a function, without a user a result.
  struct From {
    const Node* user = nullptr;
    const Parameter* parameter = nullptr;
  };
  struct Pair {
    Argument pattern, value;
    Type type;
    From from;
    int next;
  };
  /// A place to come back to when what follows fails.
  struct Choice {
    std::size_t trail, pairs;
    int head;
    std::size_t anchor;                       // how many were found, and of which candidates are left
    bool of_order = false;                    // not of a candidate, but of the order of two arguments
    std::vector<Node*> candidates = {};       // those near what was found so far
    bool everywhere = false;                  // all of the graph's, in all_
    std::size_t next = 0;                     // of the candidates
    Argument pattern[2] = {}, value[2] = {};  // the two arguments, as they are compared the other way round
    Type type[2] = {};
    From from[2] = {};
  };
  struct Candidates {
    bool known = false;
    std::vector<Node*> nodes;
    std::size_t first = 0;  // those before it are taken
  };
  static constexpr int most_changes = 4096;  // of order, for one candidate

  static void resolve(const Graph& graph) {
    for (const Node* n : graph.nodes())
      if (n->opcode() == Opcode::call_method) operator_of(*n);
  }
  /// How many operations the longest way from inputs and attributes to a node has, by its index.
  static std::vector<std::uint32_t> depths(const Graph& graph) {
    std::vector<std::uint32_t> depths(graph.index_bound());
    for (const Node* n : graph.nodes()) {
      std::uint32_t& depth = depths[n->index()];
      for (const Node* input : n->all_input_nodes()) depth = std::max(depth, depths[input->index()]);
      depth += computes(*n);
    }
    return depths;
  }
  bool is_taken(const Node& node) const { return taken_[node.index()] && matcher_.options_.remove_overlapping_matches; }
  /// A match of a deep pattern needs as deep a graph above it, which is known at once. Who asks why looks for more.
  bool could_be(const Node& pattern, const Node& node) const {
    return (explain_ || depth_[node.index()] >= pattern_depth_[pattern.index()]) && !is_taken(node) &&
           same_operation(pattern, node);
  }

  template <class Words>
  bool fail(Words&& words) {
    if (explain_ && (reason_.empty() || trail_.size() > progress_)) {
      progress_ = trail_.size();
      reason_ = words();
    }
    return false;
  }
  bool differ(const Argument& pattern, const Argument& value, From from) {
    return fail([&] {
      std::string where;
      if (from.user)
        where = (from.parameter ? "argument '" + std::string(from.parameter->name) + "'" : "an argument") + " of %" +
                std::string(from.user->name()) + " is ";
      std::string wanted = pattern.is_node() ? pattern.node()->target() : to_string(pattern);
      if (const Node* node = pattern.is_node() ? pattern.node() : nullptr) {
        const Operator* op = operator_of(*node);
        if (op) wanted = "a call of " + std::string(op->name);
        else if (node->opcode() == Opcode::placeholder) wanted = "an input";
        else if (node->opcode() == Opcode::get_attr) wanted = "an attribute";
        else if (node->opcode() != Opcode::output) wanted = "a call of " + wanted;
      }
      return where + words_for(&value) + "; the pattern wants " + wanted;
    });
  }

  void start(const Node* anchor, Node* node) {
    changes_left_ = most_changes;
    anchors_found_ = 1;
    push(const_cast<Node*>(anchor), node, {}, {});
    for (bool going = true; going;) {
      if (head_ >= 0) {
        const Pair pair = pairs_[static_cast<std::size_t>(head_)];
        head_ = pair.next;
        if (!compare(pair)) going = back();
      } else if (anchors_found_ < matcher_.anchors_.size()) {
        going = next_anchor() || back();
      } else if (accept()) {
        if (matcher_.options_.remove_overlapping_matches) break;
        // Another order of the same nodes is the same match.
        std::erase_if(choices_, [](const Choice& choice) { return choice.of_order; });
        going = back();
      } else {
        going = back();
      }
    }
    choices_.clear();
    undo(0, 0, -1);
  }

  void push(Argument pattern, Argument value, Type type, From from) {
    pairs_.push_back({std::move(pattern), std::move(value), type, from, head_});
    head_ = static_cast<int>(pairs_.size()) - 1;
  }
  void undo(std::size_t trail, std::size_t pairs, int head) {
    while (trail_.size() > trail) {
      std::optional<Argument>& bound = bound_[trail_.back()->index()];
      if (bound->is_node()) {
        std::uint32_t& stands_for = stands_for_[bound->node()->index()];
        if (stands_for == trail_.back()->index() + 1) stands_for = 0;
      }
      bound.reset();
      trail_.pop_back();
    }
    pairs_.resize(pairs, Pair{});
    head_ = head;
  }
  void bind(const Node* pattern, const Argument& value) {
    bound_[pattern->index()] = value;
    trail_.push_back(pattern);
  }

  /// The last choice that has something left; false when none has.
  bool back() {
    for (; !choices_.empty(); choices_.pop_back()) {
      Choice& choice = choices_.back();
      undo(choice.trail, choice.pairs, choice.head);
      if (choice.of_order) {
        if (changes_left_-- <= 0) return false;
        anchors_found_ = choice.anchor;
        for (int i : {1, 0}) push(choice.pattern[i], choice.value[i], choice.type[i], choice.from[i]);
        choices_.pop_back();
        return true;
      }
      if (take_candidate()) return true;
    }
    return false;
  }
  /// The next candidate of the last choice; false when there is none.
  bool take_candidate() {
    Choice& choice = choices_.back();
    const std::vector<Node*>& nodes = choice.everywhere ? all_[choice.anchor].nodes : choice.candidates;
    while (choice.next < nodes.size() && is_taken(*nodes[choice.next])) ++choice.next;
    if (choice.next == nodes.size()) return false;
    push(const_cast<Node*>(matcher_.anchors_[choice.anchor]), nodes[choice.next++], {}, {});
    anchors_found_ = choice.anchor + 1;
    return true;
  }
  bool next_anchor() {
    choices_.push_back(Choice{.trail = trail_.size(), .pairs = pairs_.size(), .head = head_, .anchor = anchors_found_});
    find_candidates(choices_.back());
    return take_candidate() || fail([&] {
             return "nothing matches another result of the pattern, '" +
                    std::string(matcher_.anchors_[choices_.back().anchor]->name()) + "'";
           });
  }
  /// Those that can be reached from what was found so far, or all of the graph.
  void find_candidates(Choice& choice) {
    const SubgraphMatcher::Link& link = matcher_.links_[choice.anchor];
    const Argument* from = link.from && bound_[link.from->index()] ? &*bound_[link.from->index()] : nullptr;
    if (from && from->is_node() && from->node()->opcode() != Opcode::get_attr) {
      std::vector<Node*>& nodes = choice.candidates = {from->node()};
      for (const Node* step : link.steps) {
        std::vector<Node*> users;
        for (const Node* node : nodes)
          for (Node* user : node->users())
            if (could_be(*step, *user)) users.push_back(user);
        std::sort(users.begin(), users.end(), [](const Node* a, const Node* b) { return a->is_before(*b); });
        users.erase(std::unique(users.begin(), users.end()), users.end());
        nodes.swap(users);
      }
      return;
    }
    Candidates& all = all_[choice.anchor];
    if (!all.known) {
      all.known = true;
      for (Node* node : graph_.nodes())
        if (could_be(*matcher_.anchors_[choice.anchor], *node)) all.nodes.push_back(node);
    }
    while (all.first < all.nodes.size() && is_taken(*all.nodes[all.first])) ++all.first;
    choice.everywhere = true;
    choice.next = all.first;
  }

  bool compare(const Pair& pair) {
    const Argument &p = pair.pattern, &g = pair.value;
    using Kind = Argument::Kind;
    if (p.is_node()) {
      const Node& pattern = *p.node();
      if (const std::optional<Argument>& bound = bound_[pattern.index()])
        return same_bound(*bound, g) || fail([&] {
                 return "'" + std::string(pattern.name()) + "' of the pattern is " + words_for(&*bound) +
                        " in one place and " + words_for(&g) + " in another";
               });
      if (pattern.opcode() == Opcode::placeholder) {
        if (matcher_.options_.match_placeholder && !(g.is_node() && g.node()->opcode() == Opcode::placeholder))
          return differ(p, g, pair.from);
        bind(&pattern, g);
        return true;
      }
      return g.is_node() && could_be(pattern, *g.node()) ? compare_nodes(pattern, *g.node()) : differ(p, g, pair.from);
    }
    if (holds_nodes(p) || holds_nodes(g)) {
      if (p.is_sequence() && g.is_sequence()) return push_items(p.items(), g.items(), pair.from);
      if (p.kind() != g.kind()) return differ(p, g, pair.from);
      if (p.kind() == Kind::slice) {
        push(p.slice().step, g.slice().step, {}, pair.from);
        push(p.slice().stop, g.slice().stop, {}, pair.from);
        push(p.slice().start, g.slice().start, {}, pair.from);
        return true;
      }
      if (p.kind() != Kind::dict || p.entries().size() != g.entries().size()) return differ(p, g, pair.from);
      for (const DictEntry& wanted : p.entries()) {
        const auto given = std::find_if(g.entries().begin(), g.entries().end(),
                                        [&](const DictEntry& entry) { return entry.key == wanted.key; });
        if (given == g.entries().end()) return differ(p, g, pair.from);
        push(wanted.value, given->value, {}, pair.from);
      }
      return true;
    }
    return matcher_.options_.ignore_literals || same_literal(p, g, pair.type) || differ(p, g, pair.from);
  }
  bool push_items(std::span<const Argument> wanted, std::span<const Argument> given, From from) {
    if (wanted.size() != given.size())
      return fail([&] {
        return (from.parameter ? "argument '" + std::string(from.parameter->name) + "' of %" : "%") +
               std::string(from.user ? from.user->name() : "?") + " has " + std::to_string(given.size()) +
               " items; the pattern wants " + std::to_string(wanted.size());
      });
    for (std::size_t i = wanted.size(); i-- > 0;) push(wanted[i], given[i], {}, from);
    return true;
  }

  /// Of two that could be the same.
  bool compare_nodes(const Node& pattern, Node& node) {
    if (pattern.opcode() == Opcode::get_attr) {
      bind(&pattern, &node);
      return true;
    }
    std::uint32_t& stands_for = stands_for_[node.index()];
    if (stands_for)
      return fail([&] { return "%" + std::string(node.name()) + " would have to be two nodes of the pattern"; });
    stands_for = pattern.index() + 1;
    bind(&pattern, &node);
    if (pattern.opcode() == Opcode::output) {
      push(matcher_.result_, node.arg(0), {}, {&node, nullptr});
      return true;
    }
    const Operator *wanted = operator_of(pattern), *given = wanted ? operator_of(node) : nullptr;
    if (given) return push_parameters(pattern, *wanted, node, *given);
    const auto other_arguments = [&] {
      return "%" + std::string(node.name()) + " is called with other keyword arguments than in the pattern";
    };
    if (pattern.kwargs().size() != node.kwargs().size()) return fail(other_arguments);
    for (const KeywordArgument& k : pattern.kwargs()) {
      const Argument* value = node.kwarg(k.key);
      if (!value) return fail(other_arguments);
      push(k.value, *value, {}, {&node, nullptr});
    }
    return push_items(pattern.args(), node.args(), {&node, nullptr});
  }

  bool push_parameters(const Node& pattern, const Operator& wanted, Node& node, const Operator& given) {
    const bool two_orders = commutes(pattern, wanted) && commutes(node, given);
    Argument p[2], g[2];
    for (int i = wanted.arity(); i-- > 0;) {
      const Argument *a = argument_of(pattern, wanted, i), *b = argument_of(node, given, i);
      if (!a && !b) continue;
      const Parameter& first = wanted.parameters[static_cast<std::size_t>(i)];
      const Parameter& second = given.parameters[static_cast<std::size_t>(i)];
      // A default that cannot be read equals nothing.
      const auto unreadable = [](const Parameter& parameter) {
        return parameter.standard.kind == Literal::Kind::other || !parameter.has_default();
      };
      if (((!a && unreadable(first)) || (!b && unreadable(second))) && !matcher_.options_.ignore_literals)
        return fail([&] {
          return "argument '" + std::string(second.name) + "' of %" + std::string(node.name()) + " is " +
                 (b ? "given, and the pattern leaves it out" : "left out, and the pattern gives it");
        });
      const Argument x = a ? *a : to_argument(first.standard, first.type);
      const Argument y = b ? *b : to_argument(second.standard, second.type);
      if (two_orders && i < 2) {
        p[i] = x;
        g[i] = y;
      } else {
        push(x, y, first.type, {&node, &second});
      }
    }
    if (!two_orders) return true;
    const Type types[2] = {wanted.parameters[0].type, wanted.parameters[1].type};
    const From from[2] = {{&node, &given.parameters[0]}, {&node, &given.parameters[1]}};
    const bool as_written = could_match(p[0], g[0]) && could_match(p[1], g[1]);
    const bool changed_over = !(g[0] == g[1]) && could_match(p[0], g[1]) && could_match(p[1], g[0]);
    if (!as_written && !changed_over) {
      const int other = could_match(p[0], g[0]) ? 1 : 0;
      return differ(p[other], g[other], from[other]);
    }
    if (as_written && changed_over)
      choices_.push_back(Choice{.trail = trail_.size(),
                                .pairs = pairs_.size(),
                                .head = head_,
                                .anchor = anchors_found_,
                                .of_order = true,
                                .pattern = {p[0], p[1]},
                                .value = {g[1], g[0]},
                                .type = {types[0], types[1]},
                                .from = {from[1], from[0]}});
    for (int i : {1, 0}) {
      const int at = as_written ? i : 1 - i;
      push(p[i], g[at], types[i], from[at]);
    }
    return true;
  }
  /// A look at two arguments that decides most cases.
  bool could_match(const Argument& p, const Argument& g) const {
    if (!p.is_node()) return !g.is_node();
    const Node& pattern = *p.node();
    if (const std::optional<Argument>& bound = bound_[pattern.index()]) return same_bound(*bound, g);
    if (pattern.opcode() == Opcode::placeholder) return true;
    return g.is_node() && could_be(pattern, *g.node());
  }

  /// Everything is compared: is it a match that can be replaced, and one that is wanted?
  bool accept() {
    InternalMatch match;
    std::vector<Node*> nodes;
    for (const Node* pattern : trail_) {
      const Argument& value = *bound_[pattern->index()];
      if (computes(*pattern)) {
        nodes.push_back(value.node());
        if (!matcher_.returned_[pattern->index()])
          for (const Node* user : value.node()->users())
            if (!stands_for_[user->index()])
              return fail([&] {
                return "%" + std::string(value.node()->name()) + " is used by %" + std::string(user->name()) +
                       " too, which is not in the match; only what the pattern returns may be";
              });
      } else if (pattern->opcode() == Opcode::placeholder) {
        bool inside = false;
        for_each_node(value, [&](const Node* n) { inside = inside || stands_for_[n->index()]; });
        if (inside)
          return fail([&] {
            return "the pattern's input '" + std::string(pattern->name()) + "' would be " + words_for(&value) +
                   ", which the rest of it matches";
          });
      }
    }
    std::sort(nodes.begin(), nodes.end(), [](const Node* a, const Node* b) { return a->is_before(*b); });
    for (const Node* pattern : matcher_.returning_) match.returning_nodes.push_back(bound_[pattern->index()]->node());
    for (const Node* pattern : matcher_.placeholders_)
      match.placeholder_nodes.push_back(bound_[pattern->index()].value_or(Argument()));
    ReplacementPlace place;
    if (!find_place(nodes.back(), match.returning_nodes, match.placeholder_nodes, stands_for_, regions_, place) ||
        !can_be_taken_out(nodes, *place.before, stands_for_, regions_))
      return fail([] {
        return "all of it is there, but it cannot be replaced in one place: between its nodes something depends on "
               "them, or memory is written to";
      });
    for (const Node* anchor : matcher_.anchors_) match.anchors.push_back(bound_[anchor->index()]->node());
    std::vector<const Node*> order = trail_;
    std::sort(order.begin(), order.end(), [](const Node* a, const Node* b) { return a->index() < b->index(); });
    for (const Node* pattern : order) match.nodes_map.entries_.push_back({pattern, *bound_[pattern->index()]});
    for (const auto& [name, pattern] : matcher_.names_)
      match.name_node_map.emplace(name, bound_[pattern->index()].value_or(Argument()));
    if (question_ && !question_->ask(question_->object, match)) return false;
    for (const Node* node : nodes) taken_[node->index()] = true;
    found_.push_back(std::move(match));
    return true;
  }

  const SubgraphMatcher& matcher_;
  const Graph& graph_;
  const MatchQuestion* question_;
  const Regions regions_;
  std::vector<std::optional<Argument>> bound_;  // by the index of the pattern's node
  std::vector<std::uint32_t> stands_for_;       // by the index of the graph's node: that of the pattern's and 1, or 0
  std::vector<bool> taken_;                     // by the index of the graph's node: by a match that was found
  const std::vector<std::uint32_t> depth_, pattern_depth_;
  std::vector<Candidates> all_;  // one an anchor, made when first needed
  std::vector<const Node*> trail_;
  std::vector<Pair> pairs_;
  std::vector<Choice> choices_;
  int head_ = -1;  // of the pairs that are still to be compared
  std::size_t anchors_found_ = 0;
  int changes_left_ = 0;
  std::vector<InternalMatch> found_;
  bool explain_ = false;
  std::string reason_;
  std::size_t progress_ = 0;
};

}  // namespace fxx::inline FXX_ABI::rewrite::detail
