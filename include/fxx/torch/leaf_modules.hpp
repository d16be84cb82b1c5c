// Leaf modules: what a module of torch::nn is as an operator, how C++ constructs it, how to call it with boxed values.
//
// LibTorch's modules share no virtual forward, so each type that a graph may call is known here by its dynamic type.
// Users add their own with register_leaf<Net>().
// Main names: describe_module, call_module, is_leaf_module, register_leaf. Cost: heavy (torch/nn/module.h).
#pragma once

#include <ATen/core/ivalue.h>
#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "fxx/ir/owner.hpp"
#include "fxx/torch/values.hpp"
#include "fxx/trace/record.hpp"

namespace fxx::inline FXX_ABI {

/// Calls a module with boxed arguments.
using ModuleCall = std::function<c10::IValue(torch::nn::Module&, std::vector<c10::IValue>)>;
/// The qualified name of a tensor of the module that is described; empty when it has none.
using TensorNames = std::function<std::string(const at::Tensor&)>;

/// Is it one node in a graph by default: every module of namespace torch::nn but containers, and those registered.
bool is_leaf_module(const torch::nn::Module& module);
/// What is known of a leaf module. The operation is null for types that are more than one operator, and for user types.
ModuleInfo describe_module(const torch::nn::Module& module, const std::string& name, const TensorNames& names);
/// What runs forward of this type of module; stays valid. Throws RunError (E702) for a type that nobody registered.
const ModuleCall& module_call_of(const torch::nn::Module& module);
c10::IValue call_module(torch::nn::Module& module, std::vector<c10::IValue> args);

/// "torch::nn::LinearImpl" -> "torch::nn::Linear", "geometry::NetImpl" -> "geometry::Net": the type as users write it.
std::string module_type_name(const torch::nn::Module& module);

namespace detail {

void register_leaf_call(const std::type_info& type, ModuleCall call);
/// Makes graphs able to call modules of this type, without making it a leaf.
void register_module_call(const std::type_info& type, ModuleCall call);

// --- calling forward by its signature --------------------------------------------------------------------------------

template <class F>
struct forward_traits;
template <class R, class C, class... A>
struct forward_traits<R (C::*)(A...)> {
  using result = R;
  using arguments = std::tuple<A...>;
};
template <class R, class C, class... A>
struct forward_traits<R (C::*)(A...) const> : forward_traits<R (C::*)(A...)> {};

/// Holds an argument unboxed for the length of a call, and what it points into.
template <class T>
struct Unboxed {
  T value;
  explicit Unboxed(const c10::IValue& v) : value(v.to<T>()) {}
  Unboxed() : value() {}
  T& get() { return value; }
};
/// Numbers as C++ converts them: an int where a double is wanted.
template <class T>
  requires std::is_arithmetic_v<T>
struct Unboxed<T> {
  T value{};
  Unboxed() = default;
  explicit Unboxed(const c10::IValue& v)
      : value(v.isBool()  ? static_cast<T>(v.toBool())
              : v.isInt() ? static_cast<T>(v.toInt())
                          : static_cast<T>(v.toDouble())) {}
  T& get() { return value; }
};
template <class... Ts>
struct Unboxed<std::tuple<Ts...>> {
  std::tuple<Ts...> value;
  Unboxed() = default;
  explicit Unboxed(const c10::IValue& v) {
    const auto& elements = v.toTupleRef().elements();
    std::size_t i = 0;
    std::apply(
        [&](auto&... parts) { ((parts = elements[i++].template to<std::remove_cvref_t<decltype(parts)>>()), ...); },
        value);
  }
  std::tuple<Ts...>& get() { return value; }
};
template <class T>
struct Unboxed<std::optional<T>> {
  std::optional<T> value;
  Unboxed() = default;
  explicit Unboxed(const c10::IValue& v) {
    if (!v.isNone()) value = Unboxed<T>(v).get();
  }
  std::optional<T>& get() { return value; }
};
template <>
struct Unboxed<at::Tensor> {
  at::Tensor value;
  Unboxed() = default;
  explicit Unboxed(const c10::IValue& v) : value(v.isNone() ? at::Tensor() : v.toTensor()) {}
  at::Tensor& get() { return value; }
};
template <>
struct Unboxed<std::optional<at::IntArrayRef>> {
  std::vector<std::int64_t> storage;
  std::optional<at::IntArrayRef> value;
  Unboxed() = default;
  explicit Unboxed(const c10::IValue& v) {
    if (v.isNone()) return;
    storage = v.toIntVector();
    value = storage;
  }
  std::optional<at::IntArrayRef>& get() { return value; }
};

/// A result of C++ code as a boxed value: tensors, numbers, text, optionals, tuples, pairs, vectors, maps and structs
/// (trace/hana.hpp) of them.
template <class T>
c10::IValue box_result(const T& value) {
  if constexpr (Record<T>) {
    c10::impl::GenericDict dict(c10::AnyType::get(), c10::AnyType::get());
    record_traits<T>::apply(value, [&](const auto&... members) {
      std::size_t i = 0;
      (dict.insert(std::string(record_traits<T>::names[i++]), box_result(members)), ...);
    });
    return dict;
  } else if constexpr (requires { std::tuple_size<T>::value; }) {
    return std::apply(
        [](const auto&... parts) { return c10::IValue(c10::ivalue::Tuple::create({box_result(parts)...})); }, value);
  } else if constexpr (requires { typename T::mapped_type; }) {
    c10::impl::GenericDict dict(c10::AnyType::get(), c10::AnyType::get());
    for (const auto& [key, mapped] : value) dict.insert(box_result(key), box_result(mapped));
    return dict;
  } else if constexpr (requires {
                         value.has_value();
                         *value;
                       } && !std::is_same_v<T, at::Tensor>) {
    return value ? box_result(*value) : c10::IValue();
  } else if constexpr (Sequence<T> && !HasTraits<T>) {
    std::vector<c10::IValue> items;
    for (const auto& item : value) items.push_back(box_result(item));
    return to_list(std::move(items), {});
  } else {
    static_assert(std::constructible_from<c10::IValue, const T&>,
                  "fxx: a module returns a type that a graph cannot hold; return tensors, numbers, text, or tuples, "
                  "vectors and maps of them");
    return c10::IValue(value);
  }
}

template <class Impl, class... A>
c10::IValue call_forward(Impl& module, std::vector<c10::IValue>& args, std::type_identity<std::tuple<A...>>) {
  const auto unbox = [&]<std::size_t... I>(std::index_sequence<I...>) {
    return std::tuple<Unboxed<std::remove_cvref_t<A>>...>(
        (I < args.size() ? Unboxed<std::remove_cvref_t<A>>(args[I]) : Unboxed<std::remove_cvref_t<A>>())...);
  };
  auto held = unbox(std::index_sequence_for<A...>());
  return std::apply(
      [&](auto&... h) -> c10::IValue {
        if constexpr (std::is_void_v<decltype(module.forward(static_cast<A>(h.get())...))>) {
          module.forward(static_cast<A>(h.get())...);
          return {};
        } else {
          return box_result(module.forward(static_cast<A>(h.get())...));
        }
      },
      held);
}

/// A call of Impl::forward by its declared signature. Arguments left out are value-initialised.
template <class Impl>
c10::IValue call_typed(torch::nn::Module& module, std::vector<c10::IValue> args) {
  using Traits = forward_traits<decltype(&Impl::forward)>;
  return call_forward(dynamic_cast<Impl&>(module), args, std::type_identity<typename Traits::arguments>{});
}

}  // namespace detail

/// Makes graphs able to call modules of this type. Its forward is a plain member function of tensors, numbers, text,
/// optionals, vectors and tuples of them. Registering twice is harmless.
template <class Impl>
void register_leaf() {
  static_assert(std::derived_from<Impl, torch::nn::Module>, "fxx::register_leaf: the type is not a torch::nn::Module");
  static_assert(
      requires { &Impl::forward; },
      "fxx::register_leaf: the type has no plain member function forward; overloads and templates cannot be called by "
      "a graph");
  detail::register_leaf_call(typeid(Impl), &detail::call_typed<Impl>);
}

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/torch/leaf_modules.ipp"
#endif
