// Bodies of ops/softmax_attention.hpp.
#pragma once

#include <initializer_list>
#include <vector>

#include "fxx/ops/operation.hpp"
#include "fxx/ops/registry.hpp"
#include "fxx/ops/softmax_attention.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {
class SoftmaxAttention final : public Expansion {
 public:
  std::size_t arity() const override { return 6; }
  Argument write(Graph& graph, std::span<const Argument> args) const override {
    const Argument &mask = args[3], &fill = args[4], &scale = args[5];
    const auto call = [&](const Operator& op, std::initializer_list<Argument> given) {
      return Argument(graph.call_function(op, std::vector<Argument>(given)));
    };
    Argument scores = call(ops::matmul, {args[0], call(ops::transpose_int, {args[1], -2, -1})});
    if (scale.number() != 1) scores = call(ops::mul_Scalar, {scores, scale});
    if (!fill.is_none()) scores = call(ops::masked_fill_Scalar, {scores, mask, fill});
    else if (!mask.is_none()) scores = call(ops::add_Tensor, {scores, mask});
    return call(ops::matmul, {call(ops::softmax_int, {scores, -1}), args[2]});
  }
};
}  // namespace detail

FXX_INLINE const UserFunction& softmax_attention_function() {
  static const detail::SoftmaxAttention* expansion = new detail::SoftmaxAttention;  // never destroyed, as functions are
  static const UserFunction& function = register_function("fxx::softmax_attention", {}, false, expansion);
  return function;
}

FXX_INLINE bool is_softmax_attention(const Node& node) {
  const auto* call = std::get_if<CallFunction>(&node.op());
  const auto* function = call ? std::get_if<const UserFunction*>(&call->target) : nullptr;
  return function && *function == &softmax_attention_function();
}

}  // namespace fxx::inline FXX_ABI
