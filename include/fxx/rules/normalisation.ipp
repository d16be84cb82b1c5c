// Bodies of rules/normalisation.hpp.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "fxx/rules/normalisation.hpp"

namespace fxx::inline FXX_ABI::rules {

namespace normalisation_rules {

/// The last dimensions, all of them, in any order: what is normalised over; their sizes. Nothing when they are not the
/// last, or a size is not known.
FXX_INLINE std::vector<Argument> last_sizes(const Match& m) {
  const TensorMeta* meta = meta_of(m[x]);
  const auto over = meta ? dimensions_of(m[dims], meta->dim()) : std::nullopt;
  if (!over || over->empty() || !is_floating_point(meta->dtype)) return {};
  std::vector<Argument> sizes;
  const std::size_t first = meta->shape.size() - over->size();
  for (const std::int64_t at : *over)
    if (static_cast<std::size_t>(at) < first) return {};
  for (std::size_t at = first; at < meta->shape.size(); ++at) {
    if (meta->shape[at] <= 0) return {};
    sizes.emplace_back(meta->shape[at]);
  }
  return sizes;
}

/// What the operator takes besides: x's dtype, and the sizes that are normalised.
FXX_INLINE bool belongs(const Match& m, const Argument& value) {
  const TensorMeta *meta = meta_of(value), *of = meta_of(m[x]);
  return meta && of && meta->dtype == of->dtype && integers_of(m[sizes]) == meta->shape;
}

/// In how many groups the channels of x are seen; 0 when x is not seen as (N, groups, ...), or for `one` as
/// (1, N groups, ...), or the result has another shape than x.
FXX_INLINE std::int64_t groups_of(const Match& m, bool one) {
  const TensorMeta *from = meta_of(m[x]), *seen = meta_of(m[grouped]), *to = meta_of(m.root());
  if (!from || !seen || !to || from->dim() < 2 || seen->dim() < 3 || from->shape != to->shape) return 0;
  if (!is_floating_point(from->dtype) || !layout_is_free(*m.root())) return 0;
  const std::int64_t batch = from->shape[0], channels = from->shape[1];
  if (seen->shape[0] != (one ? 1 : batch) || batch == 0 || channels <= 0 || (one && batch < 0)) return 0;
  const std::int64_t groups = one ? seen->shape[1] / batch : seen->shape[1];
  return groups > 0 && channels % groups == 0 && (!one || seen->shape[1] == groups * batch) ? groups : 0;
}

FXX_INLINE Argument group_norm_of(const Match& m, bool one) {
  views_become_reshapes(*m.root(), /*in_order=*/true);
  return m.call(ops::group_norm, {m[x], groups_of(m, one), {}, {}, m[value<"eps">]});
}

/// One number a channel, in x's dtype: (C, 1, 1), (1, C, 1, 1).
FXX_INLINE bool is_of_channels(const Match& m, const Argument& value) {
  const TensorMeta *meta = meta_of(value), *of = meta_of(m[x]);
  if (!meta || !of || of->dim() < 2 || meta->dtype != of->dtype) return false;
  if (meta->dim() > of->dim() || meta->dim() + 1 < of->dim()) return false;
  const std::int64_t channel = meta->dim() - of->dim() + 1;
  for (std::int64_t at = 0; at < meta->dim(); ++at)
    if (meta->shape[static_cast<std::size_t>(at)] != (at == channel ? of->shape[1] : 1)) return false;
  return of->shape[1] > 0;
}

FXX_INLINE Argument as_vector(const Match& m, const Argument& value) {
  const TensorMeta* meta = meta_of(value);
  if (!meta || meta->dim() == 1) return value;
  return m.call(ops::reshape, {value, Argument::list({meta->numel()})});
}

FXX_INLINE Argument called_over_one(const Match& m, const Operator& op) {
  if (!lies_in_order(m[x])) views_become_reshapes(*m.root(), /*in_order=*/true);
  return m.call(op, {m[x], (*integers_of(m[dims]))[0]});
}

FXX_INLINE Argument layer_norm_of_centred(const Match& m) {
  return m.call(ops::layer_norm, {m[x], m[sizes], m[optional<"weight">], {}, m[eps]});
}

FXX_INLINE bool weight_belongs(const Match& m) { return belongs(m, m[weight]); }

FXX_INLINE bool both_belong(const Match& m) { return belongs(m, m[weight]) && belongs(m, m[bias]); }

FXX_INLINE Argument layer_norm_with_weight(const Match& m) {
  return m.call(ops::layer_norm, {m[x], m[sizes], m[weight], {}, m[value<"eps">]});
}

FXX_INLINE Argument layer_norm_with_bias(const Match& m) {
  return m.call(ops::layer_norm, {m[x], m[sizes], m[weight], m[bias], m[value<"eps">]});
}

FXX_INLINE Argument rms_norm_with_weight(const Match& m) {
  return m.call(ops::rms_norm, {m[x], m[sizes], m[weight], m[value<"eps">]});
}

FXX_INLINE bool weight_is_of_channels(const Match& m) { return is_of_channels(m, m[weight]); }

FXX_INLINE bool bias_is_of_channels(const Match& m) { return is_of_channels(m, m[bias]); }

FXX_INLINE Argument group_norm_with_weight(const Match& m) {
  return m.call(ops::group_norm, {m[x], m[groups], as_vector(m, m[weight]), {}, m[value<"eps">]});
}

FXX_INLINE Argument group_norm_with_bias(const Match& m) {
  return m.call(ops::group_norm, {m[x], m[groups], m[optional<"weight">], as_vector(m, m[bias]), m[value<"eps">]});
}

FXX_INLINE bool over_the_last(const Match& m) {
  return !last_sizes(m).empty() && m[eps].number() > 0 && std::isfinite(m[eps].number()) && layout_is_free(*m.root());
}

FXX_INLINE Argument build_layer_norm(const Match& m) {
  views_become_reshapes(*m.root(), /*in_order=*/true);
  return m.call(ops::layer_norm, {m[x], Argument::list(last_sizes(m)), {}, {}, m[eps].number()});
}

FXX_INLINE Argument build_rms_norm(const Match& m) {
  views_become_reshapes(*m.root(), /*in_order=*/true);
  return m.call(ops::rms_norm, {m[x], Argument::list(last_sizes(m)), {}, m[eps].number()});
}

FXX_INLINE bool norms_what_is_centred(const Match& m) {
  const Argument by = m[optional<"weight">];
  return over_the_last(m) && Argument::list(last_sizes(m)) == m[sizes] && (by.is_none() || belongs(m, by));
}

FXX_INLINE bool is_floating(const Match& m) { return is_floating_value(m[x]); }

FXX_INLINE bool over_the_last_with_weight(const Match& m) {
  const TensorMeta *meta = meta_of(m[weight]), *of = meta_of(m[x]);
  if (!meta || !of || meta->dtype != of->dtype || !over_the_last(m)) return false;
  const std::vector<Argument> sizes = last_sizes(m);
  return std::equal(sizes.begin(), sizes.end(), meta->shape.begin(), meta->shape.end(),
                    [](const Argument& a, std::int64_t b) { return a.integer() == b; });
}

FXX_INLINE Argument build_weighted_layer_norm(const Match& m) {
  views_become_reshapes(*m.root(), /*in_order=*/true);
  return m.call(ops::layer_norm, {m[x], Argument::list(last_sizes(m)), m[weight], {}, m[eps].number()});
}

FXX_INLINE Argument build_weighted_rms_norm(const Match& m) {
  views_become_reshapes(*m.root(), /*in_order=*/true);
  return m.call(ops::rms_norm, {m[x], Argument::list(last_sizes(m)), m[weight], m[eps].number()});
}

FXX_INLINE Argument softmax_unshifted(const Match& m) { return m.call(*operator_of(*m.root()), {m[x], m[dim]}); }

FXX_INLINE bool is_the_reduced(const Match& m) {
  const auto over = integers_of(m[dims]);
  const std::int64_t rank = rank_of(m[x]);
  return over && over->size() == 1 && rank > 0 && is_floating_value(m[x]) &&
         (m[dim].is_none() || dimension_of((*over)[0], rank) == dimension_of(m[dim], rank));
}

FXX_INLINE Argument log_of_softmax(const Match& m) {
  const bool is_double = meta_of(m[x])->dtype == Dtype::float64;
  if (!m.may_assume(law::no_overflow) && !is_double && meta_of(m[x])->dtype != Dtype::float32) return {};
  Node* made = m.call(ops::log_softmax_int, {m[x], m[dim]});
  if (m.may_assume(law::no_overflow)) return made;
  // The logarithm of half of the smallest number of the dtype: less is rounded to zero.
  const double smallest = is_double ? -745.133219101941 : -103.972077083992;
  Node* vanished = m.call(ops::lt_Scalar, {made, smallest});
  return m.call(ops::masked_fill_Scalar, {made, vanished, -std::numeric_limits<double>::infinity()});
}

FXX_INLINE bool norm_of_groups(const Match& m) {
  const auto over = integers_of(m[sizes]);
  return groups_of(m, false) > 0 && over && static_cast<std::int64_t>(over->size()) + 2 == meta_of(m[grouped])->dim();
}

FXX_INLINE bool norm_of_all_groups(const Match& m) { return groups_of(m, true) > 0; }

FXX_INLINE bool one_dimension(const Match& m) {
  const auto over = integers_of(m[dims]);
  return over && over->size() == 1 && is_floating_value(m[x]) && (lies_in_order(m[x]) || layout_is_free(*m.root()));
}

FXX_INLINE bool counts_them(const Match& m) {
  const TensorMeta* meta = meta_of(m[x]);
  const auto over = meta ? dimensions_of(m[dims], meta->dim()) : std::nullopt;
  if (!over || over->empty() || !is_floating_point(meta->dtype)) return false;
  std::int64_t count = 1;
  for (const std::int64_t at : *over) {
    if (meta->shape[static_cast<std::size_t>(at)] <= 0) return false;
    count *= meta->shape[static_cast<std::size_t>(at)];
  }
  return m[s].number() == static_cast<double>(count);
}

FXX_INLINE bool counts_all(const Match& m) {
  const TensorMeta* meta = meta_of(m[x]);
  return meta && is_floating_point(meta->dtype) && meta->numel() > 0 &&
         m[s].number() == static_cast<double>(meta->numel());
}

}  // namespace normalisation_rules

}  // namespace fxx::inline FXX_ABI::rules
