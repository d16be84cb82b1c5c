// Bodies of trace/tracer.hpp.
#pragma once

#include <algorithm>
#include <typeinfo>

#include "fxx/error.hpp"
#include "fxx/ir/print.hpp"
#include "fxx/ops/registry.hpp"
#include "fxx/runtime/backtrace.hpp"
#include "fxx/trace/input.hpp"
#include "fxx/trace/proxy.hpp"
#include "fxx/trace/tracer.hpp"

namespace fxx::inline FXX_ABI {

FXX_INLINE void detail::undefined_tensor() {
  throw TraceError(ErrorId::unsupported_argument,
                   "Proxy: an undefined tensor is used where a tensor is needed; give it a value first, or leave the "
                   "argument out",
                   Tracer::context());
}

FXX_INLINE Node* ProxyBase::node() const {
  if (!tracer_) detail::undefined_tensor();
  if (item_ == whole) return node_;
  Node* item = tracer_->item(node_, item_);
  return part_ == whole ? item : tracer_->item(item, part_);
}

/// Backtraces of nodes, to be looked up all at once.
struct detail::Backtraces {
  std::vector<std::pair<Node*, Backtrace>> all;

  void write() {
    // Most frames are shared by all nodes; a program is started for those of each library.
    std::vector<void*> addresses;
    for (const auto& [node, backtrace] : all)
      addresses.insert(addresses.end(), backtrace.addresses().begin(), backtrace.addresses().end());
    std::sort(addresses.begin(), addresses.end());
    addresses.erase(std::unique(addresses.begin(), addresses.end()), addresses.end());
    std::vector<std::string> lines;
    for (const Frame& frame : symbolise(addresses, SourceLines::of_user))
      lines.push_back(is_user_frame(frame) ? format_frame(frame) : std::string());
    for (const auto& [node, backtrace] : all) {
      if (node->is_erased()) continue;
      std::string text;
      for (std::size_t i = backtrace.addresses().size(); i-- > 0;) {
        const auto found = std::lower_bound(addresses.begin(), addresses.end(), backtrace.addresses()[i]);
        const std::string& line = lines[static_cast<std::size_t>(found - addresses.begin())];
        if (!line.empty()) text += (text.empty() ? "" : "\n") + line;
      }
      node->meta().stack_trace = std::move(text);
    }
    all.clear();
  }
};

FXX_INLINE Tracer::~Tracer() { delete backtraces_; }

// --- hooks -----------------------------------------------------------------------------------------------------------

FXX_INLINE Node* Tracer::create_node(Op op, Arguments args, KeywordArguments kwargs, std::string_view name,
                                     std::source_location where) {
  Node* node = graph().create_node(std::move(op), args, kwargs, name);
  node->set_location(where);
  if (detail::in_scope()) [[unlikely]]
    detail::note_scope(*node);
  if (options.record_stack_traces) [[unlikely]] {
    if (!backtraces_) backtraces_ = new detail::Backtraces;
    if (node->opcode() != Opcode::output) backtraces_->all.emplace_back(node, Backtrace::capture());
    if (!in_session_) backtraces_->write();
  }
  return node;
}

FXX_INLINE Node* Tracer::create_proxy(Op op, Arguments args, KeywordArguments kwargs, std::string_view name,
                                      std::source_location where) {
  if (options.check_mutable_operations) [[unlikely]]
    refuse_mutation(op, kwargs);
  return proxy(create_node(std::move(op), args, kwargs, name, where));
}

FXX_INLINE void Tracer::refuse_mutation(const Op& op, KeywordArguments kwargs) const {
  bool mutates = false;
  if (const auto* call = std::get_if<CallFunction>(&op)) {
    const auto* target = std::get_if<const Operator*>(&call->target);
    mutates = target && (*target)->mutates;
  } else if (const auto* call = std::get_if<CallMethod>(&op)) {
    mutates = call->target.ends_with('_') && !call->target.ends_with("__");
  }
  for (const KeywordArgument& k : kwargs.span()) mutates |= k.key == "out";
  if (!mutates) return;
  throw TraceError(ErrorId::mutable_operation,
                   "Tracer::create_proxy: '" + target_text(op) +
                       "' writes to its argument, which check_mutable_operations refuses; use the operator that gives "
                       "a new tensor",
                   context());
}

FXX_INLINE std::vector<Node*> Tracer::create_args_for_root(std::span<const InputLeaf> inputs) {
  std::vector<Node*> nodes;
  for (const InputLeaf& input : inputs) {
    Node* node = input.default_value ? create_proxy(Placeholder{input.name}, {*input.default_value})
                                     : create_proxy(Placeholder{input.name}, {});
    if (annotates_types()) node->set_type(input.type);
    for (const auto& entry : input.meta) {
      auto& custom = node->meta().custom;
      const auto known = [&](const auto& noted) { return noted.first == entry.first; };
      if (std::none_of(custom.begin(), custom.end(), known)) custom.push_back(entry);
    }
    nodes.push_back(node);
  }
  return nodes;
}

FXX_INLINE Argument Tracer::create_arg(const Operand& value) {
  if (const ProxyBase* proxy = value.proxy()) return node_of(*proxy);
  if (value.external_tensor()) return attribute(value.external_tensor());
  if (const std::vector<Operand>* items = value.items()) {
    std::vector<Argument> list;
    list.reserve(items->size());
    for (const Operand& item : *items) list.push_back(create_arg(item));
    switch (value.container()) {
      case Argument::Kind::tuple: return Argument::tuple(std::move(list));
      case Argument::Kind::dict: {
        std::vector<DictEntry> entries;
        for (std::size_t i = 0; i < list.size(); i += 2) entries.push_back({list[i], list[i + 1]});
        return Argument::dict(std::move(entries));
      }
      default: return Argument::list(std::move(list));
    }
  }
  if (value.is_object()) return value.create_object(*this);
  return value.immediate();
}

FXX_INLINE Node* Tracer::attribute(const void*) {
  throw TraceError(ErrorId::unsupported_argument,
                   "Tracer::attribute: a tensor was met, but this tracer has no module to keep it as an attribute of; "
                   "trace a module, or make the tensor an input",
                   context());
}

namespace detail {
/// What a comparison of numbers says when the tracer knows both; none when the value is no such comparison.
FXX_INLINE std::optional<bool> compare_known(Tracer& tracer, const Node& node) {
  if (!node.operation() || node.operation()->name_space() != "operator" || node.args().size() != 2) return {};
  const std::string_view symbol = node.operation()->base_name();
  static constexpr std::string_view comparisons[] = {"eq", "ne", "lt", "le", "gt", "ge"};
  if (std::find(std::begin(comparisons), std::end(comparisons), symbol) == std::end(comparisons)) return {};
  double sides[2];
  for (std::size_t i = 0; i < 2; ++i) {
    const Argument& side = node.arg(i);
    sides[i] = (side.is_node() ? tracer.to_number(ScalarProxy(tracer, side.node())) : side).number();
  }
  const double a = sides[0], b = sides[1];
  return symbol == "eq"   ? a == b
         : symbol == "ne" ? a != b
         : symbol == "lt" ? a < b
         : symbol == "le" ? a <= b
         : symbol == "gt" ? a > b
                          : a >= b;
}
}  // namespace detail

FXX_INLINE bool Tracer::to_bool(const ProxyBase& value) {
  if (const std::optional<bool> known = detail::compare_known(*this, *value.node())) return *known;
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

FXX_INLINE std::vector<std::string> Tracer::keys(const ProxyBase& value) {
  throw TraceError(
      ErrorId::not_iterable,
      "Tracer::keys: a traced dictionary cannot be iterated, its keys are known only when the graph runs; name the "
      "keys that you need",
      context(value.node()));
}

FXX_INLINE Argument Tracer::to_number(const ProxyBase& value) {
  const Node& node = *value.node();
  // Sizes, and what Python's operators make of them.
  const Operator* op = operator_of(node);
  const bool size = op && (op->name_space() != "aten" || op->base_name() == "size" || op->base_name() == "numel" ||
                           op->base_name().starts_with("sym_"));
  const std::string remedy =
      size ? "keep it as it is (auto n = x.size(0)) and compute with that (fxx::zeros and its like take it, "
             "torch::zeros "
             "takes numbers only), or decide before tracing"
           : "of a tensor's element, compute both sides and select with where(), or keep the tensor; for a number that "
             "forward is given, let its type be a template's as that of tensors is; or decide before tracing";
  throw TraceError(ErrorId::data_dependent,
                   "Tracer::to_number: a traced value cannot become a number of C++, it is known only when the graph "
                   "runs; " +
                       remedy,
                   context(&node));
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

FXX_INLINE detail::Shared<const TracerFactory> Tracer::factory() const {
  if (typeid(*this) != typeid(Tracer)) return {};
  return remember(*this);
}

FXX_INLINE void Tracer::no_graph() const {
  throw TraceError(
      ErrorId::no_tracer,
      "Tracer::graph: the tracer has no graph to record into at the moment; it has one while trace() runs, "
      "or when it was made for one",
      context());
}

FXX_INLINE Tracer::Session::Session(Tracer& tracer, Graph& graph)
    : tracer_(tracer), before_(tracer.graph_), root_(tracer.root_name()), scope_(&tracer, root_) {
  if (tracer.in_session_)
    throw TraceError(ErrorId::no_tracer,
                     "Tracer::trace: the tracer is at work already; use another one for a trace within a trace",
                     context());
  tracer.in_session_ = true;
  tracer.graph_ = &graph;
  tracer.items_.clear();
}
FXX_INLINE Tracer::Session::~Session() {
  tracer_.in_session_ = false;
  tracer_.graph_ = before_;
  tracer_.items_.clear();
  if (tracer_.backtraces_) tracer_.backtraces_->all.clear();
}
FXX_INLINE void Tracer::Session::finish() {
  if (tracer_.backtraces_) tracer_.backtraces_->write();
}

// --- recording -------------------------------------------------------------------------------------------------------

FXX_INLINE Proxy Tracer::placeholder(std::string_view name, std::optional<Argument> default_value,
                                     std::string_view type) {
  Node* node = default_value ? create_proxy(Placeholder{std::string(name)}, {*default_value})
                             : create_proxy(Placeholder{std::string(name)}, {});
  node->set_type(type);
  return {*this, node};
}

FXX_INLINE void Tracer::bind(const Operator* op, std::span<const Operand* const> operands, std::vector<Argument>& args,
                             std::vector<KeywordArgument>& kwargs) {
  bool gap = false;
  args.reserve(operands.size());
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
  return create_proxy(CallFunction{&detail::overload_for_numbers(op, args, kwargs)}, args, kwargs, {},
                      operands.empty() ? std::source_location() : operands[0]->location());
}

FXX_INLINE Node* Tracer::call_function(const UserFunction& function, std::span<const Operand* const> operands) {
  std::vector<Argument> args;
  std::vector<KeywordArgument> kwargs;
  bind(nullptr, operands, args, kwargs);
  return create_proxy(CallFunction{&function}, args, kwargs, {},
                      operands.empty() ? std::source_location() : operands[0]->location());
}

FXX_INLINE Node* Tracer::call_method(std::string_view method, const Operator* resolved,
                                     std::span<const Operand* const> operands, std::source_location where) {
  std::vector<Argument> args;
  std::vector<KeywordArgument> kwargs;
  bind(resolved, operands, args, kwargs);
  Node* node = create_proxy(CallMethod{std::string(method)}, args, kwargs, {}, where);
  if (const auto* call = std::get_if<CallMethod>(&node->op()); resolved && call && call->target == method)
    node->set_resolved(resolved);  // of the node that was asked for: a hook may have put another in its place
  return node;
}

FXX_INLINE Node* Tracer::item(Node* node, int index) {
  Node*& known = items_[(static_cast<std::uint64_t>(node->index()) << 32) | static_cast<std::uint32_t>(index)];
  if (!known || known->is_erased())
    known = create_proxy(CallFunction{&table_operator(OperatorIndex::operator_getitem)}, {node, index});
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
    if (value->defined() && value->tracer_ != this) node_of(*value);
  const Node* producer = values.empty() ? nullptr : values[0]->node_;
  bool whole =
      producer && producer->operation() && producer->operation()->returns.size() == values.size() && values.size() > 1;
  for (std::size_t i = 0; i < values.size() && whole; ++i)
    whole =
        values[i]->node_ == producer && values[i]->item_ == static_cast<int>(i) && values[i]->part_ == ProxyBase::whole;
  if (whole) return values[0]->node_;
  std::vector<Argument> items;
  for (const ProxyBase* value : values) items.push_back(value->defined() ? Argument(value->node()) : Argument());
  return Argument::tuple(std::move(items));
}

namespace detail {

FXX_INLINE Tracer& tracer_of(std::span<const Operand* const> operands) {
  for (const Operand* operand : operands)
    if (operand->tracer()) return *operand->tracer();
  if (Tracer* current = Tracer::current()) return *current;
  throw TraceError(
      ErrorId::no_tracer,
      "functional: none of the arguments is a traced value, so there is nothing to record into; call the function of "
      "torch:: instead");
}

FXX_INLINE std::vector<Argument> arguments_of(Tracer& tracer, std::span<const Operand* const> operands) {
  std::vector<Argument> args;
  for (const Operand* operand : operands) args.push_back(tracer.create_arg(*operand));
  return args;
}

}  // namespace detail

}  // namespace fxx::inline FXX_ABI
