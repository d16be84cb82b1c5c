// Which layers are made of integers, before their weights are folded; for torch/compile.ipp.
#pragma once

#include <ATen/core/Tensor.h>

// after the tensor's own header
#include <ATen/ops/empty_ops.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "fxx/codegen/quantised.hpp"
#include "fxx/ops/operation.hpp"
#include "fxx/ops/registry.hpp"
#include "fxx/torch/fake.hpp"
#include "fxx/torch/graph_module.hpp"

namespace fxx::inline FXX_ABI::detail {

/// A scale for each of the columns, when the value is a fake_quantize around zero into 8-bit integers, several of them
/// one below the other, as merged layers have them, or that times a number, which rules make of products behind a layer;
/// else nothing.
FXX_INLINE std::vector<float> scales_of_weights(const GraphModule& module, const Node& value, std::int64_t columns) {
  if (const auto given = fake_quantize_of(value)) {
    if (given->zero != 0 || given->lowest < -128 || given->highest > 127) return {};
    return std::vector<float>(static_cast<std::size_t>(columns), static_cast<float>(given->scale));
  }
  const Node& node = maker_of(value);
  const Operator* op = operator_of(node);
  if (!op) return {};
  const auto argument = [&](std::string_view name) { return argument_or_default(node, *op, op->index_of(name)); };
  if (op->name == "aten::cat") {
    const Argument parts = argument("tensors");
    std::vector<float> all;
    if (!parts.is_sequence() || !(argument("dim") == Argument(0))) return {};
    for (const Argument& part : parts.items()) {
      const TensorMeta* meta = part.is_node() ? part.node()->tensor_meta() : nullptr;
      if (!meta || meta->is_dynamic() || meta->dim() < 2) return {};
      const std::vector<float> own = scales_of_weights(module, *part.node(), meta->shape[0]);
      if (own.empty()) return {};
      all.insert(all.end(), own.begin(), own.end());
    }
    return all;
  }
  if (op->name == "aten::mul.Scalar") {
    const Argument self = argument("self"), factor = argument("other");
    if (!self.is_node() || !factor.is_number()) return {};
    std::vector<float> scales = scales_of_weights(module, *self.node(), columns);
    for (float& scale : scales) scale *= static_cast<float>(factor.number());
    return scales;
  }
  if (op->name != "aten::fake_quantize_per_channel_affine" &&
      op->name != "aten::fake_quantize_per_channel_affine_cachemask")
    return {};
  const auto numbers = [&](std::string_view name) {
    const Argument given = argument(name);
    const auto* attribute = given.is_node() ? std::get_if<GetAttr>(&given.node()->op()) : nullptr;
    const at::Tensor tensor = attribute ? module.owner().tensor(attribute->target) : at::Tensor();
    if (!tensor.defined() || is_fake(tensor) || tensor.numel() != columns) return std::vector<float>();
    const at::Tensor dense = tensor.detach().to(at::kFloat).contiguous();
    return std::vector<float>(dense.const_data_ptr<float>(), dense.const_data_ptr<float>() + columns);
  };
  const Argument axis = argument("axis"), lowest = argument("quant_min"), highest = argument("quant_max");
  const auto zeros = numbers("zero_point");
  if (!(axis == Argument(0)) || lowest.kind() != Argument::Kind::integer || lowest.integer() < -128 ||
      highest.kind() != Argument::Kind::integer || highest.integer() > 127 || zeros.empty() ||
      std::ranges::any_of(zeros, [](float zero) { return zero != 0; }))
    return {};
  return numbers("scale");
}

/// The scales of layers, by the name of the node.
using LayerScales = std::map<std::string, std::vector<float>>;
/// Of linear layers and convolutions whose input and weights are quantised.
FXX_INLINE LayerScales quantised_layers(const GraphModule& module) {
  LayerScales found;
  for (const Node* node : module.graph().nodes()) {
    const Operator* op = operator_of(*node);
    if (!op || (op->name != "aten::linear" && !op->base_name().starts_with("conv")) ||
        op->base_name().starts_with("conv_transpose"))
      continue;
    const Argument input = argument_or_default(*node, *op, 0), weight = argument_or_default(*node, *op, 1);
    if (const int transposed = op->index_of("transposed");
        transposed >= 0 && !(argument_or_default(*node, *op, transposed) == Argument(false)))
      continue;
    const TensorMeta* meta = weight.is_node() ? weight.node()->tensor_meta() : nullptr;
    if (!input.is_node() || !meta || meta->is_dynamic() || meta->dim() < 2 || meta->dtype != Dtype::float32 ||
        !fake_quantize_of(*input.node()))
      continue;
    std::vector<float> scales = scales_of_weights(module, *weight.node(), meta->shape[0]);
    if (static_cast<std::int64_t>(scales.size()) == meta->shape[0] &&
        std::ranges::all_of(scales, [](float scale) { return std::isnormal(scale) && scale > 0; }))
      found.emplace(std::string(node->name()), std::move(scales));
  }
  return found;
}
/// Puts them among the module's attributes; gives the names of the layers. One whose name is taken there stays as it is.
FXX_INLINE std::vector<std::string> with_scales(GraphModule& module, const LayerScales& found) {
  std::vector<std::string> layers;
  for (const auto& [layer, scales] : found) {
    if (module.owner().tensor(scales_name(layer)).defined()) continue;
    const auto count = static_cast<std::int64_t>(scales.size());
    const at::Tensor tensor =
        at::_ops::empty_memory_format::call(c10::fromIntArrayRefSlow({count}), at::kFloat, {}, {}, {}, {});
    std::ranges::copy(scales, tensor.mutable_data_ptr<float>());
    module.register_attribute(scales_name(layer), tensor);
    layers.push_back(layer);
  }
  return layers;
}

}  // namespace fxx::inline FXX_ABI::detail
