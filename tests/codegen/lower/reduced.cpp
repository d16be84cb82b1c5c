// Fewer bits: weights, rows and images of bfloat16, and what is quantised.
#include <doctest/doctest.h>

#include "codegen/lowered.hpp"
#include "fxx/codegen/lower.hpp"
#include "fxx/codegen/quantised.hpp"
#include "fxx/ops/registry.hpp"

using namespace fxx;
using namespace fxx::plans;
using test::kernel_of;
using test::Net;

TEST_CASE("bfloat16 where it is faster: weights of few rows, weights and rows where the processor multiplies them") {
  const auto product = [](std::int64_t rows, std::int64_t size, Accuracy accuracy, bool products) {
    Net net;
    Node* x = net.input("x", {rows, size});
    const KernelPlan plan = net.plan_of(net.call(ops::linear, {x, net.weight("w", {size, size})}, {rows, size}),
                                        {.accuracy = accuracy, .processor = {.bfloat16_products = products}});
    return kernel_of<MatrixProduct>(plan.steps[0]);
  };
  CHECK_FALSE(product(1, 64, Accuracy::standard, true).weights.reduced);
  CHECK(product(1, 64, Accuracy::fast, false).weights.reduced);
  CHECK_FALSE(product(64, 64, Accuracy::fast, false).weights.reduced);
  CHECK(product(64, 64, Accuracy::fast, true).weights.reduced);
  CHECK(product(64, 64, Accuracy::fast, true).reduced_rows);
  CHECK_FALSE(product(1, 64, Accuracy::fast, true).reduced_rows);
  CHECK_FALSE(product(64, 63, Accuracy::fast, true).reduced_rows);  // pairs of elements are multiplied
  CHECK(product(8, 64, Accuracy::standard, false).weights.distance == kernels::Distance::near);
  CHECK(product(8, 1024, Accuracy::standard, false).weights.distance != kernels::Distance::near);
  // A processor that looks ahead by itself is not asked to for few rows, wherever the weights are.
  for (const bool reads_ahead : {false, true})
    for (const std::int64_t rows : {4, 5}) {
      Net net;
      Node* x = net.input("x", {rows, 1024});
      const KernelPlan plan = net.plan_of(net.call(ops::linear, {x, net.weight("w", {1024, 1024})}, {rows, 1024}),
                                          {.processor = {.reads_ahead = reads_ahead}});
      const Weights& weights = kernel_of<MatrixProduct>(plan.steps[0]).weights;
      CHECK(weights.distance == (reads_ahead && rows == 4 ? kernels::Distance::streamed : kernels::Distance::far));
    }
}

TEST_CASE("fast: convolutions that are computed directly read images of bfloat16") {
  Net net;
  Node* x = net.call(ops::relu, {net.input("x", {1, 32, 9, 9})}, {1, 32, 9, 9});
  const auto strided = [&](Node* in, std::int64_t out, std::int64_t size) {
    return net.call(ops::conv2d,
                    {in, net.weight("w" + std::to_string(size), {out, 32, size, size}), Argument(),
                     Argument::list({2, 2}), Argument::list({size / 2, size / 2})},
                    {1, out, 5, 5});
  };
  Node *a = strided(x, 64, 3), *b = strided(x, 64, 1);
  const auto images = [](const KernelPlan& plan) {
    std::vector<Buffer> found;
    for (const KernelStep& step : plan.steps)
      if (const auto* k = std::get_if<Convolution>(&step.kernel)) {
        const Buffer& in = plan.buffers[static_cast<std::size_t>(k->in.buffer)];
        CHECK(k->reduced == (in.dtype == Dtype::bfloat16));
        found.push_back(in);
      }
    return found;
  };
  const LowerOptions fast{.accuracy = Accuracy::fast, .processor = {.bfloat16_products = true}};
  net.graph.output(Argument::tuple({a, b}));
  {
    const KernelPlan plan = net.plan(fast);
    CHECK(plan.steps.size() == 3);  // nobody reads floats
    const auto in = images(plan);
    REQUIRE(in.size() == 2);
    CHECK(in[0].offset == in[1].offset);
    CHECK(in[0].dtype == Dtype::bfloat16);
    CHECK(in[0].border == Buffer::Border{1, 1, 1, 1});
    CHECK(plan.to_string().find("convolution of bfloat16") != std::string::npos);
  }
  for (const LowerOptions& options :
       {LowerOptions{.accuracy = Accuracy::standard, .processor = {.bfloat16_products = true}},
        LowerOptions{.accuracy = Accuracy::fast}})
    for (const Buffer& in : images(net.plan(options))) CHECK(in.dtype == Dtype::float32);
}

TEST_CASE("what is quantised: computed where it is used, as bytes where products of integers read it") {
  const Operator& fake_quantize = register_operator(
      "aten::fake_quantize_per_tensor_affine(Tensor self, float scale, int zero_point, int quant_min, int quant_max) "
      "-> Tensor",
      Trait::pointwise);
  const auto quantise = [&](Net& net, Node* x) {
    return net.call(fake_quantize, {x, 0.25, 3, -128, 127}, x->tensor_meta()->shape);
  };
  const auto linear = [](Net& net, Node* x, const std::string& name, std::int64_t size) {
    return net.call(ops::linear, {x, net.weight(name, {size, size})}, {x->tensor_meta()->shape[0], size});
  };
  {
    Net net;
    Node* x = net.input("x", {2, 64});
    Node* q = quantise(net, net.call(ops::relu, {x}, {2, 64}));
    Node *a = linear(net, q, "a", 64), *b = linear(net, q, "b", 64);
    net.graph.output(Argument::tuple({a, b}));
    const auto plan = [&](Accuracy accuracy, std::vector<std::string> named, bool bytes = false) {
      return net.plan({.accuracy = accuracy, .processor = {.byte_products = bytes}, .quantised = std::move(named)});
    };
    const std::vector<std::string> both = {std::string(a->name()), std::string(b->name())};
    for (const KernelPlan& floats : {plan(Accuracy::standard, {}), plan(Accuracy::exact, both)}) {
      REQUIRE(floats.steps.size() == 3);
      CHECK(floats.buffers[static_cast<std::size_t>(floats.steps[0].stores[0].to.buffer)].dtype == Dtype::float32);
      CHECK_FALSE(kernel_of<MatrixProduct>(floats.steps[1]).quantised);
    }
    const KernelPlan integers = plan(Accuracy::standard, both);
    REQUIRE(integers.steps.size() == 3);  // the bytes are made once
    const View& bytes = integers.steps[0].stores[0].to;
    CHECK(integers.buffers[static_cast<std::size_t>(bytes.buffer)].dtype == Dtype::uint8);
    for (int i : {1, 2}) {
      const auto& product = kernel_of<MatrixProduct>(integers.steps[static_cast<std::size_t>(i)]);
      CHECK(product.a.buffer == bytes.buffer);
      REQUIRE(product.quantised);
      CHECK(product.quantised.scale == 0.25);
      CHECK(product.quantised.zero == 131);
      const Buffer& scales = integers.buffers[static_cast<std::size_t>(product.quantised.scales.buffer)];
      CHECK(scales.kind == Buffer::Kind::constant);
      CHECK(integers.attributes[static_cast<std::size_t>(scales.number)] ==
            scales_name(both[static_cast<std::size_t>(i - 1)]));
    }
    CHECK(integers.to_string().find("product of bytes") != std::string::npos);
  }
  {
    // A bias that is computed, and quantised, is no image.
    Net net;
    Node* x = quantise(net, net.input("x", {1, 32, 8, 8}));
    Node* b = quantise(net, net.input("b", {64}));
    Node* c = net.call(ops::conv2d, {x, net.weight("w", {64, 32, 3, 3}), b, 1, 1}, {1, 64, 8, 8});
    net.graph.output(c);
    const KernelPlan plan = net.plan({.processor = {.byte_products = true}, .quantised = {std::string(c->name())}});
    int bytes = 0;
    for (const Buffer& buffer : plan.buffers) bytes += buffer.dtype == Dtype::uint8;
    CHECK(bytes == 1);
  }
  const auto is_of_bytes = [&](std::int64_t rows, std::int64_t size, bool vnni, bool leaves = false) {
    Net net;
    Node* q = quantise(net, net.input("x", {rows, size}));
    Node* a = linear(net, q, "a", size);
    net.graph.output(leaves ? Argument::tuple({a, q}) : Argument(a));
    const KernelPlan plan = net.plan({.processor = {.byte_products = vnni}, .quantised = {std::string(a->name())}});
    return kernel_of<MatrixProduct>(plan.steps[1]).quantised.scale != 0;
  };
  CHECK(is_of_bytes(1, 64, false));
  CHECK_FALSE(is_of_bytes(64, 64, false));  // many rows, where it saves nothing
  CHECK(is_of_bytes(64, 64, true));
  CHECK(is_of_bytes(1, 64, true, true));
  CHECK_FALSE(is_of_bytes(1, 16, true));
  {
    Net net;  // a layer of few columns takes bytes that are there for another; who is none reads them as floats
    Node* before = net.call(ops::linear, {net.input("x", {2, 64}), net.weight("w", {64, 64})}, {2, 64});
    Node* q = quantise(net, before);
    Node *a = linear(net, q, "a", 64), *b = net.call(ops::linear, {q, net.weight("b", {8, 64})}, {2, 8});
    net.graph.output(Argument::tuple({a, b, net.call(ops::relu, {q}, {2, 64})}));
    const std::vector<std::string> names = {std::string(a->name()), std::string(b->name())};
    const KernelPlan plan = net.plan({.quantised = names});
    REQUIRE(plan.steps.size() == 4);
    const View& bytes = plan.steps[0].stores[0].to;
    for (std::size_t i : {1, 2}) CHECK(kernel_of<MatrixProduct>(plan.steps[i]).a.buffer == bytes.buffer);
    bool reads = false;
    test::for_each_load(*plan.steps[3].stores[0].value, [&](const View& view) { reads = view.buffer == bytes.buffer; });
    CHECK(reads);
    CHECK_FALSE(kernel_of<MatrixProduct>(net.plan({.quantised = {names[1]}}).steps[1]).quantised);  // alone, floats
  }
  {
    Net net;  // images: one of bytes, with what stands for zero around it, for all who read it
    Node* q = quantise(net, net.input("x", {1, 32, 8, 8}));
    Node *a = net.convolution(q, 32, 3), *b = net.convolution(q, 48, 1), *c = net.convolution(q, 32, 3, 32);
    net.graph.output(Argument::tuple({a, b, c}));
    const std::vector<std::string> names = {std::string(a->name()), std::string(b->name()), std::string(c->name())};
    const auto plan = [&](bool vnni) { return net.plan({.processor = {.byte_products = vnni}, .quantised = names}); };
    const KernelPlan integers = plan(true), floats = plan(false);
    const View& bytes = integers.steps[0].stores[0].to;
    const Buffer& buffer = integers.buffers[static_cast<std::size_t>(bytes.buffer)];
    CHECK(buffer.dtype == Dtype::uint8);
    CHECK(buffer.zero == 131);
    CHECK(buffer.border == Buffer::Border{1, 1, 1, 1});
    int of_bytes = 0, depthwise = 0;
    for (const KernelStep& step : integers.steps) {
      const auto* k = std::get_if<Convolution>(&step.kernel);
      if (!k) continue;
      depthwise += k->method == Convolution::Method::depthwise && !k->quantised;
      if (!k->quantised) continue;
      ++of_bytes;
      CHECK(k->in.buffer == bytes.buffer);
      CHECK(k->method == Convolution::Method::direct);
      CHECK(k->quantised.zero == 131);
      CHECK(step.shape.ends_with(", of bytes, few weights"));
    }
    CHECK(of_bytes == 2);
    CHECK(depthwise == 1);
    CHECK(integers.to_string().find("convolution of bytes") != std::string::npos);
    for (const KernelStep& step : floats.steps)
      if (const auto* k = std::get_if<Convolution>(&step.kernel)) CHECK_FALSE(k->quantised);
  }
  Net net;  // more integers than a byte has
  Node* x = net.input("x", {2, 64});
  Node* q = net.call(fake_quantize, {x, 0.25, 0, 0, 1023}, {2, 64});
  CHECK_FALSE(net.plan_of(q).called_back().empty());
}
