// Graphs whose sizes depend on the elements of tensors, or on the sizes of their inputs: what is compiled of them, and
// that it computes the same.
#include <torch/torch.h>

#include "fxx/torch/compile.hpp"
#include "fxx/torch/known_sizes.hpp"
#include "fxx/torch/trace.hpp"
#include "torch/support.hpp"

using namespace fxx;
using namespace fxx::test;
using torch::Tensor;

namespace {

struct Picks : torch::nn::Module {
  torch::nn::Linear first{nullptr}, second{nullptr};
  Picks() {
    torch::manual_seed(3);
    first = register_module("first", torch::nn::Linear(7, 33));
    second = register_module("second", torch::nn::Linear(33, 5));
  }
  /// Kernels, then rows that the elements choose, then more of what would have kernels.
  Tensor forward(Tensor x) {
    const Tensor y = torch::relu(first(x));
    const Tensor chosen = y.index({y.select(1, 0) > 0.1});
    return torch::softmax(second(chosen), 1);
  }
};

std::shared_ptr<GraphModule> graph_of(const Forward& f, const Tensors& inputs, const TraceOptions& options = {}) {
  return traced(f, inputs, options);
}

}  // namespace

TEST_CASE("what depends on elements is interpreted behind the kernels, for any number of them") {
  const torch::NoGradGuard no_grad;
  Picks net;
  const Tensor x = torch::randn({11, 7});
  const auto gm = trace(net, {x}, {.leaf_modules = false});
  const auto compiled = compile(*gm, {x});
  CHECK(compiled->is_current());
  CHECK(compiled->kernel_plan().steps.size() >= 1);
  CHECK(compiled->called_back().empty());
  CHECK_FALSE(compiled->interpreted().empty());
  for (int i = 0; i < 4; ++i) {
    const Tensor in = torch::randn({11, 7});
    const Tensor given = compiled->forward(in), expected = net.forward(in);
    REQUIRE(given.sizes() == expected.sizes());
    CHECK(relative_difference(given, expected) < 1e-5);
  }
  CHECK(compiled->forward(torch::full({11, 7}, -100.f)).size(0) == net.forward(torch::full({11, 7}, -100.f)).size(0));
  const void* from = x.const_data_ptr();
  void* to = nullptr;
  const Fault fault = fault_of<RunError>([&] { compiled->run_raw(&from, &to); });
  CHECK(fault.id == 702);
  CHECK(fault.says("depend on the elements"));
}

TEST_CASE("effects and random numbers keep their order: then all is interpreted") {
  const torch::NoGradGuard no_grad;
  const Tensor x = torch::randn({5, 4});
  const auto gm = graph_of(
      [](const Tensors& in) {
        return fxx::detail::box_result(torch::dropout(in[0] * 2, 0.5, true).index({in[0].select(1, 0) > 0}));
      },
      {x});
  const auto compiled = compile(*gm, {x});
  CHECK_FALSE(compiled->is_current());
  torch::manual_seed(1);
  const c10::IValue given = compiled->run({x});
  torch::manual_seed(1);
  CHECK(relative_difference(given, gm->run({x})) == 0);
}

TEST_CASE("operators that draw no random numbers, as their arguments say, stand in the way of nothing") {
  const torch::NoGradGuard no_grad;
  const Tensor x = torch::randn({2, 5, 4});
  const auto gm = graph_of(
      [](const Tensors& in) {
        const Tensor y = torch::scaled_dot_product_attention(in[0], in[0], torch::dropout(in[0], 0.5, false));
        return fxx::detail::box_result(y.index({y.select(2, 0) > 0}));
      },
      {x});
  const auto unknown = note_known_sizes(*gm, {x});
  CHECK_FALSE(unknown.empty());
  CHECK(split_by_sizes(gm->graph(), unknown).has_value());
  const auto compiled = compile(*gm, {x});
  CHECK(compiled->is_current());
  CHECK(relative_difference(compiled->run({x}), gm->run({x})) < 1e-5);
}

TEST_CASE("a graph with dynamic sizes is compiled for those of the examples") {
  const torch::NoGradGuard no_grad;
  Picks net;
  const Tensor x = torch::randn({11, 7});
  const auto gm = trace(
      net, [&](Tensor in) { return net.second(torch::relu(net.first(in)).reshape({in.size(0) * 3, 11}).reshape({-1, 33})); },
      {x}, {.leaf_modules = false, .dynamic = {{0, 0, "batch"}}});
  for (const std::int64_t batch : {2, 11, 16}) {
    const Tensor in = torch::randn({batch, 7});
    const auto compiled = compile(*gm, {in});
    CHECK(compiled->is_current());
    CHECK(compiled->interpreted().empty());
    CHECK(compiled->called_back().empty());
    CHECK(relative_difference(compiled->forward(in), gm->forward(in)) < 1e-5);
    CHECK(fault_of<RunError>([&] { compiled->forward(torch::randn({batch + 1, 7})); }).id == 701);
  }
}

TEST_CASE("numbers that follow from sizes become constants; what needs elements is told") {
  const torch::NoGradGuard no_grad;
  const Tensor x = torch::randn({6, 4});
  const auto gm = graph_of(
      [](const Tensors& in) { return fxx::detail::box_result(torch::nonzero(in[0]).to(torch::kFloat) + in[0].sum()); }, {x});
  const auto unknown = note_known_sizes(*gm, {x});
  std::size_t sums = 0;
  for (const Node* node : gm->graph().nodes()) {
    if (node->target() == "torch.ops.aten.nonzero.default") CHECK(unknown.contains(node));
    if (node->target() == "torch.ops.aten.sum.default") {
      CHECK_FALSE(unknown.contains(node));
      ++sums;
    }
  }
  CHECK(sums == 1);
  const auto split = split_by_sizes(gm->graph(), unknown);
  REQUIRE(split.has_value());
  split->head.lint();
  split->tail.lint();
}
