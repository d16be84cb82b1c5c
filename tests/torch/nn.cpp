// The modules of torch::nn as leaves: none is missing, each is one node that runs as the module does, in every mode;
// and containers of modules in a templated forward.
#include "fxx/torch/nn.hpp"

#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "../graph_text.hpp"
#include "fxx/passes/leaf_modules.hpp"
#include "fxx/torch/build.hpp"
#include "fxx/torch/containers.hpp"
#include "torch/support.hpp"

using namespace fxx;
using namespace fxx::test;
using torch::Tensor;
namespace fnn = fxx::nn;

namespace {

std::string body(const GraphModule& gm) { return body_of(gm.graph()); }

/// A module that calls one other. One type for all of them: tracing is compiled once.
template <std::size_t N>
struct CallerImpl : torch::nn::Module {
  std::function<Argument(const std::vector<Proxy>&)> call;
  Argument forward(Proxy a)
    requires(N == 1)
  {
    return call({a});
  }
  Argument forward(Proxy a, Proxy b)
    requires(N == 2)
  {
    return call({a, b});
  }
  Argument forward(Proxy a, Proxy b, Proxy c)
    requires(N == 3)
  {
    return call({a, b, c});
  }
};

std::set<std::string> checked;  // the classes

/// A module as one node: what it computes is what the module computes, training or not.
template <std::size_t N = 1, class Leaf>
void check_leaf(const std::string& name, Leaf module, const Tensors& inputs) {
  CAPTURE(name);
  REQUIRE(inputs.size() == N);
  checked.insert(name);
  CallerImpl<N> caller;
  caller.register_module("m", module.ptr());
  const auto apply = [&](auto&& on) {
    return [&]<std::size_t... I>(std::index_sequence<I...>) { return module(on[I]...); }(std::make_index_sequence<N>());
  };
  caller.call = [&](const std::vector<Proxy>& in) { return to_argument(in[0].tracer(), apply(in)); };
  const Tensors buffers = module->buffers(), before = cloned(buffers);
  // Statistics that a call updates are the module's own, so each call starts from the same ones.
  const auto run = [&](auto&& call) {
    {
      const torch::NoGradGuard no_grad;
      for (std::size_t i = 0; i < buffers.size(); ++i) buffers[i].copy_(before[i]);
    }
    torch::manual_seed(1);
    c10::IValue result = call();
    return std::pair(std::move(result), cloned(buffers));
  };
  for (const bool training : {true, false}) {
    CAPTURE(training);
    module->train(training);
    const auto gm = symbolic_trace(caller);
    CHECK(gm->graph().find_nodes(Opcode::call_module).size() == 1);
    gm->graph().lint();
    const auto [expected, expected_buffers] = run([&] { return fxx::detail::box_result(apply(cloned(inputs))); });
    Interpreter interpreter(*gm);
    for (const bool interpreted : {false, true}) {
      CAPTURE(interpreted);
      const auto [given, given_buffers] =
          run([&] { return interpreted ? interpreter.run(boxed(cloned(inputs))) : gm->run(boxed(cloned(inputs))); });
      CHECK(relative_difference(given, expected) == 0);
      for (std::size_t i = 0; i < buffers.size(); ++i) {
        CAPTURE(i);
        CHECK(same(given_buffers[i], expected_buffers[i]));
      }
    }
  }
}

Tensor randn(at::IntArrayRef sizes) { return torch::randn(sizes); }
Tensor indices(std::int64_t below, at::IntArrayRef sizes) { return torch::randint(below, sizes, torch::kLong); }

}  // namespace

TEST_CASE("linear, convolution, normalisation, embedding") {
  const Tensor v = randn({5, 4}), l = randn({2, 4, 9}), i = randn({2, 4, 6, 6}), k = randn({2, 4, 4, 4, 4});
  check_leaf("Linear", fnn::Linear(4, 3), {v});
  check_leaf<2>("Bilinear", fnn::Bilinear(4, 4, 3), {v, v});
  check_leaf("Identity", fnn::Identity(), {v});
  check_leaf("Flatten", fnn::Flatten(), {i});
  check_leaf("Unflatten", fnn::Unflatten(torch::nn::UnflattenOptions(1, {2, 2})), {v});
  check_leaf("Conv1d", fnn::Conv1d(4, 2, 3), {l});
  check_leaf("Conv2d", fnn::Conv2d(torch::nn::Conv2dOptions(4, 2, 3).padding(1).padding_mode(torch::kReflect)), {i});
  check_leaf("Conv3d", fnn::Conv3d(4, 2, 3), {k});
  check_leaf("ConvTranspose1d", fnn::ConvTranspose1d(4, 2, 3), {l});
  check_leaf("ConvTranspose2d", fnn::ConvTranspose2d(4, 2, 3), {i});
  check_leaf("ConvTranspose3d", fnn::ConvTranspose3d(4, 2, 3), {k});
  check_leaf("Fold", fnn::Fold(torch::nn::FoldOptions({4, 5}, {2, 2})), {randn({1, 12, 12})});
  check_leaf("Unfold", fnn::Unfold(torch::nn::UnfoldOptions({2, 2})), {i});
  check_leaf("BatchNorm1d", fnn::BatchNorm1d(4), {v});
  check_leaf("BatchNorm2d", fnn::BatchNorm2d(4), {i});
  check_leaf("BatchNorm3d", fnn::BatchNorm3d(4), {k});
  check_leaf("BatchNorm1d", fnn::BatchNorm1d(torch::nn::BatchNorm1dOptions(4).momentum(std::nullopt)), {v});
  check_leaf("BatchNorm2d", fnn::BatchNorm2d(torch::nn::BatchNorm2dOptions(4).affine(false)), {i});
  check_leaf("BatchNorm2d", fnn::BatchNorm2d(torch::nn::BatchNorm2dOptions(4).track_running_stats(false)), {i});
  check_leaf("InstanceNorm1d", fnn::InstanceNorm1d(4), {l});
  check_leaf("InstanceNorm2d", fnn::InstanceNorm2d(torch::nn::InstanceNorm2dOptions(4).affine(true)), {i});
  check_leaf("InstanceNorm3d", fnn::InstanceNorm3d(torch::nn::InstanceNorm3dOptions(4).track_running_stats(true)), {k});
  check_leaf("LayerNorm", fnn::LayerNorm(torch::nn::LayerNormOptions({4})), {v});
  check_leaf("GroupNorm", fnn::GroupNorm(2, 4), {i});
  check_leaf("LocalResponseNorm", fnn::LocalResponseNorm(2), {i});
  check_leaf("CrossMapLRN2d", fnn::CrossMapLRN2d(2), {i});
  check_leaf("Embedding", fnn::Embedding(7, 3), {indices(7, {2, 5})});
  check_leaf("EmbeddingBag", fnn::EmbeddingBag(7, 3), {indices(7, {2, 5})});
  check_leaf<2>("EmbeddingBag", fnn::EmbeddingBag(7, 3), {indices(7, {6}), torch::tensor({0, 4})});
}

TEST_CASE("activations and dropout") {
  const Tensor v = randn({5, 4}), i = randn({2, 4, 6, 6}), k = randn({2, 4, 4, 4, 4});
  check_leaf("Dropout", fnn::Dropout(0.4), {v});
  check_leaf("Dropout2d", fnn::Dropout2d(0.4), {i});
  check_leaf("Dropout3d", fnn::Dropout3d(0.4), {k});
  check_leaf("AlphaDropout", fnn::AlphaDropout(0.4), {v});
  check_leaf("FeatureAlphaDropout", fnn::FeatureAlphaDropout(0.4), {i});
  check_leaf("ReLU", fnn::ReLU(torch::nn::ReLUOptions(true)), {v});
  check_leaf("ReLU6", fnn::ReLU6(), {v});
  check_leaf("GELU", fnn::GELU(torch::nn::GELUOptions().approximate("tanh")), {v});
  check_leaf("SiLU", fnn::SiLU(), {v});
  check_leaf("Mish", fnn::Mish(), {v});
  check_leaf("Sigmoid", fnn::Sigmoid(), {v});
  check_leaf("Tanh", fnn::Tanh(), {v});
  check_leaf("ELU", fnn::ELU(torch::nn::ELUOptions().alpha(0.5)), {v});
  check_leaf("SELU", fnn::SELU(), {v});
  check_leaf("CELU", fnn::CELU(torch::nn::CELUOptions().alpha(0.5)), {v});
  check_leaf("GLU", fnn::GLU(1), {v});
  check_leaf("LeakyReLU", fnn::LeakyReLU(torch::nn::LeakyReLUOptions().negative_slope(0.2)), {v});
  check_leaf("PReLU", fnn::PReLU(), {v});
  check_leaf("RReLU", fnn::RReLU(torch::nn::RReLUOptions().lower(0.1).upper(0.3)), {v});
  check_leaf("Hardtanh", fnn::Hardtanh(torch::nn::HardtanhOptions().min_val(-0.5).max_val(0.5)), {v});
  check_leaf("Hardshrink", fnn::Hardshrink(0.3), {v});
  check_leaf("Softplus", fnn::Softplus(torch::nn::SoftplusOptions().beta(0.5)), {v});
  check_leaf("Softshrink", fnn::Softshrink(0.3), {v});
  check_leaf("Softsign", fnn::Softsign(), {v});
  check_leaf("Tanhshrink", fnn::Tanhshrink(), {v});
  check_leaf("Threshold", fnn::Threshold(0.1, 20), {v});
  check_leaf("LogSigmoid", fnn::LogSigmoid(), {v});
  check_leaf("Softmax", fnn::Softmax(1), {v});
  check_leaf("Softmin", fnn::Softmin(1), {v});
  check_leaf("Softmax2d", fnn::Softmax2d(), {i});
  check_leaf("LogSoftmax", fnn::LogSoftmax(1), {v});
}

TEST_CASE("pooling, padding, resizing") {
  const Tensor l = randn({2, 4, 8}), i = randn({2, 4, 8, 8}), k = randn({2, 2, 6, 6, 6});
  check_leaf("MaxPool1d", fnn::MaxPool1d(2), {l});
  check_leaf("MaxPool2d", fnn::MaxPool2d(torch::nn::MaxPool2dOptions(3).stride(2).padding(1)), {i});
  check_leaf("MaxPool3d", fnn::MaxPool3d(2), {k});
  check_leaf("AvgPool1d", fnn::AvgPool1d(2), {l});
  check_leaf("AvgPool2d", fnn::AvgPool2d(2), {i});
  check_leaf("AvgPool3d", fnn::AvgPool3d(2), {k});
  check_leaf("AdaptiveAvgPool1d", fnn::AdaptiveAvgPool1d(3), {l});
  check_leaf("AdaptiveAvgPool2d", fnn::AdaptiveAvgPool2d(torch::nn::AdaptiveAvgPool2dOptions({3, std::nullopt})), {i});
  check_leaf("AdaptiveAvgPool3d", fnn::AdaptiveAvgPool3d(3), {k});
  check_leaf("AdaptiveMaxPool1d", fnn::AdaptiveMaxPool1d(3), {l});
  check_leaf("AdaptiveMaxPool2d", fnn::AdaptiveMaxPool2d(3), {i});
  check_leaf("AdaptiveMaxPool3d", fnn::AdaptiveMaxPool3d(3), {k});
  check_leaf("FractionalMaxPool2d", fnn::FractionalMaxPool2d(torch::nn::FractionalMaxPool2dOptions(2).output_size(3)),
             {i});
  check_leaf("FractionalMaxPool3d", fnn::FractionalMaxPool3d(torch::nn::FractionalMaxPool3dOptions(2).output_size(3)),
             {k});
  check_leaf("LPPool1d", fnn::LPPool1d(2, 3), {l});
  check_leaf("LPPool2d", fnn::LPPool2d(2, torch::ExpandingArray<2>({3, 2})), {i});
  check_leaf("LPPool3d", fnn::LPPool3d(2, torch::ExpandingArray<3>({3, 2, 2})), {k});
  const auto [p1, n1] = torch::max_pool1d_with_indices(l, 2);
  const auto [p2, n2] = torch::max_pool2d_with_indices(i, 2);
  const auto [p3, n3] = torch::max_pool3d_with_indices(k, 2);
  check_leaf<2>("MaxUnpool1d", fnn::MaxUnpool1d(2), {p1, n1});
  check_leaf<2>("MaxUnpool2d", fnn::MaxUnpool2d(2), {p2, n2});
  check_leaf<2>("MaxUnpool3d", fnn::MaxUnpool3d(2), {p3, n3});
  check_leaf("PixelShuffle", fnn::PixelShuffle(2), {i});
  check_leaf("PixelUnshuffle", fnn::PixelUnshuffle(2), {i});
  check_leaf("Upsample",
             fnn::Upsample(
                 torch::nn::UpsampleOptions().scale_factor({{2.0, 2.0}}).mode(torch::kBilinear).align_corners(false)),
             {i});
  check_leaf("ReflectionPad1d", fnn::ReflectionPad1d(2), {l});
  check_leaf("ReflectionPad2d", fnn::ReflectionPad2d(2), {i});
  check_leaf("ReflectionPad3d", fnn::ReflectionPad3d(1), {k});
  check_leaf("ReplicationPad1d", fnn::ReplicationPad1d(2), {l});
  check_leaf("ReplicationPad2d", fnn::ReplicationPad2d(2), {i});
  check_leaf("ReplicationPad3d", fnn::ReplicationPad3d(1), {k});
  check_leaf("ZeroPad1d", fnn::ZeroPad1d(2), {l});
  check_leaf("ZeroPad2d", fnn::ZeroPad2d(2), {i});
  check_leaf("ZeroPad3d", fnn::ZeroPad3d(1), {k});
  check_leaf("ConstantPad1d", fnn::ConstantPad1d(2, 3.5), {l});
  check_leaf("ConstantPad2d", fnn::ConstantPad2d(2, 3.5), {i});
  check_leaf("ConstantPad3d", fnn::ConstantPad3d(1, 3.5), {k});
}

TEST_CASE("options are written as C++ has them, those too that no literal spells") {
  CallerImpl<1> caller;
  fnn::ConstantPad2d pad(1, -std::numeric_limits<double>::infinity());
  caller.register_module("m", pad.ptr());
  caller.call = [&](const std::vector<Proxy>& in) { return to_argument(in[0].tracer(), pad(in[0])); };
  CHECK(symbolic_trace(caller)->owner().find_module("m")->construct ==
        "torch::nn::ConstantPad2dOptions(1, -std::numeric_limits<double>::infinity())");
}

TEST_CASE("modules that add a dimension in front of some inputs stay calls until it is known that theirs have it") {
  const auto of = [](auto leaf, bool training, const Tensor& x) {
    CallerImpl<1> caller;
    caller.register_module("m", leaf.ptr());
    caller.train(training);
    caller.call = [&](const std::vector<Proxy>& in) { return to_argument(in[0].tracer(), leaf(in[0])); };
    const auto gm = symbolic_trace(caller);
    const std::size_t expanded = expand_modules(gm->graph(), gm->owner());
    gm->recompile();
    const torch::NoGradGuard no_grad;
    torch::manual_seed(2);
    const Tensor expected = leaf.ptr()->forward(x.clone());
    torch::manual_seed(2);
    CHECK(same((*gm)(x.clone()), expected));
    return expanded;
  };
  const Tensor one = randn({4, 6, 6});
  for (const bool training : {false, true}) {
    CAPTURE(training);
    CHECK(of(fnn::InstanceNorm2d(torch::nn::InstanceNorm2dOptions(4).affine(true)), training, one) == 0);
    CHECK(of(fnn::Dropout2d(0.4), training, one) == (training ? 0 : 1));
    CHECK(of(fnn::Dropout3d(0.4), training, one.unsqueeze(1)) == (training ? 0 : 1));
    CHECK(of(fnn::BatchNorm2d(torch::nn::BatchNorm2dOptions(4).track_running_stats(false)), training,
             one.unsqueeze(0)) == 1);
  }
}

TEST_CASE("alpha dropout writes to no input, whatever its options say") {
  const Tensor x = randn({5, 4, 3}), before = x.clone();
  const auto check = [&](auto leaf) {
    CallerImpl<1> caller;
    caller.register_module("m", leaf.ptr());
    caller.call = [&](const std::vector<Proxy>& in) { return to_argument(in[0].tracer(), leaf(in[0])); };
    const auto gm = symbolic_trace(caller);
    CHECK(gm->owner().find_module("m")->construct.find(".inplace(true)") != std::string::npos);
    CHECK(expand_modules(gm->graph(), gm->owner()) == 1);
    gm->recompile();
    torch::manual_seed(2);
    const Tensor expected = leaf.ptr()->forward(x);
    torch::manual_seed(2);
    CHECK(same((*gm)(x), expected));
    CHECK(same(x, before));
  };
  check(fnn::AlphaDropout(torch::nn::AlphaDropoutOptions(0.4).inplace(true)));
  check(fnn::FeatureAlphaDropout(torch::nn::FeatureAlphaDropoutOptions(0.4).inplace(true)));
}

TEST_CASE("recurrence, attention, transformers: several results, states, masks") {
  const Tensor s = randn({5, 2, 4}), h = randn({1, 2, 6}), c = randn({2, 6}), e = randn({2, 4});
  check_leaf("RNN", fnn::RNN(4, 6), {s});
  check_leaf<2>("RNN", fnn::RNN(4, 6), {s, h});
  check_leaf("LSTM", fnn::LSTM(torch::nn::LSTMOptions(4, 6).num_layers(2).bidirectional(true)), {s});
  check_leaf("GRU", fnn::GRU(4, 6), {s});
  check_leaf<2>("GRU", fnn::GRU(4, 6), {s, h});
  check_leaf<2>("RNNCell", fnn::RNNCell(4, 6), {e, c});
  check_leaf("LSTMCell", fnn::LSTMCell(4, 6), {e});
  check_leaf<2>("GRUCell", fnn::GRUCell(4, 6), {e, c});
  check_leaf<3>("MultiheadAttention", fnn::MultiheadAttention(4, 2), {s, s, s});
  check_leaf<2>("Transformer", fnn::Transformer(torch::nn::TransformerOptions(4, 2, 1, 1).dim_feedforward(8)), {s, s});
  const torch::nn::TransformerEncoderLayer encoder(torch::nn::TransformerEncoderLayerOptions(4, 2).dim_feedforward(8));
  const torch::nn::TransformerDecoderLayer decoder(torch::nn::TransformerDecoderLayerOptions(4, 2).dim_feedforward(8));
  check_leaf("TransformerEncoderLayer", fnn::TransformerEncoderLayer(encoder.ptr()), {s});
  check_leaf("TransformerEncoder", fnn::TransformerEncoder(torch::nn::TransformerEncoderOptions(encoder, 2)), {s});
  check_leaf<2>("TransformerDecoderLayer", fnn::TransformerDecoderLayer(decoder.ptr()), {s, s});
  check_leaf<2>("TransformerDecoder", fnn::TransformerDecoder(torch::nn::TransformerDecoderOptions(decoder, 2)),
                {s, s});
}

namespace {
struct CellImpl : torch::nn::Module {
  fnn::LSTMCell cell = register_module("cell", fnn::LSTMCell(4, 6));
  template <class T>
  T forward(T x) {
    auto [hidden, state] = cell(x);
    return hidden + state * 2;
  }
};
struct HalvesImpl : torch::nn::Module {
  std::vector<Tensor> forward(Tensor x) { return x.chunk(2); }
};
}  // namespace

TEST_CASE("results of modules have their types in the C++ of a graph, and in what is built of it") {
  CellImpl net;
  const auto gm = symbolic_trace(net);
  CHECK(gm->owner().find_module("cell")->result == "std::tuple<torch::Tensor, torch::Tensor>");
  CHECK(gm->code().find("std::get<1>(") != std::string::npos);
  const torch::NoGradGuard no_grad;
  const Tensor x = randn({2, 4});
  CHECK(same((*build(*gm, {x}))(x), net.forward(x)));
  register_leaf<HalvesImpl>();
  const auto unnamed = [](const Tensor&) { return std::string(); };
  CHECK(describe_module(HalvesImpl(), "halves", unnamed).result == "std::vector<torch::Tensor>");
}

namespace {
struct CtcImpl : torch::nn::Module {
  fnn::CTCLoss loss = register_module("loss", fnn::CTCLoss());
  template <class T>
  T forward(T a, T b, T c, T d) {
    return loss(a, b, c, d);
  }
};
struct AdaptiveImpl : torch::nn::Module {
  fnn::AdaptiveLogSoftmaxWithLoss loss = register_module(
      "loss", fnn::AdaptiveLogSoftmaxWithLoss(torch::nn::AdaptiveLogSoftmaxWithLossOptions(4, 6, {2, 4}).div_value(2)));
  template <class T>
  T forward(T x, T target) {
    const auto result = loss(x, target);
    return result.output * 2 + result.loss;
  }
};
}  // namespace

TEST_CASE("losses and distances") {
  const Tensor x = randn({5, 4}), y = randn({5, 4}), p = torch::rand({5, 4}), one = randn({5}), other = randn({5});
  const Tensor sign = torch::tensor({1, -1, 1, 1, -1}), target = indices(4, {5}), bits = indices(2, {5, 4});
  check_leaf<2>("CosineSimilarity", fnn::CosineSimilarity(), {x, y});
  check_leaf<2>("PairwiseDistance", fnn::PairwiseDistance(), {x, y});
  check_leaf<2>("L1Loss", fnn::L1Loss(), {x, y});
  check_leaf<2>("MSELoss", fnn::MSELoss(torch::nn::MSELossOptions(torch::kSum)), {x, y});
  check_leaf<2>("SmoothL1Loss", fnn::SmoothL1Loss(torch::nn::SmoothL1LossOptions(torch::kNone).beta(0.5)), {x, y});
  check_leaf<2>("HuberLoss", fnn::HuberLoss(), {x, y});
  check_leaf<2>("CrossEntropyLoss", fnn::CrossEntropyLoss(torch::nn::CrossEntropyLossOptions().label_smoothing(0.1)),
                {x, target});
  check_leaf<2>("NLLLoss", fnn::NLLLoss(), {x, target});
  check_leaf<2>("PoissonNLLLoss", fnn::PoissonNLLLoss(), {x, y});
  check_leaf<2>("KLDivLoss", fnn::KLDivLoss(torch::nn::KLDivLossOptions(torch::kBatchMean)), {x, p});
  check_leaf<2>("BCELoss", fnn::BCELoss(), {p, bits.to(torch::kFloat)});
  check_leaf<2>("BCEWithLogitsLoss", fnn::BCEWithLogitsLoss(), {x, p});
  check_leaf<3>("MarginRankingLoss", fnn::MarginRankingLoss(), {one, other, sign});
  check_leaf<2>("HingeEmbeddingLoss", fnn::HingeEmbeddingLoss(), {one, sign});
  check_leaf<3>("CosineEmbeddingLoss", fnn::CosineEmbeddingLoss(), {x, y, sign});
  check_leaf<2>("MultiMarginLoss", fnn::MultiMarginLoss(), {x, target});
  check_leaf<2>("MultiLabelMarginLoss", fnn::MultiLabelMarginLoss(), {x, bits});
  check_leaf<2>("MultiLabelSoftMarginLoss", fnn::MultiLabelSoftMarginLoss(), {x, bits});
  check_leaf<2>("SoftMarginLoss", fnn::SoftMarginLoss(), {one, sign});
  check_leaf<3>("TripletMarginLoss", fnn::TripletMarginLoss(), {x, y, p});
  check_leaf<3>("TripletMarginWithDistanceLoss", fnn::TripletMarginWithDistanceLoss(), {x, y, p});
  check_leaf("Functional", fnn::Functional(torch::relu), {x});

  // Losses with two more inputs that are tensors of lengths.
  CtcImpl ctc;
  checked.insert("CTCLoss");
  const Tensors lengths = {torch::log_softmax(randn({6, 2, 4}), 2), indices(3, {2, 3}) + 1, torch::tensor({6, 5}),
                           torch::tensor({3, 2})};
  check_traced(ctc, *symbolic_trace(ctc), {lengths});

  // A result with named parts.
  AdaptiveImpl adaptive;
  checked.insert("AdaptiveLogSoftmaxWithLoss");
  const auto gm = symbolic_trace(adaptive);
  CHECK(body(*gm) ==
        "loss = loss(%arg0, %arg1)\ngetitem = operator::getitem(%loss, 0)\nmul = aten::mul.Scalar(%getitem, 2)\n"
        "getitem_1 = operator::getitem(%loss, 1)\nadd = aten::add.Scalar(%mul, %getitem_1)\nreturn %add\n");
  CHECK(gm->owner().find_module("loss")->result == "auto");
  const torch::NoGradGuard no_grad;
  const Tensor classes = indices(6, {5});
  CHECK(same((*gm)(x, classes), adaptive.forward(x, classes)));
}

TEST_CASE("every module that LibTorch's headers declare is here, and was checked above") {
  const std::filesystem::path folder =
      std::filesystem::path(torch_folder()) / "include/torch/csrc/api/include/torch/nn/modules";
  std::set<std::string> declared;
  for (const auto& file : std::filesystem::recursive_directory_iterator(folder)) {
    if (file.path().extension() != ".h") continue;
    std::stringstream text;
    text << std::ifstream(file.path()).rdbuf();
    const std::string all = text.str();
    for (const std::regex& form : {std::regex(R"(TORCH_MODULE\((\w+)\))"),
                                   std::regex(R"(class (\w+)\s*:\s*public\s+(torch::nn::)?ModuleHolder<\w+Impl>)")})
      for (auto at = std::sregex_iterator(all.begin(), all.end(), form); at != std::sregex_iterator(); ++at)

        if ((*at)[1].length() > 1) declared.insert((*at)[1]);  // comments speak of M
  }
  CHECK(declared.size() > 120);
  std::set<std::string> ours;
#define FXX_NAME(name) ours.insert(#name);
  FXX_LEAF_MODULES(FXX_NAME)
#undef FXX_NAME
  for (const std::string& name : ours) {
    CAPTURE(name);
    CHECK(checked.contains(name));
  }
  for (const char* container : {"Sequential", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict"})
    ours.insert(container);
  CHECK(ours == declared);
}

// --- several results, states -----------------------------------------------------------------------------------------

namespace {
struct TaggerImpl : torch::nn::Module {
  fnn::LSTM lstm = register_module("lstm", fnn::LSTM(torch::nn::LSTMOptions(4, 6).batch_first(true)));
  fnn::GRU gru = register_module("gru", fnn::GRU(torch::nn::GRUOptions(6, 6).batch_first(true)));
  template <class T>
  auto forward(T x) {
    auto [out, state] = lstm(x);
    auto [h, c] = state;
    auto again = lstm(x, std::make_tuple(h, c * 0.5));
    auto [more, last] = gru(std::get<0>(again), h);
    return std::make_tuple(out + more, last, std::get<1>(again));
  }
};
}  // namespace

TEST_CASE("a state goes in as a tuple and comes out as one; parts that nobody uses make no node") {
  TaggerImpl net;
  const auto gm = symbolic_trace(net);
  CHECK(body(*gm) ==
        "lstm = lstm(%x)\ngetitem = operator::getitem(%lstm, 1)\ngetitem_1 = operator::getitem(%getitem, 1)\n"
        "mul = aten::mul.Scalar(%getitem_1, 0.5)\ngetitem_2 = operator::getitem(%getitem, 0)\n"
        "lstm_1 = lstm(%x, (%getitem_2, %mul))\ngetitem_3 = operator::getitem(%lstm_1, 0)\n"
        "gru = gru(%getitem_3, %getitem_2)\ngetitem_4 = operator::getitem(%lstm, 0)\n"
        "getitem_5 = operator::getitem(%gru, 0)\nadd = aten::add.Tensor(%getitem_4, %getitem_5)\n"
        "getitem_6 = operator::getitem(%gru, 1)\ngetitem_7 = operator::getitem(%lstm_1, 1)\n"
        "getitem_8 = operator::getitem(%getitem_7, 0)\ngetitem_9 = operator::getitem(%getitem_7, 1)\n"
        "return (%add, %getitem_6, (%getitem_8, %getitem_9))\n");
  check_traced(net, *gm, {{randn({1, 3, 4})}});
}

// --- containers ------------------------------------------------------------------------------------------------------

namespace {
struct BlockImpl : torch::nn::Module {
  fnn::Linear fc;
  explicit BlockImpl(int size) : fc(register_module("fc", fnn::Linear(size, size))) {}
  template <class T>
  T forward(T x) {
    return relu(fc(x)) + x;
  }
};
FXX_MODULE(Block);
struct AddImpl : torch::nn::Module {
  template <class T>
  T forward(T a, T b) {
    return a + b;
  }
};
FXX_MODULE(Add);
/// A module that knows nothing of proxies.
struct PlainImpl : torch::nn::Module {
  Tensor forward(const Tensor& x) { return x * 3; }
};
TORCH_MODULE(Plain);

struct StackImpl : torch::nn::Module {
  fnn::Sequential layers{fnn::Linear(4, 4), Block(4), torch::nn::ReLU(), Plain(),
                         fnn::Sequential({{"inner", Block(4)}, {"act", torch::nn::Tanh()}})};
  StackImpl() { register_module("layers", layers); }
  template <class T>
  T forward(T x) {
    return layers(x) * 2;
  }
};

struct ListsImpl : torch::nn::Module {
  fnn::ModuleList list = register_module("list", fnn::ModuleList(torch::nn::Linear(4, 4), torch::nn::ReLU()));
  fnn::ModuleDict dict = register_module("dict", fnn::ModuleDict());
  fnn::ParameterList weights = register_module("weights", fnn::ParameterList(torch::randn({4}), torch::randn({4})));
  fnn::ParameterDict named = register_module("named", fnn::ParameterDict());
  ListsImpl() {
    list->push_back(Block(4));
    torch::OrderedDict<std::string, std::shared_ptr<torch::nn::Module>> modules;
    for (const char* name : {"snake_case", "PascalCase", "ALL_CAPS"})
      modules.insert(name, torch::nn::Linear(4, 4).ptr());
    dict->update(modules);
    named->insert("bias", torch::randn({4}));
  }
  template <class T>
  T forward(T x) {
    for (const auto& module : *list) x = fnn::call(module, x);
    for (const auto& item : dict->items()) x = fnn::call(item.second, x);
    return x * (*weights)[0] + (*weights)[1] + (*named)["bias"];
  }
};
}  // namespace

TEST_CASE("Sequential is traced through: leaves are nodes, templated modules what they do") {
  StackImpl net;
  const auto gm = symbolic_trace(net);
  CHECK(body(*gm) ==
        "layers_0 = layers.0(%x)\nlayers_1_fc = layers.1.fc(%layers_0)\nrelu = aten::relu(%layers_1_fc)\n"
        "add = aten::add.Tensor(%relu, %layers_0)\nlayers_2 = layers.2(%add)\nlayers_3 = layers.3(%layers_2)\n"
        "layers_4_inner_fc = layers.4.inner.fc(%layers_3)\nrelu_1 = aten::relu(%layers_4_inner_fc)\n"
        "add_1 = aten::add.Tensor(%relu_1, %layers_3)\nlayers_4_act = layers.4.act(%add_1)\n"
        "mul = aten::mul.Scalar(%layers_4_act, 2)\nreturn %mul\n");
  check_traced(net, *gm, {{randn({3, 4})}});
  // By itself, as the root.
  const auto alone = symbolic_trace(net.layers);
  CHECK(same((*alone)(torch::ones({2, 4})), net.layers(torch::ones({2, 4}))));
  CHECK(gm->graph().find_nodes(Opcode::call_module)[1]->module_stack().innermost().name == "layers.1.fc");
}

TEST_CASE("a Sequential is a module like LibTorch's: it is filled, indexed, copied, saved, trained") {
  fnn::Sequential layers;
  CHECK(layers->is_empty());
  layers->push_back(torch::nn::Linear(4, 3));
  layers->push_back("act", torch::nn::ReLU());
  layers->push_back(fnn::Linear(3, 2));
  CHECK(layers->size() == 3);
  CHECK(layers->named_children().keys() == std::vector<std::string>{"0", "act", "2"});
  CHECK(layers->at<torch::nn::LinearImpl>(0).weight.size(0) == 3);
  CHECK_THROWS_AS((void)layers->at<torch::nn::ReLUImpl>(0), c10::Error);
  CHECK_THROWS_AS((void)layers->ptr(3), c10::Error);
  const Tensor x = randn({5, 4});
  auto copy = std::dynamic_pointer_cast<fnn::SequentialImpl>(layers->clone());
  REQUIRE(copy != nullptr);
  CHECK(same(copy->forward(x), layers(x)));
  CHECK_FALSE(copy->parameters()[0].is_same(layers->parameters()[0]));
  const torch::nn::Sequential theirs(torch::nn::Linear(4, 3), torch::nn::ReLU());
  fnn::Sequential extended;
  for (const auto& child : theirs->children()) extended->push_back(child);
  CHECK(same(extended(x), theirs->children()[1]->as<torch::nn::ReLU>()->forward(
                              theirs->children()[0]->as<torch::nn::Linear>()->forward(x))));
  std::stringstream archive;
  torch::save(layers, archive);
  torch::nn::init::zeros_(layers->at<torch::nn::LinearImpl>(0).weight);
  torch::load(layers, archive);
  CHECK(same(copy->forward(x), layers(x)));
  layers->eval();
  CHECK_FALSE((*layers)[1]->is_training());
  CHECK_THROWS_AS((void)fnn::Sequential()->forward(x), c10::Error);
  // Several inputs for the first module, several results of the last.
  fnn::Sequential two{Add(), torch::nn::LSTM(4, 3)};
  const Tensor s = randn({2, 5, 4});
  const auto [out, state] = two->forward<std::tuple<Tensor, std::tuple<Tensor, Tensor>>>(s, s);
  CHECK(same(out, std::get<0>((*two)[1]->as<torch::nn::LSTM>()->forward(s + s))));
  CHECK(std::get<0>(state).size(-1) == 3);
}

TEST_CASE("modules and parameters in lists and dictionaries; node names are snake case, targets as they are") {
  ListsImpl net;
  const auto gm = symbolic_trace(net);
  CHECK(
      body(*gm) ==
      "list_0 = list.0(%x)\nlist_1 = list.1(%list_0)\nlist_2_fc = list.2.fc(%list_1)\nrelu = aten::relu(%list_2_fc)\n"
      "add = aten::add.Tensor(%relu, %list_1)\ndict_snake_case = dict.snake_case(%add)\n"
      "dict_pascal_case = dict.PascalCase(%dict_snake_case)\ndict_all_caps = dict.ALL_CAPS(%dict_pascal_case)\n"
      "weights_0 = attribute weights.0\nmul = aten::mul.Tensor(%dict_all_caps, %weights_0)\n"
      "weights_1 = attribute weights.1\nadd_1 = aten::add.Tensor(%mul, %weights_1)\nnamed_bias = attribute named.bias\n"
      "add_2 = aten::add.Tensor(%add_1, %named_bias)\nreturn %add_2\n");
  check_traced(net, *gm, {{randn({3, 4})}});
}

namespace {
struct OuterImpl : torch::nn::Module {
  fnn::Sequential layers;
  explicit OuterImpl(const std::shared_ptr<GraphModule>& inner) : layers(torch::nn::ReLU(), inner) {
    register_module("layers", layers);
  }
  template <class T>
  T forward(T x) {
    return layers(x);
  }
};
struct ScaleImpl : torch::nn::Module {
  Tensor forward(Tensor x, double by = 2.0, std::optional<Tensor> shift = torch::ones({2})) { return x * by + *shift; }
};
TORCH_MODULE(Scale);
struct StrangerImpl : torch::nn::Module {
  template <class T>
  T forward(T x) {
    return x;
  }
};
struct HolderImpl : torch::nn::Module {
  std::shared_ptr<torch::nn::Module> any = register_module("any", std::make_shared<StrangerImpl>());
  template <class T>
  T forward(T x) {
    return fnn::call(any, x);
  }
};
}  // namespace

TEST_CASE("a GraphModule in a Sequential, and a module that nobody knows how to call") {
  Block block(4);
  const auto inner = symbolic_trace(*block);
  OuterImpl outer(inner);
  const auto gm = symbolic_trace(outer);
  check_traced(outer, *gm, {{randn({2, 4})}});

  HolderImpl holder;
  CHECK(fault_of<RunError>([&] { (void)symbolic_trace(holder); }).id == 702);
  CHECK(fault_of<RunError>([&] { (void)holder.forward(randn({2})); }).id == 702);
}

TEST_CASE("what a graph leaves out has the default that forward declares; more or less than it takes is refused") {
  const Tensor x = randn({3, 2}), by = torch::ones({2});
  fnn::Sequential layers{Scale()};
  CHECK(same(layers(x), x * 2 + by));
  for (std::size_t count = 0; count <= 4; ++count) {
    CAPTURE(count);
    Graph graph;
    Node* in = graph.placeholder("x");
    std::vector<Argument> args = {in, 3, {}, 4};
    args.resize(count);
    if (count == 3) args[2] = graph.get_attr("shift");
    graph.output(graph.call_module("scale", args));
    GraphModule gm({{"scale", std::make_shared<ScaleImpl>()}, {"shift", by * 5}}, graph);
    if (count == 1) CHECK(same(gm(x), x * 2 + by));
    if (count == 2) CHECK(same(gm(x), x * 3 + by));
    if (count == 3) CHECK(same(gm(x), x * 3 + by * 5));
    if (count > 0 && count < 4) continue;
    const Fault fault = fault_of<RunError>([&] { gm(x); });
    CHECK(fault.id == 701);
    CHECK(fault.says("Scale does not take " + std::to_string(count) + " arguments"));
  }
}
