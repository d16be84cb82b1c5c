// Normalisations, softmaxes and means that were written by hand, recognised.
// Main names: rules::normalisation. Cost: light.
#pragma once

#include "fxx/rewrite/functions.hpp"
#include "fxx/rules/guards.hpp"

namespace fxx::inline FXX_ABI::rules {

namespace normalisation_rules {
using namespace pattern;
inline constexpr auto weight = tensor<"weight">;
inline constexpr auto bias = tensor<"bias">;
inline constexpr auto dims = value<"dims">;
inline constexpr auto keep = value<"keep">;
inline constexpr auto eps = scalar<"eps">;
inline constexpr auto dim = value<"dim">;
inline constexpr auto sizes = value<"sizes">;
inline constexpr auto grouped = value<"grouped">;
inline constexpr auto groups = value<"groups">;
inline constexpr auto shape = value<"shape">;

/// With an eps of zero, values that are all the same would be divided by what rounding left of zero.
bool over_the_last(const Match& m);
Argument build_layer_norm(const Match& m);
Argument build_rms_norm(const Match& m);
/// And the weight has the sizes that are normalised, and x's dtype.
bool over_the_last_with_weight(const Match& m);
Argument build_weighted_layer_norm(const Match& m);
Argument build_weighted_rms_norm(const Match& m);
/// The norm goes over the dimensions of the mean, by a weight in x's dtype.
bool norms_what_is_centred(const Match& m);
bool is_floating(const Match& m);
Argument softmax_unshifted(const Match& m);
/// The one dimension over which is reduced is the one that softmax goes over, or that is dropped where one is.
bool is_the_reduced(const Match& m);
Argument layer_norm_of_centred(const Match& m);
/// What the operator takes besides has x's dtype, and the sizes that are normalised.
bool weight_belongs(const Match& m);
bool both_belong(const Match& m);
Argument layer_norm_with_weight(const Match& m);
Argument layer_norm_with_bias(const Match& m);
Argument rms_norm_with_weight(const Match& m);
/// The layer norm of the view goes over all dimensions behind the groups.
bool norm_of_groups(const Match& m);
bool norm_of_all_groups(const Match& m);
Argument group_norm_of(const Match& m, bool one);
template <bool One>
inline constexpr auto build_group_norm = [](const Match& m) { return group_norm_of(m, One); };
/// One number a channel, in x's dtype: (C, 1, 1), (1, C, 1, 1).
bool weight_is_of_channels(const Match& m);
bool bias_is_of_channels(const Match& m);
Argument group_norm_with_weight(const Match& m);
Argument group_norm_with_bias(const Match& m);
/// The one dimension that both reductions go over, kept. What the operators make lies in order, whatever x does.
bool one_dimension(const Match& m);
Argument called_over_one(const Match& m, const Operator& op);
template <auto Op>
inline constexpr auto over_one = [](const Match& m) { return called_over_one(m, Op); };

/// Minus infinity where the softmax rounds to zero, unless nothing does.
Argument log_of_softmax(const Match& m);

/// How many elements the dimensions hold is the number.
bool counts_them(const Match& m);
bool counts_all(const Match& m);
}  // namespace normalisation_rules

/// Law: layer_norm(x) = (x - mean) / sqrt(var + eps) weight + bias = rms_norm(x - mean) + bias, rms_norm(x) = x /
/// sqrt(mean(x^2) + eps) weight, var(x) = mean((x - mean)^2), softmax(x) = exp(x) / sum(exp(x)) = softmax(x - max),
/// log_softmax(x) = log(softmax(x)) = x - logsumexp(x) = log_softmax(x - max), logsumexp(x) = logsumexp(x - max) + max,
/// mean = sum / count; group_norm(x, groups) = layer_norm of x seen as (N, groups, ...) = batch_norm of x seen as (1, N
/// groups, ...); up to rounding, and where the written form overflows, or takes the logarithm of what rounded to zero,
/// the operator does not. Needs: floating-point x; of the norms the sizes of the last dimensions, which are what is
/// normalised over, weights of just these sizes and x's dtype, a biased variance and an eps above zero; of group norm
/// the shapes of x, of its view and of the result, weights of one number a channel; of softmax and its logarithm finite
/// x, unless the largest is taken off first: the operators make nan of a row with an infinite element.
inline constexpr auto normalisation = [] {
  using namespace pattern;
  using namespace normalisation_rules;
  constexpr auto average = mean(x, dims, lit<true>);
  constexpr auto centred = sub(x, average).as<"centred">();
  constexpr auto spread = var(x, dims, lit<false>, lit<true>);
  constexpr auto squares = mean(pow(centred, 2_c) | mul(centred, centred) | square(centred), dims, keep);
  constexpr auto divided = div(centred, sqrt(add(spread, eps)));
  constexpr auto multiplied = mul(centred, rsqrt(add(spread, eps)));
  constexpr auto weighted =
      div(mul(centred, weight), sqrt(add(spread, eps))) | mul(mul(centred, weight), rsqrt(add(spread, eps)));
  constexpr auto power = mean(pow(x, 2_c) | mul(x, x) | square(x), dims, lit<true>);
  constexpr auto rms = mul(x, rsqrt(add(power, eps)));
  constexpr auto rms_divided = div(x, sqrt(add(power, eps)));
  constexpr auto rms_weighted = mul(mul(x, weight), rsqrt(add(power, eps)));
  constexpr auto seen = any_of<ops::view, ops::reshape>(x, value<"parts">).as<"grouped">();
  constexpr auto exponentials = exp(x).as<"e">();
  constexpr auto largest = amax(x, dims, lit<true>);
  constexpr auto less = sub(x, largest);
  constexpr auto below = sub(x, maybe([](auto p) { return detach(p); }, largest));
  constexpr auto shifted = exp(below).as<"e">();
  return ruleset(
      rule<"layer norm, divided", law::sums>(divided >> build_layer_norm, over_the_last),
      rule<"layer norm, multiplied", law::sums>(multiplied >> build_layer_norm, over_the_last),
      rule<"layer norm, weighted first", law::sums | law::finite_weights>(weighted >> build_weighted_layer_norm, over_the_last_with_weight),
      rule<"layer norm by rms norm", law::sums>(rms_norm(centred, sizes, optional<"weight">, eps) >> layer_norm_of_centred,
                                     norms_what_is_centred),
      rule<"variance by squares", law::sums>(squares >> var(x, dims, lit<false>, keep), is_floating),
      rule<"variance without correction", law::sums>(
          apply<ops::var_correction>(x, dims, arg<"correction">(0_c), arg<"keepdim">(keep)) >>
          var(x, dims, lit<false>, keep)),
      rule<"layer norm takes its weight", law::sums | law::finite_weights>(
          mul(layer_norm(x, sizes, none, none, value<"eps">, _).once(), weight) >> layer_norm_with_weight,
          weight_belongs),
      rule<"layer norm takes its bias", law::sums>(
          add(layer_norm(x, sizes, weight, none, value<"eps">, _).once(), bias) >> layer_norm_with_bias, both_belong),
      rule<"group norm", law::sums>(any_of<ops::view, ops::reshape>(layer_norm(seen, sizes, none, none, value<"eps">, _), shape) >>
                             build_group_norm<false>,
                         norm_of_groups),
      rule<"group norm by batch norm", law::sums>(
          any_of<ops::view, ops::reshape>(batch_norm(seen, none, none, none, none, lit<true>, _, value<"eps">, _),
                                          shape) >>
              build_group_norm<true>,
          norm_of_all_groups),
      rule<"group norm takes its weight", law::sums>(
          mul(group_norm(x, groups, none, none, value<"eps">, _).once(), weight) >> group_norm_with_weight,
          weight_is_of_channels),
      rule<"group norm takes its bias", law::sums>(
          add(group_norm(x, groups, optional<"weight">, none, value<"eps">, _).once(), bias) >> group_norm_with_bias,
          bias_is_of_channels),
      rule<"rms norm, multiplied", law::sums>(rms >> build_rms_norm, over_the_last),
      rule<"rms norm, divided", law::sums>(rms_divided >> build_rms_norm, over_the_last),
      rule<"rms norm, weighted first", law::sums>(rms_weighted >> build_weighted_rms_norm, over_the_last_with_weight),
      rule<"rms norm takes its weight", law::sums>(
          mul(rms_norm(x, sizes, none, value<"eps">).once(), weight) >> rms_norm_with_weight, weight_belongs),
      rule<"softmax, shifted", law::sums>(div(shifted, sum(shifted, dims, lit<true>)) >> over_one<ops::softmax_int>,
                               one_dimension),
      rule<"softmax", law::no_overflow | law::finite>(div(exponentials, sum(exponentials, dims, lit<true>)) >> over_one<ops::softmax_int>,
                      one_dimension),
      rule<"softmax of what is shifted", law::sums>(
          any_of<ops::softmax_int, ops::log_softmax_int>(below, dim) >> softmax_unshifted, is_the_reduced),
      rule<"logsumexp, shifted", law::no_overflow | law::finite_results>(
          add(log(sum(exp(less), dims, lit<true>)) | logsumexp(less, dims, lit<true>), largest) >>
              logsumexp(x, dims, lit<true>),
          is_floating),
      rule<"logsumexp, shifted, of fewer dimensions", law::no_overflow | law::finite_results>(
          add(log(sum(exp(less), dims, lit<false>)) | logsumexp(less, dims, lit<false>),
              squeeze(largest, dim) | with<"dim">(none, amax(x, dims, lit<false>))) >>
              logsumexp(x, dims, lit<false>),
          is_the_reduced),
      rule<"log of softmax">(log(softmax(x.where(floating), dim)) >> log_of_softmax),
      rule<"log softmax", law::no_overflow | law::finite>(sub(x, logsumexp(x, dims, lit<true>)) >> over_one<ops::log_softmax_int>, one_dimension),
      rule<"log softmax, by hand", law::no_overflow | law::finite>(sub(x, log(sum(exp(x), dims, lit<true>))) >> over_one<ops::log_softmax_int>,
                                   one_dimension),
      rule<"exp of log softmax", law::sums>(exp(log_softmax(x.where(floating), dim).once()) >> softmax(x, dim)),
      rule<"mean", law::sums>(div(sum(x, dims, keep).once(), s) >> mean(x, dims, keep), counts_them),
      rule<"mean of all", law::sums>(div(apply<ops::sum>(x).once(), s) >> apply<ops::mean>(x), counts_all));
}();

}  // namespace fxx::inline FXX_ABI::rules

#if defined(FXX_HEADER_ONLY)
#include "fxx/rules/normalisation.ipp"
#endif
