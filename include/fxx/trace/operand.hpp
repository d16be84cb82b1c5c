// What may be passed where an operator is called with a Proxy: the parameter types of the generated overload set.
//
// One class per kind of schema parameter. Each takes the C++ values that LibTorch takes there, proxies of them, and
// braces; what does not fit is a compile error at the call. A parameter left out stays left out in the graph.
// Main names: Operand, Single, List, AnyArg, argument_traits, HasCreateArg. Cost: light.
#pragma once

#include <array>
#include <concepts>
#include <initializer_list>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "fxx/ir/graph.hpp"
#include "fxx/meta/enum_name.hpp"

namespace fxx::inline FXX_ABI {

class Tracer;

namespace functional {
/// Base of everything that finds the operator functions by argument-dependent lookup: relu(x) for a Proxy x.
struct lookup {};
}  // namespace functional

namespace detail {
/// An undefined tensor is where none can be: throws TraceError (E305).
[[noreturn]] void undefined_tensor();
}  // namespace detail

/// A value that tracing stands in for: a node, or one item of a node that returns several.
class ProxyBase : functional::lookup {
 public:
  /// The node of the value. Makes the getitem nodes when the value is an item that nobody used before.
  Node* node() const;
  Tracer& tracer() const {
    if (!tracer_) [[unlikely]]
      detail::undefined_tensor();
    return *tracer_;
  }
  /// False of `Proxy()`, as of `torch::Tensor()`.
  bool defined() const { return tracer_ != nullptr; }

  /// In place of the number of an item: all of it. A list may be asked for item -1.
  static constexpr int whole = -0x7fffffff;

 protected:
  ProxyBase() = default;
  ProxyBase(Tracer& tracer, Node* node, int item = whole, int part = whole)
      : tracer_(&tracer), node_(node), item_(item), part_(part) {}

  Tracer* tracer_ = nullptr;  // of an undefined one
  Node* node_ = nullptr;
  int item_ = whole;  // which result of the node, or `whole`
  int part_ = whole;  // which part of that, when it is a tuple itself

 private:
  friend class Tracer;
};

/// How a C++ type that the light layers do not know becomes an argument. Specialise with
///   static constexpr ValueType type;  static constexpr bool list;  static Argument convert(const T&);
/// or, instead of convert, `create(Tracer&, const T&)` where that makes nodes, `visit(const T&, f)` for one of several
/// other types, and `defined(const T&)` for the host's tensor type.
template <class T>
struct argument_traits {};

namespace detail {

template <class T>
concept HasTraits = requires { argument_traits<T>::type; };
template <class T>
concept ExternalTensor = HasTraits<T> && argument_traits<T>::type == ValueType::tensor && !argument_traits<T>::list;
/// Types that derive from a known one count as it: a module holder's tensor, a user's Tensor subclass.
template <class T>
concept StringLike = std::convertible_to<const T&, std::string_view> && !std::same_as<T, std::nullptr_t>;

/// A type of the user's that says itself what it is in a graph: a function found by argument-dependent lookup,
///   fxx::Argument fx_create_arg(fxx::Tracer& tracer, const Shape& shape);
/// (torch.fx: __fx_create_arg__).
template <class T>
concept HasCreateArg = requires(Tracer& tracer, const T& value) { Argument(fx_create_arg(tracer, value)); };

/// What kind of value a C++ type is; nothing for types that cannot be arguments.
template <class T>
struct value_kind {};
template <class T>
  requires requires { T::proxy_type; }
struct value_kind<T> {
  static constexpr ValueType value = T::proxy_type;
};
template <HasTraits T>
  requires(!argument_traits<T>::list)
struct value_kind<T> {
  static constexpr ValueType value = argument_traits<T>::type;
};
template <>
struct value_kind<bool> {
  static constexpr ValueType value = ValueType::boolean;
};
template <std::integral T>
  requires(!std::same_as<T, bool>)
struct value_kind<T> {
  static constexpr ValueType value = ValueType::integer;
};
template <std::floating_point T>
struct value_kind<T> {
  static constexpr ValueType value = ValueType::real;
};
template <StringLike T>
struct value_kind<T> {
  static constexpr ValueType value = ValueType::string;
};
template <>
struct value_kind<Dtype> {
  static constexpr ValueType value = ValueType::dtype;
};
template <>
struct value_kind<Layout> {
  static constexpr ValueType value = ValueType::layout;
};
template <>
struct value_kind<MemoryFormat> {
  static constexpr ValueType value = ValueType::memory_format;
};
template <>
struct value_kind<Device> {
  static constexpr ValueType value = ValueType::device;
};

constexpr bool takes(ValueType parameter, ValueType given) {
  using V = ValueType;
  switch (parameter) {
    case V::other: return true;
    case V::scalar: return given == V::scalar || given == V::integer || given == V::real || given == V::boolean;
    case V::integer: return given == V::integer || given == V::scalar;
    case V::real: return given == V::real || given == V::integer || given == V::scalar;
    default: return parameter == given;
  }
}
template <class T, ValueType Parameter>
concept Fits = requires { value_kind<T>::value; } && takes(Parameter, value_kind<T>::value);

template <class T>
concept Sequence = requires(const T& t) {
  t.begin();
  t.end();
  typename T::value_type;
} && !StringLike<T>;

/// Has the type proxies in it: itself, or as a container of them? A type with fx_create_arg counts as one that has.
template <class T>
inline constexpr bool holds_proxies = std::derived_from<T, ProxyBase> || HasCreateArg<T>;
template <class T>
  requires requires {
    typename T::value_type;
    requires !StringLike<T> && !HasTraits<T> && !HasCreateArg<T> && !std::derived_from<T, ProxyBase>;
  }
inline constexpr bool holds_proxies<T> = holds_proxies<std::remove_cvref_t<typename T::value_type>>;
template <class... Ts>
inline constexpr bool holds_proxies<std::tuple<Ts...>> = (holds_proxies<std::remove_cvref_t<Ts>> || ...);
template <class A, class B>
inline constexpr bool holds_proxies<std::pair<A, B>> =
    holds_proxies<std::remove_cvref_t<A>> || holds_proxies<std::remove_cvref_t<B>>;

/// For `type` in a static_assert that names it: never true.
template <class T>
inline constexpr bool never = false;
/// What an expression is worth after a failed static_assert, so that one mistake gives one error. Has no body.
template <class T>
T no_value();

}  // namespace detail

/// One argument in flight, borrowed for the length of the call.
class Operand {
 public:
  Operand() = default;

  bool left_out() const { return !given_; }
  /// A tensor that is none: None, where one may be left out.
  bool undefined() const { return undefined_; }
  std::source_location location() const { return location_; }
  /// The tracer of the first proxy in it, or null.
  Tracer* tracer() const { return tracer_; }
  /// Of one value; `other` for those that no parameter of an operator takes, and for containers.
  ValueType type() const { return type_; }

  const ProxyBase* proxy() const { return proxy_; }
  const void* external_tensor() const { return external_; }
  const std::vector<Operand>* items() const { return has_items_ ? &items_ : nullptr; }
  /// What the items are: list, tuple, or dict, where keys and values take turns.
  Argument::Kind container() const { return container_; }
  const Argument& immediate() const { return immediate_; }
  /// The argument of an object that says itself what it is, through fx_create_arg.
  bool is_object() const { return object_ != nullptr; }
  Argument create_object(Tracer& tracer) const { return create_(tracer, object_); }

 protected:
  template <class T>
  void set(const T& value, std::source_location where) {
    given_ = true;
    location_ = where;
    if constexpr (requires { detail::value_kind<T>::value; }) type_ = detail::value_kind<T>::value;
    if constexpr (std::derived_from<T, ProxyBase>) {
      undefined_ = !value.defined();
      if (undefined_) return;
      proxy_ = &value;
      tracer_ = &value.tracer();
    } else if constexpr (detail::ExternalTensor<T>) {
      if constexpr (requires { argument_traits<T>::defined(value); }) undefined_ = !argument_traits<T>::defined(value);
      if (!undefined_) external_ = &value;
    } else if constexpr (requires { argument_traits<T>::convert(value); }) {
      immediate_ = argument_traits<T>::convert(value);
    } else if constexpr (requires { argument_traits<T>::visit(value, [](const auto&) {}); }) {
      argument_traits<T>::visit(value, [&](const auto& held) { set(held, where); });
    } else if constexpr (requires(Tracer& tracer) { argument_traits<T>::create(tracer, value); }) {
      object_ = &value;
      create_ = [](Tracer& tracer, const void* object) {
        return Argument(argument_traits<T>::create(tracer, *static_cast<const T*>(object)));
      };
    } else if constexpr (detail::HasCreateArg<T>) {
      object_ = &value;
      create_ = [](Tracer& tracer, const void* object) {
        return Argument(fx_create_arg(tracer, *static_cast<const T*>(object)));
      };
    } else if constexpr (detail::StringLike<T>) {
      immediate_ = std::string_view(value);
    } else if constexpr (std::is_enum_v<T> && !std::constructible_from<Argument, T>) {
      immediate_ = Enumerator{std::string(type_name<T>()), std::string(enumerator_name(value)),
                              static_cast<std::int64_t>(value)};
    } else if constexpr (std::constructible_from<Argument, const T&>) {
      immediate_ = Argument(value);
    } else {
      static_assert(detail::never<T>,
                    "fxx::Operand: a value of this type has no place in a graph; pass tensors, proxies, numbers, text, "
                    "enums or containers of them, or give the type a function fx_create_arg(fxx::Tracer&, const T&)");
    }
  }
  void set_none(std::source_location where) {
    given_ = true;
    location_ = where;
  }
  /// What is an argument already, of this trace.
  void set_known(Tracer& tracer, Argument known, std::source_location where) {
    given_ = true;
    location_ = where;
    tracer_ = &tracer;
    immediate_ = std::move(known);
  }
  template <class Item, class Range>
  void set_items(const Range& range, std::source_location where) {
    start_items(Argument::Kind::list, where);
    for (const auto& value : range) add_item(Item(value, where));
  }
  void start_items(Argument::Kind container, std::source_location where) {
    given_ = true;
    location_ = where;
    container_ = container;
    has_items_ = true;
    items_.clear();
  }
  void add_item(Operand item) {
    if (!tracer_) tracer_ = item.tracer();
    items_.push_back(std::move(item));
  }

 private:
  bool given_ = false;
  bool undefined_ = false;
  ValueType type_ = ValueType::other;
  Argument::Kind container_ = Argument::Kind::list;
  const ProxyBase* proxy_ = nullptr;
  const void* external_ = nullptr;
  Tracer* tracer_ = nullptr;
  Argument immediate_;
  std::vector<Operand> items_;  // g++ 12 warns of an optional one that is moved
  bool has_items_ = false;
  std::source_location location_;
  const void* object_ = nullptr;
  Argument (*create_)(Tracer&, const void*) = nullptr;
};

/// Any value: what wrapped functions and modules take. Tensors, proxies, numbers, text, enums, objects with
/// fx_create_arg; optionals, lists, tuples and maps of them. Without a line: a variadic call has no place to take it
/// from.
class AnyArg : public Operand {
 public:
  AnyArg() = default;
  AnyArg(std::nullopt_t) { set_none({}); }
  template <class T>
    requires(!std::same_as<T, AnyArg>)
  AnyArg(const T& value, std::source_location where = {}) {
    if constexpr (std::derived_from<T, ProxyBase> || detail::HasTraits<T> || detail::HasCreateArg<T> ||
                  detail::StringLike<T>) {
      if constexpr (requires {
                      requires argument_traits<T>::list && !requires { argument_traits<T>::convert(value); };
                    })
        set_items<AnyArg>(value, where);
      else set(value, where);
    } else if constexpr (requires { typename T::mapped_type; }) {
      start_items(Argument::Kind::dict, where);
      for (const auto& [key, mapped] : value) add_item(AnyArg(key, where)), add_item(AnyArg(mapped, where));
    } else if constexpr (requires {
                           value.has_value();
                           *value;
                         }) {
      if (value) *this = AnyArg(*value, where);
      else set_none(where);
    } else if constexpr (detail::Sequence<T>) {
      set_items<AnyArg>(value, where);
    } else if constexpr (requires { std::tuple_size<T>::value; }) {
      start_items(Argument::Kind::tuple, where);
      std::apply([&](const auto&... items) { (add_item(AnyArg(items, where)), ...); }, value);
    } else {
      set(value, where);
    }
  }
};

namespace detail {
/// The values of a variadic call as operands, borrowed for its length: `const AnyOperands operands(inputs...);`
template <std::size_t N>
class AnyOperands {
 public:
  template <class... A>
    requires(sizeof...(A) == N)
  explicit AnyOperands(const A&... values) : values_{{AnyArg(values)...}} {
    for (std::size_t i = 0; i < N; ++i) operands_[i] = &values_[i];
  }
  AnyOperands(const AnyOperands&) = delete;
  AnyOperands& operator=(const AnyOperands&) = delete;
  operator std::span<const Operand* const>() const { return operands_; }

 private:
  std::array<AnyArg, N> values_;
  std::array<const Operand*, N> operands_{};
};
template <class... A>
AnyOperands(const A&...) -> AnyOperands<sizeof...(A)>;
}  // namespace detail

/// A parameter of one value.
template <ValueType Base, bool Optional = false>
class Single : public Operand {
 public:
  Single() = default;
  Single(std::nullopt_t, std::source_location where = std::source_location::current())
    requires Optional
  {
    set_none(where);
  }
  template <class T>
    requires detail::Fits<T, Base>
  Single(const T& value, std::source_location where = std::source_location::current()) {
    set(value, where);
    if (!Optional && undefined()) detail::undefined_tensor();
  }
  template <class T>
    requires(Optional && detail::Fits<T, Base>)
  Single(const std::optional<T>& value, std::source_location where = std::source_location::current()) {
    if (value) set(*value, where);
    else set_none(where);
  }
  Single(Tracer& tracer, Argument known, std::source_location where) { set_known(tracer, std::move(known), where); }
  Single(const Single& other, std::source_location) : Single(other) {}
  Single(const Single&) = default;
  Single& operator=(const Single&) = default;
};

/// A parameter of a list of values. `Sized` ones (`int[2]`) also take one value for all.
template <ValueType Base, bool Optional = false, bool Sized = false, bool OptionalItems = false>
class List : public Operand {
 public:
  using Item = Single<Base, OptionalItems>;
  List() = default;
  List(std::initializer_list<Item> items, std::source_location where = std::source_location::current()) {
    set_items<Item>(items, where);
  }
  template <detail::Sequence T>
    requires(std::constructible_from<Item, const typename T::value_type&, std::source_location> &&
             !detail::HasTraits<T>)
  List(const T& items, std::source_location where = std::source_location::current()) {
    set_items<Item>(items, where);
  }
  template <detail::HasTraits T>
    requires(argument_traits<T>::list && detail::takes(Base, argument_traits<T>::type))
  List(const T& items, std::source_location where = std::source_location::current()) {
    if constexpr (requires { argument_traits<T>::convert(items); }) set(items, where);
    else set_items<Item>(items, where);
  }
  template <class T>
    requires(detail::takes(Base, T::list_type))
  List(const T& items, std::source_location where = std::source_location::current()) {
    set(items, where);
  }
  template <class T>
    requires(Sized && detail::Fits<T, Base>)
  List(const T& one, std::source_location where = std::source_location::current()) {
    set(one, where);
  }
  List(std::nullopt_t, std::source_location where = std::source_location::current())
    requires Optional
  {
    set_none(where);
  }
};

/// A list for which one value may be given, as LibTorch's ArrayRef has it: `x.view(-1)` is `x.view({-1})`.
template <ValueType Base>
class ListOrOne : public List<Base> {
 public:
  using List<Base>::List;
  template <class T>
    requires detail::Fits<T, Base>
  ListOrOne(const T& one, std::source_location where = std::source_location::current()) {
    this->template set_items<Single<Base>>(std::span<const T>(&one, 1), where);
  }
};

namespace functional {
// The parameters of the overload set, by the schema's types: Tensor, Scalar, int, float, bool, str, ScalarType, ...
using TensorArg = Single<ValueType::tensor>;
using OptionalTensorArg = Single<ValueType::tensor, true>;
using ScalarArg = Single<ValueType::scalar>;
using OptionalScalarArg = Single<ValueType::scalar, true>;
using IntArg = Single<ValueType::integer>;
using OptionalIntArg = Single<ValueType::integer, true>;
using RealArg = Single<ValueType::real>;
using OptionalRealArg = Single<ValueType::real, true>;
using BoolArg = Single<ValueType::boolean>;
using OptionalBoolArg = Single<ValueType::boolean, true>;
using StringArg = Single<ValueType::string>;
using OptionalStringArg = Single<ValueType::string, true>;
using DtypeArg = Single<ValueType::dtype>;
using OptionalDtypeArg = Single<ValueType::dtype, true>;
using LayoutArg = Single<ValueType::layout>;
using OptionalLayoutArg = Single<ValueType::layout, true>;
using OptionalMemoryFormatArg = Single<ValueType::memory_format, true>;
using MemoryFormatArg = Single<ValueType::memory_format>;
using DeviceArg = Single<ValueType::device>;
using OptionalDeviceArg = Single<ValueType::device, true>;
using TensorListArg = List<ValueType::tensor>;
using TensorListOfOptionalArg = List<ValueType::tensor, false, false, true>;
using IntListArg = List<ValueType::integer>;
using IntListOrOneArg = ListOrOne<ValueType::integer>;
using SizedIntListArg = List<ValueType::integer, false, true>;
using OptionalIntListArg = List<ValueType::integer, true>;
using OptionalSizedIntListArg = List<ValueType::integer, true, true>;
using RealListArg = List<ValueType::real>;
using OptionalRealListArg = List<ValueType::real, true>;
}  // namespace functional

}  // namespace fxx::inline FXX_ABI
