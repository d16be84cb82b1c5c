// The generator of DCGAN (Radford et al., "Unsupervised Representation Learning with Deep Convolutional Generative
// Adversarial Networks", 2015), as in PyTorch's C++ tutorial: from noise to images of 64 x 64.
#pragma once

#include <torch/torch.h>

namespace zoo {
using torch::Tensor;

struct GeneratorImpl : torch::nn::Module {
  torch::nn::Sequential main;

  explicit GeneratorImpl(int64_t noise = 100, int64_t width = 64, int64_t channels = 3) {
    const auto stage = [&](int64_t in, int64_t out, int64_t stride, int64_t padding) {
      main->push_back(torch::nn::ConvTranspose2d(
          torch::nn::ConvTranspose2dOptions(in, out, 4).stride(stride).padding(padding).bias(false)));
    };
    const auto activation = [&](int64_t size) {
      main->push_back(torch::nn::BatchNorm2d(size));
      main->push_back(torch::nn::ReLU(torch::nn::ReLUOptions().inplace(true)));
    };
    stage(noise, width * 8, 1, 0);
    activation(width * 8);
    stage(width * 8, width * 4, 2, 1);
    activation(width * 4);
    stage(width * 4, width * 2, 2, 1);
    activation(width * 2);
    stage(width * 2, width, 2, 1);
    activation(width);
    stage(width, channels, 2, 1);
    main->push_back(torch::nn::Tanh());
    register_module("main", main);
    const torch::NoGradGuard no_grad;
    for (auto& parameter : named_parameters()) {
      if (parameter.value().dim() == 4) parameter.value().normal_(0, 0.02);
    }
  }

  /// [batch, noise] -> [batch, channels, 64, 64].
  Tensor forward(const Tensor& z) { return main->forward(z.view({z.size(0), z.size(1), 1, 1})); }
};
TORCH_MODULE(Generator);

}  // namespace zoo
