// Bodies of ops/effects.hpp.
#pragma once

#include "fxx/ops/effects.hpp"
#include "fxx/ops/registry.hpp"

namespace fxx::inline FXX_ABI {

FXX_INLINE bool mutates_own_temporary(const Node& node) {
  const Operator* op = operator_of(node);
  if (!op || !op->mutates) return false;
  for (int i = 0; i < op->arity(); ++i) {
    if (!op->parameters[static_cast<std::size_t>(i)].written) continue;
    const Argument* given = argument_of(node, *op, i);
    if (!given || !given->is_node()) return false;
    const Node& written = *given->node();
    const Operator* maker = operator_of(written);
    // A result that aliases an input, or may be the input itself, is memory that others see; so is one of several results.
    if (!maker || maker->returns.size() != 1 || maker->returns[0].type != Type{.base = ValueType::tensor} || written.num_users() != 1) return false;
    // One mutation of the temporary after the other: `empty_like(x).fill_(2).sub_(x)`.
    if (maker->mutates ? !mutates_own_temporary(written) : maker->aliases || has(maker->traits, Trait::fresh_view)) return false;
  }
  return true;
}

FXX_INLINE bool is_barrier(const Node& node) {
  const Opcode opcode = node.opcode();
  if (opcode == Opcode::placeholder || opcode == Opcode::get_attr || opcode == Opcode::output) return false;
  return is_impure(node) && !mutates_own_temporary(node);
}

}  // namespace fxx::inline FXX_ABI
