// A part of a graph that stays together and is interpreted; passes/regions.hpp finds them.
//
// Main names: Region. Cost: none beyond a node.
#pragma once

#include <string>
#include <vector>

#include "fxx/ir/node.hpp"

namespace fxx::inline FXX_ABI {

/// Nodes that run one after the other.
struct Region {
  std::vector<Node*> nodes;          // in the order of the graph
  std::vector<std::string> reasons;  // why each of them is no kernel's
};

}  // namespace fxx::inline FXX_ABI
