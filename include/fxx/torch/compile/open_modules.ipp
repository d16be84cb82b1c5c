// Modules that a graph calls, traced through, so that they are kernels too; for torch/compile/specialise.ipp.
#pragma once

#include <ATen/core/Tensor.h>

// after the tensor's own header
#include <ATen/EmptyTensor.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fxx/ops/registry.hpp"
#include "fxx/passes/regions.hpp"
#include "fxx/torch/dispatch/met_constants.hpp"
#include "fxx/torch/dispatch/recording.hpp"
#include "fxx/torch/fake.hpp"
#include "fxx/torch/graph_module.hpp"
#include "fxx/torch/known_sizes.hpp"
#include "fxx/torch/trace.hpp"

namespace fxx::inline FXX_ABI::detail {

/// Does it call a function of the user's, itself or in a graph inside, that does not say what it computes?
FXX_INLINE bool calls_functions(const GraphModule& module) {
  const auto calls = [](const Graph& graph) {
    const auto nodes = graph.nodes();
    return std::any_of(nodes.begin(), nodes.end(), [](const Node* node) {
      const auto* call = std::get_if<CallFunction>(&node->op());
      const auto* function = call ? std::get_if<const UserFunction*>(&call->target) : nullptr;
      return function && !(*function)->expansion;
    });
  };
  if (calls(module.graph())) return true;
  return std::ranges::any_of(module.modules(false), [&](const auto& inside) {
    const auto* graph_module = dynamic_cast<const GraphModule*>(inside.get());
    return graph_module && calls(graph_module->graph());
  });
}

/// Zeros that lie so in memory, whatever the strides are.
FXX_INLINE at::Tensor zeros_that_lie(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType dtype) {
  const at::Tensor zeros = at::detail::empty_strided_cpu(sizes, strides, dtype);
  const c10::Storage& storage = zeros.storage();
  if (storage.nbytes() > 0) std::memset(storage.mutable_data(), 0, storage.nbytes());
  return zeros;
}
/// A copy that lies in memory as the tensor does, with gaps and repeated elements, which `clone` leaves out: C++ asks
/// for that while it is traced, and `contiguous()` of what lies in order leaves no mark.
FXX_INLINE at::Tensor copy_that_lies_alike(const at::Tensor& tensor) {
  const at::Tensor copy = copy_of(tensor);
  if (tensor.layout() != at::kStrided || !tensor.is_cpu() || copy.strides() == tensor.strides()) return copy;
  const at::NoGradGuard no_grad;
  const at::Tensor alike = zeros_that_lie(tensor.sizes(), tensor.strides(), tensor.scalar_type());
  at::Tensor to = alike, from = copy;
  for (std::int64_t d = 0; d < tensor.dim(); ++d) {
    if (tensor.stride(d) != 0 || tensor.size(d) < 2) continue;
    to = to.narrow(d, 0, 1);
    from = from.narrow(d, 0, 1);
  }
  to.copy_(from);
  return alike.set_requires_grad(copy.requires_grad());
}

/// Throws TraceError (E328) when a run of the module gives attributes of TorchScript objects other values. Kernels would
/// give these tensors whose memory they use again.
FXX_INLINE void refuse_script_state_of(GraphModule& module, const std::vector<at::Tensor>& example_inputs) {
  std::vector<c10::IValue> given;
  for (const at::Tensor& input : example_inputs) {
    if (is_fake(input)) return;
    given.emplace_back(copy_that_lies_alike(input));
  }
  const ModuleState before(module.owner(), module.graph());
  const ScriptWatch scripts;
  const at::NoGradGuard no_grad;
  try {
    module.run_flat(std::move(given));
  } catch (const std::exception&) {
    return;  // the caller's own run will tell
  }
  if (const std::string state = scripts.reassigned(); !state.empty())
    throw TraceError(ErrorId::keeps_state,
                     "compile: a TorchScript object that the graph calls keeps state from run to run in the attribute " +
                         state + ". Make the state an input and a result of its method, or run the graph interpreted");
}

/// The graph once more, with modules that are more than one operator traced through: recurrent layers, and whatever a
/// user registered. Where that cannot be, they stay calls.
FXX_INLINE std::shared_ptr<GraphModule> opened(const std::shared_ptr<GraphModule>& module,
                                               const std::vector<at::Tensor>& example_inputs) {
  TraceOptions options{.leaf_modules = false, .training_flags = false};
  for (const Node* input : module->graph().find_nodes(Opcode::placeholder))
    options.input_names.emplace_back(input->name());
  // A trace runs the module, which may write to its buffers and its inputs, and draw numbers.
  const ModuleState before(module->owner(), module->graph());
  std::vector<at::Tensor> given;
  for (const at::Tensor& input : example_inputs) given.push_back(is_fake(input) ? input : copy_that_lies_alike(input));
  try {
    return trace_module(*module, true,
                        [&](std::span<const at::Tensor> inputs) {
                          return module->run_flat(std::vector<c10::IValue>(inputs.begin(), inputs.end()));
                        },
                        std::move(given), options);
  } catch (const TraceError& error) {
    if (error.id() == ErrorId::keeps_state) throw;
    refuse_script_state_of(*module, example_inputs);
    return module;
  }
}

/// Puts the value in the place of the node; its items where one is taken.
FXX_INLINE void put_in_place(Graph& graph, Node* node, const Argument& value) {
  const auto put = [&](Node* n) { return n == node ? value : Argument(n); };
  for (Node* user : node->users().snapshot()) {
    const auto taken = value.is_sequence() ? item_taken(*user) : std::nullopt;
    const auto count = value.is_sequence() ? static_cast<std::int64_t>(value.items().size()) : 0;
    if (taken && *taken >= -count && *taken < count) {
      put_in_place(graph, user, value.items()[static_cast<std::size_t>(*taken < 0 ? *taken + count : *taken)]);
      continue;
    }
    std::vector<Argument> args;
    std::vector<KeywordArgument> kwargs;
    for (const Argument& a : user->args()) args.push_back(map_nodes(a, put));
    for (const KeywordArgument& k : user->kwargs()) kwargs.push_back({k.key, map_nodes(k.value, put)});
    user->set_args_kwargs(args, kwargs);
  }
  graph.erase_node(node);
}

/// As `opened`, in a graph with functions of the user's, which a trace would follow, with what they do now: each module
/// is traced through by itself, with zeros that lie in memory as what it is given.
FXX_INLINE void open_each(GraphModule& module, const std::vector<at::Tensor>& example_inputs) {
  note_known_sizes(module, example_inputs);  // what modules are given
  Graph& graph = module.graph();
  for (Node* node : graph.nodes().snapshot()) {
    if (node->opcode() != Opcode::call_module) continue;
    std::vector<Node*> given;
    for (Node* input : node->all_input_nodes())
      if (input->opcode() != Opcode::get_attr) given.push_back(input);
    const auto is_unknown = [](const Node* input) {
      const TensorMeta* meta = input->tensor_meta();
      return !meta || meta->stride.size() != meta->shape.size();
    };
    if (std::ranges::any_of(given, is_unknown)) continue;
    const std::vector<const Node*> only{node}, inputs(given.begin(), given.end());
    const auto alone = std::make_shared<GraphModule>(module, graph_of(only, inputs, only), module.class_name());
    if (calls_functions(*alone)) continue;
    std::shared_ptr<GraphModule> open;
    try {
      std::vector<at::Tensor> zeros;
      for (const Node* input : given) {
        const TensorMeta& meta = *input->tensor_meta();
        zeros.push_back(zeros_that_lie(meta.shape, meta.stride, static_cast<at::ScalarType>(meta.dtype)));
      }
      open = opened(alone, zeros);
    } catch (const TraceError& error) {
      if (error.id() == ErrorId::keeps_state) throw;
      continue;
    } catch (const std::exception&) {
      continue;  // it may not take zeros
    }
    const Argument gives = open->graph().output_node()->arg(0);
    if (open == alone || !gives.is_sequence() || gives.items().size() != 1 ||
        gives.items()[0].kind() == Argument::Kind::dict)
      continue;
    std::map<const Node*, Argument> values;
    for (Node* inner : open->graph().nodes()) {
      if (inner->opcode() == Opcode::placeholder) values.emplace(inner, given[values.size()]);
      if (inner->opcode() != Opcode::get_attr) continue;
      const at::Tensor tensor = open->attribute(inner->target()), known = module.owner().tensor(inner->target());
      if (known.defined() && known.is_same(tensor)) continue;
      const std::string name = module.fresh_name(std::string(inner->target()) + "_");
      module.register_attribute(name, tensor);
      inner->set_op(GetAttr{name});
    }
    Argument result;
    {
      const InsertPoint point = graph.inserting_before(node);
      result = graph.graph_copy(open->graph(), values);
    }
    put_in_place(graph, node, result.items()[0]);
  }
}

}  // namespace fxx::inline FXX_ABI::detail
