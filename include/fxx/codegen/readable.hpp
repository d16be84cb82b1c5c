// Readable C++ from a graph: ordinary LibTorch calls, one statement a node, as torch.fx prints Python.
//
// Main names: forward_code, CodeOptions. Every name that comes from a model is made a plain identifier or a string
// literal first. Deterministic; linear in the graph. Cost: light. After torch.fx graph.py CodeGen, 2.13.
#pragma once

#include <string>

#include "fxx/ir/graph.hpp"

namespace fxx::inline FXX_ABI {

struct CodeOptions {
  /// Gives values up after their last use: `x.reset();` behind the statement (torch.fx: `x = None`).
  bool release_values = true;
  /// Writes an operation that is used once into the expression that uses it, as people do.
  bool nest_expressions = false;
};

/// `torch::Tensor forward(torch::Tensor x) { ... }`. Members are written `this->linear`, attributes of leaf modules
/// that the graph calls `this->linear->weight`. Arguments are written so that C++ picks the overload that the node
/// calls; where nothing makes it, the operator is named: `at::_ops::std_correction::call(...)`. Throws CodegenError
/// (E501), naming the node, for what has no C++ form.
std::string forward_code(const Graph& graph, const Owner& owner, const CodeOptions& options = {});

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/codegen/readable.ipp"
#endif
