// Tracing of unmodified LibTorch code: run a module once, record every operator at the dispatcher.
//
// Main names: trace; TraceOptions and TraceReport are in torch/trace_options.hpp. Any torch::nn::Module with a forward
// over tensors, a holder of one, a shared pointer to one, or a callable. The module runs with the given inputs, real or
// fake, without autograd. Sizes that C++ reads become constants, but for those declared dynamic. Data-dependent control
// flow raises TraceError with the user's function.
// Cost: heavy (torch/nn/module.h, ATen/core/dispatch/Dispatcher.h); tracing costs about 2 us a node on top of running
// it, a module's a fifth more (TraceOptions::training_flags). After torch.fx experimental/proxy_tensor.py make_fx, 2.13.
#pragma once

#include <torch/nn/cloneable.h>

#include <concepts>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "fxx/torch/dispatch/recording.hpp"
#include "fxx/torch/graph_module.hpp"
#include "fxx/torch/trace_options.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {

inline constexpr std::size_t max_trace_inputs = 12;

template <std::size_t>
using TensorAt = at::Tensor;
template <class M, std::size_t... I>
constexpr bool takes_tensors(std::index_sequence<I...>) {
  if constexpr (requires(M& m) { m.forward(std::declval<TensorAt<I>>()...); }) return true;
  else return std::is_invocable_v<M&, TensorAt<I>...>;
}

/// Can it be called with tensors, of some number?
template <class M, std::size_t N = 0>
constexpr bool takes_some_tensors() {
  if constexpr (N > max_trace_inputs) return false;
  else return takes_tensors<M>(std::make_index_sequence<N>()) || takes_some_tensors<M, N + 1>();
}
/// A callable of tensors, and no inputs.
template <class F>
concept TensorCallable =
    !std::is_convertible_v<F, std::vector<at::Tensor>> && takes_some_tensors<std::remove_reference_t<F>>();

/// What to say when forward cannot be called with so many tensors.
template <class M, std::size_t N = 0>
std::string wrong_input_count(std::size_t given, std::string takes = {}) {
  if constexpr (N <= max_trace_inputs) {
    if constexpr (takes_tensors<M>(std::make_index_sequence<N>()))
      takes += (takes.empty() ? "" : " or ") + std::to_string(N);
    return wrong_input_count<M, N + 1>(given, std::move(takes));
  } else {
    return "trace: " + std::to_string(given) + (given == 1 ? " input was" : " inputs were") + " given; forward takes " +
           takes + (takes == "1" ? " tensor" : " tensors");
  }
}

/// Calls forward (or the callable) with as many tensors as there are; false when it takes no such number.
template <class M, std::size_t N = 0>
bool call_with_tensors(M& module, std::span<const at::Tensor> inputs, c10::IValue& result) {
  if constexpr (N <= max_trace_inputs) {
    if (inputs.size() != N) return call_with_tensors<M, N + 1>(module, inputs, result);
    if constexpr (takes_tensors<M>(std::make_index_sequence<N>())) {
      const auto call = [&]<std::size_t... I>(std::index_sequence<I...>) -> decltype(auto) {
        if constexpr (requires { module.forward(inputs[I]...); }) return module.forward(inputs[I]...);
        else return module(inputs[I]...);
      };
      using Result = decltype(call(std::make_index_sequence<N>()));
      if constexpr (std::is_void_v<Result>) call(std::make_index_sequence<N>());
      else result = box_result(call(std::make_index_sequence<N>()));
      return true;
    }
  }
  return false;
}

/// Calls it, or its forward, with as many tensors as are given. Throws TraceError (E305) when it takes no such number.
template <class M>
RunTraced run_traced(M& module) {
  return [&module](std::span<const at::Tensor> tensors) {
    c10::IValue result;
    if (!call_with_tensors(module, tensors, result))
      throw TraceError(ErrorId::unsupported_argument, wrong_input_count<M>(tensors.size()));
    return result;
  };
}
/// What takes the members of a module as they are, for runs of its code that are undone: numbers and handles of C++. Only
/// of modules that can be copied (torch::nn::Cloneable): others may own what a copy must not have. A module of a class
/// that is derived from M has members that M does not know.
template <class M>
TakeMembers members_of(M& module) {
  if constexpr (std::derived_from<M, torch::nn::Cloneable<M>> && std::is_copy_assignable_v<M>) {
    const M& of_class = module;
    if (typeid(of_class) != typeid(M)) return {};
    return [&module]() -> std::function<void()> {
      return [&module, before = std::make_shared<const M>(std::as_const(module))] { module = *before; };
    };
  } else {
    return {};
  }
}
std::shared_ptr<GraphModule> trace_module(torch::nn::Module& root, bool is_module, const RunTraced& run,
                                          std::vector<at::Tensor> inputs, const TraceOptions& options,
                                          const TakeMembers& take_members = {});

}  // namespace detail

/// The module as a graph: `auto gm = fxx::trace(net, {image});`. The result equals the module's on the traced inputs,
/// and on others of the same shapes, or of any where dimensions are dynamic. Throws TraceError (E301) where the code
/// branches on values, (E320, E321, E307) where it reaches elements behind the tracer's back, (E323) under autocast and
/// in function transforms, (E325) where it asks for gradients, (E316) where it switches them on under a guard, (E327)
/// where it registers parameters, (E328) where TorchScript keeps state in attributes, and the module's own
/// errors. TorchScript is as it was before, and the module is, but for what its code does to it in one run: registered
/// tensors, tensors that the graph writes to, and all members of a class that is a torch::nn::Cloneable. Other members
/// that are no tensors, such as a count of calls, may have seen several runs (TraceReport::runs).
template <class M>
std::shared_ptr<GraphModule> trace(M&& module_or_holder, std::vector<at::Tensor> inputs,
                                   const TraceOptions& options = {}) {
  auto& module = detail::unwrap_module(module_or_holder);
  using Module = std::remove_reference_t<decltype(module)>;
  static_assert(
      detail::takes_some_tensors<Module>(),
      "fxx::trace: there is no public forward that takes tensors alone, by value or const&. Pass the module as "
      "its own type, not its base; where forward takes more than tensors, pass a callable beside the module: "
      "trace(net, [&](torch::Tensor x) { return net->forward(x, 2.0); }, {x})");
  const detail::RunTraced run = detail::run_traced(module);
  if constexpr (std::derived_from<Module, torch::nn::Module>) {
    return detail::trace_module(module, true, run, std::move(inputs), options, detail::members_of(module));
  } else {
    torch::nn::Module root("Function");
    return detail::trace_module(root, false, run, std::move(inputs), options);
  }
}

/// A call of the module that is not its forward with tensors alone: `fxx::trace(net, [&](torch::Tensor x) { return
/// net->forward(x, 2.0); }, {x})`. As trace(net, inputs), with parameters and training flags those of the module.
template <class M, detail::TensorCallable F>
std::shared_ptr<GraphModule> trace(M&& module_or_holder, F&& call, std::vector<at::Tensor> inputs,
                                   const TraceOptions& options = {}) {
  auto& module = detail::unwrap_module(module_or_holder);
  static_assert(std::derived_from<std::remove_reference_t<decltype(module)>, torch::nn::Module>,
                "fxx::trace: a callable is given beside what is no module; give the callable alone");
  return detail::trace_module(module, true, detail::run_traced(call), std::move(inputs), options,
                              detail::members_of(module));
}

/// With dimensions that may change from call to call: `fxx::trace(net, {ids}, {{0, 0, "batch"}, {0, 1, "time"}})`.
template <class M>
std::shared_ptr<GraphModule> trace(M&& module_or_holder, std::vector<at::Tensor> inputs,
                                   std::initializer_list<DynamicDim> dynamic, TraceOptions options = {}) {
  options.dynamic.assign(dynamic);
  return trace(std::forward<M>(module_or_holder), std::move(inputs), options);
}

template <class M, detail::TensorCallable F>
std::shared_ptr<GraphModule> trace(M&& module_or_holder, F&& call, std::vector<at::Tensor> inputs,
                                   std::initializer_list<DynamicDim> dynamic, TraceOptions options = {}) {
  options.dynamic.assign(dynamic);
  return trace(std::forward<M>(module_or_holder), std::forward<F>(call), std::move(inputs), options);
}

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/torch/trace.ipp"
#endif
