// A case that tells a rule's two sides apart, as C++ that shows it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "fxx/codegen/readable.hpp"
#include "fxx/error.hpp"
#include "fxx/ir/print.hpp"
#include "fxx/torch/verify_rules/case_graph.ipp"

namespace fxx::inline FXX_ABI::detail {

/// Constants become inputs, so that the function is one that stands alone.
FXX_INLINE std::string function_of(const Graph& from, const std::string& name, std::vector<std::string>& inputs) {
  Graph graph(from);
  std::map<std::string, Node*> placed;
  Node* first = nullptr;  // behind the inputs
  for (Node* node : graph.nodes().snapshot()) {
    if (!first && node->opcode() != Opcode::placeholder) first = node;
    if (node->opcode() != Opcode::get_attr) continue;
    const std::string target = node->target();
    Node*& place = placed[target];
    if (!place) {
      const InsertPoint point = graph.inserting_before(first);
      place = graph.placeholder(target);
      place->swap_names(*node);
    }
    node->replace_all_uses_with(place);
    if (node == first) first = node->next();
    graph.erase_node(node);
  }
  inputs.clear();
  for (const Node* node : graph.nodes())
    if (node->opcode() == Opcode::placeholder) inputs.push_back(node->target());
  struct NoOwner final : Owner {
    const AttributeInfo* find_attribute(std::string_view) const override { return nullptr; }
    const ModuleInfo* find_module(std::string_view) const override { return nullptr; }
    std::vector<const ModuleInfo*> leaf_modules() const override { return {}; }
  };
  std::string text = forward_code(graph, NoOwner(), {.release_values = false, .nest_expressions = true});
  if (const auto at = text.find(" forward("); at != text.npos) text.replace(at, 9, " " + name + "(");
  if (text.empty() || text.back() != '\n') text += '\n';
  return text;
}

FXX_INLINE std::string in_comment(std::string text) {
  for (std::size_t at = 0; (at = text.find('\n', at)) != text.npos && at + 1 < text.size(); at += 4)
    text.replace(at, 1, "\n// ");
  return "// " + text;
}

/// Both sides as functions, the inputs, and calls that print what the two give.
FXX_INLINE std::string code_of(std::string_view rule, const Outcome& o) {
  std::string text = "// rule \"" + std::string(rule) + "\": " + in_comment(o.difference).substr(3) + "\n";
  std::vector<std::string> to_pattern, to_replacement;
  const auto written = [](const Graph& graph, const std::string& name, std::vector<std::string>& inputs) {
    try {
      return function_of(graph, name, inputs);
    } catch (const Error& fault) {
      return in_comment(name + ", which has no C++ form: " + fxx::to_string(graph)) + "\n";
    }
  };
  text += written(o.pattern->graph, "pattern", to_pattern);
  if (o.replacement) text += written(*o.replacement, "replacement", to_replacement);
  for (const CaseGraph::Named& one : o.pattern->named())
    text += "const torch::Tensor " + one.name + " = " + one.recipe.code() + ";\n";
  const auto call = [](const std::string& function, const std::vector<std::string>& inputs) {
    std::string list;
    for (const std::string& input : inputs) list += (list.empty() ? "" : ", ") + input;
    return "std::cout << " + function + "(" + list + ") << std::endl;\n";
  };
  text += call("pattern", to_pattern);
  if (o.replacement) text += call("replacement", to_replacement);
  return text;
}

}  // namespace fxx::inline FXX_ABI::detail
