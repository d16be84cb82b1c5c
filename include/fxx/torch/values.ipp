// Bodies of torch/values.hpp.
#pragma once

#include "fxx/torch/values.hpp"

// after values.hpp: it needs ATen/core/Tensor.h first
#include <ATen/ops/scalar_tensor_ops.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>

#include "fxx/error.hpp"
#include "fxx/ir/print.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {

[[noreturn]] FXX_INLINE void cannot_pass(const Argument& argument, const char* wanted) {
  throw RunError(ErrorId::input_mismatch, "to_ivalue: " + to_string(argument) + " cannot be passed as " + wanted +
                                              "; change the argument or the operator");
}

template <class T>
c10::IValue list_of(const std::vector<c10::IValue>& items) {
  c10::List<T> list;
  list.reserve(items.size());
  for (const c10::IValue& item : items) list.push_back(item.to<T>());
  return list;
}

}  // namespace detail

FXX_INLINE c10::IValue to_list(std::vector<c10::IValue> items, const Type& type) {
  switch (type.base) {
    case ValueType::tensor:
      if (type.optional_items) {
        c10::List<std::optional<at::Tensor>> list;
        for (c10::IValue& item : items)
          list.push_back(item.isNone() ? std::nullopt : std::optional(std::move(item).toTensor()));
        return list;
      } else {
        c10::List<at::Tensor> list;
        list.reserve(items.size());
        for (c10::IValue& item : items) list.push_back(item.isNone() ? at::Tensor() : std::move(item).toTensor());
        return list;
      }
    case ValueType::integer:
    case ValueType::dtype: return detail::list_of<std::int64_t>(items);
    case ValueType::real: {
      c10::List<double> list;
      list.reserve(items.size());
      for (const c10::IValue& item : items) list.push_back(item.toScalar().toDouble());  // it may be an integer
      return list;
    }
    case ValueType::boolean: return detail::list_of<bool>(items);
    case ValueType::string: return detail::list_of<std::string>(items);
    case ValueType::scalar: {
      if (type.optional_items) {
        c10::List<std::optional<at::Scalar>> list;
        for (const c10::IValue& item : items)
          list.push_back(item.isNone() ? std::nullopt : std::optional(item.toScalar()));
        return c10::IValue(c10::impl::toList(std::move(list)));
      }
      c10::List<at::Scalar> list;
      for (const c10::IValue& item : items) list.push_back(item.toScalar());
      return c10::IValue(c10::impl::toList(std::move(list)));
    }
    default: {
      // Nothing is known: a list of one kind is a list of that kind, as Python's binding makes it.
      const auto all = [&](auto is) { return !items.empty() && std::all_of(items.begin(), items.end(), is); };
      if (all([](const c10::IValue& v) { return v.isTensor(); })) return detail::list_of<at::Tensor>(items);
      if (all([](const c10::IValue& v) { return v.isInt(); })) return detail::list_of<std::int64_t>(items);
      if (all([](const c10::IValue& v) { return v.isDouble(); })) return detail::list_of<double>(items);
      if (all([](const c10::IValue& v) { return v.isBool(); })) return detail::list_of<bool>(items);
      if (all([](const c10::IValue& v) { return v.isString(); })) return detail::list_of<std::string>(items);
      c10::impl::GenericList list(c10::AnyType::get());
      for (c10::IValue& item : items) list.push_back(std::move(item));
      return list;
    }
  }
}

FXX_INLINE c10::IValue to_ivalue(const Argument& argument, const Type& type) {
  using Kind = Argument::Kind;
  if (argument.is_none())  // an undefined tensor, where there has to be one
    return type == Type{.base = ValueType::tensor} ? c10::IValue(at::Tensor()) : c10::IValue();
  if (type.list && type.base != ValueType::other) {
    const Type item{.base = type.base, .optional = type.optional_items};
    std::vector<c10::IValue> items;
    if (argument.is_sequence())
      for (const Argument& a : argument.items()) items.push_back(to_ivalue(a, item));
    else if (type.list_size > 0)  // one number for all, as LibTorch expands it
      items.assign(type.list_size, to_ivalue(argument, item));
    else detail::cannot_pass(argument, "a list");
    if (items.size() == 1 && type.list_size > 1) items.resize(type.list_size, c10::IValue(items[0]));
    return to_list(std::move(items), type);
  }
  switch (type.base) {
    case ValueType::tensor:
      if (argument.is_number() || argument.kind() == Kind::complex) {
        // A number where a tensor is expected is a zero-dimensional tensor that does not take part in type promotion.
        const at::Scalar scalar = to_scalar(argument);
        const c10::InferenceMode off(false);  // graphs keep it, and may train later
        at::Tensor number = at::_ops::scalar_tensor::call(scalar, scalar.type(), std::nullopt, at::kCPU, std::nullopt);
        number.unsafeGetTensorImpl()->set_wrapped_number(true);
        return number;
      }
      detail::cannot_pass(argument, "a tensor");
    case ValueType::scalar:
      if (!argument.is_number() && argument.kind() != Kind::complex) detail::cannot_pass(argument, "a number");
      return to_scalar(argument);
    case ValueType::real:
      if (!argument.is_number()) detail::cannot_pass(argument, "a float");
      return argument.number();
    case ValueType::integer:
      if (argument.kind() != Kind::integer && argument.kind() != Kind::boolean) detail::cannot_pass(argument, "an int");
      if (argument.kind() == Kind::boolean) return static_cast<std::int64_t>(argument.boolean());
      return argument.integer();
    default: break;
  }
  return visit(
      argument, [](None) { return c10::IValue(); },
      [](Node*) -> c10::IValue { throw InternalError("to_ivalue: the argument holds a node"); },
      [](bool value) { return c10::IValue(value); }, [](std::int64_t value) { return c10::IValue(value); },
      [](double value) { return c10::IValue(value); }, [](Dtype value) { return c10::IValue(to_scalar_type(value)); },
      [](Layout value) { return c10::IValue(static_cast<at::Layout>(value)); },
      [](MemoryFormat value) { return c10::IValue(static_cast<at::MemoryFormat>(value)); },
      [](Device value) { return c10::IValue(to_torch(value)); },
      [&](Ellipsis) -> c10::IValue { detail::cannot_pass(argument, "a value"); },
      [](Complex value) { return c10::IValue(c10::complex<double>(value.real, value.imag)); },
      [](const std::string& value) { return c10::IValue(value); },
      [](const Enumerator& value) { return c10::IValue(value.value); },
      [](const Range& range) {
        c10::List<std::int64_t> list;
        for (std::int64_t i = range.start; range.step > 0 ? i < range.stop : i > range.stop; i += range.step)
          list.push_back(i);
        return c10::IValue(list);
      },
      [&](const Slice&) -> c10::IValue { detail::cannot_pass(argument, "a value"); },
      [](ListView list) {
        std::vector<c10::IValue> items;
        for (const Argument& a : list.items) items.push_back(to_ivalue(a));
        return to_list(std::move(items), {});
      },
      [](TupleView tuple) {
        std::vector<c10::IValue> items;
        for (const Argument& a : tuple.items) items.push_back(to_ivalue(a));
        return c10::IValue(c10::ivalue::Tuple::create(std::move(items)));
      },
      [](DictView dict) {
        c10::impl::GenericDict out(c10::AnyType::get(), c10::AnyType::get());
        for (const DictEntry& entry : dict.entries) out.insert(to_ivalue(entry.key), to_ivalue(entry.value));
        return c10::IValue(out);
      });
}

FXX_INLINE Argument to_argument(const c10::IValue& value, const Type& type) {
  return detail::to_argument_inside(value, type, 0);
}

/// `depth`: of containers around it. Those of values may be deeper than arguments can be.
FXX_INLINE Argument detail::to_argument_inside(const c10::IValue& value, const Type& type, std::uint32_t depth) {
  if (value.isNone() || value.isTensor()) return {};
  if (depth > Argument::most_nested)
    throw GraphError(ErrorId::nested_too_deep, "to_argument: a value has lists or tuples nested more than " +
                                                   std::to_string(Argument::most_nested) +
                                                   " deep, which is what a graph can hold; flatten them");
  if (value.isList() && !value.isString()) {
    const Type item{.base = type.base};
    std::vector<Argument> items;
    for (const c10::IValue& v : value.toListRef()) items.push_back(to_argument_inside(v, item, depth + 1));
    return Argument::list(std::move(items));
  }
  switch (type.base) {
    case ValueType::dtype: return static_cast<Dtype>(value.toInt());
    case ValueType::layout: return static_cast<Layout>(value.toInt());
    case ValueType::memory_format: return static_cast<MemoryFormat>(value.toInt());
    default: break;
  }
  if (value.isBool()) return value.toBool();
  if (value.isInt() || value.isSymInt()) return value.toInt();
  if (value.isDouble()) return value.toDouble();
  if (value.isComplexDouble()) return Complex{value.toComplexDouble().real(), value.toComplexDouble().imag()};
  if (value.isString()) return value.toStringRef();
  if (value.isDevice()) return to_device(value.toDevice());
  if (value.isTuple()) {
    std::vector<Argument> items;
    for (const c10::IValue& v : value.toTupleRef().elements())
      items.push_back(to_argument_inside(v, {}, depth + 1));
    return Argument::tuple(std::move(items));
  }
  throw RunError(ErrorId::input_mismatch, "to_argument: a value of type " + value.tagKind() +
                                              " has no place in a graph; pass tensors, numbers, text or lists of them");
}

FXX_INLINE std::string describe(const at::Tensor& tensor) {
  if (!tensor.defined()) return "undefined Tensor";
  std::string text = "Tensor [";
  for (std::size_t i = 0; i < tensor.sizes().size(); ++i) text += (i ? ", " : "") + std::to_string(tensor.sizes()[i]);
  return text + "] " + std::string(name_of(to_dtype(tensor.scalar_type())));
}
FXX_INLINE std::string describe(const c10::IValue& value) {
  if (value.isTensor()) return describe(value.toTensor());
  if (value.isNone()) return "None";
  if (value.isInt()) return "int " + std::to_string(value.toInt());
  if (value.isDouble()) return "float " + repr(value.toDouble());
  if (value.isBool()) return value.toBool() ? "bool True" : "bool False";
  return value.tagKind();
}

}  // namespace fxx::inline FXX_ABI
