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

FXX_INLINE bool is_of_pairs(const Match& m) {
  const TensorMeta *whole = meta_of(m[x]), *pairs = meta_of(m[value<"pairs">]);
  const Argument place = m[value<"place">];
  if (!whole || !pairs || whole->dim() == 0 || pairs->dim() != whole->dim() + 1 || pairs->shape.back() != 2)
    return false;
  if (!is_last(m[dim], pairs->dim()) || place.kind() != Argument::Kind::integer || !nobody_sees_layout(*m.root()))
    return false;
  if (place.integer() != 0 && place.integer() != 1) return false;
  const std::int64_t size = whole->shape.back();
  return size > 0 && pairs->shape[pairs->shape.size() - 2] * 2 == size &&
         std::equal(whole->shape.begin(), whole->shape.end() - 1, pairs->shape.begin());
}

FXX_INLINE Argument every_other(const Match& m) {
  Node* part = m.call(ops::slice_Tensor, {m[x], -1, m[value<"place">], {}, 2});
  if (const TensorMeta* meta = meta_of(m.root())) {
    TensorMeta known = *meta;
    known.stride.clear();
    part->set_tensor_meta(known);
  }
  return part;
}

FXX_INLINE Argument build_complex(const Match& m) {
  const Argument cosines = doubled<true>(m, m.call(ops::real, {m[factor]}));
  return embed(m, cosines, doubled<true>(m, m.call(ops::imag, {m[factor]})), true);
}

}  // namespace rotary_rules

}  // namespace fxx::inline FXX_ABI::rules
