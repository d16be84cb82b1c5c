// Bodies of trace/transformer.hpp.
#pragma once

#include <algorithm>

#include "fxx/error.hpp"
#include "fxx/ir/signature.hpp"
#include "fxx/trace/transformer.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {
/// Is the argument what it was, but for what stands for nodes now?
FXX_INLINE bool is_mapped(const Argument& now, const Argument& before) {
  bool any = false;
  for_each_node(before, [&](Node*) { any = true; });
  return any ? now.kind() == before.kind() : now == before;
}
FXX_INLINE bool are_mapped(std::span<const Argument> args, std::span<const KeywordArgument> kwargs,
                           const Node& before) {
  const auto same = [](const auto& now, const auto& old) { return is_mapped(now, old); };
  const auto same_key = [](const auto& now, const auto& old) {
    return now.key == old.key && is_mapped(now.value, old.value);
  };
  return std::ranges::equal(args, before.args(), same) && std::ranges::equal(kwargs, before.kwargs(), same_key);
}
}  // namespace detail

FXX_INLINE Graph Transformer::transform() {
  Graph out;
  GraphAppendingTracer tracer(out);
  tracer_ = &tracer;
  inlines_ = false;
  out.output(run());
  if (const Signature* signature = graph_->signature()) out.set_signature(*signature);
  out.set_tracer(graph_->tracer());
  Node* made = out.output_node();
  made->set_type(graph_->output_node()->type());
  tracer_ = nullptr;
  return out;
}

FXX_INLINE Argument Transformer::inline_into(Tracer& tracer, std::span<const Argument> inputs) {
  tracer_ = &tracer;
  inlines_ = true;
  inputs_ = inputs;
  next_input_ = 0;
  const Argument result = run();
  if (next_input_ < inputs.size())
    throw TraceError(ErrorId::unsupported_argument,
                     "Transformer: " + std::to_string(inputs.size()) + " inputs were given; the graph takes " +
                         std::to_string(next_input_),
                     Tracer::context());
  return result;
}

FXX_INLINE Argument Transformer::run() {
  values_.assign(graph_->index_bound(), {});
  Argument result;
  for (const Node* node : graph_->nodes()) {
    node_ = node;
    const detail::OriginScope origin(*node);
    Argument value = run_node(*node);
    if (node->opcode() == Opcode::output) result = std::move(value);
    else values_[node->index()] = std::move(value);
  }
  return result;
}

FXX_INLINE Argument Transformer::run_node(const Node& node) {
  const auto mapped = [&](const Argument& a) { return map_nodes(a, [&](Node* n) { return values_[n->index()]; }); };
  std::vector<Argument> args;
  std::vector<KeywordArgument> kwargs;
  for (const Argument& a : node.args()) args.push_back(mapped(a));
  for (const KeywordArgument& k : node.kwargs()) kwargs.push_back({k.key, mapped(k.value)});
  return match(
      node.op(), [&](const Placeholder& o) { return placeholder(o, args); },
      [&](const GetAttr& o) { return get_attr(o); },
      [&](const CallFunction& o) { return call_function(o, args, kwargs); },
      [&](const CallMethod& o) { return call_method(o, args, kwargs); },
      [&](const CallModule& o) { return call_module(o, args, kwargs); },
      [&](const Output& o) { return output(o, args); });
}

FXX_INLINE Node* Transformer::record(Op op, Arguments args, KeywordArguments kwargs) {
  const bool same = op == node_->op();
  Node* made = tracer_->create_proxy(std::move(op), args, kwargs, node_->name(), node_->location());
  if (!same || !(made->op() == node_->op())) return made;
  made->set_type(node_->type());
  // Other arguments may mean another overload, and give other sizes.
  if (made->opcode() != Opcode::placeholder && !detail::are_mapped(args.span(), kwargs.span(), *node_)) return made;
  if (node_->tensor_meta()) made->set_tensor_meta(*node_->tensor_meta());
  if (made->opcode() == Opcode::call_method) made->set_resolved(node_->operation());
  return made;
}

FXX_INLINE Argument Transformer::placeholder(const Placeholder& op, Arguments args) {
  if (!inlines_) return record(op, args, {});
  if (next_input_ < inputs_.size()) return inputs_[next_input_++];
  if (!args.span().empty()) return args.span()[0];
  throw TraceError(
      ErrorId::unsupported_argument,
      "Transformer: input '" + op.target + "' is missing; " + std::to_string(inputs_.size()) + " inputs were given",
      Tracer::context());
}
FXX_INLINE Argument Transformer::get_attr(const GetAttr& op) { return record(op, {}, {}); }
FXX_INLINE Argument Transformer::call_function(const CallFunction& op, Arguments args, KeywordArguments kwargs) {
  return record(op, args, kwargs);
}
FXX_INLINE Argument Transformer::call_method(const CallMethod& op, Arguments args, KeywordArguments kwargs) {
  return record(op, args, kwargs);
}
FXX_INLINE Argument Transformer::call_module(const CallModule& op, Arguments args, KeywordArguments kwargs) {
  return record(op, args, kwargs);
}
FXX_INLINE Argument Transformer::output(const Output&, Arguments args) {
  return args.span().empty() ? Argument() : args.span()[0];
}

}  // namespace fxx::inline FXX_ABI
