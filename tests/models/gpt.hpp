// GPT-2 small with a cache of keys and values (Radford et al., "Language Models are Unsupervised Multitask Learners",
// 2019), named after Hugging Face's. The cache is one tensor, [layers, 2, batch, heads, length, head size]; the last
// layer's weight is the embedding's.
#pragma once

#include <torch/torch.h>

#include <cmath>
#include <limits>
#include <tuple>
#include <vector>

namespace zoo {
using torch::Tensor;
using torch::indexing::Slice;

struct GptConfig {
  int64_t vocab_size = 50257, n_positions = 1024, n_embd = 768, n_layer = 12, n_head = 12;
  double dropout = 0.1;
};

struct GptAttentionImpl : torch::nn::Module {
  int64_t n_embd, n_head;
  torch::nn::Linear c_attn, c_proj;
  torch::nn::Dropout attn_dropout, resid_dropout;
  Tensor bias;  // true where a place may look

  explicit GptAttentionImpl(const GptConfig& c)
      : n_embd(c.n_embd),
        n_head(c.n_head),
        c_attn(c.n_embd, 3 * c.n_embd),
        c_proj(c.n_embd, c.n_embd),
        attn_dropout(c.dropout),
        resid_dropout(c.dropout) {
    register_module("c_attn", c_attn);
    register_module("c_proj", c_proj);
    register_module("attn_dropout", attn_dropout);
    register_module("resid_dropout", resid_dropout);
    const auto all = torch::ones({c.n_positions, c.n_positions}, torch::kBool);
    bias = register_buffer("bias", all.tril().view({1, 1, c.n_positions, c.n_positions}));
  }

  /// The result, and keys and values of all places so far: [2, batch, heads, length, head size].
  std::tuple<Tensor, Tensor> forward(const Tensor& x, const Tensor& past) {
    const auto batch = x.size(0), length = x.size(1);
    const auto split_heads = [&](const Tensor& t) {
      return t.view({batch, length, n_head, n_embd / n_head}).transpose(1, 2);
    };
    const auto parts = c_attn(x).split(n_embd, /*dim=*/2);
    auto q = split_heads(parts[0]), k = split_heads(parts[1]), v = split_heads(parts[2]);
    if (past.defined()) {
      k = torch::cat({past[0], k}, -2);
      v = torch::cat({past[1], v}, -2);
    }
    const auto total = k.size(-2);
    auto weights = torch::matmul(q, k.transpose(-1, -2));
    weights = weights / std::sqrt(static_cast<double>(v.size(-1)));
    const auto causal = bias.index({Slice(), Slice(), Slice(total - length, total), Slice(0, total)});
    weights =
        torch::where(causal, weights, torch::full({}, -std::numeric_limits<double>::infinity(), weights.options()));
    weights = attn_dropout(torch::softmax(weights, -1));
    const auto y = torch::matmul(weights, v).transpose(1, 2).contiguous().view({batch, length, n_embd});
    return {resid_dropout(c_proj(y)), torch::stack({k, v})};
  }
};
TORCH_MODULE(GptAttention);

/// The approximation by tanh, as the original code spells it.
inline Tensor gelu_new(const Tensor& x) {
  return 0.5 * x * (1.0 + torch::tanh(std::sqrt(2.0 / M_PI) * (x + 0.044715 * torch::pow(x, 3.0))));
}

struct GptBlockImpl : torch::nn::Module {
  torch::nn::LayerNorm ln_1, ln_2;
  GptAttention attn;
  torch::nn::Linear c_fc, c_proj;
  torch::nn::Dropout dropout;

  explicit GptBlockImpl(const GptConfig& c)
      : ln_1(torch::nn::LayerNormOptions({c.n_embd})),
        ln_2(torch::nn::LayerNormOptions({c.n_embd})),
        attn(c),
        c_fc(c.n_embd, 4 * c.n_embd),
        c_proj(4 * c.n_embd, c.n_embd),
        dropout(c.dropout) {
    register_module("ln_1", ln_1);
    register_module("attn", attn);
    register_module("ln_2", ln_2);
    register_module("c_fc", c_fc);
    register_module("c_proj", c_proj);
    register_module("dropout", dropout);
  }

  std::tuple<Tensor, Tensor> forward(Tensor x, const Tensor& past) {
    auto [attended, present] = attn(ln_1(x), past);
    x = x + attended;
    return {x + dropout(c_proj(gelu_new(c_fc(ln_2(x))))), present};
  }
};
TORCH_MODULE(GptBlock);

struct GptImpl : torch::nn::Module {
  torch::nn::Embedding wte, wpe;
  torch::nn::Dropout drop;
  torch::nn::ModuleList h;
  torch::nn::LayerNorm ln_f;

  explicit GptImpl(const GptConfig& c = {})
      : wte(c.vocab_size, c.n_embd),
        wpe(c.n_positions, c.n_embd),
        drop(c.dropout),
        ln_f(torch::nn::LayerNormOptions({c.n_embd})) {
    register_module("wte", wte);
    register_module("wpe", wpe);
    register_module("drop", drop);
    for (int64_t i = 0; i < c.n_layer; ++i) h->push_back(GptBlock(c));
    register_module("h", h);
    register_module("ln_f", ln_f);
  }

  /// Scores of the next token at each place, and the cache with these places; `past` is the cache of those before.
  std::tuple<Tensor, Tensor> forward(const Tensor& input_ids, const Tensor& past = {}) {
    const auto start = past.defined() ? past.size(-2) : 0, length = input_ids.size(-1);
    const auto position_ids = torch::arange(start, start + length, torch::kLong).unsqueeze(0);
    auto x = drop(wte(input_ids) + wpe(position_ids));
    std::vector<Tensor> presents;
    for (size_t i = 0; i < h->size(); ++i) {
      auto [y, present] = h->at<GptBlockImpl>(i).forward(x, past.defined() ? past[static_cast<int64_t>(i)] : Tensor());
      x = y;
      presents.push_back(present);
    }
    return {torch::matmul(ln_f(x), wte->weight.t()), torch::stack(presents)};
  }
};
TORCH_MODULE(Gpt);

}  // namespace zoo
