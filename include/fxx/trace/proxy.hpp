// Values that record what is done with them: the stand-ins of symbolic tracing.
//
// Proxy stands for a tensor and has the members of torch::Tensor, made from the operator table. ScalarProxy stands for
// a number that is known only when the graph runs (`x.size(0)`), ListProxy for a list of tensors (`x.chunk(2)`).
// Functions over them (`relu(x)`, `x + 1`) are found by argument-dependent lookup; braces have no namespace, so
// `cat({x, y}, 1)` needs `using fxx::functional::cat`.
// Main names: Proxy, ScalarProxy, ListProxy, IndexArg. Cost: light. After torch.fx proxy.py, 2.13.
#pragma once

#include <tuple>
#include <utility>

#include "fxx/ops/registry.hpp"
#include "fxx/trace/operand.hpp"
#include "fxx/trace/tracer.hpp"

namespace fxx::inline FXX_ABI {

/// A number that tracing stands in for. Arithmetic on it records Python's operators, as torch.fx does.
class ScalarProxy : public ProxyBase {
 public:
  static constexpr ValueType proxy_type = ValueType::scalar;
  ScalarProxy(Tracer& tracer, Node* node, int item = -1) : ProxyBase(tracer, node, item) {}

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

  // C++ code that needs the number cannot be traced: these, and comparisons, throw TraceError (E301), as torch.fx does.
  explicit operator bool() const { return tracer().to_bool(*this); }
  template <class T>
    requires(std::is_arithmetic_v<T> && !std::same_as<T, bool>)
  operator T() const {
    return static_cast<T>(tracer().to_number(*this).number());
  }
};

class Proxy;

/// A list of tensors that tracing stands in for. Its length is known only when the graph runs.
class ListProxy : public ProxyBase {
 public:
  ListProxy(Tracer& tracer, Node* node, int item = -1) : ProxyBase(tracer, node, item) {}

  /// One item, without a check: the length is not known.
  inline Proxy operator[](int index) const;
  inline Proxy at(int index) const;
  /// The first N items: `auto [a, b] = x.chunk(2).unpack<2>();`
  template <std::size_t N>
  auto unpack() const;

  // The length is not known while tracing: these throw TraceError (E302); unpack<N>() says how many are expected.
  std::size_t size() const { return begin(), 0; }
  const Proxy* begin() const { return tracer().iter(*this), nullptr; }
  const Proxy* end() const { return begin(); }
};

namespace functional {
/// One part of an index: a number, a slice, `...`, None (a new axis), a tensor.
class IndexArg : public Operand {
 public:
  template <class T>
    requires(detail::Fits<T, ValueType::tensor> || detail::Fits<T, ValueType::scalar> ||
             detail::Fits<T, ValueType::boolean>)
  IndexArg(const T& value, std::source_location where = std::source_location::current()) {
    set(value, where);
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

/// A tensor that tracing stands in for.
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
  using RealArg = functional::RealArg;
  using ScalarArg = functional::ScalarArg;
  using SizedIntListArg = functional::SizedIntListArg;
  using StringArg = functional::StringArg;
  using TensorArg = functional::TensorArg;
  using TensorListArg = functional::TensorListArg;
  using TensorListOfOptionalArg = functional::TensorListOfOptionalArg;

 public:
  static constexpr ValueType proxy_type = ValueType::tensor;
  Proxy(Tracer& tracer, Node* node, int item = -1) : ProxyBase(tracer, node, item) {}

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

  /// `x[0]`.
  Proxy operator[](const functional::IndexArg& index) const;
  /// `x.index({Slice{}, 0, "..."})`, recorded as getitem.
  Proxy index(const functional::IndexListArg& indices,
              std::source_location where = std::source_location::current()) const;

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
};

inline Proxy ListProxy::operator[](int index) const { return Proxy(tracer(), node(), index); }
inline Proxy ListProxy::at(int index) const { return (*this)[index]; }
template <std::size_t N>
auto ListProxy::unpack() const {
  return [this]<std::size_t... I>(std::index_sequence<I...>) {
    return std::array<Proxy, N>{(*this)[static_cast<int>(I)]...};
  }(std::make_index_sequence<N>());
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
// C++ divides integers towards zero, and sizes are not negative: `/` is recorded as floordiv, with a real number on
// either side as truediv. The nodes have no line: an operator has no parameter that could take it.
namespace detail {
ScalarProxy scalar_operation(OperatorIndex index, const ScalarArg& a, const ScalarArg& b);
template <class T>
ScalarArg scalar_argument(const T& value) {
  return {value, std::source_location()};
}
/// The number that a comparison needs: a traced one throws TraceError (E301), or is what the tracer says.
template <class T>
auto comparable(const T& value) {
  if constexpr (std::same_as<T, ScalarProxy>) return value.tracer().to_number(value).number();
  else return value;
}
}  // namespace detail
#define FXX_SCALAR_OPERATOR(symbol, index)                                                                         \
  template <fxx::detail::Fits<ValueType::scalar> T>                                                                \
  ScalarProxy operator symbol(const ScalarProxy& a, const T& b) {                                                  \
    return detail::scalar_operation(OperatorIndex::index, detail::scalar_argument(a), detail::scalar_argument(b)); \
  }                                                                                                                \
  template <fxx::detail::Fits<ValueType::scalar> T>                                                                \
    requires(!std::same_as<T, ScalarProxy>)                                                                        \
  ScalarProxy operator symbol(const T& a, const ScalarProxy& b) {                                                  \
    return detail::scalar_operation(OperatorIndex::index, detail::scalar_argument(a), detail::scalar_argument(b)); \
  }
FXX_SCALAR_OPERATOR(+, operator_add)
FXX_SCALAR_OPERATOR(-, operator_sub)
FXX_SCALAR_OPERATOR(*, operator_mul)
FXX_SCALAR_OPERATOR(/, operator_floordiv)
FXX_SCALAR_OPERATOR(%, operator_mod)
#undef FXX_SCALAR_OPERATOR
#define FXX_SCALAR_COMPARISON(symbol)                          \
  template <fxx::detail::Fits<ValueType::scalar> T>            \
  bool operator symbol(const ScalarProxy& a, const T& b) {     \
    return detail::comparable(a) symbol detail::comparable(b); \
  }                                                            \
  template <fxx::detail::Fits<ValueType::scalar> T>            \
    requires(!std::same_as<T, ScalarProxy>)                    \
  bool operator symbol(const T& a, const ScalarProxy& b) {     \
    return detail::comparable(a) symbol detail::comparable(b); \
  }
FXX_SCALAR_COMPARISON(<)
FXX_SCALAR_COMPARISON(<=)
FXX_SCALAR_COMPARISON(>)
FXX_SCALAR_COMPARISON(>=)
FXX_SCALAR_COMPARISON(==)
FXX_SCALAR_COMPARISON(!=)
#undef FXX_SCALAR_COMPARISON
ScalarProxy operator-(const ScalarProxy& a);
ScalarProxy sqrt(const ScalarProxy& a, std::source_location where = std::source_location::current());

}  // namespace functional

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/trace/proxy.ipp"
#include "fxx/trace/tracer.ipp"
#endif
