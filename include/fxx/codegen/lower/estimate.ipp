// How long steps take, estimated from what they compute and read.
#pragma once

#include <algorithm>

#include "fxx/codegen/kernel_plan.hpp"
#include "fxx/codegen/processor.hpp"

namespace fxx::inline FXX_ABI::plans {

/// Can Winograd's algorithm compute it? Of few channels no vectors are filled.
FXX_INLINE bool has_winograd(const Convolution& k) {
  using Method = Convolution::Method;
  const bool plain = k.stride_height == 1 && k.stride_width == 1 && k.dilation_height == 1 && k.dilation_width == 1;
  return k.method != Method::transposed && k.groups == 1 && plain && k.kernel_height == 3 && k.kernel_width == 3 &&
         k.out_channels >= 16 && k.channels >= 16 && !k.quantised;
}

/// Of a 3 x 3 convolution with stride 1, in multiplications and additions; reading a byte of weights takes so many. Of
/// bfloat16, which two at a time are multiplied.
FXX_INLINE double cost_of(const Convolution& k, double flops_per_byte) {
  const auto pairs = static_cast<double>(k.channels * k.out_channels);
  if (k.method == Convolution::Method::direct)
    return (2 * 9 * pairs * static_cast<double>(k.images * k.out_height * k.out_width) +
            9 * 4 * pairs * flops_per_byte) /
           (k.reduced ? 2 : 1);
  const bool four = k.method == Convolution::Method::winograd_4;
  const std::int64_t side = four ? 4 : 2;
  const auto tiles =
      static_cast<double>(k.images * ((k.out_height + side - 1) / side) * ((k.out_width + side - 1) / side));
  const double points = four ? 36 : 16;
  // Of the transforms of a tile's channel, measured: they are additions, loads and stores more than products.
  const double to = four ? 400 : 96, from = four ? 280 : 80;
  return 2 * points * pairs * tiles + points * 4 * pairs * flops_per_byte +
         tiles * (to * static_cast<double>(k.channels) + from * static_cast<double>(k.out_channels));
}

/// Seconds with one thread; negative where nobody knows, of what is called back. Good to a factor of two: what vectors
/// are not filled, and what else is in the caches, does not go into it.
FXX_INLINE double expected_seconds(const KernelStep& step, const Processor& processor, double flops_per_byte) {
  const double cached = 4;  // operations in the time of a byte from the second cache or the last
  double weights = 0, elements = 0, flops = step.flops;
  bool of_bytes = false;
  if (std::holds_alternative<CallBack>(step.kernel)) return -1;
  if (const auto* k = std::get_if<Convolution>(&step.kernel)) {
    if (has_winograd(*k)) return cost_of(*k, flops_per_byte) / processor.flops_per_second;
    elements = static_cast<double>(k->weights.numel());
    if (k->is_depthwise()) flops *= 2;  // whose loads are as many as its products
    of_bytes = static_cast<bool>(k->quantised);
    if (k->reduced) {
      weights = 2 * elements;
      flops /= 2;
    }
  } else if (const auto* product = std::get_if<MatrixProduct>(&step.kernel)) {
    if (product->weights.constant) elements = static_cast<double>(product->weights.view.numel());
    if (product->weights.reduced) weights = 2 * elements;
    of_bytes = static_cast<bool>(product->quantised);
  } else if (const auto* block = std::get_if<DepthwiseBlock>(&step.kernel)) {
    const Convolution& k = block->filter;
    elements = static_cast<double>(k.weights.numel());
    for (const auto* product : {&block->expand, &block->project})
      if (*product) elements += static_cast<double>((*product)->weights.view.numel());
    flops += 2 * static_cast<double>(k.images * k.out_height * k.out_width * k.weights.numel());
  } else if (const auto* recurrent = std::get_if<Recurrent>(&step.kernel)) {
    for (const Recurrent::Direction& d : recurrent->directions)
      elements += static_cast<double>(d.input_weights.numel() + d.state_weights.numel());
    if (recurrent->batch < 4) flops *= 2;  // one step waits for the other
  } else if (const auto* attention = std::get_if<Attention>(&step.kernel)) {
    if (attention->reduced) flops /= 2;
  } else {
    flops *= 8;  // functions, of which each is several operations
  }
  if (of_bytes) {
    weights = elements;
    if (processor.byte_products) flops /= 4;
  }
  if (weights == 0) weights = 4 * elements;
  return (flops + weights * flops_per_byte + std::max(0., step.bytes - 4 * elements) * cached) /
         processor.flops_per_second;
}

}  // namespace fxx::inline FXX_ABI::plans
