// Bodies of ops/rotary_embedding.hpp.
#pragma once

#include <initializer_list>
#include <vector>

#include "fxx/ops/operation.hpp"
#include "fxx/ops/registry.hpp"
#include "fxx/ops/rotary_embedding.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {
class RotaryEmbedding final : public Expansion {
 public:
  std::size_t arity() const override { return 4; }
  Argument write(Graph& graph, std::span<const Argument> args) const override {
    const Argument &x = args[0], &cos = args[1], &sin = args[2];
    const auto call = [&](const Operator& op, std::initializer_list<Argument> given) {
      return Argument(graph.call_function(op, std::vector<Argument>(given)));
    };
    Argument turned;
    if (args[3].boolean()) {
      const Argument even = call(ops::slice_Tensor, {x, -1, 0, {}, 2});
      const Argument odd = call(ops::slice_Tensor, {x, -1, 1, {}, 2});
      const Argument pairs = call(ops::stack, {Argument::list({call(ops::neg, {odd}), even}), -1});
      turned = call(ops::flatten_using_ints, {pairs, -2});
    } else {
      const Argument halves = call(ops::chunk, {x, 2, -1});
      const Argument first = call(ops::operator_getitem, {halves, 0});
      const Argument second = call(ops::operator_getitem, {halves, 1});
      turned = call(ops::cat, {Argument::list({call(ops::neg, {second}), first}), -1});
    }
    const Argument straight = call(ops::mul_Tensor, {x, cos});
    return call(ops::add_Tensor, {straight, call(ops::mul_Tensor, {turned, sin})});
  }
};
}  // namespace detail

FXX_INLINE const UserFunction& rotary_embedding_function() {
  static const detail::RotaryEmbedding* expansion = new detail::RotaryEmbedding;  // never destroyed, as functions are
  static const UserFunction& function = register_function("fxx::rotary_embedding", {}, false, expansion);
  return function;
}

FXX_INLINE bool is_rotary_embedding(const Node& node) {
  const auto* call = std::get_if<CallFunction>(&node.op());
  const auto* function = call ? std::get_if<const UserFunction*>(&call->target) : nullptr;
  return function && *function == &rotary_embedding_function();
}

}  // namespace fxx::inline FXX_ABI
