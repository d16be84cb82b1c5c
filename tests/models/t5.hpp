// T5-small (Raffel et al., "Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer", 2019):
// encoder and decoder with relative positions in buckets, scores that are not scaled, norms without a mean. The
// embedding's weight is the last layer's too. Unlike Hugging Face's, the norm stays in the precision of its input.
#pragma once

#include <torch/torch.h>

#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

namespace zoo {
using torch::Tensor;
namespace F = torch::nn::functional;

struct T5Config {
  int64_t vocab_size = 32128, d_model = 512, d_kv = 64, d_ff = 2048, num_layers = 6, num_heads = 8;
  int64_t num_buckets = 32, max_distance = 128;
  double dropout_rate = 0.1;
};

struct T5LayerNormImpl : torch::nn::Module {
  Tensor weight;
  double eps;

  explicit T5LayerNormImpl(int64_t size, double eps = 1e-6) : eps(eps) {
    weight = register_parameter("weight", torch::ones({size}));
  }
  Tensor forward(const Tensor& x) { return weight * (x * torch::rsqrt(x.pow(2).mean(-1, /*keepdim=*/true) + eps)); }
};
TORCH_MODULE(T5LayerNorm);

struct T5AttentionImpl : torch::nn::Module {
  T5Config c;
  bool bidirectional;
  torch::nn::Linear q{nullptr}, k{nullptr}, v{nullptr}, o{nullptr};
  torch::nn::Embedding relative_attention_bias{nullptr};  // of the first layer; the others get its result

  T5AttentionImpl(const T5Config& c, bool bidirectional, bool has_bias = false) : c(c), bidirectional(bidirectional) {
    const auto linear = [&](const char* name, int64_t in, int64_t out) {
      return register_module(name, torch::nn::Linear(torch::nn::LinearOptions(in, out).bias(false)));
    };
    q = linear("q", c.d_model, c.num_heads * c.d_kv);
    k = linear("k", c.d_model, c.num_heads * c.d_kv);
    v = linear("v", c.d_model, c.num_heads * c.d_kv);
    o = linear("o", c.num_heads * c.d_kv, c.d_model);
    if (has_bias) {
      relative_attention_bias =
          register_module("relative_attention_bias", torch::nn::Embedding(c.num_buckets, c.num_heads));
    }
  }

  /// Half of the buckets are for one distance each, the others grow with its logarithm.
  Tensor bucket(Tensor relative_position) const {
    auto buckets = c.num_buckets;
    auto result = torch::zeros_like(relative_position);
    if (bidirectional) {
      buckets /= 2;
      result += (relative_position > 0).to(torch::kLong) * buckets;
      relative_position = torch::abs(relative_position);
    } else {
      relative_position = -torch::min(relative_position, torch::zeros_like(relative_position));
    }
    const auto max_exact = buckets / 2;
    const auto is_small = relative_position < max_exact;
    const auto ratio = relative_position.clamp_min(1).to(torch::kFloat) / max_exact;
    const auto scale =
        static_cast<double>(buckets - max_exact) / std::log(static_cast<double>(c.max_distance) / max_exact);
    auto if_large = max_exact + (torch::log(ratio) * scale).to(torch::kLong);
    if_large = torch::min(if_large, torch::full_like(if_large, buckets - 1));
    return result + torch::where(is_small, relative_position, if_large);
  }
  Tensor position_bias(int64_t queries, int64_t keys) {
    const auto relative = torch::arange(keys).unsqueeze(0) - torch::arange(queries).unsqueeze(1);
    return relative_attention_bias(bucket(relative)).permute({2, 0, 1}).unsqueeze(0);
  }

  /// Attends to `memory`, or to itself without one. `bias` is added to the scores.
  Tensor forward(const Tensor& hidden, const Tensor& memory, const Tensor& bias) {
    const auto& source = memory.defined() ? memory : hidden;
    const auto heads = [&](const Tensor& x) { return x.view({x.size(0), -1, c.num_heads, c.d_kv}).transpose(1, 2); };
    auto scores = torch::matmul(heads(q(hidden)), heads(k(source)).transpose(3, 2));
    scores += bias;
    auto weights = F::softmax(scores, F::SoftmaxFuncOptions(-1));
    weights = F::dropout(weights, F::DropoutFuncOptions().p(c.dropout_rate).training(is_training()));
    const auto y = torch::matmul(weights, heads(v(source))).transpose(1, 2).contiguous();
    return o(y.view({hidden.size(0), -1, c.num_heads * c.d_kv}));
  }
};
TORCH_MODULE(T5Attention);

struct T5BlockImpl : torch::nn::Module {
  T5Attention self_attention{nullptr}, cross_attention{nullptr};
  T5LayerNorm self_norm{nullptr}, cross_norm{nullptr}, ff_norm{nullptr};
  torch::nn::Sequential ff;
  torch::nn::Dropout dropout{nullptr};

  T5BlockImpl(const T5Config& c, bool is_decoder, bool has_bias) {
    self_attention = register_module("self_attention", T5Attention(c, !is_decoder, has_bias));
    self_norm = register_module("self_norm", T5LayerNorm(c.d_model));
    if (is_decoder) {
      cross_attention = register_module("cross_attention", T5Attention(c, true));
      cross_norm = register_module("cross_norm", T5LayerNorm(c.d_model));
    }
    ff_norm = register_module("ff_norm", T5LayerNorm(c.d_model));
    ff->push_back(torch::nn::Linear(torch::nn::LinearOptions(c.d_model, c.d_ff).bias(false)));
    ff->push_back(torch::nn::ReLU());
    ff->push_back(torch::nn::Dropout(c.dropout_rate));
    ff->push_back(torch::nn::Linear(torch::nn::LinearOptions(c.d_ff, c.d_model).bias(false)));
    register_module("ff", ff);
    dropout = register_module("dropout", torch::nn::Dropout(c.dropout_rate));
  }

  Tensor forward(Tensor x, const Tensor& bias, const Tensor& memory = {}, const Tensor& memory_bias = {}) {
    x = x + dropout(self_attention(self_norm(x), Tensor(), bias));
    if (cross_attention) x = x + dropout(cross_attention(cross_norm(x), memory, memory_bias));
    return x + dropout(ff->forward(ff_norm(x)));
  }
};
TORCH_MODULE(T5Block);

struct T5StackImpl : torch::nn::Module {
  torch::nn::Embedding embed_tokens;
  torch::nn::ModuleList block;
  T5LayerNorm final_layer_norm;
  torch::nn::Dropout dropout;

  T5StackImpl(const T5Config& c, torch::nn::Embedding shared, bool is_decoder)
      : embed_tokens(std::move(shared)), final_layer_norm(c.d_model), dropout(c.dropout_rate) {
    for (int64_t i = 0; i < c.num_layers; ++i) block->push_back(T5Block(c, is_decoder, /*has_bias=*/i == 0));
    register_module("block", block);
    register_module("final_layer_norm", final_layer_norm);
    register_module("dropout", dropout);
  }

  Tensor forward(const Tensor& ids, const Tensor& mask, const Tensor& memory = {}, const Tensor& memory_mask = {}) {
    auto x = dropout(embed_tokens(ids));
    const auto bias = block->at<T5BlockImpl>(0).self_attention->position_bias(ids.size(1), ids.size(1)) + mask;
    for (const auto& module : *block) x = module->as<T5Block>()->forward(x, bias, memory, memory_mask);
    return dropout(final_layer_norm(x));
  }
};
TORCH_MODULE(T5Stack);

struct T5Impl : torch::nn::Module {
  T5Config config;
  torch::nn::Embedding shared;
  T5Stack encoder, decoder;
  torch::nn::Linear lm_head;

  explicit T5Impl(const T5Config& c = {})
      : config(c),
        shared(c.vocab_size, c.d_model),
        encoder(c, shared, false),
        decoder(c, shared, true),
        lm_head(torch::nn::LinearOptions(c.d_model, c.vocab_size).bias(false)) {
    register_module("shared", shared);
    register_module("encoder", encoder);
    register_module("decoder", decoder);
    lm_head->weight = shared->weight;  // not registered: its parameter is the embedding's
  }

  Tensor forward(const Tensor& input_ids, const Tensor& attention_mask, const Tensor& decoder_input_ids) {
    const auto lowest = std::numeric_limits<float>::lowest();
    const auto padding = (1 - attention_mask.unsqueeze(1).unsqueeze(1).to(shared->weight.dtype())) * lowest;
    const auto places = torch::arange(decoder_input_ids.size(1));
    const auto allowed = places.unsqueeze(0).le(places.unsqueeze(1));
    const auto future = torch::zeros(allowed.sizes(), padding.options()).masked_fill(~allowed, lowest);
    const auto memory = encoder(input_ids, padding);
    const auto hidden = decoder(decoder_input_ids, future, memory, padding);
    return lm_head(hidden * std::pow(config.d_model, -0.5));
  }
};
TORCH_MODULE(T5);

}  // namespace zoo
