// What holds once a model only infers: batch norm folds into what stands before it, dropout and identity go.
// Main names: rules::inference. Cost: light. After torch.fx experimental/optimization.py, 2.13.
#pragma once

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
inline constexpr auto all_constant = [](const Match& m) {
  return is_constant_or_none(m[bias]) && is_constant_or_none(m[gamma]) && is_constant_or_none(m[beta]);
};
/// One number a channel, floating-point values of one type before the batch norm, as far as is known: where there is
/// nothing to normalise, the operators take anything.
inline bool fits_channels(const Match& m, std::size_t of_weight) {
  for (const Argument& value : {m[x], m[weight], m[bias], m[gamma], m[beta], m[running_mean], m[running_var]})
    if (!may_be_floating(value)) return false;
  if (!may_be_of_one_type({m[x], m[weight], m[bias]})) return false;
  const TensorMeta* meta = m.node(weight)->tensor_meta();
  if (!meta || meta->shape.size() <= of_weight) return true;
  const std::int64_t channels = meta->shape[of_weight];
  for (const Argument& value : {m[bias], m[gamma], m[beta], m[running_mean], m[running_var]})
    if (is_other_than_vector(value, channels)) return false;
  return true;
}
/// Without a batch a convolution puts its channels first, and a batch norm takes them second all the same.
template <int Dimensions, std::size_t Channels = 0>
inline constexpr auto foldable =
    [](const Match& m) { return all_constant(m) && rank_of(m[x]) != Dimensions + 1 && fits_channels(m, Channels); };
/// In a transposed convolution the output channels are the weight's second dimension, unless groups split them.
template <int Dimensions>
inline constexpr auto foldable_transposed = [](const Match& m) {
  return foldable<Dimensions, 1>(m) && m[groups].kind() == Argument::Kind::integer && m[groups].integer() == 1;
};

struct Folded {
  Node *weight, *bias;
};
/// weight' = weight scale, bias' = (bias - mean) scale + beta, with scale = gamma / sqrt(var + eps); `shape` lays the
/// scale out over the weight. The fold keeps the weight's own dtype.
inline Folded fold(const Match& m, std::initializer_list<Argument> shape) {
  Node* scale = m.call(ops::rsqrt, {m.call(ops::add_Scalar, {m[running_var], m[eps]})});
  if (m[gamma].is_node()) scale = m.call(ops::mul_Tensor, {scale, m[gamma]});
  Node* new_weight = m.call(ops::mul_Tensor, {m[weight], m.call(ops::view, {scale, Argument::list(shape)})});
  Node* shift =
      m[bias].is_node() ? m.call(ops::sub_Tensor, {m[bias], m[running_mean]}) : m.call(ops::neg, {m[running_mean]});
  Node* new_bias = m.call(ops::mul_Tensor, {shift, scale});
  if (m[beta].is_node()) new_bias = m.call(ops::add_Tensor, {new_bias, m[beta]});
  if (const TensorMeta* from = m.node(weight)->tensor_meta();
      from && !may_be_of_one_type({m[weight], m[gamma], m[beta], m[running_mean], m[running_var]})) {
    new_weight = m.call(ops::to_dtype, {new_weight, from->dtype});
    new_bias = m.call(ops::to_dtype, {new_bias, from->dtype});
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
template <auto Convolution, int Dimensions>
inline constexpr auto fold_transposed = [](const Match& m) -> Argument {
  const Folded folded = Dimensions == 1   ? fold(m, {1, -1, 1})
                        : Dimensions == 2 ? fold(m, {1, -1, 1, 1})
                                          : fold(m, {1, -1, 1, 1, 1});
  return m.call(Convolution,
                {m[x], folded.weight, folded.bias, m[stride], m[padding], m[output_padding], m[groups], m[dilation]});
};
inline constexpr auto fold_linear = [](const Match& m) -> Argument {
  const Folded folded = fold(m, {-1, 1});
  return m.call(ops::linear, {m[x], folded.weight, folded.bias});
};
/// A batch norm takes the channels from dimension 1, a linear writes the last: they agree for 2-D values only.
inline constexpr auto constant_and_2d = [](const Match& m) {
  return all_constant(m) && rank_of(m[x]) == 2 && fits_channels(m, 0);
};

/// batch_norm in eval mode over `p`.
template <rewrite::Pattern P>
consteval auto normalised(P p) {
  return batch_norm(p, gamma, beta, running_mean, running_var, lit<false>, _, eps, _);
}
}  // namespace inference_rules

/// Law: batch_norm(conv(x, w, b)) = conv(x, w', b') with w' = w gamma / sqrt(var + eps), b' = (b - mean) gamma /
/// sqrt(var + eps) + beta, up to rounding, where nothing overflows; dropout(x, p, false) = x. Needs: eval mode;
/// constant weights and statistics, one number a channel; floating-point values; the convolution used once. The new
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
      rule<"dropout">(any_of(ops::dropout, ops::dropout_, ops::feature_dropout, ops::feature_dropout_,
                             ops::alpha_dropout, ops::alpha_dropout_, ops::feature_alpha_dropout,
                             ops::feature_alpha_dropout_)(x, _, lit<false>) >>
                      x),
      rule<"identity">(identity(x) >> x));
}();

}  // namespace fxx::inline FXX_ABI::rules
