// Layers as well-known models spell them, traced and given to all rules: which operators are left, and their numbers.
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "fxx/passes/merge_equal.hpp"
#include "fxx/rules/library.hpp"
#include "torch/support.hpp"

using namespace fxx;
using namespace fxx::test;
using torch::Tensor;

namespace {

using Written = std::function<Tensor(const Tensors&)>;
Tensor randn(std::vector<std::int64_t> sizes) { return torch::randn(sizes, torch::kDouble); }

/// The operators that the graph calls, in its order.
std::string calls_of(const Graph& graph) {
  std::string calls;
  for (const Node* node : graph.nodes()) {
    const Operator* op = operator_of(*node);
    // A result goes on lying as it did: by a copy, where what was recognised lies otherwise.
    if (op && op->base_name() == "clone" && node->next() == node->graph().output_node()) continue;
    if (op || node->opcode() == Opcode::call_function)
      calls += (calls.empty() ? "" : " ") + (op ? std::string(op->base_name()) : std::string(node->name()));
  }
  return calls;
}
/// What all rules leave of it, and those that are exact; both compute the same as before.
void becomes(const std::string& wanted, const Written& f, const Tensors& inputs) {
  CAPTURE(wanted);
  const Forward forward = [&](const Tensors& in) -> c10::IValue { return f(in); };
  for (const bool exact : {false, true}) {
    CAPTURE(exact);
    const auto gm = traced(forward, inputs);
    const std::string before = to_string(gm->graph());
    CAPTURE(before);
    const std::string report = (exact ? rules::apply_exact(*gm) : rules::apply_all(*gm)).to_string();
    CAPTURE(report);
    const std::string after = to_string(gm->graph());
    CAPTURE(after);
    gm->graph().lint();
    CHECK(calls_of(gm->graph()) == wanted);
    const torch::NoGradGuard no_grad;
    for (const double scale : {1.0, 0.3}) {
      Tensors other;
      for (const Tensor& in : inputs) other.push_back(in.is_floating_point() ? in * scale : in);
      CHECK(relative_difference(gm->run(boxed(other)), f(other)) <= 1e-12);
    }
  }
}
void all_become(const std::string& wanted, const std::vector<Written>& ways, const Tensors& inputs) {
  for (std::size_t way = 0; way < ways.size(); ++way) {
    CAPTURE(way);
    becomes(wanted, ways[way], inputs);
  }
}
Tensor average(const Tensor& x) { return x.mean(-1, true); }

}  // namespace

TEST_CASE("layer norms, however they are written") {
  torch::manual_seed(1);
  const double eps = 1e-5;
  const Tensors in{randn({2, 3, 8}), randn({8}), randn({8})};
  all_become(
      "layer_norm",
      {
          [=](const Tensors& t) {
            return (t[0] - average(t[0])) / torch::sqrt(average((t[0] - average(t[0])).pow(2)) + eps) * t[1] + t[2];
          },
          [=](const Tensors& t) {
            const Tensor s = average(torch::square(t[0] - average(t[0])));
            return t[1] * (t[0] - average(t[0])) / torch::sqrt(s + eps) + t[2];
          },
          [=](const Tensors& t) {
            const Tensor d = t[0] - t[0].mean(-1).unsqueeze(-1);
            return t[2] + d * torch::rsqrt((d * d).mean(-1).unsqueeze(-1) + eps) * t[1];
          },
          [=](const Tensors& t) {
            const Tensor u = average(t[0]), s = average((t[0] - u).pow(2));
            return t[1] * ((t[0] - u) / torch::sqrt(s + eps)) + t[2];
          },
          [=](const Tensors& t) {
            const Tensor v = t[0].var(-1, /*unbiased=*/false, /*keepdim=*/true);
            return (t[0] - average(t[0])) / torch::sqrt(v + eps) * t[1] + t[2];
          },
          [=](const Tensors& t) {
            return (t[0] - average(t[0])) * (t[0].var(-1, false).unsqueeze(-1) + eps).pow(-0.5) * t[1] + t[2];
          },
          [=](const Tensors& t) {
            return (t[0] - average(t[0])) * (1 / torch::sqrt(t[0].var(-1, false, true) + eps)) * t[1] + t[2];
          },
          [=](const Tensors& t) {
            const Tensor d = t[0] - t[0].sum(-1, true) / 8;
            return t[1] * (d / ((d * d).sum(-1, true) / 8 + eps).pow(0.5)) + t[2];
          },
      },
      in);
}

TEST_CASE("what resembles a layer norm is left alone") {
  torch::manual_seed(2);
  const auto stays = [](const Written& f) {
    const Tensors in{randn({2, 8}), randn({2, 8})};
    const auto gm = traced([&](const Tensors& t) -> c10::IValue { return f(t); }, in);
    rules::apply_all(*gm);
    CHECK(calls_of(gm->graph()).find("layer_norm") == std::string::npos);
    CHECK(relative_difference(gm->run(boxed(in)), f(in)) <= 1e-12);
  };
  stays([](const Tensors& t) { return (t[0] - average(t[0])) / (t[0].std(-1, false, true) + 1e-5); });
  stays([](const Tensors& t) { return (t[0] - average(t[0])) / torch::sqrt(t[0].var(-1, true, true) + 1e-5); });
  stays([](const Tensors& t) {
    return (t[0] - average(t[0])) / torch::sqrt(average((t[0] - average(t[1])).pow(2)) + 1e-5);
  });
}

TEST_CASE("rms norms, however they are written") {
  torch::manual_seed(3);
  const double eps = 1e-6;
  all_become("rms_norm",
             {
                 [=](const Tensors& t) { return t[1] * (t[0] * torch::rsqrt(t[0].pow(2).mean(-1, true) + eps)); },
                 [=](const Tensors& t) { return t[0] / torch::sqrt((t[0] * t[0]).mean(-1, true) + eps) * t[1]; },
                 [=](const Tensors& t) { return t[1] * t[0] * torch::rsqrt(torch::square(t[0]).mean(-1, true) + eps); },
                 [=](const Tensors& t) { return t[0] * (t[0].pow(2).mean(-1, true) + eps).pow(-0.5) * t[1]; },
                 [=](const Tensors& t) {
                   return t[0] * (1.0 / torch::sqrt(t[0].pow(2).sum(-1, true) / 8 + eps)) * t[1];
                 },
                 [=](const Tensors& t) { return t[0] * (t[0].pow(2).mean(-1).unsqueeze(-1) + eps).rsqrt() * t[1]; },
             },
             {randn({2, 3, 8}), randn({8})});
}

TEST_CASE("gelus by tanh, however the polynomial is written") {
  torch::manual_seed(4);
  const double c = std::sqrt(2 / M_PI), d = 0.044715;
  all_become("gelu",
             {
                 [=](const Tensors& t) {
                   const Tensor& x = t[0];
                   return 0.5 * x * (1 + torch::tanh(c * (x + d * x * x * x)));
                 },
                 [=](const Tensors& t) {
                   const Tensor& x = t[0];
                   return 0.5 * x * (1 + torch::tanh(c * (x + x * x * x * d)));
                 },
                 [=](const Tensors& t) {
                   return 0.5 * t[0] * (1 + torch::tanh(c * (t[0] + d * torch::pow(t[0], 3))));
                 },
                 [=](const Tensors& t) {
                   const Tensor& x = t[0];
                   return x * 0.5 * (1.0 + torch::tanh(c * x * (1 + d * x * x)));
                 },
                 [=](const Tensors& t) {
                   const Tensor& x = t[0];
                   return 0.5 * x * (torch::tanh(x * c * (1 + d * torch::square(x))) + 1.0);
                 },
                 [=](const Tensors& t) {
                   const Tensor& x = t[0];
                   return 0.5 * x * (1 + torch::tanh(c * (x * (1 + d * x.pow(2)))));
                 },
                 [=](const Tensors& t) {
                   const Tensor& x = t[0];
                   return x * 0.5 * (1 + torch::tanh((x + d * x * x.pow(2)) * c));
                 },
                 [=](const Tensors& t) {
                   const Tensor& x = t[0];
                   return x * (0.5 * (1 + torch::tanh((x + (x * d) * (x * x)) * c)));
                 },
             },
             {randn({3, 5})});
}

TEST_CASE("other activations, as they are spelled") {
  torch::manual_seed(5);
  const Tensors in{randn({3, 5}) * 4};
  all_become("silu",
             {[](const Tensors& t) { return t[0] * (1 / (1 + torch::exp(-t[0]))); },
              [](const Tensors& t) { return t[0] / (1 + (-t[0]).exp()); },
              [](const Tensors& t) { return t[0].mul(t[0].sigmoid()); },
              [](const Tensors& t) { return t[0] * (torch::exp(-t[0]) + 1).reciprocal(); }},
             in);
  all_become("silu mul", {[](const Tensors& t) { return t[0] * torch::sigmoid(t[0]) * t[1]; }},
             {randn({3, 5}), randn({3, 5})});
  all_become("mish",
             {[](const Tensors& t) { return t[0] * torch::tanh(torch::softplus(t[0])); },
              [](const Tensors& t) { return t[0] * torch::tanh(torch::log(1 + torch::exp(t[0]))); },
              [](const Tensors& t) { return t[0] * torch::tanh(torch::log1p(t[0].exp())); }},
             in);
  all_become("hardswish",
             {[](const Tensors& t) { return t[0] * torch::relu6(t[0] + 3) / 6; },
              [](const Tensors& t) { return t[0] * (torch::relu6(t[0] + 3) / 6); },
              [](const Tensors& t) { return t[0] * torch::clamp(t[0] + 3, 0, 6) / 6; },
              [](const Tensors& t) { return t[0] * torch::hardtanh(t[0] + 3, 0, 6) * (1 / 6.0); },
              [](const Tensors& t) { return t[0] * (t[0] + 3).clamp_min(0).clamp_max(6) / 6.0; },
              [](const Tensors& t) { return t[0] * torch::hardsigmoid(t[0]); }},
             in);
  all_become("softplus",
             {[](const Tensors& t) { return torch::log(1 + torch::exp(t[0])); },
              [](const Tensors& t) { return torch::log1p(torch::exp(t[0])); },
              [](const Tensors& t) { return torch::relu(t[0]) + torch::log1p(torch::exp(-t[0].abs())); },
              [](const Tensors& t) { return t[0].clamp_min(0) + torch::log(1 + torch::exp(-t[0].abs())); }},
             in);
  all_become("log_sigmoid",
             {[](const Tensors& t) { return torch::log(torch::sigmoid(t[0])); },
              [](const Tensors& t) { return -torch::log(1 + torch::exp(-t[0])); }},
             in);
}

TEST_CASE("softmaxes and their logarithms, however they are written") {
  torch::manual_seed(6);
  const Tensors in{randn({2, 3, 5})};
  using std::get;
  all_become("softmax",
             {
                 [](const Tensors& t) { return torch::exp(t[0]) / torch::exp(t[0]).sum(-1, true); },
                 [](const Tensors& t) { return torch::exp(t[0]) / torch::exp(t[0]).sum(-1).unsqueeze(-1); },
                 [](const Tensors& t) {
                   const Tensor e = torch::exp(t[0] - get<0>(t[0].max(-1, true)));
                   return e / e.sum(-1, true);
                 },
                 [](const Tensors& t) {
                   const Tensor e = torch::exp(t[0] - t[0].amax(-1, true));
                   return e / e.sum(-1, true);
                 },
                 [](const Tensors& t) {
                   return torch::exp(t[0] - t[0].amax(-1, true)) / torch::exp(t[0] - t[0].amax(-1, true)).sum(-1, true);
                 },
                 [](const Tensors& t) {
                   const Tensor e = torch::exp(t[0] - get<0>(t[0].max(-1)).unsqueeze(-1).detach());
                   return e / e.sum(-1).unsqueeze(2);
                 },
                 [](const Tensors& t) { return torch::softmax(t[0] - get<0>(t[0].max(-1, true)), -1); },
             },
             in);
  all_become("log_softmax",
             {
                 [](const Tensors& t) { return t[0] - t[0].logsumexp(-1, true); },
                 [](const Tensors& t) { return t[0] - t[0].logsumexp(-1).unsqueeze(-1); },
                 [](const Tensors& t) { return t[0] - torch::log(torch::exp(t[0]).sum(-1, true)); },
                 [](const Tensors& t) {
                   const Tensor z = t[0] - t[0].amax(-1, true);
                   return z - torch::log(torch::exp(z).sum(-1, true));
                 },
                 [](const Tensors& t) {
                   const Tensor z = t[0] - get<0>(t[0].max(-1, true));
                   return z - z.exp().sum(-1).unsqueeze(-1).log();
                 },
                 [](const Tensors& t) { return torch::log(torch::softmax(t[0], -1)); },
                 [](const Tensors& t) { return torch::log(t[0].exp() / t[0].exp().sum(-1, true)); },
                 [](const Tensors& t) {
                   const Tensor m = t[0].amax(-1, true);
                   return t[0] - (m + torch::log(torch::exp(t[0] - m).sum(-1, true)));
                 },
             },
             in);
  all_become("logsumexp",
             {
                 [](const Tensors& t) { return torch::log(torch::exp(t[0]).sum(-1)); },
                 [](const Tensors& t) {
                   const Tensor m = get<0>(t[0].max(-1, true));
                   return m + torch::log(torch::exp(t[0] - m).sum(-1, true));
                 },
                 [](const Tensors& t) {
                   const Tensor m = t[0].amax(-1, true);
                   return torch::log(torch::exp(t[0] - m).sum(-1)) + m.squeeze(-1);
                 },
             },
             in);
}

TEST_CASE("linears by every transpose") {
  torch::manual_seed(7);
  const Tensor w = randn({4, 3}), b = randn({4});
  const std::vector<std::function<Tensor()>> transposed = {
      [&] { return w.t(); },  [&] { return w.transpose(-1, -2); },  [&] { return w.transpose(0, 1); },
      [&] { return w.mT(); }, [&] { return w.permute({1, 0}); },    [&] { return w.permute({-1, 0}); },
      [&] { return w.numpy_T(); }};
  for (std::size_t i = 0; i < transposed.size(); ++i) {
    CAPTURE(i);
    const auto& wt = transposed[i];
    for (const Tensor& x : {randn({2, 3}), randn({5, 2, 3})}) {
      becomes("linear", [&](const Tensors& t) { return torch::matmul(t[0], wt()) + b; }, {x});
      becomes("linear", [&](const Tensors& t) { return b + torch::matmul(t[0], wt()); }, {x});
      becomes("linear", [&](const Tensors& t) { return torch::matmul(t[0], wt()); }, {x});
    }
    becomes("linear", [&](const Tensors& t) { return torch::addmm(b, t[0], wt()); }, {randn({2, 3})});
    becomes("linear", [&](const Tensors& t) { return torch::mm(t[0], wt()).add_(b); }, {randn({2, 3})});
  }
  becomes("linear", [](const Tensors& t) { return torch::matmul(t[0], t[1].transpose(0, 1)) + t[2]; },
          {randn({2, 3}), randn({4, 3}), randn({4})});
}

TEST_CASE("attention whose scores are scaled, masked and made weights in every order") {
  torch::manual_seed(8);
  const double root = std::sqrt(4.0);
  const Tensor hidden = torch::ones({5, 6}, torch::kBool).triu(1), seen = hidden.logical_not();
  const Tensor added = torch::zeros({5, 6}, torch::kDouble).masked_fill(hidden, -7.0);
  const double low = -std::numeric_limits<double>::infinity();
  const auto softmax = [](const Tensor& s) {
    const Tensor e = torch::exp(s - std::get<0>(s.max(-1, true)));
    return e / e.sum(-1, true);
  };
  using Scores = std::function<Tensor(Tensor, Tensor)>;
  const auto t = [](const Tensor& k) { return k.transpose(-2, -1); };
  const std::vector<Scores> scaled = {[=](Tensor q, Tensor k) { return torch::matmul(q, t(k)) / root; },
                                      [=](Tensor q, Tensor k) { return torch::matmul(q, t(k)) * 0.5; },
                                      [=](Tensor q, Tensor k) { return torch::matmul(q / root, t(k)); },
                                      [=](Tensor q, Tensor k) { return torch::matmul(q * 0.5, t(k)); },
                                      [=](Tensor q, Tensor k) { return torch::matmul(q, t(k) * 0.5); },
                                      [=](Tensor q, Tensor k) { return torch::matmul(q, t(k / root)); },
                                      [=](Tensor q, Tensor k) { return torch::matmul(q * 0.7, t(k * 0.7)); }};
  using Masked = std::function<Tensor(Tensor)>;
  const std::vector<std::pair<std::string, Masked>> masked = {
      {"scaled_dot_product_attention", [](Tensor s) { return s; }},
      {"scaled_dot_product_attention", [&](Tensor s) { return s + added; }},
      {"logical_not scaled_dot_product_attention", [&](Tensor s) { return s.masked_fill(hidden, low); }},
      {"scaled_dot_product_attention", [&](Tensor s) { return torch::where(seen, s, low); }},
      {"new_zeros masked_fill scaled_dot_product_attention", [&](Tensor s) { return s.masked_fill(hidden, -1e9); }}};
  const Tensors in{randn({2, 3, 5, 4}), randn({2, 3, 6, 4}), randn({2, 3, 6, 4})};
  for (std::size_t s = 0; s < scaled.size(); ++s)
    for (std::size_t m = 0; m < masked.size(); ++m) {
      CAPTURE(s);
      CAPTURE(m);
      for (const bool by_hand : {false, true})
        becomes(masked[m].first,
                [&](const Tensors& t) {
                  const Tensor scores = masked[m].second(scaled[s](t[0], t[1]));
                  return torch::matmul(by_hand ? softmax(scores) : torch::softmax(scores, -1), t[2]);
                },
                in);
    }
  for (std::size_t m = 0; m < 4; ++m) {
    CAPTURE(m);
    for (const bool divided : {false, true})
      becomes(m == 1 ? "mul scaled_dot_product_attention" : masked[m].first,
              [&](const Tensors& t) {
                const Tensor scores = masked[m].second(torch::matmul(t[0], t[1].transpose(-2, -1)));
                return torch::matmul(torch::softmax(divided ? scores / root : scores * 0.5, -1), t[2]);
              },
              in);
  }
  // Of no weights: those of the keys that are queries' too.
  becomes("scaled_dot_product_attention",
          [&](const Tensors& t) {
            return torch::matmul(torch::softmax(torch::matmul(t[0], t[1].transpose(0, 1)) / root, -1), t[2]);
          },
          {randn({5, 4}), randn({6, 4}), randn({6, 4})});
  becomes("logical_not scaled_dot_product_attention",
          [&](const Tensors& t) {
            const Tensor scores = (torch::bmm(t[0], t[1].transpose(1, 2)) / root).masked_fill(hidden, low);
            return torch::bmm(torch::softmax(scores, -1), t[2]);
          },
          {randn({3, 5, 4}), randn({3, 6, 4}), randn({3, 6, 4})});
}

TEST_CASE("a query that is masked from all keys by a number counts them all alike") {
  const Tensor hidden = torch::ones({5, 6}, torch::kBool);
  const Tensors in{randn({1, 5, 4}), randn({1, 6, 4}), randn({1, 6, 4})};
  becomes("new_zeros masked_fill scaled_dot_product_attention",
          [&](const Tensors& t) {
            const Tensor scores = torch::matmul(t[0], t[1].transpose(-2, -1)).masked_fill(hidden, -1e9);
            return torch::matmul(torch::softmax(scores, -1), t[2]);
          },
          in);
}

TEST_CASE("rotary embeddings of values seen as pairs") {
  torch::manual_seed(9);
  const Tensor cos = randn({3, 4}), sin = randn({3, 4});
  all_become("repeat_interleave repeat_interleave rotary_embedding",
             {
                 [=](const Tensors& t) {
                   const Tensor pairs = t[0].reshape({2, 3, 4, 2});
                   const Tensor a = pairs.select(-1, 0), b = pairs.select(-1, 1);
                   return torch::stack({a * cos - b * sin, b * cos + a * sin}, -1).flatten(-2);
                 },
                 [=](const Tensors& t) {
                   const auto parts = t[0].view({2, 3, -1, 2}).unbind(-1);
                   return torch::stack({parts[0] * cos - parts[1] * sin, parts[0] * sin + parts[1] * cos}, -1)
                       .reshape({2, 3, 8});
                 },
             },
             {randn({2, 3, 8})});
}

TEST_CASE("group norms by hand, with the variance by squares") {
  torch::manual_seed(10);
  const Tensor w = randn({6}), b = randn({6});
  becomes("view view reshape reshape group_norm",
          [&](const Tensors& t) {
            const Tensor x = t[0].view({2, 3, -1});
            const Tensor n = (x - average(x)) / torch::sqrt(average((x - average(x)).pow(2)) + 1e-5);
            return n.view({2, 6, 4, 4}) * w.view({1, 6, 1, 1}) + b.view({1, 6, 1, 1});
          },
          {randn({2, 6, 4, 4})});
}

TEST_CASE("equal calls are merged, but for those that may be told apart") {
  const auto left = [](const Forward& f, const Tensors& in) {
    const auto gm = traced(f, in);
    merge_equal(gm->graph());
    gm->graph().lint();
    const torch::NoGradGuard no_grad;
    CHECK(relative_difference(gm->run(boxed(cloned(in))), f(cloned(in))) <= 1e-12);
    return calls_of(gm->graph());
  };
  const Tensors in{randn({3, 4})};
  CHECK(left([](const Tensors& t) { return t[0].exp() + t[0].exp(); }, in) == "exp add");
  // Two results, of which whoever gets them may write to one.
  CHECK(left([](const Tensors& t) { return Tensors{t[0].exp(), t[0].exp()}; }, in) == "exp exp");
  // One of them is written to.
  CHECK(left(
            [](const Tensors& t) {
              const Tensor twice = t[0].exp().mul_(2);
              return twice + t[0].exp();
            },
            in) == "exp mul_ exp add");
  // The input is, in between.
  CHECK(left(
            [](const Tensors& t) {
              const Tensor before = t[0].exp();
              t[0].add_(1);
              return before + t[0].exp();
            },
            in) == "exp add_ exp add");
}
