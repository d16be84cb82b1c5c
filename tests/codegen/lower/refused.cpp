// What is called back and what is refused; memory of several results, and of what is written to places.
#include <doctest/doctest.h>

#include "codegen/lowered.hpp"
#include "fxx/codegen/lower.hpp"
#include "support.hpp"

using namespace fxx;
using namespace fxx::plans;
using test::buffer_of;
using test::kernel_of;
using test::Net;
using test::stored;
using Kind = Buffer::Kind;

TEST_CASE("an operator without a kernel is called back, with the reason") {
  Net net;
  Node* x = net.input("x", {4, 6});
  Node* other = net.call(ops::i0, {x}, {4, 6});
  Node* n = net.input("n", {4}, Dtype::float64);
  Node* next = net.call(ops::add_Scalar, {n, 1}, {4}, Dtype::float64);
  Node* wide = net.call(ops::to_dtype, {net.input("k", {4}, Dtype::int64), Dtype::float64}, {4}, Dtype::float64);
  const KernelPlan plan = net.plan_of(Argument::tuple({net.call(ops::relu, {other}, {4, 6}), next, wide}));
  CHECK(plan.called_back() == std::vector<std::pair<std::string, std::string>>{
                                  {"i0", "no kernel"}, {"add", "float64"}, {"to", "a conversion"}});
  const auto& back = kernel_of<CallBack>(plan.steps[0]);
  CHECK(back.nodes == std::vector<const Node*>{other});
  REQUIRE(back.inputs.size() == 1);
  CHECK(back.inputs[0].node == x);
  CHECK(back.inputs[0].view == plan.inputs[0]);
  REQUIRE(back.outputs.size() == 1);
  CHECK(buffer_of(plan, back.outputs[0].view).kind == Kind::arena);
  CHECK(stored(plan, 3) == "relu(i0)");
}

TEST_CASE("kernels may look a block ahead of the last element that they are made for") {
  constexpr std::int64_t most = std::int64_t{(1u << 31) - 1}, room = 1 << 16;
  for (const std::int64_t count : {most - room, most - room + 1, most - 64, most - 1, most, most + 1}) {
    CAPTURE(count);
    Net net;
    const KernelPlan plan = net.plan_of(net.call(ops::relu, {net.input("x", {count})}, {count}));
    CHECK(plan.called_back().empty() == (count <= most - room));
  }
}

TEST_CASE("nothing that a kernel keeps on the stack grows with the sizes of a graph") {
  {
    // Rows of a filter: joined with the product before it as long as there are few.
    for (const std::int64_t rows : {3, 255, 257, 100000}) {
      Net net;
      Node* x = net.convolution(net.input("x", {1, 64, rows + 64, 64}), 64, 1);
      Node* w = net.weight("w", {64, 1, rows, 1});
      Node* y = net.call(ops::conv2d, {x, w, {}, 1, 0, 1, 64}, {1, 64, 65, 64});
      const KernelPlan plan = net.plan_of(net.convolution(y, 64, 1));
      for (const KernelStep& step : plan.steps)
        if (const auto* block = std::get_if<DepthwiseBlock>(&step.kernel)) CHECK(block->filter.kernel_height <= 256);
    }
  }
  for (const std::int64_t size : {64, 1024, 1025, 1 << 20}) {
    Net net;
    LowerOptions options;
    options.accuracy = Accuracy::fast;
    options.processor.bfloat16_products = true;
    Node *q = net.input("q", {2, 8, size}), *k = net.input("k", {2, 9, size}), *v = net.input("v", {2, 9, 8});
    const KernelPlan plan = net.plan_of(net.call(ops::scaled_dot_product_attention, {q, k, v}, {2, 8, 8}), options);
    for (const KernelStep& step : plan.steps)
      if (const auto* attention = std::get_if<Attention>(&step.kernel)) CHECK(attention->reduced == (size <= 1024));
  }
}

TEST_CASE("what has more elements than an int counts is called back, and so is a part that reaches as far") {
  const auto reasons = [](const KernelPlan& plan) {
    std::vector<std::string> all;
    for (const auto& [name, why] : plan.called_back()) all.push_back(why);
    return all;
  };
  const std::vector<std::string> too_many{"more elements than an int counts"};
  {
    Net net;
    Node *a = net.input("a", {70000, 40000}), *b = net.input("b", {40000});
    CHECK(reasons(net.plan_of(net.call(ops::add_Tensor, {a, b}, {70000, 40000}))) == too_many);
  }
  {
    Net net;
    Node* part = net.call(ops::slice_Tensor, {net.input("a", {50000, 50000}), 1, 0, 10}, {50000, 10});
    part->set_tensor_meta({.shape = {50000, 10}, .stride = {50000, 1}});
    CHECK(reasons(net.plan_of(net.call(ops::relu, {part}, {50000, 10}))) == too_many);
  }
  {
    // What is called back writes all of it, so no part is written before.
    Net net;
    Node* part = net.call(ops::relu, {net.input("a", {1'200'000'000})}, {1'200'000'000});
    Node* b = net.input("b", {1'200'000'000});
    const KernelPlan plan = net.plan_of(net.call(ops::cat, {Argument::list({part, b}), 0}, {2'400'000'000}));
    CHECK(reasons(plan) == too_many);
    REQUIRE(plan.steps.size() == 2);
    CHECK(buffer_of(plan, plan.steps[0].stores[0].to).kind == Kind::arena);
    CHECK(buffer_of(plan, kernel_of<CallBack>(plan.steps[1]).outputs[0].view).kind == Kind::output);
  }
}

TEST_CASE("of several results those that are taken get memory") {
  Net net;
  Node* x = net.input("x", {4, 9});
  Node* most = net.calls(ops::mode, {x, 1, true});
  Node* places = net.item(most, -1, {4, 1}, Dtype::int64);
  const KernelPlan plan = net.plan_of(places);
  REQUIRE(plan.steps.size() == 1);
  CHECK(plan.steps[0].name() == "mode");
  const auto& back = kernel_of<CallBack>(plan.steps[0]);
  CHECK(back.nodes == std::vector<const Node*>{most, places});
  REQUIRE(back.outputs.size() == 1);
  CHECK(back.outputs[0].node == places);
  CHECK(buffer_of(plan, back.outputs[0].view).kind == Kind::output);
  CHECK(buffer_of(plan, back.outputs[0].view).dtype == Dtype::int64);
}

TEST_CASE("an order has memory for the elements, for their places, or for both, one row behind the other") {
  for (const int taken : {1, 2, 3}) {
    Net net;
    Node* x = net.input("x", {4, 900, 2});
    Node* top = net.calls(ops::topk, {x, 3, 1});
    std::vector<Argument> results;
    if (taken & 1) results.emplace_back(net.item(top, 0, {4, 3, 2}));
    if (taken & 2) results.emplace_back(net.item(top, -1, {4, 3, 2}, Dtype::int64));
    const KernelPlan plan = net.plan_of(Argument::tuple(std::move(results)));
    CHECK(plan.called_back().empty());
    const auto found = std::ranges::find_if(
        plan.steps, [](const KernelStep& s) { return std::holds_alternative<plans::Sort>(s.kernel); });
    REQUIRE(found != plan.steps.end());
    const auto& sort = kernel_of<plans::Sort>(*found);
    CHECK(sort.rows == 8);
    CHECK(sort.length == 900);
    CHECK(sort.count == 3);
    CHECK(sort.by_best);
    CHECK(sort.descending);
    CHECK(sort.in.strides.back() == 1);
    CHECK((sort.values.buffer >= 0) == ((taken & 1) != 0));
    CHECK((sort.places.buffer >= 0) == ((taken & 2) != 0));
    for (const plans::View* view : {&sort.values, &sort.places})
      if (view->buffer >= 0) CHECK(view->strides == plans::dense_strides(view->sizes));
  }
}

TEST_CASE("what is written to places takes the memory of what nobody else reads") {
  for (const bool shared : {false, true}) {
    Net net;
    Node* x = net.input("x", {6, 5});
    Node* index = net.input("index", {4}, Dtype::int64);
    Node* rows = net.input("rows", {4, 5});
    Node* one = net.call(ops::index_add, {x, 0, index, rows}, {6, 5});
    Node* two = net.call(ops::index_add, {one, 0, index, rows}, {6, 5});
    const KernelPlan plan = net.plan_of(net.call(ops::add_Tensor, {two, shared ? one : x}, {6, 5}));
    CHECK(plan.called_back().empty());
    std::vector<int> written;
    for (const KernelStep& step : plan.steps)
      if (std::holds_alternative<plans::Scatter>(step.kernel)) written.push_back(step.stores[0].to.buffer);
    REQUIRE(written.size() == 2);
    CHECK((written[0] == written[1]) == !shared);
  }
}

TEST_CASE("what is called back does not write to memory whose border must be zero") {
  Net net;
  Node* x = net.input("x", {1, 8, 6, 6});
  const KernelPlan plan = net.plan_of(net.convolution(net.call(ops::i0, {x}, {1, 8, 6, 6}), 8));
  const auto& back = kernel_of<CallBack>(plan.steps[0]);
  CHECK(buffer_of(plan, back.outputs[0].view).border.empty());
  CHECK_FALSE(buffer_of(plan, kernel_of<Convolution>(plan.steps.back()).in).border.empty());
}

TEST_CASE("what is written to in place lies as LibTorch's does, whatever kernel computed it") {
  const auto check = [](Net& net, Node* value) {
    const TensorMeta meta = *value->tensor_meta();
    net.call(ops::bernoulli__float, {value, 1.0}, meta.shape, meta.dtype);
    const KernelPlan plan = net.plan_of(net.call(ops::add_Tensor, {value, 1}, meta.shape, meta.dtype));
    const auto found = std::ranges::find_if(
        plan.steps, [](const KernelStep& s) { return std::holds_alternative<CallBack>(s.kernel); });
    REQUIRE(found != plan.steps.end());
    REQUIRE(kernel_of<CallBack>(*found).inputs.size() == 1);
    const View& written = kernel_of<CallBack>(*found).inputs[0].view;
    CHECK(written.strides == dense_strides(meta.shape));
    CHECK(plan.called_back().size() == 1);
    bool read = false;
    test::for_each_load(*plan.steps.back().stores[0].value,
                        [&](const View& view) { read = read || view.buffer == written.buffer; });
    CHECK(read);
  };
  using test::listed;
  Net images, sorted, windows;
  Node* x = images.input("x", {1, 3, 5, 5});
  check(images, images.call(ops::cat, {listed({images.convolution(x, 8), x}), 1}, {1, 11, 5, 5}));
  x = sorted.input("x", {3, 4});
  check(sorted, sorted.item(sorted.calls(ops::sort, {x, 0}), 0, {3, 4}));
  x = windows.input("x", {1, 8, 9});
  check(windows, windows.call(ops::col2im,
                              {x, listed({4, 4}), listed({2, 2}), listed({1, 1}), listed({1, 1}), listed({2, 2})},
                              {1, 2, 4, 4}));
}

TEST_CASE("sizes that change, and those that nobody knows, are refused with the node") {
  Net dynamic;
  Node* x = dynamic.input("x", {-2, 4});
  dynamic.graph.output(dynamic.call(ops::relu, {x}, {-2, 4}));
  test::Fault fault = test::fault_of<CodegenError>([&] { dynamic.plan(); });
  CHECK(fault.id == 501);
  CHECK(fault.says("a size of 'x' changes from call to call"));
  CHECK(fault.node.find("placeholder") != std::string::npos);

  Net unknown;
  Node* y = unknown.graph.call_function(ops::relu, {unknown.input("y", {4})});
  unknown.graph.output(y);
  fault = test::fault_of<CodegenError>([&] { unknown.plan(); });
  CHECK(fault.id == 501);
  CHECK(fault.says("shape and dtype of 'relu' are not known"));

  Net whole;
  whole.graph.output(whole.calls(ops::topk, {whole.input("z", {4}), 2}));
  fault = test::fault_of<CodegenError>([&] { whole.plan(); });
  CHECK(fault.id == 501);
  CHECK(fault.says("'topk' is not a tensor, and used as a whole"));

  Net parts;
  parts.graph.output(parts.calls(ops::split_Tensor, {parts.input("z", {4}), 2}));
  fault = test::fault_of<CodegenError>([&] { parts.plan(); });
  CHECK(fault.id == 501);
  CHECK(fault.says("'split' is not one tensor"));
  CHECK_FALSE(fault.node.empty());
}
