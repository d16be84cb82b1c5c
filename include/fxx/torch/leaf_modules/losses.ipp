// Distances and losses, of torch/leaf_modules.hpp.
#pragma once

#include "fxx/torch/leaf_modules/describer.ipp"

namespace fxx::inline FXX_ABI::detail::leaf {

FXX_INLINE void describe(const CosineSimilarityImpl& m, Describer& d) {
  d.operation(OperatorIndex::cosine_similarity).input().input().constant(m.options.dim()).constant(m.options.eps());
  d.construct("torch::nn::CosineSimilarityOptions").with("dim", m.options.dim(), 1).with("eps", m.options.eps(), 1e-8);
}
FXX_INLINE void describe(const PairwiseDistanceImpl& m, Describer& d) {
  const auto& o = m.options;
  d.operation(OperatorIndex::pairwise_distance).input().input().constant(o.p()).constant(o.eps()).constant(o.keepdim());
  d.construct("torch::nn::PairwiseDistanceOptions");
  d.with("p", o.p(), 2.0).with("eps", o.eps(), 1e-6).with("keepdim", o.keepdim(), false);
}
/// Options of a loss, the reduction last; a weight is a tensor, which has no text.
#define FXX_LOSS(name, weight, ...)                                             \
  FXX_INLINE void describe(const name##Impl& m, Describer& d) {                 \
    [[maybe_unused]] const auto& o = m.options;                                 \
    d.construct("torch::nn::" #name "Options").unknown(weight);                 \
    d __VA_ARGS__.with("reduction", enumerator(o.reduction()), "torch::kMean"); \
  }
FXX_LOSS(L1Loss, false)
FXX_LOSS(MSELoss, false)
FXX_LOSS(SmoothL1Loss, false, .with("beta", o.beta(), std::optional<double>()))
FXX_LOSS(HuberLoss, false, .with("delta", o.delta(), 1.0))
FXX_LOSS(BCELoss, o.weight().defined())
FXX_LOSS(BCEWithLogitsLoss, o.weight().defined() || o.pos_weight().defined())
FXX_LOSS(KLDivLoss, false, .with("log_target", o.log_target(), false))
FXX_LOSS(HingeEmbeddingLoss, false, .with("margin", o.margin(), 1.0))
FXX_LOSS(MultiMarginLoss, o.weight().defined(), .with("p", o.p(), 1).with("margin", o.margin(), 1.0))
FXX_LOSS(CosineEmbeddingLoss, false, .with("margin", o.margin(), 0.0))
FXX_LOSS(MultiLabelMarginLoss, false)
FXX_LOSS(SoftMarginLoss, false)
FXX_LOSS(MultiLabelSoftMarginLoss, o.weight().defined())
FXX_LOSS(
    TripletMarginLoss, false,
    .with("margin", o.margin(), 1.0).with("p", o.p(), 2.0).with("eps", o.eps(), 1e-6).with("swap", o.swap(), false))
FXX_LOSS(CTCLoss, false, .with("blank", o.blank(), 0).with("zero_infinity", o.zero_infinity(), false))
FXX_LOSS(PoissonNLLLoss, false,
         .with("log_input", o.log_input(), true).with("full", o.full(), false).with("eps", o.eps(), 1e-8))
FXX_LOSS(MarginRankingLoss, false, .with("margin", o.margin(), 0.0))
FXX_LOSS(NLLLoss, o.weight().defined(), .with("ignore_index", o.ignore_index(), -100))
FXX_LOSS(CrossEntropyLoss, o.weight().defined(),
         .with("ignore_index", o.ignore_index(), -100).with("label_smoothing", o.label_smoothing(), 0.0))
#undef FXX_LOSS

}  // namespace fxx::inline FXX_ABI::detail::leaf
