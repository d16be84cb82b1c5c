// The BERT encoder (Devlin et al., 2018) with the sentence head of Sentence-BERT (Reimers and Gurevych, 2019).
//
// Main names: BertConfig, SentenceEncoder; its parts BertEmbeddings, BertEncoder, BertLayer, BertAttention,
// BertSelfAttention, BertIntermediate, BertOutput.
// Ordinary LibTorch modules. Every parameter has the name that it has in the published checkpoints
// ("encoder.layer.0.attention.self.query.weight"), so weights load by name; the checkpoints' `pooler.dense.*` belongs
// to next-sentence prediction, takes no part in a sentence embedding, and has no counterpart here.
#pragma once

#include <torch/torch.h>

#include <cmath>
#include <cstdint>
#include <exception>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

/// The sizes of a BERT model, named as in its config.json. The defaults are those of all-MiniLM-L6-v2.
struct BertConfig {
  std::int64_t vocab_size = 30522;
  std::int64_t hidden_size = 384;
  std::int64_t num_hidden_layers = 6;
  std::int64_t num_attention_heads = 12;
  std::int64_t intermediate_size = 1536;
  std::int64_t max_position_embeddings = 512;
  std::int64_t type_vocab_size = 2;
  double layer_norm_eps = 1e-12;
  double hidden_dropout_prob = 0.1;
  double attention_probs_dropout_prob = 0.1;

  /// Errors: std::runtime_error when the file is missing, is not JSON, lacks a size, or describes a model that this
  /// header does not implement (another activation than "gelu", relative positions).
  static BertConfig read(const std::string& path);
};

inline BertConfig BertConfig::read(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("model configuration '" + path + "' cannot be opened");
  BertConfig config;
  try {
    const auto json = nlohmann::json::parse(file);
    const auto size = [&](const char* key, std::int64_t& value) {
      const auto& entry = json.at(key);
      value = entry.is_number_integer() ? entry.get<std::int64_t>() : 0;
      if (value < 1)
        throw std::runtime_error(std::string(key) + " is " + entry.dump() + ", not a whole number above 0");
    };
    const auto word = [&](const char* key, const std::string& only) {
      const auto value = json.value(key, only);
      if (value != only) throw std::runtime_error(std::string(key) + " is '" + value + "', not '" + only + "'");
    };
    word("hidden_act", "gelu");
    word("position_embedding_type", "absolute");
    size("vocab_size", config.vocab_size);
    size("hidden_size", config.hidden_size);
    size("num_hidden_layers", config.num_hidden_layers);
    size("num_attention_heads", config.num_attention_heads);
    size("intermediate_size", config.intermediate_size);
    size("max_position_embeddings", config.max_position_embeddings);
    size("type_vocab_size", config.type_vocab_size);
    config.layer_norm_eps = json.value("layer_norm_eps", config.layer_norm_eps);
    config.hidden_dropout_prob = json.value("hidden_dropout_prob", config.hidden_dropout_prob);
    config.attention_probs_dropout_prob =
        json.value("attention_probs_dropout_prob", config.attention_probs_dropout_prob);
    if (config.hidden_size % config.num_attention_heads != 0) {
      throw std::runtime_error("hidden_size " + std::to_string(config.hidden_size) + " is no multiple of " +
                               std::to_string(config.num_attention_heads) + " attention heads");
    }
  } catch (const std::exception& e) {
    throw std::runtime_error("model configuration '" + path + "' cannot be used: " + e.what());
  }
  return config;
}

/// Sum of the word, position and segment embeddings, normalised. All words belong to segment 0.
/// Shapes: input_ids [batch, length] -> [batch, length, hidden_size].
struct BertEmbeddingsImpl : torch::nn::Module {
  torch::nn::Embedding word_embeddings{nullptr}, position_embeddings{nullptr}, token_type_embeddings{nullptr};
  torch::nn::LayerNorm layer_norm{nullptr};
  torch::nn::Dropout dropout{nullptr};
  torch::Tensor position_ids;

  explicit BertEmbeddingsImpl(const BertConfig& config) {
    const auto embedding = [&](const char* name, std::int64_t rows) {
      return register_module(name, torch::nn::Embedding(rows, config.hidden_size));
    };
    word_embeddings = embedding("word_embeddings", config.vocab_size);
    position_embeddings = embedding("position_embeddings", config.max_position_embeddings);
    token_type_embeddings = embedding("token_type_embeddings", config.type_vocab_size);
    layer_norm = register_module(
        "LayerNorm",
        torch::nn::LayerNorm(torch::nn::LayerNormOptions({config.hidden_size}).eps(config.layer_norm_eps)));
    dropout = register_module("dropout", torch::nn::Dropout(config.hidden_dropout_prob));
    position_ids = register_buffer("position_ids", torch::arange(config.max_position_embeddings).unsqueeze(0));
  }

  torch::Tensor forward(torch::Tensor input_ids) {
    // In C++ `module->to(torch::kFloat64)` converts integer buffers too, and an embedding wants integers as indices.
    auto positions = position_ids.slice(1, 0, input_ids.size(1)).to(torch::kLong);
    auto x = word_embeddings(input_ids) + token_type_embeddings(torch::zeros_like(input_ids));
    x = x + position_embeddings(positions);
    return dropout(layer_norm(x));
  }
};
TORCH_MODULE(BertEmbeddings);

/// Scaled dot-product attention of every word to every word, in several heads.
/// Shapes: hidden [batch, length, hidden_size], mask [batch, 1, 1, length], added to the scores -> as hidden.
struct BertSelfAttentionImpl : torch::nn::Module {
  torch::nn::Linear query{nullptr}, key{nullptr}, value{nullptr};
  torch::nn::Dropout dropout{nullptr};
  std::int64_t heads, head_size;

  explicit BertSelfAttentionImpl(const BertConfig& config)
      : heads(config.num_attention_heads), head_size(config.hidden_size / config.num_attention_heads) {
    query = register_module("query", torch::nn::Linear(config.hidden_size, config.hidden_size));
    key = register_module("key", torch::nn::Linear(config.hidden_size, config.hidden_size));
    value = register_module("value", torch::nn::Linear(config.hidden_size, config.hidden_size));
    dropout = register_module("dropout", torch::nn::Dropout(config.attention_probs_dropout_prob));
  }

  torch::Tensor forward(torch::Tensor hidden, torch::Tensor mask) {
    auto q = split(query(hidden));
    auto k = split(key(hidden));
    auto v = split(value(hidden));
    auto scores = torch::matmul(q, k.transpose(-1, -2)) / std::sqrt(static_cast<double>(head_size));
    auto probabilities = dropout(torch::softmax(scores + mask, -1));
    auto context = torch::matmul(probabilities, v).transpose(1, 2).contiguous();
    return context.view({hidden.size(0), hidden.size(1), heads * head_size});
  }

  /// [batch, length, hidden_size] -> [batch, heads, length, head_size].
  torch::Tensor split(torch::Tensor x) { return x.view({x.size(0), x.size(1), heads, head_size}).transpose(1, 2); }
};
TORCH_MODULE(BertSelfAttention);

/// Projection back to the hidden size, then the residual and its norm: ends the attention and the feed-forward half.
struct BertOutputImpl : torch::nn::Module {
  torch::nn::Linear dense{nullptr};
  torch::nn::LayerNorm layer_norm{nullptr};
  torch::nn::Dropout dropout{nullptr};

  BertOutputImpl(const BertConfig& config, std::int64_t input_size) {
    dense = register_module("dense", torch::nn::Linear(input_size, config.hidden_size));
    layer_norm = register_module(
        "LayerNorm",
        torch::nn::LayerNorm(torch::nn::LayerNormOptions({config.hidden_size}).eps(config.layer_norm_eps)));
    dropout = register_module("dropout", torch::nn::Dropout(config.hidden_dropout_prob));
  }

  torch::Tensor forward(torch::Tensor x, torch::Tensor residual) { return layer_norm(dropout(dense(x)) + residual); }
};
TORCH_MODULE(BertOutput);

struct BertAttentionImpl : torch::nn::Module {
  BertSelfAttention self{nullptr};
  BertOutput output{nullptr};

  explicit BertAttentionImpl(const BertConfig& config) {
    self = register_module("self", BertSelfAttention(config));
    output = register_module("output", BertOutput(config, config.hidden_size));
  }

  torch::Tensor forward(torch::Tensor hidden, torch::Tensor mask) { return output(self(hidden, mask), hidden); }
};
TORCH_MODULE(BertAttention);

/// The widening half of the feed-forward network.
struct BertIntermediateImpl : torch::nn::Module {
  torch::nn::Linear dense{nullptr};

  explicit BertIntermediateImpl(const BertConfig& config) {
    dense = register_module("dense", torch::nn::Linear(config.hidden_size, config.intermediate_size));
  }

  torch::Tensor forward(torch::Tensor hidden) { return gelu(dense(hidden)); }

  /// x times the normal distribution function of x: the exact form, which the weights were trained with.
  static torch::Tensor gelu(torch::Tensor x) { return x * 0.5 * (1.0 + torch::erf(x / std::sqrt(2.0))); }
};
TORCH_MODULE(BertIntermediate);

struct BertLayerImpl : torch::nn::Module {
  BertAttention attention{nullptr};
  BertIntermediate intermediate{nullptr};
  BertOutput output{nullptr};

  explicit BertLayerImpl(const BertConfig& config) {
    attention = register_module("attention", BertAttention(config));
    intermediate = register_module("intermediate", BertIntermediate(config));
    output = register_module("output", BertOutput(config, config.intermediate_size));
  }

  torch::Tensor forward(torch::Tensor hidden, torch::Tensor mask) {
    auto attended = attention(hidden, mask);
    return output(intermediate(attended), attended);
  }
};
TORCH_MODULE(BertLayer);

struct BertEncoderImpl : torch::nn::Module {
  torch::nn::ModuleList layer;

  explicit BertEncoderImpl(const BertConfig& config) {
    register_module("layer", layer);
    for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) layer->push_back(BertLayer(config));
  }

  torch::Tensor forward(torch::Tensor hidden, torch::Tensor mask) {
    for (const auto& module : *layer) hidden = module->as<BertLayer>()->forward(hidden, mask);
    return hidden;
  }
};
TORCH_MODULE(BertEncoder);

/// One vector of length 1 a sentence: the mean of its words' last hidden states. The dot product of two is their
/// cosine similarity.
/// Shapes: input_ids [batch, length] of int64; attention_mask [batch, length], 1 for words and 0 for padding, of any
/// type -> [batch, hidden_size].
/// Errors: c10::Error when the shapes differ or length is over max_position_embeddings.
struct SentenceEncoderImpl : torch::nn::Module {
  BertEmbeddings embeddings{nullptr};
  BertEncoder encoder{nullptr};

  explicit SentenceEncoderImpl(const BertConfig& config) {
    embeddings = register_module("embeddings", BertEmbeddings(config));
    encoder = register_module("encoder", BertEncoder(config));
  }

  torch::Tensor forward(torch::Tensor input_ids, torch::Tensor attention_mask) {
    TORCH_CHECK(input_ids.dim() == 2 && input_ids.sizes() == attention_mask.sizes(),
                "sentence encoder: token ids of shape ", input_ids.sizes(), " came with an attention mask of shape ",
                attention_mask.sizes(), "; expected [batch, length] for both");
    TORCH_CHECK(input_ids.size(1) <= embeddings->position_ids.size(1), "sentence encoder: sentences of ",
                input_ids.size(1), " tokens are too long; the model has ", embeddings->position_ids.size(1),
                " positions");
    auto hidden = embeddings(input_ids);
    auto mask = attention_mask.to(hidden.scalar_type());
    // Added before the softmax, -10000 makes a weight of exactly 0 in single and double precision; unlike -inf it
    // leaves numbers, not NaN, in a row that is all padding.
    auto extended_mask = (1.0 - mask.unsqueeze(1).unsqueeze(2)) * -10000.0;
    hidden = encoder(hidden, extended_mask);

    auto weights = mask.unsqueeze(-1);
    auto mean = (hidden * weights).sum(1) / weights.sum(1).clamp_min(1e-9);
    return torch::nn::functional::normalize(mean, torch::nn::functional::NormalizeFuncOptions().p(2).dim(1));
  }
};
TORCH_MODULE(SentenceEncoder);
