// The rules that ship, with numbers: each is applied to a traced function, and results and gradients are compared with
// those of the function itself in double precision, over sizes that are easily got wrong. What only looks like a rule's
// pattern is left alone. One long file: each that includes LibTorch takes 20 s and 1.3 GB to compile.
#include "fxx/ops/registry.hpp"
#include "fxx/rules/activations.hpp"
#include "fxx/rules/attention.hpp"
#include "fxx/rules/inference.hpp"
#include "fxx/rules/merge_linear.hpp"
#include "fxx/rules/reroll.hpp"
#include "fxx/torch/fold_constants.hpp"
#include "torch/support.hpp"

using namespace fxx;
using namespace fxx::test;
using torch::Tensor;
namespace F = torch::nn::functional;

namespace {

using Apply = std::function<rewrite::RewriteReport(GraphModule&)>;
const Apply inference = [](GraphModule& m) { return rules::inference.apply(m); };
const Apply activations = [](GraphModule& m) { return rules::activations.apply(m); };
const Apply attention = [](GraphModule& m) { return rules::attention.apply(m); };
const Apply merge_linear = [](GraphModule& m) { return rules::merge_linear.apply(m); };
const Apply reroll = [](GraphModule& m) { return rules::reroll.apply(m); };

Tensor randn(std::vector<std::int64_t> sizes) { return torch::randn(sizes, torch::kDouble); }
Tensor weight(std::vector<std::int64_t> sizes) { return randn(std::move(sizes)).requires_grad_(); }
/// Positive numbers over many magnitudes.
Tensor variances(std::int64_t size) { return torch::exp(torch::linspace(-9, 6, size, torch::kDouble)); }

/// Gradients of a weighted sum of the results, for all that require one.
Tensors gradients_for(const Forward& f, const Tensors& inputs, const Tensors& weights) {
  Tensors of = weights, leaves;
  for (const Tensor& in : inputs) leaves.push_back(in.detach().clone().set_requires_grad(in.is_floating_point()));
  for (const Tensor& leaf : leaves)
    if (leaf.requires_grad()) of.push_back(leaf);
  Tensor loss = torch::zeros({}, torch::kDouble);
  for (const Tensor& t : tensors_of(f(leaves)))
    if (t.requires_grad()) loss = loss + (t.flatten() * torch::linspace(-1, 1.1, t.numel(), t.options())).sum();
  if (!loss.requires_grad()) return {};
  return torch::autograd::grad({loss}, of, {}, std::nullopt, false, /*allow_unused=*/true);
}

struct Sample {
  std::string fired;  // report of the rules; empty: none may fire
  Forward f;
  Tensors inputs;
  Tensors weights = {};  // captured by f
  double tolerance = 1e-12;
  TraceOptions options = {};
};
/// The law of a rule: what is rewritten gives the same numbers and the same gradients.
std::shared_ptr<GraphModule> check(const Apply& apply, const Sample& sample) {
  const auto gm = traced(sample.f, sample.inputs, sample.options);
  const std::string before = to_string(gm->graph());
  CAPTURE(before);
  CHECK(apply(*gm).to_string() == sample.fired);
  const std::string after = to_string(gm->graph());
  CAPTURE(after);
  gm->graph().lint();
  const Forward by_graph = [&](const Tensors& in) { return gm->run(boxed(in)); };
  for (int round = 0; round < 2; ++round) {  // the inputs that were traced, then others
    Tensors inputs = cloned(sample.inputs);
    if (round == 1)
      for (Tensor& in : inputs)
        if (in.is_floating_point()) in = in.flip({-1}) * 1.5;
    {
      const torch::NoGradGuard no_grad;
      const c10::IValue expected = sample.f(cloned(inputs));
      CHECK(relative_difference(by_graph(cloned(inputs)), expected) <= sample.tolerance);
    }
    if (sample.weights.empty()) continue;
    const Tensors expected = gradients_for(sample.f, inputs, sample.weights);
    const Tensors given = gradients_for(by_graph, inputs, sample.weights);
    REQUIRE(given.size() == expected.size());
    for (std::size_t i = 0; i < given.size(); ++i) {
      CAPTURE(i);
      REQUIRE(given[i].defined() == expected[i].defined());
      if (given[i].defined()) CHECK(relative_difference(given[i], expected[i]) <= 100 * sample.tolerance);
    }
  }
  return gm;
}
/// Nothing may fire, and nothing may change.
void check_untouched(const Apply& apply, const Forward& f, const Tensors& inputs, const Tensors& weights = {}) {
  check(apply, {"", f, inputs, weights});
}

// --- batch norm ----------------------------------------------------------------------------------------------------

Tensor normalised(const Tensor& x, const Tensor& gamma, const Tensor& beta, const Tensor& mean, const Tensor& var,
                  double eps = 1e-5, bool training = false) {
  return torch::batch_norm(x, gamma, beta, mean, var, training, 0.1, eps, false);
}
template <class C>
Tensor convolve(const Tensor& x, const Tensor& w, const Tensor& b, int dims, C stride, C padding, C dilation,
                std::int64_t groups) {
  return dims == 1   ? torch::conv1d(x, w, b, stride, padding, dilation, groups)
         : dims == 2 ? torch::conv2d(x, w, b, stride, padding, dilation, groups)
                     : torch::conv3d(x, w, b, stride, padding, dilation, groups);
}
Tensor convolve_transposed(const Tensor& x, const Tensor& w, const Tensor& b, int dims, std::int64_t groups) {
  return dims == 1   ? torch::conv_transpose1d(x, w, b, 2, 1, 1, groups, 2)
         : dims == 2 ? torch::conv_transpose2d(x, w, b, 2, 1, 1, groups, 2)
                     : torch::conv_transpose3d(x, w, b, 2, 1, 1, groups, 2);
}
std::vector<std::int64_t> sizes_of(std::int64_t a, std::int64_t b, int dims, std::int64_t side) {
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(dims) + 2, side);
  sizes[0] = a, sizes[1] = b;
  sizes.back() += 1;  // not square
  return sizes;
}

TEST_CASE("batch norm folds into the convolution before it") {
  torch::manual_seed(1);
  for (const int dims : {1, 2, 3})
    for (const std::int64_t batch : {0, 1, 3})
      for (const std::int64_t groups : {1, 3})
        for (const bool with_bias : {false, true})
          for (const bool affine : {false, true}) {
            if (batch != 3 && (groups != 1 || !affine)) continue;
            CAPTURE(dims);
            CAPTURE(batch);
            CAPTURE(groups);
            CAPTURE(with_bias);
            CAPTURE(affine);
            const Tensor w = weight(sizes_of(9, 3 / groups * 1, dims, 2)), b = with_bias ? weight({9}) : Tensor();
            const Tensor gamma = affine ? weight({9}) : Tensor(), beta = affine ? weight({9}) : Tensor();
            const Tensor mean = randn({9}), var = variances(9);
            Tensors weights{w};
            for (const Tensor& t : {b, gamma, beta})
              if (t.defined()) weights.push_back(t);
            check(inference, {"fold batch norm, conv" + std::to_string(dims) + "d: 1",
                              [&](const Tensors& in) {
                                return normalised(convolve<std::int64_t>(in[0], w, b, dims, 2, 1, 2, groups), gamma,
                                                  beta, mean, var, 1e-3);
                              },
                              {randn(sizes_of(batch, 3, dims, 6))},
                              weights});
          }
}

TEST_CASE("batch norm folds into a transposed convolution of one group and of several") {
  torch::manual_seed(2);
  for (const int dims : {1, 2, 3})
    for (const std::int64_t groups : {1, 2})
      for (const bool with_bias : {false, true}) {
        CAPTURE(dims);
        CAPTURE(groups);
        CAPTURE(with_bias);
        const Tensor w = weight(sizes_of(4, 6 / groups, dims, 2)), b = with_bias ? weight({6}) : Tensor();
        const Tensor gamma = weight({6}), beta = weight({6}), mean = randn({6}), var = variances(6);
        Tensors weights{w, gamma, beta};
        if (with_bias) weights.push_back(b);
        check(inference, {"fold batch norm, conv_transpose" + std::to_string(dims) + "d: 1",
                          [&](const Tensors& in) {
                            return normalised(convolve_transposed(in[0], w, b, dims, groups), gamma, beta, mean, var);
                          },
                          {randn(sizes_of(2, 4, dims, 3))},
                          weights});
      }
}

TEST_CASE("batch norm folds into a linear over two dimensions, and not where the linear writes another dimension") {
  torch::manual_seed(3);
  const Tensor w = weight({5, 3}), gamma = weight({5}), beta = weight({5}), mean = randn({5}), var = variances(5);
  for (const std::int64_t batch : {0, 1, 7})
    for (const bool with_bias : {false, true}) {
      CAPTURE(batch);
      CAPTURE(with_bias);
      const Tensor b = with_bias ? weight({5}) : Tensor();
      Tensors weights{w, gamma, beta};
      if (with_bias) weights.push_back(b);
      check(inference, {"fold batch norm, linear: 1",
                        [&](const Tensors& in) { return normalised(F::linear(in[0], w, b), gamma, beta, mean, var); },
                        {randn({batch, 3})},
                        weights});
    }
  // [2, 5, 3] -> [2, 5, 5]: batch norm takes its channels from the middle.
  check_untouched(inference, [&](const Tensors& in) { return normalised(F::linear(in[0], w), gamma, beta, mean, var); },
                  {randn({2, 5, 3})}, {w});
}

TEST_CASE("batch norm stays: in training, where a weight is no constant, where the convolution is used twice") {
  torch::manual_seed(4);
  const Tensor w = weight({4, 2, 3}), b = weight({4}), gamma = weight({4}), beta = weight({4});
  const Tensor mean = randn({4}), var = variances(4);
  const Tensors in{randn({2, 2, 8})};
  // Batch statistics; the running ones change, so each side gets its own.
  const auto training = traced(
      [&](const Tensors& t) {
        return normalised(torch::conv1d(t[0], w, b), gamma, beta, mean.clone(), var.clone(), 1e-5, true);
      },
      in);
  CHECK(inference(*training).to_string().empty());
  CHECK(relative_difference(training->run(boxed(in)), normalised(torch::conv1d(in[0], w, b), gamma, beta, mean.clone(),
                                                                 var.clone(), 1e-5, true)) < 1e-12);
  // Statistics of the batch because there are no others.
  check_untouched(
      inference,
      [&](const Tensors& t) { return normalised(torch::conv1d(t[0], w, b), gamma, beta, {}, {}, 1e-5, true); }, in,
      {w});
  check_untouched(inference,
                  [&](const Tensors& t) { return normalised(torch::conv1d(t[0], t[1], b), gamma, beta, mean, var); },
                  {in[0], randn({4, 2, 3})}, {b});
  check_untouched(inference,
                  [&](const Tensors& t) { return normalised(torch::conv1d(t[0], w, t[1]), gamma, beta, mean, var); },
                  {in[0], randn({4})}, {w});
  check_untouched(inference,
                  [&](const Tensors& t) { return normalised(torch::conv1d(t[0], w, b), t[1], beta, mean, var); },
                  {in[0], randn({4})}, {w});
  check_untouched(inference,
                  [&](const Tensors& t) {
                    const Tensor y = torch::conv1d(t[0], w, b);
                    return y + normalised(y, gamma, beta, mean, var);
                  },
                  in, {w});
  // Written to between the two.
  check_untouched(inference,
                  [&](const Tensors& t) {
                    Tensor y = torch::conv1d(t[0], w, b);
                    y.sigmoid_();
                    return normalised(y, gamma, beta, mean, var);
                  },
                  in, {w});
  // Padding that is a word is another operator.
  check_untouched(
      inference,
      [&](const Tensors& t) { return normalised(torch::conv1d(t[0], w, b, 1, "same"), gamma, beta, mean, var); }, in,
      {w});
}

TEST_CASE("one convolution called twice, each call with a batch norm of its own") {
  torch::manual_seed(5);
  const Tensor w = weight({3, 3, 3}), b = weight({3});
  const Tensor mean1 = randn({3}), mean2 = randn({3}), var1 = variances(3), var2 = variances(3) * 3;
  const Forward f = [&](const Tensors& t) {
    const Tensor y = normalised(torch::conv1d(t[0], w, b, 1, 1), {}, {}, mean1, var1);
    return normalised(torch::conv1d(y, w, b, 1, 1), {}, {}, mean2, var2);
  };
  const auto gm = check(inference, {"fold batch norm, conv1d: 2", f, {randn({2, 3, 8})}, {w, b}});
  CHECK(fold_constants(*gm) == 4);
  const Tensors in{randn({2, 3, 8})};
  const torch::NoGradGuard no_grad;
  CHECK(relative_difference(gm->run(boxed(in)), f(in)) < 1e-12);
  // The shared convolution as a module: it stays as it is for who calls it elsewhere.
  struct Shared : torch::nn::Module {
    torch::nn::Conv1d conv = register_module("conv", torch::nn::Conv1d(torch::nn::Conv1dOptions(3, 3, 3).padding(1)));
    torch::nn::BatchNorm1d bn = register_module("bn", torch::nn::BatchNorm1d(3));
    Tensor forward(Tensor x) { return torch::relu(conv(bn(conv(x)))); }
  } shared;
  shared.to(torch::kDouble);
  shared.bn->running_mean.uniform_(-1, 1);
  shared.eval();
  const auto module = trace(shared, in);
  CHECK(inference(*module)["fold batch norm, conv1d"] == 1);
  fold_constants(*module);
  CHECK(called_modules(module->graph()) == std::set<std::string>{"conv"});
  CHECK(relative_difference((*module)(in[0]), shared.forward(in[0])) < 1e-12);
}

TEST_CASE("a half-precision convolution under a single-precision batch norm keeps its dtype") {
  const Tensor w = torch::randn({4, 2, 3}).to(torch::kBFloat16), b = torch::randn({4}).to(torch::kBFloat16);
  const Tensor gamma = torch::rand({4}) + 0.5, beta = torch::randn({4}), mean = torch::randn({4}),
               var = torch::rand({4}) + 1;
  check(inference, {"fold batch norm, conv1d: 1",
                    [&](const Tensors& t) { return normalised(torch::conv1d(t[0], w, b), gamma, beta, mean, var); },
                    {torch::randn({2, 2, 8}).to(torch::kBFloat16)},
                    {},
                    0.03});
}

// --- dropout and identity ------------------------------------------------------------------------------------------

TEST_CASE("dropout of every kind goes in evaluation, at any rate, in place or not") {
  const Tensors in{randn({3, 4, 5})};
  const Tensor one = weight({1});
  for (const double p : {0.0, 0.3, 1.0}) {
    CAPTURE(p);
    check(inference, {"dropout: 4",
                      [&](const Tensors& t) {
                        Tensor y = torch::feature_dropout(torch::dropout(t[0] * one, p, false), p, false);
                        return torch::feature_alpha_dropout(torch::alpha_dropout(y, p, false), p, false) + 1;
                      },
                      in,
                      {one}});
    check(inference, {"dropout: 2",
                      [&](const Tensors& t) {
                        Tensor y = t[0] + 1;
                        torch::dropout_(y, p, false);
                        return torch::alpha_dropout_(y, p, false) * one;
                      },
                      in,
                      {one}});
  }
  // The result itself, and an input that is returned.
  check(inference, {"dropout: 1", [](const Tensors& t) { return torch::dropout(t[0], 0.5, false); }, in});
}

TEST_CASE("dropout stays in training, where it draws the same numbers as before") {
  const Tensors in{randn({3, 4, 5})};
  for (const double p : {0.0, 0.5, 1.0}) {
    const Forward f = [&](const Tensors& t) {
      return torch::dropout(t[0], p, true) + torch::alpha_dropout(t[0], 0.2, true);
    };
    const auto gm = traced(f, in);
    CHECK(inference(*gm).to_string().empty());
    torch::manual_seed(9);
    const c10::IValue expected = f(in);
    torch::manual_seed(9);
    CHECK(relative_difference(gm->run(boxed(in)), expected) == 0);
  }
}

TEST_CASE("identity modules go, whatever they are given") {
  struct Identities : torch::nn::Module {
    fxx::nn::Identity a = register_module("a", fxx::nn::Identity()), b = register_module("b", fxx::nn::Identity());
    fxx::nn::Dropout drop = register_module("drop", fxx::nn::Dropout(0.5));
    Proxy forward(Proxy x) { return b(drop(a(x)) + 1); }
  } module;
  module.eval();
  const auto gm = symbolic_trace(module);
  CHECK(inference(*gm).to_string() == "dropout: 1, identity: 2");
  CHECK(gm->graph().find_nodes(Opcode::call_module).empty());
  const Tensor x = randn({3});
  CHECK(same((*gm)(x), x + 1));
  module.train();
  const auto training = symbolic_trace(module);
  CHECK(inference(*training).to_string() == "identity: 2");
  CHECK(called_modules(training->graph()) == std::set<std::string>{"drop"});
}

// --- activations ---------------------------------------------------------------------------------------------------

/// Values that hand-written forms get wrong first: zeros, large ones, none, one without dimensions, gaps between.
std::vector<Tensor> awkward_values() {
  return {torch::tensor({0.0, -0.0, 1e-300, 1.0, -1.0, 5.5, -5.5, 30.0, -30.0, 600.0, -600.0}, torch::kDouble),
          randn({0, 3}), randn({}), randn({4, 6}).t().slice(0, 0, 6, 2), randn({1, 1, 1, 1, 2})};
}

TEST_CASE("gelu and silu written by hand, in every way that is known") {
  torch::manual_seed(6);
  const double root2 = std::sqrt(2.0), c = std::sqrt(2 / M_PI);
  const std::vector<std::pair<std::string, std::function<Tensor(Tensor)>>> written = {
      {"gelu", [=](Tensor x) { return x * 0.5 * (1 + torch::erf(x / root2)); }},
      {"gelu", [=](Tensor x) { return 0.5 * x * (torch::erf(x * M_SQRT1_2) + 1.0); }},
      {"gelu", [=](Tensor x) { return (torch::erf(x / root2) + 1) * (x / 2); }},
      {"gelu, halved last", [=](Tensor x) { return x * (torch::erf(x / 1.414213) + 1) * 0.5; }},
      {"gelu, halved last", [=](Tensor x) { return x * (torch::erf(x / root2) + 1) / 2; }},
      {"gelu, half of the sum", [=](Tensor x) { return x * ((torch::erf(x * M_SQRT1_2) + 1) * 0.5); }},
      {"gelu, tanh", [=](Tensor x) { return 0.5 * x * (1 + torch::tanh(c * (x + 0.044715 * torch::pow(x, 3)))); }},
      {"gelu, tanh", [=](Tensor x) { return x * 0.5 * (torch::tanh((x + x * x * x * 0.044715) * c) + 1); }},
      {"gelu, tanh, halved last",
       [=](Tensor x) { return x * (1 + torch::tanh(c * (x + 0.044715 * (x * x * x)))) / 2; }},
      {"silu", [=](Tensor x) { return x * torch::sigmoid(x); }},
      {"silu", [=](Tensor x) { return torch::sigmoid(x) * x; }},
      {"silu, divided", [=](Tensor x) { return x / (1 + torch::exp(-x)); }},
      {"silu, divided", [=](Tensor x) { return x / (torch::exp(x.neg()) + 1.0); }},
  };
  const Tensor one = torch::ones({1}, torch::kDouble).requires_grad_();
  for (const auto& [rule, f] : written)
    for (const Tensor& in : awkward_values()) {
      CAPTURE(rule);
      CAPTURE(in.sizes());
      // 1.414213 is near the root of two, and counts as meant so.
      check(activations, {rule + ": 1", [&](const Tensors& t) { return f(t[0]) * 2; }, {in}, {}, 1e-5});
      if (rule == "gelu, halved last") continue;
      check(activations,
            {rule + ": 1", [&](const Tensors& t) { return f(t[0] * one) + 1; }, {in.clamp(-9, 9)}, {one}, 1e-7});
    }
}

TEST_CASE("what resembles an activation is left alone") {
  const Tensors one{randn({3, 4})}, two{randn({3, 4}), randn({3, 4})};
  check_untouched(
      activations, [](const Tensors& t) { return t[0] * torch::sigmoid(t[1]); }, two);
  check_untouched(
      activations, [](const Tensors& t) { return t[0] * torch::sigmoid(t[0] * 1.702); }, one);
  check_untouched(
      activations, [](const Tensors& t) { return t[0] / (torch::exp(-t[1]) + 1); }, two);
  check_untouched(
      activations, [](const Tensors& t) { return t[0] / (torch::exp(-t[0]) + 2); }, one);
  check_untouched(
      activations, [](const Tensors& t) { return t[0] / (torch::exp(t[0]) + 1); }, one);
  check_untouched(
      activations, [](const Tensors& t) { return t[0] * 0.5 * (torch::erf(t[0] / 1.5) + 1); }, one);
  check_untouched(
      activations, [](const Tensors& t) { return t[0] * 0.6 * (torch::erf(t[0] / M_SQRT2) + 1); }, one);
  check_untouched(
      activations, [](const Tensors& t) { return t[0] * 0.5 * (torch::erf(t[1] / M_SQRT2) + 1); }, two);
  check_untouched(
      activations,
      [](const Tensors& t) { return t[0] * 0.5 * (1 + torch::tanh(0.79788 * (t[0] + 0.044715 * t[0].pow(2)))); }, one);
  // x is another value when the sigmoid has been taken.
  check_untouched(
      activations,
      [](const Tensors& t) {
        Tensor x = t[0] + 1;
        const Tensor gate = torch::sigmoid(x);
        x.mul_(2);
        return x * gate;
      },
      one);
  // Whole numbers become floating-point ones by themselves; gelu and silu refuse them.
  const Tensors whole{torch::arange(-3, 3)};
  check_untouched(
      activations, [](const Tensors& t) { return t[0] * torch::sigmoid(t[0]); }, whole);
  check_untouched(
      activations, [](const Tensors& t) { return t[0] / (1 + torch::exp(-t[0])); }, whole);
  check_untouched(
      activations, [](const Tensors& t) { return t[0] * 0.5 * (1 + torch::erf(t[0] / M_SQRT2)); }, whole);
  // The gate has another use: the activation is recognised, the gate stays.
  check(activations, {"silu: 1",
                      [](const Tensors& t) {
                        const Tensor gate = torch::sigmoid(t[0]);
                        return std::vector<Tensor>{t[0] * gate, gate};
                      },
                      one});
}

// --- attention -----------------------------------------------------------------------------------------------------

struct Heads {
  std::vector<std::int64_t> q, k, v;
};
/// Several heads, none, which is left alone, one query, more keys than queries, odd sizes, values of another width.
const std::vector<Heads> shapes = {{{2, 3, 5, 4}, {2, 3, 5, 4}, {2, 3, 5, 4}},
                                   {{1, 1, 1, 1}, {1, 1, 1, 1}, {1, 1, 1, 1}},
                                   {{2, 3, 1, 4}, {2, 3, 7, 4}, {2, 3, 7, 4}},
                                   {{3, 5, 7}, {3, 6, 7}, {3, 6, 2}},
                                   {{5, 3}, {4, 3}, {4, 6}},
                                   {{2, 2, 3, 4, 5}, {2, 2, 3, 6, 5}, {2, 2, 3, 6, 5}},
                                   {{0, 3, 5, 4}, {0, 3, 5, 4}, {0, 3, 5, 4}}};

TEST_CASE("attention written by hand becomes scaled_dot_product_attention") {
  torch::manual_seed(7);
  const double c = 0.37;
  using Scores = std::function<Tensor(Tensor, Tensor)>;
  const std::vector<std::pair<std::string, Scores>> written = {
      {"attention, divided", [=](Tensor q, Tensor k) { return torch::matmul(q, k.transpose(-1, -2)) / c; }},
      {"attention, scaled", [=](Tensor q, Tensor k) { return torch::matmul(q, k.transpose(-2, -1)) * c; }},
      {"attention, scaled query", [=](Tensor q, Tensor k) { return torch::matmul(c * q, k.transpose(-2, -1)); }},
      {"attention, divided query", [=](Tensor q, Tensor k) { return torch::matmul(q / 2, k.transpose(-2, -1)); }},
      {"attention, unscaled",
       [=](Tensor q, Tensor k) { return torch::matmul(q, k.transpose(k.dim() - 1, k.dim() - 2)); }}};
  const Tensor one = torch::ones({1}, torch::kDouble).requires_grad_();
  for (const auto& [rule, scores] : written)
    for (const Heads& heads : shapes) {
      CAPTURE(rule);
      CAPTURE(heads.q);
      const Tensors in{randn(heads.q), randn(heads.k), randn(heads.v)};
      const bool none = heads.q[0] == 0;
      check(attention,
            {none ? "" : rule + ": 1",
             [&](const Tensors& t) { return torch::matmul(torch::softmax(scores(t[0] * one, t[1]), -1), t[2]) + 1; },
             in,
             {one}});
      const std::int64_t queries = heads.q[heads.q.size() - 2], keys = heads.k[heads.k.size() - 2];
      const Tensor mask =
          torch::zeros({queries, keys}, torch::kDouble).masked_fill(torch::rand({queries, keys}) < 0.4, -5);
      check(attention, {none ? "" : rule + ", masked: 1",
                        [&](const Tensors& t) {
                          return torch::matmul(
                              torch::softmax(scores(t[0] * one, t[1]) + mask, static_cast<int64_t>(heads.q.size()) - 1),
                              t[2]);
                        },
                        in,
                        {one}});
    }
}

TEST_CASE("attention under masks of every shape that adds to the scores") {
  torch::manual_seed(8);
  const Tensors in{randn({2, 3, 5, 4}), randn({2, 3, 6, 4}), randn({2, 3, 6, 4})};
  const std::vector<std::vector<std::int64_t>> sizes = {{2, 3, 5, 6}, {2, 1, 1, 6}, {1, 1, 5, 6}, {2, 1, 5, 6},
                                                        {3, 5, 6},    {3, 1, 6},    {5, 6},       {1, 6},
                                                        {5, 1},       {6},          {1},          {}};
  for (const auto& size : sizes) {
    CAPTURE(size);
    const Tensor mask = randn(size) * 3;
    const auto f = [&](const Tensor& added) -> Forward {
      return [=](const Tensors& t) {
        return torch::matmul(torch::softmax(torch::matmul(t[0], t[1].transpose(-1, -2)) / 2.0 + added, -1), t[2]);
      };
    };
    // The operator takes no mask of less than two dimensions.
    const std::string once = size.size() < 2 ? "" : "attention, divided, masked: 1";
    check(attention, {once, f(mask), in});
    // Of other types, which are added as numbers: single precision, whole numbers, and booleans.
    check(attention, {once, f(mask.to(torch::kFloat)), in, {}, 1e-7});
    check(attention, {once, f(mask.to(torch::kLong)), in});
    check(attention, {once, f(mask > 0), in});
    // As an input.
    check(attention, {once,
                      [](const Tensors& t) {
                        return torch::matmul(
                            torch::softmax(torch::matmul(t[0], t[1].transpose(-1, -2)) / 2.0 + t[3], -1), t[2]);
                      },
                      {in[0], in[1], in[2], mask}});
  }
  // A causal mask of infinities.
  const Tensor causal = torch::full({5, 6}, -std::numeric_limits<double>::infinity(), torch::kDouble).triu(1);
  check(attention, {"attention, scaled, masked: 1",
                    [&](const Tensors& t) {
                      return torch::matmul(
                          torch::softmax(torch::matmul(t[0], t[1].transpose(-1, -2)) * 0.5 + causal, -1), t[2]);
                    },
                    in});
}

TEST_CASE("a query that is masked from all keys gets zeros of the operator, nan of the written form") {
  Tensor mask = torch::zeros({2, 3}, torch::kDouble);
  mask[1].fill_(-std::numeric_limits<double>::infinity());
  const Tensors in{randn({1, 2, 2, 4}), randn({1, 2, 3, 4}), randn({1, 2, 3, 4})};
  const Forward f = [&](const Tensors& t) {
    return torch::matmul(torch::softmax(torch::matmul(t[0], t[1].transpose(-1, -2)) * 0.5 + mask, -1), t[2]);
  };
  const auto gm = traced(f, in);
  CHECK(attention(*gm).to_string() == "attention, scaled, masked: 1");
  const Tensor written = f(in).toTensor(), given = gm->run(boxed(in)).toTensor();
  CHECK(written.select(2, 1).isnan().all().item<bool>());
  CHECK(same(given.select(2, 1), torch::zeros({1, 2, 4}, torch::kDouble)));
  CHECK(relative_difference(given.select(2, 0), written.select(2, 0)) < 1e-12);
}

TEST_CASE("operands of attention that broadcast, and a mask with more dimensions than the scores") {
  torch::manual_seed(9);
  const auto f = [](Tensor q, Tensor k, Tensor v, Tensor added) {
    Tensor scores = torch::matmul(q, k.transpose(-1, -2)) / 2.0;
    if (added.defined()) scores = scores + added;
    return torch::matmul(torch::softmax(scores, -1), v);
  };
  const Forward plain = [&](const Tensors& t) { return f(t[0], t[1], t[2], {}); };
  const Forward masked = [&](const Tensors& t) { return f(t[0], t[1], t[2], t[3]); };
  // Whether or not these are recognised, they have to stay right.
  for (const Tensors& in : {Tensors{randn({2, 3, 5, 4}), randn({1, 3, 6, 4}), randn({2, 1, 6, 4})},
                            Tensors{randn({2, 3, 5, 4}), randn({6, 4}), randn({6, 4})},
                            Tensors{randn({5, 4}), randn({2, 3, 6, 4}), randn({2, 3, 6, 4})},
                            Tensors{randn({5, 4}), randn({6, 4}), randn({2, 6, 3})}}) {
    CAPTURE(in[0].sizes());
    CAPTURE(in[1].sizes());
    const auto gm = traced(plain, in);
    attention(*gm);
    CHECK(relative_difference(gm->run(boxed(in)), plain(in)) < 1e-12);
  }
  for (const Tensors& in : {Tensors{randn({5, 4}), randn({6, 4}), randn({6, 4}), randn({2, 5, 6})},
                            Tensors{randn({3, 5, 4}), randn({3, 6, 4}), randn({3, 6, 4}), randn({2, 1, 5, 6})}}) {
    CAPTURE(in[0].sizes());
    const auto gm = traced(masked, in);
    attention(*gm);
    CHECK(relative_difference(gm->run(boxed(in)), masked(in)) < 1e-12);
  }
}

TEST_CASE("what is no attention, or one that the operator cannot compute, stays") {
  const Tensors in{randn({2, 5, 4}), randn({2, 5, 4}), randn({2, 5, 4})};
  const auto scores = [](const Tensors& t) { return torch::matmul(t[0], t[1].transpose(-1, -2)) / 2.0; };
  // The softmax runs over the queries.
  check_untouched(
      attention, [&](const Tensors& t) { return torch::matmul(torch::softmax(scores(t), -2), t[2]); }, in);
  check_untouched(
      attention, [&](const Tensors& t) { return torch::matmul(torch::softmax(scores(t), 1), t[2]); }, in);
  // The keys are not transposed in their last two dimensions, or not at all.
  const Tensors cube{randn({4, 4, 4}), randn({4, 4, 4}), randn({4, 4, 4})};
  check_untouched(
      attention,
      [](const Tensors& t) {
        return torch::matmul(torch::softmax(torch::matmul(t[0], t[1].transpose(0, 1)) / 2.0, -1), t[2]);
      },
      cube);
  check_untouched(
      attention,
      [](const Tensors& t) { return torch::matmul(torch::softmax(torch::matmul(t[0], t[1]) / 2.0, -1), t[2]); }, cube);
  // The softmax computes in another precision.
  check_untouched(
      attention,
      [&](const Tensors& t) {
        return torch::matmul(torch::softmax(scores(t), -1, torch::kFloat).to(torch::kDouble), t[2]);
      },
      in);
  // Weights that are dropped at random, scaled by a tensor, masked by filling: the operator has no such argument here.
  const auto gm = traced(
      [&](const Tensors& t) { return torch::matmul(torch::dropout(torch::softmax(scores(t), -1), 0.5, true), t[2]); },
      in);
  CHECK(attention(*gm).to_string().empty());
  check_untouched(attention,
                  [](const Tensors& t) {
                    return torch::matmul(torch::softmax(torch::matmul(t[0], t[1].transpose(-1, -2)) / t[3], -1), t[2]);
                  },
                  {in[0], in[1], in[2], torch::rand({5}, torch::kDouble) + 1});
  // Who wants the weights too keeps them.
  check(attention, {"attention, divided: 1",
                    [&](const Tensors& t) {
                      const Tensor weights = torch::softmax(scores(t), -1);
                      return std::vector<Tensor>{torch::matmul(weights, t[2]), weights};
                    },
                    in});
}

// --- linears -------------------------------------------------------------------------------------------------------

TEST_CASE("linears that read the same value become one") {
  torch::manual_seed(10);
  const Tensor w1 = weight({4, 3}), w2 = weight({1, 3}), w3 = weight({5, 3}), b1 = weight({4}), b2 = weight({1}),
               b3 = weight({5});
  for (const auto& size : std::vector<std::vector<std::int64_t>>{{3}, {1, 3}, {0, 3}, {2, 5, 3}, {2, 1, 3, 3}}) {
    CAPTURE(size);
    check(merge_linear,
          {"merge linears: 1",
           [&](const Tensors& t) {
             return std::vector<Tensor>{F::linear(t[0], w1, b1), F::linear(t[0], w2, b2), F::linear(t[0], w3, b3)};
           },
           {randn(size)},
           {w1, w2, w3, b1, b2, b3}});
    // Views of the parts, as attention takes them.
    check(merge_linear,
          {"merge linears: 1",
           [&](const Tensors& t) {
             const Tensor q = F::linear(t[0], w1), k = F::linear(t[0], w1.detach() * 1);
             return q.view({-1, 2, 2}).transpose(1, 2) * k.view({-1, 2, 2}).permute({0, 2, 1}).contiguous();
           },
           {randn(size)},
           {w1}});
  }
  // Through a residual connection and a chain: what is computed late may be wanted early by nobody.
  check(merge_linear, {"merge linears: 1",
                       [&](const Tensors& t) {
                         const Tensor first = torch::relu(F::linear(t[0], w1, b1));
                         return first.sum() + F::linear(t[0] * 1 + 0 * first.sum(), w3, b3).sum() +
                                F::linear(t[0], w3, b3).sum();
                       },
                       {randn({2, 3})},
                       {w1, w3, b1, b3}});
  // One weight twice.
  check(merge_linear, {"merge linears: 1",
                       [&](const Tensors& t) { return F::linear(t[0], w1) * F::linear(t[0], w1) + 1; },
                       {randn({2, 3})},
                       {w1}});
}

TEST_CASE("linears stay apart: with and without bias, over changing inputs, with weights that are no constants") {
  torch::manual_seed(11);
  const Tensor w1 = weight({4, 3}), w2 = weight({4, 3}), b1 = weight({4}), b2 = weight({4});
  const Tensors in{randn({2, 3})};
  check_untouched(merge_linear, [&](const Tensors& t) { return F::linear(t[0], w1, b1) + F::linear(t[0], w2); }, in,
                  {w1, w2, b1});
  check_untouched(merge_linear, [&](const Tensors& t) { return F::linear(t[0], w1) + F::linear(t[1], w2); },
                  {randn({2, 3}), randn({2, 3})}, {w1});
  check_untouched(merge_linear, [&](const Tensors& t) { return F::linear(t[0], w1) + F::linear(t[0], t[1]); },
                  {randn({2, 3}), randn({4, 3})}, {w1});
  check_untouched(merge_linear,
                  [&](const Tensors& t) {
                    Tensor x = t[0] + 0;
                    const Tensor y = F::linear(x, w1);
                    x.add_(1);
                    return y + F::linear(x, w2);
                  },
                  in, {});
  // A view of the input is written to.
  check_untouched(merge_linear,
                  [&](const Tensors& t) {
                    Tensor x = t[0] + 0;
                    const Tensor y = F::linear(x, w1);
                    x.select(0, 1).zero_();
                    return y + F::linear(x, w2);
                  },
                  in, {});
}

TEST_CASE("a merged linear whose parts are written to gives the same results and gradients") {
  torch::manual_seed(12);
  const Tensor w1 = weight({4, 3}), w2 = weight({4, 3}), b1 = weight({4}), b2 = weight({4});
  // relu_ on the result of a linear is what ReLU(inplace) is.
  const Forward f = [&](const Tensors& t) {
    Tensor y = F::linear(t[0], w1, b1), z = F::linear(t[0], w2, b2);
    y.relu_();
    return y * z;
  };
  const Tensors in{randn({2, 3})};
  const auto gm = traced(f, in);
  merge_linear(*gm);
  {
    const torch::NoGradGuard no_grad;
    CHECK(relative_difference(gm->run(boxed(in)), f(in)) < 1e-12);
  }
  const Tensors expected = gradients_for(f, in, {w1, w2, b1, b2});
  const Tensors given = gradients_for([&](const Tensors& t) { return gm->run(boxed(t)); }, in, {w1, w2, b1, b2});
  for (std::size_t i = 0; i < expected.size(); ++i) CHECK(relative_difference(given[i], expected[i]) < 1e-12);
}

// --- back to what was written --------------------------------------------------------------------------------------

TEST_CASE("what LibTorch takes apart is put together again, exactly") {
  torch::manual_seed(13);
  const Tensor w = weight({4, 3}), b = weight({4}), narrow = weight({1, 3}), one_bias = weight({1});
  const auto sample = [&](const std::string& rule, const Forward& f, const Tensors& in, const Tensors& weights = {}) {
    Sample s{rule, f, in, weights, 1e-14};
    s.options.reroll_operators = false;
    check(reroll, s);
  };
  sample("linear, 2-D: 1", [&](const Tensors& t) { return F::linear(t[0], w, b); }, {randn({2, 3})}, {w, b});
  sample("linear, 2-D: 1", [&](const Tensors& t) { return F::linear(t[0], w, b); }, {randn({0, 3})}, {w, b});
  sample("linear, 2-D: 1", [&](const Tensors& t) { return F::linear(t[0], narrow, one_bias); }, {randn({5, 3})},
         {narrow, one_bias});
  sample("linear, n-D: 1", [&](const Tensors& t) { return F::linear(t[0], w, b); }, {randn({2, 5, 3})}, {w, b});
  sample("linear, n-D: 1", [&](const Tensors& t) { return F::linear(t[0], w, b); }, {randn({3})}, {w, b});
  sample("linear without bias: 1", [&](const Tensors& t) { return F::linear(t[0], w); }, {randn({2, 1, 3})}, {w});
  sample("linear without bias: 1", [&](const Tensors& t) { return torch::mm(t[0], w.t()); }, {randn({2, 3})}, {w});
  sample("linear, out of place: 1", [&](const Tensors& t) { return torch::matmul(t[0], w.t()) + b; }, {randn({2, 3})},
         {w, b});
  sample("linear, out of place: 1", [&](const Tensors& t) { return b + torch::matmul(t[0], w.t()); }, {randn({2, 3})},
         {w, b});
  // What is added is no bias: another row for every input, one number for all outputs, a number for every input.
  sample("linear without bias: 1", [&](const Tensors& t) { return torch::matmul(t[0], w.t()) + t[1]; },
         {randn({2, 3}), randn({2, 4})}, {w});
  sample("linear without bias: 1", [&](const Tensors& t) { return torch::matmul(t[0], w.t()) + one_bias; },
         {randn({2, 3})}, {w, one_bias});
  sample("linear without bias: 1", [&](const Tensors& t) { return torch::matmul(t[0], w.t()) + t[1]; },
         {randn({4, 3}), randn({4, 1})}, {w});
  sample("linear without bias: 1", [&](const Tensors& t) { return torch::add(torch::matmul(t[0], w.t()), b, 2); },
         {randn({2, 3})}, {w, b});
  sample("", [&](const Tensors& t) { return torch::addmm(b, t[0], w.t(), 0.5, 2); }, {randn({2, 3})}, {w, b});
  sample("", [&](const Tensors& t) { return torch::addmm(t[1], t[0], w.t()); }, {randn({2, 3}), randn({2, 4})}, {w});
  sample("", [&](const Tensors& t) { return torch::matmul(t[0], w); }, {randn({2, 4})}, {w});
  // The transpose of a vector is the vector.
  sample("linear without bias: 1", [&](const Tensors& t) { return torch::matmul(t[0], t[1].t()); },
         {randn({2, 3}), randn({3})});
  sample("number minus tensor: 1", [&](const Tensors& t) { return 2.5 - t[0]; }, {randn({2, 3})});
  sample("number minus tensor: 1", [&](const Tensors& t) { return 2 - t[0]; }, {randn({3, 4}).t()});
  sample("", [&](const Tensors& t) { return true - t[0]; }, {randn({2, 3})});
  sample("", [&](const Tensors& t) { return 2 - t[0]; }, {torch::arange(5)});
  sample("", [&](const Tensors& t) { return 2.5 - t[0]; }, {torch::arange(5)});
}

TEST_CASE("a linear whose product is wanted too stays taken apart where it has to") {
  torch::manual_seed(14);
  const Tensor w = weight({4, 3}), b = weight({4});
  for (const bool in_place : {false, true}) {
    const Forward f = [&](const Tensors& t) {
      Tensor product = torch::matmul(t[0], w.t());
      const Tensor before = product * 1;
      const Tensor sum = in_place ? product.add_(b) : product + b;
      return std::vector<Tensor>{product, before, sum};
    };
    const Tensors in{randn({2, 5, 3})};
    const auto gm = traced(f, in);
    const torch::NoGradGuard no_grad;
    CHECK(relative_difference(gm->run(boxed(in)), f(in)) < 1e-14);
  }
}

// --- constants -----------------------------------------------------------------------------------------------------

TEST_CASE("what follows from constants alone is computed once; what is random, written to or an input is not") {
  torch::manual_seed(15);
  struct Constants : torch::nn::Module {
    Tensor w = register_parameter("w", torch::randn({3, 3}, torch::kDouble));
    Tensor counter = register_buffer("counter", torch::zeros({3}, torch::kDouble));
    Tensor forward(Tensor x) {
      counter.add_(1);
      const Tensor scale = (w * 2).exp().sum(0);
      const auto parts = torch::split(w + 1, {1, 2}, 0);
      return x * scale + parts[1].sum(0) + counter * 2 + torch::rand({3}, x.options()) * w.sum();
    }
  } module;
  const Tensor x = randn({2, 3});
  const auto gm = trace(module, {x});
  const std::size_t before = gm->graph().size();
  CHECK(fold_constants(*gm) == 3);
  CHECK(gm->graph().size() < before);
  CHECK(count_of(gm->graph(), ops::rand) == 1);
  CHECK(count_of(gm->graph(), ops::exp) == 0);
  const double counted = module.counter[0].item<double>();
  for (int i = 0; i < 2; ++i) {
    torch::manual_seed(20 + i);
    const Tensor given = (*gm)(x);
    module.counter.sub_(1);  // shared with the graph
    torch::manual_seed(20 + i);
    CHECK(relative_difference(given, module.forward(x)) < 1e-13);
  }
  CHECK(module.counter[0].item<double>() == counted + 2);
  CHECK(fold_constants(*gm) == 0);
}

TEST_CASE("what a called module writes is not folded, until it does not train") {
  const torch::nn::BatchNorm1d bn(3);
  Graph graph;
  Node* in = graph.placeholder("x");
  Node* normed = graph.call_module("bn", {in});
  Node* scale = graph.call_function(ops::rsqrt, {graph.get_attr("bn.running_var")});
  graph.output(graph.call_function(ops::mul_Tensor, {normed, scale}));
  GraphModule gm({{"bn", bn.ptr()}}, graph);
  CHECK(fold_constants(gm) == 0);
  const Tensor x = torch::randn({4, 3}) * 3;
  for (int i = 0; i < 2; ++i) {
    const Tensor given = gm(x);
    const Tensor centred = x - x.mean(0);
    const Tensor expected = centred * (x.var(0, false) + 1e-5).rsqrt() * bn->running_var.rsqrt();
    CHECK(relative_difference(given, expected) < 1e-5);
  }
  gm.eval();
  CHECK(fold_constants(gm) == 1);
}

TEST_CASE("a size of a weight is no tensor, and stays; what is folded in inference mode can be trained with") {
  Graph graph;
  Node *in = graph.placeholder("x"), *weight = graph.get_attr("weight");
  Node* sizes = graph.call_function(*find_operator("prim::sizes"), {weight});
  Node* columns = graph.call_function(*find_operator("operator::getitem"), {sizes, 1});
  Node* rows = graph.call_function(ops::view, {in, Argument::list({-1, columns})});
  Node* scale = graph.call_function(ops::exp, {weight});
  graph.output(graph.call_function(ops::matmul, {rows, scale}));
  const Tensor w = torch::randn({3, 3}), x = torch::randn({2, 6}).requires_grad_();
  GraphModule gm({{"weight", w}}, graph);
  {
    const c10::InferenceMode on;
    CHECK(fold_constants(gm) == 1);
  }
  const Tensor y = gm(x);
  CHECK(same(y, x.view({-1, 3}).matmul(w.exp())));
  y.sum().backward();
  CHECK(x.grad().defined());
}

}  // namespace

// --- where memory and shapes matter --------------------------------------------------------------------------------

namespace {
/// Optimised for inference, the function gives what it gives, twice.
template <class F>
std::string optimised_alike(F f, std::vector<Tensor> inputs) {
  for (Tensor& input : inputs) input = input.to(torch::kDouble);
  const auto gm = trace(f, inputs);
  std::string fired;
  for (const auto& stage : optimize_for_inference(*gm).stages) fired += stage.fired + ";";
  for (int i = 0; i < 2; ++i) {
    const Tensor expected = f(inputs[0], inputs[1]);
    const Tensor result = gm->run({inputs.begin(), inputs.end()}).toTensor();
    CHECK(relative_difference(result, expected) <= 1e-12);
    result.zero_();  // whoever gets a result may write to it
  }
  return fired;
}
}  // namespace

TEST_CASE("attention whose result is seen through its memory is left alone, or its views become reshapes") {
  const auto attention = [](const Tensor& x, const Tensor& y) {
    const Tensor q = x.transpose(1, 2), k = y.transpose(1, 2);
    return torch::matmul(torch::softmax(torch::matmul(q, k.transpose(-2, -1)) / 2., -1), k);
  };
  const std::vector<Tensor> in = {randn({2, 5, 2, 8}), randn({2, 5, 2, 8})};
  const auto fired = [&](auto after) {
    return optimised_alike([&](Tensor x, Tensor y) { return after(attention(x, y)); }, in).find("attention") !=
           std::string::npos;
  };
  CHECK(fired([](Tensor o) { return o.transpose(1, 2).contiguous().view({2, 5, 16}); }));
  CHECK(fired([](Tensor o) { return o.view({-1}); }));
  CHECK(fired([](Tensor o) { return o.relu().view({-1}); }));
  CHECK(fired([](Tensor o) { return (o.clone() + 1).view({-1}); }));
  CHECK(fired([](Tensor o) {  // contiguous has something to do then
    const Tensor laid_out = o.relu().contiguous();
    return laid_out.view({-1}) + laid_out.view({160});
  }));
  CHECK_FALSE(fired([](Tensor o) {
    const Tensor y = o.relu();
    return y.view({-1}).mul_(2), y;
  }));
  CHECK_FALSE(fired([](Tensor o) { return o.reshape({-1}).mul_(2), o; }));
  CHECK_FALSE(fired([](Tensor o) { return o.transpose(1, 2).contiguous().mul_(2), o; }));
  CHECK_FALSE(fired([](Tensor o) { return o.as_strided({4, 4}, {4, 1}); }));
}

TEST_CASE("attention runs its softmax over the keys, and takes matrices") {
  const auto over = [](std::int64_t dim) {
    return [dim](Tensor q, Tensor k) {
      return torch::matmul(torch::softmax(torch::matmul(q, k.transpose(-1, -2)) / 2., dim), k);
    };
  };
  CHECK(optimised_alike(over(2), {randn({2, 5, 8}), randn({2, 2, 5, 8})}) == ";;;;;");
  CHECK(optimised_alike(over(-1), {randn({8}), randn({5, 8})}) == ";;;;;");
}

TEST_CASE("merged linears are not seen by their strides; view_as becomes reshape_as") {
  struct Pair : torch::nn::Module {
    torch::nn::Linear a = register_module("a", torch::nn::Linear(3, 4)),
                      b = register_module("b", torch::nn::Linear(3, 4));
    bool strided = false;
    Tensor forward(Tensor x) {
      const Tensor q = a(x), k = b(x);
      if (strided) return q.as_strided({2, 6}, {6, 1}) + k.as_strided({2, 6}, {6, 1});
      return q.view_as(k) + k.view({-1}).view({3, 4});
    }
  };
  for (bool strided : {false, true}) {
    Pair pair;
    pair.strided = strided;
    const Tensor x = torch::randn({3, 3});
    const auto gm = trace(pair, {x});
    CHECK((optimize_for_inference(*gm).stages[3].fired == "merge linears: 1") == !strided);
    CHECK(relative_difference((*gm)(x), pair.forward(x)) <= 1e-6);
  }
}

TEST_CASE("a convolution without a batch puts its channels where a batch norm does not look for them") {
  struct Net : torch::nn::Module {
    torch::nn::Conv1d conv = register_module("conv", torch::nn::Conv1d(3, 4, 3));
    torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(4));
    Tensor forward(Tensor x) { return norm(conv(x)); }
  } net;
  torch::nn::init::uniform_(net.norm->running_mean);
  net.eval();
  for (const Tensor& x : {torch::randn({3, 6}), torch::randn({2, 3, 6})}) {
    const auto gm = trace(net, {x});
    CHECK(optimize_for_inference(*gm).stages[0].fired.empty() == (x.dim() == 2));
    CHECK(relative_difference((*gm)(x), net.forward(x)) <= 1e-5);
  }
}

TEST_CASE("what is written to later is not folded, by whatever name; folded results are handed out as copies") {
  struct Net : torch::nn::Module {
    Tensor h = register_buffer("h", torch::randn({8})), same_memory = register_buffer("same_memory", h.view({2, 4}));
    int way = 0;
    Tensor forward(Tensor x) {
      if (way == 0) return h.clone().add_(x.sum());
      if (way == 1) return h.add_(x.sum() * 0 + 1), same_memory * 2 + x.sum();
      return h * 2;
    }
  };
  for (int way = 0; way < 3; ++way) {
    Net net;
    net.way = way;
    const Tensor start = net.h.clone(), x = torch::randn({3});
    const auto gm = trace(net, {x});
    optimize_for_inference(*gm);
    net.h.copy_(start);
    const Tensor first = (*gm)(x).clone(), second = (*gm)(x).zero_().clone(), third = (*gm)(x).clone();
    net.h.copy_(start);
    CHECK(same(first, net.forward(x)));
    net.forward(x);
    CHECK(same(third, net.forward(x)));
  }
}

TEST_CASE("a module that a rule names by its class, and does not match, is an operator for the others") {
  using namespace fxx::pattern;
  struct NetImpl : torch::nn::Module {
    torch::nn::Linear first{4, 4}, second{4, 4};
    NetImpl() {
      register_module("first", first);
      register_module("second", second);
    }
    Tensor forward(Tensor x) { return second(first(x).sigmoid()); }
  };
  NetImpl net;
  const Tensor input = torch::randn({2, 4});
  const auto fresh = [&] { return trace(net, [&](Tensor in) { return net.forward(in); }, {input}); };
  constexpr auto op = ruleset(rule<"by operator">(linear(x, w, b) >> neg(x)));
  constexpr auto by_class = ruleset(rule<"by class">(module<"torch::nn::Linear">(sigmoid(x)) >> tanh(x)));
  constexpr auto declined =
      ruleset(rule<"declined">(module<"torch::nn::Linear">(x) >> tanh(x), [](const Match&) { return false; }));
  const auto both = fresh();
  CHECK((op + by_class).apply(*both).to_string() == "by operator: 1, by class: 1");
  CHECK(same((*both)(input), torch::tanh(-input)));
  const auto operators = fresh();
  CHECK((declined + op).apply(*operators).to_string() == "by operator: 2");
  CHECK(same((*operators)(input), -torch::sigmoid(-input)));
  // Rules that undo each other, one by the module and one by its operator, end at the limit all the same.
  const auto to_abs = [](const Match& m) -> Argument {
    return m.graph().call_module(m.root()->target(), {m.call(ops::abs, {m[x]})});
  };
  const auto undone = ruleset(rule<"to abs">(module<"torch::nn::Linear">(sigmoid(x)) >> to_abs),
                              rule<"to sigmoid">(linear(abs(x), w, b) >> linear(sigmoid(x), w, b)));
  const auto endless = undone.apply(*fresh(), {.limit = 21});
  CHECK(endless.stopped_at_limit);
  CHECK(endless.rewrites == 21);
  CHECK(undone.apply(*fresh()).stopped_at_limit);
  const auto kept = fresh();  // what no rule wants stays a call of the module
  CHECK(declined.apply(*kept).rewrites == 0);
  CHECK(kept->graph().find_nodes(Opcode::call_module).size() == 2);
}

TEST_CASE("rules ask for the options of modules of torch::nn, and a report tells which came nearest") {
  using namespace fxx::pattern;
  struct NetImpl : torch::nn::Module {
    fxx::nn::Conv2d first{torch::nn::Conv2dOptions(1, 1, 3).stride(2)},
        second{torch::nn::Conv2dOptions(1, 1, 1).stride({1, 2}).bias(false)};
    NetImpl() {
      register_module("first", first);
      register_module("second", second);
    }
    Proxy forward(const Proxy& x) { return second(first(x)); }
  };
  constexpr auto conv = module<"torch::nn::Conv2d">(x);
  constexpr auto rules = ruleset(rule<"even">(conv.where(option_is<"stride", "2">) >> neg(x)),
                                 rule<"uneven">(conv.where(option_is<"stride", "{1, 2}">, option_is<"bias", "false">) >>
                                                abs(x)),
                                 rule<"none">(conv.where(option_is<"stride", "3">) >> exp(x)));
  NetImpl net;
  const auto gm = symbolic_trace(net);
  const auto before = rules.apply(*gm, {.limit = 1, .near_misses = true});
  CHECK(before.stopped_at_limit);
  CHECK(before.near_misses.empty());
  const auto report = rules.apply(*gm, {.near_misses = true});
  CHECK(before.rewrites + report.rewrites == 2);
  const Tensor input = torch::randn({1, 1, 7, 7});
  CHECK(same((*gm)(input), torch::abs(-input)));
  REQUIRE(report.near_misses.size() == 2);
  CHECK(report.near_misses[1].why == "rule 'none' does not match: no node is a call of a module torch::nn::Conv2d");
  const auto again = symbolic_trace(net);
  constexpr auto three = ruleset(rule<"none">(conv.where(option_is<"stride", "3">) >> exp(x)));
  const auto missed = three.apply(*again, {.near_misses = true});
  REQUIRE(missed.near_misses.size() == 1);
  CHECK(missed.near_misses[0].node == "first");
  CHECK(missed.near_misses[0].why.ends_with("which is not option_is<stride, 3>"));
}
