// Back to what the user wrote: operators that LibTorch's C++ front end takes apart before the dispatcher sees them.
//
// The dispatcher tracer applies these to every trace. Exact: each replacement computes what the pattern computes.
// Main names: rules::reroll. Cost: light; about 60 ms to compile.
#pragma once

#include "fxx/rewrite/functions.hpp"
#include "fxx/rules/guards.hpp"

namespace fxx::inline FXX_ABI::rules {

namespace reroll_rules {
using namespace pattern;
inline constexpr auto bias = tensor<"bias">;

/// The bias of a linear is one number an output feature; anything else that is added is no bias.
inline constexpr auto is_bias = [](const Match& m) {
  const TensorMeta *weight = m.node(w)->tensor_meta(), *added = m.node(bias)->tensor_meta();
  return weight && added && weight->dim() == 2 && added->dim() == 1 && weight->shape[0] == added->shape[0] &&
         weight->dtype == added->dtype;
};
/// In floating point; integers would round where the pattern fills its temporary.
inline constexpr auto is_floating = [](const Match& m) {
  const TensorMeta* meta = m.node(y)->tensor_meta();
  return meta && is_floating_point(meta->dtype);
};
}  // namespace reroll_rules

/// torch::nn::Linear reaches the dispatcher as `t` and `addmm` (2-D inputs) or `t`, `matmul` and `add_`; `2 - x` as
/// `empty_like`, `fill_` and `sub_`.
/// Law: linear(x, w, bias) = x w^T + bias; rsub(y, s) = s - y. Needs: shapes of weights and biases on their nodes.
inline constexpr auto reroll = [] {
  using namespace pattern;
  using namespace reroll_rules;
  return ruleset(rule<"linear, 2-D">(addmm(bias, x, t(w)) >> linear(x, w, bias), is_bias),
                 rule<"linear, n-D">(add_(matmul(x, t(w)).once(), bias) >> linear(x, w, bias), is_bias),
                 rule<"linear, out of place">(add(matmul(x, t(w)).once(), bias) >> linear(x, w, bias), is_bias),
                 rule<"linear without bias">(any_of(ops::matmul, ops::mm)(x, t(w)) >> linear(x, w)),
                 rule<"number minus tensor">(sub_(fill_(empty_like(y, arg<"memory_format">(_)), s), y) >> rsub(y, s),
                                             is_floating));
}();

}  // namespace fxx::inline FXX_ABI::rules
