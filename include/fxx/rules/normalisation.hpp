// Normalisations, softmaxes and means that were written by hand, recognised.
// Main names: rules::normalisation. Cost: light.
#pragma once

#include <cmath>

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

/// The last dimensions, all of them, in any order: what is normalised over; their sizes. Nothing when they are not the
/// last, or a size is not known.
inline std::vector<Argument> last_sizes(const Match& m) {
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
/// What the operator takes besides: x's dtype, and the sizes that are normalised.
inline bool belongs(const Match& m, const Argument& value) {
  const TensorMeta *meta = meta_of(value), *of = meta_of(m[x]);
  return meta && of && meta->dtype == of->dtype && integers_of(m[sizes]) == meta->shape;
}
/// In how many groups the channels of x are seen; 0 when x is not seen as (N, groups, ...), or for `One` as
/// (1, N groups, ...), or the result has another shape than x.
template <bool One>
inline std::int64_t groups_of(const Match& m) {
  const TensorMeta *from = meta_of(m[x]), *seen = meta_of(m[grouped]), *to = meta_of(m.root());
  if (!from || !seen || !to || from->dim() < 2 || seen->dim() < 3 || from->shape != to->shape) return 0;
  if (!is_floating_point(from->dtype) || !layout_is_free(*m.root())) return 0;
  const std::int64_t batch = from->shape[0], channels = from->shape[1];
  if (seen->shape[0] != (One ? 1 : batch) || batch == 0 || channels <= 0 || (One && batch < 0)) return 0;
  const std::int64_t groups = One ? seen->shape[1] / batch : seen->shape[1];
  return groups > 0 && channels % groups == 0 && (!One || seen->shape[1] == groups * batch) ? groups : 0;
}
/// The layer norm of the view goes over all dimensions behind the groups.
bool norm_of_groups(const Match& m);
bool norm_of_all_groups(const Match& m);
template <bool One>
inline constexpr auto build_group_norm = [](const Match& m) -> Argument {
  views_become_reshapes(*m.root());
  return m.call(ops::group_norm, {m[x], groups_of<One>(m), {}, {}, m[value<"eps">]});
};
/// One number a channel, in x's dtype: (C, 1, 1), (1, C, 1, 1).
inline bool is_of_channels(const Match& m, const Argument& value) {
  const TensorMeta *meta = meta_of(value), *of = meta_of(m[x]);
  if (!meta || !of || meta->dtype != of->dtype || meta->dim() > of->dim() || meta->dim() + 1 < of->dim()) return false;
  const std::int64_t channel = meta->dim() - of->dim() + 1;
  for (std::int64_t at = 0; at < meta->dim(); ++at)
    if (meta->shape[static_cast<std::size_t>(at)] != (at == channel ? of->shape[1] : 1)) return false;
  return of->shape[1] > 0;
}
inline Argument as_vector(const Match& m, const Argument& value) {
  const TensorMeta* meta = meta_of(value);
  if (!meta || meta->dim() == 1) return value;
  return m.call(ops::reshape, {value, Argument::list({meta->numel()})});
}
/// The one dimension that both reductions go over, kept.
bool one_dimension(const Match& m);
template <auto Op>
inline constexpr auto over_one = [](const Match& m) -> Argument {
  return m.call(Op, {m[x], (*integers_of(m[dims]))[0]});
};

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
      rule<"layer norm, divided">(divided >> build_layer_norm, over_the_last),
      rule<"layer norm, multiplied">(multiplied >> build_layer_norm, over_the_last),
      rule<"layer norm, weighted first">(weighted >> build_weighted_layer_norm, over_the_last_with_weight),
      rule<"layer norm by rms norm">(
          rms_norm(centred, sizes, optional<"weight">, eps) >>
              [](const Match& m) {
                return m.call(ops::layer_norm, {m[x], m[sizes], m[optional<"weight">], {}, m[eps]});
              },
          norms_what_is_centred),
      rule<"variance by squares">(squares >> var(x, dims, lit<false>, keep), is_floating),
      rule<"variance without correction">(
          apply<ops::var_correction>(x, dims, arg<"correction">(0_c), arg<"keepdim">(keep)) >>
              var(x, dims, lit<false>, keep)),
      rule<"layer norm takes its weight">(
          mul(layer_norm(x, sizes, none, none, value<"eps">, _).once(), weight) >>
              [](const Match& m) {
                return m.call(ops::layer_norm, {m[x], m[sizes], m[weight], {}, m[value<"eps">]});
              },
          [](const Match& m) { return belongs(m, m[weight]); }),
      rule<"layer norm takes its bias">(
          add(layer_norm(x, sizes, weight, none, value<"eps">, _).once(), bias) >>
              [](const Match& m) {
                return m.call(ops::layer_norm, {m[x], m[sizes], m[weight], m[bias], m[value<"eps">]});
              },
          [](const Match& m) { return belongs(m, m[weight]) && belongs(m, m[bias]); }),
      rule<"group norm">(any_of<ops::view, ops::reshape>(layer_norm(seen, sizes, none, none, value<"eps">, _), shape) >>
                             build_group_norm<false>,
                         norm_of_groups),
      rule<"group norm by batch norm">(
          any_of<ops::view, ops::reshape>(
              batch_norm(seen, none, none, none, none, lit<true>, _, value<"eps">, _), shape) >> build_group_norm<true>,
          norm_of_all_groups),
      rule<"group norm takes its weight">(
          mul(group_norm(x, groups, none, none, value<"eps">, _).once(), weight) >>
              [](const Match& m) {
                return m.call(ops::group_norm, {m[x], m[groups], as_vector(m, m[weight]), {}, m[value<"eps">]});
              },
          [](const Match& m) { return is_of_channels(m, m[weight]); }),
      rule<"group norm takes its bias">(
          add(group_norm(x, groups, optional<"weight">, none, value<"eps">, _).once(), bias) >>
              [](const Match& m) {
                return m.call(ops::group_norm, {m[x], m[groups], m[optional<"weight">], as_vector(m, m[bias]),
                                                m[value<"eps">]});
              },
          [](const Match& m) { return is_of_channels(m, m[bias]); }),
      rule<"rms norm, multiplied">(rms >> build_rms_norm, over_the_last),
      rule<"rms norm, divided">(rms_divided >> build_rms_norm, over_the_last),
      rule<"rms norm, weighted first">(rms_weighted >> build_weighted_rms_norm, over_the_last_with_weight),
      rule<"rms norm takes its weight">(
          mul(rms_norm(x, sizes, none, value<"eps">).once(), weight) >>
              [](const Match& m) {
                return m.call(ops::rms_norm, {m[x], m[sizes], m[weight], m[value<"eps">]});
              },
          [](const Match& m) { return belongs(m, m[weight]); }),
      rule<"softmax, shifted">(div(shifted, sum(shifted, dims, lit<true>)) >> over_one<ops::softmax_int>,
                               one_dimension),
      rule<"softmax">(div(exponentials, sum(exponentials, dims, lit<true>)) >> over_one<ops::softmax_int>,
                      one_dimension),
      rule<"softmax of what is shifted">(
          any_of<ops::softmax_int, ops::log_softmax_int>(below, dim) >> softmax_unshifted, is_the_reduced),
      rule<"logsumexp, shifted">(
          add(log(sum(exp(less), dims, lit<true>)) | logsumexp(less, dims, lit<true>), largest) >>
              logsumexp(x, dims, lit<true>),
          is_floating),
      rule<"logsumexp, shifted, of fewer dimensions">(
          add(log(sum(exp(less), dims, lit<false>)) | logsumexp(less, dims, lit<false>),
              squeeze(largest, dim) | with<"dim">(none, amax(x, dims, lit<false>))) >>
              logsumexp(x, dims, lit<false>),
          is_the_reduced),
      rule<"log of softmax">(log(softmax(x.where(floating), dim).once()) >> log_softmax(x, dim)),
      rule<"log softmax">(sub(x, logsumexp(x, dims, lit<true>)) >> over_one<ops::log_softmax_int>, one_dimension),
      rule<"log softmax, by hand">(sub(x, log(sum(exp(x), dims, lit<true>))) >> over_one<ops::log_softmax_int>,
                                   one_dimension),
      rule<"exp of log softmax">(exp(log_softmax(x.where(floating), dim).once()) >> softmax(x, dim)),
      rule<"mean">(div(sum(x, dims, keep).once(), s) >> mean(x, dims, keep), counts_them),
      rule<"mean of all">(div(apply<ops::sum>(x).once(), s) >> apply<ops::mean>(x), counts_all));
}();

}  // namespace fxx::inline FXX_ABI::rules

#if defined(FXX_HEADER_ONLY)
#include "fxx/rules/normalisation.ipp"
#endif
