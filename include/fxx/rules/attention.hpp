// Attention that was written by hand, recognised as scaled_dot_product_attention.
// Main names: rules::attention. Cost: light.
#pragma once

#include <algorithm>

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

/// The keys are transposed in their last two dimensions, softmax runs over the keys: the last dimension of the scores,
/// which have as many as the larger of query and keys. Nobody depends on how the result lies in memory.
inline constexpr auto is_attention = [](const Match& m) {
  // The operator knows no integers, and no two types.
  if (!may_be_floating(m[q]) || !may_be_of_one_type({m[q], m[k], m[v]})) return false;
  const std::int64_t query = rank_of(m[q]), key = rank_of(m[k]), value = rank_of(m[v]);
  if (query == 1 || key == 1 || value == 1 || m[dim].kind() != Argument::Kind::integer) return false;
  const bool over_keys =
      m[dim].integer() == -1 || (query > 0 && key > 0 && m[dim].integer() == std::max(query, key) - 1);
  if (query > 0 && key > 0 && value > std::max(query, key)) return false;
  // Where there are no elements the operator takes the shape of the queries, or gives what it likes.
  const auto is_empty = [](const Argument& a) {
    const TensorMeta* meta = a.is_node() ? a.node()->tensor_meta() : nullptr;
    return meta && meta->numel() == 0;
  };
  if ((is_empty(m[k]) || is_empty(m[v])) && !is_empty(m[q])) return false;
  if (key > 1 && m.node(k)->tensor_meta()->shape[static_cast<std::size_t>(key - 2)] == 0) return false;
  return over_keys && are_last_two(m[i], m[j], m[k]) && layout_is_free(*m.root());
};
/// A mask that the operator takes: it adds two dimensions or more to scores that are as large as the sum.
inline constexpr auto is_masked_attention = [](const Match& m) {
  const TensorMeta *query = m.node(q)->tensor_meta(), *key = m.node(k)->tensor_meta(),
                   *added = m.node(mask)->tensor_meta();
  if (!is_attention(m) || !query || !key || !added) return false;
  const std::int64_t rank = std::max(query->dim(), key->dim()), mask_rank = added->dim();
  if (query->dim() < 2 || key->dim() < 2 || mask_rank < 2 || mask_rank > rank) return false;
  // Counted from the end: sizes of the scores, which are queries by keys in dimensions that both broadcast to.
  const auto size = [](const TensorMeta& meta, std::int64_t i) {
    return i <= meta.dim() ? meta.shape[static_cast<std::size_t>(meta.dim() - i)] : 1;
  };
  for (std::int64_t i = 1; i <= mask_rank; ++i) {
    const std::int64_t scores = i == 1                 ? size(*key, 2)
                                : i == 2               ? size(*query, 2)
                                : size(*query, i) == 1 ? size(*key, i)
                                                       : size(*query, i);
    if (size(*added, i) != 1 && size(*added, i) != scores) return false;
  }
  return true;
};
inline double scale_of(const Match& m, bool divided) { return divided ? 1 / m[scale].number() : m[scale].number(); }

template <bool Divided>
inline constexpr auto build = [](const Match& m) -> Argument {
  views_become_reshapes(*m.root());
  return m.call(ops::scaled_dot_product_attention, {m[q], m[k], m[v]}, {{"scale", scale_of(m, Divided)}});
};
/// What was added to the scores is added by the operator too, but a boolean mask would mean something else to it.
template <bool Divided, bool Scaled = true>
inline constexpr auto build_masked = [](const Match& m) -> Argument {
  Argument added = m[mask];
  const TensorMeta *mask_meta = m.node(mask)->tensor_meta(), *query_meta = m.node(q)->tensor_meta();
  if (!mask_meta || !query_meta || mask_meta->dtype != query_meta->dtype) added = m.call(ops::to_other, {added, m[q]});
  const double factor = [&] {
    if constexpr (Scaled) return scale_of(m, Divided);
    else return 1.0;
  }();
  views_become_reshapes(*m.root());
  return m.call(ops::scaled_dot_product_attention, {m[q], m[k], m[v], added}, {{"scale", factor}});
};
inline constexpr auto build_unscaled = [](const Match& m) -> Argument {
  views_become_reshapes(*m.root());
  return m.call(ops::scaled_dot_product_attention, {m[q], m[k], m[v]}, {{"scale", 1.0}});
};
}  // namespace attention_rules

/// Law: softmax(q k^T c + mask) v = scaled_dot_product_attention(q, k, v, mask, scale = c), up to rounding. A query
/// that is masked from all keys gets zeros of the operator, and nan of the written form. Needs:
/// floating-point values of one type and some keys, as far as is known; shapes on the nodes where dimensions are
/// counted from the front, and of query, key and mask where there is one. Dropout on the weights must be gone
/// (rules::inference).
inline constexpr auto attention = [] {
  using namespace pattern;
  using namespace attention_rules;
  constexpr auto scores = matmul(q, transpose(k, i, j));
  constexpr auto divided = div(scores, scale);
  constexpr auto multiplied = mul(scores, scale);
  constexpr auto scaled_query = matmul(mul(q, scale), transpose(k, i, j));
  constexpr auto divided_query = matmul(div(q, scale), transpose(k, i, j));
  return ruleset(rule<"attention, divided, masked">(matmul(softmax(add(divided, mask), dim), v) >> build_masked<true>,
                                                    is_masked_attention),
                 rule<"attention, scaled, masked">(
                     matmul(softmax(add(multiplied, mask), dim), v) >> build_masked<false>, is_masked_attention),
                 rule<"attention, scaled query, masked">(
                     matmul(softmax(add(scaled_query, mask), dim), v) >> build_masked<false>, is_masked_attention),
                 rule<"attention, divided query, masked">(
                     matmul(softmax(add(divided_query, mask), dim), v) >> build_masked<true>, is_masked_attention),
                 rule<"attention, unscaled, masked">(
                     matmul(softmax(add(scores, mask), dim), v) >> build_masked<false, false>, is_masked_attention),
                 rule<"attention, divided">(matmul(softmax(divided, dim), v) >> build<true>, is_attention),
                 rule<"attention, scaled">(matmul(softmax(multiplied, dim), v) >> build<false>, is_attention),
                 rule<"attention, scaled query">(matmul(softmax(scaled_query, dim), v) >> build<false>, is_attention),
                 rule<"attention, divided query">(matmul(softmax(divided_query, dim), v) >> build<true>, is_attention),
                 rule<"attention, unscaled">(matmul(softmax(scores, dim), v) >> build_unscaled, is_attention));
}();

}  // namespace fxx::inline FXX_ABI::rules
