// Bodies of rewrite/replace_pattern.hpp.
#pragma once

#include <algorithm>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "fxx/error.hpp"
#include "fxx/ir/print.hpp"
#include "fxx/ops/effects.hpp"
#include "fxx/ops/registry.hpp"
#include "fxx/rewrite/replace_pattern.hpp"
#include "fxx/rewrite/replaced.hpp"

namespace fxx::inline FXX_ABI::rewrite {

namespace detail {

// --- does it fit? ----------------------------------------------------------------------------------------------------

FXX_INLINE std::vector<const Node*> placeholders_of(const Graph& graph) {
  std::vector<const Node*> found;
  for (const Node* node : graph.nodes())
    if (node->opcode() == Opcode::placeholder) found.push_back(node);
  return found;
}
/// Nodes and literals of a result, left to right.
FXX_INLINE void add_leaves(const Argument& value, std::vector<Argument>& leaves) {
  using Kind = Argument::Kind;
  switch (value.kind()) {
    case Kind::list:
    case Kind::tuple:
      for (const Argument& item : value.items()) add_leaves(item, leaves);
      return;
    case Kind::dict:
      for (const DictEntry& entry : value.entries()) add_leaves(entry.value, leaves);
      return;
    default: leaves.push_back(value);
  }
}
FXX_INLINE std::size_t results_of(const Argument& value) {
  const Operator* op = value.is_node() ? operator_of(*value.node()) : nullptr;
  return op ? op->returns.size() : 1;
}

/// What takes the place of one result of the pattern: a value of the replacement, one item of it, or several values for
/// an operator that gives as many.
struct Exchange {
  const Node* pattern;
  std::vector<Argument> values;
  int item = -1;
  bool passed_on = false;  // an input or an attribute that the pattern returns as it came
};

FXX_INLINE void refuse_replacement(const std::string& why, const Node* node = nullptr) {
  throw RuleError(ErrorId::replacement_invalid, "replace_pattern: " + why, {node ? format_node(*node) : std::string()});
}

/// Throws RuleError (E402) where the replacement cannot stand for the pattern.
FXX_INLINE std::vector<Exchange> exchanges(const SubgraphMatcher& matcher, const Graph& replacement) {
  const std::span<const Node* const> inputs = matcher.pattern_placeholder_nodes();
  const std::vector<const Node*> given = placeholders_of(replacement);
  const Node* output = replacement.size() ? replacement.nodes().back() : nullptr;
  if (!output || output->opcode() != Opcode::output)
    refuse_replacement("the replacement has no output, so nothing says what it returns; add one");
  if (given.size() != inputs.size())
    refuse_replacement("the replacement takes " + std::to_string(given.size()) + " inputs, the pattern " +
                       std::to_string(inputs.size()) +
                       "; they correspond by position, so give it the same, used or not");
  std::vector<Argument> results, values;
  add_leaves(matcher.pattern_result(), results);
  add_leaves(output->arg(0), values);
  std::vector<Exchange> found;
  std::vector<const Node*> unchanged;  // passed on by both
  const auto same_number = [&](std::size_t a, std::size_t b) { return a == b && a > 1; };
  if (results.size() == 1 && same_number(results_of(results[0]), values.size())) {
    // `return topk(x, 3)` against two values.
    for (const Argument& value : values)
      if (!value.is_node()) refuse_replacement("the replacement returns a constant; a result is a node", output);
    return {{results[0].node(), values}};
  }
  const bool apart = values.size() == 1 && same_number(results_of(values[0]), results.size());
  if (!apart && values.size() != results.size())
    refuse_replacement("the replacement returns " + std::to_string(values.size()) + " values, the pattern " +
                           std::to_string(results.size()) + "; they correspond by position",
                       output);
  for (std::size_t i = 0; i < results.size(); ++i) {
    const Argument &result = results[i], &value = values[apart ? 0 : i];
    const bool passed_on = !result.is_node() || !computes(*result.node());
    // What the pattern passes on as the replacement does keeps its users.
    bool same = passed_on && !result.is_node() && !value.is_node() && !apart && same_literal(result, value, {});
    if (passed_on && result.is_node() && value.is_node() && !apart && result.node()->op() == value.node()->op())
      same = result.node()->opcode() == Opcode::get_attr;
    for (std::size_t k = 0; k < inputs.size() && passed_on && !apart; ++k)
      same =
          same || (result == Argument(const_cast<Node*>(inputs[k])) && value == Argument(const_cast<Node*>(given[k])));
    if (!result.is_node() && !same)
      refuse_replacement("the pattern returns the constant " + to_string(result) +
                             ", which has no users, and the replacement something else in its place; return the same",
                         output);
    if (!result.is_node()) continue;
    if (!value.is_node()) refuse_replacement("the replacement returns a constant; a result is a node", output);
    const Exchange next{result.node(), {value}, apart ? static_cast<int>(i) : -1, passed_on};
    const auto known =
        std::find_if(found.begin(), found.end(), [&](const Exchange& e) { return e.pattern == next.pattern; });
    if (known == found.end()) found.push_back(next);
    else if (!(known->values == next.values) || known->item != next.item)
      refuse_replacement("the pattern returns '" + std::string(next.pattern->name()) +
                             "' twice, the replacement two values for it; return one",
                         output);
    if (same) unchanged.push_back(result.node());
  }
  std::erase_if(found, [&](const Exchange& e) {
    return std::find(unchanged.begin(), unchanged.end(), e.pattern) != unchanged.end();
  });
  return found;
}

FXX_INLINE SubgraphMatcher matcher_of(const Graph& pattern, SubgraphMatcherOptions options) {
  if (returns_names(pattern)) return SubgraphMatcherWithNameNodeMap(pattern, options);
  return SubgraphMatcher(pattern, options);
}

FXX_INLINE PatternReplacement::PatternReplacement(Graph& graph, GraphOf pattern, std::span<const MatchFilter> filters,
                                                  bool ignore_literals)
    : graph_(graph),
      pattern_(pattern.graph == &graph ? GraphOf(Graph(graph)) : std::move(pattern)),  // which does not change
      matcher_(matcher_of(*pattern_.graph, {.ignore_literals = ignore_literals})) {
  matches_ = matcher_.match(graph_, [&](const InternalMatch& match) {
    return std::all_of(filters.begin(), filters.end(),
                       [&](const MatchFilter& filter) { return filter(match, graph_, *pattern_.graph); });
  });
}
FXX_INLINE PatternReplacement::PatternReplacement(Graph& graph, const SubgraphMatcher& matcher,
                                                  std::vector<InternalMatch> matches)
    : graph_(graph), pattern_(matcher.pattern()), matcher_(matcher), matches_(std::move(matches)) {}

FXX_INLINE void PatternReplacement::check(const Graph& replacement) const {
  const std::vector<Exchange> exchanged = exchanges(matcher_, replacement);
  const std::span<const Node* const> inputs = matcher_.pattern_placeholder_nodes();
  const std::vector<const Node*> given = placeholders_of(replacement);
  const auto used = [](const Node& input) {
    const auto users = input.users();
    return std::any_of(users.begin(), users.end(), [](const Node* user) { return user->opcode() != Opcode::output; });
  };
  for (const Exchange& exchange : exchanged)
    if (exchange.passed_on && exchange.pattern->opcode() == Opcode::placeholder && !used(*exchange.pattern))
      refuse_replacement("the pattern returns the input '" + std::string(exchange.pattern->name()) +
                             "' as it came and computes nothing with it, so nothing says whose users get what the "
                             "replacement returns in its place; use it in the pattern",
                         exchange.pattern);
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (!used(*inputs[i]) && used(*given[i]))
      refuse_replacement("the replacement uses the input '" + std::string(given[i]->name()) +
                             "', which the pattern does not, so nothing says what it is; use it in both",
                         given[i]);
  }
}
FXX_INLINE void PatternReplacement::check(const Graph& replacement, const InternalMatch& match) const {
  const std::vector<const Node*> given = placeholders_of(replacement);
  for (const Exchange& exchange : exchanges(matcher_, replacement))
    for (const Argument& value : exchange.values)
      if (const auto at = std::find(given.begin(), given.end(), value.node()); at != given.end())
        if (const Argument& bound = match.placeholder_nodes[static_cast<std::size_t>(at - given.begin())];
            !bound.is_node())
          refuse_replacement("the replacement returns the input '" + std::string((*at)->name()) +
                                 "', which stands for " + to_string(bound) + " in a match; a result is a node",
                             match.anchors[0]);
}

// --- replacing -------------------------------------------------------------------------------------------------------

class PatternReplacer {
 public:
  PatternReplacer(Graph& graph, const SubgraphMatcher& matcher)
      : graph_(graph), matcher_(matcher), regions_(graph), matched_(graph.index_bound()) {}

  /// False when the match is left alone, for what it would do to memory or because others were replaced around it.
  bool replace(InternalMatch& match, const Graph& replacement, std::vector<Node*>& fresh) {
    const std::vector<Node*> nodes = match.nodes();
    passed_on_.clear();
    for (const Exchange& exchange : exchanges(matcher_, replacement)) {
      const Argument* bound = exchange.passed_on ? match.nodes_map.find(exchange.pattern) : nullptr;
      // Of several matches that pass on one value the first one redirects its users.
      if (bound && bound->is_node() && !redirected_.contains(bound->node()))
        passed_on_.emplace_back(exchange.pattern, bound->node());
    }
    for (Argument& value : match.placeholder_nodes) value = present(value, nodes);
    for (NodesMap::Entry& entry : match.nodes_map.entries_)
      if (entry.pattern_node->opcode() == Opcode::placeholder) entry.value = present(entry.value, nodes);
    for (auto& [pattern, node] : passed_on_)
      if (const Argument now = present(Argument(node), nodes); now.is_node()) node = now.node();
    if (lost(match, nodes)) return false;
    for (const Node* node : nodes) matched_[node->index()] = 1;
    const bool done = exchange(match, nodes, replacement, fresh);
    for (const Node* node : nodes) matched_[node->index()] = 0;
    return done;
  }

  /// Erases what nobody uses any more since its user went: values that only the replaced nodes used.
  void sweep() {
    while (!dropped_.empty()) {
      Node* node = dropped_.back();
      dropped_.pop_back();
      const Opcode opcode = node->opcode();
      if (node->is_erased() || node->num_users() || opcode == Opcode::placeholder || is_barrier(*node) ||
          draws_numbers(*node))
        continue;
      erase(node);
    }
  }

 private:
  /// Is something of the match gone? One that takes an item of an earlier match's several results has it no more when
  /// separate values stand for these.
  static bool lost(const InternalMatch& match, const std::vector<Node*>& nodes) {
    bool gone = std::any_of(nodes.begin(), nodes.end(), [](const Node* node) { return node->is_erased(); });
    for (const Argument& value : match.placeholder_nodes)
      for_each_node(value, [&](const Node* node) { gone = gone || node->is_erased(); });
    return gone;
  }
  /// What stands for a value of the graph by now, as the nodes of a match see it.
  Argument present(const Argument& value, const std::vector<Node*>& nodes) {
    return map_nodes(value, [&](Node* node) {
      if (const auto other = redirected_.find(node); other != redirected_.end()) {
        const auto is_user = [&](const Node* n) {
          const auto inputs = n->all_input_nodes();
          return std::find(inputs.begin(), inputs.end(), node) != inputs.end();
        };
        if (std::any_of(nodes.begin(), nodes.end(), [&](const Node* n) { return !n->is_erased() && is_user(n); }))
          return Argument(node);
        node = other->second;
      }
      std::vector<Node*> way;
      Argument now = node;
      for (auto at = replaced_.find(node); at != replaced_.end();) {
        way.push_back(now.node());
        now = at->second;
        at = now.is_node() ? replaced_.find(now.node()) : replaced_.end();
      }
      for (Node* step : way) replaced_[step] = now;
      return now;
    });
  }
  void erase(Node* node) {
    const std::vector<Node*> inputs = node->all_input_nodes().snapshot();
    regions_.forget(*node);
    graph_.erase_node(node);
    dropped_.insert(dropped_.end(), inputs.begin(), inputs.end());
  }

  bool exchange(const InternalMatch& match, const std::vector<Node*>& nodes, const Graph& replacement,
                std::vector<Node*>& fresh) {
    ReplacementPlace place;
    if (!find_place(nodes.back(), match.returning_nodes, match.placeholder_nodes, matched_, regions_, place))
      return false;
    const auto fits = [&] {
      return can_be_taken_out(nodes, *place.before, matched_, regions_) && !crosses_new_barrier(nodes, place);
    };
    std::unordered_set<const Node*> needed;
    if (!passed_on_.empty()) {
      needed = needed_by(match.placeholder_nodes, passed_on_);
      const ReplacementPlace late = place;
      if (!place_before_users(match.placeholder_nodes, needed, place) || !fits()) place = late;
    }
    if (!fits()) return false;
    const std::uint32_t first_fresh = graph_.index_bound();
    std::vector<std::pair<Node*, Argument>> results, passed_on;
    {
      const InsertPoint point = graph_.inserting_before(place.before);
      build(match, *nodes.back(), replacement, results, passed_on);
    }
    for (Node* node = place.before->prev(); node && node->index() >= first_fresh; node = node->prev())
      fresh.push_back(node);
    std::reverse(fresh.begin(), fresh.end());
    if (!keeps_results(results, first_fresh) || !keeps_results(passed_on, first_fresh)) {
      for (auto node = fresh.rbegin(); node != fresh.rend(); ++node) graph_.erase_node(*node);
      fresh.clear();
      return false;
    }
    for (Node* node : place.hoisted) (fresh.empty() ? place.before : fresh.front())->prepend(node);
    for (Node* node : fresh) {
      regions_.place(*node, *nodes.back());
      if (is_barrier(*node)) new_barriers_.insert(node);
      if (!node->has_meta()) carry_place_over(*nodes.back(), *node);
    }
    redirect(passed_on, results, needed, first_fresh);
    for (const auto& [old, result] : results) {
      if (!has_strides_of(*old, *result.node())) forget_strides(*old);
      if (result.node()->index() >= first_fresh) carry_over(*old, *result.node());
      old->replace_all_uses_with(result.node());
      replaced_[old] = result;
      // An item that was taken out of an operator's several results.
      if (!is_matched(*old)) erase(old);
    }
    for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) erase(*node);
    take_names(results, nodes, fresh, first_fresh);
    return true;
  }
  /// What the values are computed from, as far back as one of `passed_on`.
  static std::unordered_set<const Node*> needed_by(const std::vector<Argument>& values,
                                                   const std::vector<std::pair<const Node*, Node*>>& passed_on) {
    std::unordered_set<const Node*> needed;
    std::vector<const Node*> pending;
    const auto add = [&](const Node* node) {
      const auto is_behind = [&](const auto& passed) { return passed.second->is_before(*node); };
      if (std::any_of(passed_on.begin(), passed_on.end(), is_behind) && needed.insert(node).second)
        pending.push_back(node);
    };
    for (const Argument& value : values) for_each_node(value, add);
    while (!pending.empty()) {
      const Node* node = pending.back();
      pending.pop_back();
      for (const Node* input : node->all_input_nodes()) add(input);
    }
    return needed;
  }
  /// Moves the place before the first user that gets another value for one that the pattern passes on. False when what
  /// the replacement takes cannot stand there: then users before the place keep what they have.
  bool place_before_users(const std::vector<Argument>& inputs, const std::unordered_set<const Node*>& needed,
                          ReplacementPlace& place) const {
    for (const auto& [pattern, node] : passed_on_)
      for (Node* user : node->users())
        if (!is_matched(*user) && !needed.contains(user) && user->is_before(*place.before)) place.before = user;
    place.hoisted.clear();
    for (const Argument& input : inputs)
      for_each_node(input, [&](Node* node) {
        if (!node->is_before(*place.before) &&
            std::find(place.hoisted.begin(), place.hoisted.end(), node) == place.hoisted.end())
          place.hoisted.push_back(node);
      });
    return add_what_moves(place.hoisted, *place.before, regions_, [&](const Node& node) { return is_matched(node); });
  }
  /// Gives the users of what the pattern passes on what the replacement returns in its place. The replacement itself,
  /// what it is computed from, and users before it keep the value. All exchanges happen at once: two values may change
  /// places.
  void redirect(const std::vector<std::pair<Node*, Argument>>& passed_on,
                const std::vector<std::pair<Node*, Argument>>& results, const std::unordered_set<const Node*>& needed,
                std::uint32_t first_fresh) {
    if (passed_on.empty()) return;
    std::vector<Node*> users;
    for (const auto& [old, result] : passed_on) {
      redirected_.emplace(old, result.node());
      if (!has_strides_of(*old, *result.node())) forget_strides(*old);
      const auto stands_for = [&](const auto& other) { return other.second == result; };
      if (result.node()->index() >= first_fresh && std::none_of(results.begin(), results.end(), stands_for))
        carry_over(*old, *result.node());
      for (Node* user : old->users())
        if (user->index() < first_fresh && !is_matched(*user) && !needed.contains(user) &&
            result.node()->is_before(*user))
          users.push_back(user);
    }
    const auto exchanged = [&](Node* node) -> Argument {
      for (const auto* pairs : {&passed_on, &results})
        for (const auto& [old, result] : *pairs)
          if (old == node) return result;
      return node;
    };
    std::sort(users.begin(), users.end());
    users.erase(std::unique(users.begin(), users.end()), users.end());
    for (Node* user : users) {
      std::vector<Argument> args;
      std::vector<KeywordArgument> kwargs;
      for (const Argument& a : user->args()) args.push_back(map_nodes(a, exchanged));
      for (const KeywordArgument& k : user->kwargs()) kwargs.push_back({k.key, map_nodes(k.value, exchanged)});
      user->set_args_kwargs(args, kwargs);
    }
  }
  /// Results first, each the name of the node that it stands for where it does the same; then all others.
  static void take_names(const std::vector<std::pair<Node*, Argument>>& results, const std::vector<Node*>& nodes,
                         const std::vector<Node*>& fresh, std::uint32_t first_fresh) {
    std::unordered_set<const Node*> done;  // fresh ones that have a name, and old ones that gave theirs
    for (const auto& [old, result] : results)
      if (result.node()->index() >= first_fresh && is_among(nodes, *old) && !done.contains(result.node()) &&
          take_name(*result.node(), std::span<Node* const>(&old, 1)))
        done.insert({result.node(), old});
    std::unordered_map<std::uint64_t, std::vector<Node*>> gone;  // by operator, the first one last
    for (auto node = nodes.rbegin(); node != nodes.rend(); ++node)
      if ((*node)->operation() && !done.contains(*node)) gone[(*node)->operation()->id].push_back(*node);
    for (Node* node : fresh) {
      if (!node->operation() || done.contains(node)) continue;
      const auto same = gone.find(node->operation()->id);
      if (same == gone.end() || same->second.empty()) continue;
      take_name(*node, std::span<Node* const>(&same->second.back(), 1));
      same->second.pop_back();
    }
  }
  static bool is_among(const std::vector<Node*>& nodes, const Node& node) {
    return std::binary_search(nodes.begin(), nodes.end(), &node, Regions::IsBefore());
  }
  bool is_matched(const Node& node) const { return node.index() < matched_.size() && matched_[node.index()] != 0; }

  /// Copies the replacement to the insertion point, and says what each result becomes.
  void build(const InternalMatch& match, const Node& last, const Graph& replacement,
             std::vector<std::pair<Node*, Argument>>& results, std::vector<std::pair<Node*, Argument>>& passed_on) {
    std::vector<Argument> values(replacement.index_bound());
    std::size_t next = 0;
    bool by_literal = false;
    const auto value_of = [&](Node* node) {
      const Argument& value = values[node->index()];
      by_literal = by_literal || !value.is_node();
      return value;
    };
    for (const Node* node : replacement.nodes()) {
      if (node->opcode() == Opcode::placeholder) {
        values[node->index()] = match.placeholder_nodes[next++];
      } else if (node->opcode() != Opcode::output) {
        by_literal = false;
        Node* copy = graph_.node_copy(*node, value_of);
        if (by_literal) resolve_again(*copy);
        if (copy->location().line() == 0) copy->set_location(last.location());
        ModuleStack stack = last.module_stack();
        for (ModuleFrame& frame : node->module_stack().frames()) stack = ModuleStack(stack, std::move(frame));
        copy->set_module_stack(std::move(stack));
        values[node->index()] = copy;
      }
    }
    for (const Exchange& exchange : exchanges(matcher_, replacement)) {
      const auto passed = std::find_if(passed_on_.begin(), passed_on_.end(),
                                       [&](const auto& p) { return p.first == exchange.pattern; });
      if (exchange.passed_on && passed == passed_on_.end()) continue;
      Node* old = exchange.passed_on ? passed->second : match.nodes_map.node(exchange.pattern);
      Argument value = map_nodes(exchange.values[0], value_of);
      if (exchange.passed_on) {
        if (exchange.item >= 0)
          value = graph_.call_function(table_operator(OperatorIndex::operator_getitem), {value, exchange.item});
        if (!(value == Argument(old))) passed_on.emplace_back(old, std::move(value));
      } else if (exchange.values.size() > 1) {
        add_items(*old, exchange, values, results);
      } else if (exchange.item >= 0) {
        Node* item = graph_.call_function(table_operator(OperatorIndex::operator_getitem), {value, exchange.item});
        results.emplace_back(old, item);
      } else {
        results.emplace_back(old, std::move(value));
      }
    }
  }
  /// A number may have come where the replacement has a tensor: `mul(x, y)` with 2 for y is another overload.
  static void resolve_again(Node& node) {
    if (node.opcode() == Opcode::call_method) node.set_resolved(nullptr);
    const Operator* op = node.opcode() == Opcode::call_function ? node.operation() : nullptr;
    if (!op) return;
    for (int i = 0; i < op->arity(); ++i)
      if (const Argument* given = argument_of(node, *op, i);
          given && !fits(*given, op->parameters[static_cast<std::size_t>(i)].type)) {
        const Operator* other = resolve_overload(op->name.substr(0, op->name.find('.')), node.args(), node.kwargs());
        if (other) node.set_op(CallFunction{other});
        return;
      }
  }
  /// Every item that is taken out of an old result becomes one of the new values. Without any where the result is used
  /// as a whole.
  static void add_items(Node& old, const Exchange& exchange, const std::vector<Argument>& values,
                        std::vector<std::pair<Node*, Argument>>& results) {
    for (Node* user : old.users()) {
      const Operator* op = operator_of(*user);
      const auto count = static_cast<std::int64_t>(exchange.values.size());
      const bool is_item = op && *op == table_operator(OperatorIndex::operator_getitem) && user->args().size() == 2 &&
                           user->arg(0) == Argument(&old) && user->arg(1).kind() == Argument::Kind::integer;
      const std::int64_t item = is_item ? user->arg(1).integer() : count;
      if (item >= count || item < -count) {
        results.emplace_back(&old, Argument());
        return;
      }
      const Argument& value = exchange.values[static_cast<std::size_t>(item < 0 ? item + count : item)];
      results.emplace_back(user, values[value.node()->index()]);
    }
  }

  /// Do the users of every result see in the new values what they saw?
  bool keeps_results(const std::vector<std::pair<Node*, Argument>>& results, std::uint32_t first_fresh) const {
    for (const auto& [old, result] : results) {
      if (!result.is_node()) return false;
      if (regions_.effects().empty() && new_barriers_.empty()) continue;
      const auto used_up = [&](const Node& maker) {
        const auto users = maker.users();
        return std::all_of(users.begin(), users.end(),
                           [&](const Node* user) { return user->index() >= first_fresh || is_matched(*user); });
      };
      if (!keeps_memory(*old, *result.node(), first_fresh, results.size() > 1, regions_, used_up)) return false;
    }
    return true;
  }

  /// Does a write that an earlier replacement brought lie between the nodes?
  bool crosses_new_barrier(const std::vector<Node*>& nodes, const ReplacementPlace& place) const {
    if (new_barriers_.empty()) return false;
    const Node* first = place.before->is_before(*nodes.front()) ? place.before : nodes.front();
    const Node* last = nodes.back();
    if (!place.hoisted.empty() && last->is_before(*place.hoisted.back())) last = place.hoisted.back();
    const auto at = new_barriers_.lower_bound(first);
    return at != new_barriers_.end() && (*at)->is_before(*last);
  }

  Graph& graph_;
  const SubgraphMatcher& matcher_;
  Regions regions_;
  std::vector<std::uint32_t> matched_;  // by index: not 0 for the nodes that are being replaced
  std::unordered_map<const Node*, Argument> replaced_;
  std::unordered_map<const Node*, Node*> redirected_;  // what was passed on, and what its users got
  std::vector<std::pair<const Node*, Node*>> passed_on_;  // by the present match: in the pattern, in the graph
  std::set<const Node*, Regions::IsBefore> new_barriers_;
  std::vector<Node*> dropped_;  // inputs of erased nodes
};

FXX_INLINE std::vector<ReplacedPatterns> PatternReplacement::apply(std::span<const GraphOf> replacements) {
  std::vector<GraphOf> graphs(replacements.begin(), replacements.end());
  for (GraphOf& of : graphs)
    if (of.graph == &graph_) of = GraphOf(Graph(graph_));  // as it is before anything is replaced
  std::vector<ReplacedPatterns> done;
  PatternReplacer replacer(graph_, matcher_);
  for (std::size_t i = 0; i < matches_.size(); ++i) {
    InternalMatch& match = matches_[i];
    std::vector<Node*> fresh;
    if (!replacer.replace(match, *graphs[graphs.size() == 1 ? 0 : i].graph, fresh)) continue;
    done.push_back({match.anchors[0], std::move(match.nodes_map), std::move(fresh), pattern_.own});
  }
  replacer.sweep();
  matches_.clear();
  return done;
}

}  // namespace detail

FXX_INLINE std::optional<ReplacedPatterns> replace_with_graph(Graph& graph, const SubgraphMatcher& matcher,
                                                              InternalMatch match, const Graph& replacement) {
  std::vector<InternalMatch> matches;
  matches.push_back(std::move(match));
  detail::PatternReplacement found(graph, matcher, std::move(matches));
  found.check(replacement);
  found.check(replacement, found.matches()[0]);
  const detail::GraphOf graphs[] = {detail::GraphOf(replacement)};
  std::vector<ReplacedPatterns> done = found.apply(graphs);
  return done.empty() ? std::nullopt : std::optional<ReplacedPatterns>(std::move(done[0]));
}

FXX_INLINE void erase_nodes(Graph& graph, const InternalMatch& match) {
  const std::vector<Node*> nodes = match.nodes();
  for (const Node* node : nodes)
    for (const Node* user : node->users())
      if (std::find(nodes.begin(), nodes.end(), user) == nodes.end())
        throw GraphError(ErrorId::node_has_users,
                         "erase_nodes: '" + std::string(node->name()) + "' is used by '" + std::string(user->name()) +
                             "', which is not in the match; replace its uses first",
                         {format_node(*node)});
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) graph.erase_node(*node);
  for (const auto& [pattern_node, value] : match.nodes_map)
    if (pattern_node->opcode() == Opcode::get_attr && !value.node()->is_erased() && value.node()->num_users() == 0)
      graph.erase_node(value.node());
}

}  // namespace fxx::inline FXX_ABI::rewrite
