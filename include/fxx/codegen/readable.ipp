// Bodies of codegen/readable.hpp. One class, in codegen/readable/, writes a graph as statements and expressions.
#pragma once

#include "fxx/codegen/readable.hpp"
#include "fxx/codegen/readable/arguments.ipp"
#include "fxx/codegen/readable/expressions.ipp"
#include "fxx/codegen/readable/statements.ipp"
#include "fxx/passes/expand_functions.hpp"

namespace fxx::inline FXX_ABI {

FXX_INLINE std::string forward_code(const Graph& graph, const Owner& owner, const CodeOptions& options) {
  if (has_expansions(graph)) return forward_code(expanded(graph), owner, options);
  const Members members(graph, owner);
  detail::ForwardWriter writer(graph, owner, members, options);
  return writer.result_type() + " forward(" + writer.parameters(true) + ") {\n" + writer.body("  ") + "}\n";
}

}  // namespace fxx::inline FXX_ABI
