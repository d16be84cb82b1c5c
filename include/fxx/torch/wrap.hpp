// Functions, classes and operators of the user's that tracing records instead of following.
//
//   inline const auto len = fxx::wrap<"geometry::len">([](const torch::Tensor& x) { return x.size(0); },
//                                                      "\"geometry.hpp\"");
//   inline const auto Box = fxx::proxyable<"geometry::Box", geometry::Box(torch::Tensor, double)>("\"geometry.hpp\"");
//   inline const auto rotate = fxx::wrap<fxx::op<"geometry::rotate(Tensor self, float angle=0.0) -> Tensor">>();
//
// `len(x)` calls the function when x is a tensor and records one call_function when it is a proxy, or holds proxies.
// Generated code includes the header and calls it by the name given.
// Main names: wrap, proxyable, box. Cost: heavy (ATen/core/dispatch/Dispatcher.h). After torch.fx wrap and
// ProxyableClassMeta, 2.13.
#pragma once

#include <tuple>
#include <utility>

#include "fxx/meta/fixed_string.hpp"
#include "fxx/ops/operation.hpp"
#include "fxx/ops/registry.hpp"
#include "fxx/torch/execute.hpp"
#include "fxx/torch/leaf_modules.hpp"
#include "fxx/trace/proxy.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {

template <class F>
struct callable_traits {};
template <class F>
  requires requires { &F::operator(); }
struct callable_traits<F> : forward_traits<decltype(&F::operator())> {};
template <class R, class... A>
struct callable_traits<R (*)(A...)> {
  using result = R;
  using arguments = std::tuple<A...>;
};
template <class R, class... A>
struct callable_traits<R (*)(A...) noexcept> : callable_traits<R (*)(A...)> {};
template <class R, class C, class... A>
struct callable_traits<R (C::*)(A...)> {
  using result = R;
  using arguments = std::tuple<C&, A...>;
};
template <class R, class C, class... A>
struct callable_traits<R (C::*)(A...) const> {
  using result = R;
  using arguments = std::tuple<const C&, A...>;
};

/// How C++ spells a type that a wrapped function returns, for the code of the graphs that call it.
template <class R>
std::string cpp_spelling() {
  using Plain = std::remove_cvref_t<R>;
  if constexpr (std::is_void_v<Plain>) {
    return {};
  } else if constexpr (ExternalTensor<Plain>) {
    return "torch::Tensor";
  } else if constexpr (std::is_same_v<Plain, bool>) {
    return "bool";
  } else if constexpr (std::is_integral_v<Plain>) {
    return "int64_t";
  } else if constexpr (std::is_floating_point_v<Plain>) {
    return "double";
  } else if constexpr (std::is_same_v<Plain, std::string>) {
    return "std::string";
  } else if constexpr (requires { typename Plain::mapped_type; }) {
    return "std::map<" + cpp_spelling<typename Plain::key_type>() + ", " + cpp_spelling<typename Plain::mapped_type>() +
           ">";
  } else if constexpr (requires { std::tuple_size<Plain>::value; }) {
    return []<std::size_t... I>(std::index_sequence<I...>) {
      std::string parts;
      ((parts += (parts.empty() ? "" : ", ") + cpp_spelling<std::tuple_element_t<I, Plain>>()), ...);
      return "std::tuple<" + parts + ">";
    }(std::make_index_sequence<std::tuple_size_v<Plain>>());
  } else if constexpr (Sequence<Plain>) {
    return "std::vector<" + cpp_spelling<typename Plain::value_type>() + ">";
  } else {
    return std::string(type_name<Plain>());
  }
}

template <class... A>
inline constexpr bool any_holds_proxies = (holds_proxies<std::remove_cvref_t<A>> || ...);

template <class F>
class Wrapped {
  using Traits = callable_traits<F>;
  static constexpr bool known = requires { typename Traits::arguments; };
  static_assert(known,
                "fxx::wrap: the function has overloads or template parameters, so a graph cannot know what to pass; "
                "wrap a lambda with declared parameters that calls it");

 public:
  Wrapped(std::string_view name, F function, std::string_view header, bool impure)
      : function_(std::move(function)), target_(&register_function(name, header, impure)) {
    if constexpr (known)
      register_user_call(*target_, [f = function_](Values args) {
        return call(f, args, std::type_identity<typename Traits::arguments>{});
      });
  }

  template <class... A>
  decltype(auto) operator()(A&&... args) const {
    if constexpr (known) {
      if constexpr (any_holds_proxies<A...>) return record(args...);
      else return std::invoke(function_, std::forward<A>(args)...);
    } else {
      return no_value<Proxy>();
    }
  }
  const UserFunction& target() const { return *target_; }

 private:
  template <class... A>
  auto record(const A&... args) const {
    constexpr bool fits = sizeof...(A) == std::tuple_size_v<typename Traits::arguments>;
    static_assert(fits, "fxx::wrap: a wrapped function is called with more or fewer arguments than it takes");
    if constexpr (fits) {
      const AnyOperands operands(args...);
      Tracer& tracer = tracer_of(operands);
      Node* node = tracer.call_function(*target_, operands);
      node->set_type(cpp_spelling<typename Traits::result>());
      if constexpr (!std::is_void_v<typename Traits::result>)
        return traced_result<typename Traits::result>(tracer, node);
    } else {
      return no_value<Proxy>();
    }
  }

  template <class... A>
  static c10::IValue call(const F& function, Values& args, std::type_identity<std::tuple<A...>>) {
    if (args.size() != sizeof...(A))
      throw RunError(ErrorId::input_mismatch, "wrap: a wrapped function that takes " + std::to_string(sizeof...(A)) +
                                                  " arguments got " + std::to_string(args.size()));
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      std::tuple<Unboxed<std::remove_cvref_t<A>>...> held{Unboxed<std::remove_cvref_t<A>>(args[I])...};
      if constexpr (std::is_void_v<typename Traits::result>) {
        std::invoke(function, static_cast<A>(std::get<I>(held).get())...);
        return c10::IValue();
      } else {
        return box_result(std::invoke(function, static_cast<A>(std::get<I>(held).get())...));
      }
    }(std::index_sequence_for<A...>());
  }

  F function_;
  const UserFunction* target_;
};

template <class Signature>
struct Constructor;
template <class Class, class... A>
struct Constructor<Class(A...)> {
  Class operator()(A... args) const { return Class(std::forward<A>(args)...); }
};

template <auto Op>
class WrappedOperator {
  static constexpr const Operator& op() { return info_of<Op>; }

 public:
  template <class... A>
  auto operator()(const A&... args) const {
    constexpr bool fits = sizeof...(A) <= info_of<Op>.parameters.size();
    static_assert(fits, "fxx::wrap: an operator is called with more arguments than its schema has");
    if constexpr (!fits) {
      return no_value<Proxy>();
    } else if constexpr (any_holds_proxies<A...>) {
      const AnyOperands operands(args...);
      Tracer& tracer = tracer_of(operands);
      Node* node = tracer.call_function(op(), operands);
      return result(std::make_index_sequence<info_of<Op>.returns.size()>(),
                    [&]<class R>(std::type_identity<R>) { return traced_result<R>(tracer, node); });
    } else {
      const c10::IValue value = call_operator(op(), Values{box_result(args)...});
      return result(std::make_index_sequence<info_of<Op>.returns.size()>(),
                    [&]<class R>(std::type_identity<R>) { return Unboxed<R>(value).get(); });
    }
  }

 private:
  /// What C++ has for a result of the schema.
  template <std::size_t I>
  static auto type_of() {
    constexpr Type type = info_of<Op>.returns[I].type;
    if constexpr (type.base == ValueType::tensor && type.list) return std::type_identity<std::vector<at::Tensor>>();
    else if constexpr (type.base == ValueType::tensor) return std::type_identity<at::Tensor>();
    else if constexpr (type.base == ValueType::integer && type.list)
      return std::type_identity<std::vector<std::int64_t>>();
    else if constexpr (type.base == ValueType::integer) return std::type_identity<std::int64_t>();
    else if constexpr (type.base == ValueType::real) return std::type_identity<double>();
    else if constexpr (type.base == ValueType::boolean) return std::type_identity<bool>();
    else if constexpr (type.base == ValueType::scalar) return std::type_identity<at::Scalar>();
    else return std::type_identity<std::string>();
  }
  template <std::size_t... I, class Make>
  static auto result(std::index_sequence<I...>, const Make& make) {
    if constexpr (sizeof...(I) == 1) return make(type_of<0>());
    else if constexpr (sizeof...(I) > 1)
      return make(std::type_identity<std::tuple<typename decltype(type_of<I>())::type...>>());
  }
};

}  // namespace detail

/// Wraps a function, a member function, or a lambda with declared parameters: of tensors, numbers, text, enums,
/// modules, objects of any class; optionals, lists, tuples and maps of them, and so for the result. `Name` is what
/// generated code calls, `header` what it includes, with quotes or brackets. Called without proxies, the function
/// itself runs, while tracing too. Wrapping the same name twice is harmless. `impure` functions are never removed as
/// dead code.
template <fixed_string Name, class F>
detail::Wrapped<std::decay_t<F>> wrap(F&& function, std::string_view header = {}, bool impure = false) {
  return {Name.view(), std::forward<F>(function), header, impure};
}

/// An operator that LibTorch knows, as a function of tensors and proxies.
template <auto Op>
  requires AnOperation<Op>
detail::WrappedOperator<Op> wrap() {
  return {};
}

/// A class whose construction from proxies is recorded: `proxyable<"geometry::Box", geometry::Box(torch::Tensor,
/// double)>(...)` builds a Box from a tensor and records a call of the constructor with a proxy. Wrapped functions take
/// the object. (torch.fx: ProxyableClassMeta.)
template <fixed_string Name, class Signature>
auto proxyable(std::string_view header = {}) {
  constexpr bool known = std::is_function_v<Signature>;
  static_assert(known,
                "fxx::proxyable: the type is not of the form Class(Argument, ...); give the class with the parameters "
                "of the constructor");
  if constexpr (known)
    return detail::Wrapped<detail::Constructor<Signature>>(Name.view(), detail::Constructor<Signature>(), header,
                                                           false);
  else return detail::no_value<int>();
}

/// An object of any class as an input of a graph: `gm->run({x, fxx::box(shape)})`.
template <class T>
c10::IValue box(T object) {
  return detail::hold<T>(std::move(object));
}

}  // namespace fxx::inline FXX_ABI
