// Residual networks of basic blocks (He et al., 2015): ResNet-18 and ResNet-34.
//
// Main names: ResNet, BasicBlock, resnet18(), resnet34().
// Ordinary LibTorch modules. Every parameter has the name that torchvision gives it ("layer1.0.conv1.weight",
// "layer2.0.downsample.0.weight"), so its weights load by name.
#pragma once

#include <torch/torch.h>

#include <array>
#include <cstdint>

namespace resnet_detail {
inline torch::nn::Conv2d convolution(std::int64_t in, std::int64_t out, std::int64_t size, std::int64_t stride) {
  // No bias: the batch norm that follows has one.
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, size).stride(stride).padding(size / 2).bias(false));
}
}  // namespace resnet_detail

/// Two 3x3 convolutions beside a shortcut. The shortcut is a strided 1x1 convolution where the shape changes.
/// Shapes: [batch, in, height, width] -> [batch, out, height / stride, width / stride], rounded up.
struct BasicBlockImpl : torch::nn::Module {
  torch::nn::Conv2d conv1{nullptr}, conv2{nullptr};
  torch::nn::BatchNorm2d bn1{nullptr}, bn2{nullptr};
  torch::nn::ReLU relu{nullptr};
  torch::nn::Sequential downsample{nullptr};  // empty when the shortcut is the input itself

  BasicBlockImpl(std::int64_t in, std::int64_t out, std::int64_t stride) {
    conv1 = register_module("conv1", resnet_detail::convolution(in, out, 3, stride));
    bn1 = register_module("bn1", torch::nn::BatchNorm2d(out));
    relu = register_module("relu", torch::nn::ReLU(torch::nn::ReLUOptions().inplace(true)));
    conv2 = register_module("conv2", resnet_detail::convolution(out, out, 3, 1));
    bn2 = register_module("bn2", torch::nn::BatchNorm2d(out));
    if (stride != 1 || in != out) {
      downsample = register_module("downsample", torch::nn::Sequential(resnet_detail::convolution(in, out, 1, stride),
                                                                       torch::nn::BatchNorm2d(out)));
    }
  }

  torch::Tensor forward(torch::Tensor x) {
    auto y = relu(bn1(conv1(x)));
    y = bn2(conv2(y));
    y += downsample ? downsample->forward(x) : x;
    return relu(y);
  }
};
TORCH_MODULE(BasicBlock);

/// An image classifier of four stages of basic blocks, `blocks[i]` in stage i.
/// Shapes: images [batch, 3, height, width], height and width from 1 up, 224 as trained -> scores [batch, classes].
struct ResNetImpl : torch::nn::Module {
  torch::nn::Conv2d conv1{nullptr};
  torch::nn::BatchNorm2d bn1{nullptr};
  torch::nn::ReLU relu{nullptr};
  torch::nn::MaxPool2d maxpool{nullptr};
  torch::nn::Sequential layer1{nullptr}, layer2{nullptr}, layer3{nullptr}, layer4{nullptr};
  torch::nn::AdaptiveAvgPool2d avgpool{nullptr};
  torch::nn::Linear fc{nullptr};

  explicit ResNetImpl(const std::array<std::int64_t, 4>& blocks, std::int64_t classes = 1000) {
    conv1 = register_module("conv1", resnet_detail::convolution(3, 64, 7, 2));
    bn1 = register_module("bn1", torch::nn::BatchNorm2d(64));
    relu = register_module("relu", torch::nn::ReLU(torch::nn::ReLUOptions().inplace(true)));
    maxpool = register_module("maxpool", torch::nn::MaxPool2d(torch::nn::MaxPool2dOptions(3).stride(2).padding(1)));
    layer1 = register_module("layer1", stage(64, 64, blocks[0], 1));
    layer2 = register_module("layer2", stage(64, 128, blocks[1], 2));
    layer3 = register_module("layer3", stage(128, 256, blocks[2], 2));
    layer4 = register_module("layer4", stage(256, 512, blocks[3], 2));
    avgpool = register_module("avgpool", torch::nn::AdaptiveAvgPool2d(1));
    fc = register_module("fc", torch::nn::Linear(512, classes));
    // LibTorch's own start for convolutions shrinks the signal from layer to layer; this one keeps its variance.
    for (const auto& module : modules(/*include_self=*/false)) {
      if (const auto* convolution = module->as<torch::nn::Conv2d>()) {
        torch::nn::init::kaiming_normal_(convolution->weight, 0.0, torch::kFanOut, torch::kReLU);
      }
    }
  }

  torch::Tensor forward(torch::Tensor x) {
    x = maxpool(relu(bn1(conv1(x))));
    x = layer1->forward(x);
    x = layer2->forward(x);
    x = layer3->forward(x);
    x = layer4->forward(x);
    return fc(torch::flatten(avgpool(x), 1));
  }

  /// The first block of a stage changes the shape, the others keep it.
  static torch::nn::Sequential stage(std::int64_t in, std::int64_t out, std::int64_t blocks, std::int64_t stride) {
    torch::nn::Sequential stage(BasicBlock(in, out, stride));
    for (std::int64_t i = 1; i < blocks; ++i) stage->push_back(BasicBlock(out, out, 1));
    return stage;
  }
};
TORCH_MODULE(ResNet);

inline ResNet resnet18(std::int64_t classes = 1000) { return ResNet(std::array<std::int64_t, 4>{2, 2, 2, 2}, classes); }
inline ResNet resnet34(std::int64_t classes = 1000) { return ResNet(std::array<std::int64_t, 4>{3, 4, 6, 3}, classes); }
