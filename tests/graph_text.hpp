// Graphs as short text, a line a node, for tests to compare with.
#pragma once

#include <string>
#include <vector>

#include "fxx/ir/graph.hpp"

namespace fxx::test {

/// "aten::add.Tensor(%x, 2, alpha=3)", ".relu(%x)", "linear(%x)" for a module, "attribute w", "input x", "return %y".
inline std::string text_of(const Node& node) {
  std::string arguments;
  const auto add = [&](const std::string& text) { arguments += (arguments.empty() ? "" : ", ") + text; };
  for (const Argument& a : node.args()) add(to_string(a));
  for (const KeywordArgument& k : node.kwargs()) add(std::string(k.key) + "=" + to_string(k.value));
  return match(
      node.op(),
      [&](const Placeholder& o) { return "input " + o.target + (arguments.empty() ? "" : " = " + arguments); },
      [&](const GetAttr& o) { return "attribute " + o.target; },
      [&](const CallFunction& o) {
        const auto* op = std::get_if<const Operator*>(&o.target);
        return (op ? std::string((*op)->name) : std::get<const UserFunction*>(o.target)->name) + "(" + arguments + ")";
      },
      [&](const CallMethod& o) { return "." + o.target + "(" + arguments + ")"; },
      [&](const CallModule& o) { return o.target + "(" + arguments + ")"; },
      [&](const Output&) { return "return " + arguments; });
}

/// One line a node: "name = text"; inputs and attributes that are called what they are just so, the output as it is.
inline std::string text_of(const Graph& graph) {
  std::string text;
  for (const Node* node : graph.nodes()) {
    const bool plain =
        node->opcode() == Opcode::output || (node->opcode() == Opcode::placeholder && node->target() == node->name());
    text += (plain ? "" : std::string(node->name()) + " = ") + text_of(*node) + "\n";
  }
  return text;
}

/// The same without the inputs.
inline std::string body_of(const Graph& graph) {
  std::string text;
  for (const Node* node : graph.nodes())
    if (node->opcode() != Opcode::placeholder)
      text += (node->opcode() == Opcode::output ? "" : std::string(node->name()) + " = ") + text_of(*node) + "\n";
  return text;
}

}  // namespace fxx::test
