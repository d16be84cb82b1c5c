// Rotary position embedding that was written by hand, recognised as fxx::rotary_embedding.
// Main names: rules::rotary. Cost: light.
#pragma once

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

bool turns_halves(const Match& m);
bool turns_pairs(const Match& m);
bool turns_both_halves(const Match& m);
bool turns_both_of_pairs(const Match& m);
/// x seen as complex numbers, one for two places.
bool turns_complex(const Match& m);
Argument embed(const Match& m, const Argument& cosines, const Argument& sines, bool interleaved);
template <bool Interleaved>
inline constexpr auto build = [](const Match& m) { return embed(m, m[cosine], m[sine], Interleaved); };

Argument embed_doubled(const Match& m, bool interleaved);
template <bool Interleaved>
inline constexpr auto build_doubled = [](const Match& m) { return embed_doubled(m, Interleaved); };
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
                                       }) >>
                                           build<false>,
                                       turns_halves),
      rule<"rotary embedding, pairs">(
          rotary_rules::sum(rotary_rules::flat(stack(list(neg(odd), even), joined)).as<"turned">()) >> build<true>,
          turns_pairs),
      rule<"rotary embedding, both halves">(
          of_halves([](auto first, auto second) { return cat(both(first, second), value<"joined">); }) >>
              build_doubled<false>,
          turns_both_halves),
      rule<"rotary embedding, both of pairs">(
          rotary_rules::flat(stack(both(even, odd), joined)).as<"turned">() >> build_doubled<true>,
          turns_both_of_pairs),
      rule<"rotary embedding, complex", law::sums | law::formula>(
          rotary_rules::flat(view_as_real(
              mul(view_as_complex(any_of<ops::view, ops::reshape>(x, value<"sizes">).as<"pairs">()), factor))) >>
              build_complex,
          turns_complex));
}();

}  // namespace fxx::inline FXX_ABI::rules

#if defined(FXX_HEADER_ONLY)
#include "fxx/rules/rotary.ipp"
#endif
