// Bodies of torch/trace.hpp: the tracer behind the dispatcher's DeferredInit key.
//
// A boxed fallback on one mode key, switched on for a thread by an include guard, sees every operator above autograd
// and before composite operators decompose. Facts and pitfalls behind each step are in docs/design.md, "Tracing at the
// dispatcher".
#pragma once

#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

// after the tensor's own header
#include <ATen/ops/alias_ops.h>
#include <ATen/ops/clone_ops.h>
#include <ATen/ops/detach_ops.h>

#include <unordered_map>
#include <unordered_set>

#include "fxx/error.hpp"
#include "fxx/ir/print.hpp"
#include "fxx/ops/effects.hpp"
#include "fxx/ops/registry.hpp"
#include "fxx/passes/dead_code.hpp"
#include "fxx/passes/leaf_modules.hpp"
#include "fxx/rules/reroll.hpp"
#include "fxx/runtime/backtrace.hpp"
#include "fxx/torch/trace.hpp"
#include "fxx/trace/symbolic.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {

/// The mode key that the tracer listens on: free in every LibTorch build, above autograd.
inline constexpr c10::DispatchKey trace_key = c10::DispatchKey::DeferredInit;

FXX_INLINE DispatchTracer::Implementation*& current_tracer() {
  thread_local DispatchTracer::Implementation* tracer = nullptr;
  return tracer;
}
void copy_written_constants(Graph& graph, const std::map<std::string, GraphModule::Attribute>& constants);
FXX_INLINE void trace_fallback(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

/// The fallback is registered once per process, when the first trace starts.
FXX_INLINE void register_trace_fallback() {
  static torch::Library* library = [] {
    auto* made = new torch::Library(torch::Library::IMPL, "_", trace_key, __FILE__, __LINE__);
    made->fallback(torch::CppFunction::makeFromBoxedFunction<&trace_fallback>());
    return made;  // stays for the life of the process, as the dispatcher does
  }();
  (void)library;
}

}  // namespace detail

class DispatchTracer::Implementation {
 public:
  Implementation(Graph& graph, const ModuleOwner& owner, const TraceOptions& options)
      : owner_(owner),
        options_(options),
        tracer_(graph),
        previous_(detail::current_tracer()),
        include_(detail::trace_key) {
    detail::current_tracer() = this;
    for (const ModuleOwner::Tensor& entry : owner.tensors())
      if (entry.tensor.has_storage())
        attribute_storages_.emplace(entry.tensor.storage().unsafeGetStorageImpl(), entry.name);
  }
  ~Implementation() { stop(); }

  void stop() {
    if (stopped_) return;
    stopped_ = true;
    detail::current_tracer() = previous_;
    include_.reset();
  }

  void add_input(const at::Tensor& tensor, const std::string& name) {
    const Proxy proxy = tracer_.placeholder(name, {}, "torch::Tensor");
    proxy.node()->set_tensor_meta(tensor_meta_of(tensor));
    bind(tensor, {proxy.node(), -1, true});
  }

  Argument argument_for(const c10::IValue& value) {
    if (value.isTensor()) return argument(value.toTensor());
    if (value.isTuple()) {
      std::vector<Argument> items;
      for (const c10::IValue& v : value.toTupleRef().elements()) items.push_back(argument_for(v));
      return collapse(value, Argument::tuple(std::move(items)));
    }
    if (value.isGenericDict()) {
      std::vector<DictEntry> entries;
      for (const auto& entry : value.toGenericDict())
        entries.push_back({to_argument(entry.key(), Type{}), argument_for(entry.value())});
      return Argument::dict(std::move(entries));
    }
    if (value.isList()) {
      std::vector<Argument> items;
      for (const c10::IValue& v : value.toListRef()) items.push_back(argument_for(v));
      return Argument::list(std::move(items));
    }
    return to_argument(value, Type{});
  }

  void record(const c10::OperatorHandle& handle, torch::jit::Stack& stack) {
    const Operator& op = operator_of(handle);
    const std::size_t count = handle.schema().arguments().size();
    if (answers_data_question(handle, op, stack, count)) return;

    // Everything about the arguments is read before the call, which consumes them.
    std::vector<Argument> args;
    std::vector<KeywordArgument> kwargs;
    bool depends_on_inputs = has(op.traits, Trait::random);
    std::vector<const c10::TensorImpl*> given;
    const auto values = torch::jit::last(stack, count);
    std::size_t written = 0;
    std::vector<Argument> all(count);
    for (std::size_t i = 0; i < count; ++i) {
      all[i] = argument(values[i], op, op.parameters[i], given, depends_on_inputs);
      const Parameter& parameter = op.parameters[i];
      const bool standard = parameter.has_default() && (same_value(all[i], parameter.standard, parameter.type) ||
                                                        is_default(values[i], handle, i));
      if (!standard && !parameter.keyword_only) written = i + 1;
      if (!standard && parameter.keyword_only) kwargs.push_back({parameter.name, all[i]});
    }
    args.assign(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(written));
    Backtrace where;
    if (options_.record_stack_traces) where = Backtrace::capture(2);

    handle.callBoxed(stack);

    // A copy that `to` or `contiguous` made of memory that no recorded operator wrote is as unknown to the graph.
    bool unwritten = op.base_name().starts_with("empty") || op.base_name().starts_with("new_empty");
    if (has(op.traits, Trait::fresh_view))
      for (const c10::TensorImpl* t : given)
        unwritten = unwritten || (t->has_storage() && unwritten_.contains(t->storage().unsafeGetStorageImpl()));

    Node* node = tracer_.create_node(CallFunction{&op}, args, kwargs);
    if (options_.record_stack_traces) traces_.emplace_back(node, where);
    int item = op.returns.size() > 1 ? 0 : -1;
    for (std::size_t at = stack.size() - handle.schema().returns().size(); at < stack.size(); ++at) {
      c10::IValue& result = stack[at];
      if (result.isTensor()) {
        at::Tensor tensor = result.toTensor();
        if (tensor.defined()) {
          if (!op.mutates && std::find(given.begin(), given.end(), tensor.unsafeGetTensorImpl()) != given.end()) {
            // `contiguous()` of a contiguous tensor is the tensor itself. As a value of its own it keeps the two apart.
            tensor = at::_ops::alias::call(tensor);
            result = tensor;
          }
          if (item < 0) node->set_tensor_meta(tensor_meta_of(tensor));
          bind(tensor, {node, item, depends_on_inputs});
          if (unwritten && tensor.numel() > 0) unwritten_.insert(storage_of(tensor));
        }
      } else if (result.isTensorList()) {
        int k = 0;
        for (const at::Tensor& tensor : result.toTensorVector()) bind(tensor, {node, k++, depends_on_inputs});
      }
      if (item >= 0) ++item;
    }
    forget_dead();
  }

  void finish_traces() {
    for (auto& [node, backtrace] : traces_)
      if (!node->is_erased()) node->meta().stack_trace = user_stack(backtrace);
    traces_.clear();
  }

  const std::vector<std::pair<std::string, at::Tensor>>& constants() const { return constants_; }

 private:
  using WeakTensor = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
  using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;

  /// A tensor's place in the graph.
  struct Value {
    Node* node = nullptr;
    int item = -1;
    bool depends_on_inputs = false;
  };
  /// Weak: a strong reference would make autograd copy the tensor when it is stored.
  struct Tracked {
    Value value;
    WeakTensor tensor;
    const c10::StorageImpl* storage = nullptr;  // compared only: set_data() puts another in its place
  };

  struct TrackedMemory {
    WeakStorage storage;
    bool depends_on_inputs;
  };

  static const c10::StorageImpl* storage_of(const at::Tensor& tensor) {
    return tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl() : nullptr;
  }
  [[noreturn]] static void refuse_alias() {
    throw TraceError(ErrorId::untraced_alias,
                     "trace: a tensor has memory that it got without the dispatcher (.data(), set_data(), "
                     "variable_data(), another thread), so the graph would freeze its contents. Use detach(), or "
                     "operators, instead",
                     {{}, user_place()});
  }

  void bind(const at::Tensor& tensor, Value value) {
    if (!tensor.defined()) return;
    values_.insert_or_assign(tensor.unsafeGetTensorImpl(),
                             Tracked{value, WeakTensor(tensor.getIntrusivePtr()), storage_of(tensor)});
    if (!tensor.has_storage()) return;
    const c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
    if (attribute_storages_.contains(storage)) return;
    const auto known = storages_.find(storage);
    const bool depends = value.depends_on_inputs || (known != storages_.end() && known->second.depends_on_inputs);
    storages_.insert_or_assign(storage, TrackedMemory{tensor.storage().getWeakStorageImpl(), depends});
  }

  /// Weak references keep the addresses of dead tensors from being used again; once in a while they are let go.
  void forget_dead() {
    if (values_.size() < next_sweep_) return;
    std::erase_if(values_, [](const auto& entry) { return entry.second.tensor.use_count() == 0; });
    std::erase_if(storages_, [](const auto& entry) { return entry.second.storage.use_count() == 0; });
    std::erase_if(unwritten_, [&](const c10::StorageImpl* storage) { return !storages_.contains(storage); });
    next_sweep_ = std::max<std::size_t>(1024, 2 * values_.size());
  }

  Argument argument(const at::Tensor& tensor) {
    if (!tensor.defined()) return {};
    freeze_if_unwritten(tensor);
    const Value value = find(tensor);
    return value.item < 0 ? value.node : tracer_.item(value.node, value.item);
  }

  Value find(const at::Tensor& tensor) {
    const auto known = values_.find(tensor.unsafeGetTensorImpl());
    if (known != values_.end()) {
      if (known->second.storage != storage_of(tensor)) refuse_alias();
      return known->second.value;
    }
    std::string name = owner_.name_of(tensor);
    bool attribute = !name.empty();
    if (!attribute && tensor.has_storage()) {
      const auto* storage = tensor.storage().unsafeGetStorageImpl();
      if (const auto parameter = attribute_storages_.find(storage); parameter != attribute_storages_.end()) {
        // Parameter::data() and the like: the same memory under a new handle.
        const at::Tensor original = owner_.tensor(parameter->second);
        if (original.sizes() == tensor.sizes() && original.strides() == tensor.strides() &&
            original.storage_offset() == tensor.storage_offset()) {
          Node* read = get_attr(parameter->second, tensor);
          Node* detached = tracer_.create_node(CallFunction{&table_operator(OperatorIndex::detach)}, {read});
          detached->set_tensor_meta(tensor_meta_of(tensor));
          bind(tensor, {detached, -1, true});
          return values_.at(tensor.unsafeGetTensorImpl()).value;
        }
      }
      // Memory that the inputs do not reach may be a constant: torch::tensor({1, 2}) fills an empty tensor behind the
      // dispatcher.
      if (const auto memory = storages_.find(storage); memory != storages_.end() && memory->second.depends_on_inputs)
        refuse_alias();
    }
    if (!attribute) name = add_constant(tensor, false);
    bind(tensor, {get_attr(name, tensor), -1, attribute});
    return values_.at(tensor.unsafeGetTensorImpl()).value;
  }

  /// Kept by reference, as a tensor that a callable captured, unless its memory is somebody else's (from_blob).
  std::string add_constant(const at::Tensor& tensor, bool copied) {
    std::string name;
    do name = "_tensor_constant" + std::to_string(next_constant_++);
    while (owner_.tensor(name).defined());
    copied = copied || (tensor.has_storage() && !tensor.storage().resizable());
    if (!copied && tensor.has_storage()) constant_storages_[storage_of(tensor)].push_back(constants_.size());
    constants_.emplace_back(name, copied ? copy_of(tensor) : tensor);
    return name;
  }
  /// The memory is about to be written: constants in it keep the values that they have.
  void keep_constants_in(const c10::StorageImpl* storage) {
    const auto found = constant_storages_.find(storage);
    if (found == constant_storages_.end()) return;
    for (std::size_t i : found->second) constants_[i].second = copy_of(constants_[i].second);
    constant_storages_.erase(found);
  }
  /// Does the operator give the argument all of its values, whatever they were?
  static bool overwrites(const Operator& op, const Parameter& parameter) {
    static const std::unordered_set<std::string_view> names = {"fill_", "zero_", "copy_", "set_", "resize_"};
    return parameter.name == "out" || has(op.traits, Trait::random) || names.contains(op.base_name());
  }
  /// An empty tensor that is read before any operator wrote to it was filled in C++ (data_ptr, accessor): it is a
  /// constant with the values that it has now.
  void freeze_if_unwritten(const at::Tensor& tensor) {
    if (unwritten_.empty() || !unwritten_.contains(storage_of(tensor))) return;
    bind(tensor, {get_attr(add_constant(tensor, true), tensor), -1, false});
  }

  /// A constant as it is now.
  static at::Tensor copy_of(const at::Tensor& tensor) {
    const at::NoGradGuard no_grad;
    const c10::impl::ExcludeDispatchKeyGuard unwatched(detail::trace_key);
    return at::_ops::clone::call(at::_ops::detach::call(tensor), std::nullopt)
        .set_requires_grad(tensor.requires_grad());
  }

  Node* get_attr(const std::string& name, const at::Tensor& tensor) {
    Node* node = tracer_.create_node(GetAttr{name}, {});
    node->set_tensor_meta(tensor_meta_of(tensor));
    return node;
  }

  Argument argument(const c10::IValue& value, const Operator& op, const Parameter& parameter,
                    std::vector<const c10::TensorImpl*>& given, bool& depends) {
    const auto tensor = [&](const at::Tensor& t) -> Argument {
      if (!t.defined()) return {};
      given.push_back(t.unsafeGetTensorImpl());
      if (parameter.written ? !overwrites(op, parameter) : !op.aliases) freeze_if_unwritten(t);
      if (parameter.written) unwritten_.erase(storage_of(t));
      const Value v = find(t);
      if (parameter.written) keep_constants_in(storage_of(t));
      depends = depends || v.depends_on_inputs;
      return v.item < 0 ? v.node : tracer_.item(v.node, v.item);
    };
    if (value.isTensor()) return tensor(value.toTensor());
    if (parameter.type.base == ValueType::tensor && value.isList()) {
      std::vector<Argument> items;
      for (const c10::IValue& v : value.toListRef()) items.push_back(v.isNone() ? Argument() : tensor(v.toTensor()));
      return Argument::list(std::move(items));
    }
    if (value.isGenerator()) {
      const at::Generator& generator = value.toGenerator();
      if (generator.defined() && generator != at::globalContext().defaultGenerator(generator.device()))
        throw TraceError(ErrorId::unsupported_argument,
                         "trace: random numbers are drawn from a generator of its own, which a graph has no name for; "
                         "seed the default generator",
                         {{}, user_place()});
      return {};
    }
    return to_argument(value, parameter.type);
  }

  static bool is_default(const c10::IValue& value, const c10::OperatorHandle& handle, std::size_t i) {
    const auto& standard = handle.schema().arguments()[i].default_value();
    return standard && !value.isTensor() && !standard->isTensor() && !value.isList() &&
           value.tagKind() == standard->tagKind() && value == *standard;
  }

  /// Operators that give C++ a number or a boolean. Known answers are given, questions about traced values refused.
  bool answers_data_question(const c10::OperatorHandle& handle, const Operator& op, torch::jit::Stack& stack,
                             std::size_t count) {
    static const std::unordered_set<std::string_view> questions = {"aten::item", "aten::_local_scalar_dense",
                                                                   "aten::is_nonzero", "aten::equal", "aten::allclose"};
    if (!questions.contains(op.name)) return false;
    const auto args = torch::jit::last(stack, count);
    if (op.name == "aten::equal" && args[0].toTensor().is_same(args[1].toTensor())) {
      torch::jit::drop(stack, count);
      stack.emplace_back(true);
      return true;
    }
    for (const c10::IValue& value : args) {
      if (!value.isTensor() || !value.toTensor().defined()) continue;
      const at::Tensor& tensor = value.toTensor();
      // Constants that the code made itself may be asked for; inputs, parameters and what follows from them may not.
      if (!find_if_known(tensor) && owner_.name_of(tensor).empty()) continue;
      const Value known = find(tensor);
      if (!known.depends_on_inputs) continue;
      throw TraceError(
          ErrorId::data_dependent,
          "trace: '" + std::string(op.name) +
              "' asks for the value of a traced tensor, so the code that follows would depend on the data; "
              "decide before tracing, or compute both sides and select with torch::where",
          {format_node(*known.node), user_place()});
    }
    handle.callBoxed(stack);
    return true;
  }
  bool find_if_known(const at::Tensor& tensor) const { return values_.contains(tensor.unsafeGetTensorImpl()); }

  /// `return topk(...)`: all results of one node are the node, as in torch.fx.
  Argument collapse(const c10::IValue& value, Argument tuple) const {
    const auto& elements = value.toTupleRef().elements();
    if (elements.size() < 2) return tuple;
    Node* producer = nullptr;
    for (std::size_t i = 0; i < elements.size(); ++i) {
      if (!elements[i].isTensor()) return tuple;
      const auto known = values_.find(elements[i].toTensor().unsafeGetTensorImpl());
      if (known == values_.end() || known->second.value.item != static_cast<int>(i) ||
          (producer && known->second.value.node != producer))
        return tuple;
      producer = known->second.value.node;
    }
    if (!producer->operation() || producer->operation()->returns.size() != elements.size()) return tuple;
    // The getitem nodes made for the tuple have no use then.
    for (const Argument& item : tuple.items())
      if (item.node()->num_users() == 0) producer->graph().erase_node(item.node());
    return producer;
  }

  static std::string user_place() {
    const std::vector<Frame> frames = user_frames(Backtrace::capture(1));
    return frames.empty() ? std::string() : format_frame(frames.front());
  }

  const ModuleOwner& owner_;
  TraceOptions options_;
  Tracer tracer_;
  Implementation* previous_;
  std::optional<c10::impl::IncludeDispatchKeyGuard> include_;
  bool stopped_ = false;
  std::unordered_map<const c10::TensorImpl*, Tracked> values_;
  std::unordered_map<const c10::StorageImpl*, TrackedMemory> storages_;
  std::unordered_map<const c10::StorageImpl*, std::string> attribute_storages_;
  std::unordered_set<const c10::StorageImpl*> unwritten_;  // made by empty(), and by no recorded operator written since
  std::vector<std::pair<std::string, at::Tensor>> constants_;
  std::unordered_map<const c10::StorageImpl*, std::vector<std::size_t>> constant_storages_;  // of those not copied
  std::vector<std::pair<Node*, Backtrace>> traces_;
  std::size_t next_constant_ = 0, next_sweep_ = 1024;
};

FXX_INLINE void detail::trace_fallback(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  // Below this, operators run as if nobody watched.
  const c10::impl::ExcludeDispatchKeyGuard unwatched(trace_key);
  if (DispatchTracer::Implementation* tracer = current_tracer()) tracer->record(op, *stack);
  else op.callBoxed(stack);
}

FXX_INLINE DispatchTracer::DispatchTracer(Graph& graph, const ModuleOwner& owner, const TraceOptions& options)
    : implementation_((detail::register_trace_fallback(), std::make_unique<Implementation>(graph, owner, options))) {}
FXX_INLINE DispatchTracer::~DispatchTracer() = default;
FXX_INLINE void DispatchTracer::add_input(const at::Tensor& tensor, const std::string& name) {
  implementation_->add_input(tensor, name);
}
FXX_INLINE void DispatchTracer::stop() {
  implementation_->stop();
  implementation_->finish_traces();
}
FXX_INLINE Argument DispatchTracer::argument_for(const c10::IValue& value) {
  return implementation_->argument_for(value);
}
FXX_INLINE const std::vector<std::pair<std::string, at::Tensor>>& DispatchTracer::constants() const {
  return implementation_->constants();
}

/// A constant that the code made and then wrote to is made anew in every run: the graph writes to a copy of it.
FXX_INLINE void detail::copy_written_constants(Graph& graph,
                                               const std::map<std::string, GraphModule::Attribute>& constants) {
  std::unordered_set<const Node*> written;
  for (const Node* node : graph.nodes())
    for (const Node* maker : memory_written_by(*node).makers) written.insert(maker);
  for (Node* node : graph.nodes()) {
    const auto* attribute = std::get_if<GetAttr>(&node->op());
    if (!attribute || !constants.contains(attribute->target) || !written.contains(node)) continue;
    const InsertPoint point = graph.inserting_after(node);
    Node* copy = graph.call_function(table_operator(OperatorIndex::clone), {node});
    if (node->tensor_meta()) copy->set_tensor_meta(*node->tensor_meta());
    node->replace_all_uses_with(copy, [&](Node* user) { return user != copy; });
  }
}

FXX_INLINE std::shared_ptr<GraphModule> detail::trace_module(const torch::nn::Module& root, const RunTraced& run,
                                                             std::vector<at::Tensor> inputs,
                                                             const TraceOptions& options) {
  const ModuleOwner owner(root, class_name_of(root));
  const std::vector<std::string> names = input_names(options.input_names, inputs.size());
  Graph graph;
  std::map<std::string, GraphModule::Attribute> constants;
  {
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].defined())
        throw TraceError(ErrorId::unsupported_argument,
                         "trace: input '" + names[i] + "' is an undefined tensor; give an example of it");
      // A handle of its own for every input: the same tensor given twice stays two inputs.
      inputs[i] = at::_ops::alias::call(inputs[i]);
    }
    DispatchTracer tracer(graph, owner, options);
    for (std::size_t i = 0; i < inputs.size(); ++i) tracer.add_input(inputs[i], names[i]);
    const c10::IValue result = run(inputs);
    tracer.stop();
    graph.output(tracer.argument_for(result));
    for (const auto& [name, tensor] : tracer.constants()) constants.emplace(name, tensor);
  }
  copy_written_constants(graph, constants);
  if (options.reroll_operators) rules::reroll.apply(graph);
  if (options.leaf_modules) reroll_modules(graph, owner);
  // Left over: memory that became a constant, reads that re-rolling made needless.
  erase_unread_memory(graph);
  for (Node* node : graph.nodes().reversed()) {
    const bool memory = node->operation() && node->operation()->base_name() == "empty";
    if ((memory || node->opcode() == Opcode::get_attr) && node->num_users() == 0) graph.erase_node(node);
  }
  return std::make_shared<GraphModule>(owner, root.is_training(), std::move(graph), constants);
}

}  // namespace fxx::inline FXX_ABI
