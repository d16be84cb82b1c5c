// Drop-in leaf modules: torch::nn's own, which a symbolic trace records as call_module.
//
// `fxx::nn::Linear fc{4, 5};` is a torch::nn::Linear in every way: it registers, trains, saves, is called with tensors.
// Called with a proxy, it records the call. `fxx::nn::leaf<Holder>` makes one of any module holder.
// Main names: nn::leaf, nn::Linear and so on. Cost: heavy (torch/nn/modules.h).
#pragma once

#include <torch/nn/modules.h>

#include <utility>

#include "fxx/torch/symbolic_trace.hpp"

namespace fxx::inline FXX_ABI::nn {

namespace detail {

/// What may be passed to a module: a tensor, a number, a list of tensors. Without a line: a variadic call has no place
/// to take it from.
class ModuleArg : public Operand {
 public:
  template <class T>
  ModuleArg(const T& value, std::source_location where = {}) {
    if constexpr (fxx::detail::Sequence<T> && !fxx::detail::HasTraits<T>) set_items<ModuleArg>(value, where);
    else set(value, where);
  }
  ModuleArg(const ModuleArg& other, std::source_location) : ModuleArg(other) {}
  ModuleArg(const ModuleArg&) = default;
};

template <class... A>
inline constexpr bool any_proxy = (std::derived_from<std::remove_cvref_t<A>, ProxyBase> || ...);

}  // namespace detail

/// A module holder that records calls with proxies. It hides ModuleHolder::operator(): that one's return type does not
/// compile with a proxy.
template <class Holder>
struct leaf : Holder {
  using Holder::Holder;

  template <class... A>
  decltype(auto) operator()(A&&... inputs) {
    if constexpr (detail::any_proxy<A...>) return record(inputs...);
    // The holder's own operator cannot tell what a template returns.
    else if constexpr (requires { (*this)->forward(std::forward<A>(inputs)...); })
      return (*this)->forward(std::forward<A>(inputs)...);
    else return Holder::operator()(std::forward<A>(inputs)...);
  }

 private:
  /// What forward returns for proxies; a Proxy, when it takes tensors only.
  template <class... A>
  auto record(const A&... inputs) {
    const detail::ModuleArg operands[] = {detail::ModuleArg(inputs)...};
    std::vector<const Operand*> all;
    for (const detail::ModuleArg& operand : operands) all.push_back(&operand);
    if constexpr (requires { (*this)->forward(inputs...); }) {
      using Result = std::remove_cvref_t<decltype((*this)->forward(inputs...))>;
      return fxx::detail::record_module_call<Result>(*this->get(), all, inputs...);
    } else {
      return fxx::detail::record_module_call<Proxy>(*this->get(), all, inputs...);
    }
  }
};

// The modules of torch::nn under their own names.
#define FXX_LEAF_MODULES(X)                                                                                           \
  X(Linear)                                                                                                           \
  X(Bilinear)                                                                                                         \
  X(Identity)                                                                                                         \
  X(Flatten) X(Unflatten) X(Conv1d) X(Conv2d) X(Conv3d) X(ConvTranspose1d) X(ConvTranspose2d) X(ConvTranspose3d)      \
      X(BatchNorm1d) X(BatchNorm2d) X(BatchNorm3d) X(InstanceNorm1d) X(InstanceNorm2d) X(InstanceNorm3d) X(LayerNorm) \
          X(GroupNorm) X(LocalResponseNorm) X(Embedding) X(EmbeddingBag) X(Dropout) X(Dropout2d) X(Dropout3d)         \
              X(AlphaDropout) X(FeatureAlphaDropout) X(ReLU) X(ReLU6) X(GELU) X(SiLU) X(Mish) X(Sigmoid) X(Tanh)      \
                  X(ELU) X(SELU) X(CELU) X(GLU) X(LeakyReLU) X(PReLU) X(RReLU) X(Hardtanh) X(Hardshrink) X(Softplus)  \
                      X(Softshrink) X(Softsign) X(Tanhshrink) X(Threshold) X(LogSigmoid) X(Softmax) X(Softmin)        \
                          X(Softmax2d) X(LogSoftmax) X(MaxPool1d) X(MaxPool2d) X(MaxPool3d) X(AvgPool1d) X(AvgPool2d) \
                              X(AvgPool3d) X(AdaptiveAvgPool1d) X(AdaptiveAvgPool2d) X(AdaptiveAvgPool3d)             \
                                  X(AdaptiveMaxPool1d) X(AdaptiveMaxPool2d) X(AdaptiveMaxPool3d) X(LPPool1d)          \
                                      X(LPPool2d) X(PixelShuffle) X(PixelUnshuffle) X(Upsample) X(ReflectionPad1d)    \
                                          X(ReflectionPad2d) X(ReplicationPad1d) X(ReplicationPad2d)                  \
                                              X(ReplicationPad3d) X(ZeroPad2d) X(ConstantPad1d) X(ConstantPad2d)      \
                                                  X(ConstantPad3d) X(Fold) X(Unfold) X(CosineSimilarity)              \
                                                      X(PairwiseDistance)
#define FXX_LEAF(name) using name = leaf<torch::nn::name>;
FXX_LEAF_MODULES(FXX_LEAF)
#undef FXX_LEAF

}  // namespace fxx::inline FXX_ABI::nn
