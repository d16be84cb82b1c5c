// Shape rules of normalisation: over batches, layers and groups, and of weights.
#pragma once

#include <algorithm>

#include "fxx/torch/shape_rules/shared.ipp"

namespace fxx::inline FXX_ABI::detail::shapes {

/// Of statistics: float for parameters of float beside inputs of half precision.
FXX_INLINE ScalarType parameter_dtype(const Tensor& input, const Tensor& weight, const Tensor& bias = {}) {
  const Tensor& parameter = weight.defined() ? weight : bias;
  return parameter.defined() ? parameter.scalar_type() : input.scalar_type();
}

FXX_INLINE void check_channels(const Tensor& t, std::int64_t channels, const char* name) {
  TORCH_CHECK(!t.defined() || t.numel() == channels, "batch_norm: ", name, " should contain ", channels,
              " elements not ", t.defined() ? t.numel() : 0);
}
/// A mean and a deviation, kept for the backward pass.
FXX_INLINE void give_statistics(ShapeCall& c, at::IntArrayRef sizes, ScalarType dtype) {
  for (int i = 0; i < 2; ++i) c.give(meta_tensor(sizes, dtype));
}
struct BatchNorm {
  Tensor input, weight, bias, mean, variance;
  bool training = true;
};
/// The result and the statistics: none outside of training.
FXX_INLINE void give_batch_norm(ShapeCall& c, const BatchNorm& n) {
  TORCH_CHECK(n.input.dim() >= 2, "batch_norm: expected at least 2 dimensions, but got ", n.input.dim());
  check_floating(n.input, "batch_norm");
  const std::int64_t channels = n.input.size(1);
  check_channels(n.weight, channels, "weight");
  check_channels(n.bias, channels, "bias");
  check_channels(n.mean, channels, "running_mean");
  check_channels(n.variance, channels, "running_var");
  TORCH_CHECK(n.training || (n.mean.defined() && n.variance.defined()),
              "running_mean and running_var must be defined in evaluation mode");
  c.give(formatted_like(n.input));
  give_statistics(c, {n.training ? channels : 0},
                  parameter_dtype(n.input, n.weight, n.bias.defined() ? n.bias : n.mean));
}
/// input, weight, bias, running_mean, running_var, training, momentum, eps.
FXX_INLINE void batch_norm(ShapeCall& c) {
  give_batch_norm(c, {c.tensor(0), c.tensor(1), c.tensor(2), c.tensor(3), c.tensor(4), c.flag(5)});
}
FXX_INLINE void batch_norm_without_stats(ShapeCall& c) {
  give_batch_norm(c, {c.tensor(0), c.tensor(1), c.tensor(2), {}, {}, c.flag(3)});
}
FXX_INLINE void batch_norm_with_update(ShapeCall& c) {
  give_batch_norm(c, {c.tensor(0), c.tensor(1), c.tensor(2), c.tensor(3), c.tensor(4), true});
  c.give(meta_tensor({0}, at::kByte));
}
FXX_INLINE void batch_norm_update_stats(ShapeCall& c) {
  const Tensor x = c.tensor(0);
  TORCH_CHECK(x.dim() >= 2, "batch_norm: expected at least 2 dimensions, but got ", x.dim());
  check_channels(c.tensor(1), x.size(1), "running_mean");
  check_channels(c.tensor(2), x.size(1), "running_var");
  give_statistics(c, {x.size(1)}, parameter_dtype(x, c.tensor(1)));
}
/// Gradients of input, weight and bias by mask.
FXX_INLINE void give_norm_gradients(ShapeCall& c, Tensor of_input, const Tensor& weight, at::IntArrayRef sizes,
                                    const c10::List<bool>& mask) {
  const ScalarType dtype = weight.defined() ? weight.scalar_type() : of_input.scalar_type();
  c.give(mask[0] ? of_input : Tensor());
  c.give(mask[1] ? meta_tensor(sizes, dtype) : Tensor());
  c.give(mask[2] ? meta_tensor(sizes, dtype) : Tensor());
}
/// grad_out, input, weight, running_mean, running_var, save_mean, save_invstd, train, eps, mask.
FXX_INLINE void batch_norm_backward(ShapeCall& c) {
  const Tensor x = c.tensor(1);
  give_norm_gradients(c, formatted_like(x), c.tensor(2), Sizes{x.size(1)}, c[9].toBoolList());
}

/// input, normalized_shape, weight, bias, eps.
FXX_INLINE void layer_norm(ShapeCall& c) {
  const Tensor x = c.tensor(0), weight = c.tensor(2), bias = c.tensor(3);
  const Sizes shape = c.integers(1);
  const auto kept = x.dim() - static_cast<std::int64_t>(shape.size());
  TORCH_CHECK(!shape.empty() && kept >= 0 &&
                  x.sizes().slice(static_cast<std::size_t>(std::max<std::int64_t>(kept, 0))) == at::IntArrayRef(shape),
              "Given normalized_shape=", at::IntArrayRef(shape), ", expected input with shape [*, ",
              at::IntArrayRef(shape), "], but got input of size", x.sizes());
  for (const Tensor& t : {weight, bias})
    TORCH_CHECK(!t.defined() || t.sizes() == at::IntArrayRef(shape),
                "Expected weight and bias to be of the same shape as "
                "normalized_shape, but got ",
                t.sizes(), " and normalized_shape = ", at::IntArrayRef(shape));
  check_floating(x, "LayerNormKernelImpl");
  Sizes statistics(x.sizes().begin(), x.sizes().end());
  std::fill(statistics.begin() + kept, statistics.end(), 1);
  c.give(contiguous_like(x));
  give_statistics(c, statistics, parameter_dtype(x, weight, bias));
}
/// grad_out, input, normalized_shape, mean, rstd, weight, bias, mask.
FXX_INLINE void layer_norm_backward(ShapeCall& c) {
  give_norm_gradients(c, contiguous_like(c.tensor(1)), c.tensor(5), c.integers(2), c[7].toBoolList());
}

/// input, weight, bias, N, C, HxW, group, eps.
FXX_INLINE void group_norm(ShapeCall& c) {
  const Tensor x = c.tensor(0), weight = c.tensor(1), bias = c.tensor(2);
  const std::int64_t n = c.integer(3), channels = c.integer(4), groups = c.integer(6);
  TORCH_CHECK(groups > 0 && channels % groups == 0, "Expected number of channels in input to be divisible by ",
              "num_groups, but got input of shape ", x.sizes(), " and num_groups=", groups);
  TORCH_CHECK(x.numel() == n * channels * c.integer(5), "native_group_norm: N, C and HxW do not fit the input");
  for (const Tensor& t : {weight, bias})
    TORCH_CHECK(!t.defined() || (t.dim() == 1 && t.numel() == channels),
                "Expected weight to be a vector of size equal to the number of channels in input");
  check_floating(x, "GroupNormKernelImpl");
  c.give(formatted_like(x));
  give_statistics(c, {n, groups}, parameter_dtype(x, weight, bias));
}
/// grad_out, input, mean, rstd, weight, N, C, HxW, group, mask.
FXX_INLINE void group_norm_backward(ShapeCall& c) {
  give_norm_gradients(c, formatted_like(c.tensor(1)), c.tensor(4), Sizes{c.integer(6)}, c[9].toBoolList());
}

/// v, g, dim: the norms have g's shape.
FXX_INLINE void weight_norm(ShapeCall& c) {
  const Tensor v = c.tensor(0), g = c.tensor(1);
  TORCH_CHECK(c.integer(2) == 0 || c.integer(2) == v.dim() - 1,
              "fused kernels can only be applied for first or last dim");
  check_same_dtype(v, g, "_weight_norm");
  c.give(contiguous_like(v));
  c.give(contiguous_like(g, is_half(g) ? at::kFloat : g.scalar_type()));
}

// clang-format off
inline constexpr ShapeRuleOf norm_rules[] = {
    {"native_batch_norm", batch_norm},              {"_native_batch_norm_legit", batch_norm},
    {"_native_batch_norm_legit.no_stats", batch_norm_without_stats},
    {"_batch_norm_with_update", batch_norm_with_update},
    {"batch_norm_update_stats", batch_norm_update_stats},
    {"native_batch_norm_backward", batch_norm_backward},
    {"batch_norm_backward", batch_norm_backward},   {"native_layer_norm", layer_norm},
    {"native_layer_norm_backward", layer_norm_backward},
    {"native_group_norm", group_norm},              {"native_group_norm_backward", group_norm_backward},
    {"_weight_norm_interface", weight_norm},
    {"_weight_norm_interface_backward", contiguous_like_argument<1, 2>},
};
// clang-format on

}  // namespace fxx::inline FXX_ABI::detail::shapes
