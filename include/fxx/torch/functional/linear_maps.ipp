// Linear maps, convolutions, embeddings of torch/functional.hpp.
#pragma once

#include "fxx/torch/functional/lowered.ipp"

namespace fxx::inline FXX_ABI::nn::functional {

FXX_INLINE Proxy linear(const TensorArg& input, const TensorArg& weight, const OptionalTensorArg& bias) {
  return lowered::f::linear(input, weight, bias);
}
FXX_INLINE Proxy bilinear(const TensorArg& input1, const TensorArg& input2, const TensorArg& weight,
                          const OptionalTensorArg& bias) {
  return lowered::f::bilinear(input1, input2, weight, bias);
}
namespace lowered {
template <std::size_t D, class Options, class Convolution>
Proxy convolution(const Options& options, Convolution&& run) {
  const std::vector<std::int64_t> stride = list(options.stride()), dilation = list(options.dilation());
  if (const auto* padding = std::get_if<torch::ExpandingArray<D>>(&options.padding()))
    return run(optional(options.bias()), stride, list(*padding), dilation);
  const bool same = std::holds_alternative<e::kSame>(options.padding());
  return run(optional(options.bias()), stride, same ? "same" : "valid", dilation);
}
}  // namespace lowered
#define FXX_CONVOLUTION(D)                                                                                             \
  FXX_INLINE Proxy conv##D##d(const TensorArg& input, const TensorArg& weight, const Conv##D##dFuncOptions& options) { \
    return lowered::convolution<D>(                                                                                    \
        options, [&](const auto& bias, const auto& stride, const auto& padding, const auto& dilation) -> Proxy {       \
          return lowered::f::conv##D##d(input, weight, bias, stride, padding, dilation, options.groups());             \
        });                                                                                                            \
  }
FXX_CONVOLUTION(1)
FXX_CONVOLUTION(2)
FXX_CONVOLUTION(3)
#undef FXX_CONVOLUTION
#define FXX_CONVOLUTION(D)                                                                                     \
  FXX_INLINE Proxy conv_transpose##D##d(const TensorArg& input, const TensorArg& weight,                       \
                                        const ConvTranspose##D##dFuncOptions& options) {                       \
    return lowered::f::conv_transpose##D##d(input, weight, lowered::optional(options.bias()),                  \
                                            lowered::list(options.stride()), lowered::list(options.padding()), \
                                            lowered::list(options.output_padding()), options.groups(),         \
                                            lowered::list(options.dilation()));                                \
  }
FXX_CONVOLUTION(1)
FXX_CONVOLUTION(2)
FXX_CONVOLUTION(3)
#undef FXX_CONVOLUTION
FXX_INLINE Proxy fold(const TensorArg& input, const FoldFuncOptions& options) {
  return lowered::f::col2im(input, lowered::list(options.output_size()), lowered::list(options.kernel_size()),
                            lowered::list(options.dilation()), lowered::list(options.padding()),
                            lowered::list(options.stride()));
}
FXX_INLINE Proxy unfold(const TensorArg& input, const UnfoldFuncOptions& options) {
  return lowered::f::im2col(input, lowered::list(options.kernel_size()), lowered::list(options.dilation()),
                            lowered::list(options.padding()), lowered::list(options.stride()));
}
FXX_INLINE Proxy embedding(const TensorArg& input, const TensorArg& weight, const EmbeddingFuncOptions& options) {
  if (options.max_norm())
    lowered::refuse("embedding",
                    "max_norm renormalises the weight in place; call fxx::nn::Embedding, which is one node");
  const std::int64_t padding = options.padding_idx().value_or(-1);
  if (options.padding_idx() && padding < 0) {
    // From the end, which the operator does not know: -1 means none to it.
    const ScalarProxy row = lowered::proxy_of(weight, {&input, &weight}).size(0) + padding;
    return lowered::f::embedding(weight, input, row, options.scale_grad_by_freq(), options.sparse());
  }
  return lowered::f::embedding(weight, input, padding, options.scale_grad_by_freq(), options.sparse());
}
FXX_INLINE Proxy embedding_bag(const TensorArg& input, const TensorArg& weight,
                               const EmbeddingBagFuncOptions& options) {
  if (options.max_norm())
    lowered::refuse("embedding_bag",
                    "max_norm renormalises the weight in place; call fxx::nn::EmbeddingBag, which is one node");
  const std::int64_t mode = std::holds_alternative<lowered::e::kSum>(options.mode())    ? 0
                            : std::holds_alternative<lowered::e::kMean>(options.mode()) ? 1
                                                                                        : 2;
  const auto bags = [&](const TensorArg& indices, const TensorArg& offsets, const OptionalTensorArg& weights) {
    if (options.padding_idx())
      return std::get<0>(lowered::f::embedding_bag(weight, indices, offsets, options.scale_grad_by_freq(), mode,
                                                   options.sparse(), weights, options.include_last_offset(),
                                                   options.padding_idx()));
    return std::get<0>(lowered::f::embedding_bag(weight, indices, offsets, options.scale_grad_by_freq(), mode,
                                                 options.sparse(), weights, options.include_last_offset()));
  };
  const at::Tensor& per_sample = options.per_sample_weights();
  if (options.offsets().defined()) return bags(input, options.offsets(), lowered::optional(per_sample));
  // Bags of one length, a row each.
  const Proxy x = lowered::proxy_of(input, {&input, &weight});
  const Proxy offsets = fxx::arange(0, x.numel(), x.size(1), x.options().dtype(Dtype::int64));
  if (!per_sample.defined()) return bags(x.reshape(-1), offsets, std::nullopt);
  return bags(x.reshape(-1), offsets, lowered::proxy_of(per_sample, {&input, &weight}).reshape(-1));
}
FXX_INLINE Proxy one_hot(const TensorArg& tensor, std::int64_t num_classes) {
  return lowered::f::one_hot(tensor, num_classes);
}

}  // namespace fxx::inline FXX_ABI::nn::functional
