// Bodies of rules/inference.hpp.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>

#include "fxx/ops/synonyms.hpp"
#include "fxx/rules/inference.hpp"

namespace fxx::inline FXX_ABI::rules {

namespace inference_rules {

/// One number a channel, floating-point values of one type before the batch norm, as far as is known: where there is
/// nothing to normalise, the operators take anything.
FXX_INLINE bool fits_channels(const Match& m, std::size_t of_weight, std::int64_t groups = 1) {
  for (const Argument& value : {m[x], m[weight], m[bias], m[gamma], m[beta], m[running_mean], m[running_var]})
    if (!may_be_floating(value)) return false;
  if (!may_be_of_one_type({m[x], m[weight], m[bias]})) return false;
  const TensorMeta* meta = m.node(weight)->tensor_meta();
  if (!meta || meta->shape.size() <= of_weight) return true;
  const std::int64_t channels = meta->shape[of_weight] * groups;
  for (const Argument& value : {m[bias], m[gamma], m[beta], m[running_mean], m[running_var]})
    if (is_other_than_vector(value, channels)) return false;
  return true;
}

FXX_INLINE bool convolution_fits(const Match& m, int dimensions, std::size_t channels) {
  return all_constant(m) && rank_of(m[x]) != dimensions + 1 && fits_channels(m, channels);
}

FXX_INLINE bool transposed_fits(const Match& m, int dimensions) {
  if (!all_constant(m) || rank_of(m[x]) == dimensions + 1 || m[groups].kind() != Argument::Kind::integer) return false;
  const std::int64_t n = m[groups].integer();
  const TensorMeta* meta = m.node(weight)->tensor_meta();
  if (n != 1 && (n < 1 || !meta || meta->is_dynamic() || meta->dim() != dimensions + 2 || meta->shape[0] % n != 0))
    return false;
  return fits_channels(m, 1, n);
}

/// Says what is known of a node that was just made, with the dtype and device of `like`, for rules that look at shapes.
FXX_INLINE Node* known_as(Node* made, const TensorMeta& like, std::vector<std::int64_t> shape) {
  made->set_tensor_meta({.shape = std::move(shape), .stride = {}, .dtype = like.dtype, .device = like.device});
  return made;
}

FXX_INLINE Node* known_as(Node* made, const Node& like) {
  if (const TensorMeta* meta = like.tensor_meta()) return known_as(made, *meta, meta->shape);
  return made;
}

struct Folded {
  Node *weight, *bias;
};
/// weight' = weight scale, bias' = (bias - mean) scale + beta, with scale = gamma / sqrt(var + eps); `shape` lays the
/// scale out over the weight, which is seen in the shape `apart` where there is one. The fold keeps the weight's own
/// dtype.
FXX_INLINE Folded fold(const Match& m, std::vector<Argument> shape, std::vector<Argument> apart = {}) {
  Node* scale = m.call(ops::rsqrt, {m.call(ops::add_Scalar, {m[running_var], m[eps]})});
  if (m[gamma].is_node()) scale = m.call(ops::mul_Tensor, {scale, m[gamma]});
  const bool whole = apart.empty();
  Node* of_weight = whole ? m.node(weight) : m.call(ops::reshape, {m[weight], Argument::list(std::move(apart))});
  Node* over = m.call(ops::view, {scale, Argument::list(std::move(shape))});
  Node* new_weight = m.call(ops::mul_Tensor, {of_weight, over});
  if (!whole) {
    const auto& sizes = m.node(weight)->tensor_meta()->shape;
    new_weight = m.call(ops::reshape, {new_weight, Argument::list({sizes.begin(), sizes.end()})});
  }
  Node* shift =
      m[bias].is_node() ? m.call(ops::sub_Tensor, {m[bias], m[running_mean]}) : m.call(ops::neg, {m[running_mean]});
  Node* new_bias = m.call(ops::mul_Tensor, {shift, scale});
  if (m[beta].is_node()) new_bias = m.call(ops::add_Tensor, {new_bias, m[beta]});
  if (const TensorMeta* from = m.node(weight)->tensor_meta();
      from && !may_be_of_one_type({m[weight], m[gamma], m[beta], m[running_mean], m[running_var]})) {
    new_weight = m.call(ops::to_dtype, {new_weight, from->dtype});
    new_bias = m.call(ops::to_dtype, {new_bias, from->dtype});
  }
  if (const TensorMeta *from = m.node(weight)->tensor_meta(), *mean = m.node(running_mean)->tensor_meta();
      from && mean) {
    known_as(new_weight, *from, from->shape);
    known_as(new_bias, *from, mean->shape);
  }
  return {new_weight, new_bias};
}

FXX_INLINE Argument folded_convolution(const Match& m, const Operator& convolution, int dimensions) {
  std::vector<Argument> shape(static_cast<std::size_t>(dimensions + 2), 1);
  shape[0] = -1;
  const Folded folded = fold(m, std::move(shape));
  return m.call(convolution, {m[x], folded.weight, folded.bias, m[stride], m[padding], m[dilation], m[groups]});
}

/// What is known of a call with a weight, and of the weight.
struct Layer {
  const Node* call;
  const TensorMeta* weight;
  std::int64_t spatial;  // dimensions behind the channels; a linear has none
  bool transposed;       // the weight is [in, out / groups, ...]; else [out, in / groups, ...]
  std::int64_t in, out, groups;

  /// Where the channels stand in inputs and results, from the end.
  std::int64_t place() const { return spatial + 1; }
};

FXX_INLINE bool is_convolution(const Operator& op) { return op.base_name().starts_with("conv"); }

/// None where the weight's shape is not known, where somebody else uses the weight, so that a fold would be a second
/// one, or where not all is constant and of one floating-point type.
FXX_INLINE std::optional<Layer> layer_of(const Match& m) {
  const Node* call = m.node(layer);
  const Operator& op = *operator_of(*call);
  const TensorMeta* meta = m.node(weight)->tensor_meta();
  const std::string_view name = op.base_name();
  const bool convolves = is_convolution(op);
  const std::int64_t spatial = convolves ? name[name.size() - 2] - '0' : 0;
  if (!meta || meta->dim() != spatial + 2 || meta->is_dynamic() || !is_floating_point(meta->dtype)) return {};
  if (m.node(weight)->num_users() != 1 || !is_constant_or_none(m[bias])) return {};
  if (!may_be_of_one_type({m[x], m[weight], m[bias]})) return {};
  const bool transposed = name.starts_with("conv_transpose");
  Layer l{call, meta, spatial, transposed, meta->shape[transposed ? 0 : 1], meta->shape[transposed ? 1 : 0], 1};
  if (convolves) {
    const Argument given = argument_or_default(*call, op, op.index_of("groups"));
    if (given.kind() != Argument::Kind::integer) return {};
    l.groups = given.integer();
    (transposed ? l.out : l.in) *= l.groups;
  }
  if (is_other_than_vector(m[bias], l.out)) return {};
  return l;
}

/// The number, or the constant, by which the match scales or shifts.
FXX_INLINE Argument factor_of(const Match& m) { return m[factor].is_none() ? m[number] : m[factor]; }

FXX_INLINE bool is_single(const Argument& by) {
  return by.is_number() || (by.node()->tensor_meta() && by.node()->tensor_meta()->numel() == 1);
}

/// Does it scale or shift all elements of a channel alike, of a value of `rank` dimensions whose channels are `place`
/// dimensions from the end, and leave the value's shape and type?
FXX_INLINE bool is_per_channel(const Argument& by, const Layer& l, std::int64_t channels, std::int64_t rank) {
  if (!by.is_node()) return by.kind() != Argument::Kind::boolean && std::isfinite(by.number());
  const TensorMeta* meta = by.node()->tensor_meta();
  if (!meta || meta->dtype != l.weight->dtype || meta->dim() > rank) return false;
  for (std::int64_t i = 1; i <= meta->dim(); ++i) {
    const std::int64_t size = meta->shape[static_cast<std::size_t>(meta->dim() - i)];
    if (size != 1 && !(i == l.place() && size == channels)) return false;
  }
  return true;
}

/// One element a channel, or one for all; numbers stay numbers.
FXX_INLINE Argument flat(const Match& m, const Argument& by) {
  return by.is_number() ? by : m.call(ops::reshape, {by, Argument::list({-1})});
}

/// The same laid out over the weight, along its dimension `at`.
FXX_INLINE Argument over_weight(const Match& m, const Layer& l, const Argument& vector, std::int64_t at) {
  if (vector.is_number() || at == l.spatial + 1) return vector;
  std::vector<Argument> shape(static_cast<std::size_t>(l.spatial + 2), 1);
  shape[static_cast<std::size_t>(at)] = -1;
  return m.call(ops::view, {vector, Argument::list(std::move(shape))});
}

/// Does the node divide, where it might multiply; subtract, where it might add?
FXX_INLINE bool inverts(const Node& node) {
  const std::string_view name = operator_of(node)->base_name();  // in place too, and by any of its names
  return name.starts_with("div") || name.starts_with("true_div") || name.starts_with("sub");
}

FXX_INLINE Node* multiplied(const Match& m, const Argument& value, const Argument& by, bool divide) {
  const Operator &product = by.is_number() ? static_cast<const Operator&>(ops::mul_Scalar) : ops::mul_Tensor,
                 &quotient = by.is_number() ? static_cast<const Operator&>(ops::div_Scalar) : ops::div_Tensor;
  return m.call(divide ? quotient : product, {value, by});
}

FXX_INLINE Node* added(const Match& m, const Argument& value, const Argument& by, bool subtract) {
  const Operator &sum = by.is_number() ? static_cast<const Operator&>(ops::add_Scalar) : ops::add_Tensor,
                 &difference = by.is_number() ? static_cast<const Operator&>(ops::sub_Scalar) : ops::sub_Tensor;
  return m.call(subtract ? difference : sum, {value, by});
}

/// The call with another input, weight and bias; all its options stay.
FXX_INLINE Node* called_with(const Match& m, const Layer& l, const Argument& input, const Argument& new_weight,
                             const Argument& new_bias) {
  if (new_weight.node() != m.node(weight)) known_as(new_weight.node(), *m.node(weight));
  if (new_bias.is_node() && !(new_bias == m[bias])) known_as(new_bias.node(), *l.weight, {l.out});
  std::vector<Argument> args = {input, new_weight, new_bias};
  const auto given = l.call->args();
  if (given.size() > 3) args.insert(args.end(), given.begin() + 3, given.end());
  std::vector<KeywordArgument> kwargs;
  for (const KeywordArgument& k : l.call->kwargs())
    if (operator_of(*l.call)->index_of(k.key) > 2) kwargs.push_back(k);
  return m.call(*operator_of(*l.call), args, kwargs);
}

/// A bias that the layer may not have had.
FXX_INLINE Node* moved_bias(const Match& m, const Layer& l, const Argument& by, bool subtract) {
  if (m[bias].is_node()) return added(m, m[bias], by, subtract);
  if (by.is_number()) {
    const double value = subtract ? -by.number() : by.number();
    return m.call(ops::new_full, {m[weight], Argument::list({l.out}), value});
  }
  Node* moved = m.call(ops::expand, {by, Argument::list({l.out})});
  return subtract ? m.call(ops::neg, {moved}) : moved;
}

/// A convolution that the batch norm behind it would fold into.
FXX_INLINE bool takes_batch_norm(const Node& node) {
  const Operator* op = operator_of(node);
  if (!op || node.num_users() != 1) return false;
  bool known = false;
  for (const std::string_view name : {"aten::conv1d", "aten::conv2d", "aten::conv3d", "aten::conv_transpose1d",
                                      "aten::conv_transpose2d.input", "aten::conv_transpose3d.input"})
    known = known || op->name == name;
  if (!known) return false;
  const auto given = [&](int i) { return argument_or_default(node, *op, i); };
  const Argument input = given(0), of_weight = given(1), groups = given(op->index_of("groups"));
  const TensorMeta* meta = of_weight.is_node() ? of_weight.node()->tensor_meta() : nullptr;
  const bool transposed = op->base_name().starts_with("conv_transpose");
  return meta && is_floating_point(meta->dtype) && is_constant_or_none(of_weight) && is_constant_or_none(given(2)) &&
         may_be_of_one_type({input, of_weight, given(2)}) && rank_of(input) == meta->dim() &&
         meta->dim() > 2 && (!transposed || (groups.kind() == Argument::Kind::integer && groups.integer() > 0 && !meta->is_dynamic() &&
                          meta->shape[0] % groups.integer() == 0));
}

/// The input is known to have the layer's channels already, so what is multiplied with it does not make them.
FXX_INLINE bool has_channels(const Argument& input, const Layer& l) {
  const std::int64_t rank = rank_of(input);
  if (rank < l.place() || (l.spatial > 0 && rank > l.spatial + 2)) return false;
  return input.node()->tensor_meta()->shape[static_cast<std::size_t>(rank - l.place())] == l.in;
}

FXX_INLINE bool pads(const Layer& l) {
  if (l.spatial == 0) return false;
  const Operator& op = *operator_of(*l.call);
  const Argument padding = argument_or_default(*l.call, op, op.index_of("padding"));
  const auto is_zero = [](const Argument& a) { return a.kind() == Argument::Kind::integer && a.integer() == 0; };
  return !(padding.is_sequence() ? std::all_of(padding.items().begin(), padding.items().end(), is_zero)
                                 : is_zero(padding));
}

/// Per-channel values meet the weight's input channels, which groups share out.
FXX_INLINE bool meets_inputs(const Match& m, const Layer& l, const Argument& by) {
  return has_channels(m[x], l) && is_per_channel(by, l, l.in, rank_of(m[x])) &&
         (l.transposed || l.groups == 1 || is_single(by));
}

/// What a constant input gives, bias aside: the weight times it, summed over all but the output channels.
FXX_INLINE Node* seen_through(const Match& m, const Layer& l, const Argument& by) {
  std::vector<Argument> all_but_first;
  for (std::int64_t i = 1; i < l.spatial + 2; ++i) all_but_first.emplace_back(i);
  return m.call(ops::sum_dim_IntList,
                {multiplied(m, m[weight], over_weight(m, l, by, 1), false), Argument::list(std::move(all_but_first))});
}

/// The value with the parameters of a batch norm, of which this one takes so many channels from `start` on.
FXX_INLINE Node* normalised_part(const Match& m, Node& value, std::int64_t start, std::int64_t channels) {
  const auto part = [&](const Argument& parameter) -> Argument {
    if (parameter.is_none() || channels < 0) return parameter;
    Node* node = m.call(ops::narrow, {parameter, 0, start, channels});
    if (const TensorMeta* meta = parameter.node()->tensor_meta()) known_as(node, *meta, {channels});
    return node;
  };
  return known_as(m.call(ops::batch_norm, {&value, part(m[gamma]), part(m[beta]), part(m[running_mean]),
                                           part(m[running_var]), false, 0.1, m[eps], true}),
                  value);
}

/// Channels of every part; none where one is not known, or where it would not do to normalise part by part.
FXX_INLINE std::vector<std::int64_t> channels_of_parts(const Match& m) {
  std::vector<std::int64_t> channels;
  std::int64_t all = 0, folding = 0;
  const TensorMeta* first = nullptr;
  for (const Match::Item& item : m.group<"parts">()) {
    const Node& part = *item[layer].node();
    const TensorMeta* meta = part.tensor_meta();
    if (!meta || meta->dim() < 2 || meta->shape[1] < 0 || !is_floating_point(meta->dtype)) return {};
    if (std::find(meta->shape.begin(), meta->shape.end(), 0) != meta->shape.end()) return {};
    if (first && (meta->dim() != first->dim() || meta->dtype != first->dtype)) return {};
    first = meta;
    channels.push_back(meta->shape[1]);
    all += channels.back();
    folding += takes_batch_norm(part) ? channels.back() : 0;
  }
  const Argument dim = m[value<"dim">];
  if (!first || 2 * folding < all || dim.kind() != Argument::Kind::integer) return {};
  if (dim.integer() != 1 && dim.integer() != 1 - first->dim()) return {};
  for (const Argument& parameter : {m[gamma], m[beta], m[running_mean], m[running_var]})
    if (is_other_than_vector(parameter, all)) return {};
  return channels;
}

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

FXX_INLINE Argument folded_transposed(const Match& m, const Operator& convolution, int dimensions) {
  const Folded folded = fold_by_groups(m, dimensions);
  return m.call(convolution,
                {m[x], folded.weight, folded.bias, m[stride], m[padding], m[output_padding], m[groups], m[dilation]});
}

FXX_INLINE Argument fold_linear(const Match& m) {
  const Folded folded = fold(m, {-1, 1});
  return m.call(ops::linear, {m[x], folded.weight, folded.bias});
}

FXX_INLINE bool constant_and_2d(const Match& m) { return all_constant(m) && rank_of(m[x]) == 2 && fits_channels(m, 0); }

/// Numbers that change what overflows, or rounds to zero, by more than a little.
FXX_INLINE bool may_scale_by(const Match& m, const Argument& by) {
  const double size = by.is_number() ? std::abs(by.number()) : 1;
  return size == 0 || (size >= 0x1p-20 && size <= 0x1p20) || m.may_assume(law::no_overflow);
}

FXX_INLINE bool scales_channels(const Match& m) {
  const std::optional<Layer> l = layer_of(m);
  const Argument by = factor_of(m);
  return l && may_scale_by(m, by) && is_per_channel(by, *l, l->out, std::max(rank_of(m[x]), l->place())) &&
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
  return may_scale_by(m, by) && meets_inputs(m, *l, by);
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
