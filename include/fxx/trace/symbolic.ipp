// Bodies of trace/concrete.hpp and trace/symbolic.hpp.
#pragma once

#include <algorithm>
#include <set>

#include "fxx/error.hpp"
#include "fxx/trace/symbolic.hpp"

namespace fxx::inline FXX_ABI {

FXX_INLINE Structure detail::InputReader::add(InputLeaf leaf) {
  leaf.name = nested_ ? *name_ + "_" + std::to_string(++number_) : *name_;
  leaves.push_back(std::move(leaf));
  return {};
}

FXX_INLINE std::vector<std::string> detail::input_names(std::span<const std::string> given, std::size_t count,
                                                        std::size_t first_spare) {
  if (given.size() > count && first_spare < given.size()) given = given.first(std::max(count, first_spare));
  if (given.size() > count)
    throw TraceError(ErrorId::unsupported_argument,
                     "symbolic_trace: " + std::to_string(given.size()) +
                         " input names were given; the function takes " + std::to_string(count) + " inputs",
                     Tracer::context());
  std::vector<std::string> names(given.begin(), given.end());
  names.resize(count);
  for (std::size_t i = 0; i < count; ++i)
    if (names[i].empty()) names[i] = count == 1 ? "x" : "arg" + std::to_string(i);
  return names;
}

FXX_INLINE std::vector<Node*> detail::make_inputs(Tracer& tracer, std::span<const InputLeaf> leaves,
                                                  Signature& signature) {
  std::vector<Node*> nodes = tracer.create_args_for_root(leaves);
  if (nodes.size() != leaves.size())
    throw TraceError(ErrorId::unsupported_argument,
                     "Tracer::create_args_for_root: " + std::to_string(nodes.size()) +
                         " placeholders were given back; there are " + std::to_string(leaves.size()) +
                         " inputs, and each needs one",
                     Tracer::context());
  std::size_t next = 0;
  for (Signature::Input& input : signature.inputs)
    input.structure.for_each_leaf([&](Structure& leaf) { leaf.placeholder = nodes[next++]->target(); });
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (!leaves[i].checked) continue;
    const Argument& value = leaves[i].constant;
    tracer.create_proxy(CallFunction{&table_operator(OperatorIndex::fxx_check_equal)},
                        {nodes[i], value,
                         "input '" + leaves[i].name + "' was specialised to the value " + to_string(value) +
                             " when the graph was traced, but got another one"});
  }
  return nodes;
}

FXX_INLINE void detail::make_output(Tracer& tracer, Argument value, const std::string& type) {
  Node* node = tracer.create_node(Output{}, {std::move(value)});
  if (tracer.annotates_types()) node->set_type(type);
}

FXX_INLINE void detail::keep_signature(Graph& graph, Signature signature) {
  if (signature.flat()) return;
  std::set<std::string_view> known;
  for (std::string_view target : signature.leaves())
    if (!known.insert(target).second)
      throw TraceError(ErrorId::unsupported_argument,
                       "symbolic_trace: two inputs have the name '" + std::string(target) +
                           "'; where some are containers, names tell them apart",
                       Tracer::context());
  graph.set_signature(std::move(signature));
}

}  // namespace fxx::inline FXX_ABI
