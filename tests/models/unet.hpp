// U-Net (Ronneberger et al., "U-Net: Convolutional Networks for Biomedical Image Segmentation", 2015). As common today,
// convolutions keep the size and are followed by batch norm; what pooling rounded off is padded on the way up.
#pragma once

#include <torch/torch.h>

namespace zoo {
using torch::Tensor;
namespace F = torch::nn::functional;

struct DoubleConvImpl : torch::nn::Module {
  torch::nn::Sequential layers;

  DoubleConvImpl(int64_t in, int64_t out)
      : layers(torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, 3).padding(1).bias(false)),
               torch::nn::BatchNorm2d(out), torch::nn::ReLU(true),
               torch::nn::Conv2d(torch::nn::Conv2dOptions(out, out, 3).padding(1).bias(false)),
               torch::nn::BatchNorm2d(out), torch::nn::ReLU(true)) {
    register_module("double_conv", layers);
  }
  Tensor forward(const Tensor& x) { return layers->forward(x); }
};
TORCH_MODULE(DoubleConv);

struct DownImpl : torch::nn::Module {
  DoubleConv conv;

  DownImpl(int64_t in, int64_t out) : conv(in, out) { register_module("conv", conv); }
  Tensor forward(const Tensor& x) { return conv(torch::max_pool2d(x, 2)); }
};
TORCH_MODULE(Down);

struct UpImpl : torch::nn::Module {
  torch::nn::ConvTranspose2d up;
  DoubleConv conv;

  UpImpl(int64_t in, int64_t out) : up(torch::nn::ConvTranspose2dOptions(in, in / 2, 2).stride(2)), conv(in, out) {
    register_module("up", up);
    register_module("conv", conv);
  }

  /// `skip` is the encoder's result of this size.
  Tensor forward(Tensor x, const Tensor& skip) {
    x = up(x);
    const auto height = skip.size(2) - x.size(2), width = skip.size(3) - x.size(3);
    x = F::pad(x, F::PadFuncOptions({width / 2, width - width / 2, height / 2, height - height / 2}));
    return conv(torch::cat({skip, x}, /*dim=*/1));
  }
};
TORCH_MODULE(Up);

struct UNetImpl : torch::nn::Module {
  DoubleConv inc;
  Down down1, down2, down3, down4;
  Up up1, up2, up3, up4;
  torch::nn::Conv2d outc;

  explicit UNetImpl(int64_t channels = 1, int64_t classes = 2, int64_t width = 64)
      : inc(channels, width),
        down1(width, width * 2),
        down2(width * 2, width * 4),
        down3(width * 4, width * 8),
        down4(width * 8, width * 16),
        up1(width * 16, width * 8),
        up2(width * 8, width * 4),
        up3(width * 4, width * 2),
        up4(width * 2, width),
        outc(torch::nn::Conv2dOptions(width, classes, 1)) {
    register_module("inc", inc);
    register_module("down1", down1);
    register_module("down2", down2);
    register_module("down3", down3);
    register_module("down4", down4);
    register_module("up1", up1);
    register_module("up2", up2);
    register_module("up3", up3);
    register_module("up4", up4);
    register_module("outc", outc);
  }

  Tensor forward(const Tensor& x) {
    const auto x1 = inc(x);
    const auto x2 = down1(x1);
    const auto x3 = down2(x2);
    const auto x4 = down3(x3);
    auto y = down4(x4);
    y = up1(y, x4);
    y = up2(y, x3);
    y = up3(y, x2);
    y = up4(y, x1);
    return F::log_softmax(outc(y), F::LogSoftmaxFuncOptions(1));
  }
};
TORCH_MODULE(UNet);

}  // namespace zoo
