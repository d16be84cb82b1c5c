// Attention that was written by hand, recognised as scaled_dot_product_attention.
// Main names: rules::attention, rules::attention_dropout. Cost: light.
#pragma once

#include <limits>

#include "fxx/rewrite/functions.hpp"
#include "fxx/rules/guards.hpp"

namespace fxx::inline FXX_ABI::rules {

namespace attention_rules {
using namespace pattern;
inline constexpr auto q = tensor<"q">;
inline constexpr auto k = tensor<"k">;
inline constexpr auto v = tensor<"v">;
inline constexpr auto mask = tensor<"mask">;
inline constexpr auto i = value<"i">;
inline constexpr auto j = value<"j">;
inline constexpr auto dim = value<"dim">;
inline constexpr auto scale = scalar<"scale">;
inline constexpr auto key_scale = scalar<"key_scale">;
inline constexpr auto order = value<"order">;
inline constexpr auto type = value<"type">;
inline constexpr auto wide = value<"wide">;
inline constexpr auto rate = scalar<"rate">;

/// The keys are transposed in their last two dimensions, softmax runs over the keys: the last dimension of the scores,
/// which have as many as the larger of query and keys. Nobody depends on how the result lies in memory.
bool is_attention(const Match& m);
/// A mask that the operator takes: it adds two dimensions or more to scores that are as large as the sum.
bool is_masked_attention(const Match& m);
/// What is masked is minus infinity, so that nothing is left of it; where the mask is a boolean.
bool is_hidden(const Match& m);
inline constexpr auto minus_infinity = [](double v) { return v == -std::numeric_limits<double>::infinity(); };
inline constexpr auto low = s.where(minus_infinity);
/// Softmax in a type that holds more, and back to that of the queries.
bool is_attention_in_type(const Match& m);
double scale_of(const Match& m, bool divided);
Argument build_attention(const Match& m, double factor);
template <bool Divided>
inline constexpr auto build = [](const Match& m) { return build_attention(m, scale_of(m, Divided)); };
/// What was added to the scores is added by the operator too, but a boolean mask would mean something else to it.
Argument masked_attention(const Match& m, double factor);
template <bool Divided, bool Scaled = true>
inline constexpr auto build_masked = [](const Match& m) {
  if constexpr (Scaled) return masked_attention(m, scale_of(m, Divided));
  else return masked_attention(m, 1.0);
};
/// What was added to the scores before they were scaled is scaled too.
Argument scaled_mask_attention(const Match& m, bool divided);
template <bool Divided>
inline constexpr auto build_scaled_mask = [](const Match& m) { return scaled_mask_attention(m, Divided); };
/// A number that leaves minus infinity what it is.
inline constexpr auto positive = [](double v) { return v > 0 && v < std::numeric_limits<double>::infinity(); };
bool is_of_floats(const Match& m);
/// The factor of the keys goes to the queries, where they are no weights: the product is the same.
bool moves_scale(const Match& m);
Argument transposed_keys(const Match& m);
Argument queries_times_keys(const Match& m, const Argument& turned, bool divided);
template <bool Divided>
inline constexpr auto scale_queries =
    [](const Match& m) { return queries_times_keys(m, m[tensor<"turned">], Divided); };
template <bool Divided>
inline constexpr auto scale_queries_of_transposed =
    [](const Match& m) { return queries_times_keys(m, transposed_keys(m), Divided); };
/// A mask that fills in a number far below all scores: as an additive one it is the lowest that there is, next to which
/// scores are nothing, so that the keys of a query that is masked from all count alike, as they do where it is written.
bool is_filled(const Match& m);
inline constexpr auto far_below = [](double v) { return v <= -1e9 && v > -std::numeric_limits<double>::infinity(); };
Argument build_filled(const Match& m, bool divided);
template <bool Divided>
inline constexpr auto build_far_below = [](const Match& m) { return build_filled(m, Divided); };
Argument build_unscaled(const Match& m);
/// Queries and keys have a factor each.
Argument build_both(const Match& m);
/// The operator's boolean mask says what is seen.
Argument hidden_attention(const Match& m, bool divided, bool mask_says_what_is_seen);
template <bool Divided, bool Seen>
inline constexpr auto build_hidden = [](const Match& m) { return hidden_attention(m, Divided, Seen); };
Argument dropout_attention(const Match& m, bool divided);
template <bool Divided>
inline constexpr auto build_dropout = [](const Match& m) { return dropout_attention(m, Divided); };
/// The keys with their last two dimensions exchanged.
inline constexpr auto keys = transpose(k, i, j) | with<"i">(-1_c, with<"j">(-2_c, mT(k))) | permute(k, order);
/// What is not scaled has a scale of one.
inline constexpr auto times = [](auto scores) { return mul(scores, scale) | with<"scale">(1_c, scores); };

// Heads of keys and values that several heads of the queries share.
inline constexpr auto causal = value<"causal">;
inline constexpr auto given_scale = value<"given scale">;
inline constexpr auto sizes = value<"sizes">;
inline constexpr auto shape = value<"shape">;
inline constexpr auto repeats = value<"repeats">;

bool repeats_heads(const Match& m);
/// Keys and values get a dimension behind their heads, are expanded in it, and then it is joined with the heads.
bool expands_heads(const Match& m);
Argument build_grouped(const Match& m);
inline constexpr auto attention_of = [](auto keys, auto values) {
  return scaled_dot_product_attention(q, keys, values, optional<"mask">, 0_c, causal, arg<"scale">(given_scale));
};
}  // namespace attention_rules

/// The scores of attention in the form that rules::attention looks for, before it does. Law: q (k c)^T = (q c) k^T, up
/// to rounding; a mask that fills in minus infinity, and then a factor, is the factor, and then the mask, to the bit.
/// Needs: floating-point values; known shapes and keys that are no constants, of one dtype with the queries, where the
/// factor goes to the queries; a positive factor under a mask.
inline constexpr auto attention_scores = [] {
  using namespace pattern;
  using namespace attention_rules;
  return ruleset(
      rule<"scale before the mask">(
          mul(masked_fill(x, mask, low), scale.where(positive)) >> masked_fill(mul(x, scale), mask, s), is_of_floats),
      rule<"scale before the mask, divided">(
          div(masked_fill(x, mask, low), scale.where(positive)) >> masked_fill(div(x, scale), mask, s), is_of_floats),
      rule<"scale before the mask, seen">(
          mul(where(mask, x, low), scale.where(positive)) >> where(mask, mul(x, scale), s), is_of_floats),
      rule<"scale before the mask, seen, divided">(
          div(where(mask, x, low), scale.where(positive)) >> where(mask, div(x, scale), s), is_of_floats),
      rule<"scale of keys to queries", law::sums>(matmul(q, mul(keys.as<"turned">(), scale)) >> scale_queries<false>, moves_scale),
      rule<"scale of keys to queries, divided", law::sums>(matmul(q, div(keys.as<"turned">(), scale)) >> scale_queries<true>,
                                                moves_scale),
      rule<"scale of keys to queries, transposed last", law::sums>(
          matmul(q, transpose(mul(k, scale), i, j)) >> scale_queries_of_transposed<false>, moves_scale),
      rule<"scale of keys to queries, divided, transposed last", law::sums>(
          matmul(q, transpose(div(k, scale), i, j)) >> scale_queries_of_transposed<true>, moves_scale));
}();

/// Law: softmax(q k^T c + mask) v = scaled_dot_product_attention(q, k, v, mask, scale = c), up to rounding. A query
/// that is masked from all keys gets zeros of the operator, and nan of the written form, so where it may not be assumed
/// that all see a key (law::visible), it is fxx::softmax_attention(q, k, v, mask, fill, c), which is the written form,
/// and there a mask that fills in any number hides what is nan. Needs: floating-point values
/// of one type and some keys, as far as is known; shapes on the nodes where dimensions are counted from the front, and
/// of query, key and mask where there is one; a boolean mask where scores are filled with minus infinity. The factor stands at the
/// scores, the queries, the keys or both. A softmax in another type is in one that holds more. Dropout on the weights
/// must be gone (rules::inference), or see rules::attention_dropout. A mask that fills in a finite number of -1e9 or
/// less is one that adds the lowest number there is. Needs: scores that are larger by far, in float32 or float64. Keys
/// and values of which each head is repeated for several heads of the queries are given as they were, with enable_gqa.
/// Needs: the shapes of all of them.
inline constexpr auto attention = [] {
  using namespace pattern;
  using namespace attention_rules;
  constexpr auto scores = matmul(q, keys);
  constexpr auto divided = div(scores, scale);
  constexpr auto multiplied = mul(scores, scale);
  constexpr auto scaled_query = matmul(mul(q, scale), keys);
  constexpr auto divided_query = matmul(div(q, scale), keys);
  constexpr auto scaled_key = matmul(q, mul(keys, scale)) | matmul(q, transpose(mul(k, scale), i, j));
  constexpr auto divided_key = matmul(q, div(keys, scale)) | matmul(q, transpose(div(k, scale), i, j));
  constexpr auto scaled_both =
      matmul(mul(q, scale), mul(keys, key_scale)) | matmul(mul(q, scale), transpose(mul(k, key_scale), i, j));
  constexpr auto batched = bmm(q, keys);
  constexpr auto hidden = [](auto p) { return masked_fill(p, mask, low); };
  constexpr auto seen = [](auto p) { return where(mask, p, low); };
  constexpr auto filled = [](auto p) { return masked_fill(p, mask, s.where(far_below)); };
  constexpr auto repeated = [](auto p) { return apply<ops::repeat_interleave_self_int>(p, repeats, dim); };
  constexpr auto one_key = (unsqueeze(k, value<"at">) | getitem(k, value<"index k">)).as<"one k">();
  constexpr auto one_value = (unsqueeze(v, value<"at">) | getitem(v, value<"index v">)).as<"one v">();
  return ruleset(
      rule<"attention, divided, masked", law::sums>(matmul(softmax(add(divided, mask), dim), v) >> build_masked<true>,
                                         is_masked_attention),
      rule<"attention, scaled, masked", law::sums>(matmul(softmax(add(multiplied, mask), dim), v) >> build_masked<false>,
                                        is_masked_attention),
      rule<"attention, scaled query, masked", law::sums>(matmul(softmax(add(scaled_query, mask), dim), v) >> build_masked<false>,
                                              is_masked_attention),
      rule<"attention, divided query, masked", law::sums>(matmul(softmax(add(divided_query, mask), dim), v) >> build_masked<true>,
                                               is_masked_attention),
      rule<"attention, unscaled, masked", law::sums>(matmul(softmax(add(scores, mask), dim), v) >> build_masked<false, false>,
                                          is_masked_attention),
      rule<"attention, divided", law::sums>(matmul(softmax(divided, dim), v) >> build<true>, is_attention),
      rule<"attention, scaled", law::sums>(matmul(softmax(multiplied, dim), v) >> build<false>, is_attention),
      rule<"attention, scaled query and key", law::sums>(matmul(softmax(scaled_both, dim), v) >> build_both, is_attention),
      rule<"attention, scaled query", law::sums>(matmul(softmax(scaled_query, dim), v) >> build<false>, is_attention),
      rule<"attention, divided query", law::sums>(matmul(softmax(divided_query, dim), v) >> build<true>, is_attention),
      rule<"attention, scaled key", law::sums>(matmul(softmax(scaled_key, dim), v) >> build<false>, is_attention),
      rule<"attention, divided key", law::sums>(matmul(softmax(divided_key, dim), v) >> build<true>, is_attention),
      rule<"attention, unscaled", law::sums>(matmul(softmax(scores, dim), v) >> build_unscaled, is_attention),
      rule<"attention, divided, hidden", law::sums>(matmul(softmax(hidden(divided), dim), v) >> build_hidden<true, false>,
                                         is_hidden),
      rule<"attention, scaled query, hidden", law::sums>(
          matmul(softmax(hidden(scaled_query), dim), v) >> build_hidden<false, false>, is_hidden),
      rule<"attention, divided query, hidden", law::sums>(
          matmul(softmax(hidden(divided_query), dim), v) >> build_hidden<true, false>, is_hidden),
      rule<"attention, scaled, hidden", law::sums>(matmul(softmax(hidden(times(scores)), dim), v) >> build_hidden<false, false>,
                                        is_hidden),
      rule<"attention, scaled query, seen", law::sums>(matmul(softmax(seen(scaled_query), dim), v) >> build_hidden<false, true>,
                                            is_hidden),
      rule<"attention, divided query, seen", law::sums>(matmul(softmax(seen(divided_query), dim), v) >> build_hidden<true, true>,
                                             is_hidden),
      rule<"attention, divided, seen", law::sums>(matmul(softmax(seen(divided), dim), v) >> build_hidden<true, true>, is_hidden),
      rule<"attention, scaled, seen", law::sums>(matmul(softmax(seen(times(scores)), dim), v) >> build_hidden<false, true>,
                                      is_hidden),
      rule<"attention, masked, then scaled", law::sums>(
          matmul(softmax(mul(add(scores, mask), scale), dim), v) >> build_scaled_mask<false>, is_masked_attention),
      rule<"attention, masked, then divided", law::sums>(
          matmul(softmax(div(add(scores, mask), scale), dim), v) >> build_scaled_mask<true>, is_masked_attention),
      rule<"attention, divided, filled", law::sums>(matmul(softmax(filled(divided), dim), v) >> build_far_below<true>, is_filled),
      rule<"attention, scaled query, filled", law::sums>(matmul(softmax(filled(scaled_query), dim), v) >> build_far_below<false>,
                                              is_filled),
      rule<"attention, divided query, filled", law::sums>(matmul(softmax(filled(divided_query), dim), v) >> build_far_below<true>,
                                               is_filled),
      rule<"attention, filled", law::sums>(matmul(softmax(filled(times(scores)), dim), v) >> build_far_below<false>, is_filled),
      rule<"attention, softmax in a wider type, divided", law::sums>(
          matmul(apply<ops::to_dtype>(softmax(divided, dim, wide), type), v) >> build<true>, is_attention_in_type),
      rule<"attention, softmax in a wider type", law::sums>(
          matmul(apply<ops::to_dtype>(softmax(times(scores), dim, wide), type), v) >> build<false>,
          is_attention_in_type),
      rule<"attention, bmm, divided", law::sums>(bmm(softmax(div(batched, scale), dim), v) >> build<true>, is_attention),
      rule<"attention, bmm, scaled query", law::sums>(bmm(softmax(bmm(mul(q, scale), keys), dim), v) >> build<false>,
                                           is_attention),
      rule<"attention, bmm, divided query", law::sums>(bmm(softmax(bmm(div(q, scale), keys), dim), v) >> build<true>,
                                            is_attention),
      rule<"attention, bmm", law::sums>(bmm(softmax(times(batched), dim), v) >> build<false>, is_attention),
      rule<"attention, bmm, masked", law::sums>(bmm(softmax(add(times(batched), mask), dim), v) >> build_masked<false>,
                                     is_masked_attention),
      rule<"attention, bmm, divided, masked", law::sums>(
          bmm(softmax(add(div(batched, scale), mask), dim), v) >> build_masked<true>, is_masked_attention),
      rule<"attention, bmm, hidden", law::sums>(bmm(softmax(hidden(times(batched)), dim), v) >> build_hidden<false, false>,
                                     is_hidden),
      rule<"attention, bmm, divided, hidden", law::sums>(
          bmm(softmax(hidden(div(batched, scale)), dim), v) >> build_hidden<true, false>, is_hidden),
      rule<"attention, baddbmm", law::sums>(
          bmm(softmax(baddbmm(mask, q, keys, arg<"alpha">(scale)), dim), v) >> build_masked<false>,
          is_masked_attention),
      rule<"attention, grouped keys, repeated", law::sums | law::formula>(
          attention_of(repeated(k), repeated(v)) >> build_grouped, repeats_heads),
      rule<"attention, grouped keys, expanded", law::sums | law::formula>(
          attention_of(reshape(expand(one_key, sizes).as<"wide k">(), shape).as<"many k">(),
                       reshape(expand(one_value, sizes).as<"wide v">(), shape).as<"many v">()) >>
              build_grouped,
          expands_heads));
}();

/// Attention that trains, with dropout on its weights. Law: the same as rules::attention, and the same distribution of
/// what is dropped; not the same random numbers, so compare results over many runs. Needs: what rules::attention needs.
inline constexpr auto attention_dropout = [] {
  using namespace pattern;
  using namespace attention_rules;
  constexpr auto dropped = [](auto p) { return dropout(p, rate, lit<true>); };
  return ruleset(
      rule<"attention, divided, dropout", law::sums | law::visible>(
          matmul(dropped(softmax(div(matmul(q, keys), scale), dim)), v) >> build_dropout<true>, is_attention),
      rule<"attention, scaled query, dropout", law::sums | law::visible>(
          matmul(dropped(softmax(matmul(mul(q, scale), keys), dim)), v) >> build_dropout<false>, is_attention),
      rule<"attention, divided query, dropout", law::sums | law::visible>(
          matmul(dropped(softmax(matmul(div(q, scale), keys), dim)), v) >> build_dropout<true>, is_attention),
      rule<"attention, dropout", law::sums | law::visible>(matmul(dropped(softmax(times(matmul(q, keys)), dim)), v) >> build_dropout<false>,
                                 is_attention));
}();

}  // namespace fxx::inline FXX_ABI::rules

#if defined(FXX_HEADER_ONLY)
#include "fxx/rules/attention.ipp"
#endif
