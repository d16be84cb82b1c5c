// Which steps of compiled modules take three times what is expected of them: layers of every family of kernels, in
// sizes that models have, and reductions over drawn dimensions of tensors whose memory lies anyhow.
//
// usage: bench_steps [--only FAMILY] [--drawn N]
//   --only    what the names of cases begin with: products, convolutions, pooling, rows, reductions, elements, places,
//             attention
//   --drawn   so many reductions (default 40)
// Prints a line a slow step: case, step, times what was expected, microseconds; then how many steps there were. Times are the least of many calls with one thread: on a machine that is busy, steps that are slow once are to be
// run again.
#include <torch/torch.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fxx/torch.hpp"

namespace {
using torch::Tensor;
using Tensors = std::vector<Tensor>;

struct Case {
  std::string name;
  std::function<Tensor(const Tensors&)> forward;
  Tensors inputs;
};

Tensor channels_last(const Tensor& image) { return image.contiguous(at::MemoryFormat::ChannelsLast); }

std::vector<Case> layers() {
  namespace F = torch::nn::functional;
  const auto r = [](at::IntArrayRef sizes) { return torch::randn(sizes); };
  const Tensor image = r({1, 64, 56, 56}), wide = r({1, 256, 28, 28}), tokens = r({1, 128, 512});
  const Tensor places = torch::randint(0, 1000, {128});
  const Tensor w3 = r({64, 64, 3, 3}), w1 = r({64, 64, 1, 1}), w7 = r({64, 3, 7, 7}), wd = r({64, 1, 3, 3}),
               wl = r({64, 64, 3}), w = r({512, 512}), table = r({1000, 256}), g = r({512});
  std::vector<Case> cases = {
      {"products/128x512x512", [=](const Tensors& in) { return torch::linear(in[0], w); }, {tokens}},
      {"products/one row", [=](const Tensors& in) { return torch::linear(in[0], w); }, {r({1, 512})}},
      {"products/two",
       [](const Tensors& in) { return torch::matmul(in[0], in[1]); },
       {r({8, 128, 64}), r({8, 64, 128})}},
      {"convolutions/3x3", [=](const Tensors& in) { return torch::conv2d(in[0], w3, {}, 1, 1); }, {image}},
      {"convolutions/3x3 by 2", [=](const Tensors& in) { return torch::conv2d(in[0], w3, {}, 2, 1); }, {image}},
      {"convolutions/1x1", [=](const Tensors& in) { return torch::conv2d(in[0], w1); }, {image}},
      {"convolutions/7x7", [=](const Tensors& in) { return torch::conv2d(in[0], w7, {}, 2, 3); }, {r({1, 3, 224, 224})}},
      {"convolutions/depthwise", [=](const Tensors& in) { return torch::conv2d(in[0], wd, {}, 1, 1, 1, 64); }, {image}},
      {"convolutions/1d",
       [=](const Tensors& in) { return torch::conv1d(in[0], wl, {}, at::IntArrayRef{1}, at::IntArrayRef{1}); },
       {r({1, 64, 1000})}},
      {"convolutions/causal",
       [=](const Tensors& in) {
         const Tensor padded = torch::constant_pad_nd(in[0], {8, 0});
         return torch::conv1d(padded, wl, {}, at::IntArrayRef{1}, at::IntArrayRef{0}, at::IntArrayRef{4});
       },
       {r({1, 64, 1000})}},
      {"pooling/largest", [](const Tensors& in) { return torch::max_pool2d(in[0], 3, 2, 1); }, {image}},
      {"pooling/mean", [](const Tensors& in) { return torch::avg_pool2d(in[0], 2); }, {image}},
      {"pooling/all", [](const Tensors& in) { return torch::adaptive_avg_pool2d(in[0], 1); }, {channels_last(wide)}},
      {"rows/softmax", [](const Tensors& in) { return in[0].softmax(-1); }, {tokens}},
      {"rows/softmax of columns", [](const Tensors& in) { return in[0].softmax(1); }, {wide}},
      {"rows/softmax of channels last", [](const Tensors& in) { return in[0].softmax(1); }, {channels_last(wide)}},
      {"rows/layer norm", [=](const Tensors& in) { return torch::layer_norm(in[0], {512}, g, g); }, {tokens}},
      {"rows/group norm", [](const Tensors& in) { return torch::group_norm(in[0], 8); }, {image}},
      {"rows/running sum", [](const Tensors& in) { return in[0].cumsum(1); }, {tokens}},
      {"reductions/points", [](const Tensors& in) { return in[0].transpose(1, 2).amax({2}); }, {r({1, 1024, 1024})}},
      {"elements/gelu", [](const Tensors& in) { return torch::gelu(in[0]); }, {tokens}},
      {"elements/sum", [](const Tensors& in) { return in[0] + in[1] * 2; }, {image, r({1, 64, 56, 56})}},
      {"elements/turned", [](const Tensors& in) { return in[0].transpose(1, 2).contiguous() + 1; }, {tokens}},
      {"elements/channels last", [](const Tensors& in) { return in[0] + in[1]; }, {image, channels_last(image)}},
      {"places/embedding", [=](const Tensors& in) { return torch::embedding(table, in[0]); }, {places}},
      {"places/rows of an index", [](const Tensors& in) { return in[0].index_select(1, in[1]); },
       {tokens, torch::randint(0, 128, {64})}},
      {"places/sort", [](const Tensors& in) { return std::get<0>(in[0].sort(-1)); }, {tokens}},
      {"places/first in order", [](const Tensors& in) { return std::get<0>(in[0].topk(5, -1)); }, {tokens}},
      {"attention/8 of 128", [](const Tensors& in) { return torch::scaled_dot_product_attention(in[0], in[1], in[2]); },
       {r({1, 8, 128, 64}), r({1, 8, 128, 64}), r({1, 8, 128, 64})}},
  };
  return cases;
}

/// Reductions over some dimensions of tensors that lie in any order.
std::vector<Case> drawn_reductions(int count) {
  std::mt19937 drawn(7);
  std::vector<Case> cases;
  for (int i = 0; i < count; ++i) {
    const std::int64_t lengths[] = {3, 8, 16, 33, 64, 100, 196, 256};
    std::vector<std::int64_t> sizes(2 + drawn() % 3), order(sizes.size()), back(sizes.size()), dims;
    for (std::int64_t& size : sizes) size = lengths[drawn() % 8];
    while (std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>()) > 2'000'000)
      sizes[drawn() % sizes.size()] = 2;
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), drawn);
    for (std::size_t d = 0; d < order.size(); ++d)
      back[static_cast<std::size_t>(order[d])] = static_cast<std::int64_t>(d);
    while (dims.empty())
      for (std::size_t d = 0; d < sizes.size(); ++d)
        if (drawn() % 2) dims.push_back(static_cast<std::int64_t>(d));
    static constexpr const char* names[] = {"amax", "sum", "mean", "argmax", "any", "var", "norm", "logsumexp"};
    const unsigned kind = drawn() % 8;
    const auto forward = [=](const Tensors& in) {
      const Tensor& x = in[0];
      switch (kind) {
        case 0: return x.amax(dims);
        case 1: return x.sum(dims);
        case 2: return x.mean(dims);
        case 3: return x.argmax(dims[0]);
        case 4: return torch::any(x > 3, dims);
        case 5: return x.var(dims);
        case 6: return torch::linalg_vector_norm(x, 2, dims);
        default: return x.logsumexp(dims);
      }
    };
    cases.push_back({"reductions/" + std::string(names[kind]) + " over " + c10::str(dims) + " of " + c10::str(sizes) +
                         " lying as " + c10::str(order),
                     forward,
                     {torch::randn(sizes).permute(order).contiguous().permute(back)}});
  }
  return cases;
}

}  // namespace

int main(int argc, char** argv) {
  std::string only;
  int count = 40;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view word = argv[i];
    if (word == "--only") only = argv[i + 1];
    else if (word == "--drawn") count = std::atoi(argv[i + 1]);
    else return std::fprintf(stderr, "%s: %s is not understood\n", argv[0], argv[i]), 2;
  }
  torch::manual_seed(1);
  const torch::NoGradGuard no_grad;
  std::vector<Case> cases = layers();
  for (Case& more : drawn_reductions(count)) cases.push_back(std::move(more));
  std::size_t steps = 0, slow = 0;
  for (const Case& c : cases) {
    if (!c.name.starts_with(only)) continue;
    const auto module = std::make_shared<torch::nn::Module>("Case");
    module->eval();
    const auto gm = fxx::detail::trace_module(
        *module, true, [&](std::span<const Tensor> in) { return c10::IValue(c.forward({in.begin(), in.end()})); },
        c.inputs, {});
    const auto compiled = fxx::compile(*gm, c.inputs, {.threads = 1});
    const std::vector<double> seconds = compiled->profile(c.inputs, 100);
    const fxx::KernelPlan& plan = compiled->kernel_plan();
    steps += plan.steps.size();
    for (const auto& s : plan.slow_steps(seconds)) {
      ++slow;
      std::printf("%-60s %-20s %6.1f x  %8.1f us\n", c.name.c_str(), plan.steps[s.step].name().c_str(), s.factor,
                  seconds[s.step] * 1e6);
      std::fflush(stdout);
    }
  }
  std::printf("%zu of %zu steps take three times what is expected, or more\n", slow, steps);
}
