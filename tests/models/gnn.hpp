// Graph networks on a list of edges: GCN (Kipf and Welling, "Semi-Supervised Classification with Graph Convolutional
// Networks", 2016) and GAT (Velickovic et al., "Graph Attention Networks", 2017), with both papers' sizes for Cora.
#pragma once

#include <torch/torch.h>

#include <tuple>

namespace zoo {
using torch::Tensor;
namespace F = torch::nn::functional;

/// Every node also hears itself.
inline Tensor with_self_loops(const Tensor& edges, int64_t nodes) {
  return torch::cat({edges, torch::arange(nodes, edges.options()).unsqueeze(0).repeat({2, 1})}, 1);
}

/// Messages along edges [2, count], from the first row's nodes to the second's, weighted by both ends' degrees.
struct GcnConvImpl : torch::nn::Module {
  torch::nn::Linear linear;
  Tensor bias;

  GcnConvImpl(int64_t in, int64_t out) : linear(torch::nn::LinearOptions(in, out).bias(false)) {
    register_module("linear", linear);
    bias = register_parameter("bias", torch::zeros({out}));
  }

  Tensor forward(const Tensor& input, const Tensor& edges) {
    const auto nodes = input.size(0);
    const auto x = linear(input);
    const auto loops = with_self_loops(edges, nodes);
    const auto source = loops[0], target = loops[1];
    auto degree = torch::zeros({nodes}, x.options());
    degree.scatter_add_(0, target, torch::ones({target.size(0)}, x.options()));
    auto norm = degree.pow(-0.5);
    norm.masked_fill_(norm == INFINITY, 0);
    const auto weights = norm.index_select(0, source) * norm.index_select(0, target);
    const auto messages = x.index_select(0, source) * weights.unsqueeze(-1);
    return torch::zeros({nodes, x.size(1)}, x.options()).index_add_(0, target, messages) + bias;
  }
};
TORCH_MODULE(GcnConv);

struct GcnImpl : torch::nn::Module {
  GcnConv conv1, conv2;
  double dropout;

  explicit GcnImpl(int64_t features = 1433, int64_t hidden = 16, int64_t classes = 7, double dropout = 0.5)
      : conv1(features, hidden), conv2(hidden, classes), dropout(dropout) {
    register_module("conv1", conv1);
    register_module("conv2", conv2);
  }

  Tensor forward(const Tensor& x, const Tensor& edges) {
    const auto drop = F::DropoutFuncOptions().p(dropout).training(is_training());
    auto h = torch::relu(conv1(F::dropout(x, drop), edges));
    h = conv2(F::dropout(h, drop), edges);
    return F::log_softmax(h, 1);
  }
};
TORCH_MODULE(Gcn);

struct GatConvImpl : torch::nn::Module {
  int64_t heads, out;
  bool concat;
  double dropout;
  torch::nn::Linear linear;
  Tensor source_weight, target_weight, bias;

  GatConvImpl(int64_t in, int64_t out, int64_t heads, bool concat, double dropout)
      : heads(heads),
        out(out),
        concat(concat),
        dropout(dropout),
        linear(torch::nn::LinearOptions(in, heads * out).bias(false)) {
    register_module("linear", linear);
    source_weight = register_parameter("source_weight", torch::randn({heads, out}) * 0.3);
    target_weight = register_parameter("target_weight", torch::randn({heads, out}) * 0.3);
    bias = register_parameter("bias", torch::zeros({concat ? heads * out : out}));
  }

  /// Softmax over the edges that end in the same node; scores [edges, heads].
  static Tensor edge_softmax(const Tensor& scores, const Tensor& target, int64_t nodes) {
    const auto index = target.unsqueeze(-1).expand_as(scores);
    const auto lowest = torch::full({nodes, scores.size(1)}, -INFINITY, scores.options());
    const auto largest = lowest.scatter_reduce(0, index, scores.detach(), "amax");
    const auto weights = torch::exp(scores - largest.index_select(0, target));
    const auto sums = torch::zeros({nodes, scores.size(1)}, scores.options()).scatter_add(0, index, weights);
    return weights / (sums.index_select(0, target) + 1e-16);
  }

  Tensor forward(const Tensor& input, const Tensor& edges) {
    const auto nodes = input.size(0);
    const auto loops = with_self_loops(edges, nodes).unbind(0);
    const auto &source = loops[0], &target = loops[1];
    const auto drop = F::DropoutFuncOptions().p(dropout).training(is_training());
    const auto x = linear(F::dropout(input, drop)).view({-1, heads, out});
    const auto from = torch::einsum("nhd,hd->nh", {x, source_weight});
    const auto to = (x * target_weight).sum(-1);
    const auto scores = F::leaky_relu(from.index_select(0, source) + to.index_select(0, target),
                                      F::LeakyReLUFuncOptions().negative_slope(0.2));
    const auto attention = F::dropout(edge_softmax(scores, target, nodes), drop);
    auto y = torch::zeros_like(x);
    y.index_add_(0, target, x.index_select(0, source) * attention.unsqueeze(-1));
    return (concat ? y.flatten(1) : y.mean(1)) + bias;
  }
};
TORCH_MODULE(GatConv);

struct GatImpl : torch::nn::Module {
  GatConv conv1, conv2;

  explicit GatImpl(int64_t features = 1433, int64_t hidden = 8, int64_t classes = 7, int64_t heads = 8,
                   double dropout = 0.6)
      : conv1(features, hidden, heads, /*concat=*/true, dropout),
        conv2(hidden * heads, classes, 1, /*concat=*/false, dropout) {
    register_module("conv1", conv1);
    register_module("conv2", conv2);
  }

  /// Scores of the classes, and the embedding that they were made of.
  std::tuple<Tensor, Tensor> forward(const Tensor& x, const Tensor& edges) {
    const auto h = F::elu(conv1(x, edges));
    return {F::log_softmax(conv2(h, edges), 1), h};
  }
};
TORCH_MODULE(Gat);

}  // namespace zoo
