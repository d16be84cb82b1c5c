// Bodies of torch/dispatch/recording.hpp.
#pragma once

#include <ATen/Context.h>
#include <c10/core/InferenceMode.h>

// after the tensor's own header
#include <ATen/ops/clone_ops.h>
#include <ATen/ops/copy_ops.h>
#include <ATen/ops/empty_ops.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <optional>
#include <unordered_set>

#include "fxx/error.hpp"
#include "fxx/ops/effects.hpp"
#include "fxx/torch/dispatch/met_constants.hpp"
#include "fxx/torch/dispatch/recorded_calls.hpp"
#include "fxx/torch/dispatch/recording.hpp"
#include "fxx/torch/dispatch/traced_constants.hpp"
#include "fxx/torch/fake.hpp"
#include "fxx/trace/scope.hpp"

namespace fxx::inline FXX_ABI::detail {

FXX_INLINE std::string list_held(const std::vector<const Node*>& held) {
  std::vector<std::string_view> names;
  for (const Node* node : held)
    if (node && std::find(names.begin(), names.end(), node->name()) == names.end()) names.push_back(node->name());
  std::string list;
  for (std::size_t i = 0; i < names.size() && i < 4; ++i) list += (i ? ", %" : "%") + std::string(names[i]);
  if (names.size() > 4) list += " and " + std::to_string(names.size() - 4) + " more";
  return list;
}

FXX_INLINE std::uint64_t seed_of_default_generator() {
  at::Generator generator = at::globalContext().defaultGenerator(at::kCPU);
  const std::lock_guard lock(generator.mutex());
  return generator.current_seed();
}

/// Notes which tensors the code holds on to after it wrote to them, and which members it gave another tensor. To be
/// asked when the tracer is gone, which holds them all.
FXX_INLINE void note_members(Recording& run, const ModuleOwner& owner, const std::vector<std::size_t>& holders_before,
                             std::vector<MetConstants::Written> written) {
  for (MetConstants::Written& constant : written)
    if (auto tensor = constant.tensor.lock()) {
      at::Tensor& held = run.written[constant.name] = at::Tensor(std::move(tensor));
      run.constants[constant.name] = held;
    }
  // The first operator on a tensor may be the one that writes to it: that constant is the tensor itself.
  if (!run.constants.empty())
    for (const Node* node : run.graph.nodes())
      for (const Node* maker : memory_written_by(*node).makers) {
        const auto* attribute = std::get_if<GetAttr>(&maker->op());
        const auto found = attribute ? run.constants.find(attribute->target) : run.constants.end();
        if (found == run.constants.end() || run.copied.contains(found->first) || is_held_by_graph_alone(found->second))
          continue;
        if (const auto* tensor = std::get_if<at::Tensor>(&found->second)) run.written.emplace(found->first, *tensor);
      }
  if (run.kept.empty()) return;
  // The code keeps what it computed. Where it let go of a tensor that it had read before, that has its place.
  std::unordered_set<std::string> read;
  for (const Node* node : run.graph.nodes())
    if (node->opcode() == Opcode::get_attr) read.insert(node->target());
  std::size_t i = 0;
  for (const ModuleOwner::Tensor& entry : owner.tensors()) {
    const std::size_t before = i < holders_before.size() ? holders_before[i] : 0;
    ++i;
    if (entry.tensor.use_count() < before && read.contains(entry.name)) {
      run.member_state = "it reads '" + entry.name + "', and gives the member another tensor";
      return;
    }
  }
  for (const auto& [name, value] : run.constants)
    if (const auto* tensor = std::get_if<at::Tensor>(&value);
        tensor && read.contains(name) && !run.copied.contains(name) && is_held_by_graph_alone(value)) {
      run.member_state = "it reads a tensor of " + c10::str(tensor->sizes()) +
                         " that is no registered buffer ('" + name + "'), and holds another one after the run";
      return;
    }
}

FXX_INLINE Recording record_run(const TracedCode& code, std::vector<at::Tensor> inputs, RecordOptions options,
                                bool keeps_script) {
  Recording out;
  const std::uint64_t seed = seed_of_default_generator();
  std::vector<std::size_t> holders;
  if (code.is_module)
    for (const ModuleOwner::Tensor& entry : code.owner.tensors()) holders.push_back(entry.tensor.use_count());
  ScriptWatch scripts;
  std::vector<MetConstants::Written> written;
  {
    DispatchTracer tracer(out.graph, code.owner, options);
    for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i] = tracer.input(inputs[i], code.input_names[i]);
    try {
      const c10::IValue result = code.run(inputs);
      out.graph.output(tracer.argument_for(result));
      inputs.clear();
    } catch (const c10::Error& error) {
      // Autograd is asked without the dispatcher, and finds values without gradients.
      const std::string_view what = error.what_without_backtrace();
      if (what.find("does not require grad") == what.npos) throw;
      throw TraceError(ErrorId::gradient_in_forward,
                       "trace: the traced code asks for gradients, which a graph of operators does not have. Trace the "
                       "part before it; autograd goes through the GraphModule",
                       {{}, {}, traced_modules()});
    }
    out.calls = tracer.calls();
    out.kept = list_held(tracer.held());
    out.seeded = seed_of_default_generator() != seed;
    tracer.stop();
    out.reads = tracer.reads();
    out.places = tracer.places();
    for (const auto& [name, tensor] : tracer.constants()) out.constants.emplace(name, tensor);
    for (const auto& [name, object] : tracer.objects()) out.constants.emplace(name, object);
    for (const std::string& name : tracer.copied_constants()) out.copied.insert(name);
    written = tracer.written_constants();
  }
  // It holds what the code met, and is of no use where code keeps values for its next run.
  if (out.calls && (!out.calls->usable() || !out.kept.empty())) out.calls.reset();
  out.script_state = scripts.reassigned();
  out.script_objects = scripts.objects();
  if (keeps_script) scripts.keep();
  note_members(out, code.owner, holders, std::move(written));
  return out;
}

// --- runs that leave no trace ----------------------------------------------------------------------------------------

/// The names of attributes that the code writes to, or to views of them.
FXX_INLINE std::unordered_set<std::string> written_attributes(const Graph& graph) {
  std::unordered_set<std::string> names;
  for (const Node* node : graph.nodes()) {
    const Operator* op = operator_of(*node);
    if (!op || !op->mutates) continue;
    for (int i = 0; i < op->arity(); ++i) {
      if (!op->parameters[static_cast<std::size_t>(i)].written) continue;
      const Argument* written = argument_of(*node, *op, i);
      const Node* from = written && written->is_node() ? written->node() : nullptr;
      while (from && from->opcode() != Opcode::get_attr) {
        const auto inputs = from->all_input_nodes();
        const auto viewed = std::find_if(inputs.begin(), inputs.end(),
                                         [&](const Node* input) { return passes_on_memory(*from, *input); });
        from = viewed == inputs.end() ? nullptr : *viewed;
      }
      if (from) names.insert(from->target());
    }
  }
  return names;
}

FXX_INLINE ModuleState::ModuleState(const ModuleOwner& owner, const Graph& recorded,
                                    const Recording* run)
    : generator_(at::globalContext().defaultGenerator(at::kCPU).clone()) {
  const at::NoGradGuard no_grad;
  const c10::impl::ExcludeDispatchKeyGuard unwatched(trace_key);
  // A model has hundreds of small ones: bytes are copied and compared a hundred times faster than operators do it.
  std::size_t bytes = 0;
  const std::unordered_set<std::string> written = written_attributes(recorded);
  const bool parameters =
      std::any_of(written.begin(), written.end(), [&](const std::string& name) { return owner.is_parameter(name); });
  const auto keep = [&](const at::Tensor& t) {
    if (is_fake(t) || t.is_meta()) return;
    if (t.layout() == at::kStrided && t.is_cpu() && t.has_storage() && t.is_contiguous() && !t.is_quantized()) {
      buffers_.push_back({.tensor = t, .sizes = c10::DimVector(t.sizes()), .type = t.scalar_type(), .at = bytes});
      bytes += t.nbytes();
    } else {
      buffers_.push_back({.tensor = t, .before = at::_ops::clone::call(t, std::nullopt)});
    }
  };
  for (const ModuleOwner::Tensor& entry : owner.tensors())
    if (entry.kind == AttributeInfo::Kind::buffer || parameters) keep(entry.tensor);
  if (run) {
    // A script may first be called when its training flags are turned.
    for (const c10::IValue& object : run->script_objects) scripts_.watch(object);
    for (const auto& [name, tensor] : run->written) keep(tensor);
    for (const auto& [name, value] : run->constants)
      if (const auto* tensor = std::get_if<at::Tensor>(&value); tensor && written.contains(name) && !traced(*tensor))
        keep(*tensor);
  }
  bytes_ = std::make_unique_for_overwrite<char[]>(bytes);
  for (const Buffer& buffer : buffers_)
    if (!buffer.before.defined() && buffer.tensor.nbytes() > 0)
      std::memcpy(bytes_.get() + buffer.at, buffer.tensor.const_data_ptr(), buffer.tensor.nbytes());
}
FXX_INLINE bool ModuleState::Buffer::is_as_before(const char* bytes) const {
  return tensor.sizes() == sizes && tensor.scalar_type() == type && tensor.is_contiguous() &&
         (tensor.nbytes() == 0 || std::memcmp(tensor.const_data_ptr(), bytes + at, tensor.nbytes()) == 0);
}
FXX_INLINE ModuleState::~ModuleState() {
  const at::NoGradGuard no_grad;
  const FakeScope real(false);
  const c10::impl::ExcludeDispatchKeyGuard unwatched(trace_key);
  for (Buffer& known : buffers_) {
    at::Tensor& buffer = known.tensor;
    at::Tensor& before = known.before;
    try {
      if (!before.defined()) {
        if (known.is_as_before(bytes_.get())) continue;
        before = at::_ops::empty_memory_format::call(c10::fromIntArrayRefSlow(known.sizes), known.type, {}, {}, {}, {});
        if (before.nbytes() > 0) std::memcpy(before.mutable_data_ptr(), bytes_.get() + known.at, before.nbytes());
      }
      // Where the run was refused such a write, by LibTorch, the values have changed all the same.
      std::optional<c10::InferenceMode> mode;
      if (buffer.is_inference()) mode.emplace();
      // To write what is there already would count as a write, for autograd. Batch norm's do not count.
      if (!same_values(buffer, before)) at::_ops::copy_::call(buffer, before, false);
    } catch (const c10::Error& error) {
      TORCH_WARN("trace: a buffer could not be put back to what it was: ", error.what_without_backtrace());
    }
  }
  at::Generator generator = at::globalContext().defaultGenerator(at::kCPU);
  const std::lock_guard lock(generator.mutex());
  generator.set_state(generator_.get_state());
}

FXX_INLINE FurtherRuns::FurtherRuns(const TracedCode& code, const std::vector<at::Tensor>& inputs,
                                    const Recording& recorded, const Graph& graph, bool freeze_random)
    : code_(code),
      inputs_(inputs),
      options_{.freeze_random = freeze_random},
      state_(code.owner, graph, &recorded),
      members_(code),
      fakes_(recorded.kept.empty()) {}

FXX_INLINE Recording FurtherRuns::operator()() {
  if (fakes_) try {
      return with_fakes();
    } catch (const TraceError&) {
      fakes_ = false;  // an operator without a shape rule
    } catch (const c10::Error&) {
      fakes_ = false;
    }
  // Code may write to its inputs.
  std::vector<at::Tensor> given;
  for (const at::Tensor& input : inputs_) given.push_back(traced(input) ? input : copy_of(input));
  return record_run(code_, given, options_);
}

FXX_INLINE Recording FurtherRuns::with_fakes() {
  std::vector<at::Tensor> given;
  for (const at::Tensor& input : inputs_) given.push_back(input.is_meta() ? input : fake_like(input));
  return record_run(code_, given, options_);
}

FXX_INLINE bool same_constant(const GraphModule::Attribute& a, const GraphModule::Attribute& b) {
  const auto *x = std::get_if<at::Tensor>(&a), *y = std::get_if<at::Tensor>(&b);
  if (!x && !y) {
    const auto held = [](const GraphModule::Attribute& attribute) {
      const auto* object = dynamic_cast<const HeldValue*>(std::get<1>(attribute).get());
      return object ? object->held_value() : c10::IValue();
    };
    const c10::IValue first = held(a), second = held(b);
    return !first.isNone() && first.is(second);
  }
  if (!x || !y || x->scalar_type() != y->scalar_type() || x->sizes() != y->sizes()) return false;
  const c10::impl::ExcludeDispatchKeyGuard unwatched(trace_key);
  return x->is_same(*y) || is_fake(*x) || is_fake(*y) || same_values(*x, *y);
}

}  // namespace fxx::inline FXX_ABI::detail
