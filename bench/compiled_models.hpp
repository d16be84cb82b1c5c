// The models that compiled modules are timed on, as LibTorch users write them; peers/compiled_models.py has the same in
// Python. ResNet-18 and MiniLM are those of the examples. After them the zoo (tests/models) at its published sizes, as
// zoo/resnet50, which peers read as traces.
//
// Main names: compiled_models(), Entry, Instance. Weights and inputs are drawn in the same order on both sides from one
// seed, so they are the same numbers; MiniLM's weights are the published ones. Cost: heavy (torch/torch.h).
#pragma once

#include <torch/torch.h>

#include <cmath>
#include <cstdlib>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "../examples/resnet.hpp"
#include "../examples/sentence_search/bert.hpp"
#include "fxx/torch/trace.hpp"
#include "fxx/torch/weights.hpp"
#include "traced.hpp"

namespace bench {
using torch::Tensor;
using Tensors = std::vector<Tensor>;

struct MlpImpl : torch::nn::Module {
  torch::nn::ModuleList layers;

  MlpImpl() {
    register_module("layers", layers);
    for (int i = 0; i < 4; ++i) layers->push_back(torch::nn::Linear(256, 256));
  }
  Tensor forward(Tensor x) {
    for (const auto& layer : *layers) x = torch::relu(layer->as<torch::nn::Linear>()->forward(x));
    return x;
  }
};
TORCH_MODULE(Mlp);

struct PointwiseImpl : torch::nn::Module {
  Tensor forward(Tensor x, Tensor y) {
    const auto a = torch::sigmoid(x) * y + torch::tanh(x - y);
    const auto b = torch::relu(a) * 0.5 + torch::exp(-a * a);
    return torch::sqrt(torch::abs(b) + 1e-3) / (1 + torch::abs(a)) + x.clamp(-1, 1) * y;
  }
};
TORCH_MODULE(Pointwise);

/// A layer of a transformer that normalises before attention and before the feed-forward network.
struct EncoderLayerImpl : torch::nn::Module {
  static constexpr int64_t width = 256, heads = 4;
  torch::nn::Linear q{width, width}, k{width, width}, v{width, width}, o{width, width};
  torch::nn::LayerNorm n1{torch::nn::LayerNormOptions({width})}, n2{torch::nn::LayerNormOptions({width})};
  torch::nn::Linear f1{width, 4 * width}, f2{4 * width, width};

  EncoderLayerImpl() {
    register_module("q", q), register_module("k", k), register_module("v", v), register_module("o", o);
    register_module("n1", n1), register_module("n2", n2), register_module("f1", f1), register_module("f2", f2);
  }
  Tensor forward(Tensor x) {
    const auto split = [&](const Tensor& y) {
      return y.view({x.size(0), x.size(1), heads, width / heads}).transpose(1, 2);
    };
    const auto y = n1(x);
    const auto a = torch::scaled_dot_product_attention(split(q(y)), split(k(y)), split(v(y)));
    x = x + o(a.transpose(1, 2).reshape({x.size(0), x.size(1), width}));
    return x + f2(torch::gelu(f1(n2(x))));
  }
};
TORCH_MODULE(EncoderLayer);

struct EncoderImpl : torch::nn::Module {
  torch::nn::ModuleList layers;

  EncoderImpl() {
    register_module("layers", layers);
    for (int i = 0; i < 4; ++i) layers->push_back(EncoderLayer());
  }
  Tensor forward(Tensor x) {
    for (const auto& layer : *layers) x = layer->as<EncoderLayer>()->forward(x);
    return x;
  }
};
TORCH_MODULE(Encoder);

inline torch::nn::Conv2d convolution(int64_t in, int64_t out, int64_t size, int64_t stride = 1, int64_t groups = 1) {
  return torch::nn::Conv2d(
      torch::nn::Conv2dOptions(in, out, size).stride(stride).padding(size / 2).groups(groups).bias(false));
}

/// MobileNetV2's block (Sandler et al., 2018): widened by a 1x1 convolution, a depthwise 3x3, narrowed by a 1x1.
struct InvertedResidualImpl : torch::nn::Module {
  bool residual;
  torch::nn::Sequential conv;

  InvertedResidualImpl(int64_t in, int64_t out, int64_t stride, int64_t expand)
      : residual(stride == 1 && in == out),
        conv(convolution(in, in * expand, 1), torch::nn::BatchNorm2d(in * expand), torch::nn::ReLU6(true),
             convolution(in * expand, in * expand, 3, stride, in * expand), torch::nn::BatchNorm2d(in * expand),
             torch::nn::ReLU6(true), convolution(in * expand, out, 1), torch::nn::BatchNorm2d(out)) {
    register_module("conv", conv);
  }
  Tensor forward(Tensor x) { return residual ? x + conv->forward(x) : conv->forward(x); }
};
TORCH_MODULE(InvertedResidual);

/// MobileNetV2 with fewer blocks.
struct MobileNetImpl : torch::nn::Module {
  torch::nn::Sequential stem{convolution(3, 32, 3, 2), torch::nn::BatchNorm2d(32), torch::nn::ReLU6(true)};
  torch::nn::Sequential blocks;
  torch::nn::Sequential head{convolution(320, 1280, 1), torch::nn::BatchNorm2d(1280), torch::nn::ReLU6(true)};
  torch::nn::Linear fc{1280, 1000};

  MobileNetImpl() {
    constexpr int64_t rows[][4] = {{32, 16, 1, 1}, {16, 24, 2, 6},  {24, 24, 1, 6},   {24, 32, 2, 6},
                                   {32, 32, 1, 6}, {32, 64, 2, 6},  {64, 64, 1, 6},   {64, 96, 1, 6},
                                   {96, 96, 1, 6}, {96, 160, 2, 6}, {160, 160, 1, 6}, {160, 320, 1, 6}};
    for (const auto& [in, out, stride, expand] : rows) blocks->push_back(InvertedResidual(in, out, stride, expand));
    register_module("stem", stem), register_module("blocks", blocks), register_module("head", head);
    register_module("fc", fc);
  }
  Tensor forward(Tensor x) {
    return fc(head->forward(blocks->forward(stem->forward(x))).mean(torch::IntArrayRef{2, 3}));
  }
};
TORCH_MODULE(MobileNet);

struct LstmTaggerImpl : torch::nn::Module {
  torch::nn::LSTM lstm{torch::nn::LSTMOptions(128, 128).num_layers(2).batch_first(true)};
  torch::nn::Linear out{128, 20};

  LstmTaggerImpl() { register_module("lstm", lstm), register_module("out", out); }
  Tensor forward(Tensor x) { return torch::log_softmax(out(std::get<0>(lstm(x))), -1); }
};
TORCH_MODULE(LstmTagger);

struct DoubleConvImpl : torch::nn::Module {
  torch::nn::Conv2d c1, c2;
  torch::nn::BatchNorm2d n1, n2;

  DoubleConvImpl(int64_t in, int64_t out)
      : c1(convolution(in, out, 3)), c2(convolution(out, out, 3)), n1(out), n2(out) {
    register_module("c1", c1), register_module("n1", n1), register_module("c2", c2), register_module("n2", n2);
  }
  Tensor forward(Tensor x) { return torch::relu(n2(c2(torch::relu(n1(c1(x)))))); }
};
TORCH_MODULE(DoubleConv);

/// A U-Net of three levels; tests/models/unet.hpp has the published one of five, with its padding on the way up.
struct UNetImpl : torch::nn::Module {
  DoubleConv e1{3, 64}, e2{64, 128}, mid{128, 256}, d2{256, 128}, d1{128, 64};
  torch::nn::ConvTranspose2d u2{torch::nn::ConvTranspose2dOptions(256, 128, 2).stride(2)};
  torch::nn::ConvTranspose2d u1{torch::nn::ConvTranspose2dOptions(128, 64, 2).stride(2)};
  torch::nn::Conv2d out{torch::nn::Conv2dOptions(64, 2, 1)};

  UNetImpl() {
    register_module("e1", e1), register_module("e2", e2), register_module("mid", mid), register_module("u2", u2);
    register_module("d2", d2), register_module("u1", u1), register_module("d1", d1), register_module("out", out);
  }
  Tensor forward(Tensor x) {
    const auto a = e1(x), b = e2(torch::max_pool2d(a, 2)), c = mid(torch::max_pool2d(b, 2));
    const auto d = d2(torch::cat({b, u2(c)}, 1));
    return out(d1(torch::cat({a, u1(d)}, 1)));
  }
};
TORCH_MODULE(UNet);

struct DecodeLayerImpl : torch::nn::Module {
  static constexpr int64_t width = 768, heads = 12;
  torch::nn::LayerNorm n1{torch::nn::LayerNormOptions({width})}, n2{torch::nn::LayerNormOptions({width})};
  torch::nn::Linear qkv{width, 3 * width}, o{width, width}, f1{width, 4 * width}, f2{4 * width, width};

  DecodeLayerImpl() {
    register_module("n1", n1), register_module("n2", n2), register_module("qkv", qkv), register_module("o", o);
    register_module("f1", f1), register_module("f2", f2);
  }
  std::tuple<Tensor, Tensor, Tensor> forward(Tensor x, Tensor k, Tensor v) {
    const auto b = x.size(0), t = x.size(1);
    const auto parts = qkv(n1(x)).view({b, t, 3, heads, width / heads}).permute({2, 0, 3, 1, 4}).unbind(0);
    k = torch::cat({k, parts[1]}, 2), v = torch::cat({v, parts[2]}, 2);
    const auto a = torch::scaled_dot_product_attention(parts[0], k, v);
    x = x + o(a.transpose(1, 2).reshape({b, t, width}));
    return {x + f2(torch::gelu(f1(n2(x)))), k, v};
  }
};
TORCH_MODULE(DecodeLayer);

/// One new token through the 12 layers of GPT-2 small; keys and values, [layer, batch, head, time, 64], come back
/// longer by it.
struct GptDecodeImpl : torch::nn::Module {
  torch::nn::ModuleList layers;

  GptDecodeImpl() {
    register_module("layers", layers);
    for (int i = 0; i < 12; ++i) layers->push_back(DecodeLayer());
  }
  std::tuple<Tensor, Tensor, Tensor> forward(Tensor x, Tensor keys, Tensor values) {
    Tensors ks, vs;
    for (std::size_t i = 0; i < layers->size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      auto [y, k, v] = layers->at<DecodeLayerImpl>(i).forward(x, keys[at], values[at]);
      x = y, ks.push_back(k), vs.push_back(v);
    }
    return {x, torch::stack(ks), torch::stack(vs)};
  }
};
TORCH_MODULE(GptDecode);

/// A model with its weights and inputs, its type forgotten.
struct Instance {
  std::shared_ptr<torch::nn::Module> module;
  Tensors inputs;
  std::function<c10::IValue(const Tensors&)> forward;  // of the module
  std::function<std::shared_ptr<fxx::GraphModule>(const Tensors&, const fxx::TraceOptions&)> trace;
};
struct Entry {
  std::string name;  // resnet18, resnet18/b8
  std::function<Instance()> make;

  /// In double precision: a fresh one, since converting there and back is not without traces.
  Instance make_double() const;
};

inline Instance Entry::make_double() const {
  Instance model = make();
  for (const auto& tensors : {model.module->parameters(), model.module->buffers()})
    for (const Tensor& t : tensors)  // Module::to would take integers along
      if (t.is_floating_point()) t.set_data(t.to(at::kDouble));
  for (Tensor& x : model.inputs)
    if (x.is_floating_point()) x = x.to(at::kDouble);
  return model;
}

/// The same numbers in every run, and as in peers/compiled_models.py: parameters, then buffers, in order of
/// registration. Scales keep the size of what passes through; batch norms are away from the zeros and ones that they
/// start with.
inline void draw_weights(torch::nn::Module& module) {
  torch::manual_seed(0);
  const torch::NoGradGuard no_grad;
  for (auto& item : module.named_parameters()) {
    auto& p = item.value();
    const double reach =
        p.dim() > 1 ? std::sqrt(3.0 * static_cast<double>(p.size(0)) / static_cast<double>(p.numel())) : 0.1;
    if (p.dim() == 1 && item.key().ends_with("weight")) p.uniform_(0.5, 1.5);
    else p.uniform_(-reach, reach);
  }
  for (auto& item : module.named_buffers()) {
    if (item.key().ends_with("running_mean")) item.value().uniform_(-0.1, 0.1);
    if (item.key().ends_with("running_var")) item.value().uniform_(0.5, 1.5);
  }
}

namespace detail {
template <class Holder, std::size_t... I>
Instance instance(const Holder& holder, Tensors inputs, std::index_sequence<I...>) {
  const auto forward = [holder](const Tensors& in) { return c10::IValue(holder.ptr()->forward(in.at(I)...)); };
  const auto trace = [holder](const Tensors& in, const fxx::TraceOptions& options) {
    return fxx::trace(holder.ptr(), in, options);
  };
  return {holder.ptr(), std::move(inputs), forward, trace};
}
/// `inputs` are drawn after the weights.
template <std::size_t Inputs, class Make, class Draw>
Entry entry(std::string name, Make make, Draw inputs) {
  return {std::move(name), [=] {
            auto holder = make();
            draw_weights(*holder);
            holder->eval();
            return instance(holder, inputs(), std::make_index_sequence<Inputs>());
          }};
}

inline SentenceEncoder minilm() {
  const char* folder = std::getenv("FXX_MODEL_DIR");
  if (!folder) throw std::runtime_error("minilm needs FXX_MODEL_DIR; tools/setup --model fetches the weights");
  return SentenceEncoder(BertConfig::read(std::string(folder) + "/config.json"));
}
}  // namespace detail

/// Of the zoo, whose models draw their weights themselves.
inline Entry entry_of(const zoo::Entry& entry) {
  return {std::string("zoo/") + entry.name, [&entry] {
            const zoo::Model model = zoo::build(entry, zoo::Size::full);
            const auto trace = [model](const Tensors& inputs, const fxx::TraceOptions& options) {
              return trace_of(model, inputs, options);
            };
            return Instance{model.module, model.inputs(), model.forward, trace};
          }};
}

inline std::vector<Entry> compiled_models() {
  using detail::entry;
  const auto normal = [](std::vector<std::vector<int64_t>> shapes) {
    return [=] {
      Tensors inputs;
      for (const auto& shape : shapes) inputs.push_back(torch::randn(shape));
      return inputs;
    };
  };
  std::vector<Entry> list = {
      entry<1>(
          "resnet18", [] { return resnet18(); }, normal({{1, 3, 224, 224}})),
      entry<1>(
          "resnet18/b8", [] { return resnet18(); }, normal({{8, 3, 224, 224}})),
      entry<1>(
          "mobilenet", [] { return MobileNet(); }, normal({{1, 3, 224, 224}})),
      entry<1>(
          "unet", [] { return UNet(); }, normal({{1, 3, 128, 128}})),
      entry<1>(
          "encoder", [] { return Encoder(); }, normal({{1, 128, 256}})),
      entry<2>(
          "minilm", detail::minilm,
          [] {
            return Tensors{torch::randint(1000, 30000, {1, 128}, torch::kLong), torch::ones({1, 128}, torch::kLong)};
          }),
      entry<3>(
          "gpt_decode", [] { return GptDecode(); }, normal({{1, 1, 768}, {12, 1, 12, 255, 64}, {12, 1, 12, 255, 64}})),
      entry<1>(
          "lstm", [] { return LstmTagger(); }, normal({{1, 32, 128}})),
      entry<1>(
          "mlp", [] { return Mlp(); }, normal({{1, 256}})),
      entry<1>(
          "mlp/b8", [] { return Mlp(); }, normal({{8, 256}})),
      entry<2>(
          "pointwise_64k", [] { return Pointwise(); }, normal({{1 << 16}, {1 << 16}})),
      entry<2>(
          "pointwise_64", [] { return Pointwise(); }, normal({{64}, {64}})),
  };
  for (Entry& e : list) {
    if (e.name != "minilm") continue;
    e.make = [drawn = e.make] {
      Instance instance = drawn();
      const std::string folder = std::getenv("FXX_MODEL_DIR");
      fxx::load_safetensors(*instance.module, folder + "/model.safetensors", {.allow_unused = true});
      return instance;
    };
  }
  for (const zoo::Entry& e : zoo::models()) list.push_back(entry_of(e));
  return list;
}

}  // namespace bench
