// What may be passed where an operator is called with a Proxy: the parameter types of the generated overload set.
//
// One class per kind of schema parameter. Each takes the C++ values that LibTorch takes there, proxies of them, and
// braces; what does not fit is a compile error at the call. A parameter left out stays left out in the graph.
// Main names: Operand, Single, List, argument_traits. Cost: light.
#pragma once

#include <array>
#include <concepts>
#include <initializer_list>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fxx/ir/graph.hpp"

namespace fxx::inline FXX_ABI {

class Tracer;

namespace functional {
/// Base of everything that finds the operator functions by argument-dependent lookup: relu(x) for a Proxy x.
struct lookup {};
}  // namespace functional

/// A value that tracing stands in for: a node, or one item of a node that returns several.
class ProxyBase : functional::lookup {
 public:
  /// The node of the value. Makes the getitem node when the value is an item that nobody used before.
  Node* node() const;
  Tracer& tracer() const { return *tracer_; }

 protected:
  ProxyBase(Tracer& tracer, Node* node, int item = -1) : tracer_(&tracer), node_(node), item_(item) {}

  Tracer* tracer_;
  Node* node_;
  int item_;  // -1: the node's value itself

 private:
  friend class Tracer;
};

/// How a C++ type that the light layers do not know becomes an argument. Specialise with
///   static constexpr ValueType type;  static constexpr bool list;  static Argument convert(const T&);
/// or, for the host's tensor type, `type = ValueType::tensor` without convert.
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

}  // namespace detail

/// One argument in flight, borrowed for the length of the call.
class Operand {
 public:
  Operand() = default;

  bool left_out() const { return !given_; }
  std::source_location location() const { return location_; }
  /// The tracer of the first proxy in it, or null.
  Tracer* tracer() const { return tracer_; }

  const ProxyBase* proxy() const { return proxy_; }
  const void* external_tensor() const { return external_; }
  const std::vector<Operand>* items() const { return items_ ? &*items_ : nullptr; }
  const Argument& immediate() const { return immediate_; }

 protected:
  template <class T>
  void set(const T& value, std::source_location where) {
    given_ = true;
    location_ = where;
    if constexpr (std::derived_from<T, ProxyBase>) {
      proxy_ = &value;
      tracer_ = &value.tracer();
    } else if constexpr (detail::ExternalTensor<T>) {
      external_ = &value;
    } else if constexpr (requires { argument_traits<T>::convert(value); }) {
      immediate_ = argument_traits<T>::convert(value);
    } else if constexpr (detail::StringLike<T>) {
      immediate_ = std::string_view(value);
    } else {
      immediate_ = Argument(value);
    }
  }
  void set_none(std::source_location where) {
    given_ = true;
    location_ = where;
  }
  template <class Item, class Range>
  void set_items(const Range& range, std::source_location where) {
    given_ = true;
    location_ = where;
    items_.emplace();
    for (const auto& value : range) {
      items_->push_back(Item(value, where));
      if (!tracer_) tracer_ = items_->back().tracer();
    }
  }

 private:
  bool given_ = false;
  const ProxyBase* proxy_ = nullptr;
  const void* external_ = nullptr;
  Tracer* tracer_ = nullptr;
  Argument immediate_;
  std::optional<std::vector<Operand>> items_;
  std::source_location location_;
};

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
  }
  template <class T>
    requires(Optional && detail::Fits<T, Base>)
  Single(const std::optional<T>& value, std::source_location where = std::source_location::current()) {
    if (value) set(*value, where);
    else set_none(where);
  }
  Single(const Single& other, std::source_location) : Single(other) {}
  Single(const Single&) = default;
};

class ListProxy;

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
  template <std::same_as<ListProxy> T>
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
