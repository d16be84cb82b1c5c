// Bodies of rewrite/rewriter.hpp.
#pragma once

#include <algorithm>
#include <map>
#include <numeric>
#include <unordered_set>

#include "fxx/error.hpp"
#include "fxx/ir/names.hpp"
#include "fxx/ir/print.hpp"
#include "fxx/ops/effects.hpp"
#include "fxx/ops/registry.hpp"
#include "fxx/rewrite/matcher.hpp"
#include "fxx/rewrite/replaced.hpp"
#include "fxx/rewrite/rewriter.hpp"

namespace fxx::inline FXX_ABI::rewrite {

namespace detail {

class Rewriter {
 public:
  Rewriter(Graph& graph, const RuleTable& rules, const RewriteOptions& options)
      : graph_(graph),
        rules_(rules),
        regions_((resolve(graph), graph)),
        engine_(graph, rules, regions_),
        first_of_run_(graph.index_bound()) {
    report_.fired.resize(static_cast<std::size_t>(rules.count));
    for (int i = 0; i < rules.count; ++i) report_.fired[static_cast<std::size_t>(i)].rule = rules.names[i];
    report_.nodes_before = graph.size();
    limit_ = options.limit ? options.limit : 1000 + 100 * graph.size();
    queued_.resize(graph.index_bound());
  }

  RewriteReport run() {
    for (Node* n : graph_.nodes().reversed()) visit(n);
    for (std::vector<Node*> round; !work_.empty() && !report_.stopped_at_limit;) {
      round.swap(work_);
      for (Node* n : round) {
        queued_[n->index()] = false;
        if (!n->is_erased()) visit(n);
      }
      round.clear();
    }
    number_in_order();
    report_.nodes_after = graph_.size();
    return std::move(report_);
  }

 private:
  /// Nodes that were made from the end to the start exchange names, so that they count up: relu, relu_1, relu_2.
  void number_in_order() {
    std::map<std::string_view, std::vector<Node*>> same_stem;
    for (Node* n : graph_.nodes())
      if (n->index() >= first_of_run_ && n->operation() && is_made_from(n->name(), n->operation()->base_name()))
        same_stem[n->operation()->base_name()].push_back(n);
    const auto by_number = [](const Node* a, const Node* b) {
      return a->name().size() != b->name().size() ? a->name().size() < b->name().size() : a->name() < b->name();
    };
    for (auto& [stem, nodes] : same_stem) {
      // The node whose name is i-th gives it to the i-th node: a permutation, walked cycle by cycle.
      std::vector<std::size_t> giver(nodes.size());
      std::iota(giver.begin(), giver.end(), std::size_t{0});
      std::sort(giver.begin(), giver.end(),
                [&](std::size_t a, std::size_t b) { return by_number(nodes[a], nodes[b]); });
      for (std::size_t i = 0; i < nodes.size(); ++i)
        for (std::size_t at = i; giver[at] != at;) {
          const std::size_t from = std::exchange(giver[at], at);
          if (from == i) break;
          nodes[at]->swap_names(*nodes[from]);
          at = from;
        }
    }
  }

  /// Methods are matched as the operators that they mean.
  static void resolve(const Graph& graph) {
    for (const Node* n : graph.nodes())
      if (n->opcode() == Opcode::call_method) operator_of(*n);
  }

  void visit(Node* n) {
    ++report_.visited;
    if (report_.stopped_at_limit) return;
    Match m;
    if (!engine_.match_node(n, m)) return;
    if (report_.rewrites == limit_) {
      report_.stopped_at_limit = true;
      return;
    }
    const auto rule = static_cast<std::size_t>(m.rule());
    const std::uint32_t first_fresh = graph_.index_bound();
    std::vector<Argument> results;
    {
      const InsertPoint point = graph_.inserting_before(n);
      try {
        if (const Term* t = rules_.results[rule]) {
          results = results_of(build(t, m), m, false);
        } else {
          results = results_of(rules_.builds[rule](rules_.objects[rule], m), m, true);
          for (const Argument& result : results) check_order(*result.node(), m, first_fresh);
        }
      } catch (...) {
        drop_fresh(n, first_fresh);
        throw;
      }
    }
    const std::vector<Match> members(m.members().begin(), m.members().end());
    const auto keeps = [&](std::size_t i) {
      return keeps_memory(members[i], *results[i].node(), first_fresh, members.size() > 1);
    };
    for (std::size_t i = 0; i < results.size() && !regions_.effects().empty(); ++i)
      if (!keeps(i)) results.clear();
    if (results.empty()) return drop_fresh(n, first_fresh);
    ++report_.rewrites;
    ++report_.fired[rule].times;
    queued_.resize(graph_.index_bound());
    // Hoisting puts old nodes between the new ones, so these are gathered first.
    std::vector<Node*> built;
    for (Node* fresh = n->prev(); fresh && fresh->index() >= first_fresh; fresh = fresh->prev()) built.push_back(fresh);
    for (Node* fresh : built) {
      for (Node* input : fresh->all_input_nodes()) hoist(input, fresh);
      regions_.place(*fresh, *n);
      push(fresh);
    }
    for (std::size_t i = 0; i < members.size(); ++i) {
      Node* fresh = results[i].node();
      replace(members[i], fresh, first_fresh);
      if (fresh->index() >= first_fresh) take_name(*fresh, members[i].nodes());
    }
  }

  /// Throws RuleError when what was built uses the node that it replaces, or values that are not there yet.
  void check_order(const Node& result, const Match& m, std::uint32_t first_fresh) const {
    std::vector<const Node*> pending = {&result};
    std::unordered_set<const Node*> seen = {&result};
    for (std::size_t i = 0; i < pending.size(); ++i) {
      const Node& node = *pending[i];
      const bool late = !node.is_before(*m.root()) && !(m.members().size() > 1 && is_constant_value(node));
      if (&node.graph() != &graph_ || node.is_erased() || late)
        throw RuleError(ErrorId::replacement_invalid,
                        "rewrite: the replacement of rule '" + std::string(rules_.names[m.rule()]) + "' uses '" +
                            std::string(node.name()) +
                            "', which is not in the graph before the node that is replaced; build it from what the "
                            "pattern captures",
                        {format_node(*m.root())});
      if (node.index() < first_fresh) continue;
      for (const Node* input : node.all_input_nodes())
        if (seen.insert(input).second) pending.push_back(input);
    }
  }

  bool keeps_memory(const Match& m, const Node& result, std::uint32_t first_fresh, bool one_of_many) const {
    return detail::keeps_memory(*m.root(), result, first_fresh, one_of_many, regions_,
                                [&](const Node& maker) { return is_used_up(maker, m, first_fresh); });
  }
  /// Does nobody use the node but what is replaced and what replaces it?
  static bool is_used_up(const Node& node, const Match& m, std::uint32_t first_fresh) {
    for (const Node* user : node.users()) {
      if (user == m.root() || user->index() >= first_fresh) continue;
      if (std::find(m.nodes().begin(), m.nodes().end(), user) == m.nodes().end() || !used_within(*user, m.nodes()))
        return false;
    }
    return true;
  }
  /// Moves a value that stands behind `place`, and what it is computed from, in front of it: the constants of siblings.
  static void hoist(Node* value, Node* place) {
    if (value->is_before(*place)) return;
    for (Node* input : value->all_input_nodes()) hoist(input, place);
    place->prepend(value);
  }

  /// One node per member, or nothing when the callable declined.
  std::vector<Argument> results_of(Argument built, const Match& m, bool may_decline) const {
    const std::size_t members = m.members().size();
    if (may_decline && (built.is_none() || (built.is_node() && built.node() == m.root()))) return {};
    std::vector<Argument> results;
    if (built.is_sequence() && rules_.alone[m.rule()]) results.assign(built.items().begin(), built.items().end());
    else results.push_back(std::move(built));
    bool fits = results.size() == members;
    for (const Argument& r : results) fits = fits && r.is_node();
    if (!fits)
      throw RuleError(ErrorId::replacement_invalid,
                      "rewrite: rule '" + std::string(rules_.names[m.rule()]) + "' returned " + to_text(results) +
                          "; a replacement is a node, or for " +
                          "siblings a list of as many nodes as there are members (" + std::to_string(members) +
                          "), or None to decline",
                      {format_node(*m.root())});
    return results;
  }
  static std::string to_text(const std::vector<Argument>& values) { return fxx::to_string(Argument::list(values)); }

  Argument build(const Term* t, const Match& m) { return build_next(t, m); }
  Argument build_next(const Term*& t, const Match& m) {
    using K = Term::Kind;
    const Term& self = *t++;
    switch (self.kind) {
      case K::call: {
        std::vector<Argument> args;
        std::vector<KeywordArgument> kwargs;
        bool gap = false;  // after a parameter left out, the rest goes by name
        for (std::size_t i = 0; i < self.children; ++i) {
          if (t->kind == K::standard) {
            gap = true;
            ++t;
            continue;
          }
          const Parameter& p = self.op->parameters[i];
          Argument value = build_next(t, m);
          if (gap || p.keyword_only) kwargs.push_back({p.name, std::move(value)});
          else args.push_back(std::move(value));
        }
        return graph_.call_function(*self.op, args, kwargs);
      }
      case K::list: {
        std::vector<Argument> items;
        for (int i = 0; i < self.children; ++i) items.push_back(build_next(t, m));
        return Argument::list(std::move(items));
      }
      case K::literal:
      case K::near: return to_argument(self.value);
      default: return m.get(self.id);
    }
  }

  void replace(const Match& m, Node* fresh, std::uint32_t first_fresh) {
    Node* old = m.root();
    push_users(old, rules_.depth - 1);
    if (fresh->index() >= first_fresh) carry_over(*old, *fresh);
    old->replace_all_uses_with(fresh);
    remove(m);
  }
  void drop_fresh(Node* before, std::uint32_t first_fresh) {
    for (Node* n = before->prev(); n && n->index() >= first_fresh;) {
      Node* previous = n->prev();
      if (n->num_users() == 0) graph_.erase_node(n);
      n = previous;
    }
  }
  void push(Node* n) {
    if (queued_[n->index()] || !operator_of(*n)) return;
    queued_[n->index()] = true;
    work_.push_back(n);
  }
  void push_users(Node* n, int levels) {
    if (levels <= 0) return;
    for (Node* user : n->users()) {
      push(user);
      push_users(user, levels - 1);
    }
  }
  /// Drops the matched node, which nobody uses any more, and what only it used. A mutation that was matched is one of a
  /// temporary that nobody else could see; so is any other that is not a barrier.
  void remove(const Match& m) {
    const std::span<Node* const> matched = m.nodes();
    std::vector<Node*> pending = {m.root()};
    while (!pending.empty()) {
      Node* node = pending.back();
      pending.pop_back();
      if (node->is_erased() || node->num_users() || node->opcode() == Opcode::placeholder) continue;
      if (std::find(matched.begin(), matched.end(), node) == matched.end() && is_barrier(*node)) continue;
      const std::vector<Node*> inputs(node->all_input_nodes().snapshot());
      graph_.erase_node(node);
      for (Node* input : inputs) {
        if (input->num_users() == 0) pending.push_back(input);
        else if (rules_.uses_once && input->num_users() == 1) push(input), push_users(input, rules_.depth - 1);
      }
    }
  }

  Graph& graph_;
  const RuleTable& rules_;
  Regions regions_;
  MatchEngine engine_;
  std::size_t limit_ = 0;
  const std::uint32_t first_of_run_;  // nodes with a higher index are made here
  std::vector<Node*> work_;
  std::vector<bool> queued_;
  RewriteReport report_;
};

}  // namespace detail

FXX_INLINE RewriteReport rewrite_graph(Graph& graph, const RuleTable& rules, const RewriteOptions& options) {
  return detail::Rewriter(graph, rules, options).run();
}

FXX_INLINE std::string RewriteReport::to_string() const {
  std::string text;
  for (const Fired& f : fired)
    if (f.times) text += (text.empty() ? "" : ", ") + f.rule + ": " + std::to_string(f.times);
  return text;
}

}  // namespace fxx::inline FXX_ABI::rewrite
