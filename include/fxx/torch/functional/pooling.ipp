// Pooling of torch/functional.hpp.
#pragma once

#include "fxx/torch/functional/lowered.ipp"

namespace fxx::inline FXX_ABI::nn::functional {

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

}  // namespace fxx::inline FXX_ABI::nn::functional
