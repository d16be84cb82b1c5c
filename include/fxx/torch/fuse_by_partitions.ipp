// Bodies of torch/fuse_by_partitions.hpp.
#pragma once

#include <utility>

#include "fxx/torch/fuse_by_partitions.hpp"

namespace fxx::inline FXX_ABI {

FXX_INLINE std::vector<std::shared_ptr<GraphModule>> fuse_by_partitions(
    GraphModule& module, const std::vector<std::vector<Node*>>& partitions, const std::string& prefix,
    bool always_return_tuple) {
  check_apart(partitions);
  for (const std::vector<Node*>& nodes : partitions) (void)fuse_as_graph(module.graph(), nodes);
  if (partitions.empty()) return {};
  // On a copy: partitions that could each be fused may still need each other.
  Graph graph(module.graph());
  std::vector<Node*> copies(module.graph().index_bound());
  auto copy = graph.nodes().begin();
  for (const Node* node : module.graph().nodes()) copies[node->index()] = *copy, ++copy;
  graph.set_owning_module(module.graph().owning_module());
  std::vector<FusedGraph> fused;
  std::vector<std::string> names;
  std::size_t next = 0;
  for (const std::vector<Node*>& nodes : partitions) {
    std::vector<Node*> here;
    for (const Node* node : nodes) here.push_back(copies[node->index()]);
    fused.push_back(fuse_as_graph(graph, here, always_return_tuple));
    names.push_back(module.owner().fresh_name(prefix, next));
  }
  insert_subgraphs(graph, fused, names, always_return_tuple);
  std::vector<std::shared_ptr<GraphModule>> submodules;
  for (FusedGraph& part : fused)
    submodules.push_back(std::make_shared<GraphModule>(module.owner(), module.is_training(), std::move(part.graph)));
  for (std::size_t i = 0; i < names.size(); ++i) module.add_submodule(names[i], submodules[i]);
  module.set_graph(std::move(graph));
  module.delete_all_unused_submodules();
  module.recompile();
  return submodules;
}

}  // namespace fxx::inline FXX_ABI
