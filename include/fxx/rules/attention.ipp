// Bodies of rules/attention.hpp.
#pragma once

#include <cmath>

#include "fxx/rules/attention.hpp"

namespace fxx::inline FXX_ABI::rules {

namespace attention_rules {

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
         m[wide].kind() == Argument::Kind::dtype && holds_all(query->dtype, m[wide].dtype());
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
FXX_INLINE Argument queries_times_keys(const Match& m, const Argument& turned, bool divided) {
  Argument queries = m[q];
  double factor = scale_of(m, divided);
  // One factor with what the queries have.
  const Node& scaled = *queries.node();
  const bool times = scaled.calls(ops::mul_Scalar) || scaled.calls(ops::mul_Tensor);
  const bool by = scaled.calls(ops::div_Scalar) || scaled.calls(ops::div_Tensor);
  if ((times || by) && scaled.num_users() == 1 && scaled.args().size() == 2 && scaled.kwargs().empty() &&
      scaled.arg(0).is_node() && scaled.arg(1).is_number() && is_floating_value(scaled.arg(0))) {
    factor = times ? factor * scaled.arg(1).number() : factor / scaled.arg(1).number();
    queries = scaled.arg(0);
  }
  Node* product = m.call(ops::mul_Scalar, {queries, factor});
  if (const TensorMeta* meta = meta_of(m[q])) product->set_tensor_meta(*meta);
  return m.call(ops::matmul, {product, turned});
}

FXX_INLINE bool is_filled(const Match& m) { return is_single_or_double(m[q]) && is_hidden(m); }

FXX_INLINE Argument build_filled(const Match& m, bool divided) {
  const TensorMeta &of_mask = *meta_of(m[mask]), &query = *meta_of(m[q]);
  const double lowest = query.dtype == Dtype::float32 ? static_cast<double>(std::numeric_limits<float>::lowest())
                                                      : std::numeric_limits<double>::lowest();
  std::vector<Argument> sizes(of_mask.shape.begin(), of_mask.shape.end());
  Node* nothing = m.call(ops::new_zeros, {m[q], Argument::list(std::move(sizes))});
  Node* added = m.call(ops::masked_fill_Scalar, {nothing, m[mask], lowest});
  views_become_reshapes(*m.root());
  return m.call(ops::scaled_dot_product_attention, {m[q], keys_of(m), m[v], added}, {{"scale", scale_of(m, divided)}});
}

FXX_INLINE Argument build_unscaled(const Match& m) {
  views_become_reshapes(*m.root());
  return m.call(ops::scaled_dot_product_attention, {m[q], keys_of(m), m[v]}, {{"scale", 1.0}});
}

FXX_INLINE Argument build_both(const Match& m) {
  const double factor = m[scale].number() * m[key_scale].number();
  views_become_reshapes(*m.root());
  return m.call(ops::scaled_dot_product_attention, {m[q], keys_of(m), m[v]}, {{"scale", factor}});
}

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
