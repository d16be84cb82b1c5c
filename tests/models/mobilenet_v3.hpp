// MobileNetV3-Large (Howard et al., "Searching for MobileNetV3", 2019), layer by layer and name by name as torchvision
// has it. Images come with values from 0 to 1: the model normalises them itself, with constants made in forward.
#pragma once

#include <torch/torch.h>

#include <algorithm>
#include <vector>

namespace zoo {
using torch::Tensor;
namespace F = torch::nn::functional;

enum class Activation { none, relu, hardswish };

/// The nearest multiple of 8 that is not under nine tenths of the number.
inline int64_t make_divisible(double value) {
  const auto rounded = std::max<int64_t>(8, static_cast<int64_t>(value + 4) / 8 * 8);
  return static_cast<double>(rounded) < 0.9 * value ? rounded + 8 : rounded;
}

struct ConvNormImpl : torch::nn::Module {
  torch::nn::Conv2d conv;
  torch::nn::BatchNorm2d norm;
  Activation activation;

  ConvNormImpl(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t groups, Activation activation)
      : conv(torch::nn::Conv2dOptions(in, out, kernel)
                 .stride(stride)
                 .padding((kernel - 1) / 2)
                 .groups(groups)
                 .bias(false)),
        norm(torch::nn::BatchNorm2dOptions(out).eps(0.001).momentum(0.01)),
        activation(activation) {
    register_module("0", conv);
    register_module("1", norm);
  }

  Tensor forward(Tensor x) {
    x = norm(conv(x));
    switch (activation) {
      case Activation::relu: return torch::relu_(x);
      case Activation::hardswish: return torch::hardswish_(x);
      default: return x;
    }
  }
};
TORCH_MODULE(ConvNorm);

struct SqueezeExcitationImpl : torch::nn::Module {
  torch::nn::Conv2d fc1, fc2;

  SqueezeExcitationImpl(int64_t channels, int64_t squeezed)
      : fc1(torch::nn::Conv2dOptions(channels, squeezed, 1)), fc2(torch::nn::Conv2dOptions(squeezed, channels, 1)) {
    register_module("fc1", fc1);
    register_module("fc2", fc2);
  }

  Tensor forward(const Tensor& x) {
    auto scale = F::adaptive_avg_pool2d(x, F::AdaptiveAvgPool2dFuncOptions(1));
    scale = F::relu(fc1(scale), F::ReLUFuncOptions().inplace(true));
    return torch::hardsigmoid(fc2(scale)) * x;
  }
};
TORCH_MODULE(SqueezeExcitation);

/// One row of the paper's table 1.
struct InvertedResidualConfig {
  int64_t kernel, expanded, out;
  bool excite;
  Activation activation;
  int64_t stride;
};

struct InvertedResidualImpl : torch::nn::Module {
  bool residual;
  torch::nn::Sequential block;

  InvertedResidualImpl(int64_t in, int64_t expanded, int64_t out, const InvertedResidualConfig& row)
      : residual(row.stride == 1 && in == out) {
    if (expanded != in) block->push_back(ConvNorm(in, expanded, 1, 1, 1, row.activation));
    block->push_back(ConvNorm(expanded, expanded, row.kernel, row.stride, expanded, row.activation));
    if (row.excite) {
      block->push_back(SqueezeExcitation(expanded, make_divisible(static_cast<double>(expanded) / 4)));
    }
    block->push_back(ConvNorm(expanded, out, 1, 1, 1, Activation::none));
    register_module("block", block);
  }

  Tensor forward(const Tensor& x) {
    auto result = block->forward(x);
    if (residual) result += x;
    return result;
  }
};
TORCH_MODULE(InvertedResidual);

struct MobileNetV3Impl : torch::nn::Module {
  torch::nn::Sequential features, classifier;

  explicit MobileNetV3Impl(double width = 1.0, int64_t classes = 1000, double dropout = 0.2) {
    constexpr auto relu = Activation::relu, swish = Activation::hardswish;
    const std::vector<InvertedResidualConfig> rows = {
        {3, 16, 16, false, relu, 1},   {3, 64, 24, false, relu, 2},   {3, 72, 24, false, relu, 1},
        {5, 72, 40, true, relu, 2},    {5, 120, 40, true, relu, 1},   {5, 120, 40, true, relu, 1},
        {3, 240, 80, false, swish, 2}, {3, 200, 80, false, swish, 1}, {3, 184, 80, false, swish, 1},
        {3, 184, 80, false, swish, 1}, {3, 480, 112, true, swish, 1}, {3, 672, 112, true, swish, 1},
        {5, 672, 160, true, swish, 2}, {5, 960, 160, true, swish, 1}, {5, 960, 160, true, swish, 1}};
    const auto scaled = [&](int64_t channels) { return make_divisible(static_cast<double>(channels) * width); };
    int64_t channels = scaled(16);
    features->push_back(ConvNorm(3, channels, 3, 2, 1, swish));
    for (const auto& row : rows) {
      features->push_back(InvertedResidual(channels, scaled(row.expanded), scaled(row.out), row));
      channels = scaled(row.out);
    }
    features->push_back(ConvNorm(channels, 6 * channels, 1, 1, 1, swish));
    classifier->push_back(torch::nn::Linear(6 * channels, scaled(1280)));
    classifier->push_back(torch::nn::Functional([](Tensor x) { return torch::hardswish(x); }));
    classifier->push_back(torch::nn::Dropout(torch::nn::DropoutOptions(dropout).inplace(true)));
    classifier->push_back(torch::nn::Linear(scaled(1280), classes));
    register_module("features", features);
    register_module("classifier", classifier);
  }

  Tensor forward(Tensor x) {
    const auto mean = torch::tensor({0.485, 0.456, 0.406}, x.options()).view({1, 3, 1, 1});
    const auto deviation = torch::tensor({0.229, 0.224, 0.225}, x.options()).view({1, 3, 1, 1});
    x = features->forward((x - mean) / deviation);
    return classifier->forward(F::adaptive_avg_pool2d(x, F::AdaptiveAvgPool2dFuncOptions(1)).flatten(1));
  }
};
TORCH_MODULE(MobileNetV3);

}  // namespace zoo
