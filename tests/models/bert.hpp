// BERT-base with both heads of its pretraining (Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers
// for Language Understanding", 2018), named after Hugging Face's. The word embeddings are also the weight of the masked
// language model's last layer.
#pragma once

#include <torch/torch.h>

#include <cmath>
#include <limits>
#include <tuple>

namespace zoo {
using torch::Tensor;
namespace F = torch::nn::functional;

struct BertConfig {
  int64_t vocab_size = 30522, hidden_size = 768, num_hidden_layers = 12, num_attention_heads = 12;
  int64_t intermediate_size = 3072, max_position_embeddings = 512, type_vocab_size = 2;
  double hidden_dropout_prob = 0.1, attention_probs_dropout_prob = 0.1, layer_norm_eps = 1e-12;

  torch::nn::LayerNormOptions norm() const { return torch::nn::LayerNormOptions({hidden_size}).eps(layer_norm_eps); }
};

struct BertEmbeddingsImpl : torch::nn::Module {
  torch::nn::Embedding word_embeddings{nullptr}, position_embeddings{nullptr}, token_type_embeddings{nullptr};
  torch::nn::LayerNorm norm{nullptr};
  torch::nn::Dropout dropout{nullptr};
  Tensor position_ids;

  explicit BertEmbeddingsImpl(const BertConfig& c) {
    const auto options = torch::nn::EmbeddingOptions(c.vocab_size, c.hidden_size).padding_idx(0);
    word_embeddings = register_module("word_embeddings", torch::nn::Embedding(options));
    position_embeddings =
        register_module("position_embeddings", torch::nn::Embedding(c.max_position_embeddings, c.hidden_size));
    token_type_embeddings =
        register_module("token_type_embeddings", torch::nn::Embedding(c.type_vocab_size, c.hidden_size));
    norm = register_module("LayerNorm", torch::nn::LayerNorm(c.norm()));
    dropout = register_module("dropout", torch::nn::Dropout(c.hidden_dropout_prob));
    position_ids = register_buffer("position_ids", torch::arange(c.max_position_embeddings).expand({1, -1}));
  }

  Tensor forward(const Tensor& input_ids, const Tensor& token_type_ids) {
    auto x = word_embeddings(input_ids) + token_type_embeddings(token_type_ids);
    x += position_embeddings(position_ids.narrow(1, 0, input_ids.size(1)));
    return dropout(norm(x));
  }
};
TORCH_MODULE(BertEmbeddings);

struct BertSelfAttentionImpl : torch::nn::Module {
  int64_t heads, head_size;
  torch::nn::Linear query{nullptr}, key{nullptr}, value{nullptr};
  torch::nn::Dropout dropout{nullptr};

  explicit BertSelfAttentionImpl(const BertConfig& c)
      : heads(c.num_attention_heads), head_size(c.hidden_size / c.num_attention_heads) {
    query = register_module("query", torch::nn::Linear(c.hidden_size, c.hidden_size));
    key = register_module("key", torch::nn::Linear(c.hidden_size, c.hidden_size));
    value = register_module("value", torch::nn::Linear(c.hidden_size, c.hidden_size));
    dropout = register_module("dropout", torch::nn::Dropout(c.attention_probs_dropout_prob));
  }

  Tensor transpose_for_scores(const Tensor& x) const {
    return x.view({x.size(0), x.size(1), heads, head_size}).permute({0, 2, 1, 3});
  }

  Tensor forward(const Tensor& hidden, const Tensor& mask) {
    const auto q = transpose_for_scores(query(hidden));
    const auto k = transpose_for_scores(key(hidden));
    const auto v = transpose_for_scores(value(hidden));
    auto scores = torch::matmul(q, k.transpose(-1, -2)) / std::sqrt(head_size);
    scores = scores + mask;
    const auto context = torch::matmul(dropout(F::softmax(scores, -1)), v).permute({0, 2, 1, 3}).contiguous();
    return context.view({context.size(0), context.size(1), heads * head_size});
  }
};
TORCH_MODULE(BertSelfAttention);

/// The end of both halves of a layer.
struct BertOutputImpl : torch::nn::Module {
  torch::nn::Linear dense;
  torch::nn::LayerNorm norm;
  torch::nn::Dropout dropout;

  BertOutputImpl(int64_t in, const BertConfig& c)
      : dense(in, c.hidden_size), norm(c.norm()), dropout(c.hidden_dropout_prob) {
    register_module("dense", dense);
    register_module("LayerNorm", norm);
    register_module("dropout", dropout);
  }
  Tensor forward(const Tensor& hidden, const Tensor& input) { return norm(dropout(dense(hidden)) + input); }
};
TORCH_MODULE(BertOutput);

struct BertLayerImpl : torch::nn::Module {
  BertSelfAttention self;
  torch::nn::Linear intermediate;
  BertOutput attention_output, output;

  explicit BertLayerImpl(const BertConfig& c)
      : self(c),
        intermediate(c.hidden_size, c.intermediate_size),
        attention_output(c.hidden_size, c),
        output(c.intermediate_size, c) {
    register_module("self", self);
    register_module("attention_output", attention_output);
    register_module("intermediate", intermediate);
    register_module("output", output);
  }
  Tensor forward(const Tensor& hidden, const Tensor& mask) {
    const auto attended = attention_output(self(hidden, mask), hidden);
    return output(F::gelu(intermediate(attended)), attended);
  }
};
TORCH_MODULE(BertLayer);

struct BertForPreTrainingImpl : torch::nn::Module {
  BertEmbeddings embeddings{nullptr};
  torch::nn::ModuleList layer;
  torch::nn::Linear pooler{nullptr}, transform{nullptr}, seq_relationship{nullptr};
  torch::nn::LayerNorm transform_norm{nullptr};
  Tensor decoder_bias;

  explicit BertForPreTrainingImpl(const BertConfig& c = {}) {
    embeddings = register_module("embeddings", BertEmbeddings(c));
    for (int64_t i = 0; i < c.num_hidden_layers; ++i) layer->push_back(BertLayer(c));
    register_module("layer", layer);
    pooler = register_module("pooler", torch::nn::Linear(c.hidden_size, c.hidden_size));
    transform = register_module("transform", torch::nn::Linear(c.hidden_size, c.hidden_size));
    transform_norm = register_module("transform_norm", torch::nn::LayerNorm(c.norm()));
    seq_relationship = register_module("seq_relationship", torch::nn::Linear(c.hidden_size, 2));
    decoder_bias = register_parameter("decoder_bias", torch::zeros({c.vocab_size}));
  }

  /// 1 for words, 0 for padding: [batch, length] -> what is added to scores.
  static Tensor extended(const Tensor& attention_mask, const Tensor& like) {
    const auto mask = attention_mask.unsqueeze(1).unsqueeze(2).to(like.dtype());
    return (1.0 - mask) * std::numeric_limits<float>::lowest();
  }

  /// Scores of every word of the vocabulary at every place; scores of whether the second sentence follows the first.
  std::tuple<Tensor, Tensor> forward(const Tensor& input_ids, const Tensor& token_type_ids,
                                     const Tensor& attention_mask) {
    auto hidden = embeddings(input_ids, token_type_ids);
    const auto mask = extended(attention_mask, hidden);
    for (const auto& module : *layer) hidden = module->as<BertLayer>()->forward(hidden, mask);
    const auto pooled = torch::tanh(pooler(hidden.select(1, 0)));
    const auto transformed = transform_norm(F::gelu(transform(hidden)));
    return {F::linear(transformed, embeddings->word_embeddings->weight, decoder_bias), seq_relationship(pooled)};
  }
};
TORCH_MODULE(BertForPreTraining);

}  // namespace zoo
