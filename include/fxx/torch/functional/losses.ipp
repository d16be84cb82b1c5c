// Distances and losses of torch/functional.hpp.
#pragma once

#include "fxx/torch/functional/lowered.ipp"

namespace fxx::inline FXX_ABI::nn::functional {

FXX_INLINE Proxy cosine_similarity(const TensorArg& x1, const TensorArg& x2,
                                   const CosineSimilarityFuncOptions& options) {
  return lowered::f::cosine_similarity(x1, x2, options.dim(), options.eps());
}
FXX_INLINE Proxy pairwise_distance(const TensorArg& x1, const TensorArg& x2,
                                   const PairwiseDistanceFuncOptions& options) {
  return lowered::f::pairwise_distance(x1, x2, options.p(), options.eps(), options.keepdim());
}
FXX_INLINE Proxy pdist(const TensorArg& input, double p) { return lowered::f::pdist(input, p); }
FXX_INLINE Proxy l1_loss(const TensorArg& input, const TensorArg& target, const L1LossFuncOptions& options) {
  return lowered::f::l1_loss(input, target, lowered::reduction(options.reduction()));
}
FXX_INLINE Proxy mse_loss(const TensorArg& input, const TensorArg& target, const MSELossFuncOptions& options) {
  return lowered::f::mse_loss(input, target, lowered::reduction(options.reduction()));
}
FXX_INLINE Proxy smooth_l1_loss(const TensorArg& input, const TensorArg& target,
                                const SmoothL1LossFuncOptions& options) {
  return lowered::f::smooth_l1_loss(input, target, lowered::reduction(options.reduction()),
                                    options.beta().value_or(1.0));
}
FXX_INLINE Proxy huber_loss(const TensorArg& input, const TensorArg& target, const HuberLossFuncOptions& options) {
  return lowered::f::huber_loss(input, target, lowered::reduction(options.reduction()), options.delta());
}
FXX_INLINE Proxy kl_div(const TensorArg& input, const TensorArg& target, const KLDivFuncOptions& options) {
  const bool batch = std::holds_alternative<lowered::e::kBatchMean>(options.reduction());
  const std::int64_t reduction = batch ? std::int64_t{at::Reduction::Sum} : lowered::reduction(options.reduction());
  const Proxy loss = lowered::f::kl_div(input, target, reduction, options.log_target());
  return batch ? loss / lowered::proxy_of(input, {&input, &target}).size(0) : loss;
}
FXX_INLINE Proxy cross_entropy(const TensorArg& input, const TensorArg& target,
                               const CrossEntropyFuncOptions& options) {
  return lowered::f::cross_entropy_loss(input, target, lowered::optional(options.weight()),
                                        lowered::reduction(options.reduction()), options.ignore_index(),
                                        options.label_smoothing());
}
FXX_INLINE Proxy nll_loss(const TensorArg& input, const TensorArg& target, const NLLLossFuncOptions& options) {
  return lowered::f::nll_loss_nd(input, target, lowered::optional(options.weight()),
                                 lowered::reduction(options.reduction()), options.ignore_index());
}
FXX_INLINE Proxy poisson_nll_loss(const TensorArg& input, const TensorArg& target,
                                  const PoissonNLLLossFuncOptions& options) {
  return lowered::f::poisson_nll_loss(input, target, options.log_input(), options.full(), options.eps(),
                                      lowered::reduction(options.reduction()));
}
FXX_INLINE Proxy binary_cross_entropy(const TensorArg& input, const TensorArg& target,
                                      const BinaryCrossEntropyFuncOptions& options) {
  return lowered::f::binary_cross_entropy(input, target, lowered::optional(options.weight()),
                                          lowered::reduction(options.reduction()));
}
FXX_INLINE Proxy binary_cross_entropy_with_logits(const TensorArg& input, const TensorArg& target,
                                                  const BinaryCrossEntropyWithLogitsFuncOptions& options) {
  return lowered::f::binary_cross_entropy_with_logits(input, target, lowered::optional(options.weight()),
                                                      lowered::optional(options.pos_weight()),
                                                      lowered::reduction(options.reduction()));
}
FXX_INLINE Proxy hinge_embedding_loss(const TensorArg& input, const TensorArg& target,
                                      const HingeEmbeddingLossFuncOptions& options) {
  return lowered::f::hinge_embedding_loss(input, target, options.margin(), lowered::reduction(options.reduction()));
}
FXX_INLINE Proxy multi_margin_loss(const TensorArg& input, const TensorArg& target,
                                   const MultiMarginLossFuncOptions& options) {
  return lowered::f::multi_margin_loss(input, target, options.p(), options.margin(),
                                       lowered::optional(options.weight()), lowered::reduction(options.reduction()));
}
FXX_INLINE Proxy multilabel_margin_loss(const TensorArg& input, const TensorArg& target,
                                        const MultilabelMarginLossFuncOptions& options) {
  return lowered::f::multilabel_margin_loss(input, target, lowered::reduction(options.reduction()));
}
FXX_INLINE Proxy multilabel_soft_margin_loss(const TensorArg& input, const TensorArg& target,
                                             const MultilabelSoftMarginLossFuncOptions& options) {
  const Proxy x = lowered::proxy_of(input, {&input, &target}), y = lowered::proxy_of(target, {&input, &target});
  Proxy loss = -(y * lowered::f::log_sigmoid(x) + (1 - y) * lowered::f::log_sigmoid(-x));
  if (options.weight().defined()) loss = loss * options.weight();
  return lowered::reduced(loss.sum(-1) / x.size(-1), options.reduction());
}
FXX_INLINE Proxy soft_margin_loss(const TensorArg& input, const TensorArg& target,
                                  const SoftMarginLossFuncOptions& options) {
  return lowered::f::soft_margin_loss(input, target, lowered::reduction(options.reduction()));
}
FXX_INLINE Proxy cosine_embedding_loss(const TensorArg& input1, const TensorArg& input2, const TensorArg& target,
                                       const CosineEmbeddingLossFuncOptions& options) {
  return lowered::f::cosine_embedding_loss(input1, input2, target, options.margin(),
                                           lowered::reduction(options.reduction()));
}
FXX_INLINE Proxy margin_ranking_loss(const TensorArg& input1, const TensorArg& input2, const TensorArg& target,
                                     const MarginRankingLossFuncOptions& options) {
  return lowered::f::margin_ranking_loss(input1, input2, target, options.margin(),
                                         lowered::reduction(options.reduction()));
}
FXX_INLINE Proxy triplet_margin_loss(const TensorArg& anchor, const TensorArg& positive, const TensorArg& negative,
                                     const TripletMarginLossFuncOptions& options) {
  return lowered::f::triplet_margin_loss(anchor, positive, negative, options.margin(), options.p(), options.eps(),
                                         options.swap(), lowered::reduction(options.reduction()));
}
FXX_INLINE Proxy triplet_margin_with_distance_loss(const TensorArg& anchor, const TensorArg& positive,
                                                   const TensorArg& negative,
                                                   const TripletMarginWithDistanceLossFuncOptions& options) {
  if (options.distance_function())
    lowered::refuse("triplet_margin_with_distance_loss",
                    "a distance function of one's own takes tensors, not proxies; compute the loss with it in forward");
  const Proxy near = lowered::f::pairwise_distance(anchor, positive);
  Proxy far = lowered::f::pairwise_distance(anchor, negative);
  if (options.swap()) far = lowered::f::min(far, lowered::f::pairwise_distance(positive, negative));
  return lowered::reduced(lowered::f::clamp_min(near - far + options.margin(), 0), options.reduction());
}
FXX_INLINE Proxy ctc_loss(const TensorArg& log_probs, const TensorArg& targets, const TensorArg& input_lengths,
                          const TensorArg& target_lengths, const CTCLossFuncOptions& options) {
  return lowered::f::ctc_loss(log_probs, targets, input_lengths, target_lengths, options.blank(),
                              lowered::reduction(options.reduction()), options.zero_infinity());
}

}  // namespace fxx::inline FXX_ABI::nn::functional
