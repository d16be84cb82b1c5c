// What the graph returns, and the plan as a table.
#include <doctest/doctest.h>

#include "codegen/lowered.hpp"
#include "fxx/codegen/lower.hpp"

using namespace fxx;
using namespace fxx::plans;
using test::buffer_of;
using test::Net;
using test::nodes_of;
using test::stored;
using Kind = Buffer::Kind;

TEST_CASE("an input that is returned is the input, a value that is returned twice is copied") {
  Net net;
  Node* x = net.input("x", {4, 6});
  Node* r = net.call(ops::relu, {x}, {4, 6});
  const KernelPlan plan = net.plan_of(Argument::tuple({x, r, Argument::list({r})}));
  REQUIRE(plan.outputs.size() == 3);
  CHECK(plan.outputs[0].input == 0);
  CHECK(plan.outputs[1].buffer >= 0);
  CHECK(plan.outputs[2].buffer >= 0);
  CHECK(plan.outputs[1].buffer != plan.outputs[2].buffer);
  CHECK(nodes_of(plan) == "relu, relu");
  CHECK(stored(plan, 1) == "relu");
  for (const Buffer& buffer : plan.buffers)
    if (buffer.kind == Kind::output)
      CHECK(&buffer == &buffer_of(plan, plan.outputs[static_cast<std::size_t>(buffer.number)].view));
}

TEST_CASE("a view that is returned is copied, and lies as LibTorch's does") {
  Net net;
  Node* x = net.input("x", {4, 6});
  Node* turned = net.call(ops::transpose_int, {x, 0, 1}, {6, 4});
  TensorMeta meta = *turned->tensor_meta();
  meta.stride = {1, 6};
  turned->set_tensor_meta(meta);
  Node* row = net.call(ops::select_int, {x, 1, 2}, {4});
  meta = *row->tensor_meta();
  meta.stride = {6};
  row->set_tensor_meta(meta);
  const KernelPlan plan = net.plan_of(Argument::tuple({turned, row}));
  CHECK(plan.steps.size() == 2);
  CHECK(plan.outputs[0].view.strides == Sizes{1, 6});
  CHECK(plan.outputs[1].view.strides == Sizes{1});  // what stands between its elements is nobody's
}

TEST_CASE("a parameter that is returned is copied") {
  Net net;
  net.input("x", {1});
  const KernelPlan plan = net.plan_of(net.weight("w", {3}));
  CHECK(stored(plan, 0) == "w");
  CHECK(buffer_of(plan, plan.steps[0].stores[0].to).kind == Kind::output);
}

TEST_CASE("the plan prints as a table") {
  Net net;
  Node* x = net.input("x", {1, 16, 16, 16});
  Node* c = net.call(ops::relu, {net.convolution(x, 16)}, {1, 16, 16, 16});
  Node* p = net.call(ops::max_pool2d, {c, 2}, {1, 16, 8, 8});
  Node* f = net.call(ops::i0, {p}, {1, 16, 8, 8});
  const KernelPlan plan = net.plan_of(f);
  const std::string text = plan.to_string();
  CAPTURE(text);
  CHECK(text.starts_with("step"));
  for (const char* words : {"winograd 2 x 2", "3 x 3, 16 -> 16 x 16 x 16", "max pool", "2 x 2, 16 x 16 x 16 -> 8 x 8",
                            "call back", "no kernel", "4 steps", "arena"})
    CHECK(text.find(words) != std::string::npos);
  CHECK(plan.to_string({1e-6, 2e-6, 3e-6, 4e-6}).find("us\n") != std::string::npos);
  // A step that takes three times what was expected is told; what is called back has no expectation.
  std::vector<double> seconds;
  for (const KernelStep& step : plan.steps) seconds.push_back(step.expected > 0 ? 2.9 * step.expected : 1);
  CHECK(plan.slow_steps(seconds).empty());
  CHECK(plan.to_string(seconds).find("three times") == std::string::npos);
  seconds[1] = 4 * plan.steps[1].expected + 1e-5;
  REQUIRE(plan.slow_steps(seconds).size() == 1);
  CHECK(plan.slow_steps(seconds)[0].step == 1);
  CHECK(plan.slow_steps(seconds)[0].factor > 4);
  const std::string told = plan.to_string(seconds);
  CAPTURE(told);
  CHECK(told.find(" x\n") != std::string::npos);
  CHECK(told.find("three times what is expected, or more: " + plan.steps[1].name() + " (") != std::string::npos);
}
