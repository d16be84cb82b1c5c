// Operators that are others put together, as those: products with vectors, distances, cells, losses, rearrangements.
//
// What makes kernels of a graph has fewer operators to know then. Values are those of the operators, up to rounding; no
// operator writes to memory. Sizes and dtypes have to be known (tensor_meta): which others it becomes depends on them.
// Main names: decompose. Cost: light.
#pragma once

#include "fxx/ir/graph.hpp"

namespace fxx::inline FXX_ABI {

/// Replaces every call of such an operator whose arguments say enough; the last of the new nodes takes its name. New nodes
/// have no tensor_meta but for that one. Returns how many calls were replaced. O(nodes).
std::size_t decompose(Graph& graph);

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/passes/decompose.ipp"
#endif
