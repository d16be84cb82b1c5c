// torch::nn::functional for tensors and proxies: `namespace F = fxx::nn::functional;` in place of
// torch::nn::functional.
//
// `F::gelu(x)`, `F::dropout(x, F::DropoutFuncOptions().p(0.1).training(is_training()))`: with tensors these are
// LibTorch's own functions. With a proxy each records the ATen operators that it amounts to, most of them one; options
// are constants then, and tensors in them attributes of the graph, so a traced weight goes to the function of the bare
// name (`conv2d(x, weight, bias)`), which takes any. Options are LibTorch's classes.
// Not there for proxies: multi_head_attention_forward (fxx::nn::MultiheadAttention is one node), and what throws
// TraceError (E305): embeddings that renormalise their weight, distance functions of one's own, an output tensor.
// Main names: the functions of torch::nn::functional. Cost: heavy (torch/nn/functional.h).
#pragma once

#include <torch/nn/functional.h>

#include <optional>
#include <tuple>

#include "fxx/torch/types.hpp"
#include "fxx/trace/proxy.hpp"

namespace fxx::inline FXX_ABI::nn::functional {

using namespace torch::nn::functional;  // the options, and what is no function over tensors
using TensorArg = fxx::functional::TensorArg;
using OptionalTensorArg = fxx::functional::OptionalTensorArg;
using IntListOrOneArg = fxx::functional::IntListOrOneArg;

// A function that is declared here hides LibTorch's of the same name, so each is taken over.
#define FXX_FUNCTION(name, ...)      \
  using torch::nn::functional::name; \
  Proxy name(__VA_ARGS__);
#define FXX_OF_TWO(name, ...)        \
  using torch::nn::functional::name; \
  std::tuple<Proxy, Proxy> name(__VA_ARGS__);

// clang-format off
// Activations and dropout.
FXX_FUNCTION(elu, const TensorArg& input, const ELUFuncOptions& options = {})
FXX_FUNCTION(selu, const TensorArg& input, const SELUFuncOptions& options = {})
FXX_FUNCTION(celu, const TensorArg& input, const CELUFuncOptions& options = {})
FXX_FUNCTION(hardshrink, const TensorArg& input, const HardshrinkFuncOptions& options = {})
FXX_FUNCTION(hardtanh, const TensorArg& input, const HardtanhFuncOptions& options = {})
FXX_FUNCTION(leaky_relu, const TensorArg& input, const LeakyReLUFuncOptions& options = {})
FXX_FUNCTION(logsigmoid, const TensorArg& input)
FXX_FUNCTION(gumbel_softmax, const TensorArg& logits, const GumbelSoftmaxFuncOptions& options = {})
FXX_FUNCTION(softmax, const TensorArg& input, const SoftmaxFuncOptions& options)
FXX_FUNCTION(softmin, const TensorArg& input, const SoftminFuncOptions& options)
FXX_FUNCTION(log_softmax, const TensorArg& input, const LogSoftmaxFuncOptions& options)
FXX_FUNCTION(glu, const TensorArg& input, const GLUFuncOptions& options = {})
FXX_FUNCTION(gelu, const TensorArg& input, const GELUFuncOptions& options = {})
FXX_FUNCTION(silu, const TensorArg& input)
FXX_FUNCTION(mish, const TensorArg& input)
FXX_FUNCTION(prelu, const TensorArg& input, const TensorArg& weight)
FXX_FUNCTION(relu, const TensorArg& input, const ReLUFuncOptions& options = {})
FXX_FUNCTION(relu6, const TensorArg& input, const ReLU6FuncOptions& options = {})
FXX_FUNCTION(rrelu, const TensorArg& input, const RReLUFuncOptions& options = {})
FXX_FUNCTION(softplus, const TensorArg& input, const SoftplusFuncOptions& options = {})
FXX_FUNCTION(softshrink, const TensorArg& input, const SoftshrinkFuncOptions& options = {})
FXX_FUNCTION(softsign, const TensorArg& input)
FXX_FUNCTION(tanhshrink, const TensorArg& input)
FXX_FUNCTION(threshold, const TensorArg& input, const ThresholdFuncOptions& options)
FXX_FUNCTION(dropout, const TensorArg& input, const DropoutFuncOptions& options = {})
FXX_FUNCTION(dropout2d, const TensorArg& input, const Dropout2dFuncOptions& options = {})
FXX_FUNCTION(dropout3d, const TensorArg& input, const Dropout3dFuncOptions& options = {})
FXX_FUNCTION(alpha_dropout, const TensorArg& input, const AlphaDropoutFuncOptions& options = {})
FXX_FUNCTION(feature_alpha_dropout, const TensorArg& input, const FeatureAlphaDropoutFuncOptions& options = {})

// Linear maps, convolutions, embeddings.
FXX_FUNCTION(linear, const TensorArg& input, const TensorArg& weight, const OptionalTensorArg& bias = {})
FXX_FUNCTION(bilinear, const TensorArg& input1, const TensorArg& input2, const TensorArg& weight, const OptionalTensorArg& bias = {})
FXX_FUNCTION(conv1d, const TensorArg& input, const TensorArg& weight, const Conv1dFuncOptions& options = {})
FXX_FUNCTION(conv2d, const TensorArg& input, const TensorArg& weight, const Conv2dFuncOptions& options = {})
FXX_FUNCTION(conv3d, const TensorArg& input, const TensorArg& weight, const Conv3dFuncOptions& options = {})
FXX_FUNCTION(conv_transpose1d, const TensorArg& input, const TensorArg& weight, const ConvTranspose1dFuncOptions& options = {})
FXX_FUNCTION(conv_transpose2d, const TensorArg& input, const TensorArg& weight, const ConvTranspose2dFuncOptions& options = {})
FXX_FUNCTION(conv_transpose3d, const TensorArg& input, const TensorArg& weight, const ConvTranspose3dFuncOptions& options = {})
FXX_FUNCTION(fold, const TensorArg& input, const FoldFuncOptions& options)
FXX_FUNCTION(unfold, const TensorArg& input, const UnfoldFuncOptions& options)
FXX_FUNCTION(embedding, const TensorArg& input, const TensorArg& weight, const EmbeddingFuncOptions& options = {})
FXX_FUNCTION(embedding_bag, const TensorArg& input, const TensorArg& weight, const EmbeddingBagFuncOptions& options = {})
FXX_FUNCTION(one_hot, const TensorArg& tensor, std::int64_t num_classes = -1)

// Normalisation.
FXX_FUNCTION(batch_norm, const TensorArg& input, const OptionalTensorArg& running_mean, const OptionalTensorArg& running_var, const BatchNormFuncOptions& options = {})
FXX_FUNCTION(instance_norm, const TensorArg& input, const InstanceNormFuncOptions& options = {})
FXX_FUNCTION(layer_norm, const TensorArg& input, const LayerNormFuncOptions& options)
FXX_FUNCTION(group_norm, const TensorArg& input, const GroupNormFuncOptions& options)
FXX_FUNCTION(local_response_norm, const TensorArg& input, const LocalResponseNormFuncOptions& options)
FXX_FUNCTION(normalize, const TensorArg& input, const NormalizeFuncOptions& options = {})

// Pooling.
FXX_FUNCTION(avg_pool1d, const TensorArg& input, const AvgPool1dFuncOptions& options)
FXX_FUNCTION(avg_pool2d, const TensorArg& input, const AvgPool2dFuncOptions& options)
FXX_FUNCTION(avg_pool3d, const TensorArg& input, const AvgPool3dFuncOptions& options)
FXX_FUNCTION(max_pool1d, const TensorArg& input, const MaxPool1dFuncOptions& options)
FXX_FUNCTION(max_pool2d, const TensorArg& input, const MaxPool2dFuncOptions& options)
FXX_FUNCTION(max_pool3d, const TensorArg& input, const MaxPool3dFuncOptions& options)
FXX_OF_TWO(max_pool1d_with_indices, const TensorArg& input, const MaxPool1dFuncOptions& options)
FXX_OF_TWO(max_pool2d_with_indices, const TensorArg& input, const MaxPool2dFuncOptions& options)
FXX_OF_TWO(max_pool3d_with_indices, const TensorArg& input, const MaxPool3dFuncOptions& options)
FXX_FUNCTION(adaptive_avg_pool1d, const TensorArg& input, const AdaptiveAvgPool1dFuncOptions& options)
FXX_FUNCTION(adaptive_avg_pool2d, const TensorArg& input, const AdaptiveAvgPool2dFuncOptions& options)
FXX_FUNCTION(adaptive_avg_pool3d, const TensorArg& input, const AdaptiveAvgPool3dFuncOptions& options)
FXX_FUNCTION(adaptive_max_pool1d, const TensorArg& input, const AdaptiveMaxPool1dFuncOptions& options)
FXX_FUNCTION(adaptive_max_pool2d, const TensorArg& input, const AdaptiveMaxPool2dFuncOptions& options)
FXX_FUNCTION(adaptive_max_pool3d, const TensorArg& input, const AdaptiveMaxPool3dFuncOptions& options)
FXX_OF_TWO(adaptive_max_pool1d_with_indices, const TensorArg& input, const AdaptiveMaxPool1dFuncOptions& options)
FXX_OF_TWO(adaptive_max_pool2d_with_indices, const TensorArg& input, const AdaptiveMaxPool2dFuncOptions& options)
FXX_OF_TWO(adaptive_max_pool3d_with_indices, const TensorArg& input, const AdaptiveMaxPool3dFuncOptions& options)
FXX_FUNCTION(fractional_max_pool2d, const TensorArg& input, const FractionalMaxPool2dFuncOptions& options)
FXX_FUNCTION(fractional_max_pool3d, const TensorArg& input, const FractionalMaxPool3dFuncOptions& options)
FXX_OF_TWO(fractional_max_pool2d_with_indices, const TensorArg& input, const FractionalMaxPool2dFuncOptions& options)
FXX_OF_TWO(fractional_max_pool3d_with_indices, const TensorArg& input, const FractionalMaxPool3dFuncOptions& options)
FXX_FUNCTION(max_unpool1d, const TensorArg& input, const TensorArg& indices, const MaxUnpool1dFuncOptions& options)
FXX_FUNCTION(max_unpool2d, const TensorArg& input, const TensorArg& indices, const MaxUnpool2dFuncOptions& options)
FXX_FUNCTION(max_unpool3d, const TensorArg& input, const TensorArg& indices, const MaxUnpool3dFuncOptions& options)
FXX_FUNCTION(lp_pool1d, const TensorArg& input, const LPPool1dFuncOptions& options)
FXX_FUNCTION(lp_pool2d, const TensorArg& input, const LPPool2dFuncOptions& options)
FXX_FUNCTION(lp_pool3d, const TensorArg& input, const LPPool3dFuncOptions& options)

// Padding, resizing, sampling.
FXX_FUNCTION(pad, const TensorArg& input, const PadFuncOptions& options)
FXX_FUNCTION(pixel_shuffle, const TensorArg& input, const PixelShuffleFuncOptions& options)
FXX_FUNCTION(pixel_unshuffle, const TensorArg& input, const PixelUnshuffleFuncOptions& options)
FXX_FUNCTION(interpolate, const TensorArg& input, const InterpolateFuncOptions& options = {})
FXX_FUNCTION(affine_grid, const TensorArg& theta, const IntListOrOneArg& size, bool align_corners = false)
FXX_FUNCTION(grid_sample, const TensorArg& input, const TensorArg& grid, const GridSampleFuncOptions& options = {})

// Distances and losses.
FXX_FUNCTION(cosine_similarity, const TensorArg& x1, const TensorArg& x2, const CosineSimilarityFuncOptions& options = {})
FXX_FUNCTION(pairwise_distance, const TensorArg& x1, const TensorArg& x2, const PairwiseDistanceFuncOptions& options = {})
FXX_FUNCTION(pdist, const TensorArg& input, double p = 2.0)
FXX_FUNCTION(l1_loss, const TensorArg& input, const TensorArg& target, const L1LossFuncOptions& options = {})
FXX_FUNCTION(mse_loss, const TensorArg& input, const TensorArg& target, const MSELossFuncOptions& options = {})
FXX_FUNCTION(smooth_l1_loss, const TensorArg& input, const TensorArg& target, const SmoothL1LossFuncOptions& options = {})
FXX_FUNCTION(huber_loss, const TensorArg& input, const TensorArg& target, const HuberLossFuncOptions& options = {})
FXX_FUNCTION(kl_div, const TensorArg& input, const TensorArg& target, const KLDivFuncOptions& options = {})
FXX_FUNCTION(cross_entropy, const TensorArg& input, const TensorArg& target, const CrossEntropyFuncOptions& options = {})
FXX_FUNCTION(nll_loss, const TensorArg& input, const TensorArg& target, const NLLLossFuncOptions& options = {})
FXX_FUNCTION(poisson_nll_loss, const TensorArg& input, const TensorArg& target, const PoissonNLLLossFuncOptions& options = {})
FXX_FUNCTION(binary_cross_entropy, const TensorArg& input, const TensorArg& target, const BinaryCrossEntropyFuncOptions& options = {})
FXX_FUNCTION(binary_cross_entropy_with_logits, const TensorArg& input, const TensorArg& target, const BinaryCrossEntropyWithLogitsFuncOptions& options = {})
FXX_FUNCTION(hinge_embedding_loss, const TensorArg& input, const TensorArg& target, const HingeEmbeddingLossFuncOptions& options = {})
FXX_FUNCTION(multi_margin_loss, const TensorArg& input, const TensorArg& target, const MultiMarginLossFuncOptions& options = {})
FXX_FUNCTION(multilabel_margin_loss, const TensorArg& input, const TensorArg& target, const MultilabelMarginLossFuncOptions& options = {})
FXX_FUNCTION(multilabel_soft_margin_loss, const TensorArg& input, const TensorArg& target, const MultilabelSoftMarginLossFuncOptions& options = {})
FXX_FUNCTION(soft_margin_loss, const TensorArg& input, const TensorArg& target, const SoftMarginLossFuncOptions& options = {})
FXX_FUNCTION(cosine_embedding_loss, const TensorArg& input1, const TensorArg& input2, const TensorArg& target, const CosineEmbeddingLossFuncOptions& options = {})
FXX_FUNCTION(margin_ranking_loss, const TensorArg& input1, const TensorArg& input2, const TensorArg& target, const MarginRankingLossFuncOptions& options = {})
FXX_FUNCTION(triplet_margin_loss, const TensorArg& anchor, const TensorArg& positive, const TensorArg& negative, const TripletMarginLossFuncOptions& options = {})
FXX_FUNCTION(triplet_margin_with_distance_loss, const TensorArg& anchor, const TensorArg& positive, const TensorArg& negative, const TripletMarginWithDistanceLossFuncOptions& options = {})
FXX_FUNCTION(ctc_loss, const TensorArg& log_probs, const TensorArg& targets, const TensorArg& input_lengths, const TensorArg& target_lengths, const CTCLossFuncOptions& options = {})
// clang-format on
#undef FXX_FUNCTION
#undef FXX_OF_TWO

// Functions of LibTorch's Python interface that its C++ one has in torch:: only.
using at::scaled_dot_product_attention;
using fxx::functional::scaled_dot_product_attention;

}  // namespace fxx::inline FXX_ABI::nn::functional

#if defined(FXX_HEADER_ONLY)
#include "fxx/torch/functional.ipp"
#endif
