// Bodies of torch/interpreter.hpp.
#pragma once

#include <algorithm>
#include <exception>

#include "fxx/error.hpp"
#include "fxx/ir/print.hpp"
#include "fxx/ops/registry.hpp"
#include "fxx/torch/interpreter.hpp"

namespace fxx::inline FXX_ABI {

FXX_INLINE Interpreter::Interpreter(GraphModule& module)
    : owner_(std::make_shared<ModuleOwner>(module, module.class_name())), graph_(&module.graph()) {}
FXX_INLINE Interpreter::Interpreter(const torch::nn::Module& module, Graph& graph)
    : owner_(std::make_shared<ModuleOwner>(module)), graph_(&graph) {}

FXX_INLINE c10::IValue Interpreter::run(Values inputs, Environment initial) {
  std::size_t placeholders = 0;
  bool takes_the_rest = false;
  for (const Node* node : graph_->nodes())
    if (const auto* placeholder = std::get_if<Placeholder>(&node->op()))
      ++placeholders, takes_the_rest |= placeholder->target.starts_with('*');
  inputs = detail::flatten_inputs(*graph_, std::move(inputs));
  if (inputs.size() > placeholders && !takes_the_rest)
    throw RunError(ErrorId::input_mismatch, "Interpreter: " + std::to_string(inputs.size()) +
                                                " inputs were given; the graph takes " + std::to_string(placeholders));
  inputs_ = std::move(inputs);
  next_input_ = 0;
  values_ = std::move(initial);
  std::unordered_map<const Node*, std::vector<const Node*>> dies_after;
  if (garbage_collect_values) {
    std::unordered_map<const Node*, const Node*> last;
    for (const Node* node : graph_->nodes())
      for (const Node* input : node->all_input_nodes()) last[input] = node;
    for (const auto& [input, user] : last) dies_after[user].push_back(input);
  }
  c10::IValue result;
  for (Node* node : graph_->nodes()) {
    node_ = node;
    if (!values_.contains(node)) {
      try {
        c10::IValue value = run_node(*node);
        if (node->opcode() == Opcode::output) result = value;
        values_[node] = std::move(value);
      } catch (c10::Error& e) {
        e.add_context(detail::while_executing(*node));
        throw;
      } catch (const Error&) {
        throw;
      } catch (const std::exception& e) {
        throw RunError(ErrorId::run_failed, "Interpreter: " + std::string(e.what()),
                       {format_node(*node), node->source()});
      }
    } else if (node->opcode() == Opcode::placeholder) {
      ++next_input_;  // the value takes the place of the input
    }
    if (const auto dead = dies_after.find(node); dead != dies_after.end())
      for (const Node* input : dead->second) values_.erase(input);
  }
  return result;
}

FXX_INLINE c10::IValue Interpreter::run_one(Node& node, Environment values) {
  values_ = std::move(values);
  node_ = &node;
  return run_node(node);
}

FXX_INLINE c10::IValue Interpreter::value_of(const Argument& argument, const Type& type) const {
  bool any = false;
  for_each_node(argument, [&](Node*) { any = true; });
  if (!any) return to_ivalue(argument, type);
  if (argument.is_node()) return values_.at(argument.node());
  const Type item = type.list ? Type{.base = type.base, .optional = type.optional_items} : Type{};
  Values items;
  if (argument.kind() == Argument::Kind::dict) {
    c10::impl::GenericDict dict(c10::AnyType::get(), c10::AnyType::get());
    for (const DictEntry& entry : argument.entries()) dict.insert(to_ivalue(entry.key), value_of(entry.value));
    return dict;
  }
  if (!argument.is_sequence())
    throw RunError(ErrorId::input_mismatch, "Interpreter: " + to_string(argument) + " cannot be passed as a value",
                   {format_node(*node_)});
  for (const Argument& a : argument.items()) items.push_back(value_of(a, item));
  if (argument.kind() == Argument::Kind::tuple && !type.list) return c10::ivalue::Tuple::create(std::move(items));
  return to_list(std::move(items), type);
}

FXX_INLINE c10::IValue Interpreter::run_node(Node& node) {
  // getitem is told the index as it stands: it may hold slices.
  const Operator* op = operator_of(node);
  if (op && op->name == "operator::getitem" && node.args().size() == 2)
    return get_item(value_of(node.arg(0)), node.arg(1), [&](Node* n) { return values_.at(n); });
  Values args;
  KeywordValues kwargs;
  for (std::size_t i = 0; i < node.args().size(); ++i)
    args.push_back(value_of(node.args()[i], op && i < op->parameters.size() ? op->parameters[i].type : Type{}));
  for (const KeywordArgument& k : node.kwargs()) {
    const int i = op ? op->index_of(k.key) : -1;
    kwargs.emplace_back(k.key, value_of(k.value, i >= 0 ? op->parameters[static_cast<std::size_t>(i)].type : Type{}));
  }
  return match(
      node.op(), [&](const Placeholder& o) { return placeholder(o, std::move(args)); },
      [&](const GetAttr& o) { return get_attr(o); },
      [&](const CallFunction& o) { return call_function(o, std::move(args), std::move(kwargs)); },
      [&](const CallMethod& o) { return call_method(o, std::move(args), std::move(kwargs)); },
      [&](const CallModule& o) { return call_module(o, std::move(args), std::move(kwargs)); },
      [&](const Output& o) { return output(o, std::move(args)); });
}

FXX_INLINE c10::IValue Interpreter::placeholder(const Placeholder& op, Values args) {
  if (op.target.starts_with('*')) {  // takes the remaining inputs
    Values rest(inputs_.begin() + static_cast<std::ptrdiff_t>(std::min(next_input_, inputs_.size())), inputs_.end());
    next_input_ = inputs_.size();
    return to_list(std::move(rest), {});
  }
  const std::size_t at = next_input_++;
  if (at < inputs_.size() && !(inputs_[at].isTensor() && !inputs_[at].toTensor().defined()))
    return std::move(inputs_[at]);
  if (!args.empty()) return std::move(args[0]);
  throw RunError(ErrorId::input_mismatch,
                 "Interpreter: expected positional argument for parameter '" + op.target +
                     "', but one was not passed in; the graph got " + std::to_string(inputs_.size()) + " inputs",
                 {format_node(*node_)});
}

FXX_INLINE at::Tensor Interpreter::fetch_attr(const std::string& name) const {
  const at::Tensor tensor = owner_->tensor(name);
  if (!tensor.defined())
    throw RunError(ErrorId::run_failed,
                   "Interpreter: node references nonexistent attribute '" + name + "' of " + owner_->class_name(),
                   {format_node(*node_)});
  return tensor;
}

FXX_INLINE c10::IValue Interpreter::get_attr(const GetAttr& op) {
  if (auto module = owner_->module(op.target)) return detail::hold_module(std::move(module));
  return fetch_attr(op.target);
}

FXX_INLINE void Interpreter::refuse_keywords(const KeywordValues& kwargs) const {
  if (!kwargs.empty())
    throw RunError(ErrorId::run_failed,
                   "Interpreter: keyword arguments are known for operators only; pass '" + kwargs[0].first +
                       "' by position",
                   {format_node(*node_)});
}

FXX_INLINE c10::IValue Interpreter::call_function(const CallFunction& op, Values args, KeywordValues kwargs) {
  if (const auto* function = std::get_if<const UserFunction*>(&op.target)) {
    refuse_keywords(kwargs);
    return call_user_function(**function, std::move(args));
  }
  return call_operator(*std::get<const Operator*>(op.target), std::move(args), kwargs);
}
FXX_INLINE c10::IValue Interpreter::call_method(const CallMethod& op, Values args, KeywordValues kwargs) {
  // Boxed, a dtype is a number like others: the node knows which overload was meant.
  if (node_ && node_->opcode() == Opcode::call_method && node_->target() == op.target)
    if (const Operator* meant = operator_of(*node_)) return call_operator(*meant, std::move(args), kwargs);
  return fxx::call_method(op.target, std::move(args), kwargs);
}
FXX_INLINE c10::IValue Interpreter::call_module(const CallModule& op, Values args, KeywordValues kwargs) {
  refuse_keywords(kwargs);
  const auto module = owner_->module(op.target);
  if (!module)
    throw RunError(ErrorId::run_failed,
                   "Interpreter: there is no module '" + op.target + "' in " + owner_->class_name(),
                   {format_node(*node_)});
  return fxx::call_module(*module, std::move(args));
}
FXX_INLINE c10::IValue Interpreter::output(const Output&, Values args) { return std::move(args[0]); }

FXX_INLINE c10::IValue ShapeProp::run_node(Node& node) {
  c10::IValue value = Interpreter::run_node(node);
  if (value.isTensor() && value.toTensor().defined()) node.set_tensor_meta(tensor_meta_of(value.toTensor()));
  else node.clear_tensor_meta();
  return value;
}

}  // namespace fxx::inline FXX_ABI
