// Bodies of passes/regions.hpp.
#pragma once

#include <algorithm>
#include <climits>
#include <unordered_map>

#include "fxx/ops/effects.hpp"
#include "fxx/ops/registry.hpp"
#include "fxx/passes/regions.hpp"

namespace fxx::inline FXX_ABI {

FXX_INLINE bool looks_around(const Node& node) {
  const Operator* op = operator_of(node);
  return op && op->base_name().starts_with("as_strided");
}
FXX_INLINE bool looks_at_memory(const Node& node) {
  const Operator* op = operator_of(node);
  return op && (looks_around(node) || op->base_name().starts_with("view_as_") || op->name == "aten::view.dtype");
}

namespace detail {

/// Which nodes belong to regions, and to which.
class RegionFinder {
 public:
  RegionFinder(const Graph& graph, const std::unordered_set<const Node*>& unknown)
      : graph_(graph), unknown_(unknown), reasons_(graph.index_bound()), levels_(graph.index_bound()) {}

  std::vector<Region> find() {
    mark_all();
    if (const std::string reason = what_is_copied(); !reason.empty()) {
      mark_everything(reason);
    } else {
      if (marked_.empty()) return {};
      count_levels();
      if (const std::string mixed = what_mixes(); !mixed.empty()) mark_everything(mixed);
    }
    std::vector<Region> regions;
    for (Node* node : graph_.nodes()) {
      if (!is_marked(*node)) continue;
      const auto number = static_cast<std::size_t>(level(*node)) - 1;
      if (regions.size() <= number) regions.resize(number + 1);
      regions[number].nodes.push_back(node);
      regions[number].reasons.push_back(reasons_[node->index()]);
    }
    std::erase_if(regions, [](const Region& region) { return region.nodes.empty(); });
    return regions;
  }

  /// Regions of a level come before what needs them, and behind what has no more than the level before.
  std::vector<Node*> order() const {
    std::vector<Node*> nodes = graph_.nodes().snapshot();
    const auto place = [&](const Node* node) {
      if (node->opcode() == Opcode::placeholder) return -1;
      if (node->opcode() == Opcode::output) return INT_MAX;
      return 2 * levels_[node->index()] + (is_marked(*node) ? 0 : 1);
    };
    std::stable_sort(nodes.begin(), nodes.end(), [&](const Node* a, const Node* b) { return place(a) < place(b); });
    return nodes;
  }

 private:
  static bool computes(const Node& node) {
    return node.opcode() != Opcode::placeholder && node.opcode() != Opcode::get_attr && node.opcode() != Opcode::output;
  }
  static std::string quoted(const Node& node) { return '\'' + std::string(node.name()) + '\''; }
  /// A list, a tuple, a number: what has no memory that a kernel could read.
  static bool is_no_tensor(const Node& node) { return computes(node) && !node.tensor_meta(); }
  bool is_marked(const Node& node) const { return !reasons_[node.index()].empty(); }
  int level(const Node& node) const { return levels_[node.index()]; }

  void mark(Node& node, const std::string& reason) {
    if (!computes(node) || is_marked(node)) return;
    reasons_[node.index()] = reason;
    marked_.push_back(&node);
  }
  void mark_all() {
    for (Node* node : graph_.nodes()) {
      if (unknown_.contains(node)) mark(*node, "its sizes depend on elements");
      for (const Node* input : node->all_input_nodes())
        if (unknown_.contains(input)) mark(*node, "reads " + quoted(*input) + ", whose sizes depend on elements");
    }
    for (Node* node : graph_.nodes()) {
      if (!is_no_tensor(*node) || unknown_.contains(node)) continue;
      for (const Node* user : node->users())
        if (!item_taken(*user)) mark(*node, "gives several values at once, which are passed on together");
    }
    for (std::size_t i = 0; i < marked_.size(); ++i) {
      Node& node = *marked_[i];
      if (is_no_tensor(node))
        for (Node* user : node.users()) mark(*user, "takes " + quoted(node) + ", which is no tensor");
      for (Node* input : node.all_input_nodes())
        if (is_no_tensor(*input)) mark(*input, "is no tensor, and " + quoted(node) + " takes it");
    }
  }
  void mark_everything(const std::string& reason) {
    for (Node* node : graph_.nodes())
      if (computes(*node)) {
        reasons_[node->index()] = reason;
        levels_[node->index()] = 1;
      }
  }

  /// A region is behind what it needs of others: one level higher than kernels, no higher than other regions.
  void count_levels() {
    const Node *last_write = nullptr, *last_draw = nullptr;
    int kernels = 0, regions = 0;  // the highest so far
    for (Node* node : graph_.nodes()) {
      if (!computes(*node)) continue;
      const bool marked = is_marked(*node);
      int highest = marked ? 1 : 0;
      const auto behind = [&](const Node& other) {
        highest = std::max(highest, level(other) + (marked && !is_marked(other) ? 1 : 0));
      };
      for (const Node* input : node->all_input_nodes()) behind(*input);
      if (last_write) behind(*last_write);
      const bool draws = draws_numbers(*node);
      if (draws && last_draw) behind(*last_draw);
      if (draws) last_draw = node;
      if (is_barrier(*node)) {
        // What read the memory comes before it.
        highest = std::max({highest, kernels + (marked ? 1 : 0), regions});
        last_write = node;
      }
      levels_[node->index()] = highest;
      (marked ? regions : kernels) = std::max(marked ? regions : kernels, highest);
    }
  }

  /// What is called back gives a copy: where that is to be a view, nobody may write to its memory behind it.
  std::string what_is_copied() const {
    if (!graph_.may_have_effects()) return {};
    for (const Node* view : graph_.nodes()) {
      if (!looks_at_memory(*view)) continue;
      const Memory memory = memory_of(*view);
      for (const Node* write : graph_.nodes())
        if (is_barrier(*write) && view->is_before(*write) && may_overlap(memory, memory_written_by(*write)))
          return quoted(*write) + " may write to memory that " + quoted(*view) + " shares";
    }
    return {};
  }
  /// What a region gives to others is copied, or lies elsewhere: nobody may write there to memory that it was a part of.
  /// Says who would; empty when nobody does.
  std::string what_mixes() {
    if (!graph_.may_have_effects()) return {};
    for (const Node* write : graph_.nodes()) {
      if (!is_barrier(*write)) continue;
      const Memory written = memory_written_by(*write);
      for (const Node* node : marked_) {
        const auto is_elsewhere = [&](const Node* other) {
          return !is_marked(*other) || level(*other) != level(*node);
        };
        const auto users = node->users();
        if (!node->is_before(*write) || !is_elsewhere(write) ||
            std::none_of(users.begin(), users.end(), is_elsewhere) || gives_what_it_wrote_to(*node))
          continue;
        if (may_overlap(memory_of(*node), written))
          return quoted(*write) + " may write to memory that " + quoted(*node) + " shares";
      }
    }
    return {};
  }
  /// Is the value, at the end of the chain, one that no region made? Then everybody sees that.
  bool gives_what_it_wrote_to(const Node& node) const {
    const Node* given = written_operand(node);
    return given && (!is_marked(*given) || gives_what_it_wrote_to(*given));
  }

  const Graph& graph_;
  const std::unordered_set<const Node*>& unknown_;
  std::vector<std::string> reasons_;  // by index; empty where kernels are made
  std::vector<int> levels_;
  std::vector<Node*> marked_;
};

}  // namespace detail

FXX_INLINE const Node* written_operand(const Node& node) {
  const Operator* op = operator_of(node);
  if (!op || !op->mutates || !op->base_name().ends_with('_') || op->parameters.empty()) return nullptr;
  const Argument* given = argument_of(node, *op, 0);
  if (!given || !given->is_node()) return nullptr;
  const TensorMeta *before = given->node()->tensor_meta(), *after = node.tensor_meta();
  return before && after && before->shape == after->shape && before->stride == after->stride ? given->node() : nullptr;
}

FXX_INLINE std::vector<Region> gather_regions(Graph& graph, const std::unordered_set<const Node*>& unknown) {
  detail::RegionFinder finder(graph, unknown);
  std::vector<Region> regions = finder.find();
  if (regions.empty()) return regions;
  Node* at = graph.nodes().front();
  for (Node* node : finder.order()) {
    if (node == at) at = at->next();
    else at->prepend(node);
  }
  return regions;
}

FXX_INLINE Graph graph_of(std::span<const Node* const> nodes, std::span<const Node* const> inputs,
                          std::span<const Node* const> outputs) {
  Graph graph;
  std::unordered_map<const Node*, Node*> copies;
  for (const Node* input : inputs) {
    Node* placeholder = graph.placeholder(input->name());
    if (input->tensor_meta()) placeholder->set_tensor_meta(*input->tensor_meta());
    copies[input] = placeholder;
  }
  for (const Node* node : nodes) {
    for (const Node* input : node->all_input_nodes())
      if (input->opcode() == Opcode::get_attr && !copies.contains(input))
        copies[input] = graph.node_copy(*input, [](Node* n) { return n; });
    copies[node] = graph.node_copy(*node, [&](Node* input) { return copies.at(input); });
  }
  std::vector<Argument> results;
  for (const Node* output : outputs) results.emplace_back(copies.at(output));
  graph.output(Argument::tuple(std::move(results)));
  return graph;
}

}  // namespace fxx::inline FXX_ABI
