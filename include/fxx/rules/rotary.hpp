// Rotary position embedding that was written by hand, recognised as fxx::rotary_embedding.
// Main names: rules::rotary. Cost: light.
#pragma once

#include <algorithm>

#include "fxx/ops/rotary_embedding.hpp"
#include "fxx/rewrite/functions.hpp"
#include "fxx/rules/guards.hpp"

namespace fxx::inline FXX_ABI::rules {

namespace rotary_rules {
using namespace pattern;
inline constexpr auto cosine = tensor<"cos">;
inline constexpr auto sine = tensor<"sin">;
inline constexpr auto factor = tensor<"factor">;  // cos + i sin
inline constexpr auto dim = value<"dim">;
inline constexpr auto from = value<"from">;
inline constexpr auto to = value<"to">;
inline constexpr auto shape = value<"shape">;
inline constexpr auto half = value<"half">;
inline constexpr auto low_dim = value<"low dim">;
inline constexpr auto low_start = value<"low start">;
inline constexpr auto low_end = value<"low end">;
inline constexpr auto high_dim = value<"high dim">;
inline constexpr auto high_start = value<"high start">;
inline constexpr auto high_end = value<"high end">;

/// Half of the last dimension of x; 0 when it is not known to be even, or x to be of floating-point numbers.
inline std::int64_t half_of(const Match& m) {
  const TensorMeta* meta = meta_of(m[x]);
  if (!meta || meta->dim() == 0 || !is_floating_point(meta->dtype) || !layout_is_free(*m.root())) return 0;
  const std::int64_t size = meta->shape.back();
  return size > 0 && size % 2 == 0 ? size / 2 : 0;
}
inline bool is_last(const Argument& dimension, std::int64_t rank) {
  return dimension_of(dimension, rank) == rank - 1;
}
/// From `start` to `end` of a dimension of this size.
inline bool goes(const Argument& start, const Argument& end, std::int64_t size, std::int64_t first, std::int64_t last) {
  const auto place = [&](const Argument& a, std::int64_t absent) -> std::int64_t {
    if (a.is_none()) return absent;
    if (a.kind() != Argument::Kind::integer) return -1;
    return a.integer() < 0 ? a.integer() + size : std::min(a.integer(), size);
  };
  return place(start, 0) == first && place(end, size) == last;
}
/// x is cut in the middle of its last dimension, by two slices, chunk, or split.
inline bool is_halved(const Match& m, std::int64_t h) {
  const std::int64_t rank = rank_of(m[x]);
  if (!m[low_dim].is_none())
    return is_last(m[low_dim], rank) && is_last(m[high_dim], rank) &&
           goes(m[low_start], m[low_end], 2 * h, 0, h) && goes(m[high_start], m[high_end], 2 * h, h, 2 * h);
  if (!is_last(m[dim], rank)) return false;
  if (m[half].is_none()) return true;  // two chunks
  const auto sizes = integers_of(m[half]);
  return sizes && !sizes->empty() && std::all_of(sizes->begin(), sizes->end(), [&](auto s) { return s == h; });
}
/// The even and the odd places of the last dimension of x.
inline bool is_paired(const Match& m, std::int64_t h) {
  const std::int64_t rank = rank_of(m[x]);
  return is_last(m[low_dim], rank) && is_last(m[high_dim], rank) &&
         goes(m[low_start], m[low_end], 2 * h, 0, 2 * h) && goes(m[high_start], m[high_end], 2 * h, 1, 2 * h);
}
/// What a value of `rank` dimensions and one more is joined by: its last two dimensions become one.
inline bool joins_last_two(const Match& m, const Argument& joined, std::int64_t rank) {
  if (!m[from].is_none()) return dimension_of(m[from], rank + 1) == rank - 1 && is_last(m[to], rank + 1);
  const TensorMeta *meta = meta_of(joined), *whole = meta_of(m[x]);
  return meta && meta->shape == whole->shape;
}
/// Cosines and sines of half the size, so that each is for two places.
inline bool are_of_halves(const Match& m, std::int64_t h) {
  const TensorMeta *c = meta_of(m[cosine]), *s = meta_of(m[sine]);
  return c && s && c->dim() > 0 && s->dim() > 0 && c->shape.back() == h && s->shape.back() == h &&
         c->dim() <= rank_of(m[x]) && s->dim() <= rank_of(m[x]);
}
bool turns_halves(const Match& m);
bool turns_pairs(const Match& m);
bool turns_both_halves(const Match& m);
bool turns_both_of_pairs(const Match& m);
/// x seen as complex numbers, one for two places.
bool turns_complex(const Match& m);

inline Argument embed(const Match& m, const Argument& cosines, const Argument& sines, bool interleaved) {
  views_become_reshapes(*m.root());
  Node* call = m.graph().create_node(CallFunction{&rotary_embedding_function()},
                                     {m[x], cosines, sines, interleaved}, {}, "rotary_embedding");
  call->set_type("torch::Tensor");
  return call;
}
template <bool Interleaved>
inline constexpr auto build = [](const Match& m) { return embed(m, m[cosine], m[sine], Interleaved); };
/// For both places of each pair.
template <bool Interleaved>
inline Argument doubled(const Match& m, const Argument& angles) {
  if constexpr (Interleaved) return m.call(ops::repeat_interleave_self_int, {angles, 2, -1});
  else return m.call(ops::cat, {Argument::list({angles, angles}), -1});
}
template <bool Interleaved>
inline constexpr auto build_doubled = [](const Match& m) {
  const Argument cosines = doubled<Interleaved>(m, m[cosine]), sines = doubled<Interleaved>(m, m[sine]);
  return embed(m, cosines, sines, Interleaved);
};
Argument build_complex(const Match& m);
/// x is seen as (..., half, 2), of which this is the first or the second of each pair; nobody depends on its strides.
bool is_of_pairs(const Match& m);
Argument every_other(const Match& m);

inline constexpr auto low = slice(x, low_dim, low_start, low_end);
inline constexpr auto high = slice(x, high_dim, high_start, high_end);
inline constexpr auto even = slice(x, low_dim, low_start, low_end, 2_c);
inline constexpr auto odd = slice(x, high_dim, high_start, high_end, 2_c);
/// f(x1, x2) in all spellings of the halves.
inline constexpr auto of_halves = [](auto f) {
  constexpr auto chunks = chunk(x, 2_c, dim).template as<"parts">();
  constexpr auto parts = split(x, half, dim).template as<"parts">();
  constexpr auto sized = split_with_sizes(x, half, dim).template as<"parts">();
  return f(low, high) | f(getitem(chunks, 0_c), getitem(chunks, 1_c)) | f(getitem(parts, 0_c), getitem(parts, 1_c)) |
         f(getitem(sized, 0_c), getitem(sized, 1_c));
};
/// x cos + turned sin
inline constexpr auto sum = [](auto turned) { return add(mul(x, cosine), mul(turned, sine)); };
/// What both halves, or all even and all odd places, become.
inline constexpr auto both = [](auto first, auto second) {
  return list(sub(mul(first, cosine), mul(second, sine)), add(mul(second, cosine), mul(first, sine)));
};
inline constexpr auto flat = [](auto p) { return flatten(p, from, to) | any_of<ops::view, ops::reshape>(p, shape); };
}  // namespace rotary_rules

/// Law: fxx::rotary_embedding(x, cos, sin, interleaved) = x cos + turned(x) sin, with [-x2, x1] of the halves of x
/// turned, or, interleaved, with [-x1, x0, -x3, x2, ...]; (x0 + i x1) (cos + i sin), two by two, likewise;
/// x seen as (..., n, 2) has its even places at [..., 0]. Exact; by complex numbers up to rounding, and for finite
/// values. Needs: floating-point x with a known even last dimension; the shapes of cos and sin where they are half as
/// large, and then they are doubled; of complex numbers float32 or float64 and the shapes of all.
inline constexpr auto rotary = [] {
  using namespace pattern;
  using namespace rotary_rules;
  constexpr auto joined = value<"joined">;
  constexpr auto pairs = any_of<ops::view, ops::reshape>(x, value<"sizes">).as<"pairs">();
  constexpr auto place = value<"place">;
  return ruleset(
      rule<"one of each pair">(
          (select(pairs, dim, place) | getitem(unbind(pairs, dim).as<"both">(), place)) >> every_other, is_of_pairs),
      rule<"rotary embedding, halves">(of_halves([](auto first, auto second) {
                                         return rotary_rules::sum(cat(list(neg(second), first), value<"joined">));
                                       }) >> build<false>,
                                       turns_halves),
      rule<"rotary embedding, pairs">(
          rotary_rules::sum(rotary_rules::flat(stack(list(neg(odd), even), joined)).as<"turned">()) >> build<true>,
          turns_pairs),
      rule<"rotary embedding, both halves">(of_halves([](auto first, auto second) {
                                              return cat(both(first, second), value<"joined">);
                                            }) >> build_doubled<false>,
                                            turns_both_halves),
      rule<"rotary embedding, both of pairs">(
          rotary_rules::flat(stack(both(even, odd), joined)).as<"turned">() >> build_doubled<true>,
          turns_both_of_pairs),
      rule<"rotary embedding, complex">(
          rotary_rules::flat(view_as_real(mul(
              view_as_complex(any_of<ops::view, ops::reshape>(x, value<"sizes">).as<"pairs">()), factor))) >>
              build_complex,
          turns_complex));
}();

}  // namespace fxx::inline FXX_ABI::rules

#if defined(FXX_HEADER_ONLY)
#include "fxx/rules/rotary.ipp"
#endif
