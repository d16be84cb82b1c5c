// Inputs that are containers, in generated code: their types, the lines that take them apart, and expressions that put
// them together.
//
// Main names: InputCode. Cost: light.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "fxx/ir/graph.hpp"
#include "fxx/ir/signature.hpp"

namespace fxx::inline FXX_ABI {

class InputCode {
 public:
  explicit InputCode(const Graph& graph);

  /// The placeholder of that target; null when it was erased.
  const Node* placeholder(std::string_view target) const;
  /// "std::vector<torch::Tensor>"; items of several types make a tuple.
  std::string type(const Structure& structure) const;
  /// "auto xs_1 = std::move(xs[0]);" for every leaf that the graph uses.
  void unpack(const Structure& structure, const std::string& value, std::vector<std::string>& lines) const;
  /// "std::vector<torch::Tensor>{inputs[0], inputs[1]}" for `each` "inputs" and a counter of leaves.
  std::string pack(const Structure& structure, const std::string& each, std::size_t& next) const;

 private:
  bool one_type(const Structure& structure) const;
  std::map<std::string, const Node*, std::less<>> placeholders_;
};

/// The arguments of a call of forward, the leaves taken from `each`[0], `each`[1], ... in the order of placeholders.
std::string forward_arguments(const Graph& graph, const std::string& each);

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/codegen/inputs.ipp"
#endif
