// Bodies of trace/proxy.hpp: every function and member of the overload set records one call.
#pragma once

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>
#include <vector>

#include "fxx/error.hpp"
#include "fxx/ops/numbers.hpp"
#include "fxx/trace/proxy.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {

/// A recorded call, as the C++ value that the operator returns.
struct Recorded {
  Tracer& tracer;
  Node* node;

  operator Proxy() const { return {tracer, node}; }
  operator ScalarProxy() const { return {tracer, node}; }
  operator BoolProxy() const { return {tracer, node}; }
  template <class Item, ValueType Type>
  operator ListProxyOf<Item, Type>() const {
    return {tracer, node};
  }
  template <ValueType Type>
  operator ValueProxy<Type>() const {
    return {tracer, node};
  }
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

}  // namespace detail

FXX_INLINE Proxy Proxy::attribute(const functional::OptionalTensorArg& tensor) {
  if (tensor.undefined()) return {};
  const Operand* operand = &tensor;
  Tracer& tracer = detail::tracer_of({&operand, 1});
  return {tracer, tracer.create_arg(tensor).node()};
}

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
  return detail::method("dim", OperatorIndex::dim, {&self}, where);
}
FXX_INLINE ScalarProxy Proxy::numel(std::source_location where) const {
  const TensorArg self(*this, where);
  return detail::method("numel", OperatorIndex::numel, {&self}, where);
}
#define FXX_PROPERTY(Result, name, index)                           \
  FXX_INLINE Result Proxy::name(std::source_location where) const { \
    const TensorArg self(*this, where);                             \
    return detail::function(OperatorIndex::index, {&self});         \
  }
FXX_PROPERTY(ScalarListProxy, sizes, prim_sizes)
FXX_PROPERTY(ScalarListProxy, strides, prim_strides)
FXX_PROPERTY(DtypeProxy, scalar_type, prim_dtype)
FXX_PROPERTY(LayoutProxy, layout, prim_layout)
FXX_PROPERTY(DeviceProxy, device, prim_device)
FXX_PROPERTY(BoolProxy, is_cpu, prim_is_cpu)
FXX_PROPERTY(BoolProxy, is_cuda, prim_is_cuda)
FXX_PROPERTY(BoolProxy, requires_grad, prim_requires_grad)
FXX_PROPERTY(ScalarProxy, itemsize, prim_itemsize)
FXX_PROPERTY(ScalarProxy, nbytes, prim_nbytes)
#undef FXX_PROPERTY

FXX_INLINE Proxy Proxy::cpu(std::source_location where) const {
  DeviceOrOptionsArg options;
  options.device = OptionalDeviceArg(Device{DeviceType::cpu}, where);
  return to(options, {}, {}, {}, where);
}
FXX_INLINE Proxy Proxy::cuda(std::source_location where) const {
  DeviceOrOptionsArg options;
  options.device = OptionalDeviceArg(Device{DeviceType::cuda}, where);
  return to(options, {}, {}, {}, where);
}
FXX_INLINE Proxy Proxy::toType(const DtypeArg& dtype, std::source_location where) const {
  return to(dtype, {}, {}, {}, where);
}
FXX_INLINE Proxy Proxy::data(std::source_location where) const { return detach(where); }
FXX_INLINE Proxy Proxy::set_requires_grad(bool requires_grad, std::source_location where) const {
  return requires_grad_(BoolArg(requires_grad, where), where);
}

// --- options ---------------------------------------------------------------------------------------------------------

FXX_INLINE OptionsProxy OptionsProxy::with(int which, const Operand& value) const {
  OptionsProxy copy(*this);
  copy.given_[static_cast<std::size_t>(which)] = tracer().create_arg(value);
  return copy;
}
FXX_INLINE OptionsProxy OptionsProxy::requires_grad(bool requires_grad) const {
  OptionsProxy copy(*this);
  copy.requires_grad_ = requires_grad;
  return copy;
}
FXX_INLINE Argument OptionsProxy::value(int which) const {
  if (const auto& given = given_[static_cast<std::size_t>(which)]) return *given;
  if (which == 3) return {};
  const OperatorIndex asks[] = {OperatorIndex::prim_dtype, OperatorIndex::prim_layout, OperatorIndex::prim_device};
  return tracer().create_proxy(CallFunction{&table_operator(asks[which])}, {tensor_});
}
FXX_INLINE Node* OptionsProxy::known(int which) const {
  const Argument known = value(which);
  if (known.is_node()) return known.node();
  return tracer().create_proxy(CallFunction{&table_operator(OperatorIndex::fxx_identity)}, {known});
}
FXX_INLINE functional::DeviceOrOptionsArg::DeviceOrOptionsArg(const OptionsProxy& value, std::source_location where)
    : dtype(value.tracer(), value.value(0), where),
      layout(value.tracer(), value.value(1), where),
      device(value.tracer(), value.value(2), where),
      requires_grad(value.requires_grad()) {
  if (const Argument pinned = value.value(3); !pinned.is_none())
    pin_memory = OptionalBoolArg(value.tracer(), pinned, where);
}

// --- parts -----------------------------------------------------------------------------------------------------------

FXX_INLINE Proxy Proxy::operator[](const functional::IndexArg& index) const {
  const TensorArg self(*this, index.location());
  return detail::function(OperatorIndex::operator_getitem, {&self, &index});
}
FXX_INLINE Proxy Proxy::index(const functional::IndexListArg& indices, std::source_location where) const {
  const TensorArg self(*this, where);
  std::vector<Argument> items;
  for (const Operand& item : *indices.items()) items.push_back(tracer().create_arg(item));
  return {tracer(), tracer().create_proxy(CallFunction{&table_operator(OperatorIndex::operator_getitem)},
                                         {node(), Argument::tuple(std::move(items))}, {}, {}, where)};
}

namespace detail {

/// The indices of a write where tensors pick elements, as LibTorch's indexing has it: numbers and slices make a view
/// first, and the list of aten::index_put_ has a tensor or None for each dimension of that.
struct PutIndices {
  std::vector<Argument> view, list;
  bool plain = true;  // the view would be the tensor itself
};
FXX_INLINE bool is_tensor(const Operand& index) { return index.type() == ValueType::tensor; }
/// Does it give whole numbers, positions of elements, for certain?
FXX_INLINE bool gives_positions(const Node& value) {
  static constexpr std::string_view positions[] = {"argmax",  "argmin",  "argsort",  "searchsorted", "bucketize",
                                                   "nonzero", "arange",  "randperm", "randint",      "topk",
                                                   "sort",    "max",     "min",      "kthvalue",     "median"};
  const Operator* op = operator_of(value);
  if (!op) return false;
  std::string_view name = op->base_name();
  const auto whole = [](const Argument& a) { return a == Argument(Dtype::int64) || a == Argument(Dtype::int32); };
  const Argument* dtype = value.kwarg("dtype");
  if (name == "to" && (std::any_of(value.args().begin(), value.args().end(), whole) || (dtype && whole(*dtype))))
    return true;
  bool known = op->name_space() == "aten" && op->returns.size() == 1 && !dtype && name != "max" && name != "min" &&
               name != "median";
  if (op->id == table_operator(OperatorIndex::operator_getitem).id && value.arg(0).is_node()) {
    // The second result of topk() and the like.
    const Operator* maker = operator_of(*value.arg(0).node());
    known = maker && maker->returns.size() == 2 && value.arg(1) == Argument(1);
    if (known) name = maker->base_name();
  }
  return known && std::find(std::begin(positions), std::end(positions), name) != std::end(positions);
}
/// What the value was before a view, a copy or arithmetic with a number, which make no mask of positions. Arithmetic
/// with a tensor may: a number in a tensor and a mask of bytes give one of bytes. Null where it is none of these.
FXX_INLINE const Node* moved_operand(const Node& value) {
  static constexpr std::string_view copies[] = {"abs",          "add",    "clamp", "clamp_max", "clamp_min",
                                                "clone",        "flip",   "fmod",  "gather",    "floor_divide",
                                                "index_select", "mul",    "neg",   "remainder", "repeat",
                                                "roll",         "rsub",   "sub",   "tile"};
  const Operator* op = operator_of(value);
  if (!op || value.args().empty() || !value.arg(0).is_node()) return nullptr;
  const Node* operand = value.arg(0).node();
  if (op->id == table_operator(OperatorIndex::operator_getitem).id) return operand;
  if (op->name_space() != "aten" || op->returns.size() != 1 || op->arity() == 0) return nullptr;
  const std::string_view name = op->base_name();
  if (op->returns[0].alias != 0) {
    const Argument* dtype = value.kwarg("dtype");
    const bool elsewhere = op->id == table_operator(OperatorIndex::to_dtype_layout).id && (!dtype || dtype->is_none());
    const bool converts = (name == "to" && !elsewhere) || op->id == table_operator(OperatorIndex::view_dtype).id;
    return op->returns[0].alias == op->parameters[0].alias && !converts ? operand : nullptr;
  }
  const bool with_tensor = op->arity() > 1 && op->parameters[1].type.base == ValueType::tensor;
  return !with_tensor && std::find(std::begin(copies), std::end(copies), name) != std::end(copies) ? operand : nullptr;
}
/// How many dimensions a tensor picks elements of: a mask of as many as it has, any other of one; nothing where that is
/// known only when the graph runs.
FXX_INLINE std::optional<std::size_t> picked_dims(const Node& index) {
  for (const Node* value = &index; value; value = moved_operand(*value)) {
    if (gives_positions(*value)) return 1;
    const TensorMeta* meta = value->tensor_meta();
    if (!meta) continue;
    const bool mask = meta->dtype == Dtype::boolean || meta->dtype == Dtype::uint8;
    if (!mask) return 1;
    if (value == &index) return meta->shape.size();
    return {};
  }
  return {};
}
FXX_INLINE PutIndices put_indices(Tracer& tracer, const std::vector<Operand>& indices) {
  PutIndices put;
  bool open = false;     // `...` stands before
  bool unknown = false;  // nor is it known which dimension comes next
  for (const Operand& index : indices) {
    const Argument& immediate = index.immediate();
    if (is_tensor(index)) {
      if (open)
        throw TraceError(
            ErrorId::unsupported_argument,
            "Proxy::index_put_: a tensor stands behind an Ellipsis among the indices, and how many "
            "dimensions that stands for is known only when the graph runs; write Slice() for each of them");
      put.list.push_back(tracer.create_arg(index));
      const Argument& made = put.list.back();
      const std::optional<std::size_t> dims = made.is_node() ? picked_dims(*made.node()) : std::nullopt;
      put.view.insert(put.view.end(), dims.value_or(1), Slice{});
      unknown = unknown || !dims;
      continue;
    }
    put.view.push_back(tracer.create_arg(index));
    if (immediate.kind() == Argument::Kind::boolean)
      throw TraceError(
          ErrorId::unsupported_argument,
          "Proxy::index_put_: a bool stands among indices with tensors; index with masked_fill_ or where()");
    if (immediate.kind() == Argument::Kind::ellipsis) open = true;
    else if (!open && (index.type() == ValueType::other)) put.list.push_back({});  // a slice or a new dimension
    const bool whole = put.view.back() == Argument(Slice{}) || immediate.kind() == Argument::Kind::ellipsis;
    if (unknown && !open && !whole)
      throw TraceError(ErrorId::unsupported_argument,
                       "Proxy::index_put_: a number or a slice stands behind a tensor among the indices, and how many "
                       "dimensions that is for (a mask is for as many as it has) is known only when the graph runs; "
                       "cut first and write to the part: x.slice(1, 0, 3).index_put_({tensor}, values)");
    put.plain = put.plain && whole;
  }
  return put;
}

}  // namespace detail

FXX_INLINE Proxy Proxy::index_put_(const functional::IndexListArg& indices, const TensorArg& values,
                                   std::source_location where) const {
  const std::vector<Operand>& parts = *indices.items();
  if (std::none_of(parts.begin(), parts.end(), detail::is_tensor)) {
    index(indices, where).copy_(values, {}, where);
    return *this;
  }
  detail::PutIndices put = detail::put_indices(tracer(), parts);
  Node* target = node();
  if (!put.plain)
    target = tracer().create_proxy(CallFunction{&table_operator(OperatorIndex::operator_getitem)},
                                  {target, Argument::tuple(std::move(put.view))}, {}, {}, where);
  Node* made =
      tracer().create_proxy(CallMethod{"index_put_"},
                           {target, Argument::list(std::move(put.list)), tracer().create_arg(values)}, {}, {}, where);
  made->set_resolved(&table_operator(OperatorIndex::index_put_));
  return put.plain ? Proxy(tracer(), made) : *this;
}
FXX_INLINE Proxy Proxy::index_put_(const functional::IndexListArg& indices, const ScalarArg& value,
                                   std::source_location where) const {
  const std::vector<Operand>& parts = *indices.items();
  if (std::any_of(parts.begin(), parts.end(), detail::is_tensor))
    return index_put_(indices, new_full(IntListOrOneArg(std::initializer_list<IntArg>{}, where), value, {}, where),
                      where);
  index(indices, where).fill_(value, where);
  return *this;
}

FXX_INLINE Proxy Proxy::call_any(std::string_view method, std::span<const Operand* const> operands) const {
  return {tracer(), tracer().call_method(method, nullptr, operands, {})};
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

enum class NumberKind { whole, real, unknown };
/// What the number is whatever the inputs are. Looks through arithmetic, at each node once.
FXX_INLINE NumberKind kind_of(const Operand& value) {
  using Kind = Argument::Kind;
  if (!value.proxy()) {
    const Kind kind = value.immediate().kind();
    if (kind == Kind::real) return NumberKind::real;
    return kind == Kind::integer || kind == Kind::boolean ? NumberKind::whole : NumberKind::unknown;
  }
  bool whole = true;
  std::vector<const Node*> reached = {value.proxy()->node()};
  for (std::size_t i = 0; i < reached.size(); ++i) {
    const Operator* op = operator_of(*reached[i]);
    if (!op || op->returns.size() != 1) {
      whole = false;
      continue;
    }
    const ValueType result = op->returns[0].type.base;
    if (result == ValueType::real || op->id == table_operator(OperatorIndex::operator_truediv).id)
      return NumberKind::real;
    if (result == ValueType::integer || result == ValueType::boolean) continue;
    const bool item = op->id == table_operator(OperatorIndex::operator_getitem).id;
    const bool arithmetic = op->name_space() == "operator" || op->name_space() == "builtins" ||
                            op->name == "std::divides" || op->name == "std::modulus";
    whole = whole && arithmetic;
    if (!arithmetic) continue;
    for (const Argument& a : reached[i]->args().first(item ? 1 : reached[i]->args().size())) {
      if (a.kind() == Kind::real) return NumberKind::real;
      if (a.is_node() && std::find(reached.begin(), reached.end(), a.node()) == reached.end())
        reached.push_back(a.node());
    }
  }
  return whole ? NumberKind::whole : NumberKind::unknown;
}

FXX_INLINE Proxy filled_like(const ScalarArg& a, const TensorArg& b, OperatorIndex index) {
  const Proxy filled = fxx::detail::function(OperatorIndex::full_like, {&b, &a});
  const TensorArg left(filled, b.location());
  return fxx::detail::function(index, {&left, &b});
}
/// Does the number stay what it is in a tensor like this? A real one does not among whole ones.
FXX_INLINE bool keeps_value(const ScalarArg& a, const TensorArg& b) {
  const TensorMeta* meta = b.proxy() ? b.proxy()->node()->tensor_meta() : nullptr;
  return kind_of(a) == NumberKind::whole || (meta && is_floating_point(meta->dtype));
}
FXX_INLINE Proxy number_minus_tensor(const ScalarArg& a, const TensorArg& b) {
  if (!keeps_value(a, b)) return filled_like(a, b, OperatorIndex::sub_Tensor);
  return fxx::detail::function(OperatorIndex::rsub_Scalar, {&b, &a});
}
FXX_INLINE Proxy remainder_of_number(const ScalarArg& a, const TensorArg& b) {
  if (!keeps_value(a, b)) return filled_like(a, b, OperatorIndex::remainder_Tensor);
  return fxx::detail::function(OperatorIndex::remainder_Scalar_Tensor, {&a, &b});
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
FXX_BINARY(-, sub_Tensor, sub_Scalar, detail::number_minus_tensor(a, b))
FXX_BINARY(*, mul_Tensor, mul_Scalar, fxx::detail::function(OperatorIndex::mul_Scalar, {&b, &a}))
FXX_BINARY(/, div_Tensor, div_Scalar, detail::filled_like(a, b, OperatorIndex::div_Tensor))
FXX_BINARY(%, remainder_Tensor, remainder_Scalar, detail::remainder_of_number(a, b))
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
FXX_INLINE bool is_never_negative(const Operand& value) {
  return fxx::is_never_negative(value.proxy() ? Argument(value.proxy()->node()) : value.immediate());
}
}  // namespace detail

FXX_INLINE ScalarProxy detail::scalar_operation(OperatorIndex index, const ScalarArg& a, const ScalarArg& b) {
  const bool divides = index == OperatorIndex::operator_floordiv;
  if (divides || index == OperatorIndex::operator_mod) {
    const NumberKind kinds[] = {kind_of(a), kind_of(b)};
    const bool real = kinds[0] == NumberKind::real || kinds[1] == NumberKind::real;
    const bool whole = kinds[0] == NumberKind::whole && kinds[1] == NumberKind::whole;
    // Python's operators, where they are C++'s for certain.
    if (real && divides) index = OperatorIndex::operator_truediv;
    else if (!real && !(whole && is_never_negative(a) && is_never_negative(b)))
      index = divides ? OperatorIndex::std_divides : OperatorIndex::std_modulus;
  }
  return fxx::detail::function(index, {&a, &b});
}
FXX_INLINE ScalarProxy operator-(const ScalarProxy& a) {
  const ScalarArg value = detail::scalar_argument(a);
  return fxx::detail::function(OperatorIndex::operator_neg, {&value});
}
FXX_INLINE BoolProxy detail::scalar_comparison(OperatorIndex index, const ScalarArg& a, const ScalarArg& b) {
  return fxx::detail::function(index, {&a, &b});
}
#define FXX_NUMBER_FUNCTION(name, index)                                          \
  FXX_INLINE ScalarProxy name(const ScalarProxy& a, std::source_location where) { \
    const ScalarArg value(a, where);                                              \
    return fxx::detail::function(OperatorIndex::index, {&value});                 \
  }
FXX_NUMBER_FUNCTIONS(FXX_NUMBER_FUNCTION)
FXX_NUMBER_FUNCTION(to_int, fxx_to_int)
#undef FXX_NUMBER_FUNCTION
#define FXX_NUMBER_FUNCTION(name, index)                                                                \
  FXX_INLINE ScalarProxy name(const ScalarProxy& a, const ScalarProxy& b, std::source_location where) { \
    return detail::scalar_operation(OperatorIndex::index, {a, where}, {b, where});                      \
  }
FXX_NUMBER_FUNCTIONS_OF_TWO(FXX_NUMBER_FUNCTION)
#undef FXX_NUMBER_FUNCTION

FXX_INLINE void check(const BoolProxy& condition, std::string_view message, std::source_location where) {
  const ScalarArg value(condition, where);
  const StringArg text(message, where);
  fxx::detail::function(OperatorIndex::_assert_scalar, {&value, &text});
}
FXX_INLINE void check(const Proxy& condition, std::string_view message, std::source_location where) {
  const TensorArg value(condition, where);
  const StringArg text(message, where);
  fxx::detail::function(OperatorIndex::_assert_async_msg, {&value, &text});
}

FXX_INLINE Proxy detail::make_tensor(OperatorIndex index, std::initializer_list<const Operand*> operands,
                                     bool requires_grad) {
  const Proxy made = fxx::detail::function(index, operands);
  return requires_grad ? made.requires_grad_(BoolArg(true)) : made;
}

}  // namespace functional

}  // namespace fxx::inline FXX_ABI
