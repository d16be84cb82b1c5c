// Leaf modules: what a module of torch::nn is as an operator, how C++ constructs it, how to call it with boxed values.
//
// LibTorch's modules share no virtual forward, so each type that a graph may call is known here by its dynamic type.
// Users add their own with register_leaf<Net>().
// Main names: describe_module, call_module, is_leaf_module, register_leaf. Cost: heavy (torch/nn/module.h).
#pragma once

#include <ATen/core/ivalue.h>
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "fxx/ir/owner.hpp"
#include "fxx/torch/values.hpp"
#include "fxx/trace/proxy.hpp"
#include "fxx/trace/record.hpp"
#include "fxx/trace/structure.hpp"

namespace torch::nn {
struct ASMoutput;
}  // namespace torch::nn

namespace fxx::inline FXX_ABI {

/// What forward of AdaptiveLogSoftmaxWithLoss returns is a pair in a graph.
template <>
struct result_traits<torch::nn::ASMoutput> {
  struct Traced {
    Proxy output;
    ScalarProxy loss;
  };
  static Traced make(Tracer& tracer, Node* node) { return {Proxy(tracer, node, 0), ScalarProxy(tracer, node, 1)}; }
  static c10::IValue box(const torch::nn::ASMoutput& value);
};

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

struct RegisteredParameters;
/// Those of the module itself, undefined ones too.
const torch::OrderedDict<std::string, at::Tensor>& registered_parameters(const torch::nn::Module& module);
const torch::OrderedDict<std::string, at::Tensor>& registered_buffers(const torch::nn::Module& module);
/// Is there a tensor in the module's operation that the module itself does not register? Describes nothing in words, so
/// it takes a fraction of a microsecond.
bool uses_unregistered(const torch::nn::Module& module);
/// A tensor that forward of a module of torch::nn reads from a member, and the place where the module has registered
/// it. They are one tensor until somebody assigns another to the member, which LibTorch does not register.
struct TensorMember {
  std::string_view name;
  at::Tensor* member;      // lives as long as the module
  at::Tensor* registered;  // null when nothing of that name is registered
  bool is_parameter;       // else a buffer
  bool differs() const { return !registered || !member->is_same(*registered); }
};
/// The module's own; none of modules whose class is not known. Takes a fraction of a microsecond.
std::vector<TensorMember> tensor_members(const torch::nn::Module& module);
/// Those of the module and all below it that differ, and the qualified names of them.
std::vector<std::pair<std::string, TensorMember>> differing_members(const torch::nn::Module& root);
/// "'norm.running_mean' and 2 more are ...": a sentence for a note about these; empty when there are none. Members
/// whose tensor is registered elsewhere in the hierarchy, as tied weights are, are passed over.
std::string note_of_members(const torch::nn::Module& root, std::string_view who, std::string_view takes);
/// Registers what the members of the modules are now.
void register_members(torch::nn::Module& root);

/// Registers what the members of the modules are, as long as it lives: for code of LibTorch that takes the registered
/// tensors.
class MembersRegistered {
 public:
  explicit MembersRegistered(const torch::nn::Module& root);
  MembersRegistered(const MembersRegistered&) = delete;
  MembersRegistered& operator=(const MembersRegistered&) = delete;
  ~MembersRegistered();

 private:
  std::vector<std::pair<at::Tensor*, at::Tensor>> before_;
};

[[noreturn]] void throw_not_held(const c10::IValue& value, std::string_view type);
/// A module that stands for a value which is no tensor: a graph that reads it gets the value.
class HeldValue {
 public:
  virtual ~HeldValue() = default;
  virtual c10::IValue held_value() const = 0;
};
/// A module as a boxed value, and back. Throws RunError (E701) when the value is no module of that type.
c10::IValue hold_module(std::shared_ptr<torch::nn::Module> module);
std::shared_ptr<torch::nn::Module> held_module_of(const c10::IValue& value);
template <class T>
std::shared_ptr<T> held_module(const c10::IValue& value) {
  if (auto module = std::dynamic_pointer_cast<T>(held_module_of(value))) return module;
  throw_not_held(value, type_name<T>());
}

/// `result` is what forward returns, as C++ spells it.
void register_leaf_call(const std::type_info& type, ModuleCall call, std::string result = "torch::Tensor");
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
template <class R, class C, class... A>
struct forward_traits<R (C::*)(A...) noexcept> : forward_traits<R (C::*)(A...)> {};
template <class R, class C, class... A>
struct forward_traits<R (C::*)(A...) const noexcept> : forward_traits<R (C::*)(A...)> {};

/// What forward returns, as C++ spells it; "auto" where graphs know no such spelling.
template <class Impl>
std::string forward_result() {
  using Result = typename forward_traits<decltype(&Impl::forward)>::result;
  std::string name;
  if constexpr (!std::is_void_v<Result>) name = cpp_type_name<std::remove_cvref_t<Result>>();
  return name.empty() ? "auto" : name;
}

/// What LibTorch boxes by itself: tensors, numbers, text, lists of them.
template <class T>
concept Boxable = std::constructible_from<c10::IValue, const T&>;

/// An object of any other class in a boxed value, as it passes between wrapped functions of a graph.
template <class T>
struct Held final : torch::CustomClassHolder {
  T value;
  explicit Held(T v) : value(std::move(v)) {}
};
template <class T>
c10::IValue hold(T value) {
  return c10::IValue::make_capsule(c10::make_intrusive<Held<T>>(std::move(value)));
}
/// The object in a value that hold<T> made. Throws RunError (E701) when there is none.
template <class T>
T& held(const c10::IValue& value) {
  if (value.isCapsule())
    if (auto* holder = dynamic_cast<Held<T>*>(value.toCapsule().get())) return holder->value;
  throw_not_held(value, type_name<T>());
}

/// Holds an argument unboxed for the length of a call, and what it points into.
template <class T>
struct Unboxed {
  static_assert(!std::is_pointer_v<T>, "fxx: a graph does not hold pointers; take the object by reference");
  c10::IValue keep;
  T* value;
  explicit Unboxed(const c10::IValue& v) : keep(v), value(&held<T>(v)) {}
  T& get() { return *value; }
};
template <class T>
concept UnboxedWhole = Boxable<T> && !std::is_arithmetic_v<T> &&
                       (!std::is_enum_v<T> || HasTraits<T>)&&(HasTraits<T> || !requires { typename T::mapped_type; });
template <UnboxedWhole T>
struct Unboxed<T> {
  T value;
  explicit Unboxed(const c10::IValue& v) : value(v.to<T>()) {}
  T& get() { return value; }
};
/// Numbers as C++ converts them: an int where a double is wanted.
template <class T>
  requires(std::is_arithmetic_v<T> || (std::is_enum_v<T> && !HasTraits<T>))
struct Unboxed<T> {
  T value;
  explicit Unboxed(const c10::IValue& v)
      : value(v.isBool()  ? static_cast<T>(v.toBool())
              : v.isInt() ? static_cast<T>(v.toInt())
                          : static_cast<T>(v.toDouble())) {}
  T& get() { return value; }
};
template <class... Ts>
struct Unboxed<std::tuple<Ts...>> {
  std::tuple<Ts...> value;
  explicit Unboxed(const c10::IValue& v) {
    const auto& elements = v.toTupleRef().elements();
    std::size_t i = 0;
    std::apply(
        [&](auto&... parts) { ((parts = Unboxed<std::remove_cvref_t<decltype(parts)>>(elements[i++]).get()), ...); },
        value);
  }
  std::tuple<Ts...>& get() { return value; }
};
template <class A, class B>
struct Unboxed<std::pair<A, B>> {
  std::pair<A, B> value;
  explicit Unboxed(const c10::IValue& v)
      : value(Unboxed<A>(v.toTupleRef().elements()[0]).get(), Unboxed<B>(v.toTupleRef().elements()[1]).get()) {}
  std::pair<A, B>& get() { return value; }
};
/// Lists of any items, from a list or a tuple.
template <class T>
struct Unboxed<std::vector<T>> {
  std::vector<T> value;
  explicit Unboxed(const c10::IValue& v) {
    if (v.isTuple())
      for (const c10::IValue& item : v.toTupleRef().elements()) value.push_back(Unboxed<T>(item).get());
    else if (!v.isNone())
      for (const c10::IValue& item : v.toListRef()) value.push_back(Unboxed<T>(item).get());
  }
  std::vector<T>& get() { return value; }
};
template <class T>
  requires(!HasTraits<T> &&
           requires {
             typename T::key_type;
             typename T::mapped_type;
           })
struct Unboxed<T> {
  T value;
  explicit Unboxed(const c10::IValue& v) {
    for (const auto& entry : v.toGenericDict())
      value.emplace(Unboxed<typename T::key_type>(entry.key()).get(),
                    Unboxed<typename T::mapped_type>(entry.value()).get());
  }
  T& get() { return value; }
};
template <class T>
struct Unboxed<std::optional<T>> {
  std::optional<T> value;
  explicit Unboxed(const c10::IValue& v) {
    if (!v.isNone()) value = Unboxed<T>(v).get();
  }
  std::optional<T>& get() { return value; }
};
template <>
struct Unboxed<at::Tensor> {
  at::Tensor value;
  explicit Unboxed(const c10::IValue& v) : value(v.isNone() ? at::Tensor() : v.toTensor()) {}
  at::Tensor& get() { return value; }
};
template <class T>
struct Unboxed<at::ArrayRef<T>> {
  Unboxed<std::vector<T>> storage;
  at::ArrayRef<T> value;
  explicit Unboxed(const c10::IValue& v) : storage(v), value(storage.value) {}
  Unboxed(Unboxed&& other) noexcept : storage(std::move(other.storage)), value(storage.value) {}
  at::ArrayRef<T>& get() { return value; }
};
template <class T>
struct Unboxed<std::optional<at::ArrayRef<T>>> {
  Unboxed<std::vector<T>> storage;
  std::optional<at::ArrayRef<T>> value;
  explicit Unboxed(const c10::IValue& v) : storage(v) {
    if (!v.isNone()) value = storage.value;
  }
  Unboxed(Unboxed&& other) noexcept : storage(std::move(other.storage)) {
    if (other.value) value = storage.value;
  }
  std::optional<at::ArrayRef<T>>& get() { return value; }
};
template <>
struct Unboxed<std::string_view> {
  std::string storage;
  std::string_view value;
  explicit Unboxed(const c10::IValue& v) : storage(v.toStringRef()), value(storage) {}
  Unboxed(Unboxed&& other) noexcept : storage(std::move(other.storage)), value(storage) {}
  std::string_view& get() { return value; }
};
/// A module, as an argument of a wrapped function: by its holder, by a shared pointer, by reference.
template <class T>
  requires torch::detail::is_module_holder<T>::value
struct Unboxed<T> {
  T value;
  explicit Unboxed(const c10::IValue& v) : value(held_module<typename T::ContainedType>(v)) {}
  T& get() { return value; }
};
template <std::derived_from<torch::nn::Module> T>
struct Unboxed<std::shared_ptr<T>> {
  std::shared_ptr<T> value;
  explicit Unboxed(const c10::IValue& v) : value(held_module<T>(v)) {}
  std::shared_ptr<T>& get() { return value; }
};
template <std::derived_from<torch::nn::Module> T>
struct Unboxed<T> : Unboxed<std::shared_ptr<T>> {
  using Unboxed<std::shared_ptr<T>>::Unboxed;
  T& get() { return *this->value; }
};

/// A result of C++ code as a boxed value: tensors, numbers, text, optionals, tuples, pairs, vectors, maps and structs
/// (trace/hana.hpp) of them; an object of any other class is held as it is.
template <class T>
c10::IValue box_result(const T& value) {
  if constexpr (Record<T>) {
    c10::impl::GenericDict dict(c10::AnyType::get(), c10::AnyType::get());
    record_traits<T>::apply(value, [&](const auto&... members) {
      std::size_t i = 0;
      (dict.insert(std::string(record_traits<T>::names[i++]), box_result(members)), ...);
    });
    return dict;
  } else if constexpr (requires { result_traits<T>::box(value); }) {
    return result_traits<T>::box(value);
  } else if constexpr (requires { std::tuple_size<T>::value; }) {
    return std::apply(
        [](const auto&... parts) { return c10::IValue(c10::ivalue::Tuple::create({box_result(parts)...})); }, value);
  } else if constexpr (requires {
                         typename T::mapped_type;
                         value.begin()->second;  // which c10::Dict has not
                       }) {
    c10::impl::GenericDict dict(c10::AnyType::get(), c10::AnyType::get());
    for (const auto& [key, mapped] : value) dict.insert(box_result(key), box_result(mapped));
    return dict;
  } else if constexpr (requires {
                         value.has_value();
                         *value;
                       } && !std::is_same_v<T, at::Tensor>) {
    return value ? box_result(*value) : c10::IValue();
  } else if constexpr (Sequence<T> && (!HasTraits<T> || !Boxable<T>)) {
    std::vector<c10::IValue> items;
    for (const auto& item : value) items.push_back(box_result(item));
    return to_list(std::move(items), {});
  } else if constexpr (StringLike<T>) {
    return c10::IValue(std::string(std::string_view(value)));
  } else if constexpr (std::is_enum_v<T> && !HasTraits<T>) {
    return c10::IValue(static_cast<std::int64_t>(value));
  } else if constexpr (std::is_arithmetic_v<T>) {
    if constexpr (std::is_same_v<T, bool>) return c10::IValue(value);
    else if constexpr (std::is_integral_v<T>) return c10::IValue(static_cast<std::int64_t>(value));
    else return c10::IValue(static_cast<double>(value));
  } else if constexpr (Boxable<T>) {
    return c10::IValue(value);
  } else if constexpr (requires { value.ptr(); } && torch::detail::is_module_holder<T>::value) {
    return hold_module(value.ptr());
  } else {
    static_assert(std::copy_constructible<T>,
                  "fxx: a function of a graph returns an object that cannot be copied; return it by shared_ptr");
    return hold<T>(value);
  }
}

/// With a value for each of `A`.
template <class Impl, class... A>
c10::IValue call_forward(Impl& module, std::vector<c10::IValue>& args, std::type_identity<std::tuple<A...>>) {
  const auto unbox = [&]<std::size_t... I>(std::index_sequence<I...>) {
    return std::tuple<Unboxed<std::remove_cvref_t<A>>...>(Unboxed<std::remove_cvref_t<A>>(args[I])...);
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

/// Does forward take the first N of its parameters alone?
template <class Impl, class Parameters, class Indices>
inline constexpr bool takes_inputs = false;
template <class Impl, class... P, std::size_t... I>
inline constexpr bool takes_inputs<Impl, std::tuple<P...>, std::index_sequence<I...>> =
    requires(Impl& module) { module.forward(std::declval<std::tuple_element_t<I, std::tuple<P...>>>()...); };
template <class Impl, std::size_t N>
consteval bool forward_takes() {
  using Parameters = typename forward_traits<decltype(&Impl::forward)>::arguments;
  if constexpr (N > std::tuple_size_v<Parameters>) return false;
  else return takes_inputs<Impl, Parameters, std::make_index_sequence<N>>;
}
[[noreturn]] void no_such_forward(const torch::nn::Module& module, std::size_t count);

/// A call of Impl::forward by its declared signature; what is left out has the default that forward declares. Throws
/// RunError (E701) when forward does not take as many arguments.
template <class Impl>
c10::IValue call_typed(torch::nn::Module& module, std::vector<c10::IValue> args) {
  using Parameters = typename forward_traits<decltype(&Impl::forward)>::arguments;
  c10::IValue result;
  const auto call = [&]<std::size_t... I>(std::index_sequence<I...>) {
    if constexpr (forward_takes<Impl, sizeof...(I)>()) {
      if (args.size() != sizeof...(I)) return false;
      result = call_forward(dynamic_cast<Impl&>(module), args,
                            std::type_identity<std::tuple<std::tuple_element_t<I, Parameters>...>>());
      return true;
    } else {
      return false;
    }
  };
  const bool found = [&]<std::size_t... N>(std::index_sequence<N...>) {
    return (call(std::make_index_sequence<N>()) || ...);
  }(std::make_index_sequence<std::tuple_size_v<Parameters> + 1>());
  if (!found) no_such_forward(module, args.size());
  return result;
}

}  // namespace detail

/// Makes graphs able to call modules of this type. Its forward is a plain member function of tensors, numbers, text,
/// optionals, vectors and tuples of them, and may have default arguments. Registering twice is harmless.
template <class Impl>
void register_leaf() {
  static_assert(std::derived_from<Impl, torch::nn::Module>, "fxx::register_leaf: the type is not a torch::nn::Module");
  static_assert(
      requires { &Impl::forward; },
      "fxx::register_leaf: the type has no plain member function forward; overloads and templates cannot be called by "
      "a graph");
  detail::register_leaf_call(typeid(Impl), &detail::call_typed<Impl>, detail::forward_result<Impl>());
}

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/torch/leaf_modules.ipp"
#endif
