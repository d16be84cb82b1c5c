// Bodies of torch/quantise.hpp.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "fxx/ops/effects.hpp"
#include "fxx/ops/operation.hpp"
#include "fxx/passes/functionalise.hpp"
#include "fxx/passes/leaf_modules.hpp"
#include "fxx/torch/execute.hpp"
#include "fxx/torch/fold_constants.hpp"
#include "fxx/torch/interpreter.hpp"
#include "fxx/torch/quantise.hpp"
#include "fxx/torch/weights.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {

/// Between what numbers the elements of a value lie, with zero among them.
struct Range {
  double lowest = 0, highest = 0;
  bool finite = true;
  void include(double low, double high) {
    finite = finite && std::isfinite(low) && std::isfinite(high);
    lowest = std::min(lowest, low);
    highest = std::max(highest, high);
  }
};

/// Runs a graph and notes the ranges of some nodes.
class Calibration final : public Interpreter {
 public:
  using Interpreter::Interpreter;
  std::unordered_map<const Node*, Range> ranges;

  c10::IValue run_node(Node& node) override {
    c10::IValue value = Interpreter::run_node(node);
    if (const auto found = ranges.find(&node); found != ranges.end() && value.isTensor()) {
      const at::Tensor& tensor = value.toTensor();
      if (tensor.numel() > 0)
        found->second.include(tensor.detach().min().item<double>(), tensor.detach().max().item<double>());
    }
    return value;
  }
};

/// A layer that may be computed with integers.
struct QuantisableLayer {
  Node* layer = nullptr;
  Node *input = nullptr, *weight = nullptr;
  int input_at = 0, weight_at = 1;  // among the parameters
  at::Tensor values = {};           // of the weight
};
FXX_INLINE std::optional<QuantisableLayer> quantisable(const GraphModule& module, Node& node) {
  static constexpr std::string_view names[] = {"aten::linear", "aten::conv1d",         "aten::conv1d.padding",
                                               "aten::conv2d", "aten::conv2d.padding", "aten::convolution"};
  const Operator* op = operator_of(node);
  if (!op || std::find(std::begin(names), std::end(names), op->name) == std::end(names)) return {};
  QuantisableLayer found{&node, nullptr, nullptr, op->index_of("input"), op->index_of("weight")};
  const auto given = [&](std::string_view name) { return argument_or_default(node, *op, op->index_of(name)); };
  if (op->index_of("transposed") >= 0 && !(given("transposed") == Argument(false))) return {};
  const Argument input = given("input"), weight = given("weight");
  if (!input.is_node() || !weight.is_node() || weight.node()->opcode() != Opcode::get_attr) return {};
  found.input = input.node();
  found.weight = weight.node();
  found.values = module.owner().tensor(std::get<GetAttr>(found.weight->op()).target);
  if (!found.values.defined() || found.values.scalar_type() != at::kFloat || found.values.dim() < 2 ||
      found.values.numel() == 0 || !found.values.isfinite().all().item<bool>())
    return {};
  // Of single channels, or two or three, nothing is multiplied four at a time.
  if (op->index_of("groups") >= 0 && !(given("groups") == Argument(1)) && found.values.size(1) < 4) return {};
  return found;
}

/// Is the layer's input still what it was when it was computed, so that it may be read there, for all layers?
FXX_INLINE bool keeps_input(const QuantisableLayer& of) {
  const Memory memory = memory_of(*of.input);
  for (const Node* node = of.input->next(); node && node != of.layer; node = node->next())
    if (const Memory written = memory_written_by(*node);
        (written.anywhere || !written.makers.empty()) && may_overlap(memory, written))
      return false;
  return true;
}

/// The layer with other nodes for its input and weight.
FXX_INLINE void set_operands(const QuantisableLayer& of, Node* input, Node* weight) {
  const Operator& op = *operator_of(*of.layer);
  const auto with = [&](int parameter, Node* value) {
    const auto given = of.layer->args();
    std::vector<Argument> args(given.begin(), given.end());
    std::vector<KeywordArgument> kwargs(of.layer->kwargs().begin(), of.layer->kwargs().end());
    const auto at = static_cast<std::size_t>(parameter);
    if (at < args.size()) args[at] = value;
    for (KeywordArgument& k : kwargs)
      if (op.index_of(k.key) == parameter) k.value = value;
    of.layer->set_args_kwargs(std::move(args), std::move(kwargs));
  };
  with(of.input_at, input);
  with(of.weight_at, weight);
}

}  // namespace detail

FXX_INLINE std::shared_ptr<GraphModule> quantise(const GraphModule& module,
                                                 const std::vector<std::vector<at::Tensor>>& examples,
                                                 const QuantiseOptions& options) {
  if (examples.empty())
    throw RunError(ErrorId::input_mismatch, "quantise: no examples",
                   {"ranges of activations are those of examples: give some of what the module will be given"});
  auto result = std::dynamic_pointer_cast<GraphModule>(module.clone());
  Graph& graph = result->graph();
  optimize_for_inference(*result);
  expand_modules(graph, result->owner());
  functionalise(graph, &result->owner());
  const at::NoGradGuard no_grad;

  std::vector<detail::QuantisableLayer> layers;
  detail::Calibration calibration(*result);
  for (Node* node : graph.nodes()) {
    const auto found = detail::quantisable(*result, *node);
    if (!found || !detail::keeps_input(*found) || (options.keep && options.keep(*node))) continue;
    layers.push_back(*found);
    calibration.ranges[found->input];
  }
  for (const std::vector<at::Tensor>& example : examples) calibration.run({example.begin(), example.end()});

  const auto operator_named = [](const char* name) -> const Operator& {
    return operator_of(c10::Dispatcher::singleton().findSchemaOrThrow(name, ""));
  };
  const Operator &per_tensor = operator_named("aten::fake_quantize_per_tensor_affine"),
                 &per_channel = operator_named("aten::fake_quantize_per_channel_affine");
  std::unordered_map<const Node*, Node*> inputs;
  for (const detail::QuantisableLayer& layer : layers) {
    const detail::Range range = calibration.ranges.at(layer.input);
    const double scale = static_cast<float>((range.highest - range.lowest) / 255);
    if (!range.finite || !std::isnormal(scale)) continue;
    Node*& input = inputs[layer.input];
    if (!input) {
      const auto zero = static_cast<std::int64_t>(std::clamp(std::nearbyint(-range.lowest / scale), 0., 255.));
      const InsertPoint point = graph.inserting_after(layer.input);
      input = graph.call_function(per_tensor, {layer.input, scale, zero, 0, 255});
      if (const TensorMeta* meta = layer.input->tensor_meta()) input->set_tensor_meta(*meta);
    }
    at::Tensor scales = layer.values.detach().abs().flatten(1).amax(1) / 127;
    scales.masked_fill_(scales.lt(1e-30), 1.);
    const std::string name = "_quantised." + std::string(layer.layer->name());
    const auto attribute = [&](const std::string& of, const at::Tensor& tensor) {
      std::string free = name + "_" + of;
      if (result->owner().tensor(free).defined()) free = result->fresh_name(free + "_");
      result->register_attribute(free, tensor);
      Node* node = graph.get_attr(free);
      node->set_tensor_meta(tensor_meta_of(tensor));
      return node;
    };
    const InsertPoint point = graph.inserting_before(layer.layer);
    Node* integers = graph.call_function(
        per_channel, {layer.weight, attribute("scales", scales),
                      attribute("zeros", scales.new_zeros({scales.numel()}, at::kInt)), 0, -127, 127});
    if (const TensorMeta* meta = layer.weight->tensor_meta()) integers->set_tensor_meta(*meta);
    detail::set_operands(layer, input, integers);
  }
  result->recompile();
  return result;
}

}  // namespace fxx::inline FXX_ABI
