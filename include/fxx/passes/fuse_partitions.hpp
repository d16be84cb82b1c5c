// Taking sets of nodes out of a graph, each into a graph of its own.
//
// The light half of fuse_by_partitions (torch/fuse_by_partitions.hpp), which makes a submodule of each.
// Main names: validate_partition, fuse_as_graph, insert_subgraphs, FusedGraph. Cost: light. After torch.fx
// passes/utils/fuser_utils.py, 2.13; differs: attributes go into the graph that uses them, and nothing is fused across a
// write to memory or past another draw of random numbers.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "fxx/ir/graph.hpp"

namespace fxx::inline FXX_ABI {

/// Can the nodes be one? Not when a path leads from one of them out and back to another. O(nodes in between).
bool validate_partition(std::span<Node* const> nodes);

/// Nodes as a graph of their own.
struct FusedGraph {
  Graph graph;
  std::vector<Node*> nodes;    // of the outer graph, in its order
  std::vector<Node*> inputs;   // of the outer graph: what the nodes use, one placeholder each
  std::vector<Node*> outputs;  // of the outer graph: those of the nodes that others use; one result each, in a tuple
                               // when there are several or `always_return_tuple`
};
/// Copies the nodes, given in any order, into a graph of their own. Attributes that they use are read in there. Throws
/// GraphError (E404) for a set that is empty, has a node twice, an input, the output or a node of another graph, or
/// that needs a value which needs the set. O(nodes between the first and the last).
FusedGraph fuse_as_graph(const Graph& graph, std::span<Node* const> nodes, bool always_return_tuple = false);
/// Puts one call of the module of that name in the place of the nodes of each graph, which go, and moves what used them
/// behind it. All were made of `graph` as it is, and share no node. Returns the calls. Throws GraphError (E404) when they
/// need each other, or some node would come to the other side of a write to memory, or random numbers be drawn in
/// another order, with the calls in place: work on a copy where that may be. O(nodes of the graph).
std::vector<Node*> insert_subgraphs(Graph& graph, std::span<const FusedGraph> fused, std::span<const std::string> names,
                                    bool always_return_tuple = false);

/// Throws GraphError (E404) when a node is in two of the partitions.
void check_apart(std::span<const std::vector<Node*>> partitions);

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/passes/fuse_partitions.ipp"
#endif
