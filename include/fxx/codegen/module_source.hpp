// A class of its own for a graph, as a person would write it: header and source.
// Main names: module_source, ModuleSource. Cost: light.
#pragma once

#include <string>
#include <vector>

#include "fxx/ir/graph.hpp"

namespace fxx::inline FXX_ABI {

/// A class that is the graph: declaration and definition, with members for what it refers to.
struct ModuleSource {
  std::string header, source;
  std::vector<std::string> includes;  // that wrapped functions need, with their quotes or brackets
};
/// The class is called `name`, its holder is made with TORCH_MODULE as LibTorch users do. Parameters keep their
/// qualified names, so that torch::load fits. `header_file` is what the source includes. Throws CodegenError (E501),
/// naming the node or module, for
/// what has no C++ form.
ModuleSource module_source(const Graph& graph, const Owner& owner, const std::string& name,
                           const std::string& header_file);

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/codegen/module_source.ipp"
#endif
