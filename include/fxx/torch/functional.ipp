// Bodies of torch/functional.hpp: each function over proxies as operators of ATen. It is as long as
// torch::nn::functional.
#pragma once

#include <ATen/Context.h>

#include <array>
#include <cmath>
#include <vector>

#include "fxx/error.hpp"
#include "fxx/torch/functional.hpp"

namespace fxx::inline FXX_ABI::nn::functional {

namespace lowered {

namespace f = fxx::functional;
namespace e = torch::enumtype;

/// A tensor of the options; None for an undefined one.
FXX_INLINE OptionalTensorArg optional(const at::Tensor& tensor) {
  return tensor.defined() ? OptionalTensorArg(tensor) : OptionalTensorArg(std::nullopt);
}
template <std::size_t D, class T>
std::vector<T> list(const torch::ExpandingArray<D, T>& values) {
  return {(*values).begin(), (*values).end()};
}
template <class Variant>
std::int64_t reduction(const Variant& value) {
  return e::reduction_get_enum(value);
}
/// The mean, the sum, or what it is.
template <class Variant>
Proxy reduced(const Proxy& loss, const Variant& how) {
  if (std::holds_alternative<e::kMean>(how)) return loss.mean();
  return std::holds_alternative<e::kSum>(how) ? loss.sum() : loss;
}
/// The input as a proxy: one of the arguments is, but it need not be this.
FXX_INLINE Proxy proxy_of(const TensorArg& tensor, std::initializer_list<const Operand*> all) {
  Tracer& tracer = fxx::detail::tracer_of(std::span(all.begin(), all.size()));
  return {tracer, tracer.create_arg(tensor).node()};
}
FXX_INLINE Proxy proxy_of(const TensorArg& tensor) { return proxy_of(tensor, {&tensor}); }
[[noreturn]] FXX_INLINE void refuse(const char* function, const char* what) {
  throw TraceError(ErrorId::unsupported_argument, std::string("nn::functional::") + function + ": " + what,
                   Tracer::context());
}

/// Sizes of the last D dimensions, each as asked for or, where it was left open, the input's own, which `kept` holds.
template <std::size_t D, class Sizes>
std::vector<fxx::functional::IntArg> sizes_or_own(const Proxy& input, const Sizes& wanted,
                                                  std::vector<ScalarProxy>& kept) {
  std::vector<fxx::functional::IntArg> sizes;
  kept.reserve(D);
  for (std::size_t i = 0; i < D; ++i) {
    const std::optional<std::int64_t> size = wanted[i];
    if (size) sizes.emplace_back(*size, std::source_location());
    else
      sizes.emplace_back(kept.emplace_back(input.size(static_cast<int>(i) - static_cast<int>(D))),
                         std::source_location());
  }
  return sizes;
}

}  // namespace lowered

// --- activations and dropout -----------------------------------------------------------------------------------------

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

// --- linear maps, convolutions, embeddings ---------------------------------------------------------------------------

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
  return bags(x.reshape(-1), offsets,
              per_sample.defined() ? OptionalTensorArg(per_sample.reshape(-1)) : OptionalTensorArg(std::nullopt));
}
FXX_INLINE Proxy one_hot(const TensorArg& tensor, std::int64_t num_classes) {
  return lowered::f::one_hot(tensor, num_classes);
}

// --- normalisation ---------------------------------------------------------------------------------------------------

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
  Proxy squares = x.mul(x).view({x.size(0), 1, x.size(1), x.size(2), -1});
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

// --- pooling ---------------------------------------------------------------------------------------------------------

FXX_INLINE Proxy avg_pool1d(const TensorArg& input, const AvgPool1dFuncOptions& options) {
  return lowered::f::avg_pool1d(input, lowered::list(options.kernel_size()), lowered::list(options.stride()),
                                lowered::list(options.padding()), options.ceil_mode(), options.count_include_pad());
}
#define FXX_POOL(D)                                                                                                 \
  FXX_INLINE Proxy avg_pool##D##d(const TensorArg& input, const AvgPool##D##dFuncOptions& options) {                \
    return lowered::f::avg_pool##D##d(input, lowered::list(options.kernel_size()), lowered::list(options.stride()), \
                                      lowered::list(options.padding()), options.ceil_mode(),                        \
                                      options.count_include_pad(), options.divisor_override());                     \
  }
FXX_POOL(2)
FXX_POOL(3)
#undef FXX_POOL
#define FXX_POOL(D)                                                                                                   \
  FXX_INLINE Proxy max_pool##D##d(const TensorArg& input, const MaxPool##D##dFuncOptions& options) {                  \
    return lowered::f::max_pool##D##d(input, lowered::list(options.kernel_size()), lowered::list(options.stride()),   \
                                      lowered::list(options.padding()), lowered::list(options.dilation()),            \
                                      options.ceil_mode());                                                           \
  }                                                                                                                   \
  FXX_INLINE std::tuple<Proxy, Proxy> max_pool##D##d_with_indices(const TensorArg& input,                             \
                                                                  const MaxPool##D##dFuncOptions& options) {          \
    return lowered::f::max_pool##D##d_with_indices(input, lowered::list(options.kernel_size()),                       \
                                                   lowered::list(options.stride()), lowered::list(options.padding()), \
                                                   lowered::list(options.dilation()), options.ceil_mode());           \
  }
FXX_POOL(1)
FXX_POOL(2)
FXX_POOL(3)
#undef FXX_POOL
FXX_INLINE Proxy adaptive_avg_pool1d(const TensorArg& input, const AdaptiveAvgPool1dFuncOptions& options) {
  return lowered::f::adaptive_avg_pool1d(input, lowered::list(options.output_size()));
}
FXX_INLINE std::tuple<Proxy, Proxy> adaptive_max_pool1d_with_indices(const TensorArg& input,
                                                                     const AdaptiveMaxPool1dFuncOptions& options) {
  return lowered::f::adaptive_max_pool1d(input, lowered::list(options.output_size()));
}
FXX_INLINE Proxy adaptive_max_pool1d(const TensorArg& input, const AdaptiveMaxPool1dFuncOptions& options) {
  return std::get<0>(adaptive_max_pool1d_with_indices(input, options));
}
#define FXX_POOL(D)                                                                                                   \
  FXX_INLINE Proxy adaptive_avg_pool##D##d(const TensorArg& input, const AdaptiveAvgPool##D##dFuncOptions& options) { \
    std::vector<ScalarProxy> kept;                                                                                    \
    const Proxy x = lowered::proxy_of(input);                                                                         \
    return lowered::f::adaptive_avg_pool##D##d(x, lowered::sizes_or_own<D>(x, *options.output_size(), kept));         \
  }                                                                                                                   \
  FXX_INLINE std::tuple<Proxy, Proxy> adaptive_max_pool##D##d_with_indices(                                           \
      const TensorArg& input, const AdaptiveMaxPool##D##dFuncOptions& options) {                                      \
    std::vector<ScalarProxy> kept;                                                                                    \
    const Proxy x = lowered::proxy_of(input);                                                                         \
    return lowered::f::adaptive_max_pool##D##d(x, lowered::sizes_or_own<D>(x, *options.output_size(), kept));         \
  }                                                                                                                   \
  FXX_INLINE Proxy adaptive_max_pool##D##d(const TensorArg& input, const AdaptiveMaxPool##D##dFuncOptions& options) { \
    return std::get<0>(adaptive_max_pool##D##d_with_indices(input, options));                                         \
  }
FXX_POOL(2)
FXX_POOL(3)
#undef FXX_POOL
namespace lowered {
/// Sizes of the result and the samples of a fractional pooling over the last D dimensions.
template <std::size_t D, class Options, class Pool>
std::tuple<Proxy, Proxy> fractional(const TensorArg& input, const Options& options, Pool&& run) {
  const Proxy x = proxy_of(input);
  const auto from_end = [&](int i) { return x.size(i - static_cast<int>(D)); };
  std::vector<ScalarProxy> sizes;
  if (!options.output_size() && !options.output_ratio())
    refuse("fractional_max_pool", "neither an output size nor an output ratio is given; give one");
  if (!options.output_size())
    for (std::size_t i = 0; i < D; ++i)
      sizes.push_back(f::to_int(from_end(static_cast<int>(i)) * (**options.output_ratio())[i]));
  const auto pool = [&](const TensorArg& samples) {
    if (options.output_size()) return run(x, list(options.kernel_size()), list(*options.output_size()), samples);
    return run(x, list(options.kernel_size()), sizes, samples);
  };
  if (options._random_samples().defined()) return pool(options._random_samples());
  // Without a batch there is one of all channels.
  ScalarProxy inner = from_end(-1);
  for (std::size_t i = 0; i < D; ++i) inner = inner * from_end(static_cast<int>(i));
  return pool(fxx::rand({x.numel() / inner, from_end(-1), static_cast<std::int64_t>(D)}, x.options()));
}
}  // namespace lowered
#define FXX_POOL(D)                                                                                          \
  FXX_INLINE std::tuple<Proxy, Proxy> fractional_max_pool##D##d_with_indices(                                \
      const TensorArg& input, const FractionalMaxPool##D##dFuncOptions& options) {                           \
    return lowered::fractional<D>(input, options, [](const auto&... arguments) -> std::tuple<Proxy, Proxy> { \
      return lowered::f::fractional_max_pool##D##d(arguments...);                                            \
    });                                                                                                      \
  }                                                                                                          \
  FXX_INLINE Proxy fractional_max_pool##D##d(const TensorArg& input,                                         \
                                             const FractionalMaxPool##D##dFuncOptions& options) {            \
    return std::get<0>(fractional_max_pool##D##d_with_indices(input, options));                              \
  }
FXX_POOL(2)
FXX_POOL(3)
#undef FXX_POOL
namespace lowered {
/// The size before pooling: as the options say, else the smallest that pools to the input's.
template <std::size_t D, class Options>
std::vector<ScalarProxy> unpooled(const Proxy& x, const Options& options) {
  std::vector<ScalarProxy> sizes;
  for (std::size_t i = 0; i < D; ++i) {
    const std::int64_t kernel = (*options.kernel_size())[i], stride = (*options.stride())[i],
                       padding = (*options.padding())[i];
    sizes.push_back((x.size(static_cast<int>(i) - static_cast<int>(D)) - 1) * stride + (kernel - 2 * padding));
  }
  return sizes;
}
template <std::size_t D, class Options, class Run>
Proxy unpool(const TensorArg& input, const TensorArg& indices, const Options& options, Run&& run) {
  const Proxy x = proxy_of(input, {&input, &indices});
  if (!options.output_size()) return run(x, unpooled<D>(x, options));
  const std::vector<std::int64_t>& given = *options.output_size();
  if (given.size() != D + 2)
    refuse("max_unpool", "the output size is not one of all dimensions, batch and channels too; give it in full");
  return run(x, std::vector<std::int64_t>(given.begin() + 2, given.end()));
}
}  // namespace lowered
FXX_INLINE Proxy max_unpool1d(const TensorArg& input, const TensorArg& indices, const MaxUnpool1dFuncOptions& options) {
  return lowered::unpool<1>(input, indices, options, [&](const Proxy& x, auto sizes) -> Proxy {
    const Proxy at = lowered::proxy_of(indices, {&input, &indices});
    std::vector<lowered::f::IntArg> two{{sizes[0], std::source_location()}, {1, std::source_location()}};
    return lowered::f::max_unpool2d(x.unsqueeze(-1), at.unsqueeze(-1), two).squeeze(-1);
  });
}
FXX_INLINE Proxy max_unpool2d(const TensorArg& input, const TensorArg& indices, const MaxUnpool2dFuncOptions& options) {
  return lowered::unpool<2>(input, indices, options, [&](const Proxy& x, const auto& sizes) -> Proxy {
    return lowered::f::max_unpool2d(x, indices, sizes);
  });
}
FXX_INLINE Proxy max_unpool3d(const TensorArg& input, const TensorArg& indices, const MaxUnpool3dFuncOptions& options) {
  return lowered::unpool<3>(input, indices, options, [&](const Proxy& x, const auto& sizes) -> Proxy {
    return lowered::f::max_unpool3d(x, indices, sizes, lowered::list(options.stride()),
                                    lowered::list(options.padding()));
  });
}
namespace lowered {
/// The root of a sum of powers, out of their mean.
template <std::size_t D, class Options>
Proxy power_mean(const Proxy& mean, const Options& options) {
  std::int64_t count = 1;
  for (const std::int64_t size : *options.kernel_size()) count *= size;
  return (mean.sign() * mean.abs().relu()).mul(count).pow(1.0 / options.norm_type());
}
}  // namespace lowered
#define FXX_POOL(D)                                                                                                    \
  FXX_INLINE Proxy lp_pool##D##d(const TensorArg& input, const LPPool##D##dFuncOptions& options) {                     \
    const Proxy powers = lowered::proxy_of(input).pow(options.norm_type());                                            \
    return lowered::power_mean<D>(lowered::f::avg_pool##D##d(powers, lowered::list(options.kernel_size()),             \
                                                             lowered::list(options.stride()), 0, options.ceil_mode()), \
                                  options);                                                                            \
  }
FXX_POOL(1)
FXX_POOL(2)
FXX_POOL(3)
#undef FXX_POOL

// --- padding, resizing, sampling -------------------------------------------------------------------------------------

FXX_INLINE Proxy pad(const TensorArg& input, const PadFuncOptions& options) {
  const auto& mode = options.mode();
  const char* name = std::holds_alternative<lowered::e::kReflect>(mode)     ? "reflect"
                     : std::holds_alternative<lowered::e::kReplicate>(mode) ? "replicate"
                     : std::holds_alternative<lowered::e::kCircular>(mode)  ? "circular"
                                                                            : "constant";
  if (options.value() != 0) return lowered::f::pad(input, options.pad(), name, options.value());
  return lowered::f::pad(input, options.pad(), name);
}
FXX_INLINE Proxy pixel_shuffle(const TensorArg& input, const PixelShuffleFuncOptions& options) {
  return lowered::f::pixel_shuffle(input, options.upscale_factor());
}
FXX_INLINE Proxy pixel_unshuffle(const TensorArg& input, const PixelUnshuffleFuncOptions& options) {
  return lowered::f::pixel_unshuffle(input, options.downscale_factor());
}
namespace lowered {
FXX_INLINE Proxy record(OperatorIndex index, std::initializer_list<const Operand*> operands) {
  return f::detail::make_tensor(index, operands, false);
}
}  // namespace lowered
FXX_INLINE Proxy interpolate(const TensorArg& input, const InterpolateFuncOptions& options) {
  using lowered::f::IntArg, lowered::f::IntListArg, lowered::f::OptionalRealArg, lowered::f::BoolArg;
  const auto& scales = options.scale_factor();
  if (options.size().has_value() == scales.has_value())
    lowered::refuse("interpolate", "either a size or a scale factor has to be given, and not both; give one of them");
  const std::size_t dims = options.size() ? options.size()->size() : scales->size();
  const auto& mode = options.mode();
  const auto is = [&]<class Mode>(std::type_identity<Mode>) { return std::holds_alternative<Mode>(mode); };
  const bool nearest = is(std::type_identity<lowered::e::kNearest>()),
             exact = is(std::type_identity<lowered::e::kNearestExact>()),
             area = is(std::type_identity<lowered::e::kArea>()), linear = is(std::type_identity<lowered::e::kLinear>()),
             bilinear = is(std::type_identity<lowered::e::kBilinear>()),
             bicubic = is(std::type_identity<lowered::e::kBicubic>()),
             trilinear = is(std::type_identity<lowered::e::kTrilinear>());
  const std::size_t needed = linear ? 1 : bilinear || bicubic ? 2 : trilinear ? 3 : dims;
  if (dims != needed || dims < 1 || dims > 3)
    lowered::refuse("interpolate",
                    "the mode is for another number of dimensions than the size or the scale factors have");
  if (options.antialias() && !bilinear && !bicubic)
    lowered::refuse("interpolate", "only bilinear and bicubic resizing can be anti-aliased; leave antialias out");
  if ((nearest || area) && options.align_corners())
    lowered::refuse("interpolate", "align_corners is for linear and cubic modes only; leave it out");

  // The size of the result, and the scales as the operator takes them: none where the size decides.
  const Proxy x = lowered::proxy_of(input);
  std::vector<ScalarProxy> computed;
  std::vector<IntArg> size;
  std::vector<OptionalRealArg> scale(3, OptionalRealArg(std::nullopt));
  computed.reserve(dims);
  for (std::size_t i = 0; i < dims; ++i) {
    if (options.size()) {
      size.emplace_back((*options.size())[i], std::source_location());
    } else {
      computed.push_back(
          lowered::f::to_int(lowered::f::floor(x.size(static_cast<int>(i) - static_cast<int>(dims)) * (*scales)[i])));
      size.emplace_back(computed.back(), std::source_location());
      if (!options.recompute_scale_factor().value_or(false)) scale[i] = OptionalRealArg((*scales)[i]);
    }
  }
  const TensorArg self(x);
  const IntListArg sizes(size);
  const BoolArg corners(options.align_corners().value_or(false));
  using Op = OperatorIndex;
  using lowered::record;
  if (area)
    return dims == 1   ? record(Op::adaptive_avg_pool1d, {&self, &sizes})
           : dims == 2 ? record(Op::adaptive_avg_pool2d, {&self, &sizes})
                       : record(Op::adaptive_avg_pool3d, {&self, &sizes});
  if (nearest || exact) {
    if (dims == 1)
      return record(exact ? Op::_upsample_nearest_exact1d : Op::upsample_nearest1d, {&self, &sizes, &scale[0]});
    if (dims == 2)
      return record(exact ? Op::_upsample_nearest_exact2d : Op::upsample_nearest2d,
                    {&self, &sizes, &scale[0], &scale[1]});
    return record(exact ? Op::_upsample_nearest_exact3d : Op::upsample_nearest3d,
                  {&self, &sizes, &scale[0], &scale[1], &scale[2]});
  }
  if (linear) return record(Op::upsample_linear1d, {&self, &sizes, &corners, &scale[0]});
  if (trilinear) return record(Op::upsample_trilinear3d, {&self, &sizes, &corners, &scale[0], &scale[1], &scale[2]});
  const OperatorIndex index = options.antialias() ? (bicubic ? Op::_upsample_bicubic2d_aa : Op::_upsample_bilinear2d_aa)
                                                  : (bicubic ? Op::upsample_bicubic2d : Op::upsample_bilinear2d);
  return record(index, {&self, &sizes, &corners, &scale[0], &scale[1]});
}
FXX_INLINE Proxy affine_grid(const TensorArg& theta, const IntListOrOneArg& size, bool align_corners) {
  return lowered::f::affine_grid_generator(theta, size, align_corners);
}
FXX_INLINE Proxy grid_sample(const TensorArg& input, const TensorArg& grid, const GridSampleFuncOptions& options) {
  const int mode = std::holds_alternative<lowered::e::kBilinear>(options.mode())  ? 0
                   : std::holds_alternative<lowered::e::kNearest>(options.mode()) ? 1
                                                                                  : 2;
  const int padding = std::holds_alternative<lowered::e::kZeros>(options.padding_mode())    ? 0
                      : std::holds_alternative<lowered::e::kBorder>(options.padding_mode()) ? 1
                                                                                            : 2;
  return lowered::f::grid_sampler(input, grid, mode, padding, options.align_corners().value_or(false));
}

// --- distances and losses --------------------------------------------------------------------------------------------

FXX_INLINE Proxy cosine_similarity(const TensorArg& x1, const TensorArg& x2,
                                   const CosineSimilarityFuncOptions& options) {
  return lowered::f::cosine_similarity(x1, x2, options.dim(), options.eps());
}
FXX_INLINE Proxy pairwise_distance(const TensorArg& x1, const TensorArg& x2,
                                   const PairwiseDistanceFuncOptions& options) {
  return lowered::f::pairwise_distance(x1, x2, options.p(), options.eps(), options.keepdim());
}
FXX_INLINE Proxy pdist(const TensorArg& input, double p) { return lowered::f::pdist(input, p); }
FXX_INLINE Proxy l1_loss(const TensorArg& input, const TensorArg& target, const L1LossFuncOptions& options) {
  return lowered::f::l1_loss(input, target, lowered::reduction(options.reduction()));
}
FXX_INLINE Proxy mse_loss(const TensorArg& input, const TensorArg& target, const MSELossFuncOptions& options) {
  return lowered::f::mse_loss(input, target, lowered::reduction(options.reduction()));
}
FXX_INLINE Proxy smooth_l1_loss(const TensorArg& input, const TensorArg& target,
                                const SmoothL1LossFuncOptions& options) {
  return lowered::f::smooth_l1_loss(input, target, lowered::reduction(options.reduction()),
                                    options.beta().value_or(1.0));
}
FXX_INLINE Proxy huber_loss(const TensorArg& input, const TensorArg& target, const HuberLossFuncOptions& options) {
  return lowered::f::huber_loss(input, target, lowered::reduction(options.reduction()), options.delta());
}
FXX_INLINE Proxy kl_div(const TensorArg& input, const TensorArg& target, const KLDivFuncOptions& options) {
  const bool batch = std::holds_alternative<lowered::e::kBatchMean>(options.reduction());
  const std::int64_t reduction = batch ? std::int64_t{at::Reduction::Sum} : lowered::reduction(options.reduction());
  const Proxy loss = lowered::f::kl_div(input, target, reduction, options.log_target());
  return batch ? loss / lowered::proxy_of(input, {&input, &target}).size(0) : loss;
}
FXX_INLINE Proxy cross_entropy(const TensorArg& input, const TensorArg& target,
                               const CrossEntropyFuncOptions& options) {
  return lowered::f::cross_entropy_loss(input, target, lowered::optional(options.weight()),
                                        lowered::reduction(options.reduction()), options.ignore_index(),
                                        options.label_smoothing());
}
FXX_INLINE Proxy nll_loss(const TensorArg& input, const TensorArg& target, const NLLLossFuncOptions& options) {
  return lowered::f::nll_loss_nd(input, target, lowered::optional(options.weight()),
                                 lowered::reduction(options.reduction()), options.ignore_index());
}
FXX_INLINE Proxy poisson_nll_loss(const TensorArg& input, const TensorArg& target,
                                  const PoissonNLLLossFuncOptions& options) {
  return lowered::f::poisson_nll_loss(input, target, options.log_input(), options.full(), options.eps(),
                                      lowered::reduction(options.reduction()));
}
FXX_INLINE Proxy binary_cross_entropy(const TensorArg& input, const TensorArg& target,
                                      const BinaryCrossEntropyFuncOptions& options) {
  return lowered::f::binary_cross_entropy(input, target, lowered::optional(options.weight()),
                                          lowered::reduction(options.reduction()));
}
FXX_INLINE Proxy binary_cross_entropy_with_logits(const TensorArg& input, const TensorArg& target,
                                                  const BinaryCrossEntropyWithLogitsFuncOptions& options) {
  return lowered::f::binary_cross_entropy_with_logits(input, target, lowered::optional(options.weight()),
                                                      lowered::optional(options.pos_weight()),
                                                      lowered::reduction(options.reduction()));
}
FXX_INLINE Proxy hinge_embedding_loss(const TensorArg& input, const TensorArg& target,
                                      const HingeEmbeddingLossFuncOptions& options) {
  return lowered::f::hinge_embedding_loss(input, target, options.margin(), lowered::reduction(options.reduction()));
}
FXX_INLINE Proxy multi_margin_loss(const TensorArg& input, const TensorArg& target,
                                   const MultiMarginLossFuncOptions& options) {
  return lowered::f::multi_margin_loss(input, target, options.p(), options.margin(),
                                       lowered::optional(options.weight()), lowered::reduction(options.reduction()));
}
FXX_INLINE Proxy multilabel_margin_loss(const TensorArg& input, const TensorArg& target,
                                        const MultilabelMarginLossFuncOptions& options) {
  return lowered::f::multilabel_margin_loss(input, target, lowered::reduction(options.reduction()));
}
FXX_INLINE Proxy multilabel_soft_margin_loss(const TensorArg& input, const TensorArg& target,
                                             const MultilabelSoftMarginLossFuncOptions& options) {
  const Proxy x = lowered::proxy_of(input, {&input, &target}), y = lowered::proxy_of(target, {&input, &target});
  Proxy loss = -(y * lowered::f::log_sigmoid(x) + (1 - y) * lowered::f::log_sigmoid(-x));
  if (options.weight().defined()) loss = loss * options.weight();
  return lowered::reduced(loss.sum(-1) / x.size(-1), options.reduction());
}
FXX_INLINE Proxy soft_margin_loss(const TensorArg& input, const TensorArg& target,
                                  const SoftMarginLossFuncOptions& options) {
  return lowered::f::soft_margin_loss(input, target, lowered::reduction(options.reduction()));
}
FXX_INLINE Proxy cosine_embedding_loss(const TensorArg& input1, const TensorArg& input2, const TensorArg& target,
                                       const CosineEmbeddingLossFuncOptions& options) {
  return lowered::f::cosine_embedding_loss(input1, input2, target, options.margin(),
                                           lowered::reduction(options.reduction()));
}
FXX_INLINE Proxy margin_ranking_loss(const TensorArg& input1, const TensorArg& input2, const TensorArg& target,
                                     const MarginRankingLossFuncOptions& options) {
  return lowered::f::margin_ranking_loss(input1, input2, target, options.margin(),
                                         lowered::reduction(options.reduction()));
}
FXX_INLINE Proxy triplet_margin_loss(const TensorArg& anchor, const TensorArg& positive, const TensorArg& negative,
                                     const TripletMarginLossFuncOptions& options) {
  return lowered::f::triplet_margin_loss(anchor, positive, negative, options.margin(), options.p(), options.eps(),
                                         options.swap(), lowered::reduction(options.reduction()));
}
FXX_INLINE Proxy triplet_margin_with_distance_loss(const TensorArg& anchor, const TensorArg& positive,
                                                   const TensorArg& negative,
                                                   const TripletMarginWithDistanceLossFuncOptions& options) {
  if (options.distance_function())
    lowered::refuse("triplet_margin_with_distance_loss",
                    "a distance function of one's own takes tensors, not proxies; compute the loss with it in forward");
  const Proxy near = lowered::f::pairwise_distance(anchor, positive);
  Proxy far = lowered::f::pairwise_distance(anchor, negative);
  if (options.swap()) far = lowered::f::min(far, lowered::f::pairwise_distance(positive, negative));
  return lowered::reduced(lowered::f::clamp_min(near - far + options.margin(), 0), options.reduction());
}
FXX_INLINE Proxy ctc_loss(const TensorArg& log_probs, const TensorArg& targets, const TensorArg& input_lengths,
                          const TensorArg& target_lengths, const CTCLossFuncOptions& options) {
  return lowered::f::ctc_loss(log_probs, targets, input_lengths, target_lengths, options.blank(),
                              lowered::reduction(options.reduction()), options.zero_infinity());
}

}  // namespace fxx::inline FXX_ABI::nn::functional
