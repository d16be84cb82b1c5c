// Parts of a graph that stay together and are interpreted, between others that kernels are made of: what has sizes that
// depend on the elements of tensors, and what reads that.
//
// Main names: gather_regions, graph_of. Cost: light.
#pragma once

#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "fxx/ir/graph.hpp"
#include "fxx/passes/region.hpp"

namespace fxx::inline FXX_ABI {

/// Finds the nodes that no kernel can be made of and puts them into as few regions as what they need allows. These are
/// `unknown`, whose values have no sizes that are known; what reads such values, whatever it gives; and values that are
/// no tensors and are not taken apart by getitem, with those who give and take them. So what a region gives to others
/// is a tensor whose sizes are known, or is read by regions and the output alone.
///
/// Moves nodes: those of a region stand behind each other, what it needs before it and all else where that lets it be.
/// Writes to memory and draws of random numbers keep their order, and reads theirs to writes. Where a value of a region
/// might share memory that is written to outside of it, that cannot be, and all nodes are one region; so are they where
/// somebody writes to memory that a node shares which looks_at_memory.
///
/// O(nodes and arguments); with writes to memory that others see, times their number.
std::vector<Region> gather_regions(Graph& graph, const std::unordered_set<const Node*>& unknown);

/// Does the result depend on where in memory the elements of the operand lie, as that of as_strided and of views of another
/// dtype? No kernel can be made of that.
bool looks_at_memory(const Node& node);
/// Does it read elements beside those of its operand?
bool looks_around(const Node& node);

/// What the node writes to and gives back as it is, of the same sizes and strides, as `x.add_(y)` does x; else null.
const Node* written_operand(const Node& node);

/// The nodes as a graph of their own, which takes `inputs` and returns a tuple of `outputs`. Attributes that are not
/// among the inputs are read there.
Graph graph_of(std::span<const Node* const> nodes, std::span<const Node* const> inputs,
               std::span<const Node* const> outputs);

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/passes/regions.ipp"
#endif
