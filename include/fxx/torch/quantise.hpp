// From a graph of floats one whose layers are computed with 8-bit integers: post-training quantisation.
//
//   auto quantised = fxx::quantise(*gm, {{first}, {second}});     // examples of what it will be given
//   auto compiled = fxx::compile(*quantised, {first});
//
// Main names: quantise, QuantiseOptions. Cost: heavy (torch/nn/module.h). After torch.ao.quantization's prepare_fx and
// convert_to_reference_fx, 2.13: static, ranges of activations as MinMaxObserver finds them.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "fxx/torch/graph_module.hpp"

namespace fxx::inline FXX_ABI {

struct QuantiseOptions {
  /// Layers that stay as they are: those for which this is true. Empty: none.
  std::function<bool(const Node& layer)> keep = {};
};

/// A copy of the module, made ready for inference (optimize_for_inference) and run with the examples, which tell between
/// what numbers the input of each layer lies. Linear layers and convolutions of float32 whose weights are attributes then
/// get fake_quantize_per_tensor_affine before their input, into 0 to 255 with a zero point, once for all layers that
/// read it, and fake_quantize_per_channel_affine before their weights, into -127 to 127 with a scale for each output.
/// Operators in place become their pure twins first (functionalise). Convolutions of single channels, transposed ones,
/// layers whose input was never finite, or always zero, and those whose input is written to in a way that has no such
/// twin stay floats. What the layers are made of is what compile() computes with integers.
///
/// The module itself stays as it was. Throws RunError (E701) when there are no examples; what an example throws passes.
/// Costs a run of the graph, node by node, for each example.
std::shared_ptr<GraphModule> quantise(const GraphModule& module, const std::vector<std::vector<at::Tensor>>& examples,
                                      const QuantiseOptions& options = {});

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/torch/quantise.ipp"
#endif
