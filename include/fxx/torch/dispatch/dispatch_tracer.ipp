// Bodies of torch/dispatch/dispatch_tracer.hpp: one class, the step from an operator call to a node. What it keeps
// account of lies in the files beside it.
//
// Facts and pitfalls behind each step are in docs/design.md, "Tracing at the dispatcher".
#pragma once

#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/DimVector.h>
#include <torch/library.h>

// after the tensor's own header
#include <ATen/ops/alias_ops.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "fxx/error.hpp"
#include "fxx/ir/print.hpp"
#include "fxx/ops/registry.hpp"
#include "fxx/torch/dispatch/autograd_watch.hpp"
#include "fxx/torch/dispatch/buffer_watch.hpp"
#include "fxx/torch/dispatch/dispatch_tracer.hpp"
#include "fxx/torch/dispatch/element_sizes.hpp"
#include "fxx/torch/dispatch/fresh_memory.hpp"
#include "fxx/torch/dispatch/met_constants.hpp"
#include "fxx/torch/dispatch/recorded_calls.hpp"
#include "fxx/torch/dispatch/refused_modes.hpp"
#include "fxx/torch/dispatch/training_flags.hpp"
#include "fxx/torch/execute.hpp"
#include "fxx/torch/shape_rules.hpp"
#include "fxx/torch/values.hpp"
#include "fxx/trace/proxy.hpp"
#include "fxx/trace/scope.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {

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

/// The same value with every traced tensor replaced by what `open(tensor)` returns. Lists are copied: they may be the
/// caller's own.
template <class F>
void replace_traced(c10::IValue& value, F&& open) {
  if (value.isTensor()) {
    if (traced(value.toTensor())) value = open(value.toTensor());
  } else if (value.isList()) {
    bool any = false;
    for (const c10::IValue& item : value.toListRef()) any = any || (item.isTensor() && traced(item.toTensor()));
    if (!any) return;
    c10::impl::GenericList list = value.toList().copy();
    for (std::size_t i = 0; i < list.size(); ++i) {
      const c10::IValue item = list.get(i);
      if (item.isTensor() && traced(item.toTensor())) list.set(i, open(item.toTensor()));
    }
    value = std::move(list);
  }
}

}  // namespace detail

class DispatchTracer::Implementation final : public detail::OperatorCalls {
  using TracedTensor = detail::TracedTensor;
  using Value = detail::TracedValue;
  using BufferWatch = detail::BufferWatch;
  using OperatorCalls = detail::OperatorCalls;

 public:
  Implementation(Graph& graph, const ModuleOwner& owner, RecordOptions options)
      : owner_(owner),
        options_(options),
        tracer_(graph),
        state_(std::make_shared<detail::SharedTrace>(graph, options.reads)),
        buffers_(owner),
        constants_(owner),
        gradients_(records_gradients()) {
    refuse_modes();
    if (options.calls) calls_ = std::make_shared<detail::RecordedCalls>();
    if (options.calls && options.freeze_random) calls_->refuse();
    attribute_storages_.reserve(owner.tensors().size());
    for (const ModuleOwner::Tensor& entry : owner.tensors())
      if (entry.tensor.has_storage()) attribute_storages_.emplace(detail::storage_of(entry.tensor), &entry);
    previous_ = detail::current_calls();
    if (previous_) previous_->meets_trace();
    detail::current_calls() = this;
    autograd_.emplace();
    include_.emplace(detail::trace_key);
  }
  ~Implementation() { stop(); }

  void stop() {
    if (stopped_) return;
    stopped_ = true;
    detail::current_calls() = previous_;
    include_.reset();  // it puts all keys of the thread back
    autograd_.reset();
    state_->release();
  }
  void refuse_foreign() const {
    if (!state_->foreign()) return;
    const auto [op, where] = state_->foreign_call();
    throw TraceError(ErrorId::traced_on_other_thread,
                     "trace: '" + op +
                         "' was called with a traced tensor on another thread, whose operators a graph cannot order. "
                         "Trace code that runs on one thread",
                     {{}, detail::user_place(where), traced_modules()});
  }
  /// Writes of recorded operators are known; all others would be lost.
  void refuse_written_buffers() const {
    if (const BufferWatch::Buffer* buffer = buffers_.written())
      BufferWatch::refuse(*buffer, {{}, {}, traced_modules()});
  }

  at::Tensor input(const at::Tensor& tensor, const std::string& name) {
    const c10::impl::ExcludeDispatchKeyGuard unwatched(detail::trace_key);
    const Proxy proxy = tracer_.placeholder(name, {}, "torch::Tensor");
    proxy.node()->set_tensor_meta(tensor_meta_of(detail::bare(tensor)));
    refuse_transformed(tensor);
    if (detail::bare(tensor).layout() != at::kStrided)
      throw TraceError(ErrorId::unsupported_argument,
                       "trace: input '" + name + "' has the layout " + c10::str(detail::bare(tensor).layout()) +
                           ", and only strided tensors can be inputs. Pass its parts, and make it in forward",
                       here());
    if (calls_) calls_->input(proxy.node(), tensor);
    // A handle of its own for every input: the same tensor given twice stays two inputs.
    return wrap(alias_of(tensor), {proxy.node(), -1, true});
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
    if (value.isCapsule() || value.isObject() || value.isPyObject())
      throw TraceError(
          ErrorId::unsupported_output,
          "trace: the code returns an object of a class that graphs do not know. Describe its members with "
          "BOOST_HANA_DEFINE_STRUCT or BOOST_HANA_ADAPT_STRUCT (fxx/trace/hana.hpp), or return tensors, "
          "tuples, vectors or maps of them",
          {{}, {}, traced_modules()});
    return to_argument(value, Type{});
  }

  void meets_trace() override {
    if (calls_) calls_->refuse();
  }
  void record(const c10::OperatorHandle& handle, torch::jit::Stack& stack) override {
    refuse_foreign();
    const Operator& op = operator_of(handle);
    const Running running(*this, op);
    const std::size_t count = handle.schema().arguments().size();
    // What set_data() asks first, also that of a tensor which is no traced one.
    if (op.name == "aten::_has_compatible_shallow_copy_type" && own(stack.back().toTensor())) refuse_alias();
    if (answers_data_question(handle, op, stack, count)) return;
    refuse_modes(&op);

    // Everything about the arguments is read before the call, which consumes them.
    const bool with_gradients = records_gradients();
    if (with_gradients && !gradients_) refuse_gradients(op);
    Call call{.op = op, .detached = gradients_ && !with_gradients};
    call.depends = has(op.traits, Trait::random);
    const std::optional<std::int64_t> decided_dim = element_sizes_.dim_decided(handle, stack);
    std::vector<KeywordArgument> kwargs;
    std::vector<Argument> all(count);
    std::size_t written = 0;
    c10::IValue* const values = stack.data() + (stack.size() - count);
    for (std::size_t i = 0; i < count; ++i) {
      const Parameter& parameter = op.parameters[i];
      all[i] = argument(values[i], parameter, call);
      const bool standard = parameter.has_default() && (same_value(all[i], parameter.standard, parameter.type) ||
                                                        is_default(values[i], handle, i));
      if (!standard && !parameter.keyword_only) written = i + 1;
      if (!standard && parameter.keyword_only) kwargs.push_back({parameter.name, all[i]});
      detail::replace_traced(values[i], [&](const at::Tensor& t) { return inner_of(t); });
    }
    Backtrace where;
    if (options_.places) where = Backtrace::capture(2);

    std::vector<std::pair<c10::DimVector, c10::DimVector>> before;  // sizes that it may change in place
    if (calls_ && op.mutates)
      for (const Given& given : call.given) before.emplace_back(given.inner.sizes(), given.inner.strides());
    run(handle, stack, call);
    for (std::size_t i = 0; i < before.size(); ++i)
      if (const at::Tensor& now = call.given[i].inner;
          now.sizes() != before[i].first || now.strides() != before[i].second)
        calls_->refuse();
    // Known to the graph when somebody uses it, as a constant.
    if (options_.freeze_random && has(op.traits, Trait::random) && call.given.empty()) return;

    // A copy that `to` or `contiguous` made of fresh memory is as unknown to the graph.
    call.gives_fresh = op.name.starts_with("aten::empty") || op.name.starts_with("aten::new_empty");
    if (has(op.traits, Trait::fresh_view) && op.aliases && !call.given.empty())
      if (const FreshMemory* fresh = fresh_memory(call.given.front().inner)) {
        call.gives_fresh = true;
        call.copies_filled = fresh->filled();
      }

    if (decided_dim)
      call.decided =
          detail::ElementSizes::size_of(stack[stack.size() - handle.schema().returns().size()], *decided_dim);
    Node* node = tracer_.create_node(CallFunction{&op}, std::span<const Argument>(all.data(), written), kwargs);
    if (call.modules) node->set_module_stack(*call.modules);
    if (options_.places) places_.emplace_back(node, where);
    if (calls_) calls_->call(node, call.detached, op.returns.size() == 1 && op.returns[0].type.list);
    if (calls_ && call.gives_fresh) calls_->refuse();
    int item = op.returns.size() > 1 ? 0 : -1;
    for (std::size_t at = stack.size() - handle.schema().returns().size(); at < stack.size(); ++at) {
      c10::IValue& result = stack[at];
      if (result.isTensor()) {
        if (result.toTensor().defined()) {
          if (result.toTensor().is_nested())
            throw TraceError(ErrorId::unsupported_argument,
                             "trace: '" + std::string(op.name) +
                                 "' gives a nested tensor, which graphs do not have; use padded tensors and masks",
                             here());
          if (item < 0) node->set_tensor_meta(tensor_meta_of(detail::bare(result.toTensor())));
          result = traced_result(result.toTensor(), value_of(call, node, item), call);
        }
        if (calls_) note_result(result.toTensor(), call);
      } else if (result.isTensorList()) {
        int k = 0;
        c10::List<at::Tensor> list;
        for (const at::Tensor& tensor : result.toTensorVector())
          list.push_back(traced_result(tensor, value_of(call, node, k++), call));
        if (calls_ && op.returns.size() > 1) calls_->refuse();
        if (calls_)
          for (const at::Tensor& tensor : list) note_result(tensor, call);
        result = std::move(list);
      } else if (calls_) {
        calls_->refuse();
      }
      if (item >= 0) ++item;
    }
    forget_dead();
  }

  const std::vector<std::pair<std::string, at::Tensor>>& constants() const { return constants_.all(); }
  const std::vector<detail::TracedRead>& reads() const { return state_->reads(); }
  const std::vector<std::pair<Node*, Backtrace>>& places() const { return places_; }
  std::vector<const Node*> held() const { return state_->held(); }
  /// Null when nobody asked for them.
  std::shared_ptr<detail::RecordedCalls> calls() {
    if (!calls_) return nullptr;
    if (!detached_.empty()) calls_->refuse();
    // Those that were copied may hold other values by now.
    for (const auto& [name, tensor] : constants_.all())
      if (!calls_->has_met(tensor)) calls_->refuse();
    return calls_;
  }

 private:
  using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;
  using FreshMemory = detail::FreshMemory;

  struct TrackedMemory {
    WeakStorage storage;
    bool depends_on_inputs;
  };
  /// The operator that errors name.
  class Running {
   public:
    Running(Implementation& tracer, const Operator& op)
        : tracer_(tracer), outer_(std::exchange(tracer.running_, &op)) {}
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;
    ~Running() { tracer_.running_ = outer_; }

   private:
    Implementation& tracer_;
    const Operator* outer_;
  };
  /// A tensor that is no traced one, as a parameter or a constant is. Held, so that its address means it alone.
  struct Plain {
    Value value;
    at::Tensor tensor;
  };
  /// A tensor among the arguments: what runs, and what the code passed.
  struct Given {
    at::Tensor inner, passed;
  };
  struct Call {
    const Operator& op;
    bool detached;
    bool depends = false;
    std::int64_t decided = -1;
    bool gives_fresh = false, copies_filled = false;  // memory that no operator has written, filled by C++
    std::vector<Given> given = {};
    const ModuleStack* modules = nullptr;  // that own a parameter among the arguments
  };

  at::Tensor inner_of(const at::Tensor& tensor) const {
    const TracedTensor* t = detail::traced(tensor);
    return t && &t->state() == state_.get() ? t->inner() : tensor;
  }
  FreshMemory* fresh_memory(const at::Tensor& tensor) {
    return fresh_.empty() ? nullptr : fresh_.find(detail::storage_of(tensor));
  }
  /// Where the code is: the user's line, and the module whose parameters it used last.
  ErrorContext here(std::string node = {}) const {
    if (node.empty() && running_) node = running_->name;
    ErrorContext context{std::move(node), detail::user_place(Backtrace::capture(2)), traced_modules()};
    if (last_modules_)
      context.modules += ", last in " + last_modules_->innermost().name + " (" + last_modules_->innermost().type + ")";
    return context;
  }
  [[noreturn]] void refuse_alias() const {
    throw TraceError(ErrorId::untraced_alias,
                     "trace: a tensor has memory that it got without the dispatcher (.data(), set_data(), "
                     "variable_data(), another thread), so the graph would freeze its contents. Use detach(), or "
                     "operators, instead",
                     here());
  }
  void refuse_modes(const Operator* op = nullptr) const {
    std::string_view mode = detail::mode_without_word();
    if (mode.empty() && op && detail::AutogradWatch::met_transform()) mode = detail::in_transform;
    if (mode.empty()) return;
    std::string what = op ? "trace: '" + std::string(op->name) + "' is called" : "trace: tracing starts";
    throw TraceError(ErrorId::mode_refused, what.append(mode), here());
  }
  /// Inference mode stays without gradients, whatever guards there are in it.
  static bool records_gradients() { return at::GradMode::is_enabled() && !c10::InferenceMode::is_enabled(); }
  [[noreturn]] void refuse_gradients(const Operator& op) const {
    throw TraceError(ErrorId::gradients_switched,
                     "trace: the code switched gradients on, and calls '" + std::string(op.name) +
                         "', but gradients were off when the trace started; a graph cannot switch them on. Trace "
                         "without the guard around it: operators run without gradients then, too, and the GraphModule "
                         "may run under a guard",
                     here());
  }
  void refuse_transformed(const at::Tensor& tensor) const {
    if (!detail::belongs_to_transform(tensor)) return;
    throw TraceError(ErrorId::mode_refused,
                     "trace: a tensor belongs to a function transform (vmap, grad), which a graph has no word for. "
                     "Trace first, and transform the GraphModule",
                     here());
  }

  // --- running -------------------------------------------------------------------------------------------------------

  /// Without autograd, whatever the code asked for: gradients are the graph's business when it runs.
  void run(const c10::OperatorHandle& handle, torch::jit::Stack& stack, const Call& call) {
    const at::NoGradGuard no_grad;
    // What belongs to a trace around this one is recorded there.
    const bool outer = previous_ && std::any_of(call.given.begin(), call.given.end(),
                                                [](const Given& g) { return detail::traced(g.inner) != nullptr; });
    std::vector<BufferWatch::Buffer*> buffers;
    if (!buffers_.empty())
      for (const Given& given : call.given)
        if (call.op.mutates || !own(given.passed)) buffers_.find(detail::storage_of(given.inner), buffers);
    for (const BufferWatch::Buffer* buffer : buffers)
      if (buffer->was_written()) BufferWatch::refuse(*buffer, here());
    try {
      const detail::AutogradWatch::Pause unwatched(*autograd_);
      if (outer) previous_->record(handle, stack);
      else handle.callBoxed(stack);
    } catch (c10::Error& error) {
      if (outer) throw;
      const ErrorContext place = here();
      error.add_context("While tracing '" + std::string(call.op.name) + "'" +
                        (place.source.empty() ? "" : ", called by " + place.source) +
                        (place.modules.empty() ? "" : ", in " + place.modules));
      throw;
    }
    // Batch norm writes to its statistics without its schema saying so.
    buffers_.recorded(buffers);
  }

  at::Tensor alias_of(const at::Tensor& tensor) {
    const at::NoGradGuard no_grad;
    if (!detail::traced(tensor)) return at::_ops::alias::call(tensor);
    torch::jit::Stack stack{tensor};
    previous_->record(c10::Dispatcher::singleton().findSchemaOrThrow("aten::alias", ""), stack);
    return stack[0].toTensor();
  }

  at::Tensor wrap(const at::Tensor& tensor, Value value) {
    track(tensor, value);
    return at::detail::make_tensor<TracedTensor>(tensor, value, state_, fresh_memory(tensor) != nullptr);
  }
  /// Notes whose values the memory holds.
  void track(const at::Tensor& tensor, const Value& value) {
    const at::Tensor& inside = detail::bare(tensor);
    if (!inside.has_storage()) return;
    const c10::StorageImpl* storage = inside.storage().unsafeGetStorageImpl();
    if (attribute_storages_.contains(storage)) return;
    const auto known = storages_.find(storage);
    if (known == storages_.end())
      storages_.emplace(storage, TrackedMemory{inside.storage().getWeakStorageImpl(), value.depends_on_inputs});
    else known->second.depends_on_inputs = known->second.depends_on_inputs || value.depends_on_inputs;
  }

  /// What the code gets for a result: what it passed, where an operator in place returns that; else a new traced
  /// tensor.
  at::Tensor traced_result(at::Tensor tensor, const Value& value, const Call& call) {
    for (const Given& given : call.given) {
      if (!given.inner.is_same(tensor)) continue;
      if (!call.op.mutates) {
        // `contiguous()` of a contiguous tensor is the tensor itself. As a value of its own it keeps the two apart.
        tensor = alias_of(tensor);
        break;
      }
      // Written without gradients, its own history stays what it was.
      if (!call.detached) {
        Value now = value;
        now.decided = find(given.passed).decided;  // it is as large as it was
        rebind(given.passed, now);
      }
      track(tensor, value);
      return given.passed;
    }
    if (call.gives_fresh && tensor.numel() > 0) note_fresh(tensor, value.node, call.copies_filled);
    return wrap(tensor, value);
  }
  void note_result(const at::Tensor& result, const Call& call) {
    if (call.op.mutates)
      for (std::size_t i = 0; i < call.given.size(); ++i)
        if (call.given[i].passed.is_same(result)) return calls_->gives_back(i);
    const TracedTensor* t = own(result);
    calls_->gives(t ? t->inner() : result);
  }
  /// Memory that the trace knows already is not fresh, whatever operator returned it.
  void note_fresh(const at::Tensor& tensor, Node* node, bool copied) {
    const c10::StorageImpl* storage = detail::storage_of(tensor);
    if (!storage || storages_.contains(storage) || attribute_storages_.contains(storage)) return;
    fresh_.add(storage, node, detail::bare(tensor), copied);
  }
  void rebind(const at::Tensor& passed, const Value& value) {
    if (TracedTensor* t = own(passed)) t->value = value;
    else plain_.insert_or_assign(passed.unsafeGetTensorImpl(), Plain{value, passed});
  }
  TracedTensor* own(const at::Tensor& tensor) const {
    TracedTensor* t = detail::traced(tensor);
    return t && &t->state() == state_.get() ? t : nullptr;
  }

  /// Weak references keep the addresses of dead memory from being used again; once in a while they are let go.
  void forget_dead() {
    if (storages_.size() < next_sweep_) return;
    fresh_.forget_dead();
    std::erase_if(storages_, [](const auto& entry) { return entry.second.storage.use_count() == 0; });
    next_sweep_ = std::max<std::size_t>(1024, 2 * storages_.size());
  }

  // --- tensors as arguments ------------------------------------------------------------------------------------------

  Node* node_of(const Value& value) { return value.item < 0 ? value.node : tracer_.item(value.node, value.item); }
  Argument argument(const at::Tensor& tensor) {
    if (!tensor.defined()) return {};
    return node_of(read(tensor));
  }
  Value value_of(const Call& call, Node* node, int item) const {
    return {node, item, call.depends, call.detached, call.decided};
  }

  Value find(const at::Tensor& tensor, bool detaches = false) {
    if (const TracedTensor* t = own(tensor)) return t->value;
    if (const auto known = plain_.find(tensor.unsafeGetTensorImpl()); known != plain_.end()) return known->second.value;
    refuse_transformed(tensor);
    const auto found = [&](Value value) {
      plain_.insert_or_assign(tensor.unsafeGetTensorImpl(), Plain{value, tensor});
      if (calls_) calls_->meet(tensor, value.node);
      track(tensor, value);
      return value;
    };
    const std::string name = owner_.name_of(tensor);
    if (!name.empty()) {
      Value value{get_attr(name, tensor), -1, true, !tensor.requires_grad()};
      const std::size_t dot = name.rfind('.');
      if (dot != name.npos) value.modules = &modules_of(name.substr(0, dot));
      return found(value);
    }
    const c10::StorageImpl* storage = detail::storage_of(tensor);
    if (const auto parameter = attribute_storages_.find(storage); storage && parameter != attribute_storages_.end()) {
      // Parameter::data() and the like: the same memory under a new handle.
      const at::Tensor& original = parameter->second->tensor;
      if (original.sizes() == tensor.sizes() && original.strides() == tensor.strides() &&
          original.storage_offset() == tensor.storage_offset())
        return found({detach(get_attr(parameter->second->name, tensor)), -1, true, true});
    }
    // Memory that the inputs do not reach may be a constant: torch::tensor({1, 2}) fills an empty tensor behind the
    // dispatcher.
    if (const auto memory = storages_.find(storage);
        storage && memory != storages_.end() && memory->second.depends_on_inputs)
      refuse_alias();
    if (tensor.requires_grad() && !tensor.is_leaf() && !detaches)
      throw TraceError(
          ErrorId::constant_is_intermediate,
          "trace: a tensor is used that was computed from parameters before the trace, or on another thread, "
          "so the graph would keep its present values and pass no gradients on. Compute it in forward, on "
          "the thread that traces, or pass it as an input",
          here());
    return found({get_attr(constants_.add(tensor, false), tensor), -1, false});
  }

  /// Does the operator give the argument all of its values, whatever they were?
  static bool overwrites(const Operator& op, const Parameter& parameter) {
    static const std::unordered_set<std::string_view> names = {
        "fill_",      "zero_",   "copy_",        "set_",       "resize_", "uniform_",   "normal_",
        "bernoulli_", "random_", "exponential_", "geometric_", "cauchy_", "log_normal_"};
    return parameter.name == "out" || names.contains(op.base_name());
  }
  /// Memory that C++ filled becomes a constant with the values that it has now, for the views of it as well. False when
  /// it is one already, with others.
  bool freeze(FreshMemory& fresh, const at::Tensor& tensor) {
    if (fresh.is_frozen()) return fresh.is_as_frozen();
    const std::string name = constants_.add(fresh.tensor, true);
    fresh.freeze();
    TracedTensor* traced = own(tensor);
    if (traced && traced->value.node == fresh.node && fresh.node->num_users() == 0) {
      traced->value = {fresh.node = get_attr(name, fresh.tensor), -1, false};
    } else {
      fresh.node->set_op(GetAttr{name});
      fresh.node->set_args_kwargs({}, {});
    }
    return true;
  }
  /// The value of a tensor whose elements an operator reads.
  Value read(const at::Tensor& tensor, bool detaches = false) {
    FreshMemory* fresh = fresh_memory(tensor);
    // C++ may fill the same memory again and again, and does so under handles that the trace has not seen.
    if (fresh && (fresh->is_frozen() || fresh->filled()) && !(own(tensor) && freeze(*fresh, tensor)))
      return {get_attr(constants_.add(tensor, true), tensor), -1, false};
    return find(tensor, detaches);
  }
  /// Operators write to the memory from now on: C++ may not.
  void written(const at::Tensor& tensor, bool overwritten) {
    if (FreshMemory* fresh = fresh_memory(tensor)) {
      const bool whole = overwritten && detail::bare(tensor).numel() == fresh->tensor.numel();
      if (!whole && fresh->filled() && !freeze(*fresh, tensor))
        throw TraceError(ErrorId::traced_data_access,
                         "trace: an operator writes to memory that C++ code (data_ptr, accessor) filled a second time "
                         "after operators had read it; the graph has no word for that. Make a tensor for each filling",
                         here());
      fresh_.erase(detail::storage_of(tensor));
      state_->close(detail::bare(tensor).storage());
    }
    constants_.keep_those_in(detail::storage_of(tensor));
  }

  /// A module within those around it, by its name.
  const ModuleStack& modules_of(const std::string& name) {
    const auto known = module_stacks_.find(name);
    if (known != module_stacks_.end()) return known->second;
    const std::size_t dot = name.rfind('.');
    const ModuleStack outer = dot == name.npos ? ModuleStack() : modules_of(name.substr(0, dot));
    const std::shared_ptr<torch::nn::Module> module = owner_.module(name);
    return module_stacks_.emplace(name, ModuleStack(outer, {name, module ? module_type_name(*module) : ""}))
        .first->second;
  }

  Node* get_attr(const std::string& name, const at::Tensor& tensor) {
    Node* node = tracer_.create_node(GetAttr{name}, {});
    node->set_tensor_meta(tensor_meta_of(detail::bare(tensor)));
    return node;
  }
  /// Under a NoGradGuard of the code's, operators work on detached values: the graph's way to say the same.
  Node* detach(Node* node) {
    Node*& known = detached_[node];
    if (!known) {
      known = tracer_.create_node(CallFunction{&table_operator(OperatorIndex::detach)}, {node});
      if (node->tensor_meta()) known->set_tensor_meta(*node->tensor_meta());
    }
    return known;
  }

  Argument argument(const c10::IValue& value, const Parameter& parameter, Call& call) {
    const auto tensor = [&](const at::Tensor& t) -> Argument {
      if (!t.defined()) return {};
      if (parameter.written) written(t, overwrites(call.op, parameter));
      // C++ may read it behind the dispatcher, which a replay does not write for.
      if (calls_ && parameter.written && !own(t) && !owner_.name_of(t).ends_with(detail::batch_count)) calls_->refuse();
      const bool detaches = call.op.base_name() == "detach";
      const Value v = call.op.aliases || parameter.written ? find(t, detaches) : read(t, detaches);
      // A view of a parameter or buffer that was made before the trace: the graph has no name for it.
      if (parameter.written && !v.depends_on_inputs && !own(t) && attribute_storages_.contains(detail::storage_of(t)))
        refuse_alias();
      call.given.push_back({inner_of(t), t});
      call.depends = call.depends || v.depends_on_inputs;
      if (v.decided >= 0) call.decided = v.decided;
      if (v.modules) call.modules = last_modules_ = v.modules;
      Node* node = node_of(v);
      return call.detached && v.depends_on_inputs && !v.without_gradient ? detach(node) : node;
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
                         "trace: '" + std::string(call.op.name) +
                             "' draws random numbers from a generator of its own, which a graph has no name for; "
                             "seed the default generator",
                         here());
      return {};
    }
    return to_argument(value, parameter.type);
  }

  static bool is_default(const c10::IValue& value, const c10::OperatorHandle& handle, std::size_t i) {
    const auto& standard = handle.schema().arguments()[i].default_value();
    return standard && !value.isTensor() && !standard->isTensor() && !value.isList() &&
           value.tagKind() == standard->tagKind() && value == *standard;
  }

  // --- questions -----------------------------------------------------------------------------------------------------

  /// Operators that give C++ a number or a boolean. Known answers are given, questions about traced values refused.
  bool answers_data_question(const c10::OperatorHandle& handle, const Operator& op, torch::jit::Stack& stack,
                             std::size_t count) {
    static const std::unordered_set<std::string_view> questions = {"aten::item", "aten::_local_scalar_dense",
                                                                   "aten::is_nonzero", "aten::equal", "aten::allclose"};
    if (!questions.contains(op.name)) return false;
    c10::IValue* const args = stack.data() + (stack.size() - count);
    if (op.name == "aten::equal") {
      const at::Tensor a = args[0].toTensor(), b = args[1].toTensor();
      const bool known = a.is_same(b) || inner_of(a).sizes() != inner_of(b).sizes() ||
                         a.scalar_type() != b.scalar_type() || asked_by_attention();
      if (known) {
        if (calls_ && !a.is_same(b)) calls_->asked_by_attention();
        torch::jit::drop(stack, count);
        stack.emplace_back(a.is_same(b));
        return true;
      }
    }
    if (calls_) calls_->refuse();
    bool outer = false;
    for (std::size_t i = 0; i < count; ++i) {
      if (!args[i].isTensor() || !args[i].toTensor().defined()) continue;
      const at::Tensor tensor = args[i].toTensor();
      const bool known = own(tensor) || plain_.contains(tensor.unsafeGetTensorImpl());
      // Constants that the code made itself may be asked for; inputs, parameters and what follows from them may not.
      if (known || !owner_.name_of(tensor).empty()) {
        const Value value = find(tensor);
        // Another view of the memory may have been written to.
        const auto memory = storages_.find(detail::storage_of(tensor));
        if (value.depends_on_inputs || (memory != storages_.end() && memory->second.depends_on_inputs))
          throw TraceError(
              ErrorId::data_dependent,
              "trace: '" + std::string(op.name) +
                  "' asks for the value of a traced tensor, so the code that follows would depend on the data; "
                  "decide before tracing, or compute both sides and select with torch::where",
              here(format_node(*value.node)));
      }
      detail::replace_traced(args[i], [&](const at::Tensor& t) { return inner_of(t); });
      outer = outer || detail::traced(args[i].toTensor());
    }
    if (outer && previous_) previous_->record(handle, stack);
    else handle.callBoxed(stack);
    return true;
  }

  /// LibTorch's attention asks whether query, key and value are equal, to project them in one go; apart, it computes
  /// the same. Symbols are looked up once for every place that asks.
  static bool asked_by_attention() {
    const Backtrace where = Backtrace::capture(2);
    std::size_t callers = 0;
    for (void* const address : where.addresses()) callers = callers * 31 + reinterpret_cast<std::uintptr_t>(address);
    static std::mutex mutex;
    static std::unordered_map<std::size_t, bool> known;
    const std::lock_guard lock(mutex);
    const auto [at, fresh] = known.emplace(callers, false);
    if (fresh)
      for (const Frame& frame : symbolise(where, SourceLines::none))
        at->second = at->second || frame.function.find("multi_head_attention_forward") != std::string::npos ||
                     frame.function.find("torch::nn::MultiheadAttentionImpl::forward") != std::string::npos;
    return at->second;
  }

  /// `return topk(...)`: all results of one node are the node, as in torch.fx.
  Argument collapse(const c10::IValue& value, Argument tuple) const {
    const auto& elements = value.toTupleRef().elements();
    if (elements.size() < 2) return tuple;
    Node* producer = nullptr;
    for (std::size_t i = 0; i < elements.size(); ++i) {
      const TracedTensor* t = elements[i].isTensor() ? own(elements[i].toTensor()) : nullptr;
      if (!t || t->value.item != static_cast<int>(i) || (producer && t->value.node != producer)) return tuple;
      producer = t->value.node;
    }
    if (!producer->operation() || producer->operation()->returns.size() != elements.size()) return tuple;
    // The getitem nodes made for the tuple have no use then.
    for (const Argument& item : tuple.items())
      if (item.node()->num_users() == 0) producer->graph().erase_node(item.node());
    return producer;
  }

  const ModuleOwner& owner_;
  RecordOptions options_;
  Tracer tracer_;
  std::shared_ptr<detail::SharedTrace> state_;
  BufferWatch buffers_;
  detail::MetConstants constants_;
  bool gradients_;  // does the code run with gradients, but for guards of its own?
  OperatorCalls* previous_ = nullptr;
  std::optional<c10::impl::IncludeDispatchKeyGuard> include_;
  bool stopped_ = false;
  std::unordered_map<const c10::TensorImpl*, Plain> plain_;
  std::unordered_map<const c10::StorageImpl*, TrackedMemory> storages_;
  std::unordered_map<const c10::StorageImpl*, const ModuleOwner::Tensor*> attribute_storages_;
  detail::FreshMemories fresh_;
  std::optional<detail::AutogradWatch> autograd_;
  detail::ElementSizes element_sizes_;
  std::unordered_map<const Node*, Node*> detached_;
  std::vector<std::pair<Node*, Backtrace>> places_;
  std::unordered_map<std::string, ModuleStack> module_stacks_;
  const ModuleStack* last_modules_ = nullptr;
  const Operator* running_ = nullptr;
  std::shared_ptr<detail::RecordedCalls> calls_;
  std::size_t next_sweep_ = 1024;
};

FXX_INLINE void detail::trace_fallback(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  // Below this, operators run as if nobody watched.
  const c10::impl::ExcludeDispatchKeyGuard unwatched(trace_key);
  if (OperatorCalls* calls = current_calls()) return calls->record(op, *stack);
  // A traced tensor on another thread: the operator runs, and the trace learns of it.
  const std::size_t count = op.schema().arguments().size();
  for (std::size_t i = stack->size() - count; i < stack->size(); ++i)
    replace_traced((*stack)[i], [&](const at::Tensor& tensor) {
      const at::Tensor* inner = &tensor;
      while (const TracedTensor* t = traced(*inner)) {
        t->state().note_foreign(op.operator_name().name, Backtrace::capture(2));
        inner = &t->inner();
      }
      return *inner;
    });
  op.callBoxed(stack);
}

FXX_INLINE DispatchTracer::DispatchTracer(Graph& graph, const ModuleOwner& owner, RecordOptions options)
    : implementation_((detail::register_trace_fallback(), std::make_unique<Implementation>(graph, owner, options))) {}
FXX_INLINE DispatchTracer::~DispatchTracer() = default;
FXX_INLINE at::Tensor DispatchTracer::input(const at::Tensor& tensor, const std::string& name) {
  return implementation_->input(tensor, name);
}
FXX_INLINE void DispatchTracer::stop() {
  implementation_->stop();
  implementation_->refuse_foreign();
  implementation_->refuse_written_buffers();
}
FXX_INLINE Argument DispatchTracer::argument_for(const c10::IValue& value) {
  return implementation_->argument_for(value);
}
FXX_INLINE const std::vector<std::pair<std::string, at::Tensor>>& DispatchTracer::constants() const {
  return implementation_->constants();
}
FXX_INLINE const std::vector<detail::TracedRead>& DispatchTracer::reads() const { return implementation_->reads(); }
FXX_INLINE const std::vector<std::pair<Node*, Backtrace>>& DispatchTracer::places() const {
  return implementation_->places();
}
FXX_INLINE std::shared_ptr<const detail::RecordedCalls> DispatchTracer::calls() const {
  return implementation_->calls();
}
FXX_INLINE std::vector<const Node*> DispatchTracer::held() const { return implementation_->held(); }

FXX_INLINE void write_stack_traces(std::span<const std::pair<Node*, Backtrace>> places) {
  if (places.empty()) return;
  std::vector<const Backtrace*> backtraces;
  for (const auto& [node, where] : places) backtraces.push_back(&where);
  const std::vector<std::vector<Frame>> frames = user_frames(backtraces);
  for (std::size_t i = 0; i < places.size(); ++i)
    if (Node* node = places[i].first; !node->is_erased()) node->meta().stack_trace = user_stack(frames[i]);
}

}  // namespace fxx::inline FXX_ABI
