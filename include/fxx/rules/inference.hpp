// What holds once a model only infers: batch norms, scales and shifts go into the weights beside them, dropout and
// identity go.
// Main names: rules::inference. Cost: light. After torch.fx experimental/optimization.py and Inductor's
// binary_folding.py, 2.13.
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
bool all_constant(const Match& m);
/// Without a batch a convolution puts its channels first, and a batch norm takes them second all the same.
bool convolution_fits(const Match& m, int dimensions, std::size_t channels);
template <int Dimensions, std::size_t Channels = 0>
inline constexpr auto foldable = [](const Match& m) { return convolution_fits(m, Dimensions, Channels); };
/// In a transposed convolution the output channels are the weight's second dimension; of several groups each has so
/// many, and the weight's shape says which of its rows are whose.
bool transposed_fits(const Match& m, int dimensions);
template <int Dimensions>
inline constexpr auto foldable_transposed = [](const Match& m) { return transposed_fits(m, Dimensions); };

Argument folded_convolution(const Match& m, const Operator& convolution, int dimensions);
template <auto Convolution, int Dimensions>
inline constexpr auto fold_convolution = [](const Match& m) { return folded_convolution(m, Convolution, Dimensions); };
Argument folded_transposed(const Match& m, const Operator& convolution, int dimensions);
template <auto Convolution, int Dimensions>
inline constexpr auto fold_transposed = [](const Match& m) { return folded_transposed(m, Convolution, Dimensions); };
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

// --- behind a layer --------------------------------------------------------------------------------------------------
bool scales_channels(const Match& m);
Argument scale_weight(const Match& m);
bool shifts_channels(const Match& m);
Argument shift_bias(const Match& m);

// --- before a layer --------------------------------------------------------------------------------------------------

bool scales_inputs(const Match& m);
Argument scale_input_weight(const Match& m);
bool shifts_inputs(const Match& m);
Argument shift_input_bias(const Match& m);
bool normalises_inputs(const Match& m);
Argument fold_into_next(const Match& m);

// --- batch norm on its way to a convolution --------------------------------------------------------------------------
/// Padding that copies values of its own channel, or takes some away, but never makes any.
bool pads_alike(const Match& m);
Argument pad_later(const Match& m);
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
      rule<"fold batch norm, conv1d", law::sums | law::finite_weights>(normalised(conv1d(x, weight, bias, stride, padding, dilation, groups).once()) >>
                                          fold_convolution<ops::conv1d, 1>,
                                      foldable<1>),
      rule<"fold batch norm, conv2d", law::sums | law::finite_weights>(normalised(conv2d(x, weight, bias, stride, padding, dilation, groups).once()) >>
                                          fold_convolution<ops::conv2d, 2>,
                                      foldable<2>),
      rule<"fold batch norm, conv3d", law::sums | law::finite_weights>(normalised(conv3d(x, weight, bias, stride, padding, dilation, groups).once()) >>
                                          fold_convolution<ops::conv3d, 3>,
                                      foldable<3>),
      rule<"fold batch norm, conv_transpose1d", law::sums | law::finite_weights>(
          normalised(conv_transpose1d(x, weight, bias, stride, padding, output_padding, groups, dilation).once()) >>
              fold_transposed<ops::conv_transpose1d, 1>,
          foldable_transposed<1>),
      rule<"fold batch norm, conv_transpose2d", law::sums | law::finite_weights>(
          normalised(conv_transpose2d(x, weight, bias, stride, padding, output_padding, groups, dilation).once()) >>
              fold_transposed<ops::conv_transpose2d_input, 2>,
          foldable_transposed<2>),
      rule<"fold batch norm, conv_transpose3d", law::sums | law::finite_weights>(
          normalised(conv_transpose3d(x, weight, bias, stride, padding, output_padding, groups, dilation).once()) >>
              fold_transposed<ops::conv_transpose3d_input, 3>,
          foldable_transposed<3>),
      rule<"fold batch norm, linear", law::sums | law::finite_weights>(normalised(linear(x, weight, bias).once()) >> fold_linear, constant_and_2d),
      rule<"fold batch norm into what follows", law::sums | law::finite_weights>(
          (convolution(normalised(x).once()) | linear(normalised(x).once(), weight, bias)).as<"layer">() >>
              fold_into_next,
          normalises_inputs),
      rule<"batch norm before pad", law::sums | law::finite_weights>(normalised(pad((convolution(_) | transposed_convolution(_)).as<"layer">(),
                                                   value<"sizes">, value<"mode">, value<"filling">)
                                                   .once()) >>
                                        pad_later,
                                    pads_alike),
      rule<"batch norm before cat", law::sums | law::finite_weights>(
          normalised(
              cat(list(each<"parts">((convolution(_) | transposed_convolution(_) | tensor<"other">).as<"layer">())),
                  value<"dim">)
                  .once()) >>
              cat_later,
          joins_convolutions),
      rule<"fold scale", law::sums | law::finite_weights>(scaled(weighted(x).where(one_user).as<"layer">()) >> scale_weight, scales_channels),
      rule<"fold shift", law::sums | law::finite_weights>(shifted(weighted(x).where(one_user).as<"layer">()) >> shift_bias, shifts_channels),
      rule<"fold scale before", law::sums | law::finite_weights>(weighted(scaled(x).where(one_user).as<"changed">()).as<"layer">() >> scale_input_weight,
                                scales_inputs),
      rule<"fold shift before", law::sums | law::finite_weights>((convolution(shifted(x).where(one_user).as<"changed">()) |
                                 linear(shifted(x).where(one_user).as<"changed">(), weight, bias))
                                        .as<"layer">() >>
                                    shift_input_bias,
                                shifts_inputs),
      rule<"dropout">(
          any_of<ops::dropout, ops::dropout_, ops::feature_dropout, ops::feature_dropout_, ops::alpha_dropout,
                 ops::alpha_dropout_, ops::feature_alpha_dropout, ops::feature_alpha_dropout_>(x, _, lit<false>) >>
          x),
      rule<"identity">(identity(x) >> x));
}();

}  // namespace fxx::inline FXX_ABI::rules

#if defined(FXX_HEADER_ONLY)
#include "fxx/rules/inference.ipp"
#endif
