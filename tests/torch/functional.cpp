// torch::nn::functional in a templated forward: every function records what computes the same, whatever its options.
#include "fxx/torch/functional.hpp"

#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "../graph_text.hpp"
#include "fxx/torch/build.hpp"
#include "torch/support.hpp"

using namespace fxx;
using namespace fxx::test;
using torch::Tensor;
namespace F = fxx::nn::functional;

namespace {

std::set<std::string> checked;  // the functions

using Record = std::function<Argument(const std::vector<Proxy>&)>;

/// Compiled once for all functions.
void check_recorded(const Record& record, const Forward& eager, const Tensors& inputs, double tolerance,
                    std::size_t operators) {
  std::shared_ptr<GraphModule> gm;
  switch (inputs.size()) {
    case 1: gm = symbolic_trace([&](Proxy a) { return record({a}); }); break;
    case 2: gm = symbolic_trace([&](Proxy a, Proxy b) { return record({a, b}); }); break;
    case 3: gm = symbolic_trace([&](Proxy a, Proxy b, Proxy c) { return record({a, b, c}); }); break;
    default: gm = symbolic_trace([&](Proxy a, Proxy b, Proxy c, Proxy d) { return record({a, b, c, d}); });
  }
  CAPTURE(to_string(gm->graph()));
  gm->graph().lint();
  if (operators) CHECK(gm->graph().find_nodes(Opcode::call_function).size() == operators);
  torch::manual_seed(1);
  const c10::IValue expected = eager(cloned(inputs));
  torch::manual_seed(1);
  CHECK(relative_difference(gm->run(boxed(cloned(inputs))), expected) <= tolerance);
}

/// `f` is called with proxies and with tensors; `operators` is how many it records, 0 when that does not matter.
template <class Function>
void check(const std::string& name, Function f, const Tensors& inputs, std::size_t operators = 1,
           double tolerance = 0) {
  CAPTURE(name);
  checked.insert(name);
  const auto call = [&](const auto& in) {
    using T = std::remove_cvref_t<decltype(in[0])>;
    if constexpr (std::is_invocable_v<Function, T>) return f(in[0]);
    else if constexpr (std::is_invocable_v<Function, T, T>) return f(in[0], in[1]);
    else if constexpr (std::is_invocable_v<Function, T, T, T>) return f(in[0], in[1], in[2]);
    else return f(in[0], in[1], in[2], in[3]);
  };
  check_recorded([&](const std::vector<Proxy>& in) { return to_argument(in[0].tracer(), call(in)); },
                 [&](const Tensors& in) { return fxx::detail::box_result(call(in)); }, inputs, tolerance, operators);
}

const Tensor v = torch::randn({5, 4}), w = torch::randn({5, 4}), p = torch::rand({5, 4});
const Tensor l = torch::randn({2, 4, 9}), i = torch::randn({2, 4, 8, 8}), k = torch::randn({2, 4, 6, 6, 6});

struct BagImpl : torch::nn::Module {
  Tensor table = register_parameter("table", torch::randn({7, 3})),
         weights = register_parameter("weights", torch::rand({2, 3}));
  template <class T>
  T forward(T ids) {
    return F::embedding_bag(ids, table, F::EmbeddingBagFuncOptions().mode(torch::kSum).per_sample_weights(weights));
  }
};

}  // namespace

TEST_CASE("activations and dropout") {
  check("elu", [](auto x) { return F::elu(x, F::ELUFuncOptions().alpha(0.4)); }, {v});
  check("elu", [](auto x) { return F::elu(x, F::ELUFuncOptions().inplace(true)); }, {v});
  check("selu", [](auto x) { return F::selu(x); }, {v});
  check("celu", [](auto x) { return F::celu(x, F::CELUFuncOptions().alpha(0.4)); }, {v});
  check("hardshrink", [](auto x) { return F::hardshrink(x, F::HardshrinkFuncOptions(0.3)); }, {v});
  check("hardtanh", [](auto x) { return F::hardtanh(x, F::HardtanhFuncOptions().min_val(-0.2).max_val(0.7)); }, {v});
  check("leaky_relu", [](auto x) { return F::leaky_relu(x, F::LeakyReLUFuncOptions().negative_slope(0.3)); }, {v});
  check("logsigmoid", [](auto x) { return F::logsigmoid(x); }, {v});
  check(
      "gumbel_softmax", [](auto x) { return F::gumbel_softmax(x, F::GumbelSoftmaxFuncOptions().tau(0.5).dim(1)); }, {v},
      0);
  check(
      "gumbel_softmax", [](auto x) { return F::gumbel_softmax(x, F::GumbelSoftmaxFuncOptions().hard(true).dim(-1)); },
      {v}, 0);
  check("softmax", [](auto x) { return F::softmax(x, 1); }, {v});
  check("softmax", [](auto x) { return F::softmax(x, F::SoftmaxFuncOptions(0).dtype(torch::kDouble)); }, {v});
  check(
      "softmin", [](auto x) { return F::softmin(x, 1); }, {v}, 2);
  check("log_softmax", [](auto x) { return F::log_softmax(x, F::LogSoftmaxFuncOptions(1)); }, {v});
  check("glu", [](auto x) { return F::glu(x, F::GLUFuncOptions(1)); }, {v});
  check("gelu", [](auto x) { return F::gelu(x); }, {v});
  check("gelu", [](auto x) { return F::gelu(x, F::GELUFuncOptions().approximate("tanh")); }, {v});
  check("silu", [](auto x) { return F::silu(x); }, {v});
  check("mish", [](auto x) { return F::mish(x); }, {v});
  check("prelu", [](auto x, auto y) { return F::prelu(x, y); }, {v, torch::rand({4})});
  check("relu", [](auto x) { return F::relu(x); }, {v});
  check(
      "relu", [](auto x) { return F::relu(x, F::ReLUFuncOptions().inplace(true)) + x; }, {v}, 2);
  check(
      "relu6", [](auto x) { return F::relu6(x * 5, F::ReLU6FuncOptions()); }, {v}, 2);
  check("rrelu", [](auto x) { return F::rrelu(x, F::RReLUFuncOptions().lower(0.1).upper(0.4).training(true)); }, {v});
  check("softplus", [](auto x) { return F::softplus(x, F::SoftplusFuncOptions().beta(0.5).threshold(3.0)); }, {v});
  check("softshrink", [](auto x) { return F::softshrink(x, F::SoftshrinkFuncOptions(0.2)); }, {v});
  check(
      "softsign", [](auto x) { return F::softsign(x); }, {v}, 0);
  check(
      "tanhshrink", [](auto x) { return F::tanhshrink(x); }, {v}, 0);
  check("threshold", [](auto x) { return F::threshold(x, F::ThresholdFuncOptions(0.1, 9)); }, {v});
  check("dropout", [](auto x) { return F::dropout(x, F::DropoutFuncOptions().p(0.3)); }, {v});
  check("dropout", [](auto x) { return F::dropout(x, F::DropoutFuncOptions().p(0.3).training(false)); }, {v});
  check("dropout2d", [](auto x) { return F::dropout2d(x, F::Dropout2dFuncOptions().p(0.3)); }, {i});
  check("dropout3d", [](auto x) { return F::dropout3d(x, F::Dropout3dFuncOptions().p(0.3)); }, {k});
  check("alpha_dropout", [](auto x) { return F::alpha_dropout(x, F::AlphaDropoutFuncOptions().p(0.3).training(true)); },
        {v});
  check("feature_alpha_dropout",
        [](auto x) { return F::feature_alpha_dropout(x, F::FeatureAlphaDropoutFuncOptions().p(0.3).training(true)); },
        {i});
}

TEST_CASE("linear maps, convolutions, embeddings") {
  const Tensor bias = torch::randn({3}), ids = torch::randint(7, {2, 5}, torch::kLong), table = torch::randn({7, 3});
  check(
      "linear", [](auto x, auto y, auto b) { return F::linear(x, y, b); }, {v, torch::randn({3, 4}), bias}, 1, 1e-6);
  check(
      "linear", [](auto x, auto y) { return F::linear(x, y); }, {l, torch::randn({3, 9})}, 1, 1e-6);
  check("bilinear", [](auto x, auto y, auto z) { return F::bilinear(x, y, z); }, {v, w, torch::randn({3, 4, 4})});
  check("conv1d", [bias](auto x, auto y) { return F::conv1d(x, y, F::Conv1dFuncOptions().bias(bias).padding(2)); },
        {l, torch::randn({3, 4, 3})});
  check("conv2d", [](auto x, auto y) { return F::conv2d(x, y, F::Conv2dFuncOptions().stride(2).dilation(2)); },
        {i, torch::randn({3, 4, 3, 3})});
  check("conv2d", [](auto x, auto y) { return F::conv2d(x, y, F::Conv2dFuncOptions().padding(torch::kSame)); },
        {i, torch::randn({3, 4, 3, 3})});
  check("conv3d", [](auto x, auto y) { return F::conv3d(x, y, F::Conv3dFuncOptions().groups(2)); },
        {k, torch::randn({2, 2, 3, 3, 3})});
  check("conv_transpose1d",
        [](auto x, auto y) {
          return F::conv_transpose1d(x, y, F::ConvTranspose1dFuncOptions().stride(2).output_padding(1));
        },
        {l, torch::randn({4, 3, 3})});
  check("conv_transpose2d",
        [](auto x, auto y) { return F::conv_transpose2d(x, y, F::ConvTranspose2dFuncOptions().padding(1)); },
        {i, torch::randn({4, 3, 3, 3})});
  check("conv_transpose3d", [](auto x, auto y) { return F::conv_transpose3d(x, y); },
        {k, torch::randn({4, 3, 3, 3, 3})});
  check("fold", [](auto x) { return F::fold(x, F::FoldFuncOptions({4, 5}, {2, 2})); }, {torch::randn({1, 12, 12})});
  check("unfold", [](auto x) { return F::unfold(x, F::UnfoldFuncOptions({2, 2}).padding(1).stride(2)); }, {i});
  check("embedding", [](auto x, auto y) { return F::embedding(x, y); }, {ids, table});
  check("embedding", [](auto x, auto y) { return F::embedding(x, y, F::EmbeddingFuncOptions().padding_idx(2)); },
        {ids, table});
  check(
      "embedding", [](auto x, auto y) { return F::embedding(x, y, F::EmbeddingFuncOptions().padding_idx(-2)); },
      {ids, table}, 0);
  check(
      "embedding_bag", [](auto x, auto y) { return F::embedding_bag(x, y); }, {ids, table}, 0);
  check(
      "embedding_bag",
      [](auto x, auto y) {
        return F::embedding_bag(x, y,
                                F::EmbeddingBagFuncOptions().mode(torch::kSum).per_sample_weights(torch::ones({2, 5})));
      },
      {ids, table}, 0);
  check(
      "embedding_bag",
      [](auto x, auto y) {
        return F::embedding_bag(
            x, y, F::EmbeddingBagFuncOptions().mode(torch::kMax).offsets(torch::tensor({0, 3})).padding_idx(1));
      },
      {ids.reshape(-1), table}, 0);
  check("one_hot", [](auto x) { return F::one_hot(x, 9); }, {ids});

  // Weights of a module are read when the graph runs.
  BagImpl bag;
  const auto gm = symbolic_trace(bag);
  CHECK(gm->graph().find_nodes(Opcode::get_attr).size() == 2);
  check_traced(bag, *gm, {{torch::randint(7, {2, 3}, torch::kLong)}});
}

TEST_CASE("normalisation") {
  const Tensor scale = torch::rand({4}), shift = torch::randn({4}), mean = torch::randn({4}),
               var = torch::rand({4}) + 1;
  check("batch_norm",
        [&](auto x) {
          return F::batch_norm(x, mean.clone(), var.clone(),
                               F::BatchNormFuncOptions().weight(scale).bias(shift).training(true).momentum(0.3));
        },
        {i});
  check("batch_norm", [](auto x, auto m, auto s) { return F::batch_norm(x, m, s); }, {v, mean, var});
  check("instance_norm",
        [&](auto x) { return F::instance_norm(x, F::InstanceNormFuncOptions().weight(scale).bias(shift)); }, {i});
  check("layer_norm", [&](auto x) { return F::layer_norm(x, F::LayerNormFuncOptions({4}).weight(scale).eps(1e-3)); },
        {v});
  check("group_norm", [&](auto x) { return F::group_norm(x, F::GroupNormFuncOptions(2).bias(shift)); }, {i});
  for (const Tensor& x : {l, i, k, torch::rand({0, 8, 5})})
    check(
        "local_response_norm",
        [](auto t) { return F::local_response_norm(t, F::LocalResponseNormFuncOptions(3).alpha(0.1).k(2)); }, {x}, 0,
        1e-6);
  check(
      "normalize", [](auto x) { return F::normalize(x, F::NormalizeFuncOptions().p(1).dim(0)); }, {v}, 0);
}

TEST_CASE("pooling") {
  check(
      "avg_pool1d",
      [](auto x) { return F::avg_pool1d(x, F::AvgPool1dFuncOptions(3).stride(2).padding(1).count_include_pad(false)); },
      {l});
  check("avg_pool2d",
        [](auto x) {
          return F::avg_pool2d(x, F::AvgPool2dFuncOptions({3, 2}).ceil_mode(true).divisor_override(5));
        },
        {i});
  check("avg_pool3d", [](auto x) { return F::avg_pool3d(x, F::AvgPool3dFuncOptions(2)); }, {k});
  check("max_pool1d", [](auto x) { return F::max_pool1d(x, F::MaxPool1dFuncOptions(3).stride(2)); }, {l});
  check("max_pool2d", [](auto x) { return F::max_pool2d(x, F::MaxPool2dFuncOptions(3).padding(1).dilation(2)); }, {i});
  check("max_pool3d", [](auto x) { return F::max_pool3d(x, F::MaxPool3dFuncOptions(2).ceil_mode(true)); }, {k});
  check("max_pool1d_with_indices", [](auto x) { return F::max_pool1d_with_indices(x, F::MaxPool1dFuncOptions(2)); },
        {l});
  check(
      "max_pool2d_with_indices",
      [](auto x) { return std::get<1>(F::max_pool2d_with_indices(x, F::MaxPool2dFuncOptions(2))); }, {i}, 2);
  check("max_pool3d_with_indices", [](auto x) { return F::max_pool3d_with_indices(x, F::MaxPool3dFuncOptions(2)); },
        {k});
  check("adaptive_avg_pool1d", [](auto x) { return F::adaptive_avg_pool1d(x, F::AdaptiveAvgPool1dFuncOptions(4)); },
        {l});
  check("adaptive_avg_pool2d",
        [](auto x) {
          return F::adaptive_avg_pool2d(x, F::AdaptiveAvgPool2dFuncOptions({3, std::nullopt}));
        },
        {i});
  check("adaptive_avg_pool3d", [](auto x) { return F::adaptive_avg_pool3d(x, F::AdaptiveAvgPool3dFuncOptions(3)); },
        {k});
  check(
      "adaptive_max_pool1d", [](auto x) { return F::adaptive_max_pool1d(x, F::AdaptiveMaxPool1dFuncOptions(4)); }, {l},
      2);
  check(
      "adaptive_max_pool2d",
      [](auto x) {
        return F::adaptive_max_pool2d(x, F::AdaptiveMaxPool2dFuncOptions({std::nullopt, 3}));
      },
      {i}, 2);
  check(
      "adaptive_max_pool3d", [](auto x) { return F::adaptive_max_pool3d(x, F::AdaptiveMaxPool3dFuncOptions(3)); }, {k},
      2);
  check("adaptive_max_pool1d_with_indices",
        [](auto x) { return F::adaptive_max_pool1d_with_indices(x, F::AdaptiveMaxPool1dFuncOptions(4)); }, {l});
  check("adaptive_max_pool2d_with_indices",
        [](auto x) { return F::adaptive_max_pool2d_with_indices(x, F::AdaptiveMaxPool2dFuncOptions(4)); }, {i});
  check("adaptive_max_pool3d_with_indices",
        [](auto x) { return F::adaptive_max_pool3d_with_indices(x, F::AdaptiveMaxPool3dFuncOptions(4)); }, {k});
  check(
      "fractional_max_pool2d",
      [](auto x) { return F::fractional_max_pool2d(x, F::FractionalMaxPool2dFuncOptions(2).output_size(3)); }, {i}, 0);
  check(
      "fractional_max_pool2d",
      [](auto x) {
        return F::fractional_max_pool2d(
            x, F::FractionalMaxPool2dFuncOptions(2).output_ratio(torch::ExpandingArray<2, double>({0.5, 0.7})));
      },
      {i[0]}, 0);
  check(
      "fractional_max_pool3d",
      [](auto x) { return F::fractional_max_pool3d(x, F::FractionalMaxPool3dFuncOptions(2).output_size(3)); }, {k}, 0);
  check("fractional_max_pool2d_with_indices",
        [](auto x) {
          return F::fractional_max_pool2d_with_indices(
              x, F::FractionalMaxPool2dFuncOptions(2).output_size(3)._random_samples(torch::full({2, 4, 2}, 0.3)));
        },
        {i});
  check(
      "fractional_max_pool3d_with_indices",
      [](auto x) {
        return F::fractional_max_pool3d_with_indices(x, F::FractionalMaxPool3dFuncOptions(2).output_size(3));
      },
      {k}, 0);
  const auto [p1, n1] = torch::max_pool1d_with_indices(l, 3);
  const auto [p2, n2] = torch::max_pool2d_with_indices(i, 2);
  const auto [p3, n3] = torch::max_pool3d_with_indices(k, 2);
  check(
      "max_unpool1d", [](auto x, auto n) { return F::max_unpool1d(x, n, F::MaxUnpool1dFuncOptions(3)); }, {p1, n1}, 0);
  check(
      "max_unpool2d", [](auto x, auto n) { return F::max_unpool2d(x, n, F::MaxUnpool2dFuncOptions(2)); }, {p2, n2}, 0);
  check(
      "max_unpool2d",
      [](auto x, auto n) {
        return F::max_unpool2d(x, n, F::MaxUnpool2dFuncOptions(2).output_size(std::vector<std::int64_t>{2, 4, 9, 8}));
      },
      {p2, n2}, 0);
  check(
      "max_unpool3d", [](auto x, auto n) { return F::max_unpool3d(x, n, F::MaxUnpool3dFuncOptions(2)); }, {p3, n3}, 0);
  check(
      "lp_pool1d", [](auto x) { return F::lp_pool1d(x, F::LPPool1dFuncOptions(2, 3).stride(2)); }, {l}, 0);
  check(
      "lp_pool2d",
      [](auto x) {
        return F::lp_pool2d(x, F::LPPool2dFuncOptions(3, {3, 2}).ceil_mode(true));
      },
      {i}, 0);
  check(
      "lp_pool3d",
      [](auto x) {
        return F::lp_pool3d(x, F::LPPool3dFuncOptions(2, {3, 2, 2}));
      },
      {k}, 0);
}

TEST_CASE("padding, resizing, sampling") {
  check("pad", [](auto x) { return F::pad(x, F::PadFuncOptions({1, 2})); }, {l});
  check("pad", [](auto x) { return F::pad(x, F::PadFuncOptions({1, 2, 0, 1}).value(2.5)); }, {i});
  check("pad", [](auto x) { return F::pad(x, F::PadFuncOptions({1, 2, 2, 1}).mode(torch::kReflect)); }, {i});
  check("pad", [](auto x) { return F::pad(x, F::PadFuncOptions({1, 2}).mode(torch::kReplicate)); }, {l});
  check("pad", [](auto x) { return F::pad(x, F::PadFuncOptions({1, 2, 2, 1}).mode(torch::kCircular)); }, {i});
  check("pixel_shuffle", [](auto x) { return F::pixel_shuffle(x, F::PixelShuffleFuncOptions(2)); }, {i});
  check("pixel_unshuffle", [](auto x) { return F::pixel_unshuffle(x, F::PixelUnshuffleFuncOptions(2)); }, {i});
  const auto resized = [](const Tensor& x, F::InterpolateFuncOptions options) {
    check(
        "interpolate", [options](auto t) { return F::interpolate(t, options); }, {x}, 0);
  };
  using Options = F::InterpolateFuncOptions;
  const std::vector<std::int64_t> size1{5}, size2{5, 11}, size3{4, 7, 3};
  const std::vector<double> scale1{1.5}, scale2{1.5, 2.0}, scale3{0.5, 1.5, 2.0};
  resized(l, Options().size(size1));
  resized(i, Options().size(size2));
  resized(k, Options().size(size3));
  resized(l, Options().scale_factor(scale1));
  resized(i, Options().scale_factor(scale2));
  resized(k, Options().scale_factor(scale3));
  resized(i, Options().scale_factor(scale2).recompute_scale_factor(true));
  for (const auto& [x, size] : {std::pair(l, size1), {i, size2}, {k, size3}}) {
    resized(x, Options().size(size).mode(torch::kNearestExact).align_corners(false));
    resized(x, Options().size(size).mode(torch::kArea));
  }
  resized(l, Options().size(size1).mode(torch::kLinear).align_corners(true));
  resized(i, Options().scale_factor(scale2).mode(torch::kBilinear).align_corners(false));
  resized(i, Options().size(size2).mode(torch::kBilinear).align_corners(true));
  resized(i, Options().size(size2).mode(torch::kBicubic).align_corners(false));
  resized(i, Options().size(size2).mode(torch::kBilinear).align_corners(false).antialias(true));
  resized(i, Options().size(size2).mode(torch::kBicubic).align_corners(false).antialias(true));
  resized(k, Options().size(size3).mode(torch::kTrilinear).align_corners(false));
  check("affine_grid", [](auto x) { return F::affine_grid(x, {2, 3, 4, 5}, true); }, {torch::randn({2, 2, 3})});
  check("grid_sample",
        [](auto x, auto g) {
          return F::grid_sample(
              x, g,
              F::GridSampleFuncOptions().mode(torch::kNearest).padding_mode(torch::kReflection).align_corners(true));
        },
        {i, torch::rand({2, 3, 3, 2}) * 2 - 1});
  check("grid_sample",
        [](auto x, auto g) { return F::grid_sample(x, g, F::GridSampleFuncOptions().align_corners(false)); },
        {i, torch::rand({2, 3, 3, 2}) * 2 - 1});
}

TEST_CASE("distances and losses") {
  const Tensor target = torch::randint(4, {5}, torch::kLong), sign = torch::tensor({1, -1, 1, 1, -1}),
               one = torch::randn({5}), other = torch::randn({5});
  const Tensor bits = torch::randint(2, {5, 4}, torch::kLong), weight = torch::rand({4}), soft = torch::rand({5, 4});
  check("cosine_similarity",
        [](auto x, auto y) { return F::cosine_similarity(x, y, F::CosineSimilarityFuncOptions().dim(0)); }, {v, w});
  check("pairwise_distance",
        [](auto x, auto y) { return F::pairwise_distance(x, y, F::PairwiseDistanceFuncOptions().p(1).keepdim(true)); },
        {v, w});
  check("pdist", [](auto x) { return F::pdist(x, 1.0); }, {v});
  check("l1_loss", [](auto x, auto y) { return F::l1_loss(x, y, F::L1LossFuncOptions(torch::kSum)); }, {v, w});
  check("mse_loss", [](auto x, auto y) { return F::mse_loss(x, y); }, {v, w});
  check("smooth_l1_loss",
        [](auto x, auto y) { return F::smooth_l1_loss(x, y, F::SmoothL1LossFuncOptions(torch::kNone).beta(0.4)); },
        {v, w});
  check("huber_loss", [](auto x, auto y) { return F::huber_loss(x, y, F::HuberLossFuncOptions().delta(0.4)); }, {v, w});
  check(
      "kl_div", [](auto x, auto y) { return F::kl_div(x, y, F::KLDivFuncOptions().reduction(torch::kBatchMean)); },
      {v, p}, 0);
  check("kl_div",
        [](auto x, auto y) { return F::kl_div(x, y, F::KLDivFuncOptions().reduction(torch::kSum).log_target(true)); },
        {v, w});
  check("cross_entropy", [](auto x, auto y) { return F::cross_entropy(x, y); }, {v, target});
  check("cross_entropy",
        [weight](auto x, auto y) {
          return F::cross_entropy(
              x, y,
              F::CrossEntropyFuncOptions().weight(weight).ignore_index(1).label_smoothing(0.2).reduction(torch::kSum));
        },
        {v, target});
  check("nll_loss", [](auto x, auto y) { return F::nll_loss(x, y, F::NLLLossFuncOptions().reduction(torch::kNone)); },
        {v, target});
  check("poisson_nll_loss",
        [](auto x, auto y) { return F::poisson_nll_loss(x, y, F::PoissonNLLLossFuncOptions().full(true)); }, {v, p});
  check("binary_cross_entropy",
        [weight](auto x, auto y) {
          return F::binary_cross_entropy(x, y, F::BinaryCrossEntropyFuncOptions().weight(weight));
        },
        {p, soft});
  check("binary_cross_entropy_with_logits",
        [weight](auto x, auto y) {
          return F::binary_cross_entropy_with_logits(x, y,
                                                     F::BinaryCrossEntropyWithLogitsFuncOptions().pos_weight(weight));
        },
        {v, p});
  check("hinge_embedding_loss",
        [](auto x, auto y) { return F::hinge_embedding_loss(x, y, F::HingeEmbeddingLossFuncOptions().margin(2)); },
        {one, sign});
  check("multi_margin_loss",
        [weight](auto x, auto y) {
          return F::multi_margin_loss(x, y, F::MultiMarginLossFuncOptions().p(2).weight(weight));
        },
        {v, target});
  check("multilabel_margin_loss", [](auto x, auto y) { return F::multilabel_margin_loss(x, y); }, {v, bits});
  for (const F::MultilabelSoftMarginLossFuncOptions& options :
       {F::MultilabelSoftMarginLossFuncOptions(), F::MultilabelSoftMarginLossFuncOptions().reduction(torch::kSum),
        F::MultilabelSoftMarginLossFuncOptions().reduction(torch::kNone).weight(weight)})
    check(
        "multilabel_soft_margin_loss",
        [options](auto x, auto y) { return F::multilabel_soft_margin_loss(x, y, options); }, {v, bits}, 0);
  check("soft_margin_loss", [](auto x, auto y) { return F::soft_margin_loss(x, y); }, {one, sign});
  check("cosine_embedding_loss",
        [](auto x, auto y, auto t) {
          return F::cosine_embedding_loss(x, y, t, F::CosineEmbeddingLossFuncOptions().margin(0.2));
        },
        {v, w, sign});
  check("margin_ranking_loss",
        [](auto x, auto y, auto t) {
          return F::margin_ranking_loss(x, y, t, F::MarginRankingLossFuncOptions().margin(0.2));
        },
        {one, other, sign});
  check("triplet_margin_loss",
        [](auto x, auto y, auto z) {
          return F::triplet_margin_loss(x, y, z, F::TripletMarginLossFuncOptions().swap(true).p(1));
        },
        {v, w, p});
  check(
      "triplet_margin_with_distance_loss",
      [](auto x, auto y, auto z) {
        return F::triplet_margin_with_distance_loss(
            x, y, z, F::TripletMarginWithDistanceLossFuncOptions().swap(true).margin(0.5));
      },
      {v, w, p}, 0);
  check("ctc_loss",
        [](auto x, auto y, auto a, auto b) {
          return F::ctc_loss(x, y, a, b, F::CTCLossFuncOptions().zero_infinity(true));
        },
        {torch::log_softmax(torch::randn({6, 2, 4}), 2), torch::randint(1, 4, {2, 3}, torch::kLong),
         torch::tensor({6, 5}), torch::tensor({3, 2})});
  check("scaled_dot_product_attention", [](auto q, auto y, auto z) { return F::scaled_dot_product_attention(q, y, z); },
        {l, l, l});
}

TEST_CASE("what a graph cannot hold is refused, and says what to do") {
  const auto refused = [](auto f) {
    const auto fault = fault_of<TraceError>([&] { (void)symbolic_trace(f); });
    CHECK(fault.id == 305);
    CHECK(fault.says("nn::functional::"));
  };
  const Tensor table = torch::randn({7, 3});
  refused([&](Proxy x) { return F::embedding(x, table, F::EmbeddingFuncOptions().max_norm(1)); });
  refused([&](Proxy x) { return F::embedding_bag(x, table, F::EmbeddingBagFuncOptions().max_norm(1)); });
  refused([&](Proxy x) { return F::normalize(x, F::NormalizeFuncOptions().out(torch::empty({1}))); });
  refused([](Proxy x) { return F::interpolate(x, F::InterpolateFuncOptions()); });
  refused([](Proxy x) {
    return F::interpolate(x, F::InterpolateFuncOptions().size(std::vector<std::int64_t>{3}).mode(torch::kBilinear));
  });
  refused([](Proxy x) {
    return F::triplet_margin_with_distance_loss(x, x, x,
                                                F::TripletMarginWithDistanceLossFuncOptions().distance_function(
                                                    [](const Tensor& a, const Tensor& b) { return a - b; }));
  });
}

TEST_CASE("every function that LibTorch's headers declare is here, and was checked above") {
  const std::filesystem::path folder =
      std::filesystem::path(torch_folder()) / "include/torch/csrc/api/include/torch/nn/functional";
  std::set<std::string> declared;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    std::stringstream stream;
    stream << std::ifstream(file.path()).rdbuf();
    // What stands in namespace detail is LibTorch's own; so are names with an underscore in front.
    std::string text = stream.str();
    for (std::size_t at; (at = text.find("namespace detail {")) != text.npos;)
      text.erase(at, text.find("} // namespace detail", at) + 21 - at);
    const std::regex form(R"(inline (Tensor|std::tuple<Tensor, Tensor>) ([a-z]\w*)\()");
    for (auto at = std::sregex_iterator(text.begin(), text.end(), form); at != std::sregex_iterator(); ++at)
      declared.insert((*at)[2]);
  }
  CHECK(declared.size() > 90);
  std::set<std::string> ours = checked;
  ours.insert("multi_head_attention_forward");  // fxx::nn::MultiheadAttention is one node
  ours.erase("scaled_dot_product_attention");   // LibTorch's C++ has it in torch:: only
  CHECK(ours == declared);
}
