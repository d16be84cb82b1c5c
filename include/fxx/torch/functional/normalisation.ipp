// Normalisation of torch/functional.hpp.
#pragma once

#include "fxx/torch/functional/lowered.ipp"

namespace fxx::inline FXX_ABI::nn::functional {

FXX_INLINE Proxy batch_norm(const TensorArg& input, const OptionalTensorArg& running_mean,
                            const OptionalTensorArg& running_var, const BatchNormFuncOptions& options) {
  return lowered::f::batch_norm(input, lowered::optional(options.weight()), lowered::optional(options.bias()),
                                running_mean, running_var, options.training(), options.momentum(), options.eps(),
                                at::globalContext().userEnabledCuDNN());
}
FXX_INLINE Proxy instance_norm(const TensorArg& input, const InstanceNormFuncOptions& options) {
  return lowered::f::instance_norm(input, lowered::optional(options.weight()), lowered::optional(options.bias()),
                                   lowered::optional(options.running_mean()), lowered::optional(options.running_var()),
                                   options.use_input_stats(), options.momentum(), options.eps(),
                                   at::globalContext().userEnabledCuDNN());
}
FXX_INLINE Proxy layer_norm(const TensorArg& input, const LayerNormFuncOptions& options) {
  return lowered::f::layer_norm(input, options.normalized_shape(), lowered::optional(options.weight()),
                                lowered::optional(options.bias()), options.eps());
}
FXX_INLINE Proxy group_norm(const TensorArg& input, const GroupNormFuncOptions& options) {
  return lowered::f::group_norm(input, options.num_groups(), lowered::optional(options.weight()),
                                lowered::optional(options.bias()), options.eps(),
                                at::globalContext().userEnabledCuDNN());
}
FXX_INLINE Proxy local_response_norm(const TensorArg& input, const LocalResponseNormFuncOptions& options) {
  // The mean of squares over neighbouring channels, whatever dimensions come after them.
  const Proxy x = lowered::proxy_of(input);
  const std::int64_t size = options.size();
  Proxy squares = x.mul(x).unsqueeze(1).unsqueeze(-1).flatten(4, -1);
  squares = lowered::f::constant_pad_nd(squares, {0, 0, 0, 0, size / 2, (size - 1) / 2}, 0);
  squares = lowered::f::avg_pool3d(squares, {size, 1, 1}, 1).squeeze(1).view(x.sizes());
  return x / squares.mul(options.alpha()).add(options.k()).pow(options.beta());
}
FXX_INLINE Proxy normalize(const TensorArg& input, const NormalizeFuncOptions& options) {
  if (options.out())
    lowered::refuse("normalize", "an output tensor is given, and a graph gives results of its own; leave it out");
  const Proxy x = lowered::proxy_of(input);
  return x / x.norm(options.p(), options.dim(), true).clamp_min(options.eps()).expand_as(x);
}

}  // namespace fxx::inline FXX_ABI::nn::functional
