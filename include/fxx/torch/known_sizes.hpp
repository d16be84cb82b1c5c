// What of a graph has known sizes when its inputs have those of the examples, and what depends on the elements of tensors.
//
// Main names: note_known_sizes, split_by_sizes, SplitGraph. Cost: heavy (torch/nn/module.h).
#pragma once

#include <optional>
#include <unordered_set>
#include <vector>

#include "fxx/torch/graph_module.hpp"

namespace fxx::inline FXX_ABI {

/// Runs the graph on fake tensors like the examples: notes sizes, dtypes and strides on the nodes, and puts numbers that
/// follow from sizes in the place of the nodes that compute them, so that the graph holds for these sizes alone. Returns
/// the nodes that are not known: those whose sizes, or whose being computed at all, depend on elements, and what uses
/// them.
std::unordered_set<const Node*> note_known_sizes(GraphModule& module, const std::vector<at::Tensor>& example_inputs);

/// A graph in two: what has known sizes, whose results are tensors, and the rest.
struct SplitGraph {
  Graph head;  // takes all inputs; returns a list of tensors
  /// Takes all inputs of the graph and then what the head returns; returns what the graph does.
  Graph tail;
};
/// Nothing where no node can be computed before those of `unknown` (all of whose users are in it), or where the order
/// of effects would change.
std::optional<SplitGraph> split_by_sizes(const Graph& graph, const std::unordered_set<const Node*>& unknown);

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/torch/known_sizes.ipp"
#endif
