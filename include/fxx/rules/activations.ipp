// Bodies of rules/activations.hpp.
#pragma once

#include <cmath>

#include "fxx/rules/activations.hpp"

namespace fxx::inline FXX_ABI::rules {

namespace activation_rules {

FXX_INLINE bool is_halved(const Match& m, bool chunk) {
  const TensorMeta* meta = meta_of(m[x]);
  const std::int64_t at = meta ? dimension_of(m[d], meta->dim()) : -1;
  if (at < 0 || !is_floating_point(meta->dtype) || !nobody_sees_layout(*m.root())) return false;
  const std::int64_t size = meta->shape[static_cast<std::size_t>(at)];
  if (chunk) return size > 0 && size % 2 == 0;
  return size > 0 && m[halves].kind() == Argument::Kind::integer && 2 * m[halves].integer() == size;
}

FXX_INLINE bool is_floating(const Match& m) { return may_be_floating(m[x]); }

FXX_INLINE bool is_log_sigmoid(const Match& m) {
  return may_be_floating(m[x]) && (lies_in_order(m[x]) || nobody_sees_layout(*m.root()));
}

FXX_INLINE bool is_exact_softplus(const Match& m) {
  const TensorMeta* meta = meta_of(m[x]);
  const double from = m[linear_from].number();
  if (from > 88) return false;  // e^x overflows in single precision before it is left off
  return is_log_sigmoid(m) && (from >= 40 || (from >= 20 && meta && meta->dtype != Dtype::float64));
}

/// Of others zeros have another sign: x > 0 ? x : -2 x is 0 of 0, and leaky_relu(0, -2) is -0.
FXX_INLINE bool positive_factor(const Match& m) {
  return may_be_floating(m[x]) && std::isfinite(m[s].number()) && m[s].number() > 0;
}

FXX_INLINE bool is_slope(const Match& m) { return is_floating(m) && m[s].number() > 0 && m[s].number() <= 1; }

}  // namespace activation_rules

}  // namespace fxx::inline FXX_ABI::rules
