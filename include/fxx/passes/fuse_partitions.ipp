// Bodies of passes/fuse_partitions.hpp.
#pragma once

#include <algorithm>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "fxx/error.hpp"
#include "fxx/ir/print.hpp"
#include "fxx/ops/effects.hpp"
#include "fxx/ops/registry.hpp"
#include "fxx/passes/fuse_partitions.hpp"
#include "fxx/passes/stable_topological_sort.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {
FXX_INLINE void refuse_partition(const std::string& why, const Node* node = nullptr) {
  throw GraphError(ErrorId::partition_invalid, "fuse_by_partitions: " + why,
                   {node ? format_node(*node) : std::string()});
}
FXX_INLINE std::string quoted(const Node& node) { return '\'' + std::string(node.name()) + '\''; }

/// The places of a graph's nodes among the writes that others can see, and of those that draw random numbers among
/// each other.
class Places {
 public:
  explicit Places(const Graph& graph) : places_(graph.index_bound()) {
    Place next;
    for (const Node* node : graph.nodes()) {
      next.is_write = is_barrier(*node);
      next.is_draw = draws_numbers(*node);
      places_[node->index()] = next;
      pass(next, next);
    }
  }
  /// Has the node its place in another order, whose nodes are given one after the other? New ones have no place.
  bool keeps(const Node& node) {
    if (node.index() >= places_.size() || reads_only(node)) return true;
    const Place& place = places_[node.index()];
    const bool kept = place.writes == now_.writes && (!place.is_draw || place.draws == now_.draws);
    pass(place, now_);
    return kept;
  }

 private:
  struct Place {
    std::size_t writes = 0, draws = 0;  // before it
    bool is_write = false, is_draw = false;
  };
  static bool reads_only(const Node& node) {
    return node.opcode() == Opcode::get_attr || node.opcode() == Opcode::placeholder;
  }
  static void pass(const Place& place, Place& now) {
    now.writes += place.is_write;
    now.draws += place.is_draw;
  }
  std::vector<Place> places_;
  Place now_;
};
}  // namespace detail

FXX_INLINE bool validate_partition(std::span<Node* const> nodes) {
  if (nodes.empty()) return true;
  const std::unordered_set<const Node*> inside(nodes.begin(), nodes.end());
  const Node* last =
      *std::max_element(nodes.begin(), nodes.end(), [](const Node* a, const Node* b) { return *a < *b; });
  std::unordered_set<const Node*> seen;
  std::vector<const Node*> pending(nodes.begin(), nodes.end());
  while (!pending.empty()) {
    const Node* node = pending.back();
    pending.pop_back();
    for (const Node* user : node->users()) {
      if (inside.contains(user)) {
        if (!inside.contains(node)) return false;
      } else if (user->is_before(*last) && seen.insert(user).second) {
        pending.push_back(user);
      }
    }
  }
  return true;
}

FXX_INLINE FusedGraph fuse_as_graph(const Graph& graph, std::span<Node* const> nodes, bool always_return_tuple) {
  if (nodes.empty()) detail::refuse_partition("a partition is empty; give it a node, or leave it out");
  std::unordered_set<const Node*> inside;
  for (const Node* node : nodes) {
    if (!node || node->is_erased() || &node->graph() != &graph)
      detail::refuse_partition("a partition has " + (node ? detail::quoted(*node) : std::string("null")) +
                               ", which is not in the graph; give nodes that it has");
    if (node->opcode() == Opcode::placeholder || node->opcode() == Opcode::output)
      detail::refuse_partition(
          "a partition has " + detail::quoted(*node) + ", an input or the output of the graph; leave it out", node);
    if (!inside.insert(node).second)
      detail::refuse_partition("a partition has " + detail::quoted(*node) + " twice; give it once", node);
  }
  if (!validate_partition(nodes))
    detail::refuse_partition("the partition of " + detail::quoted(*nodes[0]) +
                                 " needs values that need the partition; give it the nodes in between too",
                             nodes[0]);
  FusedGraph fused;
  fused.nodes.assign(nodes.begin(), nodes.end());
  // Whoever uses an attribute reads it; a partition of attributes alone gives them.
  const auto reads = [](const Node* node) { return node->opcode() == Opcode::get_attr; };
  if (!std::all_of(nodes.begin(), nodes.end(), reads)) {
    std::erase_if(fused.nodes, reads);
    std::erase_if(inside, reads);
  }
  std::sort(fused.nodes.begin(), fused.nodes.end(), [](const Node* a, const Node* b) { return *a < *b; });
  std::unordered_map<const Node*, Argument> values;
  for (Node* node : fused.nodes)
    for (Node* input : node->all_input_nodes()) {
      if (inside.contains(input) || values.contains(input) || input->opcode() == Opcode::get_attr) continue;
      fused.inputs.push_back(input);
      Node* placeholder = fused.graph.placeholder(input->name());
      if (input->tensor_meta()) placeholder->set_tensor_meta(*input->tensor_meta());
      values.emplace(input, placeholder);
    }
  for (Node* node : fused.nodes) {
    for (Node* input : node->all_input_nodes())
      if (!inside.contains(input) && input->opcode() == Opcode::get_attr && !values.contains(input))
        values.emplace(input, fused.graph.node_copy(*input, [](Node* n) { return Argument(n); }));
    values.emplace(node, fused.graph.node_copy(*node, [&](Node* input) { return values.at(input); }));
    const auto users = node->users();
    if (std::any_of(users.begin(), users.end(), [&](const Node* user) { return !inside.contains(user); }))
      fused.outputs.push_back(node);
  }
  std::vector<Argument> results;
  for (const Node* node : fused.outputs) results.push_back(values.at(node));
  if (results.size() > 1 || always_return_tuple) fused.graph.output(Argument::tuple(std::move(results)));
  else fused.graph.output(results.empty() ? Argument() : results[0]);
  return fused;
}

FXX_INLINE std::vector<Node*> insert_subgraphs(Graph& graph, std::span<const FusedGraph> fused,
                                               std::span<const std::string> names, bool always_return_tuple) {
  const auto carry_over = [](const Node& old, Node& fresh) {
    if (old.tensor_meta()) fresh.set_tensor_meta(*old.tensor_meta());
    fresh.set_type(old.type());
    fresh.set_location(old.location());
    if (old.has_meta()) fresh.meta() = old.meta();
  };
  detail::Places places(graph);
  std::unordered_map<const Node*, const FusedGraph*> part_of;  // by the call in its place
  std::vector<Node*> calls, attributes;  // those that were read outside: another of the graphs may have the node
  std::unordered_map<const Node*, Node*> replaced;
  for (std::size_t k = 0; k < fused.size(); ++k) {
    const FusedGraph& part = fused[k];
    const std::unordered_set<const Node*> inside(part.nodes.begin(), part.nodes.end());
    std::vector<Argument> args;
    for (Node* input : part.inputs) {
      const auto known = replaced.find(input);
      args.push_back(known == replaced.end() ? input : known->second);
    }
    const InsertPoint point = graph.inserting_before(part.nodes.back()->next());
    Node* call = graph.call_module(names[k], args);
    const bool tuple = part.outputs.size() > 1 || always_return_tuple;
    for (std::size_t i = 0; i < part.outputs.size(); ++i) {
      Node* value = call;
      if (tuple) value = graph.call_function(table_operator(OperatorIndex::operator_getitem), {call, i});
      carry_over(*part.outputs[i], *value);
      part.outputs[i]->replace_all_uses_with(value, [&](const Node* user) { return !inside.contains(user); });
      replaced.emplace(part.outputs[i], value);
    }
    for (auto node = part.nodes.rbegin(); node != part.nodes.rend(); ++node) {
      for (Node* input : (*node)->all_input_nodes())
        if (input->opcode() == Opcode::get_attr && !inside.contains(input)) attributes.push_back(input);
      graph.erase_node(*node);
    }
    calls.push_back(call);
    part_of.emplace(call, &part);
  }
  for (Node* attribute : attributes)
    if (!attribute->is_erased() && attribute->num_users() == 0) graph.erase_node(attribute);
  try {
    stable_topological_sort(graph);
  } catch (const GraphError& e) {
    detail::refuse_partition(std::string("the partitions need each other, so that none of them can run first; ") +
                             "fuse one of them, or both as one (" + e.what() + ")");
  }
  const auto check = [&](const Node& node) {
    if (!places.keeps(node))
      detail::refuse_partition(detail::quoted(node) +
                               " would run on the other side of a node that writes to memory, or draw random numbers "
                               "out of turn; make partitions of what stands together");
  };
  for (const Node* node : graph.nodes()) {
    const auto part = part_of.find(node);
    if (part == part_of.end()) check(*node);
    else
      for (const Node* inside : part->second->nodes) check(*inside);
  }
  return calls;
}

FXX_INLINE void check_apart(std::span<const std::vector<Node*>> partitions) {
  std::unordered_map<const Node*, std::size_t> known;
  for (std::size_t i = 0; i < partitions.size(); ++i)
    for (const Node* node : partitions[i])
      if (const auto [at, fresh] = known.emplace(node, i); node && !fresh && at->second != i)
        detail::refuse_partition(detail::quoted(*node) + " is in two partitions; give it to one of them", node);
}

}  // namespace fxx::inline FXX_ABI
