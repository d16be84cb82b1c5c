// MLP-Mixer B/16 (Tolstikhin et al., "MLP-Mixer: An all-MLP Architecture for Vision", 2021).
#pragma once

#include <torch/torch.h>

namespace zoo {
using torch::Tensor;

struct MixerConfig {
  int64_t image = 224, patch = 16, dim = 768, depth = 12, token_mlp = 384, channel_mlp = 3072, classes = 1000;
};

struct MixerBlockImpl : torch::nn::Module {
  torch::nn::LayerNorm norm1, norm2;
  torch::nn::Sequential token_mixing, channel_mixing;

  MixerBlockImpl(int64_t tokens, const MixerConfig& c)
      : norm1(torch::nn::LayerNormOptions({c.dim})),
        norm2(torch::nn::LayerNormOptions({c.dim})),
        token_mixing(mlp(tokens, c.token_mlp)),
        channel_mixing(mlp(c.dim, c.channel_mlp)) {
    register_module("norm1", norm1);
    register_module("token_mixing", token_mixing);
    register_module("norm2", norm2);
    register_module("channel_mixing", channel_mixing);
  }

  static torch::nn::Sequential mlp(int64_t in, int64_t hidden) {
    return torch::nn::Sequential(
        {{"fc1", torch::nn::Linear(in, hidden)}, {"gelu", torch::nn::GELU()}, {"fc2", torch::nn::Linear(hidden, in)}});
  }

  Tensor forward(Tensor x) {
    x = x + token_mixing->forward(norm1(x).transpose(1, 2)).transpose(1, 2);
    x = x + channel_mixing->forward(norm2(x));
    return x;
  }
};
TORCH_MODULE(MixerBlock);

struct MixerImpl : torch::nn::Module {
  torch::nn::Conv2d stem;
  torch::nn::Sequential blocks;
  torch::nn::LayerNorm norm;
  torch::nn::Linear head;

  explicit MixerImpl(const MixerConfig& c = {})
      : stem(torch::nn::Conv2dOptions(3, c.dim, c.patch).stride(c.patch)),
        norm(torch::nn::LayerNormOptions({c.dim})),
        head(c.dim, c.classes) {
    const auto tokens = (c.image / c.patch) * (c.image / c.patch);
    for (int64_t i = 0; i < c.depth; ++i) blocks->push_back(MixerBlock(tokens, c));
    register_module("stem", stem);
    register_module("blocks", blocks);
    register_module("norm", norm);
    register_module("head", head);
  }

  Tensor forward(const Tensor& images) {
    const auto x = torch::einsum("nchw->nhwc", {stem(images)}).flatten(1, 2);
    return head(norm(blocks->forward(x)).mean(/*dim=*/1));
  }
};
TORCH_MODULE(Mixer);

}  // namespace zoo
