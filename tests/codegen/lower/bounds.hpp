// What must hold of any plan, for tests of what becomes of graphs with sizes: which kernels, what goes into their loops,
// where tensors lie, what is called back. That the numbers are right is tested in specialised_source.cpp, and with
// LibTorch.
#pragma once

#include <doctest/doctest.h>

#include "codegen/lowered.hpp"

namespace fxx::test {

/// Every tensor that a step reads or writes lies within its buffer, with the surroundings that kernels read of images.
inline void check_bounds(const KernelPlan& plan) {
  using namespace plans;
  const auto check = [&](const View& view) {
    if (view.buffer < 0 || view.numel() == 0) return;
    std::int64_t first = view.offset, last = view.offset;
    for (std::size_t d = 0; d < view.sizes.size(); ++d)
      (view.strides[d] < 0 ? first : last) += (view.sizes[d] - 1) * view.strides[d];
    CHECK(first >= 0);
    CHECK(last < buffer_of(plan, view).elements);
  };
  for (const KernelStep& step : plan.steps) {
    for (const Store& store : step.stores) {
      check(store.to);
      for_each_load(*store.value, check);
    }
    if (const auto* block = std::get_if<DepthwiseBlock>(&step.kernel)) {
      check(block->filter.in);
      check(block->filter.weights);
      if (block->expand) check(block->expand->a);
      if (block->expanded) for_each_load(*block->expanded, check);
      if (block->filtered) for_each_load(*block->filtered, check);
    } else if (const auto* product = std::get_if<MatrixProduct>(&step.kernel)) {
      check(product->a);
      check(product->weights.view);
    } else if (const auto* convolution = std::get_if<Convolution>(&step.kernel)) {
      check(convolution->weights);
      using Method = Convolution::Method;
      const bool four = convolution->method == Method::winograd_4, two = convolution->method == Method::winograd_2;
      const auto reach = [&](std::int64_t out, std::int64_t kernel, std::int64_t stride, std::int64_t dilation) {
        const std::int64_t side = four ? 4 : 2;
        if (four || two) return (out + side - 1) / side * side + 2;
        return (out - 1) * stride + (kernel - 1) * dilation + 1;
      };
      const Convolution& k = *convolution;
      if (k.method == Method::transposed || k.method == Method::depthwise_sequences) {
        check(k.in);  // with zeros that are nowhere
        continue;
      }
      check({k.in.buffer,
             k.in.offset,
             {k.images, reach(k.out_height, k.kernel_height, k.stride_height, k.dilation_height),
              reach(k.out_width, k.kernel_width, k.stride_width, k.dilation_width), k.channels},
             {k.in.strides[0], k.in.strides[2], k.in.strides[3], k.in.strides[1]}});
    } else if (const auto* rows = std::get_if<Rows>(&step.kernel)) {
      for_each_load(*rows->input, check);
    } else if (const auto* pooling = std::get_if<Pooling>(&step.kernel)) {
      check(pooling->in);
    } else if (const auto* attention = std::get_if<Attention>(&step.kernel)) {
      for (const View& view : {attention->q, attention->k, attention->v}) check(view);
    }
  }
}

}  // namespace fxx::test
