// Bodies of rules/inference.hpp.
#pragma once

#include "fxx/rules/inference.hpp"

namespace fxx::inline FXX_ABI::rules {

namespace inference_rules {

FXX_INLINE bool all_constant(const Match& m) {
  return is_constant_or_none(m[bias]) && is_constant_or_none(m[gamma]) && is_constant_or_none(m[beta]);
}

FXX_INLINE Folded fold_by_groups(const Match& m, int dimensions) {
  const std::int64_t n = m[groups].integer();
  std::vector<Argument> shape = {1, -1}, apart;
  if (n > 1) {
    const auto& sizes = m.node(weight)->tensor_meta()->shape;
    shape = {n, 1, sizes[1]};
    apart = {n, sizes[0] / n};
    apart.insert(apart.end(), sizes.begin() + 1, sizes.end());
  }
  shape.insert(shape.end(), static_cast<std::size_t>(dimensions), 1);
  return fold(m, std::move(shape), std::move(apart));
}

FXX_INLINE Argument fold_linear(const Match& m) {
  const Folded folded = fold(m, {-1, 1});
  return m.call(ops::linear, {m[x], folded.weight, folded.bias});
}

FXX_INLINE bool constant_and_2d(const Match& m) {
  return all_constant(m) && rank_of(m[x]) == 2 && fits_channels(m, 0);
}

FXX_INLINE bool scales_channels(const Match& m) {
  const std::optional<Layer> l = layer_of(m);
  const Argument by = factor_of(m);
  return l && is_per_channel(by, *l, l->out, std::max(rank_of(m[x]), l->place())) &&
         (!l->transposed || l->groups == 1 || is_single(by));
}

FXX_INLINE Argument scale_weight(const Match& m) {
  const Layer l = *layer_of(m);
  const bool divide = inverts(*m.root());
  const Argument by = flat(m, factor_of(m));
  Node* new_weight = multiplied(m, m[weight], over_weight(m, l, by, l.transposed ? 1 : 0), divide);
  return called_with(m, l, m[x], new_weight, m[bias].is_node() ? multiplied(m, m[bias], by, divide) : m[bias]);
}

FXX_INLINE bool shifts_channels(const Match& m) {
  const std::optional<Layer> l = layer_of(m);
  return l && is_per_channel(factor_of(m), *l, l->out, std::max(rank_of(m[x]), l->place()));
}

FXX_INLINE Argument shift_bias(const Match& m) {
  const Layer l = *layer_of(m);
  return called_with(m, l, m[x], m[weight], moved_bias(m, l, flat(m, factor_of(m)), inverts(*m.root())));
}

FXX_INLINE bool scales_inputs(const Match& m) {
  const std::optional<Layer> l = layer_of(m);
  const Argument by = factor_of(m);
  if (!l || (by.is_number() && by.number() == 0 && inverts(*m.node(changed)))) return false;
  return meets_inputs(m, *l, by);
}

FXX_INLINE Argument scale_input_weight(const Match& m) {
  const Layer l = *layer_of(m);
  const Argument by = over_weight(m, l, flat(m, factor_of(m)), l.transposed ? 0 : 1);
  return called_with(m, l, m[x], multiplied(m, m[weight], by, inverts(*m.node(changed))), m[bias]);
}

FXX_INLINE bool shifts_inputs(const Match& m) {
  const std::optional<Layer> l = layer_of(m);
  return l && !pads(*l) && meets_inputs(m, *l, factor_of(m));
}

FXX_INLINE Argument shift_input_bias(const Match& m) {
  const Layer l = *layer_of(m);
  Node* shift = seen_through(m, l, flat(m, factor_of(m)));
  return called_with(m, l, m[x], m[weight], moved_bias(m, l, shift, inverts(*m.node(changed))));
}

FXX_INLINE bool normalises_inputs(const Match& m) {
  const std::optional<Layer> l = layer_of(m);
  if (!l || pads(*l) || l->groups != 1 || rank_of(m[x]) != l->spatial + 2 || !has_channels(m[x], *l)) return false;
  if (!all_constant(m) || takes_batch_norm(*m.node(x))) return false;  // it goes into the convolution before it
  for (const Argument& value : {m[gamma], m[beta], m[running_mean], m[running_var]})
    if (is_other_than_vector(value, l->in)) return false;
  return may_be_of_one_type({m[x], m[weight], m[gamma], m[beta], m[running_mean], m[running_var]});
}

FXX_INLINE Argument fold_into_next(const Match& m) {
  const Layer l = *layer_of(m);
  Node* scale = m.call(ops::rsqrt, {m.call(ops::add_Scalar, {m[running_var], m[eps]})});
  if (m[gamma].is_node()) scale = m.call(ops::mul_Tensor, {scale, m[gamma]});
  Node* shift = m.call(ops::neg, {m.call(ops::mul_Tensor, {m[running_mean], scale})});
  if (m[beta].is_node()) shift = m.call(ops::add_Tensor, {shift, m[beta]});
  Node* new_weight = multiplied(m, m[weight], over_weight(m, l, scale, 1), false);
  return called_with(m, l, m[x], new_weight, moved_bias(m, l, seen_through(m, l, shift), false));
}

FXX_INLINE bool pads_alike(const Match& m) {
  const Argument sizes = m[value<"sizes">], mode = m[value<"mode">];
  const Node& inside = *m.node(layer);
  if (!takes_batch_norm(inside) || !all_constant(m) || !sizes.is_sequence()) return false;
  if (mode.kind() != Argument::Kind::string) return false;
  const Operator& op = *operator_of(inside);
  const TensorMeta& kernel = *argument_or_default(inside, op, 1).node()->tensor_meta();
  const bool transposed = op.base_name().starts_with("conv_transpose");
  const std::int64_t channels =
      transposed ? kernel.shape[1] * argument_or_default(inside, op, op.index_of("groups")).integer() : kernel.shape[0];
  for (const Argument& parameter : {m[gamma], m[beta], m[running_mean], m[running_var]})
    if (is_other_than_vector(parameter, channels)) return false;  // there was nothing to normalise
  if (!may_be_of_one_type({m[weight], m[gamma], m[beta], m[running_mean], m[running_var]})) return false;
  const std::int64_t rank = kernel.dim();
  if (static_cast<std::int64_t>(sizes.items().size()) > 2 * (rank - 2)) return false;
  const bool copies = mode.string() != "constant";  // and cuts nothing off: LibTorch's circular padding cannot
  return std::all_of(sizes.items().begin(), sizes.items().end(), [&](const Argument& a) {
    return a.kind() == Argument::Kind::integer && (copies ? a.integer() >= 0 : a.integer() <= 0);
  });
}

FXX_INLINE Argument pad_later(const Match& m) {
  return m.call(ops::pad,
                {normalised_part(m, *m.node(layer), 0, -1), m[value<"sizes">], m[value<"mode">], m[value<"filling">]});
}

FXX_INLINE bool joins_convolutions(const Match& m) {
  // The biases of the parts are looked at part by part.
  return is_constant_or_none(m[gamma]) && is_constant_or_none(m[beta]) && !channels_of_parts(m).empty();
}

FXX_INLINE Argument cat_later(const Match& m) {
  const std::vector<std::int64_t> channels = channels_of_parts(m);
  std::vector<Argument> parts;
  std::int64_t start = 0;
  for (const Match::Item& item : m.group<"parts">()) {
    const std::int64_t size = channels[parts.size()];
    parts.push_back(normalised_part(m, *item[layer].node(), start, size));
    start += size;
  }
  return m.call(ops::cat, {Argument::list(std::move(parts)), 1});
}

}  // namespace inference_rules

}  // namespace fxx::inline FXX_ABI::rules
