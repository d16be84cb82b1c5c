// DenseNet-121 (Huang et al., "Densely Connected Convolutional Networks", 2016), with torchvision's names of
// parameters. Every layer gets the concatenation of all results before it, and drops some of its own, as in the paper's
// CIFAR runs.
#pragma once

#include <torch/torch.h>

#include <string>
#include <vector>

namespace zoo {
using torch::Tensor;
namespace F = torch::nn::functional;

struct DenseLayerImpl : torch::nn::Module {
  torch::nn::BatchNorm2d norm1, norm2;
  torch::nn::Conv2d conv1, conv2;
  double drop_rate;

  DenseLayerImpl(int64_t in, int64_t growth, int64_t bottleneck, double drop_rate)
      : norm1(in),
        norm2(bottleneck * growth),
        conv1(torch::nn::Conv2dOptions(in, bottleneck * growth, 1).bias(false)),
        conv2(torch::nn::Conv2dOptions(bottleneck * growth, growth, 3).padding(1).bias(false)),
        drop_rate(drop_rate) {
    register_module("norm1", norm1);
    register_module("conv1", conv1);
    register_module("norm2", norm2);
    register_module("conv2", conv2);
  }

  Tensor forward(const std::vector<Tensor>& features) {
    auto y = conv1(F::relu(norm1(torch::cat(features, 1))));
    y = conv2(F::relu(norm2(y)));
    return F::dropout(y, F::DropoutFuncOptions().p(drop_rate).training(is_training()));
  }
};
TORCH_MODULE(DenseLayer);

struct DenseBlockImpl : torch::nn::Module {
  std::vector<DenseLayer> layers;

  DenseBlockImpl(int64_t count, int64_t in, int64_t growth, int64_t bottleneck, double drop_rate) {
    for (int64_t i = 0; i < count; ++i) {
      layers.push_back(register_module("denselayer" + std::to_string(i + 1),
                                       DenseLayer(in + i * growth, growth, bottleneck, drop_rate)));
    }
  }

  Tensor forward(const Tensor& x) {
    std::vector<Tensor> features{x};
    for (auto& layer : layers) features.push_back(layer->forward(features));
    return torch::cat(features, 1);
  }
};
TORCH_MODULE(DenseBlock);

struct TransitionImpl : torch::nn::SequentialImpl {
  TransitionImpl(int64_t in, int64_t out) {
    push_back("norm", torch::nn::BatchNorm2d(in));
    push_back("relu", torch::nn::ReLU(torch::nn::ReLUOptions(true)));
    push_back("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, 1).bias(false)));
    push_back("pool", torch::nn::AvgPool2d(torch::nn::AvgPool2dOptions(2).stride(2)));
  }
  Tensor forward(Tensor x) { return torch::nn::SequentialImpl::forward(x); }
};
TORCH_MODULE(Transition);

struct DenseNetImpl : torch::nn::Module {
  torch::nn::Sequential features;
  torch::nn::Linear classifier{nullptr};

  explicit DenseNetImpl(int64_t growth = 32, const std::vector<int64_t>& blocks = {6, 12, 24, 16}, int64_t first = 64,
                        int64_t classes = 1000, int64_t bottleneck = 4, double drop_rate = 0.2) {
    features->push_back("conv0",
                        torch::nn::Conv2d(torch::nn::Conv2dOptions(3, first, 7).stride(2).padding(3).bias(false)));
    features->push_back("norm0", torch::nn::BatchNorm2d(first));
    features->push_back("relu0", torch::nn::ReLU(torch::nn::ReLUOptions(true)));
    features->push_back("pool0", torch::nn::MaxPool2d(torch::nn::MaxPool2dOptions(3).stride(2).padding(1)));
    int64_t channels = first;
    for (size_t i = 0; i < blocks.size(); ++i) {
      const auto number = std::to_string(i + 1);
      features->push_back("denseblock" + number, DenseBlock(blocks[i], channels, growth, bottleneck, drop_rate));
      channels += blocks[i] * growth;
      if (i + 1 == blocks.size()) break;
      features->push_back("transition" + number, Transition(channels, channels / 2));
      channels /= 2;
    }
    features->push_back("norm5", torch::nn::BatchNorm2d(channels));
    classifier = torch::nn::Linear(channels, classes);
    register_module("features", features);
    register_module("classifier", classifier);
  }

  Tensor forward(const Tensor& images) {
    auto x = F::relu(features->forward(images), F::ReLUFuncOptions(true));
    x = torch::adaptive_avg_pool2d(x, {1, 1});
    return classifier(torch::flatten(x, 1));
  }
};
TORCH_MODULE(DenseNet);

}  // namespace zoo
