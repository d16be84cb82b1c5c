// Bodies of torch/dispatch/replay.hpp.
#pragma once

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fxx/error.hpp"
#include "fxx/ops/registry.hpp"
#include "fxx/torch/dispatch/autograd_watch.hpp"
#include "fxx/torch/dispatch/recorded_calls.hpp"
#include "fxx/torch/dispatch/refused_modes.hpp"
#include "fxx/torch/dispatch/replay.hpp"
#include "fxx/torch/dispatch/script_watch.hpp"
#include "fxx/torch/dispatch/traced_tensor.hpp"
#include "fxx/torch/dispatch/training_flags.hpp"
#include "fxx/torch/execute.hpp"
#include "fxx/torch/values.hpp"

namespace fxx::inline FXX_ABI::detail {

class Replay final : public OperatorCalls {
 public:
  /// The code did something else. No exception that code catches as a rule.
  struct Departed {};

  Replay(const Recording& run, const ModuleOwner& owner, std::vector<std::string>& kept_flags)
      : run_(run),
        calls_(*run.calls),
        owner_(owner),
        kept_flags_(kept_flags),
        state_(std::make_shared<SharedTrace>(run.graph, false)),
        gradients_(records_gradients()),
        previous_(std::exchange(current_calls(), this)) {
    autograd_.emplace();
    include_.emplace(trace_key);
  }
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;
  ~Replay() {
    current_calls() = previous_;
    include_.reset();
    autograd_.reset();
    state_->release();
  }

  std::vector<at::Tensor> inputs() {
    std::vector<at::Tensor> inputs;
    for (const auto& [node, like] : calls_.inputs()) inputs.push_back(traced_like(like, {node, -1, true}));
    return inputs;
  }
  bool departed() const { return departed_ || state_->foreign(); }
  /// Has the code come to the same end?
  bool ends_with(const c10::IValue& result) {
    while (next_ < calls_.calls().size() && counts_batches(*calls_.calls()[next_].node)) ++next_;
    const Node* output = run_.graph.output_node();
    return !departed() && !AutogradWatch::met_transform() && next_ == calls_.calls().size() && output &&
           is_result(result, output->arg(0));
  }

  void meets_trace() override { depart(); }
  void record(const c10::OperatorHandle& handle, torch::jit::Stack& stack) override {
    if (state_->foreign() || !mode_without_word().empty()) depart();
    const Operator& op = fxx::operator_of(handle);
    const std::size_t count = handle.schema().arguments().size();
    c10::IValue* const values = stack.data() + (stack.size() - count);
    if (op.name == "aten::equal") {
      const bool answer = equal(values[0].toTensor(), values[1].toTensor());
      torch::jit::drop(stack, count);
      stack.emplace_back(answer);
      return;
    }
    const std::vector<RecordedCalls::Call>& calls = calls_.calls();
    for (;; ++next_) {
      if (next_ < calls.size() && is_call(calls[next_], op, handle, values)) break;
      if (next_ < calls.size() && counts_batches(*calls[next_].node)) continue;
      if (!is_batch_count(op, values)) depart();
      // What is made of the count has no node.
      const at::Tensor counter = values[0].toTensor();
      plain_.insert_or_assign(counter.unsafeGetTensorImpl(), TracedValue{});
      torch::jit::drop(stack, count);
      stack.emplace_back(counter);
      return;
    }
    const RecordedCalls::Call& call = calls[next_++];
    if (const int flag = flag_parameter(op); flag >= 0 && values[flag].isBool())
      if (argument_or_default(*call.node, op, flag) == Argument(values[flag].toBool()))
        kept_flags_.emplace_back(call.node->name());
    const auto results = calls_.results_of(call);
    results_.clear();
    int item = call.list || results.size() > 1 ? 0 : -1;
    for (const RecordedCalls::Result& result : results) {
      const TracedValue value{call.node, item < 0 ? -1 : item++, true};
      if (result.given >= 0) {
        const at::Tensor& passed = *given_[static_cast<std::size_t>(result.given)];
        if (call.detached) {
          // Its history stays what it was.
        } else if (TracedTensor* t = own(passed)) {
          t->value = value;
        } else {
          plain_.insert_or_assign(passed.unsafeGetTensorImpl(), value);
        }
        results_.push_back(passed);
      } else {
        results_.push_back(result.like == RecordedCalls::undefined ? at::Tensor() : traced_like(result.like, value));
      }
    }
    torch::jit::drop(stack, count);
    if (call.list) {
      stack.emplace_back(c10::List<at::Tensor>(results_));
    } else {
      for (at::Tensor& result : results_) stack.emplace_back(std::move(result));
    }
    results_.clear();
  }

 private:
  [[noreturn]] void depart() {
    departed_ = true;
    current_calls() = previous_;  // what destructors call just runs
    throw Departed();
  }
  static bool records_gradients() { return at::GradMode::is_enabled() && !c10::InferenceMode::is_enabled(); }
  TracedTensor* own(const at::Tensor& tensor) const {
    TracedTensor* t = traced(tensor);
    return t && &t->state() == state_.get() ? t : nullptr;
  }
  at::Tensor traced_like(std::uint32_t like, const TracedValue& value) {
    return at::detail::make_tensor<TracedTensor>(calls_.tensor(like), value, state_, false);
  }

  // --- the same values -----------------------------------------------------------------------------------------------

  /// Its node is null when the run had no such value.
  TracedValue value_of(const at::Tensor& tensor) const {
    if (const TracedTensor* t = own(tensor)) return t->value;
    if (const auto known = plain_.find(tensor.unsafeGetTensorImpl()); known != plain_.end()) return known->second;
    return {calls_.met(tensor)};
  }
  bool is_value(const at::Tensor& tensor, const Argument& argument) const {
    if (!tensor.defined()) return argument.is_none();
    if (!argument.is_node()) return false;
    const TracedValue value = value_of(tensor);
    const Node& node = *argument.node();
    if (value.item < 0) return value.node == &node;
    return node.operation() == &table_operator(OperatorIndex::operator_getitem) && node.arg(0).is_node() &&
           node.arg(0).node() == value.node && node.arg(1) == Argument(value.item);
  }
  bool is_given(const at::Tensor& tensor, const Argument& argument) {
    if (tensor.defined()) given_.push_back(&tensor);
    return is_value(tensor, argument);
  }
  static bool is_immediate(const c10::IValue& value, const Argument& argument, Type type) {
    switch (argument.kind()) {
      case Argument::Kind::none:
        if (value.isNone()) return true;
        break;
      case Argument::Kind::boolean:
        if (value.isBool()) return value.toBool() == argument.boolean();
        break;
      case Argument::Kind::integer:
        if (value.isInt()) return value.toInt() == argument.integer();
        break;
      default: break;
    }
    return to_argument(value, type) == argument;
  }
  bool is_argument(const c10::IValue& value, const Argument& argument, Type type) {
    if (value.isTensor()) return is_given(value.toTensor(), argument);
    if (value.isList()) {
      const c10::ArrayRef<c10::IValue> items = value.toListRef();
      if (!argument.is_sequence() || argument.items().size() != items.size()) return false;
      for (std::size_t i = 0; i < items.size(); ++i) {
        const Argument& item = argument.items()[i];
        if (!(items[i].isTensor() ? is_given(items[i].toTensor(), item)
                                  : is_immediate(items[i], item, Type{.base = type.base})))
          return false;
      }
      return true;
    }
    if (value.isGenerator()) {
      const at::Generator& generator = value.toGenerator();
      return !generator.defined() || generator == at::globalContext().defaultGenerator(generator.device());
    }
    return is_immediate(value, argument, type);
  }
  /// Is it what the recorded call left out?
  static bool is_standard(const c10::IValue& value, const Parameter& parameter, const c10::OperatorHandle& handle,
                          std::size_t i) {
    if (value.isTensor()) return !value.toTensor().defined();
    if (value.isGenerator()) return false;
    if (parameter.has_default() && same_value(to_argument(value, parameter.type), parameter.standard, parameter.type))
      return true;
    const auto& standard = handle.schema().arguments()[i].default_value();
    return standard && !standard->isTensor() && !value.isList() && value.tagKind() == standard->tagKind() &&
           value == *standard;
  }
  /// Is it that call, but for a training flag? Fills given_.
  bool is_call(const RecordedCalls::Call& call, const Operator& op, const c10::OperatorHandle& handle,
               const c10::IValue* values) {
    given_.clear();
    const Node& node = *call.node;
    // Under a NoGradGuard of the code's in both, or in neither.
    if (node.operation() != &op || call.detached != (gradients_ && !records_gradients())) return false;
    const auto args = node.args();
    const auto kwargs = node.kwargs();
    std::size_t keyword = 0;
    for (std::size_t i = 0; i < op.parameters.size(); ++i) {
      const Parameter& parameter = op.parameters[i];
      const Argument* recorded = nullptr;
      if (!parameter.keyword_only) {
        if (i < args.size()) recorded = &args[i];
      } else if (keyword < kwargs.size() && kwargs[keyword].key == parameter.name) {
        recorded = &kwargs[keyword++].value;
      }
      if (recorded ? is_argument(values[i], *recorded, parameter.type) : is_standard(values[i], parameter, handle, i))
        continue;
      if (!values[i].isBool() || flag_parameter(op) != static_cast<int>(i)) return false;
    }
    return keyword == kwargs.size();
  }
  bool is_result(const c10::IValue& value, const Argument& argument) const {
    if (value.isTensor()) return is_value(value.toTensor(), argument);
    if (value.isTuple()) {
      const auto& items = value.toTupleRef().elements();
      if (argument.is_node()) {
        // All results of one call are its node.
        const Operator* op = argument.node()->operation();
        if (!op || op->returns.size() != items.size()) return false;
        for (std::size_t i = 0; i < items.size(); ++i) {
          const TracedTensor* t = items[i].isTensor() ? own(items[i].toTensor()) : nullptr;
          if (!t || t->value.node != argument.node() || t->value.item != static_cast<int>(i)) return false;
        }
        return true;
      }
      return argument.kind() == Argument::Kind::tuple && are_results(items, argument.items());
    }
    if (value.isGenericDict()) {
      if (argument.kind() != Argument::Kind::dict) return false;
      const auto dict = value.toGenericDict();
      const auto entries = argument.entries();
      std::size_t i = 0;
      for (const auto& entry : dict) {
        if (i == entries.size() || !(to_argument(entry.key(), Type{}) == entries[i].key) ||
            !is_result(entry.value(), entries[i].value))
          return false;
        ++i;
      }
      return i == entries.size();
    }
    if (value.isList())
      return argument.kind() == Argument::Kind::list && are_results(value.toListRef(), argument.items());
    if (value.isCapsule() || value.isObject() || value.isPyObject()) return false;
    return to_argument(value, Type{}) == argument;
  }
  template <class Values>
  bool are_results(const Values& values, std::span<const Argument> arguments) const {
    return std::equal(values.begin(), values.end(), arguments.begin(), arguments.end(),
                      [&](const c10::IValue& v, const Argument& a) { return is_result(v, a); });
  }

  // --- what counts for nothing ---------------------------------------------------------------------------------------

  /// LibTorch's attention asks it of tensors whose elements are not known.
  bool equal(const at::Tensor& a, const at::Tensor& b) {
    if (a.is_same(b)) return true;
    if (a.sizes() != b.sizes() || a.scalar_type() != b.scalar_type()) return false;
    if (!calls_.was_asked_by_attention() || !own(a) || !own(b)) depart();
    return false;
  }
  /// Batch norm counts its batches while it trains: an operator of no consequence for the graph, which has the module.
  bool is_batch_count(const Operator& op, const c10::IValue* values) const {
    return op.base_name() == "add_" && values[0].isTensor() && values[0].toTensor().defined() &&
           !own(values[0].toTensor()) && owner_.name_of(values[0].toTensor()).ends_with(batch_count);
  }

  const Recording& run_;
  const RecordedCalls& calls_;
  const ModuleOwner& owner_;
  std::vector<std::string>& kept_flags_;
  std::shared_ptr<SharedTrace> state_;
  bool gradients_;
  OperatorCalls* previous_;
  std::optional<AutogradWatch> autograd_;
  std::optional<c10::impl::IncludeDispatchKeyGuard> include_;
  bool departed_ = false;
  std::size_t next_ = 0;
  std::vector<const at::Tensor*> given_;  // the tensors among the arguments, in order
  std::vector<at::Tensor> results_;
  std::unordered_map<const c10::TensorImpl*, TracedValue> plain_;  // that were written to since they were met
};

FXX_INLINE bool does_the_same(const TracedCode& code, const Recording& run, std::vector<std::string>& kept) {
  if (!run.calls || !run.calls->usable()) return false;
  const ScriptWatch scripts;  // its attributes would hold tensors of the replay
  Replay replay(run, code.owner, kept);
  try {
    std::vector<at::Tensor> inputs = replay.inputs();
    const c10::IValue result = code.run(inputs);
    return replay.ends_with(result);
  } catch (const Replay::Departed&) {
    return false;
  } catch (const TraceError&) {
    return false;  // elements are there in a run in earnest
  } catch (const std::exception&) {
    return !replay.departed();
  }
}

}  // namespace fxx::inline FXX_ABI::detail
