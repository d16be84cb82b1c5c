// A call's arguments: as LibTorch's C++ API takes them, as the operator does, and constants.
#pragma once

#include <algorithm>

#include "fxx/codegen/readable/writer.ipp"
#include "fxx/ops/numbers.hpp"

namespace fxx::inline FXX_ABI::detail {

FXX_INLINE std::string ForwardWriter::arguments(const Node& node, std::span<const Argument> args) const {
  std::string list;
  for (const Argument& a : args) list += (list.empty() ? "" : ", ") + argument(a, {}, node);
  for (const KeywordArgument& k : node.kwargs()) list += (list.empty() ? "" : ", ") + argument(k.value, {}, node);
  return list;
}

FXX_INLINE std::optional<std::string> ForwardWriter::schema_arguments(const Node& node, const Operator& op,
                                                                      int first) const {
  std::vector<WrittenArgument> list;
  std::size_t needed = 0;
  for (int i = first; i < op.arity(); ++i) {
    const Parameter& parameter = op.parameters[static_cast<std::size_t>(i)];
    if (parameter.type.base == ValueType::generator) continue;
    const Argument* given = argument_of(node, op, i);
    if (parameter.name == "dtype" && i + 3 < op.arity() &&
        op.parameters[static_cast<std::size_t>(i) + 3].name == "pin_memory") {
      bool any = false;
      list.push_back({.text = tensor_options(node, op, i, any), .form = WrittenArgument::options});
      if (any) needed = list.size();
      i += 3;
      continue;
    }
    const bool standard = !given || (parameter.has_default() && same_value(*given, parameter.standard, parameter.type));
    if (!given && !parameter.has_default())
      no_cpp(node, "argument '" + std::string(parameter.name) + "' of '" + std::string(op.name) + "' is missing");
    list.push_back(written(given ? *given : to_argument(parameter.standard, parameter.type), parameter.type, node));
    if (!standard || !parameter.has_default()) needed = list.size();
  }
  // Where C++ would call another overload, defaults may tell them apart, or else the types of lists.
  for (const bool typed : {false, true}) {
    for (std::size_t count = needed; count <= list.size(); ++count) {
      const auto leading = std::span<const WrittenArgument>(list).first(count);
      if (!picks(op, first, leading)) continue;
      std::string text;
      for (const WrittenArgument& a : leading) text += (text.empty() ? "" : ", ") + a.text;
      return text;
    }
    for (WrittenArgument& a : list)
      if (!typed && a.form == WrittenArgument::braces) give_type(a);
  }
  return std::nullopt;
}

FXX_INLINE WrittenArgument ForwardWriter::written(const Argument& value, const Type& type, const Node& node) const {
  WrittenArgument out{.text = argument(value, type, node), .type = {.base = type.base}};
  if (value.is_node()) {
    const std::string of = types_.of(*value.node());
    static constexpr std::pair<std::string_view, ValueType> known[] = {
        {"torch::Tensor", ValueType::tensor}, {"torch::Scalar", ValueType::scalar}, {"int64_t", ValueType::integer},
        {"double", ValueType::real},          {"bool", ValueType::boolean},         {"std::string", ValueType::string}};
    out.type = type;  // unless something else is known
    for (const auto& [name, base] : known) {
      if (of == name) out.type = {.base = base};
      else if (of == "std::vector<" + std::string(name) + ">") out.type = {.base = base, .list = true};
    }
    return out;
  }
  out.form = WrittenArgument::constant;
  if (out.text == "{}" || out.text == "std::nullopt") out.form = WrittenArgument::nothing;
  else if (out.text.starts_with('{')) out.form = WrittenArgument::braces;
  else if (type.list) out.type = {.base = type.base, .list = true, .optional_items = type.optional_items};
  if (out.form == WrittenArgument::braces && value.is_sequence()) out.items = value.items().size();
  const Argument& one = value.is_sequence() && !value.items().empty() ? value.items()[0] : value;
  out.zero = one.kind() == Argument::Kind::integer && one.integer() == 0 && type.base != ValueType::real;
  if (type.base == ValueType::scalar && !type.list) {
    if (value.kind() == Argument::Kind::integer) out.type.base = ValueType::integer;
    if (value.kind() == Argument::Kind::real) out.type.base = ValueType::real;
    if (value.kind() == Argument::Kind::boolean) out.type.base = ValueType::boolean;
  }
  return out;
}

FXX_INLINE void ForwardWriter::give_type(WrittenArgument& list) {
  const ValueType base = list.type.base;
  if (base != ValueType::integer && base != ValueType::real && base != ValueType::tensor) return;
  const std::string_view type = base == ValueType::integer ? "at::IntArrayRef("
                                : base == ValueType::real  ? "at::ArrayRef<double>("
                                                           : "at::TensorList(";
  list = {.text = std::string(type) + list.text + ")",
          .form = WrittenArgument::constant,
          .type = {.base = base, .list = true}};
}

FXX_INLINE std::string ForwardWriter::tensor_options(const Node& node, const Operator& op, int first, bool& any) const {
  static constexpr const char* setters[] = {"dtype(", "layout(", "device(", "pinned_memory("};
  const bool like_another = op.parameters[0].type.base == ValueType::tensor;
  std::string text, only;
  for (int i = 0; i < 4; ++i) {
    const Argument* given = argument_of(node, op, first + i);
    if (!given || given->is_none()) continue;
    if (i == 1 && !like_another && *given == Argument(Layout::strided)) continue;
    if (i == 3 && given->kind() == Argument::Kind::boolean && !given->boolean()) continue;
    const std::string value = argument(*given, op.parameters[static_cast<std::size_t>(first + i)].type, node);
    only = any || i % 2 ? std::string() : value;
    // pinned_memory is no function that makes options.
    text += (any ? "." : i == 3 ? "torch::TensorOptions()." : "torch::") + std::string(setters[i]) + value + ")";
    any = true;
  }
  // A node's value may be an optional, which is no TensorOptions by itself.
  if (!only.empty() && only.starts_with("torch::k")) return only;
  return text.empty() ? "torch::TensorOptions()" : text;
}

FXX_INLINE std::string ForwardWriter::exact_call(const Node& node, const Operator& op) const {
  std::string name(op.base_name());
  if (!op.overload_name().empty()) name += "_" + std::string(op.overload_name());
  if (!is_cpp_name(name)) no_cpp(node, "'" + std::string(op.name) + "' is no C++ name");
  return "at::_ops::" + name + "::call(" + all_arguments(node, op) + ")";
}

FXX_INLINE std::string ForwardWriter::dispatcher_call(const Node& node, const Operator& op) const {
  std::string result, parameters;
  for (const Return& r : op.returns)
    result += (result.empty() ? "" : ", ") + std::string(r.written ? "at::Tensor&" : signature_type(node, op, r.type));
  if (op.returns.size() != 1) result = result.empty() ? "void" : "std::tuple<" + result + ">";
  for (const Parameter& p : op.parameters)
    parameters += (parameters.empty() ? "" : ", ") +
                  std::string(p.written ? "at::Tensor&" : signature_type(node, op, p.type, true));
  const std::string name = std::string(op.name_space()) + "::" + std::string(op.base_name());
  return "c10::Dispatcher::singleton().findSchemaOrThrow(" + cpp_string(name) + ", " + cpp_string(op.overload_name()) +
         ").typed<" + result + "(" + parameters + ")>().call(" + all_arguments(node, op) + ")";
}

FXX_INLINE std::string ForwardWriter::signature_type(const Node& node, const Operator& op, const Type& type,
                                                     bool parameter) const {
  std::string base;
  switch (type.base) {
    case ValueType::tensor: base = "at::Tensor"; break;
    case ValueType::scalar: base = "at::Scalar"; break;
    case ValueType::integer: base = type.symbolic ? "c10::SymInt" : "int64_t"; break;
    case ValueType::real: base = "double"; break;
    case ValueType::boolean: base = "bool"; break;
    case ValueType::string: base = parameter ? "std::string_view" : "std::string"; break;
    case ValueType::dtype: base = "at::ScalarType"; break;
    case ValueType::layout: base = "at::Layout"; break;
    case ValueType::device: base = "at::Device"; break;
    case ValueType::memory_format: base = "at::MemoryFormat"; break;
    default: no_cpp(node, "'" + std::string(op.name) + "' has a parameter or a result of a type without a C++ form");
  }
  // Those of oneDNN take optional numbers, and lists of them, by value; ATen's of such types take references.
  const bool by_value = type.base == ValueType::scalar && op.name_space() == "mkldnn";
  const bool by_reference = parameter && !type.list && !by_value && (base == "at::Tensor" || base == "at::Scalar");
  if (type.list && type.optional_items)
    base = by_value ? "c10::List<std::optional<" + base + ">>" : "const c10::List<std::optional<" + base + ">>&";
  else if (type.list)
    base = !parameter              ? "std::vector<" + base + ">"
           : base == "c10::SymInt" ? "c10::SymIntArrayRef"
                                   : "at::ArrayRef<" + base + ">";
  if (type.optional) base = "std::optional<" + base + ">";
  return by_reference ? "const " + base + "&" : base;
}

FXX_INLINE std::string ForwardWriter::all_arguments(const Node& node, const Operator& op) const {
  std::string text;
  for (int i = 0; i < op.arity(); ++i) {
    const Parameter& parameter = op.parameters[static_cast<std::size_t>(i)];
    const Argument* given = argument_of(node, op, i);
    if (!given && !parameter.has_default())
      no_cpp(node, "argument '" + std::string(parameter.name) + "' of '" + std::string(op.name) + "' is missing");
    std::string item = argument(given ? *given : to_argument(parameter.standard, parameter.type), parameter.type, node);
    if (parameter.type.list && parameter.type.symbolic) {
      if (given && given->is_node() && types_.of(*given->node()) == "std::vector<int64_t>")
        item = "c10::fromIntArrayRefSlow(" + item + ")";
      else if (item.starts_with("at::IntArrayRef(")) item.replace(0, 15, "c10::SymIntArrayRef");
    }
    text += (i ? ", " : "") + item;
  }
  return text;
}

FXX_INLINE std::string ForwardWriter::immediate(const Argument& value, const Type& type, const Node& node) const {
  const Type item{.base = type.base, .optional = type.optional_items};
  // A leading 0 is a null pointer to overloads that take names of dimensions, and {0} to those of convolutions that take
  // the name of a padding. An optional list of real numbers is a std::optional, which takes no items.
  const auto named = [&](const std::string& list) {
    if (type.optional && type.base == ValueType::real) return "at::ArrayRef<double>(" + list + ")";
    const Operator* op = operator_of(node);
    const bool ambiguous = type.base == ValueType::integer &&
                           ((type.optional && list.starts_with("{0")) ||
                            (list == "{0}" && op && op->base_name().starts_with("conv")));
    return ambiguous ? "at::IntArrayRef(" + list + ")" : list;
  };
  if (type.list && !value.is_sequence() && !value.is_none())
    return named("{" + immediate(value, item, node) + "}");
  const auto items = [&](std::span<const Argument> list) {
    std::string text;
    for (const Argument& a : list) text += (text.empty() ? "" : ", ") + argument(a, item, node);
    return text;
  };
  // Where C++ is to see of what type a value is, none is a tensor that is undefined.
  const auto value_of = [&](const Argument& a) { return a.is_none() ? "torch::Tensor()" : argument(a, {}, node); };
  const auto values = [&](std::span<const Argument> list) {
    std::string text;
    for (const Argument& a : list) text += (text.empty() ? "" : ", ") + value_of(a);
    return text;
  };
  return visit(
      value,
      [&](None) -> std::string {
        return type.base == ValueType::tensor || type.base == ValueType::other ? "{}" : "std::nullopt";
      },
      [&](Node* n) { return text_of(*n); }, [](bool v) { return std::string(v ? "true" : "false"); },
      [&](std::int64_t v) {
        return type.base == ValueType::real ? cpp_double(static_cast<double>(v)) : cpp_integer(v);
      },
      [](double v) { return cpp_double(v); }, [](Dtype v) { return cpp_dtype(v); },
      [](Layout v) { return "c10::Layout::" + std::string(c10_name_of(v)); },
      [](MemoryFormat v) { return "c10::MemoryFormat::" + std::string(c10_name_of(v)); },
      [](Device v) {
        static constexpr DeviceType named[] = {DeviceType::cpu, DeviceType::cuda, DeviceType::xpu, DeviceType::mps,
                                               DeviceType::meta};
        const bool short_name = std::find(std::begin(named), std::end(named), v.type) != std::end(named);
        const std::string type = (short_name ? "torch::k" : "c10::DeviceType::") + std::string(c10_name_of(v.type));
        if (v.index < 0) return short_name ? type : "torch::Device(" + type + ")";
        return "torch::Device(" + type + ", " + std::to_string(v.index) + ")";
      },
      [](Ellipsis) { return std::string("torch::indexing::Ellipsis"); },
      [](Complex v) { return "c10::complex<double>(" + cpp_double(v.real) + ", " + cpp_double(v.imag) + ")"; },
      [](const std::string& v) { return cpp_string(v); },
      [&](const Enumerator& v) {
        if (!is_cpp_name(v.type) || (!v.name.empty() && !is_cpp_name(v.name)))
          no_cpp(node, "the enumerator " + to_string(Argument(v)) + " is no C++ name");
        if (v.name.empty()) return "static_cast<" + v.type + ">(" + cpp_integer(v.value) + ")";
        return v.type + "::" + v.name;
      },
      [&](const Range&) -> std::string { no_cpp(node, "a range has no C++ form; give the list of its numbers"); },
      [&](const Slice&) { return index_part(value, false, node); },
      [&](ListView list) -> std::string {
        if (type.list && type.optional_items) {
          const std::string of = type.base == ValueType::scalar ? "at::Scalar" : "at::Tensor";
          return "c10::List<std::optional<" + of + ">>" + (list.items.empty() ? "()" : "({" + items(list.items) + "})");
        }
        if (list.items.empty() && type.list)
          return type.base == ValueType::tensor ? "at::TensorList()"
                 : type.base == ValueType::real ? "at::ArrayRef<double>()"
                                                : "at::IntArrayRef()";
        const std::string text = "{" + items(list.items) + "}";
        return type.list ? named(text) : types_.of(value) + text;
      },
      [&](TupleView tuple) -> std::string {
        return type.list ? "{" + items(tuple.items) + "}" : "std::make_tuple(" + values(tuple.items) + ")";
      },
      [&](DictView dict) {
        std::string text;
        const std::string made = types_.of(value);
        if (made.starts_with("std::tuple<")) {
          for (const DictEntry& entry : dict.entries) text += (text.empty() ? "" : ", ") + value_of(entry.value);
          return "std::make_tuple(" + text + ")";
        }
        for (const DictEntry& entry : dict.entries)
          text += (text.empty() ? "{" : ", {") + immediate(entry.key, {}, node) + ", " +
                  argument(entry.value, {}, node) + "}";
        return made + "{" + text + "}";
      });
}

}  // namespace fxx::inline FXX_ABI::detail
