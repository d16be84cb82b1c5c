// ViT-B/16 (Dosovitskiy et al., "An Image is Worth 16x16 Words", 2020), named after timm's; dropout as in the paper's
// training on ImageNet.
#pragma once

#include <torch/torch.h>

namespace zoo {
using torch::Tensor;
using torch::indexing::Slice;

struct VitConfig {
  int64_t image = 224, patch = 16, dim = 768, depth = 12, heads = 12, mlp = 3072, classes = 1000;
  double dropout = 0.1;
};

struct VitAttentionImpl : torch::nn::Module {
  int64_t heads;
  torch::nn::Linear qkv, proj;
  torch::nn::Dropout proj_drop;

  explicit VitAttentionImpl(const VitConfig& config)
      : heads(config.heads), qkv(config.dim, config.dim * 3), proj(config.dim, config.dim), proj_drop(config.dropout) {
    register_module("qkv", qkv);
    register_module("proj", proj);
    register_module("proj_drop", proj_drop);
  }

  Tensor forward(const Tensor& x) {
    const auto batch = x.size(0), length = x.size(1), dim = x.size(2);
    const auto parts = qkv(x).reshape({batch, length, 3, heads, dim / heads}).permute({2, 0, 3, 1, 4}).unbind(0);
    auto y = torch::scaled_dot_product_attention(parts[0], parts[1], parts[2]);
    return proj_drop(proj(y.transpose(1, 2).reshape({batch, length, dim})));
  }
};
TORCH_MODULE(VitAttention);

struct VitBlockImpl : torch::nn::Module {
  torch::nn::LayerNorm norm1, norm2;
  VitAttention attn;
  torch::nn::Sequential mlp;

  explicit VitBlockImpl(const VitConfig& config)
      : norm1(torch::nn::LayerNormOptions({config.dim}).eps(1e-6)),
        norm2(torch::nn::LayerNormOptions({config.dim}).eps(1e-6)),
        attn(config),
        mlp(torch::nn::Linear(config.dim, config.mlp), torch::nn::GELU(), torch::nn::Dropout(config.dropout),
            torch::nn::Linear(config.mlp, config.dim), torch::nn::Dropout(config.dropout)) {
    register_module("norm1", norm1);
    register_module("attn", attn);
    register_module("norm2", norm2);
    register_module("mlp", mlp);
  }

  Tensor forward(Tensor x) {
    x = x + attn(norm1(x));
    return x + mlp->forward(norm2(x));
  }
};
TORCH_MODULE(VitBlock);

struct VisionTransformerImpl : torch::nn::Module {
  torch::nn::Conv2d patch_embed;
  Tensor cls_token, pos_embed;
  torch::nn::Dropout pos_drop;
  torch::nn::Sequential blocks;
  torch::nn::LayerNorm norm;
  torch::nn::Linear head;

  explicit VisionTransformerImpl(const VitConfig& config = {})
      : patch_embed(torch::nn::Conv2dOptions(3, config.dim, config.patch).stride(config.patch)),
        pos_drop(config.dropout),
        norm(torch::nn::LayerNormOptions({config.dim}).eps(1e-6)),
        head(config.dim, config.classes) {
    const auto patches = (config.image / config.patch) * (config.image / config.patch);
    register_module("patch_embed", patch_embed);
    cls_token = register_parameter("cls_token", torch::zeros({1, 1, config.dim}));
    pos_embed = register_parameter("pos_embed", torch::randn({1, patches + 1, config.dim}) * 0.02);
    register_module("pos_drop", pos_drop);
    for (int64_t i = 0; i < config.depth; ++i) blocks->push_back(VitBlock(config));
    register_module("blocks", blocks);
    register_module("norm", norm);
    register_module("head", head);
  }

  Tensor forward(Tensor x) {
    x = patch_embed(x).flatten(2).transpose(1, 2);
    x = torch::cat({cls_token.expand({x.size(0), -1, -1}), x}, 1);
    x = blocks->forward(pos_drop(x + pos_embed));
    return head(norm(x).index({Slice(), 0}));
  }
};
TORCH_MODULE(VisionTransformer);

}  // namespace zoo
