// Which linear layers are made of integers, before their weights are folded; for torch/compile.ipp.
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
  const Node* node = &value;
  const Operator* op = operator_of(*node);
  if (op && op->name == "aten::cat") {
    const Argument parts = argument_or_default(*node, *op, 0), dim = argument_or_default(*node, *op, 1);
    std::vector<float> all;
    if (!parts.is_sequence() || !(dim == Argument(0))) return {};
    for (const Argument& part : parts.items()) {
      const TensorMeta* meta = part.is_node() ? part.node()->tensor_meta() : nullptr;
      if (!meta || meta->is_dynamic() || meta->dim() != 2) return {};
      const std::vector<float> own = scales_of_weights(module, *part.node(), meta->shape[0]);
      if (own.empty()) return {};
      all.insert(all.end(), own.begin(), own.end());
    }
    return static_cast<std::int64_t>(all.size()) == columns ? all : std::vector<float>();
  }
  if (op && op->name == "aten::mul.Scalar") {
    const Argument self = argument_or_default(*node, *op, 0), other = argument_or_default(*node, *op, 1);
    if (!self.is_node() || !other.is_number()) return {};
    std::vector<float> scales = scales_of_weights(module, *self.node(), columns);
    const auto factor = static_cast<float>(other.number());
    for (float& scale : scales) scale *= factor;
    const bool usable = std::ranges::all_of(scales, [](float scale) { return std::isnormal(scale) && scale > 0; });
    return usable ? scales : std::vector<float>();
  }
  if (op && op->base_name() == "getitem" && node->arg(0).is_node() && node->arg(1) == Argument(0)) {
    node = node->arg(0).node();
    op = operator_of(*node);
  }
  if (!op || (op->name != "aten::fake_quantize_per_channel_affine" &&
              op->name != "aten::fake_quantize_per_channel_affine_cachemask"))
    return {};
  const auto argument = [&](std::string_view name) { return argument_or_default(*node, *op, op->index_of(name)); };
  const auto tensor = [&](std::string_view name) {
    const Argument given = argument(name);
    const auto* attribute = given.is_node() ? std::get_if<GetAttr>(&given.node()->op()) : nullptr;
    return attribute && !module.submodule(attribute->target) ? module.attribute(attribute->target) : at::Tensor();
  };
  const auto is = [&](std::string_view name, auto holds) {
    const Argument given = argument(name);
    return given.kind() == Argument::Kind::integer && holds(given.integer());
  };
  if (!is("axis", [](std::int64_t axis) { return axis == 0; }) ||
      !is("quant_min", [](std::int64_t lowest) { return lowest >= -128; }) ||
      !is("quant_max", [](std::int64_t highest) { return highest <= 127; }))
    return {};
  const at::Tensor scales = tensor("scale"), zeros = tensor("zero_point");
  const auto numbers = [&](const at::Tensor& from) {
    if (!from.defined() || is_fake(from) || from.numel() != columns) return std::vector<float>();
    const at::Tensor dense = from.detach().to(at::kFloat).contiguous();
    return std::vector<float>(dense.const_data_ptr<float>(), dense.const_data_ptr<float>() + columns);
  };
  std::vector<float> result = numbers(scales);
  const std::vector<float> points = numbers(zeros);
  if (points.empty() || std::ranges::any_of(points, [](float zero) { return zero != 0; }) ||
      std::ranges::any_of(result, [](float scale) { return !std::isnormal(scale) || scale < 0; }))
    return {};
  return result;
}

/// Of linear layers whose input and weights are quantised, by the name of the node.
FXX_INLINE std::map<std::string, std::vector<float>> quantised_layers(const GraphModule& module) {
  std::map<std::string, std::vector<float>> found;
  for (const Node* node : module.graph().nodes()) {
    const Operator* op = operator_of(*node);
    if (!op || op->name != "aten::linear") continue;
    const Argument input = argument_or_default(*node, *op, 0), weight = argument_or_default(*node, *op, 1);
    const TensorMeta* meta = node->tensor_meta();
    if (!input.is_node() || !weight.is_node() || !meta || meta->is_dynamic() || meta->dim() == 0 ||
        meta->dtype != Dtype::float32 || !fake_quantize_of(*input.node()))
      continue;
    if (auto scales = scales_of_weights(module, *weight.node(), meta->shape.back()); !scales.empty())
      found.emplace(std::string(node->name()), std::move(scales));
  }
  return found;
}
/// Puts them among the module's attributes.
FXX_INLINE QuantisedProducts with_scales(GraphModule& module, std::map<std::string, std::vector<float>> found) {
  QuantisedProducts named;
  for (auto& [node, scales] : found) {
    std::string name = "_scales." + node;
    if (module.owner().tensor(name).defined()) name = module.fresh_name(name + "_");
    const auto count = static_cast<std::int64_t>(scales.size());
    const at::Tensor tensor =
        at::_ops::empty_memory_format::call(c10::fromIntArrayRefSlow({count}), at::kFloat, {}, {}, {}, {});
    std::ranges::copy(scales, tensor.mutable_data_ptr<float>());
    module.register_attribute(name, tensor);
    named.emplace(node, std::move(name));
  }
  return named;
}

}  // namespace fxx::inline FXX_ABI::detail
