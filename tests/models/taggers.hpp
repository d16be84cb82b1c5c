// Sequence taggers. LstmTagger: a bidirectional LSTM under a conditional random field (Huang et al., "Bidirectional
// LSTM-CRF Models for Sequence Tagging", 2015). GruTagger: stacked GRUs with learned first states.
#pragma once

#include <torch/torch.h>

#include <tuple>
#include <vector>

namespace zoo {
using torch::Tensor;
namespace F = torch::nn::functional;

struct LstmTaggerImpl : torch::nn::Module {
  torch::nn::Embedding embedding;
  torch::nn::Dropout dropout;
  torch::nn::LSTM lstm;
  torch::nn::Linear hidden2tag;
  Tensor transitions, start;

  explicit LstmTaggerImpl(int64_t vocabulary = 20000, int64_t tags = 17, int64_t dim = 100, int64_t hidden = 200,
                          int64_t layers = 2, double drop = 0.5)
      : embedding(torch::nn::EmbeddingOptions(vocabulary, dim).padding_idx(0)),
        dropout(drop),
        lstm(
            torch::nn::LSTMOptions(dim, hidden).num_layers(layers).bidirectional(true).batch_first(true).dropout(drop)),
        hidden2tag(2 * hidden, tags) {
    register_module("embedding", embedding);
    register_module("dropout", dropout);
    register_module("lstm", lstm);
    register_module("hidden2tag", hidden2tag);
    transitions = register_parameter("transitions", torch::randn({tags, tags}) * 0.1);
    start = register_parameter("start", torch::randn({tags}) * 0.1);
  }

  Tensor emissions(const Tensor& ids) {
    auto [states, last] = lstm(dropout(embedding(ids)));
    return hidden2tag(dropout(states));
  }
  /// Log of the sum over all sequences of tags, where mask is 0 ends a sentence: [batch].
  Tensor log_partition(const Tensor& scores, const Tensor& mask) const {
    auto alpha = start + scores.select(1, 0);
    for (int64_t t = 1; t < scores.size(1); ++t) {
      const auto next = torch::logsumexp(alpha.unsqueeze(2) + transitions + scores.select(1, t).unsqueeze(1), 1);
      alpha = torch::where(mask.select(1, t).unsqueeze(1), next, alpha);
    }
    return torch::logsumexp(alpha, {1});
  }
  /// Score of one sequence of tags: [batch].
  Tensor score(const Tensor& scores, const Tensor& tags, const Tensor& mask) const {
    const auto first = start.index({tags.select(1, 0)});
    const auto emitted = (scores.gather(2, tags.unsqueeze(2)).squeeze(2) * mask).sum(1);
    const auto length = tags.size(1);
    const auto moved = transitions.index({tags.narrow(1, 0, length - 1), tags.narrow(1, 1, length - 1)});
    return first + emitted + (moved * mask.narrow(1, 1, length - 1)).sum(1);
  }

  /// Emission scores of each word, and the negative log likelihood of the given tags.
  std::tuple<Tensor, Tensor> forward(const Tensor& ids, const Tensor& tags) {
    const auto scores = emissions(ids);
    const auto mask = ids.ne(0);
    return {scores, (log_partition(scores, mask) - score(scores, tags, mask)).mean()};
  }
};
TORCH_MODULE(LstmTagger);

struct GruTaggerImpl : torch::nn::Module {
  torch::nn::Embedding embedding;
  torch::nn::GRU gru;
  torch::nn::Sequential head;
  Tensor first;
  double drop;

  explicit GruTaggerImpl(int64_t vocabulary = 20000, int64_t tags = 17, int64_t dim = 100, int64_t hidden = 200,
                         int64_t layers = 3, double drop = 0.3)
      : embedding(vocabulary, dim),
        gru(torch::nn::GRUOptions(dim, hidden).num_layers(layers).bidirectional(true).dropout(drop)),
        head(torch::nn::Linear(2 * hidden, hidden), torch::nn::Tanh(), torch::nn::Linear(hidden, tags)),
        drop(drop) {
    register_module("embedding", embedding);
    register_module("gru", gru);
    register_module("head", head);
    first = register_parameter("first", torch::zeros({2 * layers, 1, hidden}));
  }

  /// ids: [length, batch]. Scores of the tags, and the last states of both directions of the last layer.
  std::tuple<Tensor, std::vector<Tensor>> forward(const Tensor& ids) {
    const auto words =
        F::dropout(embedding(ids), F::DropoutFuncOptions().p(drop).training(is_training()).inplace(true));
    auto [states, last] = gru(words, first.repeat({1, ids.size(1), 1}));
    return {F::log_softmax(head->forward(states), -1), std::vector<Tensor>{last[-2], last[-1]}};
  }
};
TORCH_MODULE(GruTagger);

}  // namespace zoo
