// The models that the figures are taken on, written once for tensors and proxies; peers/torch_fx.py has the same in
// Python.
#pragma once

#include <torch/torch.h>

#include "fxx/torch/nn.hpp"

namespace bench {

/// A chain of small operators, four a turn.
template <int turns>
struct Deep : torch::nn::Module {
  template <class T>
  T forward(T x) {
    T y = x;
    for (int i = 0; i < turns; ++i) {
      y = relu(y);
      y = y + x;
      y = sigmoid(y);
      y = y * 0.5;
    }
    return y;
  }
  static at::Tensor input() { return torch::randn({64}); }
};

struct BasicBlockImpl : torch::nn::Module {
  fxx::nn::Conv2d conv1{nullptr}, conv2{nullptr}, shortcut{nullptr};
  fxx::nn::BatchNorm2d bn1{nullptr}, bn2{nullptr}, shortcut_bn{nullptr};

  BasicBlockImpl(std::int64_t in, std::int64_t out, std::int64_t stride) {
    const auto convolution = [&](const char* name, std::int64_t from, std::int64_t size, std::int64_t by) {
      return register_module(
          name, fxx::nn::Conv2d(torch::nn::Conv2dOptions(from, out, size).stride(by).padding(size / 2).bias(false)));
    };
    conv1 = convolution("conv1", in, 3, stride);
    conv2 = convolution("conv2", out, 3, 1);
    bn1 = register_module("bn1", fxx::nn::BatchNorm2d(out));
    bn2 = register_module("bn2", fxx::nn::BatchNorm2d(out));
    if (stride == 1 && in == out) return;
    shortcut = convolution("shortcut", in, 1, stride);
    shortcut_bn = register_module("shortcut_bn", fxx::nn::BatchNorm2d(out));
  }
  template <class T>
  T forward(T x) {
    T y = bn2(conv2(relu(bn1(conv1(x)))));
    return relu(y + (shortcut ? T(shortcut_bn(shortcut(x))) : x));
  }
};
TORCH_MODULE(BasicBlock);

/// ResNet-18 (He et al., 2015) on small images: tracing does not ask for their size.
struct ResNet18 : torch::nn::Module {
  fxx::nn::Conv2d conv1{torch::nn::Conv2dOptions(3, 64, 7).stride(2).padding(3).bias(false)};
  fxx::nn::BatchNorm2d bn1{64};
  fxx::nn::MaxPool2d maxpool{torch::nn::MaxPool2dOptions(3).stride(2).padding(1)};
  fxx::nn::AdaptiveAvgPool2d avgpool{1};
  fxx::nn::Linear fc{512, 1000};
  torch::nn::ModuleList blocks;

  ResNet18() {
    register_module("conv1", conv1), register_module("bn1", bn1), register_module("maxpool", maxpool);
    register_module("avgpool", avgpool), register_module("fc", fc), register_module("blocks", blocks);
    std::int64_t in = 64;
    for (std::int64_t out : {64, 64, 128, 128, 256, 256, 512, 512}) {
      blocks->push_back(BasicBlock(in, out, in == out ? 1 : 2));
      in = out;
    }
    eval();
  }
  template <class T>
  T forward(T x) {
    x = maxpool(relu(bn1(conv1(x))));
    for (const auto& block : *blocks) x = block->template as<BasicBlock>()->forward(x);
    return fc(flatten(avgpool(x), 1));
  }
  static at::Tensor input() { return torch::randn({1, 3, 32, 32}); }
};

struct EncoderLayerImpl : torch::nn::Module {
  static constexpr std::int64_t width = 128, heads = 4;
  fxx::nn::Linear query{width, width}, key{width, width}, value{width, width}, out{width, width}, up{width, 4 * width},
      down{4 * width, width};
  fxx::nn::LayerNorm norm1{torch::nn::LayerNormOptions({width})}, norm2{torch::nn::LayerNormOptions({width})};

  EncoderLayerImpl() {
    register_module("query", query), register_module("key", key), register_module("value", value),
        register_module("out", out);
    register_module("up", up), register_module("down", down), register_module("norm1", norm1),
        register_module("norm2", norm2);
  }
  template <class T>
  T forward(T x) {
    const auto split = [&](const T& t) { return t.view({x.size(0), x.size(1), heads, width / heads}).transpose(1, 2); };
    const T q = split(query(x)), k = split(key(x)), v = split(value(x));
    const T weights = softmax(matmul(q, k.transpose(-2, -1)) / std::sqrt(static_cast<double>(width / heads)), -1);
    const T mixed = matmul(weights, v).transpose(1, 2).reshape({x.size(0), x.size(1), width});
    x = norm1(x + out(mixed));
    return norm2(x + down(gelu(up(x))));
  }
};
TORCH_MODULE(EncoderLayer);

/// Six layers of a transformer encoder with attention written by hand.
struct Encoder : torch::nn::Module {
  torch::nn::ModuleList layers;

  Encoder() {
    register_module("layers", layers);
    for (int i = 0; i < 6; ++i) layers->push_back(EncoderLayer());
    eval();
  }
  template <class T>
  T forward(T x) {
    for (const auto& layer : *layers) x = layer->template as<EncoderLayer>()->forward(x);
    return x;
  }
  static at::Tensor input() { return torch::randn({1, 8, EncoderLayerImpl::width}); }
};

}  // namespace bench
