// Specialised modules: products of matrices, attention, recurrent layers; beside LibTorch in double precision.
#include "torch/compile/compiled.hpp"

using namespace fxx;
using namespace fxx::test;

namespace {

TEST_CASE("products of matrices: with weights, of two, in batches, with whatever comes behind") {
  torch::manual_seed(6);
  for (const auto& [rows, depth, columns] :
       std::vector<std::array<std::int64_t, 3>>{{5, 17, 33}, {1, 1, 1}, {19, 3, 1}, {2, 64, 16}}) {
    CAPTURE(rows);
    auto net = std::make_shared<Net>();
    const Tensor w = net->parameter({columns, depth}), b = net->parameter({columns}),
                 m = net->parameter({depth, columns}), back = net->parameter({depth, columns}),
                 skip = net->parameter({rows, columns});
    const std::int64_t n = columns, r = rows;
    net->function = [=](const Tensors& in) {
      const Tensor &x = in[0], &batch = in[1], &other = in[2];  // [r, d], [3, r, d], [3, d, n]
      const Tensor y = torch::linear(x, w, b);
      return all_of({y,
                     torch::linear(x, w),
                     torch::linear(batch, w, b).relu() + skip,
                     skip - torch::linear(batch, w),
                     torch::linear(x[0], w, b),
                     torch::addmm(b, x, m),
                     torch::addmm(skip, x, m, 0.5, 2),
                     torch::addmm(b, x, m, 0, 1),
                     torch::mm(x, m),
                     torch::mm(x, other[1]),
                     torch::mm(skip.t(), x),
                     torch::mm(x.t(), skip),
                     torch::bmm(batch, other),
                     torch::bmm(batch, other).sigmoid() * y,
                     torch::matmul(x, other),
                     torch::matmul(batch, other[0]),
                     torch::matmul(batch.unsqueeze(1), other.unsqueeze(0)),
                     torch::matmul(batch.transpose(1, 2), batch),
                     torch::matmul(other.transpose(1, 2).contiguous().transpose(1, 2).transpose(1, 2), m.t().t()),
                     torch::matmul(x.unsqueeze(0).expand({3, r, x.size(1)}), other),
                     torch::linear(x.unsqueeze(1).expand({r, 4, x.size(1)}), w),
                     torch::linear(torch::gelu(torch::linear(x, w, b)), back) + x,
                     torch::linear(x, other[0].t(), b),
                     torch::linear(x, w[0].unsqueeze(0).expand({n, x.size(1)})),
                     torch::linear(torch::cat({x, x}, 0), w, b).tanh(),
                     (torch::linear(x, w, b) * torch::linear(x, m.t())).sum(-1),
                     torch::linear(batch.transpose(0, 1), w, b).transpose(0, 1),
                     torch::linear(x.t().contiguous().t(), w).t(),
                     torch::linear(x.slice(1, 0, depth), w).masked_fill(skip > 0, 1)});
    };
    const Tensor x = torch::randn({rows, depth}), batch = torch::randn({3, rows, depth}),
                 other = torch::randn({3, depth, columns});
    check(*net, {x, batch, other}, {.more = {{transposed_copy(x), sliced_copy(batch), transposed_copy(other)}}});
  }
}

TEST_CASE(
    "attention: masks of numbers and of truth values, causal, other lengths, grouped heads, heads of a projection") {
  torch::manual_seed(13);
  const auto attend = [](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask = {},
                         bool causal = false, std::optional<double> scale = {}, bool grouped = false) {
    return at::scaled_dot_product_attention(q, k, v, mask.defined() ? std::optional<Tensor>(mask) : std::nullopt, 0,
                                            causal, scale, grouped);
  };
  auto net = std::make_shared<Net>();
  const Tensor w = net->parameter({3 * 24, 24}, 0.3), wo = net->parameter({24, 24}, 0.3);
  net->function = [=](const Tensors& in) {
    const Tensor &q = in[0], &k = in[1], &v = in[2], &bias = in[3], &mask = in[4], &tokens = in[5];
    const Tensor qkv = torch::linear(tokens, w);
    const auto heads = [&](std::int64_t i) {
      return qkv.slice(-1, 24 * i, 24 * i + 24).view({2, 11, 3, 8}).transpose(1, 2);
    };
    const Tensor self = attend(heads(0), heads(1), heads(2), {}, true);
    return all_of({attend(q, k, v),
                   attend(q, k, v, bias),
                   attend(q, k, v, mask),
                   attend(q, k, v, bias[0][0]),
                   attend(q, k, v, mask.select(1, 0).unsqueeze(1)),
                   attend(q, q, q, {}, true),
                   attend(q, k, v, {}, false, 0.3) + 1,
                   attend(q, k.slice(1, 0, 2), v.slice(1, 0, 2), {}, false, {}, true),
                   attend(q, k.slice(0, 0, 1), v.slice(0, 0, 1)),
                   self,
                   torch::linear(self.transpose(1, 2).reshape({2, 11, 24}), wo) + tokens,
                   attend(q[0], k[0], v[0]),
                   attend(q[0][0], k[0][0], v[0][0]),
                   attend(k, q, q, bias.transpose(-1, -2)),
                   attend(q.transpose(-1, -2).contiguous().transpose(-1, -2), k, v),
                   attend(q, k, v, mask.slice(2, 0, 1)),
                   attend(q, k, v, (bias > 0).logical_and(mask)),
                   attend(q, k, v, bias * 2 - 1),
                   attend(q, k, v, bias.slice(-1, 0, 1)),
                   (q.matmul(k.transpose(-1, -2)) / std::sqrt(5.)).softmax(-1).matmul(v)});
  };
  Tensor mask = torch::rand({2, 4, 7, 13}) > 0.4;
  mask.select(-1, 3).fill_(true);
  const Tensor q = torch::randn({2, 4, 7, 5}), k = torch::randn({2, 4, 13, 5}), v = torch::randn({2, 4, 13, 6});
  check(*net, {q, k, v, torch::randn({2, 4, 7, 13}), mask, torch::randn({2, 11, 24})},
        {.more = {{transposed_copy(q), sliced_copy(k), v, torch::randn({2, 4, 7, 13}), transposed_copy(mask),
                   torch::randn({2, 11, 24})}}});
}
TEST_CASE("a product that is multiplied with 0 is none, whatever it would be") {
  const Forward f = [](const Tensors& in) { return all_of({torch::addmm(in[0], in[1] / 0, in[2], 1, 0)}); };
  check(f, {torch::randn({4}), torch::randn({3, 5}), torch::randn({5, 4})}, {.called_back = {"aten::addmm"}});
}

TEST_CASE("rows that attend to nothing are as LibTorch has them") {
  torch::manual_seed(14);
  Tensor mask = torch::ones({5, 6}, torch::kBool);
  mask[2].fill_(false);
  const Tensors in{torch::randn({3, 6, 4}), mask};
  const auto f = net_of([](const Tensors& in) {
    return all_of({at::scaled_dot_product_attention(in[0].slice(1, 0, 5), in[0], in[0], in[1])});
  });
  check(*f, in);
}

TEST_CASE("LSTM and GRU: two layers, both directions, batches first or second, with states and without") {
  torch::manual_seed(16);
  for (const std::int64_t size : {5, 16}) {
    auto net = std::make_shared<Net>();
    auto lstm = net->module(
        torch::nn::LSTM(torch::nn::LSTMOptions(7, size).num_layers(2).bidirectional(true).batch_first(true)));
    auto lstm2 = net->module(torch::nn::LSTM(torch::nn::LSTMOptions(7, size).bias(false)));
    auto gru = net->module(torch::nn::GRU(torch::nn::GRUOptions(7, size).num_layers(2).bidirectional(true)));
    auto gru2 = net->module(torch::nn::GRU(torch::nn::GRUOptions(7, size).batch_first(true).bias(false)));
    net->function = [=](const Tensors& in) mutable {
      const auto [a, ah] = lstm->forward(in[0]);
      const auto [b, bh] = lstm2->forward(
          in[0], std::tuple(in[1].slice(0, 0, 1).slice(1, 0, 6), in[1].slice(0, 1, 2).slice(1, 0, 6) * 2));
      const auto [c, ch] = gru->forward(in[0].transpose(0, 1), in[1].slice(1, 0, 3));
      const auto [d, dh] = gru2->forward(in[0]);
      const auto [e, eh] = lstm->forward(in[0].transpose(1, 2).contiguous().transpose(1, 2));
      return all_of({a, std::get<0>(ah), std::get<1>(ah), b, std::get<0>(bh), std::get<1>(bh), c, ch, d.relu() + 1, dh,
                     e * 2, std::get<0>(eh)});
    };
    check(*net, {torch::randn({3, 6, 7}), torch::randn({4, 6, size})});
  }
}

}  // namespace
