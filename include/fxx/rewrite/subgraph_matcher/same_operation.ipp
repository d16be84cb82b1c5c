// When a node is what a node of a pattern asks for, its inputs aside.
#pragma once

#include <algorithm>
#include <vector>

#include "fxx/ops/registry.hpp"
#include "fxx/ops/synonyms.hpp"
#include "fxx/rewrite/subgraph_matcher.hpp"

namespace fxx::inline FXX_ABI::rewrite::detail {

/// One item over and over is what a list of fixed size takes one number for.
FXX_INLINE std::vector<Argument> expanded(const Argument& value, Type type) {
  if (!value.is_sequence()) return std::vector<Argument>(type.list_size, value);
  if (value.items().size() == 1) return std::vector<Argument>(type.list_size, value.items()[0]);
  return {value.items().begin(), value.items().end()};
}
FXX_INLINE bool same_literal(const Argument& a, const Argument& b, Type type) {
  if (a == b) return true;
  const auto is_number = [](const Argument& x) { return x.is_number() && x.kind() != Argument::Kind::boolean; };
  if (is_number(a) && is_number(b)) return equal_numbers(a, b);
  const auto same_items = [](std::span<const Argument> x, std::span<const Argument> y) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(),
                      [](const Argument& p, const Argument& g) { return same_literal(p, g, {}); });
  };
  if (type.list && type.list_size > 0 && (a.is_sequence() || a.is_number()) && (b.is_sequence() || b.is_number()))
    return same_items(expanded(a, type), expanded(b, type));
  return a.is_sequence() && b.is_sequence() && same_items(a.items(), b.items());
}
FXX_INLINE bool holds_nodes(const Argument& a) {
  bool any = false;
  for_each_node(a, [&](const Node*) { any = true; });
  return any;
}
/// Reading an attribute twice gives two nodes and one value.
FXX_INLINE bool same_bound(const Argument& a, const Argument& b) {
  if (a == b) return true;
  if (!a.is_node() || !b.is_node()) return false;
  const auto *x = std::get_if<GetAttr>(&a.node()->op()), *y = std::get_if<GetAttr>(&b.node()->op());
  return x && y && *x == *y;
}

/// Do the two compute the same, given arguments for the same parameters? The overload follows from the arguments:
/// `mul(x, y)` is mul.Tensor, and mul.Scalar when y stands for a number.
FXX_INLINE bool same_family(const Operator& a, const Operator& b) {
  if (a.means == b.means) return true;
  const auto name = [](const Operator& op) {
    const std::string_view meaning = has(op.traits, Trait::synonym) ? meaning_of(op.name) : op.name;
    return meaning.substr(0, meaning.find('.'));
  };
  if (a.parameters.size() != b.parameters.size() || name(a) != name(b)) return false;
  return std::equal(a.parameters.begin(), a.parameters.end(), b.parameters.begin(), b.parameters.end(),
                    [](const Parameter& p, const Parameter& g) { return p.name == g.name; });
}

/// Modules are what they do: their names count only where nobody knows what they are.
FXX_INLINE bool same_module(const Node& pattern, const Node& node) {
  const std::string &wanted = std::get<CallModule>(pattern.op()).target,
                    &given = std::get<CallModule>(node.op()).target;
  const Owner *a = pattern.graph().owning_module(), *b = node.graph().owning_module();
  const ModuleInfo* known = a ? a->find_module(wanted) : nullptr;
  const ModuleInfo* found = b ? b->find_module(given) : nullptr;
  if (!known || !found) return wanted == given;
  if (known == found) return true;
  return known->type == found->type && known->training == found->training &&
         (known->construct_unknown ? wanted == given : known->construct == found->construct);
}
FXX_INLINE bool same_attribute(const Node& pattern, const Node& node) {
  const Owner *a = pattern.graph().owning_module(), *b = node.graph().owning_module();
  if (!a || !b) return true;
  const bool tensor = a->find_attribute(std::get<GetAttr>(pattern.op()).target) != nullptr;
  return tensor == (b->find_attribute(std::get<GetAttr>(node.op()).target) != nullptr);
}

/// Could the two match, before their arguments are looked at?
FXX_INLINE bool same_operation(const Node& pattern, const Node& node) {
  const Operator* wanted = operator_of(pattern);
  if (const Operator* given = wanted ? operator_of(node) : nullptr) return same_family(*wanted, *given);
  if (pattern.opcode() != node.opcode()) return false;
  if (pattern.opcode() == Opcode::call_module) return same_module(pattern, node);
  if (pattern.opcode() == Opcode::get_attr) return same_attribute(pattern, node);
  return pattern.op() == node.op();
}

/// May the first two arguments change places? Where a third is not what it is by default it belongs to one of them:
/// the factor in `x + 2 y`.
FXX_INLINE bool commutes(const Node& node, const Operator& op) {
  if (!has(op.traits, Trait::commutative) || op.arity() < 2) return false;
  for (int i = 2; i < op.arity(); ++i) {
    const Parameter& parameter = op.parameters[static_cast<std::size_t>(i)];
    const Argument* given = argument_of(node, op, i);
    if (given && (!parameter.has_default() || !same_value(*given, parameter.standard, parameter.type))) return false;
  }
  return true;
}

}  // namespace fxx::inline FXX_ABI::rewrite::detail
