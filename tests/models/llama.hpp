// LLaMA (Touvron et al., "LLaMA: Open and Efficient Foundation Language Models", 2023), named after Hugging Face's: a
// decoder with RMS norms, rotary positions and a gated feed-forward part. Its sizes are those of the one of 7 billion
// parameters, which is for fake tensors only: all of its numbers take 27 GB.
#pragma once

#include <torch/torch.h>

#include <cmath>
#include <limits>
#include <vector>

namespace zoo {
using torch::Tensor;

struct LlamaConfig {
  int64_t vocab_size = 32000, hidden_size = 4096, intermediate_size = 11008, num_layers = 32, num_heads = 32;
  bool fused = false;  // attention by LibTorch's one operator
  int64_t head_size() const { return hidden_size / num_heads; }
};

struct RmsNormImpl : torch::nn::Module {
  Tensor weight;
  explicit RmsNormImpl(int64_t size) { weight = register_parameter("weight", torch::ones({size})); }
  Tensor forward(const Tensor& x) {
    const auto in_float = x.to(torch::kFloat);
    return weight * (in_float * torch::rsqrt(in_float.pow(2).mean(-1, true) + 1e-5)).to(x.scalar_type());
  }
};
TORCH_MODULE(RmsNorm);

struct LlamaAttentionImpl : torch::nn::Module {
  LlamaConfig c;
  torch::nn::Linear q_proj{nullptr}, k_proj{nullptr}, v_proj{nullptr}, o_proj{nullptr};

  explicit LlamaAttentionImpl(const LlamaConfig& c) : c(c) {
    const auto linear = torch::nn::LinearOptions(c.hidden_size, c.hidden_size).bias(false);
    q_proj = register_module("q_proj", torch::nn::Linear(linear));
    k_proj = register_module("k_proj", torch::nn::Linear(linear));
    v_proj = register_module("v_proj", torch::nn::Linear(linear));
    o_proj = register_module("o_proj", torch::nn::Linear(linear));
  }

  static Tensor rotate_half(const Tensor& x) {
    const auto halves = x.chunk(2, -1);
    return torch::cat({-halves[1], halves[0]}, -1);
  }
  Tensor forward(const Tensor& x, const Tensor& cos, const Tensor& sin, const Tensor& mask) {
    const auto batch = x.size(0), length = x.size(1);
    const auto heads = [&](const Tensor& t) {
      return t.view({batch, length, c.num_heads, c.head_size()}).transpose(1, 2);
    };
    auto q = heads(q_proj(x)), k = heads(k_proj(x));
    const auto v = heads(v_proj(x));
    q = q * cos + rotate_half(q) * sin;
    k = k * cos + rotate_half(k) * sin;
    Tensor y;
    if (c.fused) {
      y = torch::scaled_dot_product_attention(q, k, v, {}, 0.0, /*is_causal=*/true);
    } else {
      const auto weights = torch::matmul(q, k.transpose(2, 3)) / std::sqrt(static_cast<double>(c.head_size())) + mask;
      y = torch::matmul(torch::softmax(weights, -1, torch::kFloat).to(q.scalar_type()), v);
    }
    return o_proj(y.transpose(1, 2).contiguous().view({batch, length, c.hidden_size}));
  }
};
TORCH_MODULE(LlamaAttention);

struct LlamaMlpImpl : torch::nn::Module {
  torch::nn::Linear gate_proj{nullptr}, up_proj{nullptr}, down_proj{nullptr};

  explicit LlamaMlpImpl(const LlamaConfig& c) {
    const auto wider = torch::nn::LinearOptions(c.hidden_size, c.intermediate_size).bias(false);
    gate_proj = register_module("gate_proj", torch::nn::Linear(wider));
    up_proj = register_module("up_proj", torch::nn::Linear(wider));
    down_proj = register_module(
        "down_proj", torch::nn::Linear(torch::nn::LinearOptions(c.intermediate_size, c.hidden_size).bias(false)));
  }
  Tensor forward(const Tensor& x) { return down_proj(torch::silu(gate_proj(x)) * up_proj(x)); }
};
TORCH_MODULE(LlamaMlp);

struct LlamaBlockImpl : torch::nn::Module {
  RmsNorm input_layernorm, post_attention_layernorm;
  LlamaAttention self_attn;
  LlamaMlp mlp;

  explicit LlamaBlockImpl(const LlamaConfig& c)
      : input_layernorm(c.hidden_size), post_attention_layernorm(c.hidden_size), self_attn(c), mlp(c) {
    register_module("input_layernorm", input_layernorm);
    register_module("self_attn", self_attn);
    register_module("post_attention_layernorm", post_attention_layernorm);
    register_module("mlp", mlp);
  }
  Tensor forward(Tensor x, const Tensor& cos, const Tensor& sin, const Tensor& mask) {
    x = x + self_attn(input_layernorm(x), cos, sin, mask);
    return x + mlp(post_attention_layernorm(x));
  }
};
TORCH_MODULE(LlamaBlock);

struct LlamaImpl : torch::nn::Module {
  LlamaConfig c;
  torch::nn::Embedding embed_tokens;
  torch::nn::ModuleList layers;
  RmsNorm norm;
  torch::nn::Linear lm_head;

  explicit LlamaImpl(const LlamaConfig& c = {})
      : c(c),
        embed_tokens(c.vocab_size, c.hidden_size),
        norm(c.hidden_size),
        lm_head(torch::nn::LinearOptions(c.hidden_size, c.vocab_size).bias(false)) {
    register_module("embed_tokens", embed_tokens);
    for (int64_t i = 0; i < c.num_layers; ++i) layers->push_back(LlamaBlock(c));
    register_module("layers", layers);
    register_module("norm", norm);
    register_module("lm_head", lm_head);
  }

  /// Scores of the next token at each place.
  Tensor forward(const Tensor& input_ids) {
    const auto length = input_ids.size(1), size = c.head_size();
    auto x = embed_tokens(input_ids);
    const auto rates = torch::pow(10000.0, torch::arange(0, size, 2).to(torch::kFloat) / -static_cast<double>(size));
    const auto angles = torch::outer(torch::arange(length).to(torch::kFloat), rates);
    const auto both = torch::cat({angles, angles}, -1);
    const auto cos = both.cos().to(x.scalar_type()), sin = both.sin().to(x.scalar_type());
    const auto mask = torch::full({length, length}, -std::numeric_limits<double>::infinity(), x.options()).triu(1);
    for (const auto& layer : *layers) x = layer->as<LlamaBlock>()->forward(x, cos, sin, mask);
    return lm_head(norm(x));
  }
};
TORCH_MODULE(Llama);

}  // namespace zoo
