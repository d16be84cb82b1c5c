// What the functions of torch/functional.hpp have in common: options as arguments of operators.
#pragma once

#include <ATen/Context.h>

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

}  // namespace fxx::inline FXX_ABI::nn::functional
