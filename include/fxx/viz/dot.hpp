// Graphs as drawings: a text in Graphviz's language, a box a node, an arrow a use.
//
// Arrows enter a box from left to right in the order of its arguments, a node used twice twice.
// Main names: to_dot, DotOptions. Linear in the graph. Cost: light. After torch.fx passes/graph_drawer.py, 2.13.
#pragma once

#include <cstddef>
#include <string>

#include "fxx/ir/graph.hpp"

namespace fxx::inline FXX_ABI {

struct DotOptions {
  std::string title = {};
  bool immediates = true;         // arguments that are no nodes: `(_, [1, 1], dim=1)`, with `_` for a node
  bool shapes = true;             // dtype and shape, where they are known
  bool attributes = true;         // boxes for get_attr nodes
  bool left_to_right = false;     // else from top to bottom
  std::size_t longest_line = 60;  // bytes of a target, the immediates, a type or a shape; the rest becomes "..."
};

/// Whatever names, targets and texts hold, the result is a well-formed drawing in UTF-8: what is not printable is shown
/// as \n or \x1b.
std::string to_dot(const Graph& graph, const DotOptions& options = {});

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/viz/dot.ipp"
#endif
