// Removing what nobody uses.
//
// Main names: eliminate_dead_code, erase_unread_memory. O(nodes). Cost: light. After torch.fx graph.py
// eliminate_dead_code, 2.13; differs: a mutation is never removed, whichever way it is spelled (`x.mul_()` is lost
// upstream), nor is a collective; dropout that does not train draws nothing and goes.
#pragma once

#include <type_traits>

#include "fxx/ir/graph.hpp"

namespace fxx::inline FXX_ABI {

/// Erases unused nodes that have no effect, last to first; inputs and the output stay. Returns how many were erased.
/// Nodes that draw random numbers stay, so that those drawn later are the same for one seed; with `impure_random` false
/// they go.
std::size_t eliminate_dead_code(Graph& graph, bool impure_random = true);

/// Likewise, with a predicate of the caller's on top: nodes for which `is_impure_node(const Node&)` holds stay too.
template <class F>
  requires std::is_invocable_r_v<bool, F&, const Node&>
std::size_t eliminate_dead_code(Graph& graph, F&& is_impure_node, bool impure_random = true);

/// Erases memory that is made and written but never read: a fresh tensor, views of it and mutations of those, when none
/// of their values is used by anything else. Returns how many nodes were erased. O(nodes).
std::size_t erase_unread_memory(Graph& graph);

namespace detail {
bool may_be_dropped(const Node& node, bool impure_random);
}

template <class F>
  requires std::is_invocable_r_v<bool, F&, const Node&>
std::size_t eliminate_dead_code(Graph& graph, F&& is_impure_node, bool impure_random) {
  graph.lint();
  std::size_t erased = 0;
  for (Node* node : graph.nodes().reversed()) {
    if (node->num_users() || !detail::may_be_dropped(*node, impure_random) ||
        is_impure_node(static_cast<const Node&>(*node)))
      continue;
    graph.erase_node(node);
    ++erased;
  }
  return erased;
}

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/passes/dead_code.ipp"
#endif
