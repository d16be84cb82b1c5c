// Bodies of rules/rotary.hpp.
#pragma once

#include "fxx/rules/rotary.hpp"

namespace fxx::inline FXX_ABI::rules {

namespace rotary_rules {

FXX_INLINE bool turns_halves(const Match& m) {
  const std::int64_t h = half_of(m);
  return h > 0 && is_halved(m, h) && is_last(m[value<"joined">], rank_of(m[x]));
}

FXX_INLINE bool turns_pairs(const Match& m) {
  const std::int64_t h = half_of(m), rank = rank_of(m[x]);
  return h > 0 && is_paired(m, h) && is_last(m[value<"joined">], rank + 1) &&
         joins_last_two(m, m[value<"turned">], rank);
}

FXX_INLINE bool turns_both_halves(const Match& m) {
  return turns_halves(m) && are_of_halves(m, half_of(m));
}

FXX_INLINE bool turns_both_of_pairs(const Match& m) {
  return turns_pairs(m) && are_of_halves(m, half_of(m));
}

FXX_INLINE bool turns_complex(const Match& m) {
  const std::int64_t h = half_of(m), rank = rank_of(m[x]);
  const TensorMeta *whole = meta_of(m[x]), *pairs = meta_of(m[value<"pairs">]), *f = meta_of(m[factor]);
  if (h == 0 || !pairs || !f || f->dim() == 0 || f->dim() > rank || f->shape.back() != h) return false;
  if (!(whole->dtype == Dtype::float32 && f->dtype == Dtype::complex64) &&
      !(whole->dtype == Dtype::float64 && f->dtype == Dtype::complex128))
    return false;
  return pairs->dim() == rank + 1 && pairs->shape.back() == 2 && pairs->shape[pairs->shape.size() - 2] == h &&
         std::equal(whole->shape.begin(), whole->shape.end() - 1, pairs->shape.begin()) &&
         joins_last_two(m, m.root(), rank);
}

FXX_INLINE Argument build_complex(const Match& m) {
  const Argument cosines = doubled<true>(m, m.call(ops::real, {m[factor]}));
  return embed(m, cosines, doubled<true>(m, m.call(ops::imag, {m[factor]})), true);
}

}  // namespace rotary_rules

}  // namespace fxx::inline FXX_ABI::rules
