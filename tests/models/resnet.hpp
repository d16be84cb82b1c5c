// ResNet-50 (He et al., "Deep Residual Learning for Image Recognition", 2015), with torchvision's names of parameters.
// As in torchvision, a bottleneck strides in its 3x3 convolution.
#pragma once

#include <torch/torch.h>

#include <vector>

namespace zoo {
using torch::Tensor;

struct BottleneckImpl : torch::nn::Module {
  static constexpr int64_t expansion = 4;
  torch::nn::Conv2d conv1, conv2, conv3;
  torch::nn::BatchNorm2d bn1, bn2, bn3;
  torch::nn::ReLU relu;
  torch::nn::Sequential downsample;

  BottleneckImpl(int64_t in, int64_t width, int64_t stride = 1)
      : conv1(torch::nn::Conv2dOptions(in, width, 1).bias(false)),
        conv2(torch::nn::Conv2dOptions(width, width, 3).stride(stride).padding(1).bias(false)),
        conv3(torch::nn::Conv2dOptions(width, width * expansion, 1).bias(false)),
        bn1(width),
        bn2(width),
        bn3(width * expansion),
        relu(torch::nn::ReLUOptions(/*inplace=*/true)) {
    register_module("conv1", conv1);
    register_module("bn1", bn1);
    register_module("conv2", conv2);
    register_module("bn2", bn2);
    register_module("conv3", conv3);
    register_module("bn3", bn3);
    register_module("relu", relu);
    if (stride != 1 || in != width * expansion) {
      downsample->push_back(
          torch::nn::Conv2d(torch::nn::Conv2dOptions(in, width * expansion, 1).stride(stride).bias(false)));
      downsample->push_back(torch::nn::BatchNorm2d(width * expansion));
      register_module("downsample", downsample);
    }
  }

  Tensor forward(const Tensor& x) {
    auto identity = x;
    auto out = relu(bn1(conv1(x)));
    out = relu(bn2(conv2(out)));
    out = bn3(conv3(out));
    if (!downsample->is_empty()) identity = downsample->forward(x);
    out += identity;
    return relu(out);
  }
};
TORCH_MODULE(Bottleneck);

struct ResNetImpl : torch::nn::Module {
  int64_t channels;  // that the next stage gets
  torch::nn::Conv2d conv1;
  torch::nn::BatchNorm2d bn1;
  torch::nn::ReLU relu{torch::nn::ReLUOptions(/*inplace=*/true)};
  torch::nn::MaxPool2d maxpool{torch::nn::MaxPool2dOptions(3).stride(2).padding(1)};
  torch::nn::Sequential layer1, layer2, layer3, layer4;
  torch::nn::AdaptiveAvgPool2d avgpool{torch::nn::AdaptiveAvgPool2dOptions({1, 1})};
  torch::nn::Linear fc;

  explicit ResNetImpl(const std::vector<int64_t>& blocks = {3, 4, 6, 3}, int64_t width = 64, int64_t classes = 1000)
      : channels(width),
        conv1(torch::nn::Conv2dOptions(3, width, 7).stride(2).padding(3).bias(false)),
        bn1(width),
        layer1(make_layer(width, blocks[0])),
        layer2(make_layer(width * 2, blocks[1], 2)),
        layer3(make_layer(width * 4, blocks[2], 2)),
        layer4(make_layer(width * 8, blocks[3], 2)),
        fc(width * 8 * BottleneckImpl::expansion, classes) {
    register_module("conv1", conv1);
    register_module("bn1", bn1);
    register_module("relu", relu);
    register_module("maxpool", maxpool);
    register_module("layer1", layer1);
    register_module("layer2", layer2);
    register_module("layer3", layer3);
    register_module("layer4", layer4);
    register_module("avgpool", avgpool);
    register_module("fc", fc);
    for (auto& module : modules(/*include_self=*/false)) {
      if (auto* conv = module->as<torch::nn::Conv2d>()) {
        torch::nn::init::kaiming_normal_(conv->weight, 0, torch::kFanOut, torch::kReLU);
      }
    }
  }

  torch::nn::Sequential make_layer(int64_t width, int64_t blocks, int64_t stride = 1) {
    torch::nn::Sequential layer;
    for (int64_t i = 0; i < blocks; ++i) {
      layer->push_back(Bottleneck(channels, width, i == 0 ? stride : 1));
      channels = width * BottleneckImpl::expansion;
    }
    return layer;
  }

  Tensor forward(Tensor x) {
    x = maxpool(relu(bn1(conv1(x))));
    x = layer1->forward(x);
    x = layer2->forward(x);
    x = layer3->forward(x);
    x = layer4->forward(x);
    x = avgpool(x).view({x.size(0), -1});
    return fc(x);
  }
};
TORCH_MODULE(ResNet);

}  // namespace zoo
