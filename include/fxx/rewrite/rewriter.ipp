// Bodies of rewrite/rewriter.hpp.
#pragma once

#include <algorithm>
#include <iterator>
#include <unordered_set>

#include "fxx/error.hpp"
#include "fxx/ir/print.hpp"
#include "fxx/ops/effects.hpp"
#include "fxx/ops/operation.hpp"
#include "fxx/ops/registry.hpp"
#include "fxx/ops/sharing.hpp"
#include "fxx/rewrite/instantiate.hpp"
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
        engine_(graph, rules, regions_),
        options_(options),
        late_names_(graph.naming_late()),
        first_of_run_(graph.index_bound()) {
    report_.fired.resize(static_cast<std::size_t>(rules.count));
    for (int i = 0; i < rules.count; ++i) report_.fired[static_cast<std::size_t>(i)].rule = rules.rules[i].name;
    report_.nodes_before = graph.size();
    queued_.resize(graph.index_bound());
  }

  /// Whether something in the graph writes to memory that others may see.
  bool met_writes() const { return !regions_.none(); }

  RewriteReport run() {
    try {
      sweep();
    } catch (...) {
      name_in_order();
      throw;
    }
    name_in_order();
    if (options_.near_misses && !report_.stopped_at_limit) find_near_misses();
    report_.nodes_after = graph_.size();
    return std::move(report_);
  }

 private:
  void sweep() {
    for (Node* n : graph_.nodes().reversed()) visit(n);
    made_in_sweep_ = made_.size();
    for (std::vector<Node*> round; !work_.empty() && !report_.stopped_at_limit;) {
      round.swap(work_);
      for (std::size_t i = 0; i < round.size(); ++i) {
        fetch_ahead(round, i);
        queued_[round[i]->index()] = false;
        if (!round[i]->is_erased()) visit(round[i]);
      }
      round.clear();
    }
  }
  void find_near_misses() {
    for (int i = 0; i < rules_.count; ++i) {
      if (report_.fired[static_cast<std::size_t>(i)].times) continue;
      Node* node = nullptr;
      std::string why = engine_.nearest(i, node);
      report_.near_misses.push_back(
          {std::string(rules_.rules[i].name), node ? std::string(node->name()) : "", std::move(why)});
    }
  }
  /// What is looked at later lies anywhere: first the nodes are asked for, then what they point to.
  static void fetch_ahead(const std::vector<Node*>& nodes, std::size_t i) {
    constexpr std::size_t distance = 8;
    if (i + 3 * distance < nodes.size()) nodes[i + 3 * distance]->fetch();
    if (i + 2 * distance < nodes.size()) nodes[i + 2 * distance]->fetch_rest();
    if (i + distance < nodes.size())
      for (const Node* input : nodes[i + distance]->all_input_nodes()) input->fetch();
  }

  /// What was made and is still there, in the order of the graph. Without a walk over all nodes, but where a callable
  /// has put some elsewhere than before what it replaces.
  std::vector<Node*> made_in_order() const {
    std::vector<Node*> nodes;
    if (made_.size() + declined_ == graph_.index_bound() - first_of_run_) {
      // Those of the sweep were made from the end to the start.
      for (std::size_t i = made_in_sweep_; i-- > 0;) {
        if (i >= 16) made_[i - 16]->fetch();
        if (i >= 8) made_[i - 8]->fetch_rest();
        if (!made_[i]->is_erased()) nodes.push_back(made_[i]);
      }
      put_in_order(nodes.begin(), nodes.end());
      const auto later = static_cast<std::ptrdiff_t>(nodes.size());
      for (std::size_t i = made_in_sweep_; i < made_.size(); ++i)
        if (!made_[i]->is_erased()) nodes.push_back(made_[i]);
      put_in_order(nodes.begin() + later, nodes.end());
      std::inplace_merge(nodes.begin(), nodes.begin() + later, nodes.end(), Regions::IsBefore());
    } else {
      for (Node* n : graph_.nodes())
        if (n->index() >= first_of_run_) nodes.push_back(n);
    }
    return nodes;
  }
  template <class Iterator>
  static void put_in_order(Iterator from, Iterator to) {
    if (!std::is_sorted(from, to, Regions::IsBefore())) std::sort(from, to, Regions::IsBefore());
  }
  /// What was made from the end to the start gets its names from the start to the end: relu, relu_1, relu_2.
  void name_in_order() const {
    const std::vector<Node*> made = made_in_order();
    for (std::size_t i = 0; i < made.size(); ++i) {
      if (i + 16 < made.size()) made[i + 16]->fetch();
      if (i + 8 < made.size()) made[i + 8]->fetch_rest();
      made[i]->name();
    }
  }
  /// What a node that goes is called in the report. It gets no name for that: the others would be numbered with a gap.
  static std::string text_of(const Node& node) {
    if (node.has_name()) return std::string(node.name());
    return node.meta().from.empty() ? node.target() : node.meta().from;
  }

  void visit(Node* n) {
    ++report_.visited;
    if (report_.stopped_at_limit) return;
    if (const std::uint16_t state = engine_.state_for(*n)) rewrite_at(n, state);
  }
  /// The first rule that matches and does not decline.
  void rewrite_at(Node* n, std::uint16_t state) {
    Match m;
    for (int declined = -1; engine_.match_node(state, n, m, declined); declined = m.rule())
      if (apply(n, m)) return;
  }
  /// False when what was built is declined; then it is gone again, as it is beyond the limit.
  bool apply(Node* n, const Match& m) {
    const auto rule = static_cast<std::size_t>(m.rule());
    for (const Node* matched : m.nodes()) {
      matched->fetch_rest();
      for (const Node* input : matched->all_input_nodes()) input->fetch_links();
    }
    // Only a callable knows whether it would decline, and asking it may change more than what it returns.
    if (!rules_.rules[rule].result && report_.rewrites == options_.limit) {
      report_.stopped_at_limit = true;
      return true;
    }
    const std::uint32_t first_fresh = graph_.index_bound();
    Node* first = n;  // several outputs are replaced before the first of them
    for (const Match& member : m.members())
      if (member.root()->is_before(*first)) first = member.root();
    results_.clear();
    {
      const InsertPoint point = graph_.inserting_before(first);
      try {
        if (const Term* t = rules_.rules[rule].result) {
          take_results(build(t, m), m, false);
        } else {
          take_results(rules_.build(rule, m), m, true);
          for (const Argument& result : results_) check_order(*result.node(), m, *first, first_fresh);
        }
      } catch (...) {
        drop_fresh(first, first_fresh);
        throw;
      }
    }
    const std::span<const Match> members = m.members();  // stay as they are until the next match
    const auto keeps = [&](std::size_t i) {
      return keeps_memory(members[i], *results_[i].node(), first_fresh, members.size() > 1);
    };
    for (std::size_t i = 0; i < results_.size() && !regions_.effects().empty(); ++i)
      if (!keeps(i)) results_.clear();
    if (results_.size() == 1 && is_same_call(*results_[0].node(), *n)) results_.clear();
    copy_what_is_given_away(members, *first, first_fresh);
    // A match that is declined is nothing that the limit keeps from being done.
    report_.stopped_at_limit = !results_.empty() && report_.rewrites == options_.limit;
    if (results_.empty() || report_.stopped_at_limit) {
      drop_fresh(first, first_fresh);
      return report_.stopped_at_limit;
    }
    ++report_.rewrites;
    ++report_.fired[rule].times;
    report_.needs = report_.needs | rules_.rules[rule].needs | m.needs();
    if (options_.record)
      for (const Match& member : members)
        report_.firings.push_back(
            {std::string(rules_.rules[m.rule()].name), text_of(*member.root()), member.root()->source()});
    if (graph_.index_bound() > queued_.size()) queued_.resize(2 * static_cast<std::size_t>(graph_.index_bound()));
    // Hoisting puts old nodes between the new ones, so these are gathered first.
    built_.clear();
    for (Node* fresh = first->prev(); fresh && fresh->index() >= first_fresh; fresh = fresh->prev())
      built_.push_back(fresh);
    for (Node* fresh : built_) {
      for (Node* input : fresh->all_input_nodes()) hoist(input, fresh);
      regions_.place(*fresh, *first);
      if (!fresh->has_meta()) carry_place_over(*m.root(), *fresh, rules_.rules[rule].name);
      made_.push_back(fresh);
      push(fresh);
    }
    // A result that was there before may stand behind the users that it gets.
    for (std::size_t i = 0; i < members.size() && members.size() > 1; ++i)
      if (results_[i].node() != members[i].root()) hoist(results_[i].node(), members[i].root());
    // All first, so that nothing goes that another one's users get.
    for (std::size_t i = 0; i < members.size(); ++i)
      replace(members[i], results_[i].node(), copies_[i], first_fresh);
    for (std::size_t i = 0; i < members.size(); ++i) {
      Node* fresh = results_[i].node();
      remove(members[i]);
      if (fresh->index() >= first_fresh && take_name(*fresh, members[i].nodes())) pass_on_name(*fresh);
    }
    return true;
  }
  /// A name that was taken over goes to the first call of the same kind that was built, so that names count up.
  void pass_on_name(Node& fresh) const {
    for (auto built = built_.rbegin(); built != built_.rend() && *built != &fresh; ++built)
      if (!(*built)->has_name() && (*built)->operation() &&
          (*built)->operation()->base_name() == fresh.operation()->base_name())
        return fresh.swap_names(**built);
  }

  /// Throws RuleError when what was built uses the node that it replaces, or values that are not there yet.
  void check_order(const Node& result, const Match& m, const Node& first, std::uint32_t first_fresh) const {
    std::vector<Node*> replaced;
    for (const Match& member : m.members())
      replaced.insert(replaced.end(), member.nodes().begin(), member.nodes().end());
    std::vector<const Node*> pending = {&result};
    std::unordered_set<const Node*> seen = {&result};
    for (std::size_t i = 0; i < pending.size(); ++i) {
      const Node& node = *pending[i];
      const bool late =
          !node.is_before(first) &&
          !(m.members().size() > 1 && (is_constant_value(node) || can_move_before(node, first, replaced, regions_)));
      if (&node.graph() != &graph_ || node.is_erased() || late)
        throw RuleError(ErrorId::replacement_invalid,
                        "rewrite: the replacement of rule '" + std::string(rules_.rules[m.rule()].name) + "' uses '" +
                            std::string(node.name()) +
                            "', which is not in the graph before the node that is replaced; build it from what the "
                            "pattern captures",
                        {format_node(*m.root())});
      if (node.index() < first_fresh) continue;
      for (const Node* input : node.all_input_nodes())
        if (seen.insert(input).second) pending.push_back(input);
    }
  }

  /// Is the result what stands there already, as that of an `each` which took no item? Then there is nothing to do.
  static bool is_same_call(const Node& result, const Node& old) {
    const Operator *op = result.operation(), *before = old.operation();
    return &result != &old && op && before && op->id == before->id && result.opcode() == old.opcode() &&
           std::ranges::equal(result.args(), old.args()) && std::ranges::equal(result.kwargs(), old.kwargs());
  }
  /// Whether a result of the graph that has memory of its own would lie in that of an input, an attribute or another
  /// result: x + 0 is no longer a copy of x then, and who gets it may write to it.
  bool is_given_away(const Node& old, const Node& result, std::uint32_t first_fresh) const {
    if (&old == &result || !graph_.owning_module()) return false;
    const Operator* op = result.index() >= first_fresh ? operator_of(result) : nullptr;
    if (op && !op->aliases && !has(op->traits, Trait::fresh_view)) return false;
    if (!reaches_output(old)) return false;
    const Memory before = memory_of(old), after = memory_of(result);
    if (may_overlap(before, after)) return false;
    return after.shared || after.anywhere || std::ranges::any_of(after.makers, [&](const Node* maker) {
             return maker->index() < first_fresh && reaches_output(*maker);
           });
  }
  /// Into copies_: copies of the values that those who get the graph's results would share, null for others. Declines
  /// the match where such a copy is what stands there already.
  void copy_what_is_given_away(std::span<const Match> members, Node& first, std::uint32_t first_fresh) {
    copies_.assign(members.size(), nullptr);
    for (std::size_t i = 0; i < results_.size(); ++i) {
      const Node& old = *members[i].root();
      Node* const result = results_[i].node();
      if (!is_given_away(old, *result, first_fresh)) continue;
      const InsertPoint point = graph_.inserting_before(&first);
      copies_[i] = graph_.call_function(ops::clone, {result});
      // It lies as what was copied, where that has no gaps, which the old result does not have.
      const TensorMeta *was = old.tensor_meta(), *is = result->tensor_meta();
      if (was && is && was->shape == is->shape && was->stride == is->stride) copies_[i]->set_tensor_meta(*was);
    }
    if (results_.size() == 1 && copies_[0] && is_same_call(*copies_[0], *members[0].root())) results_.clear();
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

  /// Into results_: one node per member, or nothing when the callable declined.
  void take_results(Argument built, const Match& m, bool may_decline) {
    const std::size_t members = m.members().size();
    if (may_decline && (built.is_none() || (built.is_node() && built.node() == m.root()))) return;
    if (built.is_sequence() && (rules_.rules[m.rule()].alone || members > 1))
      results_.assign(built.items().begin(), built.items().end());
    else results_.push_back(std::move(built));
    bool fits = results_.size() == members;
    for (const Argument& r : results_) fits = fits && r.is_node();
    if (!fits)
      throw RuleError(ErrorId::replacement_invalid,
                      "rewrite: rule '" + std::string(rules_.rules[m.rule()].name) + "' returned " + to_text(results_) +
                          "; a replacement is a node, or for " +
                          "siblings and outputs a list of as many nodes as there are members (" +
                          std::to_string(members) + "), or None to decline",
                      {format_node(*m.root())});
  }
  static std::string to_text(const std::vector<Argument>& values) { return fxx::to_string(Argument::list(values)); }

  Argument build(const Term* t, const Match& m) {
    arguments_.clear();
    return build_next(t, m);
  }
  Argument build_next(const Term*& t, const Match& m) {
    using K = Term::Kind;
    const Term& self = *t++;
    switch (self.kind) {
      case K::call: {
        const std::size_t first = arguments_.size();  // those of calls around this one stand before
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
          else arguments_.push_back(std::move(value));
        }
        Node* call = graph_.call_function(*self.op, std::span<const Argument>(arguments_).subspan(first), kwargs);
        arguments_.resize(first);
        return call;
      }
      case K::outputs:
      case K::list: {
        std::vector<Argument> items;
        for (int i = 0; i < self.children; ++i) build_into(items, t, m);
        return Argument::list(std::move(items));
      }
      case K::operands: {
        t += self.id;  // the operators, of which the first is called
        std::vector<Argument> operands;
        for (int i = static_cast<int>(self.id); i < self.children; ++i) build_into(operands, t, m);
        if (operands.empty())
          throw RuleError(ErrorId::replacement_invalid,
                          "rewrite: the replacement of rule '" + std::string(rules_.rules[m.rule()].name) +
                              "' is a chain of no operands; give it one that is always there",
                          {format_node(*m.root())});
        std::vector<Node*> links;
        return call_chain(graph_, *self.op, operands, links);
      }
      case K::literal:
      case K::near: return to_argument(*self.value);
      default: {
        if (item_)
          for (const Found::Binding& b : item_->bindings)
            if (b.id == self.id) return b.value;
        return m.get(self.id);
      }
    }
  }
  /// One value, or as many as a `rest` or an `each` stands for.
  void build_into(std::vector<Argument>& values, const Term*& t, const Match& m) {
    if (t->kind == Term::Kind::rest) {
      const Argument all = m.get(t->id);
      if (all.is_sequence()) values.insert(values.end(), all.items().begin(), all.items().end());
      ++t;
    } else if (t->kind == Term::Kind::each) {
      const Term* after = t + t->size;
      for (const Found::Item* item : m.group_items(t->id)) {
        const Term* inner = t + 1;
        item_ = item;
        values.push_back(build_next(inner, m));
      }
      item_ = nullptr;
      t = after;
    } else {
      values.push_back(build_next(t, m));
    }
  }
  /// `copy`: what takes its place among the results of the graph, where that is not `fresh` itself.
  void replace(const Match& m, Node* fresh, Node* copy, std::uint32_t first_fresh) {
    Node* old = m.root();
    push_users(old, rules_.depth - 1);
    if (fresh != old && !has_strides_of(*old, copy ? *copy : *fresh)) forget_strides(*old);
    if (fresh->index() >= first_fresh) carry_over(*old, *fresh, rules_.rules[m.rule()].name);
    if (copy) {
      carry_over(*old, *copy, rules_.rules[m.rule()].name);
      for (Node* user : old->users().snapshot())
        if (user->opcode() == Opcode::output || (passes_on_memory(*user, *old) && reaches_output(*user)))
          user->replace_input_with(old, copy);
    }
    while (old != fresh && old->num_users()) old->users().front()->replace_input_with(old, fresh);
  }
  void drop_fresh(Node* before, std::uint32_t first_fresh) {
    for (Node* n = before->prev(); n && n->index() >= first_fresh;) {
      Node* previous = n->prev();
      if (n->num_users() == 0) graph_.erase_node(n), ++declined_;
      n = previous;
    }
  }
  void push(Node* n) {
    if (queued_[n->index()] || (!n->operation() && !operator_of(*n))) return;
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
  /// Drops the matched node, which nobody uses any more, and what only it used, but for what has an effect or draws
  /// random numbers and was not matched. A mutation that was matched is one of a temporary that nobody else could see; so
  /// is any other that is not a barrier.
  void remove(const Match& m) {
    const std::span<Node* const> matched = m.nodes();
    pending_.assign(1, m.root());
    while (!pending_.empty()) {
      Node* node = pending_.back();
      pending_.pop_back();
      if (node->is_erased() || node->num_users() || node->opcode() == Opcode::placeholder) continue;
      if ((is_barrier(*node) || draws_numbers(*node)) &&
          std::find(matched.begin(), matched.end(), node) == matched.end())
        continue;
      inputs_.assign(node->all_input_nodes().begin(), node->all_input_nodes().end());
      regions_.forget(*node);
      graph_.erase_node(node);
      for (Node* input : inputs_) {
        if (input->num_users() == 0) pending_.push_back(input);
        else if (rules_.uses_once && input->num_users() == 1) push(input), push_users(input, rules_.depth - 1);
      }
    }
  }

  Graph& graph_;
  const RuleTable& rules_;
  Regions regions_;
  MatchEngine engine_;
  const Found::Item* item_ = nullptr;  // what `each` on the right is building
  const RewriteOptions options_;
  const LateNames late_names_;
  const std::uint32_t first_of_run_;  // nodes with a higher index are made here
  std::vector<Node*> made_;           // nodes that stand for others
  std::size_t made_in_sweep_ = 0;
  std::size_t declined_ = 0;  // nodes of replacements that came to nothing, and are gone
  std::vector<Node*> work_;
  std::vector<bool> queued_;
  // Of one rewrite; kept, so that their memory is.
  std::vector<Node*> built_, pending_, inputs_, copies_;
  std::vector<Argument> results_, arguments_;
  RewriteReport report_;
};

}  // namespace detail

FXX_INLINE RewriteReport rewrite_graph(Graph& graph, const RuleTable& rules, const RewriteOptions& options) {
  RewriteOptions left = options;
  if (left.limit == 0) left.limit = 1000 + 100 * graph.size();
  RewriteReport report;
  RuleTable table = rules;
  table.assumed = options.assume;
  for (;;) {
    detail::Rewriter rewriter(graph, table, left);
    RewriteReport run = rewriter.run();
    const std::size_t rewrites = run.rewrites;
    const bool again = rewrites > 0 && !run.stopped_at_limit && (rules.uses_constant || rewriter.met_writes());
    report.add(std::move(run));
    left.limit -= rewrites;
    if (!again) return report;
  }
}

FXX_INLINE void RewriteReport::add(RewriteReport later) {
  if (fired.empty() && rewrites == 0 && visited == 0) nodes_before = later.nodes_before;
  rewrites += later.rewrites;
  needs = needs | later.needs;
  visited += later.visited;
  nodes_after = later.nodes_after;
  stopped_at_limit = stopped_at_limit || later.stopped_at_limit;
  for (Fired& f : later.fired) {
    const auto known = std::find_if(fired.begin(), fired.end(), [&](const Fired& k) { return k.rule == f.rule; });
    if (known == fired.end()) fired.push_back(std::move(f));
    else known->times += f.times;
  }
  firings.insert(firings.end(), std::make_move_iterator(later.firings.begin()),
                 std::make_move_iterator(later.firings.end()));
  // Of a rule that two runs miss the later one counts; one that fired in some run is not missed.
  std::erase_if(near_misses, [&](const NearMiss& m) {
    return (*this)[m.rule] || std::any_of(later.near_misses.begin(), later.near_misses.end(),
                                          [&](const NearMiss& l) { return l.rule == m.rule; });
  });
  for (NearMiss& m : later.near_misses)
    if (!(*this)[m.rule]) near_misses.push_back(std::move(m));
}

FXX_INLINE void RewriteReport::check() const {
  if (!stopped_at_limit) return;
  std::vector<const Fired*> most;
  for (const Fired& f : fired)
    if (f.times) most.push_back(&f);
  std::stable_sort(most.begin(), most.end(), [](const Fired* a, const Fired* b) { return a->times > b->times; });
  most.resize(std::min<std::size_t>(most.size(), 5));
  std::string names;
  for (const Fired* f : most)
    names += (names.empty() ? "'" : ", '") + f->rule + "' (" + std::to_string(f->times) + " times)";
  throw RuleError(ErrorId::rewrite_limit, "rewrite: the rules were not done after " + std::to_string(rewrites) +
                                              " rewrites, the limit; most often fired " + names +
                                              "; some of them may undo each other");
}

FXX_INLINE std::string RewriteReport::to_string() const {
  std::string text;
  for (const Fired& f : fired)
    if (f.times) text += (text.empty() ? "" : ", ") + f.rule + ": " + std::to_string(f.times);
  return text;
}

}  // namespace fxx::inline FXX_ABI::rewrite
