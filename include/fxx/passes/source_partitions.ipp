// Bodies of passes/source_partitions.hpp.
#pragma once

#include <algorithm>
#include <utility>

#include "fxx/ops/registry.hpp"
#include "fxx/passes/source_partitions.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {

/// "torch::nn::Linear" is wanted as that, and as "Linear".
FXX_INLINE bool is_type(std::string_view type, std::string_view wanted) {
  if (type == wanted) return true;
  return type.size() > wanted.size() + 2 && type.ends_with(wanted) &&
         type.substr(type.size() - wanted.size() - 2, 2) == "::";
}
FXX_INLINE bool is_function(const Node& node, std::string_view wanted) {
  if (const Operator* op = operator_of(node))
    return is_type(op->name, wanted) || is_type(op->name.substr(0, op->name.find('.')), wanted);
  const auto* call = std::get_if<CallFunction>(&node.op());
  const auto* function = call ? std::get_if<const UserFunction*>(&call->target) : nullptr;
  return function && (*function)->name == wanted;
}

/// Notes what goes in and out, once all nodes are there.
FXX_INLINE void take_ends(SourcePartition& partition) {
  std::vector<const Node*> inside(partition.nodes.begin(), partition.nodes.end());
  std::sort(inside.begin(), inside.end());
  const auto is_inside = [&](const Node* node) { return std::binary_search(inside.begin(), inside.end(), node); };
  const auto add = [](std::vector<Node*>& nodes, Node* node) {
    if (std::find(nodes.begin(), nodes.end(), node) == nodes.end()) nodes.push_back(node);
  };
  for (Node* node : partition.nodes) {
    if (node->opcode() == Opcode::get_attr) add(partition.params, node);
    for (Node* input : node->all_input_nodes()) {
      if (is_inside(input)) continue;
      add(input->opcode() == Opcode::get_attr ? partition.params : partition.input_nodes, input);
    }
    const auto users = node->users();
    if (std::any_of(users.begin(), users.end(), [&](const Node* user) { return !is_inside(user); }))
      partition.output_nodes.push_back(node);
  }
}

}  // namespace detail

FXX_INLINE std::map<std::string, std::vector<SourcePartition>, std::less<>> get_source_partitions(
    const Graph& graph, std::span<const std::string> wanted_sources) {
  std::map<std::string, std::vector<SourcePartition>, std::less<>> found;
  std::map<std::pair<std::string, std::string>, std::size_t> known;  // source and call, to the place in its list
  const auto add = [&](const std::string& source, std::string name, Node* node) {
    std::vector<SourcePartition>& partitions = found[source];
    const auto [at, fresh] = known.emplace(std::pair(source, name), partitions.size());
    if (fresh) partitions.push_back({.source = source, .name = std::move(name)});
    partitions[at->second].nodes.push_back(node);
  };
  for (Node* node : graph.nodes()) {
    if (node->opcode() == Opcode::placeholder || node->opcode() == Opcode::output) continue;
    // Calls of a module are counted over the whole trace, so the key of one frame tells them apart.
    bool by_module = false, in_library = false;
    for (ModuleStack stack = node->module_stack(); !stack.empty() && !by_module; stack = ModuleStack(stack.outer())) {
      const ModuleFrame& frame = stack.innermost();
      in_library = in_library || frame.type.starts_with("torch::nn::");
      for (const std::string& wanted : wanted_sources)
        if (detail::is_type(frame.type, wanted)) {
          add(wanted, frame.key(), node);
          by_module = true;
          break;
        }
    }
    if (by_module || in_library) continue;
    for (const std::string& wanted : wanted_sources)
      if (detail::is_function(*node, wanted)) {
        add(wanted, std::string(node->name()), node);
        break;
      }
  }
  for (auto& [source, partitions] : found)
    for (SourcePartition& partition : partitions) detail::take_ends(partition);
  return found;
}
FXX_INLINE std::map<std::string, std::vector<SourcePartition>, std::less<>> get_source_partitions(
    const Graph& graph, std::initializer_list<std::string> wanted_sources) {
  return get_source_partitions(graph, std::span<const std::string>(wanted_sources.begin(), wanted_sources.size()));
}

FXX_INLINE bool check_subgraphs_connected(const SourcePartition& first, const SourcePartition& second) {
  for (const Node* node : first.output_nodes)
    for (const Node* user : node->users())
      if (std::find(second.nodes.begin(), second.nodes.end(), user) != second.nodes.end()) return true;
  return false;
}

}  // namespace fxx::inline FXX_ABI
