// Post-training quantisation: which layers get integers, with what scales, and what of the results stays.
#include "fxx/torch/quantise.hpp"

#include <cmath>
#include <limits>

#include "fxx/ops/operation.hpp"
#include "fxx/ops/registry.hpp"
#include "fxx/torch/compile.hpp"
#include "torch/support.hpp"
// after doctest, which the one above has to include first
#include "runtime/support.hpp"

using namespace fxx;
using namespace fxx::test;
using support::TemporaryFolder;
using torch::Tensor;

namespace {

/// Convolutions that fold a batch norm, of single channels, transposed ones, a block with a sum, and a head.
struct NetImpl : torch::nn::Module {
  torch::nn::Conv2d stem{torch::nn::Conv2dOptions(3, 24, 3).stride(2).padding(1).bias(false)},
      depthwise{torch::nn::Conv2dOptions(24, 24, 3).padding(1).groups(24)}, point{torch::nn::Conv2dOptions(24, 24, 1)},
      wide{torch::nn::Conv2dOptions(24, 24, 3).padding(1)};
  torch::nn::ConvTranspose2d up{torch::nn::ConvTranspose2dOptions(24, 16, 2).stride(2)};
  torch::nn::BatchNorm2d norm{24};
  torch::nn::Linear head{16, 20};
  NetImpl() : torch::nn::Module("Net") {
    register_module("stem", stem), register_module("depthwise", depthwise), register_module("point", point);
    register_module("wide", wide), register_module("up", up), register_module("norm", norm);
    register_module("head", head);
    const torch::NoGradGuard no_grad;
    norm->running_mean.normal_(), norm->running_var.uniform_(0.5, 2);
    norm->weight.normal_(1, 0.3), norm->bias.normal_();
    stem->weight[5].zero_();  // a channel of nothing
  }
  Tensor forward(Tensor x) {
    x = torch::relu(norm(stem(x)));
    const Tensor y = torch::relu(depthwise(x));
    x = torch::relu(x + point(y) + wide(y));
    return torch::log_softmax(head(torch::relu(up(x)).mean({2, 3})), -1);
  }
};
TORCH_MODULE(Net);

std::size_t count(const GraphModule& module, std::string_view name) {
  std::size_t found = 0;
  for (const Node* node : module.graph().nodes())
    if (const Operator* op = operator_of(*node); op && op->base_name() == name) ++found;
  return found;
}
constexpr const char* of_input = "fake_quantize_per_tensor_affine";
constexpr const char* of_weights = "fake_quantize_per_channel_affine";

}  // namespace

TEST_CASE("layers get integers for their input, once for all that read it, and for their weights") {
  torch::manual_seed(3);
  Net net;
  net->eval();
  const torch::NoGradGuard no_grad;
  const Tensor x = torch::randn({2, 3, 18, 14}), other = torch::randn({2, 3, 18, 14}) * 2;
  const auto gm = trace(*net, {x});
  const std::string before = gm->code();
  const auto quantised = quantise(*gm, {{x}, {other}});
  CHECK(gm->code() == before);
  CHECK(torch::equal(gm->forward(x), net->forward(x)));
  CHECK(count(*quantised, "batch_norm") == 0);
  CHECK(count(*quantised, of_input) == 3);    // x, what point and wide read, and what head does
  CHECK(count(*quantised, of_weights) == 4);  // not of the depthwise and the transposed one
  for (const Node* node : quantised->graph().nodes()) {
    const Operator* op = operator_of(*node);
    if (!op || op->base_name() != of_input) continue;
    const auto number = [&](std::string_view name) {
      return argument_or_default(*node, *op, op->index_of(name)).number();
    };
    CHECK(number("quant_min") == 0);
    CHECK(number("quant_max") == 255);
    if (node->arg(0).node()->opcode() != Opcode::placeholder) {
      CHECK(number("zero_point") == 0);  // behind a relu
      continue;
    }
    const double lowest = other.min().item<double>(), highest = other.max().item<double>();
    CHECK(number("scale") == doctest::Approx((highest - lowest) / 255));
    CHECK(number("zero_point") == std::nearbyint(-lowest / number("scale")));
  }
  const Tensor expected = net->forward(x);
  const double size = expected.abs().max().item<double>();
  CHECK((quantised->forward(x) - expected).abs().max().item<double>() < 0.03 * size);
  CHECK_FALSE(torch::equal(quantised->forward(x), expected));

  const TemporaryFolder folder;
  const auto compiled = compile(*quantised, {x}, {.tolerance = 0.03, .cache_folder = folder.path()});
  CHECK(compiled->called_back().empty());
  CHECK((compiled->forward(x) - expected).abs().max().item<double>() < 0.03 * size);
  int of_bytes = 0;
  for (const KernelStep& step : compiled->kernel_plan().steps) {
    if (const auto* k = std::get_if<plans::Convolution>(&step.kernel)) of_bytes += k->quantised.scale != 0;
    if (const auto* k = std::get_if<plans::MatrixProduct>(&step.kernel)) of_bytes += k->quantised.scale != 0;
  }
  CHECK(of_bytes == (this_processor().byte_products ? 2 : 0));  // of those with 32 products and more
}

TEST_CASE("what is kept stays floats; so does what was never finite, or always zero") {
  torch::manual_seed(4);
  Net net;
  net->eval();
  const torch::NoGradGuard no_grad;
  const Tensor x = torch::randn({1, 3, 8, 8});
  const auto gm = trace(*net, {x});
  std::vector<std::string> asked;
  const auto kept = quantise(*gm, {{x}}, {.keep = [&](const Node& layer) {
    asked.push_back(std::string(operator_of(layer)->base_name()));
    return operator_of(layer)->base_name() == "linear";
  }});
  CHECK(asked.size() == 4);
  CHECK(count(*kept, of_weights) == 3);
  CHECK(count(*kept, of_input) == 2);
  const auto layer = [](const Tensor& weight) {
    torch::nn::Linear made(weight.size(1), weight.size(0));
    made->weight.copy_(weight);
    return made;
  };
  const auto quantised = [&](const Tensor& weight, std::vector<Tensor> inputs) {
    auto made = layer(weight);
    made->eval();
    std::vector<std::vector<Tensor>> examples;
    for (const Tensor& input : inputs) examples.push_back({input});
    return count(*quantise(*trace(*made, {inputs[0]}), examples), of_weights);
  };
  const Tensor w = torch::randn({6, 5}), input = torch::randn({2, 5});
  constexpr float infinite = std::numeric_limits<float>::infinity();
  CHECK(quantised(w, {input}) == 1);
  CHECK(quantised(w, {torch::zeros({2, 5})}) == 0);
  CHECK(quantised(w, {torch::zeros({2, 5}), input}) == 1);
  CHECK(quantised(w, {input, torch::full({2, 5}, infinite), input}) == 0);
  CHECK(quantised(w, {input, torch::full({2, 5}, std::nanf("")), input}) == 0);
  CHECK(quantised(torch::full({6, 5}, infinite), {input}) == 0);
  CHECK(quantised(torch::zeros({6, 5}), {input}) == 1);
}

TEST_CASE("no examples, and examples that cannot run: an error, and the module as it was") {
  Net net;
  net->eval();
  const Tensor x = torch::randn({1, 3, 8, 8});
  const auto gm = trace(*net, {x});
  const std::string before = gm->code();
  const Fault none = fault_of<RunError>([&] { quantise(*gm, {}); });
  CHECK(none.id == 701);
  CHECK(none.says("no examples"));
  CHECK(fault_of<Error>([&] { quantise(*gm, {{x}, {x, x}}); }).id == 701);
  CHECK(fault_of<Error>([&] { quantise(*gm, {{}}); }).id == 701);
  CHECK_THROWS(quantise(*gm, {{torch::randn({1, 4, 8, 8})}}));
  CHECK(gm->code() == before);
}

namespace {
struct WritesImpl : torch::nn::Module {
  fxx::nn::Linear first = register_module("first", fxx::nn::Linear(16, 16)),
                  second = register_module("second", fxx::nn::Linear(16, 12));
  WritesImpl() {
    const torch::NoGradGuard no_grad;
    second->weight.select(1, 0).mul_(3);
  }
  template <class T>
  T forward(T x) {
    T h = first(x);
    h.relu_();
    return second(h);
  }
};
}  // namespace

TEST_CASE("layers see what is written to their input; where that has no pure form they stay floats") {
  torch::manual_seed(5);
  const torch::NoGradGuard no_grad;
  WritesImpl net;
  net.eval();
  const Tensor x = torch::randn({8, 16});
  const auto check = [&](const GraphModule& gm, const Tensor& expected) {
    const auto quantised = quantise(gm, {{x}});
    CHECK(count(*quantised, of_weights) == 2);
    CHECK((quantised->forward(x) - expected).abs().max().item<double>() < 0.05 * expected.abs().max().item<double>());
  };
  check(*symbolic_trace(net), net.forward(x));
  const auto through_view = [&](bool draws) {
    return [&net, draws](Tensor t) {
      const Tensor h = net.first(t);
      if (draws) h.select(1, 0).uniform_();
      else h.select(1, 0).zero_();
      return net.second(h);
    };
  };
  check(*trace(net, through_view(false), {x}), through_view(false)(x));
  const auto drawn = quantise(*trace(net, through_view(true), {x}), {{x}});
  CHECK(count(*drawn, of_weights) == 1);
  CHECK(count(*drawn, of_input) == 1);
}
