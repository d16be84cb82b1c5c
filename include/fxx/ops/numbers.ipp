// Bodies of ops/numbers.hpp.
#pragma once

#include <algorithm>
#include <span>
#include <string_view>
#include <vector>

#include "fxx/ops/numbers.hpp"
#include "fxx/ops/registry.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {
inline constexpr std::string_view never_negative[] = {"aten::size.int", "aten::sym_size.int", "aten::stride.int",
                                                      "aten::dim",      "aten::numel",        "prim::itemsize",
                                                      "prim::nbytes",   "operator::abs",      "math::sqrt"};
inline constexpr std::string_view never_negative_lists[] = {"prim::sizes", "prim::strides"};
inline constexpr std::string_view never_negative_as_operands[] = {
    "operator::add", "operator::mul", "operator::truediv", "operator::floordiv", "std::divides",
    "builtins::min", "builtins::max", "math::floor",       "math::ceil",         "std::floor",
    "std::ceil",     "std::round",    "std::trunc",        "fxx::to_int",        "fxx::identity"};
}  // namespace detail

FXX_INLINE bool is_never_negative(const Argument& number) {
  const auto among = [](std::span<const std::string_view> names, const Operator& op) {
    return std::find(names.begin(), names.end(), op.name) != names.end();
  };
  std::vector<const Node*> reached;  // each has to be; looked through once
  const auto may_be = [&](const Argument* a) {
    if (!a) return false;
    if (a->kind() == Argument::Kind::integer || a->kind() == Argument::Kind::real) return a->number() >= 0;
    if (!a->is_node()) return false;
    if (std::find(reached.begin(), reached.end(), a->node()) == reached.end()) reached.push_back(a->node());
    return true;
  };
  if (!may_be(&number)) return false;
  for (std::size_t i = 0; i < reached.size(); ++i) {
    const Node& node = *reached[i];
    const Operator* op = operator_of(node);
    if (!op) return false;
    const auto operand = [&](int which) { return argument_of(node, *op, which); };
    if (among(detail::never_negative, *op)) continue;
    if (op->name == "operator::getitem") {
      const Argument* list = operand(0);
      if (!list || !list->is_node()) return false;
      const Node& made = *list->node();
      const Operator* by = operator_of(made);
      const bool all_sizes = made.opcode() == Opcode::call_method && made.target() == "size" && made.args().size() == 1;
      if (by ? !among(detail::never_negative_lists, *by) : !all_sizes) return false;
    } else if (op->name == "builtins::max" &&
               std::any_of(node.args().begin(), node.args().end(),
                           [&](const Argument& a) { return !a.is_node() && may_be(&a); })) {
      continue;  // max(n - 10, 0)
    } else if (op->name == "operator::mod" || op->name == "std::modulus") {
      // Python's has the sign of the divisor, C++'s that of what is divided.
      if (!may_be(operand(op->name == "operator::mod" ? 1 : 0))) return false;
    } else {
      if (!among(detail::never_negative_as_operands, *op)) return false;
      for (int which = 0; which < op->arity(); ++which)
        if (!may_be(operand(which))) return false;
    }
  }
  return true;
}

}  // namespace fxx::inline FXX_ABI
