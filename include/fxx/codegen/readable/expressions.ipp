// A node as an expression.
#pragma once

#include <algorithm>

#include "fxx/codegen/readable/writer.ipp"
#include "fxx/ops/numbers.hpp"

namespace fxx::inline FXX_ABI::detail {

FXX_INLINE Expression ForwardWriter::expression(const Node& node) const {
  return match(
      node.op(), [&](const Placeholder&) { return Expression{std::string(node.name())}; },
      [&](const GetAttr& o) { return Expression{members_.expression(o.target)}; },
      [&](const CallFunction& o) {
        if (const auto* function = std::get_if<const UserFunction*>(&o.target)) {
          if (!is_cpp_name((*function)->name)) no_cpp(node, "'" + (*function)->name + "' is no C++ name");
          // From the outermost scope: a variable of this function may have the same name.
          return Expression{"::" + (*function)->name + "(" + arguments(node, node.args()) + ")"};
        }
        return call(node, *std::get<const Operator*>(o.target), false);
      },
      [&](const CallMethod& o) {
        if (!is_cpp_name(o.target) || o.target.find(':') != std::string::npos)
          no_cpp(node, repr(std::string_view(o.target)) + " is no name of a method");
        if (const Operator* op = operator_of(node)) return call(node, *op, true);
        if (node.args().empty() || !node.arg(0).is_node())
          no_cpp(node, "a method needs an object as its first argument");
        if (o.target == "size" && node.args().size() == 1 && node.kwargs().empty())
          return Expression{text_of(*node.arg(0).node(), Expression::primary) + ".sizes().vec()"};
        return Expression{text_of(*node.arg(0).node(), Expression::primary) + "." + o.target + "(" +
                          arguments(node, node.args().subspan(1)) + ")"};
      },
      [&](const CallModule& o) {
        return Expression{members_.expression(o.target) + "(" + arguments(node, node.args()) + ")"};
      },
      [&](const Output&) { return Expression{}; });
}

FXX_INLINE std::optional<Expression> ForwardWriter::infix(const Node& node, const Operator& op) const {
  struct Infix {
    std::string_view base, symbol;
    int strength;
    std::size_t arity;
  };
  static constexpr Infix table[] = {{"add", "+", Expression::sum, 2},
                                    {"sub", "-", Expression::sum, 2},
                                    {"mul", "*", Expression::product, 2},
                                    {"div", "/", Expression::product, 2},
                                    {"lt", "<", Expression::comparison, 2},
                                    {"le", "<=", Expression::comparison, 2},
                                    {"gt", ">", Expression::comparison, 2},
                                    {"ge", ">=", Expression::comparison, 2},
                                    {"eq", "==", Expression::comparison, 2},
                                    {"ne", "!=", Expression::comparison, 2},
                                    {"bitwise_and", "&", Expression::bit_and, 2},
                                    {"bitwise_or", "|", Expression::bit_or, 2},
                                    {"bitwise_xor", "^", Expression::bit_xor, 2}};
  if (!node.kwargs().empty() || node.args().size() != 2 || !node.arg(0).is_node()) return std::nullopt;
  const std::string_view overload = op.overload_name();
  const bool python = op.name_space() == "operator";
  if (!python && overload != "Tensor" && overload != "Scalar") return std::nullopt;
  for (const Infix& i : table) {
    if (op.base_name() != i.base) continue;
    // The right side binds tighter: a - (b - c). Comparisons stand in parentheses beside each other and beside `&`, `^`
    // and `|`, which C++ lets bind less than those, and Python more.
    const bool compares = i.strength == Expression::comparison;
    const int left = compares ? Expression::sum : i.strength, right = compares ? Expression::sum : i.strength + 1;
    return Expression{operand(node.arg(0), op.parameters[0].type, node, left) + " " + std::string(i.symbol) + " " +
                          operand(node.arg(1), op.parameters[1].type, node, right),
                      i.strength};
  }
  return std::nullopt;
}

FXX_INLINE Expression ForwardWriter::call(const Node& node, const Operator& op, bool as_method) const {
  const std::string_view space = op.name_space();
  if (op.name == "fxx::check_equal") return {check_equal(node)};
  if (op.name == "fxx::identity") return {operand(node.arg(0), {}, node, Expression::primary)};
  if (op.name == "operator::getitem") return {get_item(node)};
  if (op.name == "operator::floordiv" || op.name == "operator::mod" || op.name == "std::divides" ||
      op.name == "std::modulus")
    return division(node, op);
  if (!as_method)
    if (auto made = infix(node, op)) return *made;
  if (space == "operator" && op.base_name() == "neg")
    return {"-" + operand(node.arg(0), {}, node, Expression::primary), Expression::unary};
  if (space == "operator" && op.base_name() == "truediv")
    return {"static_cast<double>(" + operand(node.arg(0), {}, node, 0) + ") / " +
                operand(node.arg(1), {}, node, Expression::unary),
            Expression::product};
  if (op.name == "operator::abs") return {"std::abs(" + argument(node.arg(0), {}, node) + ")"};
  if (space == "operator") return {scalar_infix(node, op)};
  if (space == "math" || space == "std" || space == "builtins") return {number_function(node, op)};
  if (space == "prim") return {property(node, op)};
  if (op.name == "fxx::to_int") return {"static_cast<int64_t>(" + argument(node.arg(0), {}, node) + ")"};
  if (op.base_name() == "_assert_scalar" || op.name == "aten::_assert_async.msg") {
    const std::string condition = argument(node.arg(0), {}, node), message = argument(node.arg(1), {}, node);
    return {"TORCH_CHECK(" + (op.base_name() == "_assert_scalar" ? condition : "torch::is_nonzero(" + condition + ")") +
            ", " + message + ")"};
  }
  if (space != "aten") return {dispatcher_call(node, op)};
  if (op.name == "aten::neg" && !as_method)
    return {"-" + operand(node.arg(0), {}, node, Expression::primary), Expression::unary};
  if (op.base_name() == "index" || op.base_name() == "index_put" || op.base_name() == "index_put_")
    return {indexed(node, op)};
  const bool function = has(op.traits, Trait::function), method = is_member(op);
  if (as_method ? method : (method && !function)) {
    const Argument* self = argument_of(node, op, 0);
    if (self && self->is_node())
      if (const auto list = schema_arguments(node, op, 1))
        return {text_of(*self->node(), Expression::primary) + "." + std::string(op.base_name()) + "(" + *list + ")"};
  }
  if (function)
    if (const auto list = schema_arguments(node, op, 0))
      return {"torch::" + std::string(op.base_name()) + "(" + *list + ")"};
  return {exact_call(node, op)};
}

FXX_INLINE std::string ForwardWriter::check_equal(const Node& node) const {
  const std::string value = operand(node.arg(0), {}, node, Expression::primary);
  const std::string condition = node.arg(1).is_none()
                                    ? "!" + value + ".defined()"
                                    : value + " == " + operand(node.arg(1), {}, node, Expression::unary);
  return "TORCH_CHECK(" + condition + ", " + argument(node.arg(2), {}, node) + ")";
}

FXX_INLINE Expression ForwardWriter::division(const Node& node, const Operator& op) const {
  const bool real = types_.of(node) == "double", positive = is_never_negative(node.arg(1));
  const std::string a = operand(node.arg(0), {}, node, Expression::product),
                    b = operand(node.arg(1), {}, node, Expression::unary);
  if (op.name_space() == "operator" && (real || !positive || !is_never_negative(node.arg(0))))
    return {cpp_rounded_down(op.base_name(), a, b, {.real = real, .positive_divisor = positive}), Expression::sum};
  if (real && op.base_name() == "modulus") return {"std::fmod(" + a + ", " + b + ")"};
  if (!node.arg(0).is_node()) return {scalar_infix(node, op)};
  return {a + " " + std::string(number_symbol(op.base_name())) + " " + b, Expression::product};
}

FXX_INLINE std::string ForwardWriter::scalar_infix(const Node& node, const Operator& op) const {
  return "(" + operand(node.arg(0), {}, node, 0) + " " + std::string(number_symbol(op.base_name())) + " " +
         operand(node.arg(1), {}, node, Expression::primary) + ")";
}

FXX_INLINE std::string ForwardWriter::number_function(const Node& node, const Operator& op) const {
  const bool both = op.name_space() == "builtins";
  std::string text = "std::" + std::string(op.base_name()) + (both ? "<" + types_.of(node) + ">" : "") + "(";
  for (std::size_t i = 0; i < node.args().size(); ++i) text += (i ? ", " : "") + argument(node.arg(i), {}, node);
  return op.returns[0].type.base == ValueType::integer ? "static_cast<int64_t>(" + text + "))" : text + ")";
}

FXX_INLINE std::string ForwardWriter::property(const Node& node, const Operator& op) const {
  const std::string_view base = op.base_name();
  const std::string call = operand(node.arg(0), {}, node, Expression::primary) + "." +
                           (base == "dtype" ? "scalar_type" : std::string(base)) + "()";
  if (base == "sizes" || base == "strides") return call + ".vec()";
  return base == "itemsize" || base == "nbytes" ? "static_cast<int64_t>(" + call + ")" : call;
}

FXX_INLINE std::string ForwardWriter::index_part(const Argument& part, bool none_is_slice, const Node& node) const {
  switch (part.kind()) {
    case Argument::Kind::none: return none_is_slice ? "torch::indexing::Slice()" : "torch::indexing::None";
    case Argument::Kind::ellipsis: return "torch::indexing::Ellipsis";
    case Argument::Kind::slice: {
      const auto end = [&](const Argument& a) {
        return a.is_none() ? std::string("torch::indexing::None") : argument(a, {}, node);
      };
      const Slice& slice = part.slice();
      if (slice.start.is_none() && slice.stop.is_none() && slice.step.is_none()) return "torch::indexing::Slice()";
      return "torch::indexing::Slice(" + end(slice.start) + ", " + end(slice.stop) +
             (slice.step.is_none() ? "" : ", " + end(slice.step)) + ")";
    }
    default: return argument(part, {}, node);
  }
}

FXX_INLINE std::string ForwardWriter::index_list(const Argument& index, bool none_is_slice, const Node& node) const {
  std::string text = "{";
  if (!index.is_sequence()) return text + index_part(index, none_is_slice, node) + "}";
  for (const Argument& part : index.items())
    text += (text.size() > 1 ? ", " : "") + index_part(part, none_is_slice, node);
  return text + "}";
}

FXX_INLINE std::string ForwardWriter::indexed(const Node& node, const Operator& op) const {
  const Argument indices = argument_or_default(node, op, 1);
  // What puts values takes no slices beside `accumulate`, and out of place no list of other indices at all.
  const auto is_none = [](const Argument& part) { return part.is_none(); };
  const bool all_given =
      !indices.is_sequence() || std::none_of(indices.items().begin(), indices.items().end(), is_none);
  // Tensor::index takes an index without dimensions for a number, and gives a view.
  const auto may_be_number = [](const Argument& part) {
    return part.is_node() && (!part.node()->tensor_meta() || part.node()->tensor_meta()->dim() == 0);
  };
  if (op.base_name() == "index" && indices.is_sequence() &&
      std::any_of(indices.items().begin(), indices.items().end(), may_be_number))
    return "torch::index(" + argument(argument_or_default(node, op, 0), op.parameters[0].type, node) + ", " +
           immediate(indices, op.parameters[1].type, node) + ")";
  std::string text = operand(argument_or_default(node, op, 0), op.parameters[0].type, node, Expression::primary) + "." +
                     std::string(op.base_name()) + "(" +
                     (op.base_name() == "index" || all_given ? index_list(indices, true, node)
                                                             : immediate(indices, op.parameters[1].type, node));
  for (int i = 2; i < op.arity() && i < 4; ++i)
    text += ", " + argument(argument_or_default(node, op, i), op.parameters[static_cast<std::size_t>(i)].type, node);
  return text + ")";
}

FXX_INLINE std::string ForwardWriter::get_item(const Node& node) const {
  const Node& container = *node.arg(0).node();
  const Argument& index = node.arg(1);
  const std::string type = types_.of(container), object = text_of(container, Expression::primary);
  if (type.starts_with("std::tuple<")) {
    const std::int64_t i = index.integer();
    return "std::get<" + cpp_integer(i < 0 ? i + tuple_size(type) : i) + ">(" + text_of(container) + ")";
  }
  if (type.starts_with("std::vector<") && index.kind() == Argument::Kind::integer && index.integer() < 0)
    return object + ".end()[" + argument(index, {}, node) + "]";
  if (type.starts_with("std::vector<") || (index.kind() == Argument::Kind::integer && type == "torch::Tensor"))
    return object + "[" + argument(index, {}, node) + "]";
  if (type == "torch::Tensor") return object + ".index(" + index_list(index, false, node) + ")";
  no_cpp(node, "what '" + std::string(container.name()) + "' is in C++ is not known, so neither is an item of it");
}

}  // namespace fxx::inline FXX_ABI::detail
