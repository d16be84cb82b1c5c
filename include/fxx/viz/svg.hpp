// Graphs as SVG files, drawn by Graphviz's program `dot`.
// Main names: write_svg. Cost: light.
#pragma once

#include <string>

#include "fxx/viz/dot.hpp"

namespace fxx::inline FXX_ABI {

/// Draws to_dot(graph, options) into the file `path`, which is written aside and renamed.
/// Errors: FileError drawing_failed (E804) when `dot` is not installed, fails, or takes longer than `timeout_seconds`,
/// or when the file cannot be written. What was there stays.
/// Cost: a process; large graphs take `dot` seconds, thousands of nodes minutes.
void write_svg(const Graph& graph, const std::string& path, const DotOptions& options = {},
               double timeout_seconds = 300);

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/viz/svg.ipp"
#endif
