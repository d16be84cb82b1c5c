// C++ that is quick to compile: a graph's forward as one C function over handed-in tensors.
//
// Needs only ATen/core/Tensor.h and one narrow header for each operator, so a compiler is done in about two seconds.
// What has no such header is called back in the program that loaded it.
// Main names: BuiltSource, built_source. Deterministic; linear in the graph. Cost: light.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "fxx/ir/graph.hpp"

namespace fxx::inline FXX_ABI {

/// How the values that fxx_forward returns make up what the graph returns.
struct ResultShape {
  enum class Kind { tensor, list_of_tensors, none, list, tuple, dict, constant };
  Kind kind = Kind::none;
  Argument constant = {};  // Kind::constant
  std::vector<ResultShape> items = {};
  std::vector<Argument> keys = {};  // Kind::dict
};

struct BuiltSource {
  std::string text;
  std::vector<std::string> headers;     // of LibTorch, below its include folder: "ATen/ops/relu_ops.h"
  std::vector<std::string> attributes;  // names, in the order of ForwardCall::attributes
  std::vector<const Node*> nodes;       // by ForwardCall::node
  std::vector<bool> called_back;        // by node: it runs in the host
  ResultShape result;                   // its tensors and lists in order are ForwardCall::results
};

/// Says which of LibTorch's narrow headers are installed: "ATen/ops/relu_ops.h".
class HeaderFinder {
 public:
  virtual ~HeaderFinder() = default;
  virtual bool has(const std::string& name) const = 0;
};

/// `graph` without calls of leaf modules that are one operator (expand_modules). Inputs and results are tensors, or
/// lists, tuples and dicts of them. Throws CodegenError (E501), naming the node, for values of other kinds.
/// `linear_modules`: names of the calls of aten::linear that were calls of a torch::nn::Linear. That module calls addmm
/// for matrices and matmul for all else, with other last places than at::linear, and so does the code.
BuiltSource built_source(const Graph& graph, const Owner& owner, const HeaderFinder& headers,
                         const std::set<std::string>& linear_modules = {});

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/codegen/built.ipp"
#endif
