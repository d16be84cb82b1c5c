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
  /// "std::vector<torch::Tensor>"; items of several types make a tuple. Throws CodegenError (E501) for the type of a
  /// placeholder that is no C++ type.
  std::string type(const Structure& structure) const;
  /// "auto xs_1 = std::move(xs[0]);" for every leaf that the graph uses.
  void unpack(const Structure& structure, const std::string& value, std::vector<std::string>& lines) const;
  /// "std::vector<torch::Tensor>{inputs[0], inputs[1]}" for `each` "inputs", by the numbers of the placeholders. A leaf
  /// whose placeholder was erased gets a value of its own.
  std::string pack(const Structure& structure, const std::string& each) const;

 private:
  struct Input {
    const Node* node;
    std::size_t number;  // among the placeholders
  };
  bool one_type(const Structure& structure) const;
  std::map<std::string, Input, std::less<>> placeholders_;
};

/// The arguments of a call of forward, taken from `each`[0], `each`[1], ... in the order of placeholders.
std::string forward_arguments(const Graph& graph, const std::string& each);

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/codegen/inputs.ipp"
#endif
