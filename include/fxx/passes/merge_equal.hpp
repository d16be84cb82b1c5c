// Calls that compute the same value are made once.
//
// Main names: merge_equal. O(nodes), and where the graph writes to memory, what it takes to look which. Cost: light.
// After torch.fx passes/dialect/common/cse_pass.py, 2.13; differs: what is written to, or left to two owners, stays
// two.
#pragma once

#include "fxx/ir/graph.hpp"

namespace fxx::inline FXX_ABI {

/// Of calls of one operator with equal arguments, defaults given or not, the first stays, and the others' users take
/// its value; so do attributes that are read twice. Calls stay that draw random numbers, have effects, give memory
/// whose content is not defined, read or give memory that the graph writes to, or both of whose values leave the graph:
/// who gets them may write to one. Returns how many nodes were erased.
std::size_t merge_equal(Graph& graph);

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/passes/merge_equal.ipp"
#endif
