// Bodies of rules/attention.hpp.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "fxx/ops/softmax_attention.hpp"
#include "fxx/rules/attention.hpp"

namespace fxx::inline FXX_ABI::rules {

namespace attention_rules {

/// How the keys are permuted apart from the exchange of the last two dimensions, which is the operator's; nothing where
/// that is not known.
FXX_INLINE std::optional<std::vector<std::int64_t>> order_of_keys(const Match& m) {
  auto dims = dimensions_of(m[order], m[order].is_sequence() ? static_cast<std::int64_t>(m[order].items().size()) : -1);
  if (!dims || dims->size() < 2) return std::nullopt;
  std::swap((*dims)[dims->size() - 2], dims->back());
  return dims;
}

/// What is known of the keys as the operator takes them; null when nothing is.
FXX_INLINE std::optional<TensorMeta> meta_of_keys(const Match& m) {
  const TensorMeta* meta = meta_of(m[k]);
  if (!meta) return std::nullopt;
  TensorMeta keys = *meta;
  if (const auto dims = order_of_keys(m)) {
    if (static_cast<std::int64_t>(dims->size()) != meta->dim()) return std::nullopt;
    for (std::size_t at = 0; at < dims->size(); ++at)
      keys.shape[at] = meta->shape[static_cast<std::size_t>((*dims)[at])];
    keys.stride.clear();
  }
  return keys;
}

/// The keys as the operator takes them: (batch, length, heads, size) that is permuted to (batch, heads, size, length)
/// at once is permuted to (batch, heads, length, size).
FXX_INLINE Argument keys_of(const Match& m) {
  const auto dims = order_of_keys(m);
  if (!dims || std::is_sorted(dims->begin(), dims->end())) return m[k];
  Node* permuted = m.call(ops::permute, {m[k], Argument::list(std::vector<Argument>(dims->begin(), dims->end()))});
  if (const auto meta = meta_of_keys(m)) permuted->set_tensor_meta(*meta);
  return permuted;
}

/// What a mask is made into, of the same sizes.
FXX_INLINE Argument of_mask(const Match& m, Node* made, Dtype dtype) {
  if (const TensorMeta* meta = meta_of(m[mask])) {
    TensorMeta own = *meta;
    own.dtype = dtype;
    own.stride.clear();
    made->set_tensor_meta(own);
  }
  return made;
}

FXX_INLINE Argument softmax_attention(const Match& m, const Argument& heads, const Argument& hidden,
                                      const Argument& fill, double factor) {
  Node* call = m.graph().create_node(CallFunction{&softmax_attention_function()},
                                     {m[q], heads, m[v], hidden, fill, factor}, {}, "softmax_attention");
  call->set_type("torch::Tensor");
  return call;
}

FXX_INLINE double scale_of(const Match& m, bool divided) { return divided ? 1 / m[scale].number() : m[scale].number(); }

/// The operator where all queries may be assumed to see a key; else what is written, as one call.
FXX_INLINE Argument attention_call(const Match& m, const Argument& added, double factor) {
  views_become_reshapes(*m.root());
  const Argument heads = keys_of(m);
  if (m.may_assume(law::visible)) {
    std::vector<Argument> args = {m[q], heads, m[v]};
    if (!added.is_none()) args.push_back(added);
    return m.call(ops::scaled_dot_product_attention, args, {{"scale", factor}});
  }
  return softmax_attention(m, heads, added, {}, factor);
}

FXX_INLINE Argument build_attention(const Match& m, double factor) { return attention_call(m, {}, factor); }

FXX_INLINE Argument masked_attention(const Match& m, double factor) {
  Argument added = m[mask];
  const TensorMeta *mask_meta = m.node(mask)->tensor_meta(), *query_meta = m.node(q)->tensor_meta();
  if (!mask_meta || !query_meta || mask_meta->dtype != query_meta->dtype) 
    added = query_meta ? of_mask(m, m.call(ops::to_other, {added, m[q]}), query_meta->dtype)
                       : Argument(m.call(ops::to_other, {added, m[q]}));
  return attention_call(m, added, factor);
}

FXX_INLINE Argument scaled_mask_attention(const Match& m, bool divided) {
  Argument added = m[mask];
  const TensorMeta *mask_meta = m.node(mask)->tensor_meta(), *query_meta = m.node(q)->tensor_meta();
  if (mask_meta->dtype != query_meta->dtype) added = m.call(ops::to_other, {added, m[q]});
  added = of_mask(
      m, m.call(divided ? static_cast<const Operator&>(ops::div_Scalar) : ops::mul_Scalar, {added, m[scale]}),
      query_meta->dtype);
  return attention_call(m, added, scale_of(m, divided));
}

FXX_INLINE Argument hidden_attention(const Match& m, bool divided, bool mask_says_what_is_seen) {
  const bool visible = m.may_assume(law::visible);
  const Argument given = mask_says_what_is_seen == visible ? m[mask] : of_mask(m, m.call(ops::logical_not, {m[mask]}), Dtype::boolean);
  if (visible) return attention_call(m, given, scale_of(m, divided));
  views_become_reshapes(*m.root());
  return softmax_attention(m, keys_of(m), given, -std::numeric_limits<double>::infinity(), scale_of(m, divided));
}

FXX_INLINE Argument dropout_attention(const Match& m, bool divided) {
  views_become_reshapes(*m.root());
  return m.call(ops::scaled_dot_product_attention, {m[q], keys_of(m), m[v], {}, m[rate].number()},
                {{"scale", scale_of(m, divided)}});
}

/// How many heads of the queries use one of the keys; 0 where there are no groups.
FXX_INLINE std::int64_t group_size(const Match& m) {
  const TensorMeta *query = meta_of(m[q]), *key = meta_of(m[k]), *value = meta_of(m[v]);
  if (!query || !key || !value || query->dim() != 4 || key->dim() != 4 || value->dim() != 4) return 0;
  if (!is_floating_point(query->dtype) || query->dtype != key->dtype || query->dtype != value->dtype) return 0;
  const std::int64_t heads = query->shape[1], groups = key->shape[1];
  const bool one_batch = query->shape[0] == key->shape[0] && query->shape[0] == value->shape[0];
  if (!one_batch || groups <= 0 || value->shape[1] != groups || heads <= groups || heads % groups != 0) return 0;
  return layout_is_free(*m.root()) ? heads / groups : 0;
}

/// (batch, heads, length, size), or (batch, heads, copies, length, size), of the dimensions of `keys`.
FXX_INLINE bool is_of_heads(const TensorMeta* meta, const TensorMeta* keys, std::int64_t heads,
                            std::int64_t copies = 0) {
  const std::vector<std::int64_t> four(keys->shape.begin(), keys->shape.end());
  std::vector<std::int64_t> wanted = {four[0], heads, four[2], four[3]};
  if (copies > 0) wanted.insert(wanted.begin() + 2, copies);
  return meta && std::equal(meta->shape.begin(), meta->shape.end(), wanted.begin(), wanted.end());
}

/// x[:, :, None]: only slices, None and `...`, which with the right sizes is one way of adding a dimension.
FXX_INLINE bool only_adds(const Argument& index) {
  if (!index.is_sequence()) return index.is_none();
  return std::all_of(index.items().begin(), index.items().end(), [](const Argument& item) {
    return item.is_none() || item.kind() == Argument::Kind::slice || item.kind() == Argument::Kind::ellipsis;
  });
}

FXX_INLINE bool is_attention(const Match& m) {
  // The operator knows no integers, and no two types.
  if (!may_be_floating(m[q]) || !may_be_of_one_type({m[q], m[k], m[v]})) return false;
  const std::int64_t query = rank_of(m[q]), key = rank_of(m[k]), value = rank_of(m[v]);
  if (query == 1 || key == 1 || value == 1 || m[dim].kind() != Argument::Kind::integer) return false;
  const bool over_keys =
      m[dim].integer() == -1 || (query > 0 && key > 0 && m[dim].integer() == std::max(query, key) - 1);
  if (query > 0 && key > 0 && value > std::max(query, key)) return false;
  // Where there are no elements the operator takes the shape of the queries, or gives what it likes.
  const auto is_empty = [](const Argument& a) {
    const TensorMeta* meta = meta_of(a);
    return meta && meta->numel() == 0;
  };
  if (is_empty(m[q]) || is_empty(m[k]) || is_empty(m[v])) return false;
  if (key > 1 && m.node(k)->tensor_meta()->shape[static_cast<std::size_t>(key - 2)] == 0) return false;
  const bool transposed = m[order].is_none() ? are_last_two(m[i], m[j], m[k]) : order_of_keys(m).has_value();
  return over_keys && transposed && layout_is_free(*m.root());
}

FXX_INLINE bool is_masked_attention(const Match& m) {
  const TensorMeta *query = m.node(q)->tensor_meta(), *added = m.node(mask)->tensor_meta();
  const std::optional<TensorMeta> key = meta_of_keys(m);
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
}

FXX_INLINE bool is_hidden(const Match& m) {
  const TensorMeta* meta = meta_of(m[mask]);
  return meta && meta->dtype == Dtype::boolean && is_masked_attention(m);
}

FXX_INLINE bool is_attention_in_type(const Match& m) {
  const TensorMeta* query = meta_of(m[q]);
  return query && is_attention(m) && m[type].kind() == Argument::Kind::dtype && m[type].dtype() == query->dtype &&
         m[wide].kind() == Argument::Kind::dtype && holds_all(query->dtype, m[wide].dtype()) &&
         (m[wide].dtype() == query->dtype || m.may_assume(law::visible));
}

FXX_INLINE bool is_of_floats(const Match& m) {
  return is_floating_value(m[x]) && m[scale].kind() != Argument::Kind::boolean;
}

/// Is the product what attention has, or all that there is of it? Others keep their factors where they are.
FXX_INLINE bool may_be_scores(const Node& product) {
  const Node* softmax = softmax_behind(product);
  if (!softmax) {
    const auto users = product.users();
    return std::all_of(users.begin(), users.end(), [](const Node* u) { return u->opcode() == Opcode::output; });
  }
  const auto users = softmax->users();
  return std::any_of(users.begin(), users.end(), [](const Node* user) {
    const Operator* op = operator_of(*user);
    const std::string_view name = op ? op->base_name() : std::string_view();
    return name == "matmul" || name == "bmm" || name == "dropout" || name == "to";
  });
}

FXX_INLINE bool moves_scale(const Match& m) {
  const TensorMeta *query = meta_of(m[q]), *key = meta_of(m[k]);
  return query && key && is_floating_point(query->dtype) && query->dtype == key->dtype && query->dim() > 1 &&
         key->dim() > 1 && std::isfinite(m[scale].number()) && m[scale].number() != 0 &&
         m[scale].kind() != Argument::Kind::boolean && !rewrite::is_constant_value(*m.node(k)) &&
         may_be_scores(*m.root());
}

FXX_INLINE Argument transposed_keys(const Match& m) { return m.call(ops::transpose_int, {m[k], m[i], m[j]}); }
FXX_INLINE bool nothing_written_between(const Node& first, const Node& second) {
  const Graph& graph = first.graph();
  if (!graph.may_have_effects()) return true;
  const rewrite::Regions regions(graph);
  return regions.none() || regions.of(first) == regions.of(second);
}
FXX_INLINE Argument queries_times_keys(const Match& m, const Argument& turned, bool divided) {
  Argument queries = m[q];
  double factor = scale_of(m, divided);
  // One factor with what the queries have, unless these may be written to since.
  const Node& scaled = *queries.node();
  const bool times = scaled.calls(ops::mul_Scalar) || scaled.calls(ops::mul_Tensor);
  const bool by = scaled.calls(ops::div_Scalar) || scaled.calls(ops::div_Tensor);
  if ((times || by) && scaled.num_users() == 1 && scaled.args().size() == 2 && scaled.kwargs().empty() &&
      scaled.arg(0).is_node() && scaled.arg(1).is_number() && is_floating_value(scaled.arg(0)) &&
      nothing_written_between(scaled, *m.root())) {
    factor = times ? factor * scaled.arg(1).number() : factor / scaled.arg(1).number();
    queries = scaled.arg(0);
  }
  Node* product = m.call(ops::mul_Scalar, {queries, factor});
  if (const TensorMeta* meta = meta_of(m[q])) product->set_tensor_meta(*meta);
  return m.call(ops::matmul, {product, turned});
}

FXX_INLINE bool is_filled(const Match& m) { return is_single_or_double(m[q]) && is_hidden(m); }

FXX_INLINE Argument build_filled(const Match& m, bool divided) {
  if (!m.may_assume(law::visible)) {
    views_become_reshapes(*m.root());
    return softmax_attention(m, keys_of(m), m[mask], m[s].number(), scale_of(m, divided));
  }
  const TensorMeta &of_mask = *meta_of(m[mask]), &query = *meta_of(m[q]);
  const double lowest = query.dtype == Dtype::float32 ? static_cast<double>(std::numeric_limits<float>::lowest())
                                                      : std::numeric_limits<double>::lowest();
  std::vector<Argument> sizes(of_mask.shape.begin(), of_mask.shape.end());
  Node* nothing = of_mask.is_dynamic() ? m.call(ops::zeros_like, {m[mask]}, {{"dtype", query.dtype}})
                                       : m.call(ops::new_zeros, {m[q], Argument::list(std::move(sizes))});
  Node* added = m.call(ops::masked_fill_Scalar, {nothing, m[mask], lowest});
  views_become_reshapes(*m.root());
  return m.call(ops::scaled_dot_product_attention, {m[q], keys_of(m), m[v], added}, {{"scale", scale_of(m, divided)}});
}

FXX_INLINE Argument build_unscaled(const Match& m) { return build_attention(m, 1.0); }

FXX_INLINE Argument build_both(const Match& m) { return build_attention(m, m[scale].number() * m[key_scale].number()); }

FXX_INLINE bool repeats_heads(const Match& m) {
  const std::int64_t n = group_size(m);
  return n > 0 && m[repeats] == Argument(n) && dimension_of(m[dim], 4) == 1;
}

FXX_INLINE bool expands_heads(const Match& m) {
  const std::int64_t n = group_size(m);
  if (n == 0 || !only_adds(m[value<"index k">]) || !only_adds(m[value<"index v">])) return false;
  const auto expands = [&](const TensorMeta* from, const Argument& one, const Argument& wide, const Argument& many) {
    const std::int64_t heads = from->shape[1];
    return is_of_heads(meta_of(one), from, heads, 1) && is_of_heads(meta_of(wide), from, heads, n) &&
           is_of_heads(meta_of(many), from, heads * n);
  };
  return expands(meta_of(m[k]), m[value<"one k">], m[value<"wide k">], m[value<"many k">]) &&
         expands(meta_of(m[v]), m[value<"one v">], m[value<"wide v">], m[value<"many v">]);
}

FXX_INLINE Argument build_grouped(const Match& m) {
  views_become_reshapes(*m.root());
  return m.call(ops::scaled_dot_product_attention, {m[q], m[k], m[v], m[optional<"mask">], 0.0, m[causal]},
                {{"scale", m[given_scale]}, {"enable_gqa", true}});
}

}  // namespace attention_rules

}  // namespace fxx::inline FXX_ABI::rules
