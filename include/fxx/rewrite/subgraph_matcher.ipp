// Bodies of rewrite/subgraph_matcher.hpp: what a pattern is searched by. The search is in rewrite/subgraph_matcher/.
#pragma once

#include <algorithm>

#include "fxx/error.hpp"
#include "fxx/ir/print.hpp"
#include "fxx/rewrite/subgraph_matcher.hpp"
#include "fxx/rewrite/subgraph_matcher/search.ipp"

namespace fxx::inline FXX_ABI::rewrite {

// --- results ---------------------------------------------------------------------------------------------------------

FXX_INLINE const Argument* NodesMap::find(const Node* pattern_node) const {
  const auto at =
      std::lower_bound(entries_.begin(), entries_.end(), pattern_node,
                       [](const Entry& e, const Node* node) { return e.pattern_node->index() < node->index(); });
  return at != entries_.end() && at->pattern_node == pattern_node ? &at->value : nullptr;
}
FXX_INLINE const Argument* NodesMap::find(std::string_view pattern_name) const {
  for (const Entry& entry : entries_)
    if (entry.pattern_node->name() == pattern_name) return &entry.value;
  return nullptr;
}
FXX_INLINE const Argument& NodesMap::operator[](const Node* pattern_node) const {
  if (const Argument* found = find(pattern_node)) return *found;
  throw GraphError(ErrorId::node_not_in_graph,
                   "NodesMap: the node '" + std::string(pattern_node ? pattern_node->name() : "null") +
                       "' stands for nothing in this match; ask for nodes of the pattern, and for inputs that it uses");
}
FXX_INLINE const Argument& NodesMap::operator[](std::string_view pattern_name) const {
  if (const Argument* found = find(pattern_name)) return *found;
  throw GraphError(ErrorId::node_not_in_graph,
                   "NodesMap: no node of the pattern that stands for something is called '" +
                       std::string(pattern_name) + "'; names are those that the pattern's graph has");
}

FXX_INLINE std::vector<Node*> InternalMatch::nodes() const {
  std::vector<Node*> nodes;
  for (const auto& [pattern_node, value] : nodes_map) {
    const Opcode opcode = pattern_node->opcode();
    if (opcode != Opcode::placeholder && opcode != Opcode::get_attr && opcode != Opcode::output)
      nodes.push_back(value.node());
  }
  std::sort(nodes.begin(), nodes.end(), [](const Node* a, const Node* b) { return a->is_before(*b); });
  return nodes;
}

// --- the pattern -----------------------------------------------------------------------------------------------------

namespace detail {
FXX_INLINE bool is_names(const Argument& value) {
  if (value.kind() != Argument::Kind::dict) return false;
  for (const DictEntry& entry : value.entries())
    if (entry.key.kind() != Argument::Kind::string || !entry.value.is_node()) return false;
  return true;
}
FXX_INLINE bool returns_names(const Graph& pattern) {
  const Node* last = pattern.nodes().back();
  if (!last || last->opcode() != Opcode::output) return false;
  const Argument& value = last->arg(0);
  return value.is_sequence() && value.items().size() >= 2 && is_names(value.items().back());
}
FXX_INLINE bool computes(const Node& node) {
  return node.opcode() != Opcode::placeholder && node.opcode() != Opcode::get_attr && node.opcode() != Opcode::output;
}
}  // namespace detail

FXX_INLINE SubgraphMatcher::SubgraphMatcher(const Graph& pattern, SubgraphMatcherOptions options, bool with_names)
    : pattern_(&pattern), options_(options) {
  take_output(with_names);
  reach_from_anchors();
}

FXX_INLINE void SubgraphMatcher::refuse(const std::string& why, const Node* node) const {
  throw RuleError(ErrorId::pattern_invalid, "SubgraphMatcher: the pattern " + why,
                  {node ? format_node(*node) : std::string()});
}

FXX_INLINE void SubgraphMatcher::take_output(bool with_names) {
  if (pattern_->size() == 0) refuse("is empty; it computes something and returns it");
  const Node* output = pattern_->nodes().back();
  if (output->opcode() != Opcode::output) refuse("has no output, so nothing says what it returns; add one");
  for (const Node* node : pattern_->nodes())
    if (node->opcode() == Opcode::placeholder) placeholders_.push_back(node);
  result_ = output->arg(0);
  if (with_names) {
    if (!detail::returns_names(*pattern_))
      refuse(
          "returns no map of names after its results; write `return std::tuple{y, std::map<std::string, "
          "Proxy>{{\"y\", y}}};`",
          output);
    const std::span<const Argument> items = result_.items();
    for (const DictEntry& entry : items.back().entries()) names_.emplace_back(entry.key.string(), entry.value.node());
    const Argument alone = items.size() == 2 ? items[0] : Argument::tuple({items.begin(), items.end() - 1});
    result_ = alone;
  }
  returned_.resize(pattern_->index_bound());
  for_each_node(result_, [&](const Node* node) {
    if (!detail::computes(*node) || returned_[node->index()]) return;
    returned_[node->index()] = true;
    returning_.push_back(node);
  });
  if (options_.match_output) {
    anchors_.push_back(output);
  } else {
    // What something else in the pattern uses is found from there.
    for (const Node* node : returning_)
      if (node->num_users() == 1) anchors_.push_back(node);
  }
  if (returning_.empty())
    refuse("computes nothing that it returns, so it would match everything; return what an operator gives", output);
}

FXX_INLINE void SubgraphMatcher::reach_from_anchors() {
  std::vector<const Node*> parent(pattern_->index_bound());
  std::vector<std::size_t> reached(pattern_->index_bound());  // by which anchor, counted from 1
  for (std::size_t by = 1; by <= anchors_.size(); ++by) {
    const Node* anchor = anchors_[by - 1];
    Link link;
    std::vector<const Node*> found = {anchor};
    reached[anchor->index()] = by;
    for (std::size_t i = 0; i < found.size(); ++i) {
      const auto look_at = [&](const Node* input) {
        if (!reached[input->index()]) {
          reached[input->index()] = by;
          parent[input->index()] = found[i];
          found.push_back(input);
        }
        // Met by an earlier anchor: the nearest such node, and rather than an input, whose value may have many users.
        if (reached[input->index()] == by || input->opcode() == Opcode::get_attr) return;
        if (link.from && (link.from->opcode() != Opcode::placeholder || input->opcode() == Opcode::placeholder)) return;
        link = {input, {}};
        for (const Node* step = found[i]; step != anchor; step = parent[step->index()]) link.steps.push_back(step);
        link.steps.push_back(anchor);
      };
      if (found[i]->opcode() == Opcode::output) for_each_node(result_, look_at);
      else
        for (const Node* input : found[i]->all_input_nodes()) look_at(input);
    }
    links_.push_back(std::move(link));
  }
  for (const Node* node : pattern_->nodes())
    if (node->opcode() != Opcode::placeholder && node->opcode() != Opcode::output && !reached[node->index()])
      refuse(
          "has a node that its results do not depend on; a pattern is found from its results, so return the value or "
          "leave the node out",
          node);
}

FXX_INLINE std::vector<InternalMatch> SubgraphMatcher::search(const Graph& graph,
                                                              const detail::MatchQuestion* question) const {
  return detail::SubgraphSearch(*this, graph, question).run();
}
FXX_INLINE std::string explain(const SubgraphMatcher& matcher, Node* node) {
  return detail::SubgraphSearch(matcher, node->graph(), nullptr).explain(node);
}

}  // namespace fxx::inline FXX_ABI::rewrite
