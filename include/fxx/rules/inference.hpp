// What holds once a model only infers: batch norms, scales and shifts go into the weights beside them, dropout and
// identity go.
// Main names: rules::inference. Cost: light. After torch.fx experimental/optimization.py and Inductor's
// binary_folding.py, 2.13.
#pragma once

#include <cmath>
#include <optional>

#include "fxx/rewrite/functions.hpp"
#include "fxx/rules/guards.hpp"

namespace fxx::inline FXX_ABI::rules {

namespace inference_rules {
using namespace pattern;
inline constexpr auto weight = constant<"weight">;
inline constexpr auto bias = optional<"bias">;
inline constexpr auto gamma = optional<"gamma">;
inline constexpr auto beta = optional<"beta">;
inline constexpr auto running_mean = constant<"mean">;
inline constexpr auto running_var = constant<"var">;
inline constexpr auto eps = scalar<"eps">;
inline constexpr auto stride = value<"stride">;
inline constexpr auto padding = value<"padding">;
inline constexpr auto dilation = value<"dilation">;
inline constexpr auto groups = value<"groups">;
inline constexpr auto output_padding = value<"output_padding">;

/// Everything that the new weight is made of must be constant, or the fold would cost more than it saves.
bool all_constant(const Match& m);
/// One number a channel, floating-point values of one type before the batch norm, as far as is known: where there is
/// nothing to normalise, the operators take anything.
inline bool fits_channels(const Match& m, std::size_t of_weight, std::int64_t groups = 1) {
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
/// Without a batch a convolution puts its channels first, and a batch norm takes them second all the same.
template <int Dimensions, std::size_t Channels = 0>
inline constexpr auto foldable =
    [](const Match& m) { return all_constant(m) && rank_of(m[x]) != Dimensions + 1 && fits_channels(m, Channels); };
/// In a transposed convolution the output channels are the weight's second dimension; of several groups each has so
/// many, and the weight's shape says which of its rows are whose.
inline bool transposed_fits(const Match& m, int dimensions) {
  if (!all_constant(m) || rank_of(m[x]) == dimensions + 1 || m[groups].kind() != Argument::Kind::integer) return false;
  const std::int64_t n = m[groups].integer();
  const TensorMeta* meta = m.node(weight)->tensor_meta();
  if (n != 1 && (n < 1 || !meta || meta->is_dynamic() || meta->dim() != dimensions + 2 || meta->shape[0] % n != 0))
    return false;
  return fits_channels(m, 1, n);
}
template <int Dimensions>
inline constexpr auto foldable_transposed = [](const Match& m) { return transposed_fits(m, Dimensions); };

/// Says what is known of a node that was just made, with the dtype and device of `like`, for rules that look at shapes.
inline Node* known_as(Node* made, const TensorMeta& like, std::vector<std::int64_t> shape) {
  made->set_tensor_meta({.shape = std::move(shape), .stride = {}, .dtype = like.dtype, .device = like.device});
  return made;
}
inline Node* known_as(Node* made, const Node& like) {
  if (const TensorMeta* meta = like.tensor_meta()) return known_as(made, *meta, meta->shape);
  return made;
}

struct Folded {
  Node *weight, *bias;
};
/// weight' = weight scale, bias' = (bias - mean) scale + beta, with scale = gamma / sqrt(var + eps); `shape` lays the
/// scale out over the weight, which is seen in the shape `apart` where there is one. The fold keeps the weight's own
/// dtype.
inline Folded fold(const Match& m, std::vector<Argument> shape, std::vector<Argument> apart = {}) {
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
template <auto Convolution, int Dimensions>
inline constexpr auto fold_convolution = [](const Match& m) -> Argument {
  const Folded folded = Dimensions == 1   ? fold(m, {-1, 1, 1})
                        : Dimensions == 2 ? fold(m, {-1, 1, 1, 1})
                                          : fold(m, {-1, 1, 1, 1, 1});
  return m.call(Convolution, {m[x], folded.weight, folded.bias, m[stride], m[padding], m[dilation], m[groups]});
};
Folded fold_by_groups(const Match& m, int dimensions);
template <auto Convolution, int Dimensions>
inline constexpr auto fold_transposed = [](const Match& m) -> Argument {
  const Folded folded = fold_by_groups(m, Dimensions);
  return m.call(Convolution,
                {m[x], folded.weight, folded.bias, m[stride], m[padding], m[output_padding], m[groups], m[dilation]});
};
Argument fold_linear(const Match& m);
/// A batch norm takes the channels from dimension 1, a linear writes the last: they agree for 2-D values only.
bool constant_and_2d(const Match& m);

/// batch_norm in eval mode over `p`.
template <rewrite::Pattern P>
consteval auto normalised(P p) {
  return batch_norm(p, gamma, beta, running_mean, running_var, lit<false>, _, eps, _);
}

// --- what has weights ------------------------------------------------------------------------------------------------
inline constexpr auto factor = constant<"factor">;
inline constexpr auto number = scalar<"number">;
inline constexpr auto layer = tensor<"layer">;
inline constexpr auto changed = tensor<"changed">;

template <rewrite::Pattern P>
consteval auto convolution(P p) {
  return any_of<ops::conv1d, ops::conv2d, ops::conv3d>(p, weight, bias, _, _, _, _);
}
template <rewrite::Pattern P>
consteval auto transposed_convolution(P p) {
  return any_of<ops::conv_transpose1d, ops::conv_transpose2d_input, ops::conv_transpose3d_input>(p, weight, bias, _, _,
                                                                                                 _, _, _);
}
template <rewrite::Pattern P>
consteval auto weighted(P p) {
  return convolution(p) | transposed_convolution(p) | linear(p, weight, bias);
}
/// A value times one number a channel; plus one.
template <rewrite::Pattern P>
consteval auto scaled(P p) {
  return mul(p, factor) | mul(p, number) | div(p, factor) | div(p, number);
}
template <rewrite::Pattern P>
consteval auto shifted(P p) {
  return add(p, factor) | add(p, number) | sub(p, factor) | sub(p, number);
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
inline bool is_convolution(const Operator& op) { return op.base_name().starts_with("conv"); }
/// None where the weight's shape is not known, where somebody else uses the weight, so that a fold would be a second
/// one, or where not all is constant and of one floating-point type.
inline std::optional<Layer> layer_of(const Match& m) {
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
inline Argument factor_of(const Match& m) { return m[factor].is_none() ? m[number] : m[factor]; }
inline bool is_single(const Argument& by) {
  return by.is_number() || (by.node()->tensor_meta() && by.node()->tensor_meta()->numel() == 1);
}
/// Does it scale or shift all elements of a channel alike, of a value of `rank` dimensions whose channels are `place`
/// dimensions from the end, and leave the value's shape and type?
inline bool is_per_channel(const Argument& by, const Layer& l, std::int64_t channels, std::int64_t rank) {
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
inline Argument flat(const Match& m, const Argument& by) {
  return by.is_number() ? by : m.call(ops::reshape, {by, Argument::list({-1})});
}
/// The same laid out over the weight, along its dimension `at`.
inline Argument over_weight(const Match& m, const Layer& l, const Argument& vector, std::int64_t at) {
  if (vector.is_number() || at == l.spatial + 1) return vector;
  std::vector<Argument> shape(static_cast<std::size_t>(l.spatial + 2), 1);
  shape[static_cast<std::size_t>(at)] = -1;
  return m.call(ops::view, {vector, Argument::list(std::move(shape))});
}
/// Does the node divide, where it might multiply; subtract, where it might add?
inline bool inverts(const Node& node) {
  const std::string_view name = operator_of(node)->base_name();
  return name.starts_with("div") || name.starts_with("sub");
}
inline Node* multiplied(const Match& m, const Argument& value, const Argument& by, bool divide) {
  const Operator &product = by.is_number() ? static_cast<const Operator&>(ops::mul_Scalar) : ops::mul_Tensor,
                 &quotient = by.is_number() ? static_cast<const Operator&>(ops::div_Scalar) : ops::div_Tensor;
  return m.call(divide ? quotient : product, {value, by});
}
inline Node* added(const Match& m, const Argument& value, const Argument& by, bool subtract) {
  const Operator &sum = by.is_number() ? static_cast<const Operator&>(ops::add_Scalar) : ops::add_Tensor,
                 &difference = by.is_number() ? static_cast<const Operator&>(ops::sub_Scalar) : ops::sub_Tensor;
  return m.call(subtract ? difference : sum, {value, by});
}
/// The call with another input, weight and bias; all its options stay.
inline Node* called_with(const Match& m, const Layer& l, const Argument& input, const Argument& new_weight,
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
inline Node* moved_bias(const Match& m, const Layer& l, const Argument& by, bool subtract) {
  if (m[bias].is_node()) return added(m, m[bias], by, subtract);
  if (by.is_number()) {
    const double value = subtract ? -by.number() : by.number();
    return m.call(ops::new_full, {m[weight], Argument::list({l.out}), value});
  }
  Node* moved = m.call(ops::expand, {by, Argument::list({l.out})});
  return subtract ? m.call(ops::neg, {moved}) : moved;
}

/// A convolution that the batch norm behind it would fold into.
inline bool takes_batch_norm(const Node& node) {
  const Operator* op = operator_of(node);
  if (!op || !is_convolution(*op) || node.num_users() != 1) return false;
  const auto given = [&](int i) { return argument_or_default(node, *op, i); };
  const Argument input = given(0), of_weight = given(1), groups = given(op->index_of("groups"));
  const TensorMeta* meta = of_weight.is_node() ? of_weight.node()->tensor_meta() : nullptr;
  const bool transposed = op->base_name().starts_with("conv_transpose");
  return meta && is_floating_point(meta->dtype) && is_constant_or_none(of_weight) && is_constant_or_none(given(2)) &&
         may_be_of_one_type({input, of_weight, given(2)}) && rank_of(input) == meta->dim() &&
         (!transposed || (groups.kind() == Argument::Kind::integer && groups.integer() > 0 && !meta->is_dynamic() &&
                          meta->shape[0] % groups.integer() == 0));
}

// --- behind a layer --------------------------------------------------------------------------------------------------
bool scales_channels(const Match& m);
Argument scale_weight(const Match& m);
bool shifts_channels(const Match& m);
Argument shift_bias(const Match& m);

// --- before a layer --------------------------------------------------------------------------------------------------
/// The input is known to have the layer's channels already, so what is multiplied with it does not make them.
inline bool has_channels(const Argument& input, const Layer& l) {
  const std::int64_t rank = rank_of(input);
  if (rank < l.place() || (l.spatial > 0 && rank > l.spatial + 2)) return false;
  return input.node()->tensor_meta()->shape[static_cast<std::size_t>(rank - l.place())] == l.in;
}
inline bool pads(const Layer& l) {
  if (l.spatial == 0) return false;
  const Operator& op = *operator_of(*l.call);
  const Argument padding = argument_or_default(*l.call, op, op.index_of("padding"));
  const auto is_zero = [](const Argument& a) { return a.kind() == Argument::Kind::integer && a.integer() == 0; };
  return !(padding.is_sequence() ? std::all_of(padding.items().begin(), padding.items().end(), is_zero)
                                 : is_zero(padding));
}
/// Per-channel values meet the weight's input channels, which groups share out.
inline bool meets_inputs(const Match& m, const Layer& l, const Argument& by) {
  return has_channels(m[x], l) && is_per_channel(by, l, l.in, rank_of(m[x])) &&
         (l.transposed || l.groups == 1 || is_single(by));
}
bool scales_inputs(const Match& m);
Argument scale_input_weight(const Match& m);
bool shifts_inputs(const Match& m);
/// What a constant input gives, bias aside: the weight times it, summed over all but the output channels.
inline Node* seen_through(const Match& m, const Layer& l, const Argument& by) {
  std::vector<Argument> all_but_first;
  for (std::int64_t i = 1; i < l.spatial + 2; ++i) all_but_first.emplace_back(i);
  return m.call(ops::sum_dim_IntList,
                {multiplied(m, m[weight], over_weight(m, l, by, 1), false), Argument::list(std::move(all_but_first))});
}
Argument shift_input_bias(const Match& m);
bool normalises_inputs(const Match& m);
Argument fold_into_next(const Match& m);

// --- batch norm on its way to a convolution --------------------------------------------------------------------------
/// The value with the parameters of a batch norm, of which this one takes so many channels from `start` on.
inline Node* normalised_part(const Match& m, Node& value, std::int64_t start, std::int64_t channels) {
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
/// Padding that copies values of its own channel, or takes some away, but never makes any.
bool pads_alike(const Match& m);
Argument pad_later(const Match& m);

/// Channels of every part; none where one is not known, or where it would not do to normalise part by part.
inline std::vector<std::int64_t> channels_of_parts(const Match& m) {
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
bool joins_convolutions(const Match& m);
Argument cat_later(const Match& m);
}  // namespace inference_rules

/// Law, up to rounding, where nothing overflows, with s = gamma / sqrt(var + eps) and t = beta - mean s:
/// batch_norm(conv(x, w, b)) = conv(x, w s, b s + t), and so for transposed convolutions and a 2-D linear.
/// conv(batch_norm(x), w, b) = conv(x, w s, b + w t), without padding; so for a 2-D linear.
/// batch_norm(pad(conv)) = pad(batch_norm(conv)) where padding reflects, replicates, goes around or only cuts off. A
/// batch norm makes something else of zeros, so behind zeros it stays where it is.
/// batch_norm(cat([p, q], 1)) = cat([batch_norm(p), batch_norm(q)], 1), each with its part of the parameters, where at
/// least half of the channels are of convolutions that it folds into then.
/// f(x, w, b) c = f(x, w c, b c), f(x, w, b) + c = f(x, w, b + c), f(x c, w, b) = f(x, w c, b) and f(x + c, w, b) =
/// f(x, w, b + w c), and so for / and -, where f is a convolution, transposed convolution or linear and c a number or a
/// constant of one number a channel. A shift before f folds where f is no transposed convolution and does not pad.
/// dropout(x, p, false) = x.
/// Needs: eval mode; constant weights and statistics, one number a channel; floating-point values of one type; the call
/// that goes used once. For pad, cat, scales and shifts also known shapes, and a weight that nobody else uses; for
/// scales before f numbers that are finite, and none to divide by that is 0, since padding is not scaled. The new
/// weights stay expressions of the old ones: gradients reach them, and fold_constants computes them once.
inline constexpr auto inference = [] {
  using namespace pattern;
  using namespace inference_rules;
  return ruleset(
      rule<"fold batch norm, conv1d">(normalised(conv1d(x, weight, bias, stride, padding, dilation, groups).once()) >>
                                          fold_convolution<ops::conv1d, 1>,
                                      foldable<1>),
      rule<"fold batch norm, conv2d">(normalised(conv2d(x, weight, bias, stride, padding, dilation, groups).once()) >>
                                          fold_convolution<ops::conv2d, 2>,
                                      foldable<2>),
      rule<"fold batch norm, conv3d">(normalised(conv3d(x, weight, bias, stride, padding, dilation, groups).once()) >>
                                          fold_convolution<ops::conv3d, 3>,
                                      foldable<3>),
      rule<"fold batch norm, conv_transpose1d">(
          normalised(conv_transpose1d(x, weight, bias, stride, padding, output_padding, groups, dilation).once()) >>
              fold_transposed<ops::conv_transpose1d, 1>,
          foldable_transposed<1>),
      rule<"fold batch norm, conv_transpose2d">(
          normalised(conv_transpose2d(x, weight, bias, stride, padding, output_padding, groups, dilation).once()) >>
              fold_transposed<ops::conv_transpose2d_input, 2>,
          foldable_transposed<2>),
      rule<"fold batch norm, conv_transpose3d">(
          normalised(conv_transpose3d(x, weight, bias, stride, padding, output_padding, groups, dilation).once()) >>
              fold_transposed<ops::conv_transpose3d_input, 3>,
          foldable_transposed<3>),
      rule<"fold batch norm, linear">(normalised(linear(x, weight, bias).once()) >> fold_linear, constant_and_2d),
      rule<"fold batch norm into what follows">(
          (convolution(normalised(x).once()) | linear(normalised(x).once(), weight, bias)).as<"layer">() >>
              fold_into_next,
          normalises_inputs),
      rule<"batch norm before pad">(normalised(pad((convolution(_) | transposed_convolution(_)).as<"layer">(),
                                                   value<"sizes">, value<"mode">, value<"filling">)
                                                   .once()) >>
                                        pad_later,
                                    pads_alike),
      rule<"batch norm before cat">(
          normalised(
              cat(list(each<"parts">((convolution(_) | transposed_convolution(_) | tensor<"other">).as<"layer">())),
                  value<"dim">)
                  .once()) >>
              cat_later,
          joins_convolutions),
      rule<"fold scale">(scaled(weighted(x).where(one_user).as<"layer">()) >> scale_weight, scales_channels),
      rule<"fold shift">(shifted(weighted(x).where(one_user).as<"layer">()) >> shift_bias, shifts_channels),
      rule<"fold scale before">(weighted(scaled(x).where(one_user).as<"changed">()).as<"layer">() >> scale_input_weight,
                                scales_inputs),
      rule<"fold shift before">((convolution(shifted(x).where(one_user).as<"changed">()) |
                                 linear(shifted(x).where(one_user).as<"changed">(), weight, bias))
                                        .as<"layer">() >>
                                    shift_input_bias,
                                shifts_inputs),
      rule<"dropout">(any_of<ops::dropout, ops::dropout_, ops::feature_dropout, ops::feature_dropout_,
                             ops::alpha_dropout, ops::alpha_dropout_, ops::feature_alpha_dropout,
                             ops::feature_alpha_dropout_>(x, _, lit<false>) >>
                      x),
      rule<"identity">(identity(x) >> x));
}();

}  // namespace fxx::inline FXX_ABI::rules

#if defined(FXX_HEADER_ONLY)
#include "fxx/rules/inference.ipp"
#endif
