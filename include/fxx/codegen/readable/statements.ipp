// The signature, and a statement for each node; what is written into the expression that uses it instead.
#pragma once

#include <algorithm>

#include "fxx/codegen/readable/writer.ipp"
#include "fxx/ops/effects.hpp"

namespace fxx::inline FXX_ABI::detail {

FXX_INLINE std::string ForwardWriter::parameters(bool with_defaults) const {
  std::string list;
  std::set<std::string_view> known;  // leaves of containers, and inputs that are one value
  if (const Signature* signature = graph_.signature()) {
    for (const std::string_view target : signature->leaves()) known.insert(target);
    for (const Signature::Input& input : signature->inputs) {
      const bool leaf = input.structure.kind == Structure::Kind::leaf;
      const Node* node = leaf ? inputs_.placeholder(input.structure.placeholder) : nullptr;
      if (leaf && !node) continue;  // it was erased
      list += (list.empty() ? "" : ", ") +
              (leaf ? parameter(*node, with_defaults) : inputs_.type(input.structure) + " " + input_name(input));
    }
  }
  for (const Node* node : graph_.nodes())
    if (node->opcode() == Opcode::placeholder && !known.contains(node->target()))
      list += (list.empty() ? "" : ", ") + parameter(*node, with_defaults);
  return list;
}

FXX_INLINE std::string ForwardWriter::result_type() const {
  const Node* output = graph_.output_node();
  if (!output->type().empty() && is_cpp_type(output->type())) return std::string(output->type());
  return output->arg(0).is_none() ? "void" : types_.of(output->arg(0));
}

FXX_INLINE std::string ForwardWriter::body(const std::string& indent) {
  plan_releases();
  std::string text;
  if (const Signature* signature = graph_.signature())
    for (const Signature::Input& input : signature->inputs) {
      if (input.structure.kind == Structure::Kind::leaf) continue;
      std::vector<std::string> lines;
      inputs_.unpack(input.structure, input_name(input), lines);
      for (const std::string& line : lines) text += indent + line + "\n";
    }
  for (const Node* node : graph_.nodes()) {
    const std::string line = statement(*node);
    if (!line.empty()) text += indent + line + "\n";
  }
  return text;
}

FXX_INLINE std::string ForwardWriter::parameter(const Node& node, bool with_default) const {
  if (!node.target().empty() && node.target()[0] == '*')
    no_cpp(node, "a variadic input has no C++ form; give the inputs one by one");
  std::string type(node.type());
  if (type.empty()) type = node.args().empty() || node.arg(0).is_none() ? "torch::Tensor" : types_.of(node.arg(0));
  if (!is_cpp_type(type))
    no_cpp(node,
           "the type " + repr(std::string_view(type)) + " of input '" + std::string(node.name()) + "' is no C++ type");
  std::string text = type + " " + std::string(node.name());
  if (with_default && !node.args().empty())
    text += " = " + (node.arg(0).is_none() ? "{}" : immediate(node.arg(0), {}, node));
  return text;
}

FXX_INLINE void ForwardWriter::plan_releases() {
  last_user_.assign(graph_.index_bound(), nullptr);
  has_effect_after_.assign(graph_.index_bound(), false);
  barrier_of_.assign(graph_.index_bound(), 0);
  occurrences_.assign(graph_.index_bound(), 0);
  place_of_.assign(graph_.index_bound(), 0);
  std::size_t barriers = 0, place = 0;
  for (const Node* node : graph_.nodes()) {
    place_of_[node->index()] = place++;
    for (Node* input : node->all_input_nodes()) last_user_[input->index()] = node;
    const auto count = [&](Node* input) { ++occurrences_[input->index()]; };
    for (const Argument& a : node->args()) for_each_node(a, count);
    for (const KeywordArgument& k : node->kwargs()) for_each_node(k.value, count);
    barrier_of_[node->index()] = barriers;
    has_effect_after_[node->index()] = is_barrier(*node) || (node->operation() && node->operation()->mutates);
    if (has_effect_after_[node->index()]) ++barriers;
  }
}

FXX_INLINE bool ForwardWriter::is_written(const Node& node) {
  for (const Node* user : node.users()) {
    const Operator* op = operator_of(*user);
    for (int i = 0; op && op->mutates && i < op->arity(); ++i) {
      const Argument* given =
          op->parameters[static_cast<std::size_t>(i)].written ? argument_of(*user, *op, i) : nullptr;
      if (given && *given == Argument(const_cast<Node*>(&node))) return true;
    }
  }
  return false;
}

FXX_INLINE bool ForwardWriter::nests(const Node& node) const {
  if (options_.nest_expressions && is_written(node)) return false;
  if (node.opcode() == Opcode::get_attr) return options_.nest_expressions;
  if (!options_.nest_expressions || node.opcode() == Opcode::placeholder || node.num_users() != 1 ||
      occurrences_[node.index()] != 1)
    return false;
  const Node& user = *node.users().front();
  if (has_effect_after_[node.index()] || barrier_of_[user.index()] != barrier_of_[node.index()]) return false;
  const ModuleInfo* module = node.opcode() == Opcode::call_module ? owner_.find_module(node.target()) : nullptr;
  const Operator* op = module ? module->operation : operator_of(node);
  if (op && has(op->traits, Trait::random)) return false;
  // A module may hold anything; it is nested only into what directly follows it.
  if (module && !op && node.next() != &user) return false;
  return types_.of(node) == "torch::Tensor";
}

FXX_INLINE std::string ForwardWriter::statement(const Node& node) {
  if (node.opcode() == Opcode::placeholder) return {};
  if (node.opcode() == Opcode::output)
    return node.arg(0).is_none() ? std::string() : "return " + returned(node.arg(0), node) + ";";
  Expression made = expression(node);
  if (nests(node) && (node.opcode() == Opcode::get_attr || made.text.size() <= 72)) {
    nested_[&node] = std::move(made);
    // What it reads, and what is written into it reads, is read where it is written into.
    if (const Node* user = node.users().empty() ? nullptr : node.users().front()) read_at(*user, node);
    return {};
  }
  const std::string type = gives_references(operator_of(node)) ? types_.of(node) : "auto";
  std::string line = made.text + ";";
  if (node.num_users()) line = type + " " + std::string(node.name()) + " = " + line;
  if (!options_.release_values) return line;
  std::string released;
  release(node, node, released);
  return released.empty() ? line : line + " " + released;
}

FXX_INLINE void ForwardWriter::read_at(const Node& user, const Node& nested) {
  for (const Node* input : nested.all_input_nodes()) {
    if (const Node*& last = last_user_[input->index()]; place_of_[last->index()] < place_of_[user.index()])
      last = &user;
    if (nested_.contains(input)) read_at(user, *input);
  }
}

FXX_INLINE void ForwardWriter::release(const Node& node, const Node& statement, std::string& text) {
  for (const Node* input : node.all_input_nodes()) {
    if (nested_.contains(input)) {
      release(*input, statement, text);
      continue;
    }
    if (last_user_[input->index()] != &statement) continue;
    last_user_[input->index()] = nullptr;  // once
    const std::string type = input->opcode() == Opcode::placeholder && !input->type().empty()
                                 ? std::string(input->type())
                                 : types_.of(*input);
    if (type == "torch::Tensor") text += " " + std::string(input->name()) + ".reset();";
    else if (type.starts_with("std::vector<torch::Tensor") || type.starts_with("std::tuple<"))
      text += " " + std::string(input->name()) + " = {};";
  }
}

}  // namespace fxx::inline FXX_ABI::detail
