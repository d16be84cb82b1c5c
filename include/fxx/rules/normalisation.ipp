// Bodies of rules/normalisation.hpp.
#pragma once

#include "fxx/rules/normalisation.hpp"

namespace fxx::inline FXX_ABI::rules {

namespace normalisation_rules {

FXX_INLINE bool over_the_last(const Match& m) {
  return !last_sizes(m).empty() && m[eps].number() > 0 && std::isfinite(m[eps].number()) && layout_is_free(*m.root());
}

FXX_INLINE Argument build_layer_norm(const Match& m) {
  views_become_reshapes(*m.root());
  return m.call(ops::layer_norm, {m[x], Argument::list(last_sizes(m)), {}, {}, m[eps].number()});
}

FXX_INLINE Argument build_rms_norm(const Match& m) {
  views_become_reshapes(*m.root());
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
  views_become_reshapes(*m.root());
  return m.call(ops::layer_norm, {m[x], Argument::list(last_sizes(m)), m[weight], {}, m[eps].number()});
}

FXX_INLINE Argument build_weighted_rms_norm(const Match& m) {
  views_become_reshapes(*m.root());
  return m.call(ops::rms_norm, {m[x], Argument::list(last_sizes(m)), m[weight], m[eps].number()});
}

FXX_INLINE Argument softmax_unshifted(const Match& m) { return m.call(*operator_of(*m.root()), {m[x], m[dim]}); }

FXX_INLINE bool is_the_reduced(const Match& m) {
  const auto over = integers_of(m[dims]);
  const std::int64_t rank = rank_of(m[x]);
  return over && over->size() == 1 && rank > 0 && is_floating_value(m[x]) &&
         (m[dim].is_none() || dimension_of((*over)[0], rank) == dimension_of(m[dim], rank));
}

FXX_INLINE bool norm_of_groups(const Match& m) {
  const auto over = integers_of(m[sizes]);
  return groups_of<false>(m) > 0 && over && static_cast<std::int64_t>(over->size()) + 2 == meta_of(m[grouped])->dim();
}

FXX_INLINE bool norm_of_all_groups(const Match& m) { return groups_of<true>(m) > 0; }

FXX_INLINE bool one_dimension(const Match& m) {
  const auto over = integers_of(m[dims]);
  return over && over->size() == 1 && is_floating_value(m[x]);
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
