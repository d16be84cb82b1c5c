// Functions of the user's that tracing records instead of following.
//
//   inline const auto len = fxx::wrap<"geometry::len">([](const torch::Tensor& x) { return x.size(0); }, "\"geometry.hpp\"");
//
// `len(x)` calls the function when x is a tensor and records one call_function when it is a proxy. Generated code
// includes the header and calls it by the name given.
// Main names: wrap. Cost: heavy (ATen/core/dispatch/Dispatcher.h). After torch.fx wrap, 2.13.
#pragma once

#include <tuple>
#include <utility>

#include "fxx/meta/fixed_string.hpp"
#include "fxx/ops/registry.hpp"
#include "fxx/torch/execute.hpp"
#include "fxx/torch/leaf_modules.hpp"
#include "fxx/trace/proxy.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {

template <class F>
struct callable_traits : forward_traits<decltype(&F::operator())> {};
template <class R, class... A>
struct callable_traits<R (*)(A...)> {
  using result = R;
  using arguments = std::tuple<A...>;
};

/// What stands for a result of this type while tracing.
template <class R>
auto traced_result(Tracer& tracer, Node* node, int item = -1) {
  using Plain = std::remove_cvref_t<R>;
  if constexpr (std::is_arithmetic_v<Plain>) return ScalarProxy(tracer, node, item);
  else if constexpr (Sequence<Plain> && !HasTraits<Plain>) return ListProxy(tracer, node, item);
  else if constexpr (requires { std::tuple_size<Plain>::value; }) {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return std::make_tuple(traced_result<std::tuple_element_t<I, Plain>>(tracer, node, static_cast<int>(I))...);
    }(std::make_index_sequence<std::tuple_size_v<Plain>>());
  } else return Proxy(tracer, node, item);
}

/// Any value. Without a line: a variadic call has no place to take it from.
class AnyArg : public Operand {
 public:
  template <class T>
  AnyArg(const T& value, std::source_location where = {}) {
    if constexpr (Sequence<T> && !HasTraits<T>) set_items<AnyArg>(value, where);
    else set(value, where);
  }
  AnyArg(const AnyArg& other, std::source_location) : AnyArg(other) {}
  AnyArg(const AnyArg&) = default;
};

template <class F>
class Wrapped {
  using Traits = callable_traits<F>;

 public:
  Wrapped(std::string_view name, F function, std::string_view header, bool impure)
      : function_(std::move(function)), target_(&register_function(name, header, impure)) {
    register_user_call(*target_, [f = function_](Values args) {
      return call(f, args, std::type_identity<typename Traits::arguments>{});
    });
  }

  template <class... A>
  auto operator()(const A&... args) const {
    if constexpr ((std::derived_from<A, ProxyBase> || ...)) {
      const AnyArg operands[] = {AnyArg(args)...};
      std::vector<const Operand*> all;
      for (const AnyArg& operand : operands) all.push_back(&operand);
      Tracer& tracer = tracer_of(all);
      Node* node = tracer.call_function(*target_, all);
      if constexpr (std::is_same_v<std::remove_cvref_t<typename Traits::result>, at::Tensor>)
        node->set_type("torch::Tensor");
      return traced_result<typename Traits::result>(tracer, node);
    } else {
      return function_(args...);
    }
  }
  const UserFunction& target() const { return *target_; }

 private:
  template <class... A>
  static c10::IValue call(const F& function, Values& args, std::type_identity<std::tuple<A...>>) {
    if (args.size() != sizeof...(A))
      throw RunError(ErrorId::input_mismatch, "wrap: a wrapped function that takes " + std::to_string(sizeof...(A)) +
                                                  " arguments got " + std::to_string(args.size()));
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      std::tuple<Unboxed<std::remove_cvref_t<A>>...> held{Unboxed<std::remove_cvref_t<A>>(args[I])...};
      return box_result(function(std::get<I>(held).get()...));
    }(std::index_sequence_for<A...>());
  }

  F function_;
  const UserFunction* target_;
};

}  // namespace detail

/// Wraps a function or a lambda with declared parameters. `Name` is what generated code calls, `header` what it
/// includes, with quotes or brackets. Wrapping the same name twice is harmless. `impure` functions are never removed as
/// dead code.
template <fixed_string Name, class F>
detail::Wrapped<std::decay_t<F>> wrap(F&& function, std::string_view header = {}, bool impure = false) {
  return {Name.view(), std::forward<F>(function), header, impure};
}

}  // namespace fxx::inline FXX_ABI
