// Bodies of codegen/inputs.hpp.
#pragma once

#include <set>

#include "fxx/codegen/cpp.hpp"
#include "fxx/codegen/inputs.hpp"
#include "fxx/error.hpp"
#include "fxx/ir/print.hpp"

namespace fxx::inline FXX_ABI {

FXX_INLINE InputCode::InputCode(const Graph& graph) {
  std::size_t next = 0;
  for (const Node* node : graph.nodes())
    if (node->opcode() == Opcode::placeholder) placeholders_.emplace(node->target(), Input{node, next++});
}

FXX_INLINE const Node* InputCode::placeholder(std::string_view target) const {
  const auto found = placeholders_.find(target);
  return found == placeholders_.end() ? nullptr : found->second.node;
}

FXX_INLINE bool InputCode::one_type(const Structure& structure) const {
  for (const Structure& item : structure.items)
    if (type(item) != type(structure.items[0])) return false;
  for (const Argument& key : structure.keys)
    if (key.kind() != structure.keys[0].kind()) return false;
  return true;
}

FXX_INLINE std::string InputCode::type(const Structure& structure) const {
  using Kind = Structure::Kind;
  if (structure.kind == Kind::leaf) {
    const Node* node = placeholder(structure.placeholder);
    if (!node || node->type().empty()) return "torch::Tensor";
    if (!is_cpp_type(node->type()))
      throw CodegenError(ErrorId::no_cpp_spelling,
                         "InputCode::type: the type " + repr(node->type()) + " of input '" + std::string(node->name()) +
                             "' is no C++ type",
                         {format_node(*node), node->source()});
    return std::string(node->type());
  }
  if (structure.kind != Kind::tuple && one_type(structure)) {
    const std::string item = structure.items.empty() ? "torch::Tensor" : type(structure.items[0]);
    if (structure.kind == Kind::list) return "std::vector<" + item + ">";
    const bool text = structure.keys.empty() || structure.keys[0].kind() == Argument::Kind::string;
    return std::string("std::map<") + (text ? "std::string" : "int64_t") + ", " + item + ">";
  }
  std::string items;
  for (const Structure& item : structure.items) items += (items.empty() ? "" : ", ") + type(item);
  return "std::tuple<" + items + ">";
}

FXX_INLINE void InputCode::unpack(const Structure& structure, const std::string& value,
                                  std::vector<std::string>& lines) const {
  using Kind = Structure::Kind;
  if (structure.kind == Kind::leaf) {
    const Node* node = placeholder(structure.placeholder);
    if (node && node->num_users())
      lines.push_back("auto " + std::string(node->name()) + " = std::move(" + value + ");");
    return;
  }
  const bool one = structure.kind != Kind::tuple && one_type(structure);
  for (std::size_t i = 0; i < structure.items.size(); ++i) {
    std::string item = "std::get<" + std::to_string(i) + ">(" + value + ")";
    if (one && structure.kind == Kind::list) item = value + ".at(" + std::to_string(i) + ")";
    if (one && structure.kind == Kind::dict) {
      const Argument& key = structure.keys[i];
      item = value + ".at(" +
             (key.kind() == Argument::Kind::string ? cpp_string(key.string()) : cpp_integer(key.integer())) + ")";
    }
    unpack(structure.items[i], item, lines);
  }
}

FXX_INLINE std::string InputCode::pack(const Structure& structure, const std::string& each) const {
  using Kind = Structure::Kind;
  if (structure.kind == Kind::leaf) {
    const auto found = placeholders_.find(structure.placeholder);
    return found == placeholders_.end() ? type(structure) + "{}"
                                        : each + "[" + std::to_string(found->second.number) + "]";
  }
  const bool keyed = structure.kind == Kind::dict && one_type(structure);
  std::string items;
  for (std::size_t i = 0; i < structure.items.size(); ++i) {
    const std::string item = pack(structure.items[i], each);
    items += items.empty() ? "" : ", ";
    if (!keyed) {
      items += item;
      continue;
    }
    const Argument& key = structure.keys[i];
    items += "{" + (key.kind() == Argument::Kind::string ? cpp_string(key.string()) : cpp_integer(key.integer())) +
             ", " + item + "}";
  }
  return type(structure) + "{" + items + "}";
}

FXX_INLINE std::string forward_arguments(const Graph& graph, const std::string& each) {
  const InputCode code(graph);
  std::string text;
  std::set<std::string_view> known;  // leaves of containers, and inputs that are one value
  const auto add = [&](const std::string& argument) { text += (text.empty() ? "" : ", ") + argument; };
  if (const Signature* signature = graph.signature()) {
    for (const std::string_view target : signature->leaves()) known.insert(target);
    for (const Signature::Input& input : signature->inputs)
      if (input.structure.kind != Structure::Kind::leaf || code.placeholder(input.structure.placeholder))
        add(code.pack(input.structure, each));
  }
  std::size_t next = 0;
  for (const Node* node : graph.nodes()) {
    if (node->opcode() != Opcode::placeholder) continue;
    if (!known.contains(node->target())) add(each + "[" + std::to_string(next) + "]");
    ++next;
  }
  return text;
}

}  // namespace fxx::inline FXX_ABI
