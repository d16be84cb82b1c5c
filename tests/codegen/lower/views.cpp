// Views are memory of others: strides, reshapes, parts of a cat.
#include <doctest/doctest.h>

#include "codegen/lower/bounds.hpp"
#include "codegen/lowered.hpp"
#include "fxx/codegen/lower.hpp"

using namespace fxx;
using namespace fxx::plans;
using test::buffer_of;
using test::check_bounds;
using test::listed;
using test::Net;
using test::nodes_of;
using test::stored;
using Kind = Buffer::Kind;

TEST_CASE("views are strides on the same memory") {
  Net net;
  Node* x = net.input("x", {4, 6, 8});
  Node* turned = net.call(ops::transpose_int, {x, 1, 2}, {4, 8, 6});
  Node* slice = net.call(ops::slice_Tensor, {turned, 1, 1, 7, 2}, {4, 3, 6});
  Node* one = net.call(ops::select_int, {slice, 0, -1}, {3, 6});
  Node* split = net.calls(ops::split_Tensor, {one, 4, 1});
  Node* last = net.item(split, 1, {3, 2});
  const KernelPlan plan = net.plan_of(net.call(ops::relu, {last}, {3, 2}));
  CHECK(nodes_of(plan) == "relu");
  View read;
  test::for_each_load(*plan.steps[0].stores[0].value, [&](const View& view) { read = view; });
  // x[3, 4:6, 1::2], turned.
  CHECK(read == View{plan.inputs[0].buffer, 3 * 48 + 4 * 8 + 1, {3, 2}, {2, 8}});
  check_bounds(plan);
}

TEST_CASE("a reshape copies only what strides cannot say") {
  Net net;
  Node* x = net.input("x", {4, 6, 8});
  Node* flat = net.call(ops::reshape, {x, listed({24, 2, 4})}, {24, 2, 4});
  Node* turned = net.call(ops::transpose_int, {flat, 1, 2}, {24, 4, 2});
  Node* heads = net.call(ops::reshape, {turned, listed({4, 6, 4, 2})}, {4, 6, 4, 2});
  Node* merged = net.call(ops::reshape, {heads, listed({24, 8})}, {24, 8});
  const KernelPlan plan = net.plan_of(net.call(ops::relu, {merged}, {24, 8}));
  CHECK(nodes_of(plan) == "reshape_2, relu");
  CHECK(stored(plan, 0) == "x");
  CHECK(plan.steps[0].stores[0].to.strides == Sizes{48, 8, 2, 1});
  CHECK(plan.arena_bytes == 4 * 6 * 8 * 4);
}

TEST_CASE("which reshapes are views: with dimensions of size 1, of no elements, of turned and of broadcast tensors") {
  // The strides of what relu reads; nothing where a copy comes first.
  const auto strides = [](Sizes sizes, Sizes in, Sizes to) -> Sizes {
    Net net;
    Node* x = net.input("x", sizes);
    TensorMeta meta = *x->tensor_meta();
    meta.stride = std::move(in);
    x->set_tensor_meta(meta);
    std::vector<Argument> items(to.begin(), to.end());
    Node* y = net.call(ops::reshape, {x, listed(std::move(items))}, to);
    const KernelPlan plan = net.plan_of(net.call(ops::relu, {y}, to));
    Sizes read;
    if (plan.steps.size() == 1)
      test::for_each_load(*plan.steps[0].stores[0].value, [&](const View& view) { read = view.strides; });
    return read;
  };
  CHECK(strides({2, 3, 4}, {12, 4, 1}, {6, 1, 4}) == Sizes{4, 0, 1});
  CHECK(strides({2, 3, 4}, {12, 4, 1}, {24}) == Sizes{1});
  CHECK(strides({4, 3, 2}, {1, 4, 12}, {12, 2}).empty());
  CHECK(strides({4, 3, 2}, {1, 4, 12}, {2, 2, 3, 2}) == Sizes{2, 1, 4, 12});
  CHECK(strides({1, 3}, {3, 1}, {3, 1, 1}) == Sizes{1, 0, 0});
  CHECK(strides({2, 0, 3}, {0, 3, 1}, {0, 6}) == Sizes{6, 1});
  Net net;
  Node* wide = net.call(ops::expand, {net.input("x", {1, 3}), listed({5, 3})}, {5, 3});
  Node* flat = net.call(ops::reshape, {wide, listed({15})}, {15});
  const KernelPlan plan = net.plan_of(net.call(ops::relu, {flat}, {15}));
  CHECK(plan.steps.size() == 2);
  check_bounds(plan);
}

TEST_CASE("the parts of a cat are written where they belong") {
  Net net;
  Node* x = net.input("x", {4, 16});
  Node* a = net.call(ops::linear, {x, net.weight("a", {8, 16})}, {4, 8});
  Node* b = net.call(ops::relu, {x}, {4, 16});
  Node* joined = net.call(ops::cat, {listed({a, b}), 1}, {4, 24});
  const KernelPlan plan = net.plan_of(joined);
  CHECK(plan.steps.size() == 2);
  CHECK(plan.arena_bytes == 0);
  for (const KernelStep& step : plan.steps) {
    CHECK(buffer_of(plan, step.stores[0].to).kind == Kind::output);
    CHECK(step.stores[0].to.strides == Sizes{24, 1});
  }
  CHECK(plan.steps[0].stores[0].to.offset + plan.steps[1].stores[0].to.offset == 8);
  check_bounds(plan);
}

TEST_CASE("a part of a cat that others read too, and an input that is a part") {
  Net net;
  Node* x = net.input("x", {3, 4});
  Node* e = net.call(ops::exp, {x}, {3, 4});
  Node* whole = net.call(ops::cat, {listed({e, x, e}), 0}, {9, 4});
  Node* r = net.call(ops::relu, {e}, {3, 4});
  const KernelPlan plan = net.plan_of(Argument::tuple({whole, r}));
  check_bounds(plan);
  // `e` is there twice, so it stands by itself and is copied.
  CHECK(plan.steps.size() == 5);
  Sizes offsets;
  for (const KernelStep& step : plan.steps)
    if (step.stores[0].to.buffer == plan.outputs[0].view.buffer) offsets.push_back(step.stores[0].to.offset);
  CHECK(offsets == Sizes{0, 12, 24});
}

TEST_CASE("stack and cat within each other write to the outermost") {
  Net net;
  Node* x = net.input("x", {3, 4});
  Node* a = net.call(ops::exp, {x}, {3, 4});
  Node* b = net.call(ops::relu, {x}, {3, 4});
  Node* inner = net.call(ops::cat, {listed({a, b}), 1}, {3, 8});
  Node* c = net.call(ops::sigmoid, {net.input("y", {3, 8})}, {3, 8});
  const KernelPlan plan = net.plan_of(net.call(ops::stack, {listed({inner, c}), 0}, {2, 3, 8}));
  CHECK(plan.steps.size() == 3);
  CHECK(plan.arena_bytes == 0);
  check_bounds(plan);
}
