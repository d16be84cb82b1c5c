// Whole models, traced as they are: results and gradients of the graph and of its rewritten form, in single and double
// precision.
#include "../examples/resnet.hpp"
#include "../examples/sentence_search/bert.hpp"
#include "fxx/torch/fold_constants.hpp"
#include "torch/support.hpp"

using namespace fxx;
using namespace fxx::test;
namespace F = torch::nn::functional;
using torch::Tensor;

namespace {

/// What a model must show besides being right.
struct Expected {
  std::set<std::string> modules;        // that the graph calls
  std::vector<std::string> fired = {};  // rules of optimize_for_inference, "dropout: 2"
  double tolerance = 0;                 // of the traced graph
};

/// Everything that holds for a model: `traced` inputs are traced with, `other` has the same shapes and other values.
template <class M>
void check_model(M& module, const Tensors& traced, const Tensors& other, const Expected& expected) {
  module.eval();
  const auto in_double = [](const Tensors& inputs) {
    Tensors out;
    for (const Tensor& t : inputs) out.push_back(t.is_floating_point() ? t.to(torch::kDouble) : t);
    return out;
  };
  {
    const auto gm = trace(module, cloned(traced));
    CHECK(called_modules(gm->graph()) == expected.modules);
    check_forward(forward_of(module), &module, *gm, {traced, other}, expected.tolerance);
    const auto originals = module.named_parameters();
    for (const auto& item : gm->named_parameters()) {
      CAPTURE(item.key());
      const Tensor* original = originals.find(item.key());
      REQUIRE(original != nullptr);
      CHECK(original->is_same(item.value()));
    }
  }
  const auto optimised = [&](const Tensors& in, const Tensors& out, double tolerance) {
    const auto gm = trace(module, cloned(in));
    const OptimizeReport report = optimize_for_inference(*gm);
    std::string fired;
    for (const auto& stage : report.stages) fired += "[" + stage.fired + "]";
    for (const std::string& rule : expected.fired) {
      CAPTURE(rule);
      CAPTURE(fired);
      CHECK(fired.find(rule) != fired.npos);
    }
    gm->graph().lint();
    CHECK(same_structure(parse_graph(to_string(gm->graph())), gm->graph()));
    CHECK(gm->code().find(" forward(") != std::string::npos);
    const torch::NoGradGuard no_grad;
    for (const Tensors& inputs : {in, out})
      CHECK(relative_difference(forward_of(*gm)(inputs), forward_of(module)(inputs)) <= tolerance);
  };
  optimised(traced, other, 1e-5);
  module.to(torch::kDouble);
  optimised(in_double(traced), in_double(other), 1e-10);
  module.to(torch::kFloat);
}

/// Batch norm does nothing that shows before its statistics are other than those it starts with.
void make_statistics(torch::nn::Module& module) {
  const torch::NoGradGuard no_grad;
  for (const auto& item : module.named_buffers()) {
    if (item.key().ends_with("running_mean")) item.value().uniform_(-0.5, 0.5);
    if (item.key().ends_with("running_var")) item.value().uniform_(0.5, 2);
  }
  for (const auto& item : module.named_parameters())
    if (item.value().dim() == 1) item.value().uniform_(0.5, 1.5);
}

TEST_CASE("ResNet") {
  ResNetImpl net({1, 2, 1, 1}, 10);
  make_statistics(net);
  std::set<std::string> modules{"conv1", "bn1", "fc"};
  for (const auto& item : net.named_modules({}, false))
    if (item.value()->as<torch::nn::Conv2d>() || item.value()->as<torch::nn::BatchNorm2d>()) modules.insert(item.key());
  check_model(net, {torch::randn({2, 3, 64, 64})}, {torch::randn({2, 3, 64, 64})},
              {modules, {"fold batch norm, conv2d: 14", "folded: 28"}});
}

/// Depthwise and pointwise convolutions with every activation of the family, squeeze and excitation, a residual.
struct MobileBlockImpl : torch::nn::Module {
  torch::nn::Conv2d expand{nullptr}, depthwise{nullptr}, project{nullptr}, squeeze{nullptr}, excite{nullptr};
  torch::nn::BatchNorm2d bn1{nullptr}, bn2{nullptr}, bn3{nullptr};
  torch::nn::ReLU6 relu6{nullptr};
  MobileBlockImpl(std::int64_t channels, std::int64_t hidden) {
    using torch::nn::Conv2dOptions;
    expand = register_module("expand", torch::nn::Conv2d(Conv2dOptions(channels, hidden, 1).bias(false)));
    bn1 = register_module("bn1", torch::nn::BatchNorm2d(hidden));
    relu6 = register_module("relu6", torch::nn::ReLU6(torch::nn::ReLU6Options().inplace(true)));
    depthwise = register_module(
        "depthwise", torch::nn::Conv2d(Conv2dOptions(hidden, hidden, 3).padding(1).groups(hidden).bias(false)));
    bn2 = register_module("bn2", torch::nn::BatchNorm2d(hidden));
    squeeze = register_module("squeeze", torch::nn::Conv2d(Conv2dOptions(hidden, 4, 1)));
    excite = register_module("excite", torch::nn::Conv2d(Conv2dOptions(4, hidden, 1)));
    project = register_module("project", torch::nn::Conv2d(Conv2dOptions(hidden, channels, 1).bias(false)));
    bn3 = register_module("bn3", torch::nn::BatchNorm2d(channels));
  }
  Tensor forward(Tensor x) {
    Tensor y = relu6(bn1(expand(x)));
    y = torch::hardswish(bn2(depthwise(y)));
    y = y * torch::hardsigmoid(excite(torch::relu(squeeze(torch::adaptive_avg_pool2d(y, {1, 1})))));
    return x + bn3(project(y));
  }
};
TORCH_MODULE(MobileBlock);
struct MobileNetImpl : torch::nn::Module {
  torch::nn::Sequential features =
      register_module("features", torch::nn::Sequential(MobileBlock(8, 24), MobileBlock(8, 16)));
  torch::nn::Dropout dropout = register_module("dropout", torch::nn::Dropout(0.2));
  torch::nn::Linear classifier = register_module("classifier", torch::nn::Linear(8, 5));
  Tensor forward(Tensor x) { return classifier(dropout(features->forward(x).mean({2, 3}))); }
};

TEST_CASE("MobileNet") {
  MobileNetImpl net;
  make_statistics(net);
  std::set<std::string> modules{"classifier", "dropout"};
  for (const char* block : {"features.0.", "features.1."})
    for (const char* name : {"expand", "bn1", "depthwise", "bn2", "squeeze", "excite", "project", "bn3"})
      modules.insert(std::string(block) + name);
  check_model(net, {torch::randn({2, 8, 14, 14})}, {torch::randn({2, 8, 14, 14})},
              {modules, {"fold batch norm, conv2d: 6", "dropout: 1"}});
}

// --- transformers --------------------------------------------------------------------------------------------------

struct LibTorchEncoderImpl : torch::nn::Module {
  torch::nn::TransformerEncoder encoder{nullptr};
  explicit LibTorchEncoderImpl(bool gelu) {
    torch::nn::TransformerEncoderLayerOptions layer(16, 4);
    layer.dim_feedforward(32).dropout(0.1);
    if (gelu) layer.activation(torch::kGELU);
    encoder = register_module("encoder", torch::nn::TransformerEncoder(torch::nn::TransformerEncoderOptions(
                                             torch::nn::TransformerEncoderLayer(layer), 2)));
  }
  Tensor forward(Tensor x) { return encoder(x); }
};

TEST_CASE("LibTorch's own transformer encoder") {
  for (const bool gelu : {false, true}) {
    CAPTURE(gelu);
    LibTorchEncoderImpl net(gelu);
    std::set<std::string> modules;
    for (const char* layer : {"encoder.layers.0.", "encoder.layers.1."})
      for (const char* name :
           {"self_attn.out_proj", "linear1", "linear2", "norm1", "norm2", "dropout", "dropout1", "dropout2"})
        modules.insert(std::string(layer) + name);
    // Attention drops out by a function that is given its module's flag.
    modules.insert("encoder.layers.0.self_attn._dropout0"), modules.insert("encoder.layers.1.self_attn._dropout1");
    check_model(net, {torch::randn({7, 2, 16})}, {torch::randn({7, 2, 16})}, {modules, {"dropout: "}});
  }
}

/// Pre-norm attention written by hand, over a templated forward: both ways of tracing take it.
struct EncoderBlockImpl : torch::nn::Module {
  static constexpr std::int64_t heads = 4, size = 4;
  fxx::nn::LayerNorm norm1{nullptr}, norm2{nullptr};
  fxx::nn::Linear q{nullptr}, k{nullptr}, v{nullptr}, out{nullptr}, up{nullptr}, down{nullptr};
  fxx::nn::Dropout dropout{nullptr};
  EncoderBlockImpl() {
    norm1 = register_module("norm1", fxx::nn::LayerNorm(torch::nn::LayerNormOptions({16})));
    norm2 = register_module("norm2", fxx::nn::LayerNorm(torch::nn::LayerNormOptions({16})));
    q = register_module("q", fxx::nn::Linear(16, 16));
    k = register_module("k", fxx::nn::Linear(16, 16));
    v = register_module("v", fxx::nn::Linear(16, 16));
    out = register_module("out", fxx::nn::Linear(16, 16));
    up = register_module("up", fxx::nn::Linear(16, 48));
    down = register_module("down", fxx::nn::Linear(48, 16));
    dropout = register_module("dropout", fxx::nn::Dropout(0.3));
  }
  template <class T>
  T forward(T x) {
    const auto batch = x.size(0), length = x.size(1);
    const auto split = [&](const T& y) { return y.view({batch, length, heads, size}).transpose(1, 2); };
    T y = norm1(x);
    T scores = matmul(split(q(y)), split(k(y)).transpose(-1, -2)) / 2.0;
    T context = matmul(dropout(softmax(scores, -1)), split(v(y))).transpose(1, 2).contiguous();
    x = x + out(context.view({batch, length, heads * size}));
    y = up(norm2(x));
    return x + dropout(down(y * sigmoid(y)));
  }
};

TEST_CASE("a transformer block written by hand") {
  EncoderBlockImpl block;
  const std::set<std::string> modules{"norm1", "norm2", "q", "k", "v", "out", "up", "down", "dropout"};
  check_model(block, {torch::randn({2, 6, 16})}, {torch::randn({2, 6, 16})},
              {modules, {"dropout: 2", "attention, divided: 1", "silu: 1", "merge linears: 1", "folded: 2"}});
}

TEST_CASE("BERT") {
  BertConfig config;
  config.vocab_size = 50, config.hidden_size = 24, config.num_hidden_layers = 2, config.num_attention_heads = 3;
  config.intermediate_size = 40, config.max_position_embeddings = 12;
  SentenceEncoderImpl net(config);
  std::set<std::string> modules{"embeddings.word_embeddings", "embeddings.LayerNorm", "embeddings.dropout"};
  for (const char* layer : {"encoder.layer.0.", "encoder.layer.1."})
    for (const char* name :
         {"attention.self.query", "attention.self.key", "attention.self.value", "attention.self.dropout",
          "attention.output.dense", "attention.output.LayerNorm", "attention.output.dropout", "intermediate.dense",
          "output.dense", "output.LayerNorm", "output.dropout"})
      modules.insert(std::string(layer) + name);
  for (const char* name : {"embeddings.position_embeddings", "embeddings.token_type_embeddings"}) modules.insert(name);
  const auto mask = torch::ones({2, 9}, torch::kLong);
  auto padded = mask.clone();
  padded.index_put_({1, torch::indexing::Slice(4, torch::indexing::None)}, 0);
  check_model(net, {torch::randint(50, {2, 9}), mask}, {torch::randint(50, {2, 9}), padded},
              {modules, {"dropout: 7", "gelu: 2", "attention, divided, masked: 2", "merge linears: 2"}});
}

/// Causal attention with a registered mask; the output layer shares the token embedding's weight.
struct DecoderImpl : torch::nn::Module {
  torch::nn::Embedding tokens{nullptr}, positions{nullptr};
  torch::nn::LayerNorm norm1{nullptr}, norm2{nullptr}, last{nullptr};
  torch::nn::Linear qkv{nullptr}, proj{nullptr}, up{nullptr}, down{nullptr}, head{nullptr};
  Tensor mask;
  bool tied_module;
  explicit DecoderImpl(bool tied_module) : tied_module(tied_module) {
    tokens = register_module("tokens", torch::nn::Embedding(20, 16));
    positions = register_module("positions", torch::nn::Embedding(10, 16));
    const auto norm = [] { return torch::nn::LayerNorm(torch::nn::LayerNormOptions({16})); };
    norm1 = register_module("norm1", norm());
    norm2 = register_module("norm2", norm());
    last = register_module("last", norm());
    qkv = register_module("qkv", torch::nn::Linear(16, 48));
    proj = register_module("proj", torch::nn::Linear(16, 16));
    up = register_module("up", torch::nn::Linear(16, 64));
    down = register_module("down", torch::nn::Linear(64, 16));
    if (tied_module) {
      head = register_module("head", torch::nn::Linear(torch::nn::LinearOptions(16, 20).bias(false)));
      head->weight = tokens->weight;  // as LibTorch users tie weights; the one that was registered stays behind
    }
    mask = register_buffer("mask", torch::full({10, 10}, -1e4).triu(1));
  }
  Tensor forward(Tensor ids) {
    const auto batch = ids.size(0), length = ids.size(1);
    Tensor x = tokens(ids) + positions(torch::arange(length));
    const auto parts = qkv(norm1(x)).chunk(3, -1);
    const auto split = [&](const Tensor& y) { return y.view({batch, length, 2, 8}).transpose(1, 2); };
    Tensor scores = torch::matmul(split(parts[0]), split(parts[1]).transpose(-2, -1)) * (1 / std::sqrt(8.0));
    scores = scores + mask.index({torch::indexing::Slice(0, length), torch::indexing::Slice(0, length)});
    Tensor context =
        torch::matmul(torch::softmax(scores, -1), split(parts[2])).transpose(1, 2).reshape({batch, length, 16});
    x = x + proj(context);
    Tensor y = up(norm2(x));
    y = 0.5 * y * (1 + torch::tanh(std::sqrt(2 / M_PI) * (y + 0.044715 * torch::pow(y, 3))));
    x = last(x + down(y));
    return tied_module ? head(x) : F::linear(x, tokens->weight);
  }
};

TEST_CASE("a GPT-style decoder: causal mask, tied weights") {
  for (const bool tied_module : {false, true}) {
    CAPTURE(tied_module);
    DecoderImpl net(tied_module);
    const std::set<std::string> modules{"tokens", "positions", "norm1", "norm2", "last", "qkv", "proj", "up", "down"};
    // The head's weight is no tensor of its own, so it is the operator: copies and files of it have the weight it uses.
    check_model(net, {torch::randint(20, {2, 7})}, {torch::randint(20, {2, 7})},
                {modules, {"attention, scaled, masked: 1", "gelu, tanh: 1"}});
  }
}

// --- recurrence ----------------------------------------------------------------------------------------------------

struct TaggerImpl : torch::nn::Module {
  torch::nn::Embedding words =
      register_module("words", torch::nn::Embedding(torch::nn::EmbeddingOptions(30, 8).padding_idx(0)));
  torch::nn::LSTM lstm = register_module(
      "lstm",
      torch::nn::LSTM(torch::nn::LSTMOptions(8, 6).num_layers(2).bidirectional(true).batch_first(true).dropout(0.4)));
  torch::nn::Linear tags = register_module("tags", torch::nn::Linear(12, 5));
  Tensor forward(Tensor ids) { return F::log_softmax(tags(std::get<0>(lstm(words(ids)))), 2); }
};
struct GruImpl : torch::nn::Module {
  torch::nn::GRU gru = register_module("gru", torch::nn::GRU(torch::nn::GRUOptions(5, 4).num_layers(2)));
  torch::nn::RNN rnn = register_module("rnn", torch::nn::RNN(torch::nn::RNNOptions(4, 3).nonlinearity(torch::kReLU)));
  torch::nn::LSTMCell cell = register_module("cell", torch::nn::LSTMCell(3, 3));
  std::tuple<Tensor, Tensor> forward(Tensor x, Tensor h) {
    auto [output, state] = gru(x, h);
    auto [last, hidden] = rnn(output);
    auto [a, b] = cell(last[-1]);
    return {a + b, torch::cat({state[0], hidden[0]}, 1)};
  }
};

TEST_CASE("an LSTM tagger, and stacked recurrent modules with an initial state") {
  TaggerImpl tagger;
  check_model(tagger, {torch::randint(30, {3, 7})}, {torch::randint(30, {3, 7})}, {{"words", "lstm", "tags"}});
  GruImpl gru;
  check_model(gru, {torch::randn({6, 2, 5}), torch::randn({2, 2, 4})},
              {torch::randn({6, 2, 5}), torch::randn({2, 2, 4})}, {{"gru", "rnn"}});
}

// --- images and volumes --------------------------------------------------------------------------------------------

struct UNetImpl : torch::nn::Module {
  torch::nn::Conv2d down1{nullptr}, down2{nullptr}, bottom{nullptr}, merge2{nullptr}, merge1{nullptr}, last{nullptr};
  torch::nn::ConvTranspose2d up2{nullptr};
  torch::nn::BatchNorm2d bn{nullptr}, bn_up{nullptr};
  UNetImpl() {
    const auto conv = [](std::int64_t in, std::int64_t out) {
      return torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, 3).padding(1));
    };
    down1 = register_module("down1", conv(1, 4));
    down2 = register_module("down2", conv(4, 8));
    bottom = register_module("bottom", conv(8, 16));
    bn = register_module("bn", torch::nn::BatchNorm2d(16));
    up2 = register_module(
        "up2", torch::nn::ConvTranspose2d(torch::nn::ConvTranspose2dOptions(16, 8, 2).stride(2).bias(false)));
    bn_up = register_module("bn_up", torch::nn::BatchNorm2d(8));
    merge2 = register_module("merge2", conv(16, 8));
    merge1 = register_module("merge1", conv(12, 4));
    last = register_module("last", torch::nn::Conv2d(torch::nn::Conv2dOptions(4, 2, 1)));
  }
  Tensor forward(Tensor x) {
    Tensor a = torch::relu(down1(x));
    Tensor b = torch::leaky_relu(down2(torch::max_pool2d(a, 2)), 0.2);
    Tensor c = torch::elu(bn(bottom(F::avg_pool2d(b, F::AvgPool2dFuncOptions(2)))));
    Tensor d = torch::relu(merge2(torch::cat({bn_up(up2(c)), b}, 1)));
    Tensor e = F::interpolate(d, F::InterpolateFuncOptions()
                                     .scale_factor(std::vector<double>{2, 2})
                                     .mode(torch::kBilinear)
                                     .align_corners(false));
    Tensor f =
        F::interpolate(c, F::InterpolateFuncOptions().size(std::vector<std::int64_t>{16, 16}).mode(torch::kNearest));
    return last(torch::relu(merge1(torch::cat({e, a}, 1)))) + f.mean(1, true);
  }
};

TEST_CASE("U-Net") {
  UNetImpl net;
  make_statistics(net);
  check_model(net, {torch::randn({2, 1, 16, 16})}, {torch::randn({2, 1, 16, 16})},
              {{"down1", "down2", "bottom", "bn", "up2", "bn_up", "merge2", "merge1", "last"},
               {"fold batch norm, conv2d: 1", "fold batch norm, conv_transpose2d: 1"}});
}

struct VolumesImpl : torch::nn::Module {
  torch::nn::Conv1d conv1 =
      register_module("conv1", torch::nn::Conv1d(torch::nn::Conv1dOptions(3, 6, 3).padding(2).dilation(2)));
  torch::nn::BatchNorm1d bn1 = register_module("bn1", torch::nn::BatchNorm1d(6));
  torch::nn::GroupNorm group = register_module("group", torch::nn::GroupNorm(torch::nn::GroupNormOptions(2, 6)));
  torch::nn::Conv3d conv3 = register_module(
      "conv3", torch::nn::Conv3d(torch::nn::Conv3dOptions(1, 4, {1, 2, 2}).stride({1, 2, 2}).bias(false)));
  torch::nn::BatchNorm3d bn3 = register_module("bn3", torch::nn::BatchNorm3d(4));
  torch::nn::InstanceNorm3d instance =
      register_module("instance", torch::nn::InstanceNorm3d(torch::nn::InstanceNorm3dOptions(4).affine(true)));
  Tensor forward(Tensor x) {
    Tensor y = group(torch::relu(bn1(conv1(x))));
    Tensor z = instance(bn3(conv3(y.unsqueeze(1).unsqueeze(2).expand({-1, -1, 2, -1, -1}))));
    return torch::prelu(z.flatten(2).amax(-1), torch::full({1}, 0.2, z.options())) +
           F::normalize(y.sum(1)).sum(1).view({-1, 1});
  }
};
struct PoolingImpl : torch::nn::Module {
  torch::nn::MaxPool2d max =
      register_module("max", torch::nn::MaxPool2d(torch::nn::MaxPool2dOptions(3).stride(2).padding(1).ceil_mode(true)));
  std::tuple<Tensor, std::vector<Tensor>> forward(Tensor x) {
    const Tensor one = x.flatten(2), three = x.unsqueeze(2).repeat({1, 1, 3, 1, 1});
    std::vector<Tensor> parts{max(x),
                              F::lp_pool2d(x, F::LPPool2dFuncOptions(2, 2)),
                              F::max_pool1d(one, F::MaxPool1dFuncOptions(4).stride(3)),
                              F::avg_pool1d(one, F::AvgPool1dFuncOptions(4).padding(1).count_include_pad(false)),
                              F::avg_pool2d(x, F::AvgPool2dFuncOptions({2, 3}).divisor_override(5)),
                              F::max_pool3d(three, F::MaxPool3dFuncOptions(2)),
                              F::avg_pool3d(three, F::AvgPool3dFuncOptions(2)),
                              F::adaptive_avg_pool1d(one, F::AdaptiveAvgPool1dFuncOptions(5)),
                              F::adaptive_max_pool2d(x, F::AdaptiveMaxPool2dFuncOptions({3, 2})),
                              F::adaptive_avg_pool3d(three, F::AdaptiveAvgPool3dFuncOptions(2))};
    auto [values, indices] = F::max_pool2d_with_indices(x, F::MaxPool2dFuncOptions(2));
    parts.push_back(F::max_unpool2d(values, indices, F::MaxUnpool2dFuncOptions(2)));
    return {values, parts};
  }
};

TEST_CASE("convolutions of one and three dimensions, group and instance norm, pooling of every kind") {
  VolumesImpl volumes;
  make_statistics(volumes);
  check_model(volumes, {torch::randn({2, 3, 8})}, {torch::randn({2, 3, 8})},
              {{"conv1", "bn1", "group", "conv3", "bn3", "instance"},
               {"fold batch norm, conv1d: 1", "fold batch norm, conv3d: 1"}});
  PoolingImpl pooling;
  check_model(pooling, {torch::randn({2, 3, 8, 6})}, {torch::randn({2, 3, 8, 6})}, {{}});
}

// --- several inputs and results ------------------------------------------------------------------------------------

struct ManyImpl : torch::nn::Module {
  torch::nn::Bilinear bilinear = register_module("bilinear", torch::nn::Bilinear(3, 4, 2));
  std::tuple<Tensor, std::pair<Tensor, Tensor>, std::map<std::string, Tensor>> forward(Tensor a, Tensor b, Tensor c) {
    const Tensor y = bilinear(a, b);
    const auto [largest, where] = y.max(1);
    return {y, {largest * c, where.to(torch::kFloat)}, {{"sum", y.sum()}, {"input", c}}};
  }
};

TEST_CASE("several inputs; tuples, pairs and maps of results, nested") {
  ManyImpl many;
  const auto inputs = [] { return Tensors{torch::randn({5, 3}), torch::randn({5, 4}), torch::randn({5})}; };
  const auto gm = trace(many, inputs(), {.input_names = {"a", "b", "c"}});
  CHECK(called_modules(gm->graph()) == std::set<std::string>{"bilinear"});
  check_traced(many, *gm, {inputs(), inputs()});
  const auto given = inputs();
  const c10::IValue result = gm->run(boxed(given));
  CHECK(result.toTupleRef().elements()[2].toGenericDict().at("input").toTensor().is_same(given[2]));
}

// --- path 1 --------------------------------------------------------------------------------------------------------

struct MlpImpl : torch::nn::Module {
  fxx::nn::Linear fc1 = register_module("fc1", fxx::nn::Linear(8, 16));
  fxx::nn::BatchNorm1d bn = register_module("bn", fxx::nn::BatchNorm1d(16));
  fxx::nn::Dropout drop = register_module("drop", fxx::nn::Dropout(0.5));
  fxx::nn::Linear fc2 = register_module("fc2", fxx::nn::Linear(16, 3));
  template <class T>
  T forward(T x) {
    return log_softmax(fc2(drop(relu(bn(fc1(x))))), 1);
  }
};
struct ResidualImpl : torch::nn::Module {
  fxx::nn::Conv2d conv1 =
      register_module("conv1", fxx::nn::Conv2d(torch::nn::Conv2dOptions(4, 4, 3).padding(1).bias(false)));
  fxx::nn::BatchNorm2d bn1 = register_module("bn1", fxx::nn::BatchNorm2d(4));
  fxx::nn::ReLU relu = register_module("relu", fxx::nn::ReLU(torch::nn::ReLUOptions().inplace(true)));
  template <class T>
  T forward(T x) {
    T y = bn1(conv1(x));
    y += x;
    return relu(y);
  }
};

/// Path 1 knows no shapes, and takes inputs of any.
template <class M>
void check_symbolic(M& module, const std::vector<Tensors>& inputs, const std::set<std::string>& modules,
                    const std::string& fired) {
  make_statistics(module);
  module.eval();
  const auto gm = symbolic_trace(module);
  CHECK(called_modules(gm->graph()) == modules);
  check_traced(module, *gm, inputs);
  const OptimizeReport report = optimize_for_inference(*gm);
  CAPTURE(report.stages[0].fired);
  CHECK(report.stages[0].fired.find(fired) != std::string::npos);
  const torch::NoGradGuard no_grad;
  for (const Tensors& in : inputs) CHECK(relative_difference(forward_of(*gm)(in), forward_of(module)(in)) < 1e-5);
}

TEST_CASE("templated models traced symbolically: an MLP, a residual block, a transformer block") {
  MlpImpl mlp;
  check_symbolic(mlp, {{torch::randn({2, 8})}, {torch::randn({5, 8})}, {torch::randn({0, 8})}},
                 {"fc1", "bn", "drop", "fc2"}, "dropout: 1");
  ResidualImpl residual;
  check_symbolic(residual, {{torch::randn({2, 4, 6, 6})}, {torch::randn({1, 4, 3, 9})}}, {"conv1", "bn1", "relu"},
                 "fold batch norm, conv2d: 1");
  EncoderBlockImpl block;
  check_symbolic(block, {{torch::randn({2, 6, 16})}, {torch::randn({3, 1, 16})}},
                 {"norm1", "norm2", "q", "k", "v", "out", "up", "down", "dropout"}, "dropout: 2");
}

}  // namespace
