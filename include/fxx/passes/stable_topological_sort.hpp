// Putting the nodes of a graph in an order in which they can run, and otherwise as they were.
//
// Main names: stable_topological_sort. Cost: light. After torch._inductor.pattern_matcher, 2.13.
#pragma once

#include "fxx/ir/graph.hpp"

namespace fxx::inline FXX_ABI {

/// A node that stands before one of its inputs moves behind the last of them; all others keep their order, and the
/// output stays last. Returns how many nodes stand elsewhere. What reads memory may come behind what writes to it: only
/// arguments are looked at. Throws GraphError (E104) that names the nodes when some need each other; the graph is as it
/// was then. O(nodes + arguments).
std::size_t stable_topological_sort(Graph& graph);

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/passes/stable_topological_sort.ipp"
#endif
