// Drop-in leaf modules: torch::nn's own, which a symbolic trace records as call_module.
//
// `fxx::nn::Linear fc{4, 5};` is a torch::nn::Linear in every way: it registers, trains, saves, is called with tensors.
// Called with a proxy, it records the call. `fxx::nn::leaf<Holder>` makes one of any module holder. Every module of
// torch::nn is here under its own name; containers are in torch/containers.hpp. FXX_MODULE(Net) makes a holder of a
// module of yours whose forward is a template, as TORCH_MODULE does for others.
// Main names: nn::leaf, nn::Linear and so on, FXX_MODULE. Cost: heavy (torch/nn/modules.h).
#pragma once

#include <torch/nn/modules.h>
#include <torch/version.h>

#include <utility>

#include "fxx/torch/symbolic_trace.hpp"
#include "fxx/trace/scope.hpp"

#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR == 13
/// What LibTorch's own holders ask when they are called. With a proxy, a module of torch::nn has no answer, and the
/// compiler's words for that are many; these come first.
template <class Module, class... A>
  requires((std::derived_from<std::remove_cvref_t<A>, fxx::ProxyBase> || ...) &&
           !requires(Module& module, A&&... inputs) { module.forward(static_cast<A&&>(inputs)...); })
struct torch::detail::return_type_of_forward_impl<true, Module, A...> {
  static_assert(fxx::detail::never<Module>,
                "fxx: a plain module of torch::nn is called with a proxy, which it cannot take; declare it as "
                "fxx::nn::Linear and the like, or as fxx::nn::leaf<YourHolder>, which are the same modules otherwise");
  using type = fxx::Proxy;
};
#endif

namespace fxx::inline FXX_ABI {

namespace detail {

/// A value of a trace.
struct TracedArgument {
  Tracer& tracer;
  Argument value;
};
/// The call of a submodule whose forward takes tensors only.
TracedArgument record_leaf_call(torch::nn::Module& module, std::span<const Operand* const> operands);
/// What stands for a result of type R.
template <class R>
auto traced_argument(const TracedArgument& made) {
  using Traced = decltype(traced_result<R>(made.tracer, made.value.node()));
  if (made.value.is_node()) return traced_result<R>(made.tracer, made.value.node());
  if constexpr (!requires { result_traits<R>::make; }) return from_argument<Traced>(made.tracer, made.value);
  else wrong_structure(made.value, "one traced value");
}

/// The get_attr node of a module that is passed to a function.
Argument module_argument(Tracer& tracer, const torch::nn::Module& module);

/// Records the call of a module by its dynamic type.
using RecordModule = Argument (*)(torch::nn::Module&, Tracer&, std::span<const Argument>);
void register_recorder(const std::type_info& type, RecordModule record);
/// Like record_leaf_call for a module whose forward takes tensors only, or of a type that know_module never saw.
Argument record_module_with(torch::nn::Module& module, Tracer& tracer, const ModuleForward& forward,
                            std::span<const Argument> args);
Argument record_any_module(torch::nn::Module& module, Tracer& tracer, std::span<const Argument> args);

template <class Impl>
concept PlainForward = requires { &Impl::forward; };

}  // namespace detail

namespace detail {

template <std::size_t, class T>
using SameFor = T;
/// How many inputs the forward of a module may take where only its type is known.
inline constexpr std::size_t most_inputs = 8;
/// Calls `f` with N as a constant, where forward takes N values of type T; false when it does not.
template <class Impl, class T, std::size_t N = 1, class F>
bool with_arity(std::size_t count, F&& f) {
  if constexpr (N > most_inputs) {
    return false;
  } else {
    if (count != N) return with_arity<Impl, T, N + 1>(count, f);
    return [&]<std::size_t... I>(std::index_sequence<I...> indices) {
      if constexpr (requires(Impl& module) { module.forward(std::declval<const SameFor<I, T>&>()...); }) {
        f(indices);
        return true;
      } else {
        return false;
      }
    }(std::make_index_sequence<N>());
  }
}

/// Makes graphs and containers able to call modules of this type, whose forward may be a template over the tensor type.
template <class Impl>
void know_module() {
  if constexpr (std::derived_from<Impl, GraphModule>) {
    know_graph_module<Impl>();
    register_recorder(typeid(Impl), [](torch::nn::Module& module, Tracer& tracer, std::span<const Argument> args) {
      return inline_graph_module(dynamic_cast<GraphModule&>(module), tracer, args);
    });
  } else if constexpr (PlainForward<Impl>) {
    register_module_call(typeid(Impl), &call_typed<Impl>);
  } else if constexpr (!std::same_as<Impl, torch::nn::Module>) {
    for (std::size_t count = 1; count <= most_inputs; ++count)
      with_arity<Impl, at::Tensor>(count, []<std::size_t... I>(std::index_sequence<I...>) {
        know_call<Impl, SameFor<I, const at::Tensor&>...>(typeid(Impl));
      });
    register_recorder(typeid(Impl), [](torch::nn::Module& module, Tracer& tracer, std::span<const Argument> args) {
      auto& impl = dynamic_cast<Impl&>(module);
      const ModuleForward forward = [&](std::span<const Argument> given) {
        Argument value;
        const bool found = with_arity<Impl, Proxy>(given.size(), [&]<std::size_t... I>(std::index_sequence<I...>) {
          value = to_argument(tracer, impl.forward(from_argument<Proxy>(tracer, given[I])...));
        });
        if (!found) no_such_forward(module, given.size());
        return value;
      };
      return record_module_with(module, tracer, forward, args);
    });
  }
}
/// Knows a type from the first holder of it on.
template <class Impl>
struct KnownModule {
  KnownModule() {
    static const bool once = (know_module<Impl>(), true);
    (void)once;
  }
};

}  // namespace detail

// A module as an argument of a wrapped function is the module in the graph too: a get_attr node of its name.
template <class T>
  requires torch::detail::is_module_holder<T>::value
struct argument_traits<T> {
  static constexpr ValueType type = ValueType::other;
  static constexpr bool list = false;
  static Argument create(Tracer& tracer, const T& module) { return detail::module_argument(tracer, *module); }
};
template <std::derived_from<torch::nn::Module> T>
struct argument_traits<std::shared_ptr<T>> {
  static constexpr ValueType type = ValueType::other;
  static constexpr bool list = false;
  static Argument create(Tracer& tracer, const std::shared_ptr<T>& module) {
    return detail::module_argument(tracer, *module);
  }
};
template <std::derived_from<torch::nn::Module> T>
struct argument_traits<T> {
  static constexpr ValueType type = ValueType::other;
  static constexpr bool list = false;
  static Argument create(Tracer& tracer, const T& module) { return detail::module_argument(tracer, module); }
};

namespace nn {

/// A module holder that records calls with proxies: one call_module node where the tracer says that the module is a
/// leaf, else what forward does. It hides ModuleHolder::operator(), whose return type does not compile with a proxy.
template <class Holder>
struct leaf : Holder {
  using Impl = typename Holder::ContainedType;
  using Holder::Holder;

  template <class... A>
  decltype(auto) operator()(A&&... inputs) {
    if constexpr ((fxx::detail::holds_proxies<std::remove_cvref_t<A>> || ...)) return record(inputs...);
    else if constexpr (fxx::detail::PlainForward<Impl>) return Holder::operator()(std::forward<A>(inputs)...);
    else return (*this)->forward(std::forward<A>(inputs)...);  // LibTorch's own takes no templates
  }

 private:
  template <class... A>
  auto record(const A&... inputs) {
    const fxx::detail::AnyOperands operands(inputs...);
    if constexpr (requires { (*this)->forward(inputs...); }) {
      using Result = std::remove_cvref_t<decltype((*this)->forward(inputs...))>;
      return fxx::detail::record_module_call<Result>(*this->get(), operands, inputs...);
    } else {
      constexpr bool plain = fxx::detail::PlainForward<Impl>;
      static_assert(plain,
                    "fxx::nn::leaf: forward of this module cannot be called with these proxies, nor is it one plain "
                    "function of tensors; write it as a template that takes them");
      if constexpr (plain) {
        constexpr bool fits = fxx::detail::forward_takes<Impl, sizeof...(A)>();
        static_assert(fits, "fxx::nn::leaf: a module is called with more or fewer inputs than its forward takes");
        if constexpr (!fits) {
          return fxx::detail::no_value<Proxy>();
        } else {
          using R = typename fxx::detail::forward_traits<decltype(&Impl::forward)>::result;
          fxx::detail::register_module_call(typeid(Impl), &fxx::detail::call_typed<Impl>);
          return fxx::detail::traced_argument<R>(fxx::detail::record_leaf_call(*this->get(), operands));
        }
      } else {
        return fxx::detail::no_value<Proxy>();
      }
    }
  }
};

// clang-format off
/// X(name) for every module of torch::nn that is no container.
#define FXX_LEAF_MODULES(X)                                                                                         \
  X(Linear) X(Bilinear) X(Identity) X(Flatten) X(Unflatten)                                                         \
  X(Conv1d) X(Conv2d) X(Conv3d) X(ConvTranspose1d) X(ConvTranspose2d) X(ConvTranspose3d) X(Fold) X(Unfold)          \
  X(BatchNorm1d) X(BatchNorm2d) X(BatchNorm3d) X(InstanceNorm1d) X(InstanceNorm2d) X(InstanceNorm3d)                \
  X(LayerNorm) X(GroupNorm) X(LocalResponseNorm) X(CrossMapLRN2d)                                                   \
  X(Embedding) X(EmbeddingBag)                                                                                      \
  X(Dropout) X(Dropout2d) X(Dropout3d) X(AlphaDropout) X(FeatureAlphaDropout)                                       \
  X(ReLU) X(ReLU6) X(GELU) X(SiLU) X(Mish) X(Sigmoid) X(Tanh) X(ELU) X(SELU) X(CELU) X(GLU) X(LeakyReLU) X(PReLU)   \
  X(RReLU) X(Hardtanh) X(Hardshrink) X(Softplus) X(Softshrink) X(Softsign) X(Tanhshrink) X(Threshold)               \
  X(LogSigmoid) X(Softmax) X(Softmin) X(Softmax2d) X(LogSoftmax)                                                    \
  X(MaxPool1d) X(MaxPool2d) X(MaxPool3d) X(AvgPool1d) X(AvgPool2d) X(AvgPool3d)                                     \
  X(AdaptiveAvgPool1d) X(AdaptiveAvgPool2d) X(AdaptiveAvgPool3d)                                                    \
  X(AdaptiveMaxPool1d) X(AdaptiveMaxPool2d) X(AdaptiveMaxPool3d)                                                    \
  X(FractionalMaxPool2d) X(FractionalMaxPool3d) X(LPPool1d) X(LPPool2d) X(LPPool3d)                                 \
  X(MaxUnpool1d) X(MaxUnpool2d) X(MaxUnpool3d)                                                                      \
  X(PixelShuffle) X(PixelUnshuffle) X(Upsample)                                                                     \
  X(ReflectionPad1d) X(ReflectionPad2d) X(ReflectionPad3d) X(ReplicationPad1d) X(ReplicationPad2d)                  \
  X(ReplicationPad3d) X(ZeroPad1d) X(ZeroPad2d) X(ZeroPad3d) X(ConstantPad1d) X(ConstantPad2d) X(ConstantPad3d)     \
  X(RNN) X(LSTM) X(GRU) X(RNNCell) X(LSTMCell) X(GRUCell)                                                           \
  X(MultiheadAttention) X(Transformer) X(TransformerEncoder) X(TransformerEncoderLayer) X(TransformerDecoder)       \
  X(TransformerDecoderLayer)                                                                                        \
  X(CosineSimilarity) X(PairwiseDistance)                                                                           \
  X(L1Loss) X(MSELoss) X(SmoothL1Loss) X(HuberLoss) X(CrossEntropyLoss) X(NLLLoss) X(PoissonNLLLoss) X(KLDivLoss)   \
  X(BCELoss) X(BCEWithLogitsLoss) X(CTCLoss) X(MarginRankingLoss) X(HingeEmbeddingLoss) X(CosineEmbeddingLoss)      \
  X(MultiMarginLoss) X(MultiLabelMarginLoss) X(MultiLabelSoftMarginLoss) X(SoftMarginLoss) X(TripletMarginLoss)     \
  X(TripletMarginWithDistanceLoss) X(AdaptiveLogSoftmaxWithLoss)                                                    \
  X(Functional)
// clang-format on
#define FXX_LEAF(name) using name = leaf<torch::nn::name>;
FXX_LEAF_MODULES(FXX_LEAF)
#undef FXX_LEAF

}  // namespace nn

/// Like TORCH_MODULE(Name), for a class NameImpl whose forward is a template: `Name block(...); y = block(x);` runs
/// forward with tensors, and with proxies too, whose nodes then know the module that they are of.
#define FXX_MODULE(Name)                                                       \
  class Name : public ::fxx::nn::leaf<::torch::nn::ModuleHolder<Name##Impl>> { \
    [[no_unique_address]] ::fxx::detail::KnownModule<Name##Impl> known_;       \
                                                                               \
   public:                                                                     \
    using ::fxx::nn::leaf<::torch::nn::ModuleHolder<Name##Impl>>::leaf;        \
    using Impl = Name##Impl;                                                   \
  }

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/torch/nn.ipp"
#endif
