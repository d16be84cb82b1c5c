// DLRM (Naumov et al., "Deep Learning Recommendation Model for Personalization and Recommendation Systems", 2019) with
// the sizes of the paper's script for the Kaggle display advertising data. `max_rows` limits every table, as the
// script's --max-ind-range does.
#pragma once

#include <torch/torch.h>

#include <algorithm>
#include <string>
#include <vector>

namespace zoo {
using torch::Tensor;
using torch::indexing::Slice;

struct DlrmConfig {
  int64_t sparse_dim = 16, max_rows = 10000000;
  std::vector<int64_t> bottom = {13, 512, 256, 64, 16}, top = {512, 256, 1};
  std::vector<int64_t> rows = {1460,  583,  10131227, 2202608, 305, 24,     12517,   633,   3,
                               93145, 5683, 8351593,  3194,    27,  14992,  5461306, 10,    5652,
                               2173,  4,    7046547,  18,      15,  286181, 105,     142572};
};

struct DlrmImpl : torch::nn::Module {
  torch::nn::ModuleDict embeddings;
  torch::nn::Sequential bottom, top;

  explicit DlrmImpl(const DlrmConfig& c = {}) {
    for (size_t i = 0; i < c.rows.size(); ++i) {
      const torch::nn::EmbeddingBag table(
          torch::nn::EmbeddingBagOptions(std::min(c.rows[i], c.max_rows), c.sparse_dim).mode(torch::kSum));
      embeddings->update({{"C" + std::to_string(i + 1), table.ptr()}});
    }
    const auto vectors = static_cast<int64_t>(c.rows.size()) + 1;
    auto top_sizes = c.top;
    top_sizes.insert(top_sizes.begin(), c.sparse_dim + vectors * (vectors - 1) / 2);
    bottom = mlp(c.bottom, /*sigmoid=*/false);
    top = mlp(top_sizes, /*sigmoid=*/true);
    register_module("embeddings", embeddings);
    register_module("bottom", bottom);
    register_module("top", top);
  }

  static torch::nn::Sequential mlp(const std::vector<int64_t>& sizes, bool sigmoid) {
    torch::nn::Sequential layers;
    for (size_t i = 1; i < sizes.size(); ++i) {
      layers->push_back(torch::nn::Linear(sizes[i - 1], sizes[i]));
      if (sigmoid && i + 1 == sizes.size()) layers->push_back(torch::nn::Sigmoid());
      else layers->push_back(torch::nn::ReLU());
    }
    return layers;
  }

  /// Products of all pairs of vectors, beside the dense one.
  static Tensor interact(const Tensor& dense, const std::vector<Tensor>& sparse) {
    std::vector<Tensor> all{dense};
    all.insert(all.end(), sparse.begin(), sparse.end());
    const auto t = torch::cat(all, 1).view({dense.size(0), -1, dense.size(1)});
    const auto z = torch::bmm(t, t.transpose(1, 2));
    const auto pairs = torch::tril_indices(z.size(1), z.size(2), /*offset=*/-1);
    return torch::cat({dense, z.index({Slice(), pairs[0], pairs[1]})}, 1);
  }

  /// dense: [batch, 13]. For each table, `indices` [tables, n] holds the rows of all bags, `offsets` [tables, batch]
  /// where each begins. The probability of a click: [batch, 1].
  Tensor forward(const Tensor& dense, const Tensor& indices, const Tensor& offsets) {
    const auto each_indices = indices.unbind(), each_offsets = offsets.unbind();
    std::vector<Tensor> sparse;
    for (const auto& [name, table] : embeddings->items()) {
      const auto i = sparse.size();
      sparse.push_back(table->as<torch::nn::EmbeddingBag>()->forward(each_indices[i], each_offsets[i]));
    }
    return top->forward(interact(bottom->forward(dense), sparse));
  }
};
TORCH_MODULE(Dlrm);

}  // namespace zoo
