// The step from an operator call to a node: what a trace knows while it runs, and how it refuses.
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
#include "fxx/torch/dispatch/element_reads.hpp"
#include "fxx/torch/dispatch/element_sizes.hpp"
#include "fxx/torch/dispatch/fresh_memory.hpp"
#include "fxx/torch/dispatch/met_constants.hpp"
#include "fxx/torch/dispatch/recorded_calls.hpp"
#include "fxx/torch/dispatch/refused_modes.hpp"
#include "fxx/torch/dispatch/script_watch.hpp"
#include "fxx/torch/dispatch/training_flags.hpp"
#include "fxx/torch/execute.hpp"
#include "fxx/torch/shape_rules.hpp"
#include "fxx/torch/values.hpp"
#include "fxx/trace/proxy.hpp"
#include "fxx/trace/scope.hpp"

namespace fxx::inline FXX_ABI {

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
    return wrap(alias_of(inner_of(tensor)), {proxy.node(), -1, true});
  }

  Argument argument_for(const c10::IValue& value);

  void meets_trace() override {
    if (calls_) calls_->refuse();
  }
  void record(const c10::OperatorHandle& handle, torch::jit::Stack& stack) override;

  const std::vector<std::pair<std::string, at::Tensor>>& constants() const { return constants_.all(); }
  const std::vector<std::string>& copied_constants() const { return constants_.copied(); }
  std::vector<detail::MetConstants::Written>& written_constants() { return constants_.written(); }
  const std::vector<std::pair<std::string, std::shared_ptr<detail::HeldObject>>>& objects() const {
    return constants_.objects();
  }
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
    const Node* input = nullptr;  // whose memory it is
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
    bool written;
  };
  struct Call {
    const Operator& op;
    std::span<const c10::IValue> values;
    bool detached;
    std::size_t at = 0;           // the argument that is looked at
    std::uint32_t depending = 0;  // results, as bits, that elements of inputs decide
    std::uint32_t elements = 0;   // arguments, as bits, whose elements inputs decide
    std::uint64_t items = 0;      // of a list that is the result, where each reads the tensors of its own place alone
    int item = -1;                // of the list of tensors that is looked at
    std::int64_t decided = -1;
    bool as_before = false;  // the second result has the sizes of the argument, whatever size was decided
    std::int64_t decided_before = -1;  // by what made the arguments
    bool gives_fresh = false, copies_filled = false;  // memory that no operator has written, filled by C++
    std::vector<Given> given = {};
    const ModuleStack* modules = nullptr;  // that own a parameter among the arguments
    bool depends() const { return depending != 0 || items != 0; }
    bool depends(int item) const {
      if (items != 0 && item >= 0) return depending != 0 || (item < 64 && (items >> item & 1) != 0);
      return op.returns.size() > 1 && item >= 0 && item < 32 ? (depending >> item & 1) != 0 : depends();
    }
  };

  /// What a trace before this one left may stand for its tensor still.
  at::Tensor inner_of(const at::Tensor& tensor) const {
    const TracedTensor* t = detail::traced(tensor);
    return t && (&t->state() == state_.get() || !t->state().live()) ? t->inner() : tensor;
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
  /// `node`: what is asked for; null when the graph has no name for it.
  [[noreturn]] void refuse_question(const Operator& op, const Node* node) const {
    if (node && follows_from_packing(*node))
      throw TraceError(ErrorId::data_dependent,
                       "trace: the lengths of a packed sequence (pack_padded_sequence) follow from the inputs, and '" +
                           std::string(op.name) +
                           "' asks for their values: how many steps a recurrent layer takes would depend on the data. "
                           "Give the lengths as numbers of C++ (torch::tensor({5, 3})), or run the layer over the "
                           "padded sequence and mask what lies beyond the lengths",
                       here(format_node(*node)));
    throw TraceError(
        ErrorId::data_dependent,
        "trace: '" + std::string(op.name) +
            "' asks for the value of a traced tensor, so the code that follows would depend on the data; "
            "decide before tracing, or compute both sides and select with torch::where",
        here(node ? format_node(*node) : std::string()));
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
  void run(const c10::OperatorHandle& handle, torch::jit::Stack& stack, const Call& call);

  at::Tensor alias_of(const at::Tensor& tensor);

  at::Tensor wrap(const at::Tensor& tensor, Value value) {
    track(tensor, value);
    return at::detail::make_tensor<TracedTensor>(tensor, value, state_, fresh_memory(tensor) != nullptr);
  }
  /// Notes whose values the memory holds when the trace first meets it.
  void track(const at::Tensor& tensor, const Value& value);
  /// The memory that an operator wrote to holds what it was given.
  void note_written(const Call& call);
  /// Was what follows from inputs written to the memory, through whichever view?
  bool holds_inputs(const at::Tensor& tensor) const {
    const c10::StorageImpl* storage = detail::storage_of(tensor);
    const auto memory = storages_.find(storage);
    return (memory != storages_.end() && memory->second.depends_on_inputs) || written_attributes_.contains(storage);
  }

  /// What the code gets for a result: what it passed, where an operator in place returns that; else a new traced
  /// tensor.
  at::Tensor traced_result(at::Tensor tensor, const Value& value, const Call& call);
  void note_result(const at::Tensor& result, const Call& call);
  /// Memory that the trace knows already is not fresh, whatever operator returned it.
  void note_fresh(const at::Tensor& tensor, Node* node, bool copied);
  void rebind(const at::Tensor& passed, const Value& value) {
    if (TracedTensor* t = own(passed)) t->value = value;
    else plain_.insert_or_assign(passed.unsafeGetTensorImpl(), Plain{value, passed});
  }
  TracedTensor* own(const at::Tensor& tensor) const {
    TracedTensor* t = detail::traced(tensor);
    return t && &t->state() == state_.get() ? t : nullptr;
  }

  /// Weak references keep the addresses of dead memory from being used again; once in a while they are let go.
  void forget_dead();

  // --- tensors as arguments ------------------------------------------------------------------------------------------

  Node* node_of(const Value& value) { return value.item < 0 ? value.node : tracer_.item(value.node, value.item); }
  Argument argument(const at::Tensor& tensor);
  Value value_of(const Call& call, Node* node, int item) const {
    return {node, item, call.depends(item), call.detached,
            call.as_before && item == 1 ? call.decided_before : call.decided};
  }

  Value find(const at::Tensor& tensor, bool detaches = false);

  /// Does the operator give the argument all of its values, whatever they were?
  static bool overwrites(const Call& call, const Parameter& parameter, const at::Tensor& tensor);
  /// Memory that C++ filled becomes a constant with the values that it has now, for the views of it as well. False when
  /// it is one already, with others.
  bool freeze(FreshMemory& fresh, const at::Tensor& tensor);
  /// The value of a tensor whose elements an operator reads.
  Value read(const at::Tensor& tensor, bool detaches = false);
  /// Operators write to the memory from now on: C++ may not.
  void written(const at::Tensor& tensor, const Parameter& parameter, const Call& call);

  /// A module within those around it, by its name.
  const ModuleStack& modules_of(const std::string& name);

  Node* get_attr(const std::string& name, const at::Tensor& tensor);
  /// Under a NoGradGuard of the code's, operators work on detached values: the graph's way to say the same.
  Node* detach(Node* node);

  Argument argument(const c10::IValue& value, const Parameter& parameter, Call& call);

  /// Whether no traced tensor and none of the module's is among the arguments.
  bool takes_constants_alone(const torch::jit::Stack& stack, std::size_t count) const;

  static bool is_default(const c10::IValue& value, const c10::OperatorHandle& handle, std::size_t i);

  // --- questions -----------------------------------------------------------------------------------------------------

  /// The node of an object that an operator takes or the code returns; null for one that no operator has met.
  Node* find_object(const c10::IValue& object) const;
  static bool is_object(const c10::IValue& value) { return value.isObject() || value.isCapsule(); }

  /// Operators that give C++ a number or a boolean. Known answers are given, questions about traced values refused.
  bool answers_data_question(const c10::OperatorHandle& handle, const Operator& op, torch::jit::Stack& stack,
                             std::size_t count);
  /// Does it give C++ numbers that elements decide? Few of ATen's do; others' operators may do anything.
  static bool counts_elements(const Operator& op);
  /// Whether the value is one of the sizes of steps that packing a padded sequence gives, or a part of it.
  static bool follows_from_packing(const Node& node);

  /// LibTorch's attention asks whether query, key and value are equal, to project them in one go; apart, it computes
  /// the same. Symbols are looked up once for every place that asks.
  static bool asked_by_attention();

  /// `return topk(...)`: all results of one node are the node, as in torch.fx.
  Argument collapse(const c10::IValue& value, Argument tuple) const;

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
  std::vector<std::pair<c10::IValue, Node*>> objects_;  // that operators took or gave, and what stands for them
  std::unordered_map<const c10::StorageImpl*, TrackedMemory> storages_;
  std::unordered_map<const c10::StorageImpl*, const ModuleOwner::Tensor*> attribute_storages_;
  std::unordered_set<const c10::StorageImpl*> written_attributes_;
  detail::FreshMemories fresh_;
  std::optional<detail::AutogradWatch> autograd_;
  detail::ElementReads element_reads_;
  detail::ElementSizes element_sizes_;
  std::unordered_map<const Node*, Node*> detached_;
  std::vector<std::pair<Node*, Backtrace>> places_;
  std::unordered_map<std::string, ModuleStack> module_stacks_;
  const ModuleStack* last_modules_ = nullptr;
  const Operator* running_ = nullptr;
  std::shared_ptr<detail::RecordedCalls> calls_;
  std::size_t next_sweep_ = 1024;
};

}  // namespace fxx::inline FXX_ABI
