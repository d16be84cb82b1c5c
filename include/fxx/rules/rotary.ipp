// Bodies of rules/rotary.hpp.
#pragma once

#include <algorithm>

#include "fxx/rules/rotary.hpp"

namespace fxx::inline FXX_ABI::rules {

namespace rotary_rules {

/// Half of the last dimension of x; 0 when it is not known to be even, or x to be of floating-point numbers.
FXX_INLINE std::int64_t half_of(const Match& m) {
  const TensorMeta* meta = meta_of(m[x]);
  if (!meta || meta->dim() == 0 || !is_floating_point(meta->dtype) || !layout_is_free(*m.root())) return 0;
  const std::int64_t size = meta->shape.back();
  return size > 0 && size % 2 == 0 ? size / 2 : 0;
}

FXX_INLINE bool is_last(const Argument& dimension, std::int64_t rank) {
  return dimension_of(dimension, rank) == rank - 1;
}

/// From `start` to `end` of a dimension of this size.
FXX_INLINE bool goes(const Argument& start, const Argument& end, std::int64_t size, std::int64_t first,
                     std::int64_t last) {
  const auto place = [&](const Argument& a, std::int64_t absent) -> std::int64_t {
    if (a.is_none()) return absent;
    if (a.kind() != Argument::Kind::integer) return -1;
    return a.integer() < 0 ? a.integer() + size : std::min(a.integer(), size);
  };
  return place(start, 0) == first && place(end, size) == last;
}

/// x is cut in the middle of its last dimension, by two slices, chunk, or split.
FXX_INLINE bool is_halved(const Match& m, std::int64_t h) {
  const std::int64_t rank = rank_of(m[x]);
  if (!m[low_dim].is_none())
    return is_last(m[low_dim], rank) && is_last(m[high_dim], rank) && goes(m[low_start], m[low_end], 2 * h, 0, h) &&
           goes(m[high_start], m[high_end], 2 * h, h, 2 * h);
  if (!is_last(m[dim], rank)) return false;
  if (m[half].is_none()) return true;  // two chunks
  const auto sizes = integers_of(m[half]);
  return sizes && !sizes->empty() && std::all_of(sizes->begin(), sizes->end(), [&](auto s) { return s == h; });
}

/// The even and the odd places of the last dimension of x.
FXX_INLINE bool is_paired(const Match& m, std::int64_t h) {
  const std::int64_t rank = rank_of(m[x]);
  return is_last(m[low_dim], rank) && is_last(m[high_dim], rank) && goes(m[low_start], m[low_end], 2 * h, 0, 2 * h) &&
         goes(m[high_start], m[high_end], 2 * h, 1, 2 * h);
}

/// What a value of `rank` dimensions and one more is joined by: its last two dimensions become one.
FXX_INLINE bool joins_last_two(const Match& m, const Argument& joined, std::int64_t rank) {
  if (!m[from].is_none()) return dimension_of(m[from], rank + 1) == rank - 1 && is_last(m[to], rank + 1);
  const TensorMeta *meta = meta_of(joined), *whole = meta_of(m[x]);
  return meta && meta->shape == whole->shape;
}

/// Cosines and sines of half the size, so that each is for two places.
FXX_INLINE bool are_of_halves(const Match& m, std::int64_t h) {
  const TensorMeta *c = meta_of(m[cosine]), *s = meta_of(m[sine]);
  return c && s && c->dim() > 0 && s->dim() > 0 && c->shape.back() == h && s->shape.back() == h &&
         c->dim() <= rank_of(m[x]) && s->dim() <= rank_of(m[x]);
}

FXX_INLINE Argument embed(const Match& m, const Argument& cosines, const Argument& sines, bool interleaved) {
  views_become_reshapes(*m.root());
  Node* call = m.graph().create_node(CallFunction{&rotary_embedding_function()}, {m[x], cosines, sines, interleaved},
                                     {}, "rotary_embedding");
  call->set_type("torch::Tensor");
  return call;
}

/// For both places of each pair.
FXX_INLINE Argument doubled(const Match& m, const Argument& angles, bool interleaved) {
  if (interleaved) return m.call(ops::repeat_interleave_self_int, {angles, 2, -1});
  return m.call(ops::cat, {Argument::list({angles, angles}), -1});
}

FXX_INLINE Argument embed_doubled(const Match& m, bool interleaved) {
  const Argument cosines = doubled(m, m[cosine], interleaved), sines = doubled(m, m[sine], interleaved);
  return embed(m, cosines, sines, interleaved);
}

FXX_INLINE bool turns_halves(const Match& m) {
  const std::int64_t h = half_of(m);
  return h > 0 && is_halved(m, h) && is_last(m[value<"joined">], rank_of(m[x]));
}

FXX_INLINE bool turns_pairs(const Match& m) {
  const std::int64_t h = half_of(m), rank = rank_of(m[x]);
  return h > 0 && is_paired(m, h) && is_last(m[value<"joined">], rank + 1) &&
         joins_last_two(m, m[value<"turned">], rank);
}

FXX_INLINE bool turns_both_halves(const Match& m) { return turns_halves(m) && are_of_halves(m, half_of(m)); }

FXX_INLINE bool turns_both_of_pairs(const Match& m) { return turns_pairs(m) && are_of_halves(m, half_of(m)); }

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
  const Argument cosines = doubled(m, m.call(ops::real, {m[factor]}), true);
  return embed(m, cosines, doubled(m, m.call(ops::imag, {m[factor]}), true), true);
}

}  // namespace rotary_rules

}  // namespace fxx::inline FXX_ABI::rules
