// Bodies of trace/tracer.hpp.
#pragma once

#include "fxx/error.hpp"
#include "fxx/ir/print.hpp"
#include "fxx/ops/registry.hpp"
#include "fxx/runtime/backtrace.hpp"
#include "fxx/trace/proxy.hpp"
#include "fxx/trace/scope.hpp"
#include "fxx/trace/tracer.hpp"

namespace fxx::inline FXX_ABI {

FXX_INLINE Node* ProxyBase::node() const { return item_ < 0 ? node_ : tracer_->item(node_, item_); }

// --- hooks -----------------------------------------------------------------------------------------------------------

FXX_INLINE Node* Tracer::create_node(Op op, Arguments args, KeywordArguments kwargs, std::string_view name,
                                     std::source_location where) {
  Node* node = graph_->create_node(std::move(op), args, kwargs, name);
  node->set_location(where);
  return node;
}

FXX_INLINE Argument Tracer::create_arg(const Operand& value) {
  if (const ProxyBase* proxy = value.proxy()) return node_of(*proxy);
  if (value.external_tensor()) return attribute(value.external_tensor());
  if (const std::vector<Operand>* items = value.items()) {
    std::vector<Argument> list;
    list.reserve(items->size());
    for (const Operand& item : *items) list.push_back(create_arg(item));
    return Argument::list(std::move(list));
  }
  return value.immediate();
}

FXX_INLINE Node* Tracer::attribute(const void*) {
  throw TraceError(ErrorId::unsupported_argument,
                   "Tracer::attribute: a tensor was met, but this tracer has no module to keep it as an attribute of; "
                   "trace a module, or make the tensor an input",
                   context());
}

FXX_INLINE bool Tracer::to_bool(const ProxyBase& value) {
  throw TraceError(
      ErrorId::data_dependent,
      "Tracer::to_bool: symbolically traced variables cannot be used as inputs to control flow; the branch depends on "
      "a value that is known only when the graph runs. Decide it before tracing, or compute both sides and select with "
      "where()",
      context(value.node()));
}

FXX_INLINE void Tracer::iter(const ProxyBase& value) {
  throw TraceError(
      ErrorId::not_iterable,
      "Tracer::iter: a traced list cannot be iterated, its length is known only when the graph runs; unpack<N>() takes "
      "a fixed number of items",
      context(value.node()));
}

FXX_INLINE Argument Tracer::to_number(const ProxyBase& value) {
  throw TraceError(
      ErrorId::data_dependent,
      "Tracer::to_number: a traced value cannot become a number of C++, it is known only when the graph runs; keep it "
      "as it is (auto n = x.size(0)) and compute with that, or decide before tracing",
      context(value.node()));
}

FXX_INLINE ErrorContext Tracer::context(const Node* value) {
  return {value ? format_node(*value) : std::string(), user_source(value), traced_modules()};
}

FXX_INLINE std::string Tracer::user_source(const Node* value) {
  const std::vector<Frame> frames = user_frames(Backtrace::capture(1));
  std::string text = frames.empty() ? std::string() : format_frame(frames.front());
  if (value && !value->source().empty() && (frames.empty() || frames.front().file.empty()))
    text += (text.empty() ? "the value of " : ", with the value of ") + value->source();
  return text;
}

// --- recording -------------------------------------------------------------------------------------------------------

FXX_INLINE Proxy Tracer::placeholder(std::string_view name, std::optional<Argument> default_value,
                                     std::string_view type) {
  Node* node = default_value ? create_node(Placeholder{std::string(name)}, {*default_value})
                             : create_node(Placeholder{std::string(name)}, {});
  node->set_type(type);
  return {*this, node};
}

FXX_INLINE void Tracer::bind(const Operator* op, std::span<const Operand* const> operands, std::vector<Argument>& args,
                             std::vector<KeywordArgument>& kwargs) {
  bool gap = false;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Operand& operand = *operands[i];
    if (operand.left_out()) {
      if (!op || op->parameters[i].has_default()) {
        gap = true;
        continue;
      }
      // `{}` for a list that the operator needs is the empty list.
      args.push_back(Argument::list({}));
    } else if (op && (gap || op->parameters[i].keyword_only)) {
      kwargs.push_back({op->parameters[i].name, create_arg(operand)});
    } else {
      args.push_back(create_arg(operand));
    }
  }
}

FXX_INLINE Node* Tracer::call_function(const Operator& op, std::span<const Operand* const> operands) {
  std::vector<Argument> args;
  std::vector<KeywordArgument> kwargs;
  bind(&op, operands, args, kwargs);
  return create_node(CallFunction{&op}, args, kwargs, {},
                     operands.empty() ? std::source_location() : operands[0]->location());
}

FXX_INLINE Node* Tracer::call_function(const UserFunction& function, std::span<const Operand* const> operands) {
  std::vector<Argument> args;
  std::vector<KeywordArgument> kwargs;
  bind(nullptr, operands, args, kwargs);
  return create_node(CallFunction{&function}, args, kwargs, {},
                     operands.empty() ? std::source_location() : operands[0]->location());
}

FXX_INLINE Node* Tracer::call_method(std::string_view method, const Operator* resolved,
                                     std::span<const Operand* const> operands, std::source_location where) {
  std::vector<Argument> args;
  std::vector<KeywordArgument> kwargs;
  bind(resolved, operands, args, kwargs);
  Node* node = create_node(CallMethod{std::string(method)}, args, kwargs, {}, where);
  if (resolved) node->set_resolved(resolved);
  return node;
}

FXX_INLINE Node* Tracer::item(Node* node, int index) {
  Node*& known = items_[(static_cast<std::uint64_t>(node->index()) << 32) | static_cast<std::uint32_t>(index)];
  if (!known || known->is_erased())
    known = create_node(CallFunction{&table_operator(OperatorIndex::operator_getitem)}, {node, index});
  return known;
}

FXX_INLINE Node* Tracer::node_of(const ProxyBase& value) const {
  if (&value.tracer() != this)
    throw TraceError(ErrorId::proxy_of_other_tracer,
                     "Tracer: the value belongs to another trace; a proxy is good only within the trace that made it",
                     context(value.node()));
  return value.node();
}

FXX_INLINE Argument Tracer::collapse_items(std::span<const ProxyBase* const> values) {
  for (const ProxyBase* value : values)
    if (value->tracer_ != this) node_of(*value);
  const Node* producer = values.empty() ? nullptr : values[0]->node_;
  bool whole =
      producer && producer->operation() && producer->operation()->returns.size() == values.size() && values.size() > 1;
  for (std::size_t i = 0; i < values.size() && whole; ++i)
    whole = values[i]->node_ == producer && values[i]->item_ == static_cast<int>(i);
  if (whole) return values[0]->node_;
  std::vector<Argument> items;
  for (const ProxyBase* value : values) items.push_back(value->node());
  return Argument::tuple(std::move(items));
}

namespace detail {

FXX_INLINE Tracer& tracer_of(std::span<const Operand* const> operands) {
  for (const Operand* operand : operands)
    if (operand->tracer()) return *operand->tracer();
  throw TraceError(
      ErrorId::no_tracer,
      "functional: none of the arguments is a traced value, so there is nothing to record into; call the function of "
      "torch:: instead");
}

}  // namespace detail

}  // namespace fxx::inline FXX_ABI
