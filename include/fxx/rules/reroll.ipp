// Bodies of rules/reroll.hpp.
#pragma once

#include "fxx/rules/reroll.hpp"

namespace fxx::inline FXX_ABI::rules {

namespace reroll_rules {

FXX_INLINE bool is_bias(const Match& m) {
  const TensorMeta *weight = m.node(w)->tensor_meta(), *added = m.node(bias)->tensor_meta();
  return weight && added && weight->dim() == 2 && added->dim() == 1 && weight->shape[0] == added->shape[0] &&
         weight->dtype == added->dtype && weight->dtype != Dtype::boolean;
}

FXX_INLINE bool is_floating(const Match& m) {
  const TensorMeta* meta = m.node(y)->tensor_meta();
  return meta && is_floating_point(meta->dtype) && m[s].kind() != Argument::Kind::boolean;
}

}  // namespace reroll_rules

}  // namespace fxx::inline FXX_ABI::rules
