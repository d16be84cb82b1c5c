// Bodies of passes/expand_functions.hpp.
#pragma once

#include <string>

#include "fxx/passes/expand_functions.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {
FXX_INLINE const Expansion* expansion_of(const Node& node, WhichFunctions which) {
  const CallFunction* call = std::get_if<CallFunction>(&node.op());
  const auto* function = call ? std::get_if<const UserFunction*>(&call->target) : nullptr;
  return function && (!which || which(**function)) ? (*function)->expansion : nullptr;
}
}  // namespace detail

FXX_INLINE bool has_expansions(const Graph& graph, WhichFunctions which) {
  for (const Node* node : graph.nodes())
    if (detail::expansion_of(*node, which)) return true;
  return false;
}

FXX_INLINE std::size_t expand_functions(Graph& graph, WhichFunctions which) {
  std::size_t expanded = 0;
  // All calls first, so that the graph stays as it was when one of them is wrong.
  for (const Node* node : graph.nodes()) {
    const Expansion* expansion = detail::expansion_of(*node, which);
    if (expansion && (node->args().size() != expansion->arity() || !node->kwargs().empty()))
      throw OperatorError(ErrorId::arguments_mismatch,
                          "expand_functions: %" + std::string(node->name()) + " gives " +
                              std::to_string(node->args().size()) + " arguments by position and " +
                              std::to_string(node->kwargs().size()) + " by name to a function that takes " +
                              std::to_string(expansion->arity()) + " by position");
  }
  for (Node* node : graph.nodes()) {
    const Expansion* expansion = detail::expansion_of(*node, which);
    if (!expansion) continue;
    const std::uint32_t first_fresh = graph.index_bound();
    Node* result = nullptr;
    {
      const InsertPoint point = graph.inserting_before(node);
      result = expansion->write(graph, node->args()).node();
    }
    for (Node* fresh = node->prev(); fresh && fresh->index() >= first_fresh; fresh = fresh->prev()) {
      fresh->set_location(node->location());
      fresh->set_module_stack(node->module_stack());
    }
    if (node->tensor_meta()) result->set_tensor_meta(*node->tensor_meta());
    if (!node->type().empty()) result->set_type(node->type());
    if (node->has_meta()) result->meta() = node->meta();
    node->replace_all_uses_with(result);
    result->swap_names(*node);
    graph.erase_node(node);
    ++expanded;
  }
  return expanded;
}

FXX_INLINE Graph expanded(const Graph& graph, WhichFunctions which) {
  Graph copy(graph);
  copy.set_owning_module(graph.owning_module());
  expand_functions(copy, which);
  return copy;
}

}  // namespace fxx::inline FXX_ABI
