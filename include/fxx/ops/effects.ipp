// Bodies of ops/effects.hpp.
#pragma once

#include <algorithm>
#include <iterator>

#include "fxx/ops/effects.hpp"
#include "fxx/ops/registry.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {
/// Calls a function of which is known that its result is memory of its own.
FXX_INLINE bool calls_expansion(const Node& node) {
  const CallFunction* call = std::get_if<CallFunction>(&node.op());
  const auto* function = call ? std::get_if<const UserFunction*>(&call->target) : nullptr;
  return function && (*function)->expansion;
}
}  // namespace detail

FXX_INLINE bool mutates_own_temporary(const Node& node) {
  const Operator* op = operator_of(node);
  if (!op || !op->mutates) return false;
  for (int i = 0; i < op->arity(); ++i) {
    if (!op->parameters[static_cast<std::size_t>(i)].written) continue;
    const Argument* given = argument_of(node, *op, i);
    if (!given || !given->is_node()) return false;
    const Node& written = *given->node();
    if (written.num_users() == 1 && detail::calls_expansion(written)) continue;
    const Operator* maker = operator_of(written);
    // A result that aliases an input, or may be the input itself, is memory that others see; so is one of several
    // results.
    if (!maker || maker->returns.size() != 1 || maker->returns[0].type != Type{.base = ValueType::tensor} ||
        written.num_users() != 1)
      return false;
    // One mutation of the temporary after the other: `empty_like(x).fill_(2).sub_(x)`.
    if (maker->mutates ? !mutates_own_temporary(written) : maker->aliases || has(maker->traits, Trait::fresh_view))
      return false;
  }
  return true;
}

FXX_INLINE bool gives_booleans(const Operator& op) {
  static constexpr std::string_view names[] = {
      "eq",         "ne",          "lt",         "le",          "gt",
      "ge",         "greater",     "less",       "not_equal",   "greater_equal",
      "less_equal", "logical_and", "logical_or", "logical_xor", "logical_not"};
  return op.name_space() == "aten" &&
         std::find(std::begin(names), std::end(names), op.base_name()) != std::end(names);
}

namespace detail {

FXX_INLINE bool may_return(const Operator& op, int i) {
  if (op.aliases) return op.parameters[static_cast<std::size_t>(i)].alias != 0;
  if (!has(op.traits, Trait::fresh_view)) return false;
  const auto takes_tensors = [](const Parameter& p) { return p.type.base == ValueType::tensor; };
  return std::find_if(op.parameters.begin(), op.parameters.end(), takes_tensors) == op.parameters.begin() + i;
}
/// Calls `f(argument)` for every argument whose memory the result may lie in.
template <class F>
void for_each_returned(const Node& node, const Operator& op, F&& f) {
  if (op.returns.empty()) return;
  for (int i = 0; i < op.arity(); ++i)
    if (may_return(op, i))
      if (const Argument* given = argument_of(node, op, i)) f(*given);
}

struct MemorySearch {
  Memory found;
  int steps = 64;

  void add(const Argument& argument) {
    for_each_node(argument, [&](const Node* n) { add(*n); });
  }
  void add(const Node& node) {
    if (std::find(found.makers.begin(), found.makers.end(), &node) != found.makers.end()) return;
    if (steps-- <= 0) {
      found.anywhere = true;
      found.certain = false;
      return;
    }
    const Operator* op = operator_of(node);
    if (!op) {
      found.makers.push_back(&node);
      if (calls_expansion(node)) return;
      found.shared = true;
      if (node.opcode() == Opcode::placeholder || node.opcode() == Opcode::get_attr) return;
      found.certain = false;
      for (const Node* input : node.all_input_nodes()) add(*input);
      return;
    }
    bool passed_on = false;
    for_each_returned(node, *op, [&](const Argument& given) {
      passed_on = true;
      add(given);
    });
    // What is returned as it came is the same memory; what only may be is the operator's own too.
    const bool same = passed_on && op->aliases && !has(op->traits, Trait::fresh_view);
    if (same) return;
    found.makers.push_back(&node);
    found.certain = found.certain && !passed_on;
  }
};

}  // namespace detail

FXX_INLINE Memory memory_of(const Node& node) {
  detail::MemorySearch search;
  search.add(node);
  return std::move(search.found);
}

FXX_INLINE bool may_write_memory(const Node& node) {
  if (node.opcode() == Opcode::placeholder || node.opcode() == Opcode::output || !has_effect(node)) return false;
  const Operator* op = operator_of(node);
  return !op || op->mutates || op->depends_on_training() || has(op->traits, Trait::impure);
}

FXX_INLINE Memory memory_written_by(const Node& node) {
  if (!may_write_memory(node)) return {};
  detail::MemorySearch search;
  search.found.certain = false;
  const Operator* op = operator_of(node);
  const bool statistics = op && has(op->traits, Trait::updates_statistics), known = statistics || (op && op->mutates);
  for (int i = 0; known && i < op->arity(); ++i) {
    const Parameter& parameter = op->parameters[static_cast<std::size_t>(i)];
    if (!parameter.written && !(statistics && parameter.name.starts_with("running_"))) continue;
    if (const Argument* given = argument_of(node, *op, i)) search.add(*given);
  }
  if (known) return std::move(search.found);
  // An unknown call may write to what it is given and to whatever it holds itself.
  search.found.shared = true;
  for (const Node* input : node.all_input_nodes()) search.add(*input);
  return std::move(search.found);
}

FXX_INLINE bool may_overlap(const Memory& a, const Memory& b) {
  if ((a.shared && b.shared) || a.anywhere || b.anywhere) return true;
  return std::any_of(a.makers.begin(), a.makers.end(), [&](const Node* maker) {
    return std::find(b.makers.begin(), b.makers.end(), maker) != b.makers.end();
  });
}

FXX_INLINE bool passes_on_memory(const Node& user, const Node& value) {
  if (user.opcode() == Opcode::output) return false;
  const Operator* op = operator_of(user);
  if (!op) return !detail::calls_expansion(user);
  bool passed_on = false;
  detail::for_each_returned(user, *op, [&](const Argument& given) {
    for_each_node(given, [&](const Node* n) { passed_on = passed_on || n == &value; });
  });
  return passed_on;
}

}  // namespace fxx::inline FXX_ABI
