// Making submodules of sets of nodes: what a backend takes, as one call each.
//
// Main names: fuse_by_partitions. Cost: heavy (torch/nn/module.h). After torch.fx passes/utils/fuser_utils.py, 2.13;
// differs in what passes/fuse_partitions.hpp says.
#pragma once

#include <string>
#include <vector>

#include "fxx/passes/fuse_partitions.hpp"
#include "fxx/torch/graph_module.hpp"

namespace fxx::inline FXX_ABI {

/// Every partition, its nodes in any order, becomes a GraphModule that is a submodule of `module`, called `prefix`0,
/// `prefix`1 and so on, or the next name that is free; returns them. Parameters move with the nodes that use them and
/// stay the same tensors. Throws GraphError (E404) for partitions that cannot be fused, or not one beside the other; the
/// module is as it was then. O(partitions x nodes).
std::vector<std::shared_ptr<GraphModule>> fuse_by_partitions(GraphModule& module,
                                                             const std::vector<std::vector<Node*>>& partitions,
                                                             const std::string& prefix = "fused_",
                                                             bool always_return_tuple = false);

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/torch/fuse_by_partitions.ipp"
#endif
