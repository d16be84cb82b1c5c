// Bodies of trace/proxy.hpp: every function and member of the overload set records one call.
#pragma once

#include <algorithm>

#include "fxx/trace/proxy.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {

/// A recorded call, as the C++ value that the operator returns.
struct Recorded {
  Tracer& tracer;
  Node* node;

  operator Proxy() const { return {tracer, node}; }
  operator ScalarProxy() const { return {tracer, node}; }
  operator ListProxy() const { return {tracer, node}; }
  template <class... Ts>
  operator std::tuple<Ts...>() const {
    return [this]<std::size_t... I>(std::index_sequence<I...>) {
      return std::tuple<Ts...>(Ts(tracer, node, static_cast<int>(I))...);
    }(std::index_sequence_for<Ts...>());
  }
};
using Operands = std::initializer_list<const Operand*>;

FXX_INLINE Recorded function(OperatorIndex index, Operands operands) {
  const std::span<const Operand* const> all(operands.begin(), operands.size());
  Tracer& tracer = tracer_of(all);
  return {tracer, tracer.call_function(table_operator(index), all)};
}
FXX_INLINE Recorded method(std::string_view name, OperatorIndex index, Operands operands, std::source_location where) {
  const std::span<const Operand* const> all(operands.begin(), operands.size());
  Tracer& tracer = tracer_of(all);
  return {tracer, tracer.call_method(name, &table_operator(index), all, where)};
}
/// A method that the table has no operator for.
FXX_INLINE Recorded plain_method(std::string_view name, Operands operands, std::source_location where) {
  const std::span<const Operand* const> all(operands.begin(), operands.size());
  Tracer& tracer = tracer_of(all);
  return {tracer, tracer.call_method(name, nullptr, all, where)};
}

}  // namespace detail

FXX_INLINE ScalarProxy Proxy::size(const IntArg& dim, std::source_location where) const {
  const TensorArg self(*this, where);
  return detail::method("size", OperatorIndex::size_int, {&self, &dim}, where);
}
FXX_INLINE ScalarProxy Proxy::stride(const IntArg& dim, std::source_location where) const {
  const TensorArg self(*this, where);
  return detail::method("stride", OperatorIndex::stride_int, {&self, &dim}, where);
}
FXX_INLINE ScalarProxy Proxy::dim(std::source_location where) const {
  const TensorArg self(*this, where);
  return detail::plain_method("dim", {&self}, where);
}
FXX_INLINE ScalarProxy Proxy::numel(std::source_location where) const {
  const TensorArg self(*this, where);
  return detail::plain_method("numel", {&self}, where);
}
FXX_INLINE Proxy Proxy::operator[](const functional::IndexArg& index) const {
  const TensorArg self(*this, index.location());
  return detail::function(OperatorIndex::operator_getitem, {&self, &index});
}
FXX_INLINE Proxy Proxy::index(const functional::IndexListArg& indices, std::source_location where) const {
  const TensorArg self(*this, where);
  std::vector<Argument> items;
  for (const Operand& item : *indices.items()) items.push_back(tracer().create_arg(item));
  return {tracer(), tracer().create_node(CallFunction{&table_operator(OperatorIndex::operator_getitem)},
                                         {node(), Argument::tuple(std::move(items))}, {}, {}, where)};
}

FXX_INLINE Proxy& Proxy::operator=(const Proxy& other) && {
  const TensorArg self(*this, std::source_location()), value(other, std::source_location());
  return *this = detail::method("copy_", OperatorIndex::copy_, {&self, &value}, {});
}
FXX_INLINE Proxy& Proxy::operator=(const ScalarArg& value) && {
  const TensorArg self(*this, value.location());
  return *this = detail::method("fill_", OperatorIndex::fill__Scalar, {&self, &value}, value.location());
}

#define FXX_IN_PLACE(symbol, Operand, index)                                \
  FXX_INLINE Proxy& Proxy::operator symbol(const Operand& other) {          \
    const TensorArg self(*this, other.location());                          \
    return *this = detail::function(OperatorIndex::index, {&self, &other}); \
  }
FXX_IN_PLACE(+=, TensorArg, add__Tensor)
FXX_IN_PLACE(+=, ScalarArg, add__Scalar)
FXX_IN_PLACE(-=, TensorArg, sub__Tensor)
FXX_IN_PLACE(-=, ScalarArg, sub__Scalar)
FXX_IN_PLACE(*=, TensorArg, mul__Tensor)
FXX_IN_PLACE(*=, ScalarArg, mul__Scalar)
FXX_IN_PLACE(/=, TensorArg, div__Tensor)
FXX_IN_PLACE(/=, ScalarArg, div__Scalar)
FXX_IN_PLACE(&=, TensorArg, bitwise_and__Tensor)
FXX_IN_PLACE(|=, TensorArg, bitwise_or__Tensor)
FXX_IN_PLACE(^=, TensorArg, bitwise_xor__Tensor)
#undef FXX_IN_PLACE

// clang-format off
#include "fxx/trace/methods_defined.inc"
// clang-format on

namespace functional {

// clang-format off
#include "fxx/trace/functions_defined.inc"
// clang-format on

namespace detail {
FXX_INLINE Proxy number_over_tensor(const ScalarArg& a, const TensorArg& b) {
  const Proxy numerator = fxx::detail::function(OperatorIndex::full_like, {&b, &a});
  const TensorArg left(numerator, b.location());
  return fxx::detail::function(OperatorIndex::div_Tensor, {&left, &b});
}
}  // namespace detail

// A number on the left: LibTorch's own operators turn it into a tensor or swap the sides; so do these.
#define FXX_BINARY(symbol, tensor_operator, scalar_operator, swapped)        \
  FXX_INLINE Proxy operator symbol(const TensorArg& a, const TensorArg& b) { \
    return fxx::detail::function(OperatorIndex::tensor_operator, {&a, &b});  \
  }                                                                          \
  FXX_INLINE Proxy operator symbol(const TensorArg& a, const ScalarArg& b) { \
    return fxx::detail::function(OperatorIndex::scalar_operator, {&a, &b});  \
  }                                                                          \
  FXX_INLINE Proxy operator symbol(const ScalarArg& a, const TensorArg& b) { return swapped; }
FXX_BINARY(+, add_Tensor, add_Scalar, fxx::detail::function(OperatorIndex::add_Scalar, {&b, &a}))
FXX_BINARY(-, sub_Tensor, sub_Scalar, fxx::detail::function(OperatorIndex::rsub_Scalar, {&b, &a}))
FXX_BINARY(*, mul_Tensor, mul_Scalar, fxx::detail::function(OperatorIndex::mul_Scalar, {&b, &a}))
FXX_BINARY(/, div_Tensor, div_Scalar, detail::number_over_tensor(a, b))
FXX_BINARY(%, remainder_Tensor, remainder_Scalar,
           fxx::detail::function(OperatorIndex::remainder_Scalar_Tensor, {&a, &b}))
FXX_BINARY(<, lt_Tensor, lt_Scalar, fxx::detail::function(OperatorIndex::gt_Scalar, {&b, &a}))
FXX_BINARY(<=, le_Tensor, le_Scalar, fxx::detail::function(OperatorIndex::ge_Scalar, {&b, &a}))
FXX_BINARY(>, gt_Tensor, gt_Scalar, fxx::detail::function(OperatorIndex::lt_Scalar, {&b, &a}))
FXX_BINARY(>=, ge_Tensor, ge_Scalar, fxx::detail::function(OperatorIndex::le_Scalar, {&b, &a}))
FXX_BINARY(==, eq_Tensor, eq_Scalar, fxx::detail::function(OperatorIndex::eq_Scalar, {&b, &a}))
FXX_BINARY(!=, ne_Tensor, ne_Scalar, fxx::detail::function(OperatorIndex::ne_Scalar, {&b, &a}))
FXX_BINARY(&, bitwise_and_Tensor, bitwise_and_Scalar,
           fxx::detail::function(OperatorIndex::bitwise_and_Scalar, {&b, &a}))
FXX_BINARY(|, bitwise_or_Tensor, bitwise_or_Scalar, fxx::detail::function(OperatorIndex::bitwise_or_Scalar, {&b, &a}))
FXX_BINARY(^, bitwise_xor_Tensor, bitwise_xor_Scalar,
           fxx::detail::function(OperatorIndex::bitwise_xor_Scalar, {&b, &a}))
#undef FXX_BINARY

FXX_INLINE Proxy operator-(const TensorArg& a) { return fxx::detail::function(OperatorIndex::neg, {&a}); }
FXX_INLINE Proxy operator~(const TensorArg& a) { return fxx::detail::function(OperatorIndex::bitwise_not, {&a}); }

namespace detail {
/// Is the number real whatever the inputs are? Looks through arithmetic, at each node once.
FXX_INLINE bool is_real(const Operand& value) {
  if (!value.proxy()) return value.immediate().kind() == Argument::Kind::real;
  std::vector<const Node*> reached = {value.proxy()->node()};
  for (std::size_t i = 0; i < reached.size(); ++i) {
    const Operator* op = operator_of(*reached[i]);
    if (!op || op->returns.size() != 1) continue;
    if (op->returns[0].type.base == ValueType::real || op->id == table_operator(OperatorIndex::operator_truediv).id)
      return true;
    if (op->name_space() != "operator" || op->base_name() == "getitem") continue;
    for (const Argument& a : reached[i]->args()) {
      if (a.kind() == Argument::Kind::real) return true;
      if (a.is_node() && std::find(reached.begin(), reached.end(), a.node()) == reached.end())
        reached.push_back(a.node());
    }
  }
  return false;
}
}  // namespace detail

FXX_INLINE ScalarProxy detail::scalar_operation(OperatorIndex index, const ScalarArg& a, const ScalarArg& b) {
  if (index == OperatorIndex::operator_floordiv && (is_real(a) || is_real(b))) index = OperatorIndex::operator_truediv;
  return fxx::detail::function(index, {&a, &b});
}
FXX_INLINE ScalarProxy operator-(const ScalarProxy& a) {
  const ScalarArg value = detail::scalar_argument(a);
  return fxx::detail::function(OperatorIndex::operator_neg, {&value});
}
FXX_INLINE ScalarProxy sqrt(const ScalarProxy& a, std::source_location where) {
  const ScalarArg value(a, where);
  return fxx::detail::function(OperatorIndex::math_sqrt, {&value});
}

}  // namespace functional

}  // namespace fxx::inline FXX_ABI
