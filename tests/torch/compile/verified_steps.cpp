// Verification of compiled modules, a step at a time: models that it has to accept, and wrong kernels that it has to
// refuse.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "fxx/torch/quantise.hpp"
#include "torch/compile/compiled.hpp"

using namespace fxx;
using namespace fxx::test;

namespace {

std::shared_ptr<CompiledModule> compiled(const Forward& function, const Tensors& inputs, CompileOptions options = {}) {
  options.cache_folder = cache();
  if (options.threads == 0) options.threads = 1;
  return fxx::compile(*traced_net(*net_of(function), inputs), inputs, options);
}

Tensor enlarged(const Tensor& x, std::vector<std::int64_t> sizes) {
  return torch::upsample_bilinear2d(x, sizes, false, {}, {});
}

}  // namespace

TEST_CASE("examples of zeros and of constants, whose variance cancels, are accepted") {
  torch::manual_seed(1);
  torch::nn::Linear layer(24, 24);
  torch::nn::LayerNorm norm(torch::nn::LayerNormOptions({24}));
  torch::nn::GroupNorm group(4, 24);
  const torch::NoGradGuard no_grad;
  for (const double value : {0., 0.1, 1 / 3., 1e4}) {
    CAPTURE(value);
    const Forward net = [&](const Tensors& in) -> c10::IValue {
      const Tensor x = in[0];
      const Tensor apart = (x - x.mean(-1, true)) / (x.var({-1}, false, true) + 1e-12).sqrt();
      return all_of({norm(x), norm(layer(x)), apart, group(x.transpose(0, 1).unsqueeze(0)), torch::softmax(layer(x), -1)});
    };
    CHECK_NOTHROW(compiled(net, {torch::full({7, 24}, value)}));
  }
}

TEST_CASE("results whose number of elements a rounding decides are accepted") {
  torch::manual_seed(2);
  const torch::NoGradGuard no_grad;
  const Tensor table = torch::randn({40, 16});
  const Tensor image = torch::randint(0, 4, {1, 1, 9, 7}).to(torch::kFloat) / 3;
  CHECK_NOTHROW(compiled(
      [](const Tensors& in) -> c10::IValue {
        return std::get<0>(torch::unique_consecutive(enlarged(in[0], {23, 31}).flatten()));
      },
      {image}));
  CHECK_NOTHROW(compiled(
      [](const Tensors& in) -> c10::IValue {
        const Tensor x = in[0] / in[0].norm(2, {-1}, true);
        return all_of({torch::nonzero((x * x).sum(-1) >= 1), torch::nonzero(x.matmul(x.t()) >= 1)});
      },
      {table}));
}

TEST_CASE("int8 models of token ids and of images are accepted") {
  torch::manual_seed(3);
  const torch::NoGradGuard no_grad;
  for (int seed = 0; seed < 4; ++seed) {
    CAPTURE(seed);
    torch::manual_seed(seed);
    torch::nn::Embedding table(50, 32);
    torch::nn::Linear a(32, 64), b(64, 32), head(32, 20);
    torch::nn::LayerNorm norm(torch::nn::LayerNormOptions({32}));
    const auto net = net_of([&](const Tensors& in) -> c10::IValue {
      Tensor x = table(in[0]);
      for (int i = 0; i < 3; ++i) x = norm(x + b(torch::gelu(a(x))));
      return head(x);
    });
    net->module(table), net->module(a), net->module(b), net->module(head), net->module(norm);
    const Tensor ids = torch::randint(0, 50, {2, 12});
    const auto quantised = quantise(*traced_net(*net, {ids}), {{ids}, {torch::randint(0, 50, {2, 12})}});
    CHECK_NOTHROW(fxx::compile(*quantised, {ids}, {.threads = 1, .cache_folder = cache()}));
  }
  for (int seed = 0; seed < 4; ++seed) {
    CAPTURE(seed);
    torch::manual_seed(seed);
    torch::nn::Conv2d a(torch::nn::Conv2dOptions(3, 32, 3).padding(1)), b(torch::nn::Conv2dOptions(32, 32, 3).padding(1)),
        c(torch::nn::Conv2dOptions(32, 64, 3).stride(2)), d(torch::nn::Conv2dOptions(64, 64, 1));
    torch::nn::Linear head(64, 10);
    const auto net = net_of([&](const Tensors& in) -> c10::IValue {
      const Tensor x = torch::relu(b(torch::relu(a(in[0]))));
      return head(torch::relu(d(torch::relu(c(x)))).mean({2, 3}));
    });
    net->module(a), net->module(b), net->module(c), net->module(d), net->module(head);
    const Tensor image = torch::randint(0, 256, {1, 3, 24, 24}).to(torch::kFloat) / 255;
    const auto quantised = quantise(*traced_net(*net, {image}), {{image}});
    CHECK_NOTHROW(fxx::compile(*quantised, {image}, {.threads = 1, .cache_folder = cache()}));
  }
}
