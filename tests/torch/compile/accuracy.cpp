// Specialised modules: sums of very many products beside LibTorch, both in float32, by their distance from float64.
//
// With FXX_ERRORS set the program says how much of five times LibTorch's error each of them reached.
#include "kernels/errors.hpp"
#include "torch/compile/compiled.hpp"

using namespace fxx;
using namespace fxx::test;
namespace F = torch::nn::functional;

namespace {
/// Results by their names.
struct Named {
  std::string name;
  Tensor result;
};
using Sums = std::function<std::vector<Named>(const Tensors&)>;

/// Is each result within five times the error that LibTorch's has, relative to the largest value? Where that has next
/// to none, within what one rounding may leave.
void check_sums(Net& net, const Sums& sums, const Tensors& in) {
  std::vector<std::string> names;
  net.function = [&](const Tensors& given) {
    names.clear();
    Tensors results;
    for (Named& one : sums(given)) names.push_back(std::move(one.name)), results.push_back(std::move(one.result));
    return all_of(results);
  };
  const torch::NoGradGuard no_grad;
  const Tensors expected = in_double(net, in), eager = tensors_of(net.function(in));
  for (const Accuracy accuracy : {Accuracy::standard, Accuracy::exact}) {
    const auto compiled = fxx::compile(*traced_net(net, in), in,
                                       {.accuracy = accuracy, .tolerance = infinite, .cache_folder = cache()});
    const Tensors given = tensors_of(compiled->run(boxed(in)));
    REQUIRE(given.size() == expected.size());
    for (std::size_t i = 0; i < given.size(); ++i) {
      const std::string name = names[i] + (accuracy == Accuracy::exact ? ", exact" : "");
      CAPTURE(name);
      const auto error = [&](const Tensor& of) { return relative_difference(of.to(torch::kDouble), expected[i]); };
      CHECK(within(name.c_str(), error(given[i]), std::max(5 * error(eager[i]), 1.2e-7)));
    }
  }
  net.function = {};
}
/// Weights of a layer, with signs and without.
struct Weights {
  std::string name;
  Tensor of;
};
std::vector<Weights> both(Net& net, at::IntArrayRef sizes) {
  const Tensor with = net.parameter(sizes, 0.05), without = net.constant(torch::rand(sizes) * 0.05);
  return {{"", with}, {", weights without signs", without}};
}
}  // namespace

TEST_CASE("standard: 3 x 3 convolutions stay within five times the error of LibTorch in float32") {
  int winograd = 0;
  for (const std::int64_t channels : {64, 128, 256})
    for (const int depth : {1, 3}) {
      CAPTURE(channels);
      CAPTURE(depth);
      torch::manual_seed(static_cast<std::uint64_t>(channels + depth));
      auto net = std::make_shared<Net>();
      Tensors weights;
      for (int i = 0; i < depth; ++i)
        weights.push_back(
            net->parameter({channels, channels, 3, 3}, 1 / std::sqrt(4.5 * static_cast<double>(channels))));
      net->function = [=](const Tensors& in) {
        Tensor x = in[0];
        for (const Tensor& w : weights) x = torch::conv2d(x, w, {}, 1, 1).relu();
        return c10::IValue(x);
      };
      const Tensors in{depth == 1 ? torch::rand({1, channels, 28, 28}) : torch::randn({1, channels, 14, 14})};
      const torch::NoGradGuard no_grad;
      const Tensor exact = in_double(*net, in).at(0), eager = tensors_of(net->function(in)).at(0);
      const auto compiled = fxx::compile(*traced_net(*net, in), in, {.tolerance = infinite, .cache_folder = cache()});
      winograd += compiled->kernel_plan().to_string().find("winograd") != std::string::npos;
      CHECK(relative_difference(compiled->run(boxed(in)).toTensor().to(torch::kDouble), exact) <=
            5 * relative_difference(eager.to(torch::kDouble), exact));
    }
  CHECK(winograd > 0);
}

TEST_CASE("standard: a few convolutions that stand alone are computed in tiles of 2, six and eight in tiles of 4") {
  const torch::NoGradGuard no_grad;
  auto net = std::make_shared<Net>();
  Tensors weights;
  for (int i = 0; i < 8; ++i) weights.push_back(net->parameter({64, 64, 3, 3}, 1 / std::sqrt(9 * 64.0)));
  const auto compiled_of = [&](std::size_t depth, Accuracy accuracy, const Tensors& in) {
    net->function = [=](const Tensors& given) {
      Tensor x = given[0];
      for (std::size_t i = 0; i < depth; ++i) x = torch::conv2d(x, weights[i], {}, 1, 1);
      return c10::IValue(x);
    };
    return fxx::compile(*traced_net(*net, in), in,
                        {.accuracy = accuracy, .tolerance = infinite, .cache_folder = cache()});
  };
  const auto ways = [](const CompiledModule& compiled) {
    const std::string plan = compiled.kernel_plan().to_string();
    const auto has = [&](const char* words) { return plan.find(words) != std::string::npos; };
    return std::pair(has("winograd 2 x 2"), has("winograd 4 x 4"));
  };
  // Numbers with signs, of which tiles of 4 come to more than five times for one input in some hundreds where they stand
  // alone. What docs/compile.md says: tiles of 2 have about LibTorch's error, at most 1.3 times; tiles of 4 have 2.5 to
  // 3.5 times, at most 4.7.
  struct Claim {
    std::size_t depth;
    bool tiles_of_2;
    double worst, mean;
  };
  torch::manual_seed(8);
  for (const Claim& claim : {Claim{1, true, 1.5, 1.2}, {2, true, 1.5, 1.2}, {3, true, 1.5, 1.2}, {6, false, 5, 3.5},
                             {8, false, 5, 3.5}}) {
    CAPTURE(claim.depth);
    const auto compiled = compiled_of(claim.depth, Accuracy::standard, {torch::randn({1, 64, 14, 14})});
    CHECK(ways(*compiled) == std::pair(claim.tiles_of_2, !claim.tiles_of_2));
    double worst = 0, sum = 0;
    constexpr int inputs = 40;
    for (int i = 0; i < inputs; ++i) {
      const Tensors in{torch::randn({1, 64, 14, 14})};
      const Tensor exact = in_double(*net, in).at(0), eager = tensors_of(net->function(in)).at(0);
      const double times = relative_difference(compiled->run(boxed(in)).toTensor().to(torch::kDouble), exact) /
                           relative_difference(eager.to(torch::kDouble), exact);
      worst = std::max(worst, times);
      sum += times;
    }
    MESSAGE(claim.depth, " convolutions: ", sum / inputs, " times LibTorch's error, at most ", worst);
    CHECK(worst <= claim.worst);
    CHECK(sum / inputs <= claim.mean);
  }
  const Tensors in{torch::randn({1, 64, 14, 14})};
  CHECK(ways(*compiled_of(5, Accuracy::standard, in)) == std::pair(true, false));
  CHECK(ways(*compiled_of(6, Accuracy::standard, in)) == std::pair(false, true));
  CHECK(ways(*compiled_of(1, Accuracy::fast, in)) == std::pair(false, true));
}

TEST_CASE("linear layers of deep inputs stay within five times the error of LibTorch") {
  for (const std::int64_t rows : {1, 4, 40}) {
    CAPTURE(rows);
    torch::manual_seed(static_cast<std::uint64_t>(rows));
    Net net;
    std::vector<std::vector<Weights>> weights;
    Tensors in;
    for (const std::int64_t depth : {256, 384, 512, 768, 2048, 4096, 25088}) {
      weights.push_back(both(net, {96, depth}));
      in.push_back(torch::randn({rows, depth}).relu());
    }
    check_sums(net, [=](const Tensors& given) {
      std::vector<Named> sums;
      for (std::size_t i = 0; i < given.size(); ++i)
        for (const Weights& w : weights[i])
          sums.push_back(
              {c10::str("linear, ", rows, " rows of ", given[i].size(1), w.name), torch::linear(given[i], w.of)});
      return sums;
    }, in);
  }
}

TEST_CASE("products of matrices and attention over many keys stay within five times the error of LibTorch") {
  torch::manual_seed(3);
  Net net;
  const auto some = [](at::IntArrayRef sizes) { return torch::randn(sizes).relu(); };
  check_sums(net, [](const Tensors& in) {
    const Tensor &row = in[0], &few = in[1], &many = in[2], &deep = in[3];
    std::vector<Named> sums;
    for (const Tensor& a : {row, few, many}) {
      sums.push_back({c10::str("matmul, ", a.size(0), " rows of 8192"), a.matmul(deep)});
      sums.push_back({c10::str("matmul, ", a.size(0), " rows of 8192 by columns"), a.matmul(a.t())});
    }
    for (const Tensor& q : {in[4], in[5]})
      for (const std::int64_t keys : {200, 1000, 4096})
        sums.push_back({c10::str("attention, ", q.size(2), " queries, ", keys, " keys"),
                        at::scaled_dot_product_attention(q, in[6].narrow(2, 0, keys), in[7].narrow(2, 0, keys))});
    sums.push_back({"attention of large heads", at::scaled_dot_product_attention(in[8], in[8], in[8])});
    return sums;
  }, {some({1, 8192}), some({5, 8192}), some({40, 8192}), torch::rand({8192, 48}), some({1, 2, 1, 64}),
      some({1, 2, 30, 64}), some({1, 2, 4096, 64}), torch::rand({1, 2, 4096, 64}), some({1, 1, 40, 640}) * 0.2});
}

TEST_CASE("convolutions of many channels stay within five times the error of LibTorch") {
  torch::manual_seed(4);
  Net net;
  const auto strided = both(net, {48, 512, 3, 3}), pointwise = both(net, {48, 2048, 1, 1}),
             grouped = both(net, {64, 512, 3, 3}), few = both(net, {2, 512, 3, 3}), dilated = both(net, {32, 96, 3, 3}),
             transposed = both(net, {512, 32, 3, 3}), line = both(net, {32, 512, 3}), shared = both(net, {32, 8, 7, 7}),
             single = both(net, {32, 1, 21, 21}), plain = both(net, {64, 512, 3, 3});
  const auto some = [](at::IntArrayRef sizes) { return torch::randn(sizes).relu(); };
  check_sums(net, [=](const Tensors& in) {
    const Tensor& x = in[0];
    std::vector<Named> sums;
    for (std::size_t i = 0; i < 2; ++i) {
      const auto add = [&](const char* name, const Tensor& result) {
        sums.push_back({"convolution, " + (name + strided[i].name), result});
      };
      add("3 x 3 of 512", torch::conv2d(x, plain[i].of, {}, 1, 1));
      add("3 x 3, stride 2 of 512", torch::conv2d(x, strided[i].of, {}, 2, 1));
      add("1 x 1 of 2048", torch::conv2d(in[1], pointwise[i].of));
      add("groups of 512", torch::conv2d(in[2], grouped[i].of, {}, 2, 1, 1, 2));
      add("two outputs", torch::conv2d(x, few[i].of, {}, 1, 1));
      add("dilated, 96", torch::conv2d(in[3], dilated[i].of, {}, 1, 2, 2));
      add("transposed, 512", torch::conv_transpose2d(x, transposed[i].of, {}, 2, 1));
      add("one dimension of 512", torch::conv1d(in[4], line[i].of, {}, 2, 1));
      add("groups of 8, 7 x 7", torch::conv2d(in[5], shared[i].of, {}, 1, 3, 1, 4));
      add("single channels, 21 x 21", torch::conv2d(in[6], single[i].of, {}, 1, 10, 1, 32));
    }
    return sums;
  }, {some({1, 512, 8, 8}), some({1, 2048, 7, 7}), some({1, 1024, 7, 7}), some({1, 96, 10, 10}), some({1, 512, 30}),
      some({1, 32, 12, 12}), some({1, 32, 24, 24})});
}

TEST_CASE("sums, means, norms, pools and recurrent states stay within five times the error of LibTorch") {
  torch::manual_seed(5);
  Net net;
  auto lstm = net.module(torch::nn::LSTM(torch::nn::LSTMOptions(700, 600).batch_first(true)));
  const Tensor table = net.parameter({50, 40});
  check_sums(net, [=](const Tensors& in) mutable {
    const Tensor &x = in[0], &image = in[1];
    return std::vector<Named>{{"sum of rows", x.sum(1)},
                              {"sum of columns", x.t().contiguous().sum(0)},
                              {"sum of all", x.sum()},
                              {"mean", x.mean(1)},
                              {"variance", x.var(1)},
                              {"norm", x.norm(2, 1)},
                              {"cumsum", x.cumsum(1)},
                              {"softmax", x.softmax(1)},
                              {"logsumexp", x.logsumexp(1)},
                              {"layer norm", torch::layer_norm(x, {x.size(1)})},
                              {"group norm", torch::group_norm(image, 2)},
                              {"mean of an image", image.mean({2, 3})},
                              {"average pool", torch::avg_pool2d(image, {40, 40}, {20, 20})},
                              {"bilinear", at::upsample_bilinear2d(image, {11, 11}, false)},
                              {"lstm", std::get<0>(lstm->forward(in[2]))}};
  }, {torch::rand({6, 20000}), torch::rand({1, 8, 80, 80}), torch::randn({2, 3, 700}).relu()});
}

TEST_CASE("each operator rounds what it gives: products of equals cancel, however they are computed and joined") {
  torch::manual_seed(85);
  auto net = std::make_shared<Net>();
  const Tensor w = net->parameter({64}), scale = net->parameter({64});
  net->function = [=](const Tensors& in) {
    const Tensor &x = in[0], &y = in[1];  // equal, in different places
    const auto twice = [&](const auto& of) { return of(x) - of(y); };
    return all_of({(x * x - y * y).sqrt(), x * y - y * x, -(x * y) + x * y, torch::hypot(x, y) - torch::hypot(y, x),
                   twice([&](const Tensor& t) { return t * 3.1 + 1; }),
                   twice([&](const Tensor& t) { return torch::gelu(t) * w + t; }),
                   twice([&](const Tensor& t) { return torch::softmax(t, -1) + w; }),
                   twice([&](const Tensor& t) { return torch::layer_norm(t, {64}) - w; }),
                   twice([&](const Tensor& t) { return torch::hardsigmoid(t * w) * scale + w; }),
                   twice([&](const Tensor& t) { return (t * w).mean(0) - w; }), torch::square(x) - y.pow(2),
                   torch::where(x > 0, x * w, w) - torch::where(y > 0, y * w, w)});
  };
  const Tensor x = torch::randn({8, 64});
  for (const Accuracy accuracy : {Accuracy::exact, Accuracy::standard}) {
    const auto compiled = fxx::compile(*traced_net(*net, {x, x.clone()}), {x, x.clone()},
                                       {.accuracy = accuracy, .cache_folder = cache()});
    const torch::NoGradGuard no_grad;
    CHECK(compiled->max_error() == 0);
    for (const Tensor& difference : tensors_of(compiled->run({x, x.clone()}))) CHECK(difference.abs().max().item<float>() == 0);
  }
}

TEST_CASE("functions of elements stay within five times the error of LibTorch, over all that they are given") {
  Net net;
  const Tensor x = torch::linspace(-4, 4, 20001), positive = torch::linspace(0.001, 40, 20001);
  check_sums(net,
             [](const Tensors& in) {
               const Tensor &v = in[0], &p = in[1];
               return std::vector<Named>{
                   {"erf", v.erf()},         {"erfc", v.erfc()},       {"erfc of no less than zero", v.abs().erfc()},
                   {"exp", v.exp()},         {"expm1", v.expm1()},     {"sigmoid", v.sigmoid()},
                   {"tanh", v.tanh()},       {"sin", (v * 5).sin()},   {"cos", (v * 5).cos()},
                   {"atan", v.atan()},       {"gelu", torch::gelu(v)}, {"gelu by tanh", torch::gelu(v, "tanh")},
                   {"silu", torch::silu(v)}, {"mish", torch::mish(v)}, {"softplus", F::softplus(v)},
                   {"log", p.log()},         {"log1p", p.log1p()},     {"log2", p.log2()},
                   {"rsqrt", p.rsqrt()},     {"pow", p.pow(1.7)}};
             },
             {x, positive});
}
