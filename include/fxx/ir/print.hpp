// Text of graphs, nodes and arguments: torch.fx's layout, made so that it parses back (ir/parse.hpp).
//
// It differs from torch.fx where torch.fx's text is ambiguous: strings are quoted everywhere, devices read
// `device(type='cpu')`, a typed output prints its type.
// Main names: to_string, format_node, operator<<. All linear in the size of what is printed.
// Cost: light. After torch.fx graph.py and node.py, 2.13.
#pragma once

#include <iosfwd>
#include <string>
#include <string_view>

#include "fxx/ir/op.hpp"

namespace fxx::inline FXX_ABI {

class Argument;
class Node;
class Graph;

/// `graph():`, a line a node, `return ...`.
std::string to_string(const Graph& graph);
/// Python's notation: `[1, %x]`, `'text'`, `torch.float32`, `slice(None, 3, None)`. `node_prefix` stands before node
/// names.
std::string to_string(const Argument& argument, std::string_view node_prefix = "%");
/// `%add : [num_users=1] = call_function[target=torch.ops.aten.add.Tensor](args = (%x, %y), kwargs = {})`.
std::string format_node(const Node& node);
/// "torch.ops.aten.add.Tensor", "operator.getitem", a function's, method's or attribute's own name.
std::string target_text(const Op& op);
/// What a node of this op is called before it is made unique: "add", "linear_weight".
std::string_view name_candidate(const Op& op);
/// Python's repr of a number: the shortest text that reads back as the same number, never without a point or exponent.
std::string repr(double value);
/// Python's repr of a string: quotes and backslashes escaped, control characters as \n, \x1b.
std::string repr(std::string_view text);

std::ostream& operator<<(std::ostream& out, const Graph& graph);
std::ostream& operator<<(std::ostream& out, const Node& node);
std::ostream& operator<<(std::ostream& out, const Argument& argument);

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/ir/print.ipp"
#endif
