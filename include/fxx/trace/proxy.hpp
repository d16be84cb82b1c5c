// Values that record what is done with them: the stand-ins of symbolic tracing.
//
// Proxy stands for a tensor and has the members of torch::Tensor, made from the operator table. ScalarProxy stands for
// a number that is known only when the graph runs (`x.size(0)`), BoolProxy for the answer of a comparison, ListProxy
// for a list of tensors (`x.chunk(2)`), ScalarListProxy for one of numbers (`x.sizes()`), ValueProxy for a dtype, a
// layout or a device (`x.scalar_type()`), OptionsProxy for all of these (`x.options()`).
// Functions over them (`relu(x)`, `x + 1`, `sqrt(n)`) are found by argument-dependent lookup; braces have no namespace,
// so lists in braces and what makes tensors are functions of namespace fxx besides: `fxx::cat({x, y}, 1)`,
// `fxx::zeros({x.size(0), 4})`.
// Main names: Proxy, ScalarProxy, BoolProxy, ListProxy, ScalarListProxy, OptionsProxy, unpack, check, IndexArg,
// OptionsArg. Cost: light. After torch.fx proxy.py, 2.13.
#pragma once

#include <tuple>
#include <utility>

#include "fxx/ops/registry.hpp"
#include "fxx/trace/operand.hpp"
#include "fxx/trace/tracer.hpp"

namespace fxx::inline FXX_ABI {

/// A number that tracing stands in for. Arithmetic and comparison record Python's operators, as torch.fx does.
class ScalarProxy : public ProxyBase {
 public:
  static constexpr ValueType proxy_type = ValueType::scalar;
  ScalarProxy(Tracer& tracer, Node* node, int item = whole, int part = whole) : ProxyBase(tracer, node, item, part) {}

  // Like a number of C++, the variable gets a new value.
  template <detail::Fits<ValueType::scalar> T>
  ScalarProxy& operator+=(const T& other) {
    return *this = *this + other;
  }
  template <detail::Fits<ValueType::scalar> T>
  ScalarProxy& operator-=(const T& other) {
    return *this = *this - other;
  }
  template <detail::Fits<ValueType::scalar> T>
  ScalarProxy& operator*=(const T& other) {
    return *this = *this * other;
  }
  template <detail::Fits<ValueType::scalar> T>
  ScalarProxy& operator/=(const T& other) {
    return *this = *this / other;
  }

  // C++ code that needs the number cannot be traced: these throw TraceError (E301), as torch.fx does.
  explicit operator bool() const { return tracer().to_bool(*this); }
  template <class T>
    requires(std::is_arithmetic_v<T> && !std::same_as<T, bool>)
  operator T() const {
    return static_cast<T>(tracer().to_number(*this).number());
  }
  /// As an end of a slice: `x.index({Slice{0, n}})`.
  operator Argument() const { return node(); }
};

/// The answer of a comparison of numbers that tracing stands in for. It can be returned, checked (`check(n > 2)`) and
/// passed on; a branch on it throws TraceError (E301).
class BoolProxy : public ScalarProxy {
 public:
  static constexpr ValueType proxy_type = ValueType::boolean;
  using ScalarProxy::ScalarProxy;
  operator bool() const { return tracer().to_bool(*this); }
};

/// A dtype, a layout or a device that tracing stands in for: what factories and `to` take. Comparing it throws
/// TraceError (E301).
template <ValueType Type>
class ValueProxy : public ProxyBase {
 public:
  static constexpr ValueType proxy_type = Type;
  ValueProxy(Tracer& tracer, Node* node, int item = whole, int part = whole) : ProxyBase(tracer, node, item, part) {}
  template <class T>
  bool operator==(const T&) const {
    return tracer().to_bool(*this);
  }
};
using DtypeProxy = ValueProxy<ValueType::dtype>;
using LayoutProxy = ValueProxy<ValueType::layout>;
using DeviceProxy = ValueProxy<ValueType::device>;

class Proxy;

/// A list that tracing stands in for. Its length is known only when the graph runs.
template <class Item, ValueType Type>
class ListProxyOf : public ProxyBase {
 public:
  static constexpr ValueType list_type = Type;
  ListProxyOf(Tracer& tracer, Node* node, int item = whole, int part = whole) : ProxyBase(tracer, node, item, part) {}

  /// One item, without a check: the length is not known.
  Item operator[](int index) const {
    return item_ == whole   ? Item(tracer(), node_, index)
           : part_ == whole ? Item(tracer(), node_, item_, index)
                            : Item(tracer(), node(), index);
  }
  Item at(int index) const { return (*this)[index]; }
  Item front() const { return (*this)[0]; }
  Item back() const { return (*this)[-1]; }
  /// The first N items: `auto [a, b] = x.chunk(2).unpack<2>();`
  template <std::size_t N>
  auto unpack() const {
    return [this]<std::size_t... I>(std::index_sequence<I...>) {
      return std::array<Item, N>{(*this)[static_cast<int>(I)]...};
    }(std::make_index_sequence<N>());
  }
  /// `x.sizes().vec()`: the same.
  const ListProxyOf& vec() const { return *this; }

  // The length is not known while tracing: these throw TraceError (E302); unpack<N>() says how many are expected.
  std::size_t size() const { return begin(), 0; }
  const Item* begin() const { return tracer().iter(*this), nullptr; }
  const Item* end() const { return begin(); }
};
using ListProxy = ListProxyOf<Proxy, ValueType::tensor>;
using ScalarListProxy = ListProxyOf<ScalarProxy, ValueType::integer>;

/// The first N items of a list, or parts of a tensor along its first dimension, in a trace and outside:
/// `auto [a, b] = fxx::unpack<2>(x.chunk(2));`.
template <std::size_t N, class List>
auto unpack(const List& list) {
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    return std::array<std::remove_cvref_t<decltype(list[0])>, N>{list[I]...};
  }(std::make_index_sequence<N>());
}

namespace functional {
/// One part of an index: a number, a slice, `...`, None (a new axis), a tensor, or the key of a dict.
class IndexArg : public Operand {
 public:
  template <class T>
    requires(detail::Fits<T, ValueType::tensor> || detail::Fits<T, ValueType::scalar> ||
             detail::Fits<T, ValueType::boolean>)
  IndexArg(const T& value, std::source_location where = std::source_location::current()) {
    set(value, where);
    if (undefined()) detail::undefined_tensor();
  }
  template <detail::StringLike T>
  IndexArg(const T& key, std::source_location where = std::source_location::current()) {
    if (std::string_view(key) == "...") set(Argument(Ellipsis{}), where);
    else set(key, where);
  }
  IndexArg(Slice slice, std::source_location where = std::source_location::current()) {
    set(Argument(std::move(slice)), where);
  }
  IndexArg(Ellipsis, std::source_location where = std::source_location::current()) { set(Argument(Ellipsis{}), where); }
  IndexArg(std::nullopt_t, std::source_location where = std::source_location::current()) { set_none(where); }
  template <class T>
    requires(detail::HasTraits<T> && !detail::Fits<T, ValueType::tensor> && !detail::Fits<T, ValueType::scalar>)
  IndexArg(const T& value, std::source_location where = std::source_location::current()) {
    set(value, where);
  }
  IndexArg(const IndexArg& other, std::source_location) : IndexArg(other) {}
  IndexArg(const IndexArg&) = default;
};
class IndexListArg : public Operand {
 public:
  IndexListArg(std::initializer_list<IndexArg> items, std::source_location where = std::source_location::current()) {
    set_items<IndexArg>(items, where);
  }
  IndexListArg(const std::vector<IndexArg>& items, std::source_location where = std::source_location::current()) {
    set_items<IndexArg>(items, where);
  }
};
}  // namespace functional

/// dtype, layout and device of a traced tensor, each of which may be replaced: `x.options().dtype(torch::kLong)`.
class OptionsProxy : functional::lookup {
 public:
  explicit OptionsProxy(const ProxyBase& tensor) : tracer_(&tensor.tracer()), tensor_(tensor.node()) {}

  OptionsProxy dtype(const functional::OptionalDtypeArg& dtype) const { return with(0, dtype); }
  OptionsProxy layout(const functional::OptionalLayoutArg& layout) const { return with(1, layout); }
  OptionsProxy device(const functional::OptionalDeviceArg& device) const { return with(2, device); }
  OptionsProxy pinned_memory(bool pinned = true) const { return with(3, functional::OptionalBoolArg(pinned)); }
  OptionsProxy requires_grad(bool requires_grad) const;
  DtypeProxy dtype() const { return {tracer(), known(0)}; }
  LayoutProxy layout() const { return {tracer(), known(1)}; }
  DeviceProxy device() const { return {tracer(), known(2)}; }

  Tracer& tracer() const { return *tracer_; }
  /// dtype, layout, device, pin_memory: as given, else a node that asks the tensor; None for the last.
  Argument value(int which) const;
  bool requires_grad() const { return requires_grad_; }

 private:
  OptionsProxy with(int which, const Operand& value) const;
  Node* known(int which) const;

  Tracer* tracer_;
  Node* tensor_;
  std::array<std::optional<Argument>, 4> given_;
  bool requires_grad_ = false;
};

namespace functional {
/// What `to` takes: torch::TensorOptions, `x.options()`, a device or a layout.
class DeviceOrOptionsArg {
 public:
  DeviceOrOptionsArg() = default;
  template <class T>
    requires requires(DeviceOrOptionsArg& options, const T& value, std::source_location where) {
      argument_traits<T>::fill(options, value, where);
    }
  DeviceOrOptionsArg(const T& value, std::source_location where = std::source_location::current()) {
    argument_traits<T>::fill(*this, value, where);
  }
  DeviceOrOptionsArg(const OptionsProxy& value, std::source_location where = std::source_location::current());
  template <class T>
    requires(detail::Fits<T, ValueType::device> || detail::Fits<T, ValueType::layout>)
  DeviceOrOptionsArg(const T& value, std::source_location where = std::source_location::current()) {
    if constexpr (detail::Fits<T, ValueType::device>) device = OptionalDeviceArg(value, where);
    else layout = OptionalLayoutArg(value, where);
  }

  OptionalDtypeArg dtype;
  OptionalLayoutArg layout;
  OptionalDeviceArg device;
  OptionalBoolArg pin_memory;
  bool requires_grad = false;
};
/// What factories take: a dtype alone besides.
class OptionsArg : public DeviceOrOptionsArg {
 public:
  using DeviceOrOptionsArg::DeviceOrOptionsArg;
  template <class T>
    requires detail::Fits<T, ValueType::dtype>
  OptionsArg(const T& value, std::source_location where = std::source_location::current()) {
    dtype = OptionalDtypeArg(value, where);
  }
};
}  // namespace functional

/// A tensor that tracing stands in for; or another value of which nothing is known, an input or an object of yours.
class Proxy : public ProxyBase {
  using BoolArg = functional::BoolArg;
  using DeviceArg = functional::DeviceArg;
  using DtypeArg = functional::DtypeArg;
  using IntArg = functional::IntArg;
  using IntListArg = functional::IntListArg;
  using IntListOrOneArg = functional::IntListOrOneArg;
  using MemoryFormatArg = functional::MemoryFormatArg;
  using OptionalBoolArg = functional::OptionalBoolArg;
  using OptionalDeviceArg = functional::OptionalDeviceArg;
  using OptionalDtypeArg = functional::OptionalDtypeArg;
  using OptionalIntArg = functional::OptionalIntArg;
  using OptionalIntListArg = functional::OptionalIntListArg;
  using OptionalLayoutArg = functional::OptionalLayoutArg;
  using OptionalMemoryFormatArg = functional::OptionalMemoryFormatArg;
  using OptionalRealArg = functional::OptionalRealArg;
  using OptionalRealListArg = functional::OptionalRealListArg;
  using OptionalScalarArg = functional::OptionalScalarArg;
  using OptionalSizedIntListArg = functional::OptionalSizedIntListArg;
  using OptionalStringArg = functional::OptionalStringArg;
  using OptionalTensorArg = functional::OptionalTensorArg;
  using OptionsArg = functional::OptionsArg;
  using DeviceOrOptionsArg = functional::DeviceOrOptionsArg;
  using RealArg = functional::RealArg;
  using ScalarArg = functional::ScalarArg;
  using SizedIntListArg = functional::SizedIntListArg;
  using StringArg = functional::StringArg;
  using TensorArg = functional::TensorArg;
  using TensorListArg = functional::TensorListArg;
  using TensorListOfOptionalArg = functional::TensorListOfOptionalArg;

 public:
  static constexpr ValueType proxy_type = ValueType::tensor;
  /// Undefined, as `torch::Tensor()` is: None where an argument may be left out, to be assigned before it is used.
  Proxy() = default;
  /// A tensor of the host as a value of the trace that runs: an attribute of its graph, of which parts may be taken
  /// with traced numbers. `T(positions).index({Slice(None, n)})` says it of tensors too. Throws TraceError (E308)
  /// outside a trace.
  template <detail::ExternalTensor T>
  explicit Proxy(const T& tensor) : Proxy(attribute(OptionalTensorArg(tensor))) {}
  Proxy(Tracer& tracer, Node* node, int item = whole, int part = whole) : ProxyBase(tracer, node, item, part) {}

  Proxy(const Proxy&) = default;
  Proxy& operator=(const Proxy&) & = default;
  // As for a tensor, what is assigned to a part goes into the part: `x[0] = y` is copy_, `x[0] = 1` fill_.
  Proxy& operator=(const Proxy& other) &&;
  Proxy& operator=(const ScalarArg& value) &&;

  /// A tensor cannot decide a branch while tracing: throws TraceError (E301), as torch.fx does.
  explicit operator bool() const { return tracer().to_bool(*this); }
  /// A number out of a tensor is not known while tracing: throws TraceError (E301).
  template <class T>
  T item() const {
    return static_cast<T>(tracer().to_number(*this).number());
  }

  // Sizes stay symbolic: they are nodes of the graph.
  ScalarProxy size(const IntArg& dim, std::source_location where = std::source_location::current()) const;
  ScalarProxy stride(const IntArg& dim, std::source_location where = std::source_location::current()) const;
  ScalarProxy dim(std::source_location where = std::source_location::current()) const;
  ScalarProxy numel(std::source_location where = std::source_location::current()) const;
  ScalarProxy ndimension(std::source_location where = std::source_location::current()) const { return dim(where); }
  ScalarListProxy sizes(std::source_location where = std::source_location::current()) const;
  ScalarListProxy strides(std::source_location where = std::source_location::current()) const;

  // What else a tensor says of itself, for factories and `to`.
  DtypeProxy scalar_type(std::source_location where = std::source_location::current()) const;
  DtypeProxy dtype(std::source_location where = std::source_location::current()) const { return scalar_type(where); }
  LayoutProxy layout(std::source_location where = std::source_location::current()) const;
  DeviceProxy device(std::source_location where = std::source_location::current()) const;
  OptionsProxy options() const { return OptionsProxy(*this); }
  BoolProxy is_cpu(std::source_location where = std::source_location::current()) const;
  BoolProxy is_cuda(std::source_location where = std::source_location::current()) const;
  BoolProxy requires_grad(std::source_location where = std::source_location::current()) const;
  ScalarProxy itemsize(std::source_location where = std::source_location::current()) const;
  ScalarProxy element_size(std::source_location where = std::source_location::current()) const {
    return itemsize(where);
  }
  ScalarProxy nbytes(std::source_location where = std::source_location::current()) const;

  // LibTorch's short forms of `to`, `detach` and `requires_grad_`.
  Proxy cpu(std::source_location where = std::source_location::current()) const;
  Proxy cuda(std::source_location where = std::source_location::current()) const;
  Proxy toType(const DtypeArg& dtype, std::source_location where = std::source_location::current()) const;
  Proxy data(std::source_location where = std::source_location::current()) const;
  Proxy set_requires_grad(bool requires_grad, std::source_location where = std::source_location::current()) const;

  /// `x[0]`.
  Proxy operator[](const functional::IndexArg& index) const;
  /// `x.index({Slice{}, 0, "..."})`, recorded as getitem.
  Proxy index(const functional::IndexListArg& indices,
              std::source_location where = std::source_location::current()) const;

  /// Writes to a part: a view and copy_ or fill_ where numbers and slices pick it, aten::index_put_ where tensors do.
  /// Throws TraceError (E305) for a tensor behind `...`: the rank of a proxy is not known.
  Proxy index_put_(const functional::IndexListArg& indices, const TensorArg& values,
                   std::source_location where = std::source_location::current()) const;
  Proxy index_put_(const functional::IndexListArg& indices, const ScalarArg& value,
                   std::source_location where = std::source_location::current()) const;

  /// A method by its name, for values that are objects: `shape.call("area", 2)`. Records call_method; which methods a
  /// value has is known when the graph runs. `R`: what the method gives, where that is no tensor, so that operators take
  /// it as the number, the text or the list that it is: `x.view(shape.call<std::vector<int64_t>>("sizes"))`.
  template <class R = void, class... A>
  auto call(std::string_view method, const A&... args) const;
  /// A value that is called itself. Records call_method __call__, as torch.fx does.
  template <class... A>
  Proxy operator()(const A&... args) const {
    return call("__call__", args...);
  }
  /// The keys of a dict. They are not known while tracing: throws TraceError (E302).
  std::vector<std::string> keys() const { return tracer().keys(*this); }

  // In place, as in LibTorch; the proxy then stands for the result. (torch.fx records `x += 1` as a new value.)
  Proxy& operator+=(const TensorArg& other);
  Proxy& operator+=(const ScalarArg& other);
  Proxy& operator-=(const TensorArg& other);
  Proxy& operator-=(const ScalarArg& other);
  Proxy& operator*=(const TensorArg& other);
  Proxy& operator*=(const ScalarArg& other);
  Proxy& operator/=(const TensorArg& other);
  Proxy& operator/=(const ScalarArg& other);
  Proxy& operator&=(const TensorArg& other);
  Proxy& operator|=(const TensorArg& other);
  Proxy& operator^=(const TensorArg& other);

#include "fxx/trace/methods_declared.inc"

 private:
  static Proxy attribute(const functional::OptionalTensorArg& tensor);
  Proxy call_any(std::string_view method, std::span<const Operand* const> operands) const;
};

/// What stands for a result of type R in a trace, when it is not what traced_result makes by itself: specialise with
///   static auto make(Tracer& tracer, Node* node);
template <class R>
struct result_traits {};

namespace detail {

/// What stands for a result of this type while tracing: numbers, lists and tuples of them are told apart, what is left
/// is a Proxy. `item` and `part` as in ProxyBase.
template <class R>
auto traced_result(Tracer& tracer, Node* node, int item = ProxyBase::whole, int part = ProxyBase::whole) {
  using Plain = std::remove_cvref_t<R>;
  if constexpr (requires { result_traits<Plain>::make(tracer, node); }) {
    if (item != ProxyBase::whole) node = tracer.item(node, item);
    if (part != ProxyBase::whole) node = tracer.item(node, part);
    return result_traits<Plain>::make(tracer, node);
  } else if constexpr (std::same_as<Plain, bool>) {
    return BoolProxy(tracer, node, item, part);
  } else if constexpr (std::is_arithmetic_v<Plain>) {
    return ScalarProxy(tracer, node, item, part);
  } else if constexpr (requires { std::tuple_size<Plain>::value; }) {
    if (part != ProxyBase::whole) node = tracer.item(tracer.item(node, item), part), item = part = ProxyBase::whole;
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return std::make_tuple(
          item == ProxyBase::whole
              ? traced_result<std::tuple_element_t<I, Plain>>(tracer, node, static_cast<int>(I))
              : traced_result<std::tuple_element_t<I, Plain>>(tracer, node, item, static_cast<int>(I))...);
    }(std::make_index_sequence<std::tuple_size_v<Plain>>());
  } else if constexpr (HasTraits<Plain> && !ExternalTensor<Plain>) {
    if constexpr (argument_traits<Plain>::type == ValueType::scalar) return ScalarProxy(tracer, node, item, part);
    else return ValueProxy<argument_traits<Plain>::type>(tracer, node, item, part);
  } else if constexpr (Sequence<Plain>) {
    if constexpr (ExternalTensor<typename Plain::value_type>) return ListProxy(tracer, node, item, part);
    else if constexpr (std::is_arithmetic_v<typename Plain::value_type>)
      return ScalarListProxy(tracer, node, item, part);
    else return Proxy(tracer, node, item, part);
  } else {
    return Proxy(tracer, node, item, part);
  }
}

}  // namespace detail

template <class R, class... A>
auto Proxy::call(std::string_view method, const A&... args) const {
  const Proxy made = call_any(method, detail::AnyOperands(*this, args...));
  if constexpr (std::is_void_v<R>) return made;
  else return detail::traced_result<R>(made.tracer(), made.node());
}

namespace functional {

#include "fxx/trace/functions_declared.inc"

// Arithmetic and comparison. A torch::Tensor or a number may stand on either side.
#define FXX_BINARY_OPERATOR(symbol)                              \
  Proxy operator symbol(const TensorArg& a, const TensorArg& b); \
  Proxy operator symbol(const TensorArg& a, const ScalarArg& b); \
  Proxy operator symbol(const ScalarArg& a, const TensorArg& b);
FXX_BINARY_OPERATOR(+)
FXX_BINARY_OPERATOR(-)
FXX_BINARY_OPERATOR(*)
FXX_BINARY_OPERATOR(/)
FXX_BINARY_OPERATOR(%)
FXX_BINARY_OPERATOR(<)
FXX_BINARY_OPERATOR(<=)
FXX_BINARY_OPERATOR(>)
FXX_BINARY_OPERATOR(>=)
FXX_BINARY_OPERATOR(==)
FXX_BINARY_OPERATOR(!=)
FXX_BINARY_OPERATOR(&)
FXX_BINARY_OPERATOR(|)
FXX_BINARY_OPERATOR(^)
#undef FXX_BINARY_OPERATOR
Proxy operator-(const TensorArg& a);
Proxy operator~(const TensorArg& a);

// Numbers: recorded as Python's operators. Templates, since exact matches must win over the conversion to a C++ number.
// C++ divides integers towards zero, Python rounds down: `/` and `%` are recorded as floordiv and mod where nothing can
// be negative, as sizes cannot, and as std::divides and std::modulus where it can; with a real number on either side
// `/` is truediv. The nodes have no line: an operator has no parameter that could take it.
namespace detail {
ScalarProxy scalar_operation(OperatorIndex index, const ScalarArg& a, const ScalarArg& b);
BoolProxy scalar_comparison(OperatorIndex index, const ScalarArg& a, const ScalarArg& b);
template <class T>
ScalarArg scalar_argument(const T& value) {
  return {value, std::source_location()};
}
template <class T>
concept Number = fxx::detail::Fits<T, ValueType::scalar>;
template <class T>
concept PlainNumber = Number<T> && !std::derived_from<T, ScalarProxy>;
}  // namespace detail
#define FXX_SCALAR_OPERATOR(symbol, result, record, index)                                       \
  template <detail::Number T>                                                                    \
  result operator symbol(const ScalarProxy& a, const T& b) {                                     \
    return record(OperatorIndex::index, detail::scalar_argument(a), detail::scalar_argument(b)); \
  }                                                                                              \
  template <detail::PlainNumber T>                                                               \
  result operator symbol(const T& a, const ScalarProxy& b) {                                     \
    return record(OperatorIndex::index, detail::scalar_argument(a), detail::scalar_argument(b)); \
  }
FXX_SCALAR_OPERATOR(+, ScalarProxy, detail::scalar_operation, operator_add)
FXX_SCALAR_OPERATOR(-, ScalarProxy, detail::scalar_operation, operator_sub)
FXX_SCALAR_OPERATOR(*, ScalarProxy, detail::scalar_operation, operator_mul)
FXX_SCALAR_OPERATOR(/, ScalarProxy, detail::scalar_operation, operator_floordiv)
FXX_SCALAR_OPERATOR(%, ScalarProxy, detail::scalar_operation, operator_mod)
FXX_SCALAR_OPERATOR(<, BoolProxy, detail::scalar_comparison, operator_lt)
FXX_SCALAR_OPERATOR(<=, BoolProxy, detail::scalar_comparison, operator_le)
FXX_SCALAR_OPERATOR(>, BoolProxy, detail::scalar_comparison, operator_gt)
FXX_SCALAR_OPERATOR(>=, BoolProxy, detail::scalar_comparison, operator_ge)
FXX_SCALAR_OPERATOR(==, BoolProxy, detail::scalar_comparison, operator_eq)
FXX_SCALAR_OPERATOR(!=, BoolProxy, detail::scalar_comparison, operator_ne)
#undef FXX_SCALAR_OPERATOR
ScalarProxy operator-(const ScalarProxy& a);

// Functions of numbers, with the names and the results of <cmath>. Write `using std::sqrt; sqrt(n)` in code that also
// runs with plain numbers, or fxx::math::sqrt(n), which takes both (trace/math.hpp).
#define FXX_NUMBER_FUNCTIONS(X)                                                                                   \
  X(abs, operator_abs)                                                                                            \
  X(sqrt, math_sqrt)                                                                                              \
  X(exp, math_exp)                                                                                                \
  X(exp2, math_exp2)                                                                                              \
  X(expm1, math_expm1)                                                                                            \
  X(log, math_log)                                                                                                \
  X(log2, math_log2)                                                                                              \
  X(log10, math_log10) X(log1p, math_log1p) X(sin, math_sin) X(cos, math_cos) X(tan, math_tan) X(asin, math_asin) \
      X(acos, math_acos) X(atan, math_atan) X(sinh, math_sinh) X(cosh, math_cosh) X(tanh, math_tanh)              \
          X(floor, std_floor) X(ceil, std_ceil) X(round, std_round) X(trunc, std_trunc)
#define FXX_NUMBER_FUNCTIONS_OF_TWO(X) \
  X(min, builtins_min)                 \
  X(max, builtins_max) X(pow, math_pow) X(fmod, math_fmod) X(atan2, math_atan2) X(hypot, math_hypot)
#define FXX_NUMBER_FUNCTION(name, index) \
  ScalarProxy name(const ScalarProxy& a, std::source_location where = std::source_location::current());
FXX_NUMBER_FUNCTIONS(FXX_NUMBER_FUNCTION)
FXX_NUMBER_FUNCTION(to_int, fxx_to_int)
#undef FXX_NUMBER_FUNCTION
#define FXX_NUMBER_FUNCTION(name, index)                                                                             \
  ScalarProxy name(const ScalarProxy& a, const ScalarProxy& b,                                                       \
                   std::source_location where = std::source_location::current());                                    \
  template <detail::PlainNumber T>                                                                                   \
  ScalarProxy name(const ScalarProxy& a, const T& b, std::source_location where = std::source_location::current()) { \
    return detail::scalar_operation(OperatorIndex::index, {a, where}, {b, where});                                   \
  }                                                                                                                  \
  template <detail::PlainNumber T>                                                                                   \
  ScalarProxy name(const T& a, const ScalarProxy& b, std::source_location where = std::source_location::current()) { \
    return detail::scalar_operation(OperatorIndex::index, {a, where}, {b, where});                                   \
  }
FXX_NUMBER_FUNCTIONS_OF_TWO(FXX_NUMBER_FUNCTION)
#undef FXX_NUMBER_FUNCTION

/// Fails with the message when the graph runs and the condition does not hold: a number, or a tensor of one element
/// (torch.fx: torch._assert). Recorded as aten::_assert_scalar, aten::_assert_async.
void check(const BoolProxy& condition, std::string_view message = {},
           std::source_location where = std::source_location::current());
void check(const Proxy& condition, std::string_view message = {},
           std::source_location where = std::source_location::current());

namespace detail {
/// A tensor that is made from what is recorded, `requires_grad_` and all.
Proxy make_tensor(OperatorIndex index, std::initializer_list<const Operand*> operands, bool requires_grad);
}  // namespace detail

}  // namespace functional

// Functions without a tensor among their arguments, and those of lists of tensors alone, by qualified name. Templates,
// so that LibTorch's own, which stand beside them where LibTorch is included (torch/creation.hpp), are taken where both
// fit.
#include "fxx/trace/factories.inc"
using functional::check;

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/trace/proxy.ipp"
#include "fxx/trace/tracer.ipp"
#endif
