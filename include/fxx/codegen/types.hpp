// What C++ calls the values of a graph.
// Main names: CppTypes. Linear in the graph. Cost: light.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fxx/ir/graph.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {

/// Type of one item that getitem takes out of a container's type: "std::tuple<A, B>" and 1 give B; "auto" when the
/// tuple is not so long.
std::string item_type(const std::string& container, std::int64_t index);
/// Of how many items a `std::tuple<...>` is.
std::int64_t tuple_size(const std::string& type);
/// Whether C++ gives several references to what the operator wrote to, as `max_out` does. A variable for its result has
/// to hold tensors: what they refer to may be gone before they are read.
bool gives_references(const Operator* op);

}  // namespace detail

/// "torch::Tensor", "std::vector<torch::Tensor>", "std::tuple<...>", "int64_t"; "auto" when nothing tells.
class CppTypes {
 public:
  CppTypes(const Graph& graph, const Owner& owner);

  const std::string& of(const Node& node) const { return types_[node.index()]; }
  std::string of(const Argument& value) const;

 private:
  std::string find(const Node& node, const Owner& owner) const;

  std::vector<std::string> types_;
};

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/codegen/types.ipp"
#endif
