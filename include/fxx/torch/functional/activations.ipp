// Activations and dropout of torch/functional.hpp.
#pragma once

#include "fxx/torch/functional/lowered.ipp"

namespace fxx::inline FXX_ABI::nn::functional {

#define FXX_IN_PLACE(name, Options, ...)                                  \
  FXX_INLINE Proxy name(const TensorArg& input, const Options& options) { \
    if (options.inplace()) return lowered::f::name##_(__VA_ARGS__);       \
    return lowered::f::name(__VA_ARGS__);                                 \
  }
FXX_IN_PLACE(elu, ELUFuncOptions, input, options.alpha())
FXX_IN_PLACE(selu, SELUFuncOptions, input)
FXX_IN_PLACE(celu, CELUFuncOptions, input, options.alpha())
FXX_IN_PLACE(hardtanh, HardtanhFuncOptions, input, options.min_val(), options.max_val())
FXX_IN_PLACE(leaky_relu, LeakyReLUFuncOptions, input, options.negative_slope())
FXX_IN_PLACE(relu, ReLUFuncOptions, input)
FXX_IN_PLACE(relu6, ReLU6FuncOptions, input)
FXX_IN_PLACE(rrelu, RReLUFuncOptions, input, options.lower(), options.upper(), options.training())
FXX_IN_PLACE(threshold, ThresholdFuncOptions, input, options.threshold(), options.value())
FXX_IN_PLACE(dropout, DropoutFuncOptions, input, options.p(), options.training())
FXX_IN_PLACE(alpha_dropout, AlphaDropoutFuncOptions, input, options.p(), options.training())
FXX_IN_PLACE(feature_alpha_dropout, FeatureAlphaDropoutFuncOptions, input, options.p(), options.training())
#undef FXX_IN_PLACE
FXX_INLINE Proxy dropout2d(const TensorArg& input, const Dropout2dFuncOptions& options) {
  if (options.inplace()) return lowered::f::feature_dropout_(input, options.p(), options.training());
  return lowered::f::feature_dropout(input, options.p(), options.training());
}
FXX_INLINE Proxy dropout3d(const TensorArg& input, const Dropout3dFuncOptions& options) {
  if (options.inplace()) return lowered::f::feature_dropout_(input, options.p(), options.training());
  return lowered::f::feature_dropout(input, options.p(), options.training());
}
FXX_INLINE Proxy hardshrink(const TensorArg& input, const HardshrinkFuncOptions& options) {
  return lowered::f::hardshrink(input, options.lambda());
}
FXX_INLINE Proxy logsigmoid(const TensorArg& input) { return lowered::f::log_sigmoid(input); }
FXX_INLINE Proxy gumbel_softmax(const TensorArg& logits, const GumbelSoftmaxFuncOptions& options) {
  const Proxy x = lowered::proxy_of(logits);
  const int dim = options.dim();
  const Proxy noise = -lowered::f::empty_like(x).exponential_().log();
  const Proxy soft = ((x + noise) / options.tau()).softmax(dim);
  if (!options.hard()) return soft;
  // One-hot forwards, the gradient of the soft one backwards.
  const Proxy hard = lowered::f::zeros_like(x).scatter_(dim, std::get<1>(soft.max(dim, true)), 1.0);
  return hard - soft.detach() + soft;
}
FXX_INLINE Proxy softmax(const TensorArg& input, const SoftmaxFuncOptions& options) {
  if (options.dtype()) return lowered::f::softmax(input, options.dim(), *options.dtype());
  return lowered::f::softmax(input, options.dim());
}
FXX_INLINE Proxy softmin(const TensorArg& input, const SoftminFuncOptions& options) {
  if (options.dtype()) return lowered::f::softmax(-lowered::proxy_of(input), options.dim(), *options.dtype());
  return lowered::f::softmax(-lowered::proxy_of(input), options.dim());
}
FXX_INLINE Proxy log_softmax(const TensorArg& input, const LogSoftmaxFuncOptions& options) {
  if (options.dtype()) return lowered::f::log_softmax(input, options.dim(), *options.dtype());
  return lowered::f::log_softmax(input, options.dim());
}
FXX_INLINE Proxy glu(const TensorArg& input, const GLUFuncOptions& options) {
  return lowered::f::glu(input, options.dim());
}
FXX_INLINE Proxy gelu(const TensorArg& input, const GELUFuncOptions& options) {
  return lowered::f::gelu(input, options.approximate());
}
FXX_INLINE Proxy silu(const TensorArg& input) { return lowered::f::silu(input); }
FXX_INLINE Proxy mish(const TensorArg& input) { return lowered::f::mish(input); }
FXX_INLINE Proxy prelu(const TensorArg& input, const TensorArg& weight) { return lowered::f::prelu(input, weight); }
FXX_INLINE Proxy softplus(const TensorArg& input, const SoftplusFuncOptions& options) {
  return lowered::f::softplus(input, options.beta(), options.threshold());
}
FXX_INLINE Proxy softshrink(const TensorArg& input, const SoftshrinkFuncOptions& options) {
  return lowered::f::softshrink(input, options.lambda());
}
FXX_INLINE Proxy softsign(const TensorArg& input) {
  const Proxy x = lowered::proxy_of(input);
  return x / (x.abs() + 1);
}
FXX_INLINE Proxy tanhshrink(const TensorArg& input) {
  const Proxy x = lowered::proxy_of(input);
  return x - x.tanh();
}

}  // namespace fxx::inline FXX_ABI::nn::functional
