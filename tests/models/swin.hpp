// Swin-T as a backbone (Liu et al., "Swin Transformer: Hierarchical Vision Transformer using Shifted Windows", 2021):
// the features of all four stages, each after a norm of its own, as detectors take them. Padding and masks follow
// torchvision, and are made in forward for the size that comes. All stochastic depths are alike.
#pragma once

#include <torch/torch.h>

#include <array>
#include <cmath>
#include <utility>
#include <vector>

namespace zoo {
using torch::Tensor;
using torch::indexing::None;
using torch::indexing::Slice;
namespace F = torch::nn::functional;

struct SwinConfig {
  int64_t patch = 4, dim = 96, window = 7;
  std::vector<int64_t> depths = {2, 2, 6, 2}, heads = {3, 6, 12, 24};
  double stochastic_depth = 0.2;
};

struct WindowAttentionImpl : torch::nn::Module {
  int64_t heads, window, shift;
  torch::nn::Linear qkv, proj;
  Tensor relative_position_bias_table, relative_position_index;

  WindowAttentionImpl(int64_t dim, int64_t heads, int64_t window, int64_t shift)
      : heads(heads), window(window), shift(shift), qkv(dim, dim * 3), proj(dim, dim) {
    register_module("qkv", qkv);
    register_module("proj", proj);
    const auto span = 2 * window - 1;
    relative_position_bias_table =
        register_parameter("relative_position_bias_table", torch::randn({span * span, heads}) * 0.02);
    const auto line = torch::arange(window);
    const auto coords = torch::stack(torch::meshgrid({line, line}, "ij")).flatten(1);
    const auto relative = (coords.unsqueeze(2) - coords.unsqueeze(1)).permute({1, 2, 0}) + (window - 1);
    relative_position_index =
        register_buffer("relative_position_index", (relative.select(2, 0) * span + relative.select(2, 1)).flatten());
  }

  /// [batch, height, width, dim] -> [batch * windows, window * window, dim].
  Tensor partition(const Tensor& x) const {
    const auto batch = x.size(0), rows = x.size(1) / window, columns = x.size(2) / window;
    return x.view({batch, rows, window, columns, window, -1})
        .permute({0, 1, 3, 2, 4, 5})
        .reshape({batch * rows * columns, window * window, -1});
  }

  /// Keeps apart what shifting brought together: -100 where two places of a window come from different regions.
  Tensor region_mask(const Tensor& x, int64_t shift_h, int64_t shift_w) const {
    const auto cuts = [&](int64_t shift) {
      return std::array{Slice(0, -window), Slice(-window, -shift), Slice(-shift, None)};
    };
    auto regions = x.new_zeros({1, x.size(1), x.size(2), 1});
    int64_t count = 0;
    for (const auto& h : cuts(shift_h))
      for (const auto& w : cuts(shift_w)) regions.index_put_({Slice(), h, w, Slice()}, count++);
    const auto windows = partition(regions).squeeze(-1);
    auto mask = windows.unsqueeze(1) - windows.unsqueeze(2);
    return mask.masked_fill(mask != 0, -100.0).masked_fill(mask == 0, 0.0);
  }

  Tensor forward(const Tensor& input) {
    const auto batch = input.size(0), height = input.size(1), width = input.size(2), dim = input.size(3);
    const auto below = (window - height % window) % window, right = (window - width % window) % window;
    auto x = F::pad(input, F::PadFuncOptions({0, 0, 0, right, 0, below}));
    const auto rows = x.size(1) / window, columns = x.size(2) / window, area = window * window;
    // A feature map of one window has nothing to be shifted to.
    const auto shift_h = rows == 1 ? 0 : shift, shift_w = columns == 1 ? 0 : shift;
    const bool shifted = shift_h + shift_w > 0;
    if (shifted) x = torch::roll(x, {-shift_h, -shift_w}, {1, 2});

    const auto parts = qkv(partition(x)).view({-1, area, 3, heads, dim / heads}).permute({2, 0, 3, 1, 4});
    const auto q = parts[0] / std::sqrt(static_cast<double>(dim / heads)), k = parts[1], v = parts[2];
    auto scores = torch::matmul(q, k.transpose(-2, -1));
    const auto bias = relative_position_bias_table.index({relative_position_index});
    scores += bias.view({area, area, -1}).permute({2, 0, 1}).contiguous().unsqueeze(0);
    if (shifted) {
      const auto mask = region_mask(x, shift_h, shift_w);
      scores = scores.view({batch, mask.size(0), heads, area, area}) + mask.unsqueeze(1).unsqueeze(0);
      scores = scores.view({-1, heads, area, area});
    }
    auto y = proj(torch::matmul(scores.softmax(-1), v).transpose(1, 2).reshape({-1, area, dim}));
    y = y.view({batch, rows, columns, window, window, dim}).permute({0, 1, 3, 2, 4, 5}).reshape(x.sizes());
    if (shifted) y = torch::roll(y, {shift_h, shift_w}, {1, 2});
    return y.index({Slice(), Slice(None, height), Slice(None, width)}).contiguous();
  }
};
TORCH_MODULE(WindowAttention);

struct SwinBlockImpl : torch::nn::Module {
  torch::nn::LayerNorm norm1, norm2;
  WindowAttention attn;
  torch::nn::Sequential mlp;
  double stochastic_depth;

  SwinBlockImpl(int64_t dim, int64_t heads, int64_t window, int64_t shift, double stochastic_depth)
      : norm1(torch::nn::LayerNormOptions({dim})),
        norm2(torch::nn::LayerNormOptions({dim})),
        attn(dim, heads, window, shift),
        mlp(torch::nn::Linear(dim, 4 * dim), torch::nn::GELU(), torch::nn::Linear(4 * dim, dim)),
        stochastic_depth(stochastic_depth) {
    register_module("norm1", norm1);
    register_module("attn", attn);
    register_module("norm2", norm2);
    register_module("mlp", mlp);
  }

  /// In training, drops the whole branch for some of the images.
  Tensor drop(const Tensor& x) const {
    if (!is_training() || stochastic_depth == 0) return x;
    const auto kept = 1 - stochastic_depth;
    return x * torch::empty({x.size(0), 1, 1, 1}, x.options()).bernoulli_(kept).div_(kept);
  }

  Tensor forward(Tensor x) {
    x = x + drop(attn(norm1(x)));
    return x + drop(mlp->forward(norm2(x)));
  }
};
TORCH_MODULE(SwinBlock);

/// Four neighbours become one of twice the width.
struct PatchMergingImpl : torch::nn::Module {
  torch::nn::LayerNorm norm;
  torch::nn::Linear reduction;

  explicit PatchMergingImpl(int64_t dim)
      : norm(torch::nn::LayerNormOptions({4 * dim})),
        reduction(torch::nn::LinearOptions(4 * dim, 2 * dim).bias(false)) {
    register_module("norm", norm);
    register_module("reduction", reduction);
  }

  Tensor forward(Tensor x) {
    x = F::pad(x, F::PadFuncOptions({0, 0, 0, x.size(2) % 2, 0, x.size(1) % 2}));
    const auto every_other = [&](int64_t row, int64_t column) {
      return x.index({"...", Slice(row, None, 2), Slice(column, None, 2), Slice()});
    };
    x = torch::cat({every_other(0, 0), every_other(1, 0), every_other(0, 1), every_other(1, 1)}, -1);
    return reduction(norm(x));
  }
};
TORCH_MODULE(PatchMerging);

struct SwinImpl : torch::nn::Module {
  torch::nn::Conv2d patch_embed;
  torch::nn::LayerNorm patch_norm;
  torch::nn::ModuleList stages, merges, norms;

  explicit SwinImpl(const SwinConfig& config = {})
      : patch_embed(torch::nn::Conv2dOptions(3, config.dim, config.patch).stride(config.patch)),
        patch_norm(torch::nn::LayerNormOptions({config.dim})) {
    register_module("patch_embed", patch_embed);
    register_module("patch_norm", patch_norm);
    for (size_t i = 0; i < config.depths.size(); ++i) {
      const auto dim = config.dim << i;
      torch::nn::Sequential blocks;
      for (int64_t k = 0; k < config.depths[i]; ++k) {
        blocks->push_back(SwinBlock(dim, config.heads[i], config.window, k % 2 == 0 ? 0 : config.window / 2,
                                    config.stochastic_depth));
      }
      stages->push_back(blocks);
      norms->push_back(torch::nn::LayerNorm(torch::nn::LayerNormOptions({dim})));
      if (i + 1 < config.depths.size()) merges->push_back(PatchMerging(dim));
    }
    register_module("stages", stages);
    register_module("merges", merges);
    register_module("norms", norms);
  }

  std::vector<Tensor> forward(const Tensor& images) {
    std::vector<Tensor> features;
    auto x = patch_norm(patch_embed(images).permute({0, 2, 3, 1}));
    for (size_t i = 0; i < stages->size(); ++i) {
      if (i > 0) x = merges->at<PatchMergingImpl>(i - 1).forward(x);
      x = stages->at<torch::nn::SequentialImpl>(i).forward(x);
      features.push_back(norms->at<torch::nn::LayerNormImpl>(i).forward(x).permute({0, 3, 1, 2}).contiguous());
    }
    return features;
  }
};
TORCH_MODULE(Swin);

}  // namespace zoo
