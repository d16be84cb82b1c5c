// Replacing calls of functions that say what they compute by operators: fused kernels, rotary embeddings.
//
// Main names: expand_functions, expanded, has_expansions. O(nodes). Cost: light.
#pragma once

#include "fxx/ir/graph.hpp"

namespace fxx::inline FXX_ABI {

/// Which of these functions are meant; null: all.
using WhichFunctions = bool (*)(const UserFunction& function);

/// Does the graph call a function that says what it computes?
bool has_expansions(const Graph& graph, WhichFunctions which = nullptr);

/// Puts operators in the place of every such call; the last of them takes its name, shape and type. Throws
/// OperatorError (E203) for a call with another number of arguments than the function has, and changes nothing then. Returns how many
/// calls there were.
std::size_t expand_functions(Graph& graph, WhichFunctions which = nullptr);

/// A copy of the graph, with the same owner, in which they are replaced.
Graph expanded(const Graph& graph, WhichFunctions which = nullptr);

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/passes/expand_functions.ipp"
#endif
