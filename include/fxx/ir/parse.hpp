// Reads the text that ir/print.hpp writes and gives the same graph back.
//
// Text is untrusted: whatever it holds, the result is a valid graph or a GraphError (E111) that names line and column.
// Main names: TargetResolver, parse_graph. Linear in the text. Cost: light.
#pragma once

#include <string_view>

#include "fxx/ir/graph.hpp"

namespace fxx::inline FXX_ABI {

/// Finds what the names in a text stand for. ops/registry.hpp has the usual one.
class TargetResolver {
 public:
  virtual ~TargetResolver() = default;
  /// By qualified name, "aten::add.Tensor"; null when there is none.
  virtual const Operator* find_operator(std::string_view name) const = 0;
  /// By the name that C++ calls it with; null when there is none.
  virtual const UserFunction* find_function(std::string_view name) const = 0;
};

/// Throws GraphError (E111) when the text is not what to_string(graph) writes, OperatorError (E201) when a target is
/// unknown.
Graph parse_graph(std::string_view text, const TargetResolver& targets);

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/ir/parse.ipp"
#endif
