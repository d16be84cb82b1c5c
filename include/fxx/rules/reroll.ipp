// Bodies of rules/reroll.hpp.
#pragma once

#include "fxx/rules/reroll.hpp"

namespace fxx::inline FXX_ABI::rules {

namespace reroll_rules {

FXX_INLINE bool is_flipped(const Match& m) {
  if (m[i].is_none() && m[order].is_none()) return true;
  if (rank_of(m[w]) != 2) return false;
  if (!rewrite::is_constant_value(*m.node(w)) && softmax_behind(*m.root())) return false;
  if (m[order].is_none()) return are_last_two(m[i], m[j], m[w]);
  return dimensions_of(m[order], 2) == std::vector<std::int64_t>{1, 0};
}

FXX_INLINE bool is_bias(const Match& m) {
  const TensorMeta *weight = m.node(w)->tensor_meta(), *added = m.node(bias)->tensor_meta();
  return is_flipped(m) && weight && added && weight->dim() == 2 && added->dim() == 1 &&
         weight->shape[0] == added->shape[0] && weight->dtype == added->dtype && weight->dtype != Dtype::boolean;
}

FXX_INLINE bool lies_as_y(const Match& m) {
  const Argument given = m[format];
  if (given.is_none() || given == Argument(MemoryFormat::preserve_format)) return true;
  return (given == Argument(MemoryFormat::contiguous_format) && lies_in_order(m[y])) || nobody_sees_layout(*m.root());
}

FXX_INLINE bool is_floating(const Match& m) {
  const TensorMeta* meta = m.node(y)->tensor_meta();
  return meta && is_floating_point(meta->dtype) && m[s].kind() != Argument::Kind::boolean && lies_as_y(m);
}

FXX_INLINE bool is_real(const Match& m) { return is_single_or_double(m[y]) && lies_as_y(m); }

}  // namespace reroll_rules

}  // namespace fxx::inline FXX_ABI::rules
