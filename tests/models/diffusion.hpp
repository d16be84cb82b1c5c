// The denoising U-Net of latent diffusion (Rombach et al., "High-Resolution Image Synthesis with Latent Diffusion
// Models", 2021) with the sizes of Stable Diffusion 1: blocks with the time's embedding, self-attention,
// cross-attention to a text, gated feed-forward.
#pragma once

#include <torch/torch.h>

#include <cmath>
#include <vector>

namespace zoo {
using torch::Tensor;
namespace F = torch::nn::functional;

struct DiffusionConfig {
  int64_t latent = 4, width = 320, heads = 8, context = 768, groups = 32, blocks = 2;
  std::vector<int64_t> multipliers = {1, 2, 4, 4};
};

inline torch::nn::Conv2d conv3x3(int64_t in, int64_t out, int64_t stride = 1) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, 3).stride(stride).padding(1));
}

/// [batch] -> [batch, dim]: cosines and sines of falling frequencies.
inline Tensor timestep_embedding(const Tensor& timesteps, int64_t dim, at::ScalarType dtype) {
  const auto half = dim / 2;
  const auto frequencies = torch::exp(-std::log(10000.0) * torch::arange(0, half, dtype) / static_cast<double>(half));
  const auto angles = timesteps.unsqueeze(1).to(dtype) * frequencies.unsqueeze(0);
  return torch::cat({torch::cos(angles), torch::sin(angles)}, -1);
}

struct ResBlockImpl : torch::nn::Module {
  torch::nn::GroupNorm norm1{nullptr}, norm2{nullptr};
  torch::nn::Conv2d conv1{nullptr}, conv2{nullptr}, skip{nullptr};
  torch::nn::Linear time{nullptr};

  ResBlockImpl(int64_t in, int64_t out, int64_t time_dim, int64_t groups) {
    norm1 = register_module("norm1", torch::nn::GroupNorm(groups, in));
    conv1 = register_module("conv1", conv3x3(in, out));
    time = register_module("time", torch::nn::Linear(time_dim, out));
    norm2 = register_module("norm2", torch::nn::GroupNorm(groups, out));
    conv2 = register_module("conv2", conv3x3(out, out));
    if (in != out) skip = register_module("skip", torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, 1)));
  }

  Tensor forward(const Tensor& x, const Tensor& embedding) {
    auto h = conv1(F::silu(norm1(x)));
    h = h + time(F::silu(embedding)).unsqueeze(-1).unsqueeze(-1);
    h = conv2(F::silu(norm2(h)));
    return (skip ? skip(x) : x) + h;
  }
};
TORCH_MODULE(ResBlock);

struct CrossAttentionImpl : torch::nn::Module {
  int64_t heads;
  torch::nn::Linear to_q{nullptr}, to_k{nullptr}, to_v{nullptr}, to_out{nullptr};

  CrossAttentionImpl(int64_t dim, int64_t context, int64_t heads) : heads(heads) {
    to_q = register_module("to_q", torch::nn::Linear(torch::nn::LinearOptions(dim, dim).bias(false)));
    to_k = register_module("to_k", torch::nn::Linear(torch::nn::LinearOptions(context, dim).bias(false)));
    to_v = register_module("to_v", torch::nn::Linear(torch::nn::LinearOptions(context, dim).bias(false)));
    to_out = register_module("to_out", torch::nn::Linear(dim, dim));
  }

  Tensor forward(const Tensor& x, const Tensor& context = {}) {
    const auto& source = context.defined() ? context : x;
    const auto split = [&](const Tensor& t) {
      return t.view({t.size(0), t.size(1), heads, -1})
          .permute({0, 2, 1, 3})
          .reshape({t.size(0) * heads, t.size(1), -1});
    };
    const auto q = split(to_q(x)), k = split(to_k(source)), v = split(to_v(source));
    const auto scale = std::pow(q.size(-1), -0.5);
    const auto attention = (torch::einsum("bid,bjd->bij", {q, k}) * scale).softmax(-1);
    const auto y = torch::einsum("bij,bjd->bid", {attention, v});
    return to_out(y.view({x.size(0), heads, x.size(1), -1}).permute({0, 2, 1, 3}).reshape(x.sizes()));
  }
};
TORCH_MODULE(CrossAttention);

struct SpatialTransformerImpl : torch::nn::Module {
  torch::nn::GroupNorm norm{nullptr};
  torch::nn::Conv2d proj_in{nullptr}, proj_out{nullptr};
  torch::nn::LayerNorm norm1{nullptr}, norm2{nullptr}, norm3{nullptr};
  CrossAttention attn1{nullptr}, attn2{nullptr};
  torch::nn::Linear gate{nullptr}, out{nullptr};

  SpatialTransformerImpl(int64_t dim, const DiffusionConfig& c) {
    norm = register_module("norm", torch::nn::GroupNorm(torch::nn::GroupNormOptions(c.groups, dim).eps(1e-6)));
    proj_in = register_module("proj_in", torch::nn::Conv2d(torch::nn::Conv2dOptions(dim, dim, 1)));
    norm1 = register_module("norm1", torch::nn::LayerNorm(torch::nn::LayerNormOptions({dim})));
    attn1 = register_module("attn1", CrossAttention(dim, dim, c.heads));
    norm2 = register_module("norm2", torch::nn::LayerNorm(torch::nn::LayerNormOptions({dim})));
    attn2 = register_module("attn2", CrossAttention(dim, c.context, c.heads));
    norm3 = register_module("norm3", torch::nn::LayerNorm(torch::nn::LayerNormOptions({dim})));
    gate = register_module("gate", torch::nn::Linear(dim, 8 * dim));
    out = register_module("out", torch::nn::Linear(4 * dim, dim));
    proj_out = register_module("proj_out", torch::nn::Conv2d(torch::nn::Conv2dOptions(dim, dim, 1)));
  }

  Tensor forward(const Tensor& image, const Tensor& context) {
    const auto b = image.size(0), c = image.size(1), h = image.size(2), w = image.size(3);
    auto x = proj_in(norm(image)).permute({0, 2, 3, 1}).reshape({b, h * w, c});
    x = attn1(norm1(x)) + x;
    x = attn2(norm2(x), context) + x;
    const auto halves = gate(norm3(x)).chunk(2, /*dim=*/-1);
    x = out(halves[0] * F::gelu(halves[1])) + x;
    return proj_out(x.reshape({b, h, w, c}).permute({0, 3, 1, 2}).contiguous()) + image;
  }
};
TORCH_MODULE(SpatialTransformer);

/// One step of a side of the U: a block, and attention at all but the smallest size.
struct DiffusionStepImpl : torch::nn::Module {
  ResBlock block;
  SpatialTransformer attention{nullptr};

  DiffusionStepImpl(int64_t in, int64_t out, bool attends, const DiffusionConfig& c)
      : block(in, out, 4 * c.width, c.groups) {
    register_module("block", block);
    if (attends) attention = register_module("attention", SpatialTransformer(out, c));
  }
  Tensor forward(Tensor x, const Tensor& embedding, const Tensor& context) {
    x = block(x, embedding);
    return attention ? attention(x, context) : x;
  }
};
TORCH_MODULE(DiffusionStep);

struct DiffusionUNetImpl : torch::nn::Module {
  DiffusionConfig config;
  torch::nn::Sequential time_embed{nullptr};
  torch::nn::Conv2d conv_in{nullptr}, conv_out{nullptr};
  torch::nn::ModuleList down, downsample, up, upsample;
  DiffusionStep middle1{nullptr};
  ResBlock middle2{nullptr};
  torch::nn::GroupNorm norm_out{nullptr};

  explicit DiffusionUNetImpl(const DiffusionConfig& c = {}) : config(c) {
    const auto time_dim = 4 * c.width;
    const auto levels = c.multipliers.size();
    std::vector<int64_t> skips{c.width};
    auto channels = c.width;
    for (size_t level = 0; level < levels; ++level) {
      const auto out = c.width * c.multipliers[level];
      for (int64_t i = 0; i < c.blocks; ++i) {
        down->push_back(DiffusionStep(channels, out, level + 1 < levels, c));
        skips.push_back(channels = out);
      }
      if (level + 1 == levels) break;
      downsample->push_back(conv3x3(channels, channels, /*stride=*/2));
      skips.push_back(channels);
    }
    middle1 = register_module("middle1", DiffusionStep(channels, channels, true, c));
    middle2 = register_module("middle2", ResBlock(channels, channels, time_dim, c.groups));
    for (size_t level = levels; level-- > 0;) {
      const auto out = c.width * c.multipliers[level];
      for (int64_t i = 0; i <= c.blocks; ++i) {
        up->push_back(DiffusionStep(channels + skips.back(), out, level + 1 < levels, c));
        skips.pop_back();
        channels = out;
      }
      if (level > 0) upsample->push_back(conv3x3(channels, channels));
    }
    register_module("down", down);
    register_module("downsample", downsample);
    register_module("up", up);
    register_module("upsample", upsample);
    time_embed =
        register_module("time_embed", torch::nn::Sequential(torch::nn::Linear(c.width, time_dim), torch::nn::SiLU(),
                                                            torch::nn::Linear(time_dim, time_dim)));
    conv_in = register_module("conv_in", conv3x3(c.latent, c.width));
    norm_out = register_module("norm_out", torch::nn::GroupNorm(c.groups, c.width));
    conv_out = register_module("conv_out", conv3x3(c.width, c.latent));
  }

  /// latents [batch, latent, height, width], timesteps [batch], context [batch, words, context]: the noise in latents.
  Tensor forward(const Tensor& latents, const Tensor& timesteps, const Tensor& context) {
    const auto embedding = time_embed->forward(timestep_embedding(timesteps, config.width, latents.scalar_type()));
    const auto levels = config.multipliers.size(), blocks = static_cast<size_t>(config.blocks);
    auto x = conv_in(latents);
    std::vector<Tensor> skips{x};
    for (size_t i = 0; i < down->size(); ++i) {
      x = down->at<DiffusionStepImpl>(i).forward(x, embedding, context);
      skips.push_back(x);
      if ((i + 1) % blocks != 0 || i + 1 == down->size()) continue;
      x = downsample->at<torch::nn::Conv2dImpl>(i / blocks).forward(x);
      skips.push_back(x);
    }
    x = middle2(middle1(x, embedding, context), embedding);
    for (size_t i = 0; i < up->size(); ++i) {
      x = up->at<DiffusionStepImpl>(i).forward(torch::cat({x, skips.back()}, 1), embedding, context);
      skips.pop_back();
      if ((i + 1) % (blocks + 1) != 0 || i / (blocks + 1) + 1 == levels) continue;
      x = F::interpolate(x, F::InterpolateFuncOptions().scale_factor(std::vector<double>{2, 2}).mode(torch::kNearest));
      x = upsample->at<torch::nn::Conv2dImpl>(i / (blocks + 1)).forward(x);
    }
    return conv_out(F::silu(norm_out(x)));
  }
};
TORCH_MODULE(DiffusionUNet);

}  // namespace zoo
