// Bodies of passes/merge_equal.hpp.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "fxx/meta/fixed_string.hpp"
#include "fxx/ops/effects.hpp"
#include "fxx/ops/registry.hpp"
#include "fxx/ops/sharing.hpp"
#include "fxx/passes/merge_equal.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {

class EqualCalls {
 public:
  explicit EqualCalls(Graph& graph) : graph_(graph) {
    const auto nodes = graph.nodes();
    if (graph.may_have_effects())
      for (const Node* node : nodes) {
        const Operator* op = operator_of(*node);
        if (op && op->mutates) written_.push_back(memory_written_by(*node));
        else if (may_write_memory(*node)) anything_written_ = true;
      }
  }

  std::size_t merge() {
    if (anything_written_) return 0;
    std::size_t erased = 0;
    for (Node* node : graph_.nodes()) {
      if (!may_merge(*node)) continue;
      std::vector<Node*>& alike = seen_[hash_of(*node)];
      const auto first = std::find_if(alike.begin(), alike.end(), [&](const Node* n) { return are_equal(*n, *node); });
      if (first == alike.end()) {
        alike.push_back(node);
        continue;
      }
      if (touches_written(**first) || touches_written(*node)) continue;
      if (reaches_output(**first) && reaches_output(*node)) continue;
      node->replace_all_uses_with(*first);
      graph_.erase_node(node);
      ++erased;
    }
    return erased;
  }

 private:
  static bool may_merge(const Node& node) {
    if (node.num_users() == 0) return false;
    if (node.opcode() == Opcode::get_attr) return true;
    const Operator* op = operator_of(node);
    if (!op || op->mutates || has_effect(node) || draws_numbers(node)) return false;
    return op->base_name().find("empty") == std::string_view::npos && !node.all_input_nodes().empty();
  }
  static void add(std::uint64_t& hash, std::uint64_t part) { hash = (hash ^ part) * hash_factor; }
  /// Of what is equal it adds the same.
  static void add(std::uint64_t& hash, const Argument& argument) {
    using Kind = Argument::Kind;
    switch (argument.kind()) {
      case Kind::boolean: return add(hash, std::uint64_t{argument.boolean()});
      case Kind::integer: return add(hash, static_cast<std::uint64_t>(argument.integer()));
      case Kind::real: {
        const double real = argument.number();
        return add(hash, real == real ? std::bit_cast<std::uint64_t>(real) : 0);
      }
      case Kind::dtype: return add(hash, static_cast<std::uint64_t>(argument.dtype()));
      case Kind::string: return add(hash, std::hash<std::string_view>{}(argument.string()));
      case Kind::list:
      case Kind::tuple:
        for (const Argument& item : argument.items()) add(hash, item);
        return;
      default: return;
    }
  }
  /// Few that are not equal have the same: many an operator takes parts of one tensor by numbers alone.
  static std::uint64_t hash_of(const Node& node) {
    if (const auto* attribute = std::get_if<GetAttr>(&node.op()))
      return std::hash<std::string_view>{}(attribute->target);
    const Operator& op = *operator_of(node);
    std::uint64_t hash = reinterpret_cast<std::uintptr_t>(&op);
    for (int i = 0; i < op.arity(); ++i) add(hash, argument_or_default(node, op, i));
    for (const Node* input : node.all_input_nodes()) add(hash, std::uint64_t{reinterpret_cast<std::uintptr_t>(input)});
    return hash;
  }
  /// The two zeros are equal, but not the same.
  static bool is_same(const Argument& a, const Argument& b) {
    if (a.kind() == Argument::Kind::real && b.kind() == Argument::Kind::real &&
        std::signbit(a.number()) != std::signbit(b.number()))
      return false;
    return a == b;
  }
  static bool are_equal(const Node& a, const Node& b) {
    if (a.opcode() == Opcode::get_attr || b.opcode() == Opcode::get_attr) return a.op() == b.op();
    const Operator *op = operator_of(a), *other = operator_of(b);
    if (op != other) return false;
    for (int i = 0; i < op->arity(); ++i)
      if (!is_same(argument_or_default(a, *op, i), argument_or_default(b, *op, i))) return false;
    return true;
  }
  bool touches_written(const Node& node) const {
    const auto is_written = [&](const Node& value) {
      const Memory memory = memory_of(value);
      return memory.anywhere || std::any_of(written_.begin(), written_.end(),
                                            [&](const Memory& written) { return may_overlap(memory, written); });
    };
    if (written_.empty()) return false;
    if (is_written(node)) return true;
    const auto inputs = node.all_input_nodes();
    return std::any_of(inputs.begin(), inputs.end(), [&](const Node* input) { return is_written(*input); });
  }

  Graph& graph_;
  std::vector<Memory> written_;
  bool anything_written_ = false;
  std::unordered_map<std::uint64_t, std::vector<Node*>> seen_;
};

}  // namespace detail

FXX_INLINE std::size_t merge_equal(Graph& graph) { return detail::EqualCalls(graph).merge(); }

}  // namespace fxx::inline FXX_ABI
