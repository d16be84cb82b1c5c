// LibTorch's own transformers (Vaswani et al., "Attention Is All You Need", 2017): a language model over
// torch::nn::TransformerEncoder, as PyTorch's tutorial has it, and a translator over torch::nn::Transformer.
#pragma once

#include <torch/torch.h>

#include <cmath>
#include <limits>

namespace zoo {
using torch::Tensor;
using torch::indexing::None;
using torch::indexing::Slice;

struct PositionalEncodingImpl : torch::nn::Module {
  torch::nn::Dropout dropout;
  Tensor pe;

  PositionalEncodingImpl(int64_t dim, double drop, int64_t longest = 5000) : dropout(drop) {
    register_module("dropout", dropout);
    const auto position = torch::arange(longest).unsqueeze(1);
    const auto frequency = torch::exp(torch::arange(0, dim, 2) * (-std::log(10000.0) / static_cast<double>(dim)));
    auto table = torch::zeros({longest, 1, dim});
    table.index_put_({Slice(), 0, Slice(0, None, 2)}, torch::sin(position * frequency));
    table.index_put_({Slice(), 0, Slice(1, None, 2)}, torch::cos(position * frequency));
    pe = register_buffer("pe", table);
  }
  Tensor forward(Tensor x) {
    x = x + pe.index({Slice(None, x.size(0))});
    return dropout(x);
  }
};
TORCH_MODULE(PositionalEncoding);

struct TransformerLmImpl : torch::nn::Module {
  int64_t dim;
  PositionalEncoding pos_encoder;
  torch::nn::TransformerEncoder encoder;
  torch::nn::Embedding embedding;
  torch::nn::Linear linear;

  explicit TransformerLmImpl(int64_t tokens = 28782, int64_t dim = 200, int64_t heads = 2, int64_t hidden = 200,
                             int64_t layers = 2, double dropout = 0.2)
      : dim(dim),
        pos_encoder(dim, dropout),
        encoder(torch::nn::TransformerEncoderOptions(
            torch::nn::TransformerEncoderLayerOptions(dim, heads).dim_feedforward(hidden).dropout(dropout), layers)),
        embedding(tokens, dim),
        linear(dim, tokens) {
    register_module("pos_encoder", pos_encoder);
    register_module("encoder", encoder);
    register_module("embedding", embedding);
    register_module("linear", linear);
  }

  /// [length, batch] -> [length, batch, tokens]. No place looks ahead.
  Tensor forward(const Tensor& ids) {
    auto x = embedding(ids) * std::sqrt(static_cast<double>(dim));
    x = pos_encoder(x);
    return linear(encoder(x, torch::nn::TransformerImpl::generate_square_subsequent_mask(ids.size(0))));
  }
};
TORCH_MODULE(TransformerLm);

struct TranslatorImpl : torch::nn::Module {
  int64_t dim;
  torch::nn::Embedding source, target;
  PositionalEncoding positions;
  torch::nn::Transformer transformer;
  torch::nn::Linear generator;

  explicit TranslatorImpl(int64_t tokens = 37000, int64_t dim = 512, int64_t heads = 8, int64_t hidden = 2048,
                          int64_t layers = 6, double dropout = 0.1)
      : dim(dim),
        source(tokens, dim),
        target(tokens, dim),
        positions(dim, dropout),
        transformer(torch::nn::TransformerOptions(dim, heads, layers, layers).dim_feedforward(hidden).dropout(dropout)),
        generator(dim, tokens) {
    register_module("source", source);
    register_module("target", target);
    register_module("positions", positions);
    register_module("transformer", transformer);
    register_module("generator", generator);
  }

  /// ids: [length, batch], 0 is padding. Scores of the next word at each place of the target.
  Tensor forward(const Tensor& source_ids, const Tensor& target_ids) {
    const auto scale = std::sqrt(static_cast<double>(dim));
    const auto padding = source_ids.eq(0).transpose(0, 1);
    const auto ahead = torch::triu(torch::ones({target_ids.size(0), target_ids.size(0)}, torch::kBool), 1);
    const auto mask = torch::zeros(ahead.sizes(), source->weight.options().requires_grad(false))
                          .masked_fill(ahead, -std::numeric_limits<double>::infinity());
    const auto y = transformer(positions(source(source_ids) * scale), positions(target(target_ids) * scale),
                               /*src_mask=*/Tensor(), /*tgt_mask=*/mask, /*memory_mask=*/Tensor(), padding,
                               /*tgt_key_padding_mask=*/Tensor(), /*memory_key_padding_mask=*/padding);
    return generator(y);
  }
};
TORCH_MODULE(Translator);

}  // namespace zoo
