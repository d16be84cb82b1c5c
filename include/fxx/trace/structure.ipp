// Bodies of trace/structure.hpp.
#pragma once

#include "fxx/error.hpp"
#include "fxx/ir/signature.hpp"
#include "fxx/trace/structure.hpp"

namespace fxx::inline FXX_ABI {

FXX_INLINE void detail::wrong_structure(const Argument& value, const char* wanted) {
  throw TraceError(ErrorId::unsupported_output,
                   "from_argument: " + to_string(value) + " stands where " + wanted +
                       " is expected; give the structure that the function takes or returns",
                   Tracer::context());
}

FXX_INLINE Node* detail::named_item(Tracer& tracer, Node* node, std::string_view key) {
  return tracer.create_proxy(CallFunction{&table_operator(OperatorIndex::operator_getitem)}, {node, key});
}

FXX_INLINE std::vector<Argument> detail::flatten_inputs(Tracer& tracer, const Graph& graph,
                                                        std::span<const Argument> inputs) {
  const Signature* signature = graph.signature();
  if (!signature) return {inputs.begin(), inputs.end()};
  const std::vector<Node*> placeholders = graph.find_nodes(Opcode::placeholder);
  std::vector<std::string> targets;
  for (const Node* node : placeholders) targets.push_back(node->target());
  const auto part = [&](const Argument& value, const Structure& structure, std::size_t i) -> Argument {
    if (structure.kind == Structure::Kind::dict) {
      if (value.is_node()) {
        if (structure.keys[i].kind() == Argument::Kind::string)
          return named_item(tracer, value.node(), structure.keys[i].string());
      } else if (const Argument* found = find_entry(value, structure.keys[i])) {
        return *found;
      }
      wrong_structure(value, "a dictionary with other keys");
    }
    if (value.is_node()) return tracer.item(value.node(), static_cast<int>(i));
    if (!value.is_sequence() || value.items().size() != structure.items.size())
      wrong_structure(value, "a list of another length");
    return value.items()[i];
  };
  std::vector<Argument> out;
  const auto values = take_apart<Argument>(*signature, targets, inputs, part);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!values[i] && placeholders[i]->args().empty()) break;  // reported as missing by who takes them
    out.push_back(values[i] ? *values[i] : placeholders[i]->arg(0));
  }
  return out;
}

FXX_INLINE const Argument* detail::find_entry(const Argument& dict, const Argument& key) {
  if (dict.kind() == Argument::Kind::dict)
    for (const DictEntry& entry : dict.entries())
      if (entry.key == key) return &entry.value;
  return nullptr;
}

}  // namespace fxx::inline FXX_ABI
