// Making a graph pure: after it no node writes to a value that the graph computed.
//
// For what lowers graphs, and has no memory to write to: `x.add_(y)` becomes `x' = x + y`, and whoever reads x later,
// through whatever view, reads x'. Inputs and attributes that the graph writes to get their new values by one
// `aten::copy_` each, at the end.
// Main names: functionalise, FunctionaliseReport. O(nodes, and views that are read again). Cost: light. After torch
// func.functionalize, 2.13; differs: works on a graph, and what cannot be made pure stays as it was, with a reason.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "fxx/ir/graph.hpp"

namespace fxx::inline FXX_ABI {

/// What functionalise did.
struct FunctionaliseReport {
  /// A node that still writes to memory, or may, and why.
  struct Left {
    Node* node;
    std::string reason;
  };
  std::size_t changed = 0;      // calls that wrote to memory and are gone
  std::size_t copied_back = 0;  // inputs and attributes that get new values at the end
  std::vector<Left> left;       // in order of the graph
};

/// Puts the operators that give a new value in the place of those that write: in place, to `out`, through views of any
/// depth. Where memory is written in a way that has no such form, all that is known to share that memory stays as it
/// was, and its writes are told; they, and what trains or draws random numbers in place, keep their places.
///
/// Inputs and attributes of different names count as different memory, as torch.export has it. Of what the graph
/// returns, values that shared memory with an input do so still; others that shared memory may come apart. Values are
/// those of the graph as it was; gradients are, where nothing is written under detach. Shapes, strides and dtypes are
/// taken from tensor_meta; without them less is made pure, and conversions are put where a dtype might change. Calls of
/// modules are not looked into: `expand_modules` first. `owner` says what they are; null: the graph's own.
FunctionaliseReport functionalise(Graph& graph, const Owner* owner = nullptr);

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/passes/functionalise.ipp"
#endif
