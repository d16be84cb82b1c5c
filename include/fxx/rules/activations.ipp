// Bodies of rules/activations.hpp.
#pragma once

#include "fxx/rules/activations.hpp"

namespace fxx::inline FXX_ABI::rules {

namespace activation_rules {

FXX_INLINE bool is_floating(const Match& m) { return may_be_floating(m[x]); }

FXX_INLINE bool finite_factor(const Match& m) {
  return may_be_floating(m[x]) && std::isfinite(m[s].number());
}

FXX_INLINE bool is_exact_softplus(const Match& m) {
  const TensorMeta* meta = meta_of(m[x]);
  const double from = m[linear_from].number();
  return may_be_floating(m[x]) && (from >= 40 || (from >= 20 && meta && meta->dtype != Dtype::float64));
}

FXX_INLINE bool positive_factor(const Match& m) { return finite_factor(m) && m[s].number() > 0; }

}  // namespace activation_rules

}  // namespace fxx::inline FXX_ABI::rules
