// Tracing of unmodified LibTorch code: run a module once, record every operator at the dispatcher.
//
// Main names: trace, TraceOptions, TraceReport. Any torch::nn::Module with a forward over tensors, a holder of one, a
// shared pointer to one, or a callable. The module runs with the given inputs, real or fake, without autograd. Sizes
// that C++ reads become constants, but for those declared dynamic. Data-dependent control flow raises TraceError with
// the user's function.
// Cost: heavy (torch/nn/module.h, ATen/core/dispatch/Dispatcher.h); tracing costs about 2 us a node on top of running
// it, a module's twice that (TraceOptions::training_flags). After torch.fx experimental/proxy_tensor.py make_fx, 2.13.
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "fxx/torch/dispatch_tracer.hpp"
#include "fxx/torch/graph_module.hpp"
#include "fxx/trace/sizes.hpp"

namespace fxx::inline FXX_ABI {

/// What a trace fixed that the code computes.
struct TraceReport {
  /// C++ code asked a traced tensor for a size: a plain number from then on.
  struct Size {
    std::string value;  // "x.size(1)": the node and the dimension
    std::int64_t size = 0;
    std::string source;                // "Net::forward(at::Tensor) at net.cpp:41", as far as symbols tell
    std::vector<std::string> used_by;  // "%view(size)": operators that are given that number. None when it only
                                       // decided something, or was computed with
  };
  std::vector<Size> sizes;
  /// What stays as it is without the code saying so, a sentence each: training flags, branches on them, sizes that
  /// elements decide, values that the code keeps for its next run, parameters of modules that nobody registered.
  std::vector<std::string> notes;

  std::string to_string() const;
};

struct TraceOptions {
  /// Names of the inputs; C++ keeps none. x for a single one, arg0, arg1, ... otherwise.
  std::vector<std::string> input_names = {};
  /// Turns what LibTorch's front end takes apart (t and addmm) back into what the user wrote (linear).
  bool reroll_operators = true;
  /// Turns operators back into calls of the leaf modules whose parameters they use.
  bool leaf_modules = true;
  /// Tells of code that asks whether it trains, and lets dropout follow the training flag of its module, which the
  /// operator does not name. A module runs once more for that, in the other mode and with fake tensors, and several
  /// times when it calls dropout; what this does to flags, buffers and random numbers is undone. Nobody else may use the
  /// module meanwhile. Where the module cannot be told, the flag stays as it is, and a warning, or `report`, says so.
  bool training_flags = true;
  /// Tensors of random numbers that are made of no other tensor (torch::randn({3, 4})) become constants, as torch.fx has
  /// them; else they are drawn in every run, as the code does.
  bool freeze_random = false;
  /// Throws TraceError (E315) when the graph has an operator that writes to its argument.
  bool check_mutable_operations = false;
  /// Notes the user's source line of every node: 20 us a node for symbols.
  bool record_stack_traces = false;
  /// Throws TraceError (E322) when a size of a traced tensor became a plain number of the graph, naming the lines.
  bool strict = false;
  /// Dimensions that may change from call to call; the code is run at several sizes. Throws TraceError (E309, E310)
  /// when the graphs cannot be made one.
  std::vector<DynamicDim> dynamic = {};
  /// Filled with what the trace fixed; with it, `strict` has nothing more to say.
  TraceReport* report = nullptr;
};

namespace detail {

inline constexpr std::size_t max_trace_inputs = 12;

template <std::size_t>
using TensorAt = at::Tensor;
template <class M, std::size_t... I>
constexpr bool takes_tensors(std::index_sequence<I...>) {
  if constexpr (requires(M& m) { m.forward(std::declval<TensorAt<I>>()...); }) return true;
  else return std::is_invocable_v<M&, TensorAt<I>...>;
}

/// What to say when forward cannot be called with so many tensors.
template <class M, std::size_t N = 0>
std::string wrong_input_count(std::size_t given, std::string takes = {}) {
  if constexpr (N <= max_trace_inputs) {
    if constexpr (takes_tensors<M>(std::make_index_sequence<N>()))
      takes += (takes.empty() ? "" : " or ") + std::to_string(N);
    return wrong_input_count<M, N + 1>(given, std::move(takes));
  } else {
    return "trace: " + std::to_string(given) + " inputs were given; forward takes " +
           (takes.empty() ? "more than tensors: trace a callable that fills in the rest, [&](torch::Tensor x) { return "
                            "net->forward(x, 2.0); }"
                          : takes + (takes == "1" ? " tensor" : " tensors"));
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

using RunTraced = std::function<c10::IValue(std::span<const at::Tensor>)>;
std::shared_ptr<GraphModule> trace_module(torch::nn::Module& root, bool is_module, const RunTraced& run,
                                          std::vector<at::Tensor> inputs, const TraceOptions& options);

}  // namespace detail

/// The module as a graph: `auto gm = fxx::trace(net, {image});`. The result equals the module's on the traced inputs,
/// and on others of the same shapes, or of any where dimensions are dynamic. Throws TraceError (E301) where the code
/// branches on values, (E320, E321, E307) where it reaches elements behind the tracer's back, (E323) under autocast and
/// in function transforms, (E325) where it asks for gradients, (E327) where it registers parameters, and the module's own
/// errors. The module is as it was before, but for what its code does to it in one run; members that are no tensors may
/// have seen several (TraceOptions::training_flags).
template <class M>
std::shared_ptr<GraphModule> trace(M&& module_or_holder, std::vector<at::Tensor> inputs,
                                   const TraceOptions& options = {}) {
  auto& module = detail::unwrap_module(module_or_holder);
  using Module = std::remove_reference_t<decltype(module)>;
  const detail::RunTraced run = [&](std::span<const at::Tensor> tensors) {
    c10::IValue result;
    if (!detail::call_with_tensors(module, tensors, result))
      throw TraceError(ErrorId::unsupported_argument, detail::wrong_input_count<Module>(tensors.size()));
    return result;
  };
  if constexpr (std::derived_from<Module, torch::nn::Module>) {
    return detail::trace_module(module, true, run, std::move(inputs), options);
  } else {
    torch::nn::Module root("Function");
    return detail::trace_module(root, false, run, std::move(inputs), options);
  }
}

/// With dimensions that may change from call to call: `fxx::trace(net, {ids}, {{0, 0, "batch"}, {0, 1, "time"}})`.
template <class M>
std::shared_ptr<GraphModule> trace(M&& module_or_holder, std::vector<at::Tensor> inputs,
                                   std::initializer_list<DynamicDim> dynamic, TraceOptions options = {}) {
  options.dynamic.assign(dynamic);
  return trace(std::forward<M>(module_or_holder), std::move(inputs), options);
}

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/torch/trace.ipp"
#endif
