// The nodes of a graph by the module, or the function, that they came from.
//
// After lowering a call of a Linear is several operators; their module stacks still say which call they belong to.
// Main names: get_source_partitions, check_subgraphs_connected, SourcePartition. O(nodes x depth of the modules).
// Cost: light. After torch.fx passes/utils/source_matcher_utils.py, 2.13.
#pragma once

#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fxx/ir/graph.hpp"

namespace fxx::inline FXX_ABI {

/// What one call of a module, or of a function, became.
struct SourcePartition {
  std::string source;  // as it was asked for
  std::string name;    // of the call: "encoder.0", "encoder.0@1" for its second; the node's name for a function
  std::vector<Node*> nodes = {};         // in the order of the graph
  std::vector<Node*> input_nodes = {};   // nodes outside, but for attributes, whose values it uses
  std::vector<Node*> output_nodes = {};  // nodes inside whose values are used outside
  std::vector<Node*> params = {};        // the get_attr nodes that it uses, inside or outside
};

/// The partitions of each wanted source that has any, in the order of the graph. A source is the type of a module, whose
/// calls are a partition each, or an operator or a wrapped function, each node of which is one unless a module of
/// torch.nn made it. Namespaces and overloads may be left out: "torch::nn::Linear", "Linear", "aten::add.Tensor",
/// "conv2d". Of modules within each other that are both wanted the inner one counts.
std::map<std::string, std::vector<SourcePartition>, std::less<>> get_source_partitions(
    const Graph& graph, std::span<const std::string> wanted_sources);
std::map<std::string, std::vector<SourcePartition>, std::less<>> get_source_partitions(
    const Graph& graph, std::initializer_list<std::string> wanted_sources);

/// The same, of the nodes that `filter(const Node&)` lets through.
template <class F>
std::map<std::string, std::vector<SourcePartition>, std::less<>> get_source_partitions(
    const Graph& graph, std::initializer_list<std::string> wanted_sources, F&& filter) {
  auto found = get_source_partitions(graph, wanted_sources);
  for (auto source = found.begin(); source != found.end();) {
    std::erase_if(source->second, [&](const SourcePartition& partition) {
      for (const Node* node : partition.nodes)
        if (!filter(*node)) return true;
      return false;
    });
    source = source->second.empty() ? found.erase(source) : std::next(source);
  }
  return found;
}

/// Does the second partition use a value of the first?
bool check_subgraphs_connected(const SourcePartition& first, const SourcePartition& second);

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/passes/source_partitions.ipp"
#endif
