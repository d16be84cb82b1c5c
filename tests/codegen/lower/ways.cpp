// Which way a step is computed: as is estimated, as is said, by LibTorch; what is expected of its time.
#include <doctest/doctest.h>

#include "codegen/lower/bounds.hpp"
#include "codegen/lowered.hpp"
#include "fxx/codegen/lower.hpp"
#include "fxx/meta/enum_name.hpp"

using namespace fxx;
using namespace fxx::plans;
using test::buffer_of;
using test::check_bounds;
using test::kernel_of;
using test::Net;
using test::nodes_of;

TEST_CASE("Winograd's algorithm is taken where accuracy lets it, and where tiles are many") {
  using Method = Convolution::Method;
  const auto method = [](Sizes in, std::int64_t channels, Accuracy accuracy) {
    Net net;
    const KernelPlan plan =
        net.plan_of(net.convolution(net.behind_layers(net.input("x", in)), channels), {.accuracy = accuracy});
    const auto& kernel = kernel_of<Convolution>(plan.steps.back());
    check_bounds(plan);
    if (kernel.method == Method::winograd_4) {
      // Whole tiles are read.
      const Buffer& image = buffer_of(plan, kernel.in);
      CHECK(image.image[1] == (in[2] + 3) / 4 * 4 + 2);
      CHECK(image.image[2] == (in[3] + 3) / 4 * 4 + 2);
    }
    return kernel.method;
  };
  CHECK(method({1, 64, 56, 56}, 64, Accuracy::standard) == Method::winograd_4);
  CHECK(method({1, 64, 13, 30}, 64, Accuracy::fast) == Method::winograd_4);
  CHECK(method({1, 64, 56, 56}, 64, Accuracy::exact) == Method::direct);
  CHECK(method({1, 3, 56, 56}, 64, Accuracy::standard) == Method::direct);
  CHECK(method({1, 64, 6, 6}, 64, Accuracy::standard) == Method::winograd_2);
  CHECK(method({1, 64, 1, 5}, 64, Accuracy::standard) == Method::direct);
  // All but the middle of the filter meets zeros alone.
  Net net;
  const KernelPlan plan = net.plan_of(net.convolution(net.behind_layers(net.input("x", {1, 64, 1, 1})), 64));
  CHECK(std::holds_alternative<MatrixProduct>(plan.steps.back().kernel));
}

TEST_CASE("a convolution that stands nearly alone is computed in tiles of 2, or as accurately as is asked for") {
  using Method = Convolution::Method;
  struct Around {
    int before = 0, behind = 0;  // layers
    Accuracy accuracy = Accuracy::standard;
    bool leaves = false;      // its result is one of the graph's too
    std::int64_t depth = 64;  // of the layers before
  };
  const auto method = [](const Around& around) {
    Net net;
    Node* x = net.behind_layers(net.input("x", {1, 64, 56, 56}), around.before, around.depth);
    Node* c = net.convolution(net.call(ops::relu, {x}, {1, 64, 56, 56}), 64);
    Node* y = net.behind_layers(net.call(ops::tanh, {c}, {1, 64, 56, 56}), around.behind);
    const KernelPlan plan =
        net.plan_of(around.leaves ? Argument::tuple({y, c}) : Argument(y), {.accuracy = around.accuracy});
    for (const KernelStep& step : plan.steps)
      if (const auto* kernel = std::get_if<Convolution>(&step.kernel); kernel && kernel->kernel_height == 3) {
        CHECK(kernel->alone == (step.shape.find(", alone") != std::string::npos));
        return kernel->method;
      }
    return Method::depthwise;  // there is none
  };
  for (int before = 0; before <= 5; ++before)
    for (const int behind : {0, 1, 4, 5}) {
      CAPTURE(before);
      CAPTURE(behind);
      const bool alone = before + behind < 5;
      CHECK(method({before, behind}) == (alone ? Method::winograd_2 : Method::winograd_4));
      CHECK(method({before, behind, Accuracy::fast}) == Method::winograd_4);
      CHECK(method({before, behind, Accuracy::exact}) == Method::direct);
      CHECK(method({before, behind, Accuracy::standard, true}) ==
            (before < 5 ? Method::winograd_2 : Method::winograd_4));
      // Sums of few terms leave no error beside which its own could be small.
      CHECK(method({before, 0, Accuracy::standard, false, 8}) == Method::winograd_2);
    }
}

TEST_CASE("weights that come from far are weighed against what Winograd's algorithm saves") {
  using Method = Convolution::Method;
  const auto method = [](std::int64_t channels, std::int64_t side, double flops_per_byte) {
    Net net;
    Node* x = net.behind_layers(net.input("x", {1, channels, side, side}));
    const KernelPlan plan =
        net.plan_of(net.convolution(x, channels), {.processor = {.flops_per_byte = flops_per_byte}});
    return kernel_of<Convolution>(plan.steps.back()).method;
  };
  for (const double far : {0., 5., 14.}) CHECK(method(64, 56, far) == Method::winograd_4);  // stay in the cache
  CHECK(method(256, 28, 14) == Method::winograd_4);
  CHECK(method(256, 14, 14) == Method::winograd_2);
  CHECK(method(512, 7, 0) == Method::winograd_4);
  CHECK(method(512, 7, 5) == Method::winograd_2);
  CHECK(method(512, 7, 14) == Method::direct);
}

TEST_CASE("ways that are said are taken, where they fit") {
  using Method = Convolution::Method;
  using Said = Way::Method;
  for (const auto& [method, said] : {std::pair(Method::direct, Said::direct),
                                     {Method::winograd_2, Said::winograd_2},
                                     {Method::winograd_4, Said::winograd_4}}) {
    Net net;
    Node* x = net.input("x", {1, 32, 13, 9});
    Node* a = net.convolution(x, 32);
    Node* b = net.convolution(a, 8);      // too few channels
    Node* c = net.convolution(b, 48, 1);  // of single pixels
    net.graph.output(c);
    LowerOptions options{.alone = false};
    for (const KernelStep& step : net.plan(options).steps)
      if (!step.shape.empty()) options.ways[step.shape] = {.method = said, .tile = {3, 2}};
    CHECK(options.ways.size() == 3);
    KernelPlan plan = net.plan(options);
    check_bounds(plan);
    CHECK(kernel_of<Convolution>(plan.steps[1]).method == method);
    CHECK(plan.steps[1].way.tile == kernels::TileShape{3, 2});
    CHECK(kernel_of<Convolution>(plan.steps[2]).method == Method::direct);
    if (said == Said::direct) CHECK(kernel_of<Convolution>(plan.steps[3]).kernel_height == 1);
    else CHECK(kernel_of<MatrixProduct>(plan.steps[3]).columns == 48);
    CHECK(plan.to_string().find(std::string(enumerator_name(said)) + " 3x2") != std::string::npos);
    // Exactly computed convolutions are others, and what was said of them is exact too.
    options.accuracy = Accuracy::exact;
    CHECK(kernel_of<Convolution>(net.plan(options).steps[1]).method == Method::direct);
    options.ways[net.plan(options).steps[1].shape] = {.method = said};
    CHECK(kernel_of<Convolution>(net.plan(options).steps[1]).method == Method::direct);
    // A way of something else is not believed.
    options.accuracy = Accuracy::standard;
    const Method estimated = kernel_of<Convolution>(net.plan({.alone = false}).steps[1]).method;
    for (const Said other : {Said::joined, Said::apart}) {
      for (auto& [shape, way] : options.ways) way = {.method = other};
      CHECK(kernel_of<Convolution>(net.plan(options).steps[1]).method == estimated);
    }
    // Nor is one of tiles of 4 where the convolution stands alone.
    options = {};
    for (const KernelStep& step : net.plan().steps)
      if (!step.shape.empty()) options.ways[step.shape] = {.method = said};
    CHECK((kernel_of<Convolution>(net.plan(options).steps[1]).method == method) == (said != Said::winograd_4));
  }
}

TEST_CASE("what is left to LibTorch is called back, its neighbours are steps of their own") {
  Net net;
  Node* x = net.input("x", {1, 16, 12, 12});
  Node* a = net.call(ops::relu, {net.convolution(x, 16)}, {1, 16, 12, 12});
  Node* b = net.call(ops::relu, {net.convolution(a, 16)}, {1, 16, 12, 12});
  Node* flat = net.call(ops::flatten_using_ints, {b, 1}, {1, 2304});
  Node* c = net.call(ops::linear, {flat, net.weight("w", {20, 2304}), net.weight("b", {20})}, {1, 20});
  Node* d = net.call(ops::gelu, {c}, {1, 20});
  net.graph.output(d);
  LowerOptions options;
  const KernelPlan before = net.plan();
  CHECK(before.called_back().empty());
  std::string image, product;
  for (const KernelStep& step : before.steps) {
    if (std::holds_alternative<Convolution>(step.kernel)) image = step.shape;
    if (std::holds_alternative<MatrixProduct>(step.kernel)) product = step.shape;
  }
  CHECK(product == "product 1 x 2304 -> 20, few weights");
  options.ways[product] = {.method = Way::Method::library};
  KernelPlan plan = net.plan(options);
  check_bounds(plan);
  REQUIRE(plan.called_back().size() == 1);
  CHECK(plan.called_back()[0] == std::pair(std::string(c->name()), std::string(left_to_library)));
  CHECK(nodes_of(plan).ends_with(std::string(c->name()) + ", " + std::string(d->name())));
  CHECK(plan.to_string().find("tuned: LibTorch is faster") != std::string::npos);
  // Both convolutions have one shape; nothing is around the images then.
  options.ways = {{image, {.method = Way::Method::library}}};
  plan = net.plan(options);
  CHECK(plan.called_back().size() == 2);
  for (const Buffer& buffer : plan.buffers) CHECK(buffer.border.empty());
}

TEST_CASE("a depthwise convolution is joined with products, or not, as is said, whatever lies between") {
  for (const std::int64_t side : {8, 80}) {
    Net net;
    Node* x = net.input("x", {1, 8, side, side});
    Node* a = net.call(ops::relu, {net.convolution(x, 48, 1)}, {1, 48, side, side});
    Node* b = net.call(ops::relu, {net.convolution(a, 48, 3, 48)}, {1, 48, side, side});
    net.graph.output(net.convolution(b, 16, 1));
    const KernelPlan plan = net.plan();
    const bool large = side == 80;
    const auto block =
        std::ranges::find_if(plan.steps, [](const KernelStep& s) { return s.shape.starts_with("depthwise"); });
    REQUIRE(block != plan.steps.end());
    CHECK(std::holds_alternative<DepthwiseBlock>(block->kernel) == large);
    CHECK(block->joinable.size() == (large ? 0 : 3));
    for (const Way::Method method : {Way::Method::joined, Way::Method::apart}) {
      const KernelPlan other = net.plan({.ways = {{block->shape, {.method = method}}}});
      check_bounds(other);
      std::size_t blocks = 0;
      for (const KernelStep& step : other.steps) blocks += std::holds_alternative<DepthwiseBlock>(step.kernel);
      CHECK(blocks == (method == Way::Method::joined ? 1 : 0));
      CHECK(other.steps.size() == (method == Way::Method::joined ? 2 : 4));
    }
  }
}

TEST_CASE("the time of a step is expected from what it computes and reads") {
  Net net;
  Node* x = net.input("x", {64, 1024});
  Node* y = net.call(ops::linear, {x, net.weight("w", {1024, 1024})}, {64, 1024});
  Node* z = net.call(ops::i0, {net.call(ops::relu, {y}, {64, 1024})}, {64, 1024});
  net.graph.output(z);
  const KernelPlan slow = net.plan({.processor = {.flops_per_second = 1e11, .flops_per_byte = 5}}),
                   fast = net.plan({.processor = {.flops_per_second = 2e11, .flops_per_byte = 5}}),
                   far = net.plan({.processor = {.flops_per_second = 1e11, .flops_per_byte = 10}});
  const double flops = 2. * 64 * 1024 * 1024, weights = 4. * 1024 * 1024, others = 2. * 4 * 64 * 1024;
  CHECK(slow.steps[0].expected == doctest::Approx((flops + 5 * weights + 4 * others) / 1e11));
  CHECK(fast.steps[0].expected == doctest::Approx(slow.steps[0].expected / 2));
  CHECK(far.steps[0].expected - slow.steps[0].expected == doctest::Approx(5 * weights / 1e11));
  CHECK(slow.steps[1].expected < 0);  // called back
  const std::string table = slow.to_string();
  CHECK(table.find("expected us") != table.npos);
  CHECK(table.find(" -\n") != table.npos);
}
