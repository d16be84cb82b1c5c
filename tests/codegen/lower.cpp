// What becomes of graphs with sizes: which kernels, what goes into their loops, where tensors lie, what is called back.
// That the numbers are right is tested in specialised_source.cpp, and with LibTorch.
#include "fxx/codegen/lower.hpp"

#include <doctest/doctest.h>

#include "codegen/lowered.hpp"
#include "fxx/codegen/quantised.hpp"
#include "fxx/meta/enum_name.hpp"
#include "fxx/ops/registry.hpp"
#include "support.hpp"

using namespace fxx;
using namespace fxx::plans;
using test::buffer_of;
using test::kernel_of;
using test::listed;
using test::Net;
using test::nodes_of;
using test::stored;

namespace {
using Kind = Buffer::Kind;

/// Every tensor that a step reads or writes lies within its buffer, with the surroundings that kernels read of images.
void check_bounds(const KernelPlan& plan) {
  const auto check = [&](const View& view) {
    if (view.buffer < 0 || view.numel() == 0) return;
    std::int64_t first = view.offset, last = view.offset;
    for (std::size_t d = 0; d < view.sizes.size(); ++d)
      (view.strides[d] < 0 ? first : last) += (view.sizes[d] - 1) * view.strides[d];
    CHECK(first >= 0);
    CHECK(last < buffer_of(plan, view).elements);
  };
  for (const KernelStep& step : plan.steps) {
    for (const Store& store : step.stores) {
      check(store.to);
      test::for_each_load(*store.value, check);
    }
    if (const auto* block = std::get_if<DepthwiseBlock>(&step.kernel)) {
      check(block->filter.in);
      check(block->filter.weights);
      if (block->expand) check(block->expand->a);
      if (block->expanded) test::for_each_load(*block->expanded, check);
      if (block->filtered) test::for_each_load(*block->filtered, check);
    } else if (const auto* product = std::get_if<MatrixProduct>(&step.kernel)) {
      check(product->a);
      check(product->weights.view);
    } else if (const auto* convolution = std::get_if<Convolution>(&step.kernel)) {
      check(convolution->weights);
      using Method = Convolution::Method;
      const bool four = convolution->method == Method::winograd_4, two = convolution->method == Method::winograd_2;
      const auto reach = [&](std::int64_t out, std::int64_t kernel, std::int64_t stride, std::int64_t dilation) {
        const std::int64_t side = four ? 4 : 2;
        if (four || two) return (out + side - 1) / side * side + 2;
        return (out - 1) * stride + (kernel - 1) * dilation + 1;
      };
      const Convolution& k = *convolution;
      if (k.method == Method::transposed) continue;
      check({k.in.buffer,
             k.in.offset,
             {k.images, reach(k.out_height, k.kernel_height, k.stride_height, k.dilation_height),
              reach(k.out_width, k.kernel_width, k.stride_width, k.dilation_width), k.channels},
             {k.in.strides[0], k.in.strides[2], k.in.strides[3], k.in.strides[1]}});
    } else if (const auto* rows = std::get_if<Rows>(&step.kernel)) {
      test::for_each_load(*rows->input, check);
    } else if (const auto* pooling = std::get_if<Pooling>(&step.kernel)) {
      check(pooling->in);
    } else if (const auto* attention = std::get_if<Attention>(&step.kernel)) {
      for (const View& view : {attention->q, attention->k, attention->v}) check(view);
    }
  }
}
}  // namespace

// --- what goes into the loop of a kernel -----------------------------------------------------------------------------

TEST_CASE("a linear layer with its bias and activation is one step") {
  Net net;
  Node* x = net.input("x", {8, 16});
  Node* linear = net.call(ops::linear, {x, net.weight("w", {32, 16}), net.weight("b", {32})}, {8, 32});
  const KernelPlan plan = net.plan_of(net.call(ops::relu, {linear}, {8, 32}));
  CHECK(nodes_of(plan) == "linear relu");
  CHECK(stored(plan, 0) == "relu(add(v, b))");
  const auto& product = kernel_of<MatrixProduct>(plan.steps[0]);
  CHECK(product.rows == 8);
  CHECK(product.columns == 32);
  CHECK(product.depth == 16);
  CHECK(product.a_row == 16);
  CHECK(product.weights.constant);
  CHECK(plan.attributes == std::vector<std::string>{"w", "b"});
  CHECK(plan.steps[0].flops == 2 * 8 * 16 * 32);
  CHECK(plan.arena_bytes == 0);
  REQUIRE(plan.outputs.size() == 1);
  CHECK(buffer_of(plan, plan.steps[0].stores[0].to).kind == Kind::output);
}

TEST_CASE("a residual is added in the loop of the last convolution, on the side where the graph has it") {
  for (const bool behind : {true, false}) {
    Net net;
    Node* x = net.input("x", {1, 8, 6, 6});
    Node* first = net.convolution(x, 8);
    Node* kept = net.call(ops::relu, {first}, {1, 8, 6, 6});
    Node* second = net.convolution(kept, 8);
    Node* sum = behind ? net.call(ops::add_Tensor, {second, kept}, {1, 8, 6, 6})
                       : net.call(ops::add_Tensor, {kept, second}, {1, 8, 6, 6});
    const KernelPlan plan = net.plan_of(net.call(ops::relu, {sum}, {1, 8, 6, 6}));
    CHECK(plan.steps.size() == 3);  // the first puts the input channels last
    CHECK(stored(plan, 1) == "relu(add(v, conv1_bias))");
    CHECK(stored(plan, 2) == (behind ? "relu(add(add(v, conv2_bias), relu))" : "relu(add(relu, add(v, conv2_bias)))"));
    check_bounds(plan);
  }
}

TEST_CASE("of two kernels that are added the later one takes the sum") {
  Net net;
  Node* x = net.input("x", {4, 16});
  Node* a = net.call(ops::linear, {x, net.weight("a", {8, 16})}, {4, 8});
  Node* b = net.call(ops::linear, {x, net.weight("b", {8, 16})}, {4, 8});
  const KernelPlan plan = net.plan_of(net.call(ops::sub_Tensor, {a, b}, {4, 8}));
  CHECK(plan.steps.size() == 2);
  CHECK(stored(plan, 0) == "v");
  CHECK(stored(plan, 1) == "subtract(linear, v)");
}

TEST_CASE("a value that two read is computed once") {
  Net net;
  Node* x = net.input("x", {4, 16});
  Node* e = net.call(ops::exp, {x}, {4, 16});
  Node* r = net.call(ops::relu, {e}, {4, 16});
  const KernelPlan plan = net.plan_of(Argument::tuple({r, net.call(ops::mul_Tensor, {e, e}, {4, 16})}));
  CHECK(plan.steps.size() == 3);
  CHECK(stored(plan, 0) == "exponential(x)");
  CHECK(stored(plan, 1) == "relu(exp)");
  CHECK(stored(plan, 2) == "multiply(exp, exp)");
}

TEST_CASE("what several read stays in one expression where all of it meets again") {
  Net net;
  Node* x = net.input("x", {4, 16});
  Node* e = net.call(ops::exp, {x}, {4, 16});
  Node* r = net.call(ops::relu, {e}, {4, 16});
  Node* n = net.call(ops::neg, {r}, {4, 16});
  Node* sum = net.call(ops::add_Tensor, {e, n}, {4, 16});
  const KernelPlan plan = net.plan_of(net.call(ops::mul_Tensor, {sum, r}, {4, 16}));
  REQUIRE(plan.steps.size() == 1);
  CHECK(nodes_of(plan) == "exp relu neg add mul");
  CHECK(plan.steps[0].flops == 5 * 4 * 16);  // each is computed once
  check_bounds(plan);
}

TEST_CASE("what several read is computed before where it does not all meet, or is read by others") {
  const auto steps = [](const auto& make) {
    Net net;
    Node* x = net.input("x", {4, 16});
    Node* e = net.call(ops::exp, {x}, {4, 16});
    return net.plan_of(make(net, e, net.call(ops::relu, {e}, {4, 16}))).steps.size();
  };
  const auto sum = [](Net& net, Node* a, Node* b) { return net.call(ops::add_Tensor, {a, b}, {4, 16}); };
  CHECK(steps(sum) == 1);
  CHECK(steps([&](Net& net, Node* e, Node* r) { return Argument::tuple({sum(net, e, r), r}); }) == 3);
  CHECK(steps([&](Net& net, Node* e, Node* r) { return Argument::tuple({sum(net, e, r), e}); }) == 2);
  CHECK(steps([&](Net& net, Node* e, Node* r) {
          Node* of_rows = net.call(ops::softmax_int, {r, -1}, {4, 16});
          return sum(net, e, of_rows);
        }) == 2);
  CHECK(steps([&](Net& net, Node* e, Node* r) {  // of other sizes on the way
          Node* turned = net.call(ops::transpose_int, {r, 0, 1}, {16, 4});
          return net.call(ops::add_Tensor, {net.call(ops::transpose_int, {e, 0, 1}, {16, 4}), turned}, {16, 4});
        }) == 3);
  // Many long functions behind each other are slower in one loop.
  CHECK(steps([&](Net& net, Node* e, Node* r) {
          Node* t = net.call(ops::tanh, {r}, {4, 16});
          return sum(net, net.call(ops::sigmoid, {e}, {4, 16}), t);
        }) == 2);
}

TEST_CASE("what several read of a kernel goes into its loop, unless another kernel comes between") {
  for (const bool between : {false, true}) {
    Net net;
    Node* x = net.input("x", {4, 16});
    Node* h = net.call(ops::linear, {x, net.weight("w", {8, 16}), net.weight("b", {8})}, {4, 8});
    Node* s = net.call(ops::sigmoid, {h}, {4, 8});
    Node* t = net.call(ops::tanh, {h}, {4, 8});
    Node* e = net.call(ops::exp, {net.call(ops::mul_Tensor, {s, t}, {4, 8})}, {4, 8});
    if (between) e = net.call(ops::mul_Tensor, {e, net.call(ops::linear, {x, net.weight("u", {8, 16})}, {4, 8})}, {4, 8});
    const KernelPlan plan = net.plan_of(net.call(ops::add_Tensor, {e, h}, {4, 8}));
    REQUIRE(plan.steps.size() == (between ? 2 : 1));
    if (between) CHECK(stored(plan, 0) == "add(v, b)");
    else CHECK(nodes_of(plan) == "linear sigmoid tanh mul exp add");
    std::size_t products = 0;
    for (const KernelStep& step : plan.steps) products += std::holds_alternative<MatrixProduct>(step.kernel);
    CHECK(products == plan.steps.size());
    check_bounds(plan);
  }
}

TEST_CASE("a chain of squares is cut before it doubles too often") {
  Net net;
  Node* x = net.input("x", {16});
  for (int i = 0; i < 30; ++i) x = net.call(ops::mul_Tensor, {x, x}, {16});
  const KernelPlan plan = net.plan_of(x);
  CHECK(plan.steps.size() > 2);
  CHECK(plan.steps.size() < 30);
  std::size_t nodes = 0;
  for (const KernelStep& step : plan.steps) {
    CHECK(test::calls_in(*step.stores[0].value) < 200);
    nodes += step.nodes.size();
  }
  CHECK(nodes == 30);
}

TEST_CASE("softmax takes what is before and behind it into its loops") {
  Net net;
  Node* x = net.input("x", {2, 3, 40});
  Node* scaled = net.call(ops::mul_Scalar, {x, 0.5}, {2, 3, 40});
  Node* weights = net.call(ops::softmax_int, {scaled, -1}, {2, 3, 40});
  const KernelPlan plan = net.plan_of(net.call(ops::mul_Scalar, {weights, 2}, {2, 3, 40}));
  CHECK(nodes_of(plan) == "mul softmax mul_1");
  const auto& rows = kernel_of<Rows>(plan.steps[0]);
  CHECK(rows.kind == Rows::Kind::softmax);
  CHECK(rows.rows == 6);
  CHECK(rows.length == 40);
  CHECK(test::text_of(plan, *rows.input) == "multiply(x, 0.500000)");
  CHECK(stored(plan, 0) == "multiply(v, 2)");
}

TEST_CASE("softmax of another dimension than the last reads with that stride") {
  Net net;
  Node* x = net.input("x", {2, 30, 5});
  const KernelPlan plan = net.plan_of(net.call(ops::softmax_int, {x, 1}, {2, 30, 5}));
  const auto& rows = kernel_of<Rows>(plan.steps[0]);
  CHECK(rows.rows == 10);
  CHECK(rows.length == 30);
}

TEST_CASE("a product before a softmax is a step of its own, a broadcast operand too") {
  Net net;
  Node* x = net.input("x", {4, 16});
  Node* linear = net.call(ops::linear, {x, net.weight("w", {8, 16})}, {4, 8});
  Node* row = net.call(ops::relu, {net.input("y", {8})}, {8});
  Node* sum = net.call(ops::add_Tensor, {linear, row}, {4, 8});
  const KernelPlan plan = net.plan_of(net.call(ops::softmax_int, {sum, 1}, {4, 8}));
  CHECK(nodes_of(plan) == "relu, linear add, softmax");
  CHECK(stored(plan, 1) == "add(v, relu)");
}

TEST_CASE("rows of a table are looked up where they are added") {
  Net net;
  Node* ids = net.input("ids", {2, 7}, Dtype::int64);
  Node* words = net.call(ops::embedding, {net.weight("words", {100, 12}), ids}, {2, 7, 12});
  Node* places = net.input("places", {7, 12});
  const KernelPlan plan = net.plan_of(net.call(ops::add_Tensor, {words, places}, {2, 7, 12}));
  CHECK(plan.steps.size() == 1);
  CHECK(stored(plan, 0) == "add(words[ids], places)");
}

TEST_CASE("what is told by indices is read where it is used, with stride 0 along what they tell") {
  Net net;
  Node* x = net.input("x", {4, 5, 6});
  Node* deep = net.input("deep", {2, 5, 6}, Dtype::int64);
  Node* few = net.input("few", {3}, Dtype::int64);
  Node* column = net.input("column", {7, 1}, Dtype::int64);
  Node* a = net.call(ops::relu, {net.call(ops::gather, {x, 0, deep}, {2, 5, 6})}, {2, 5, 6});
  Node* b = net.call(ops::index_select, {x, -1, few}, {4, 5, 3});
  Node* c = net.call(ops::index_Tensor, {x, listed({column, {}, few})}, {7, 3, 5});
  Node* d = net.call(ops::index_Tensor, {x, listed({{}, column, few})}, {4, 7, 3});
  const KernelPlan plan = net.plan_of(Argument::tuple({a, b, c, d}));
  CHECK(plan.called_back().empty());
  CHECK(stored(plan, 0) == "relu(x[deep])");
  CHECK(stored(plan, 1) == "x[few]");
  CHECK(stored(plan, 2) == "x[column, few]");
  const auto term = [&](std::size_t step) -> const Term& {
    const Term& value = *plan.steps[step].stores[0].value;
    return value.kind == Term::Kind::lookup ? value : *value.operands[0];
  };
  using Dimensions = std::vector<Term::Dimension>;
  CHECK(term(0).view.strides == Sizes{0, 6, 1});
  CHECK((term(0).looked_up == Dimensions{{4, 30, false}}));
  CHECK(term(1).view.strides == Sizes{30, 6, 0});
  CHECK((term(1).looked_up == Dimensions{{6, 1, false}}));
  CHECK(term(1).operands[0]->view.strides == Sizes{0, 0, 1});
  // Indices with something between them stand in front.
  CHECK(term(2).view.strides == Sizes{0, 0, 6});
  CHECK((term(2).looked_up == Dimensions{{4, 30, true}, {6, 1, true}}));
  CHECK(term(2).operands[0]->view.strides == Sizes{1, 0, 0});
  CHECK(term(2).operands[1]->view.strides == Sizes{0, 1, 0});
  CHECK(term(3).view.strides == Sizes{30, 0, 0});
  CHECK(term(3).operands[1]->view.strides == Sizes{0, 0, 1});
  check_bounds(plan);
}

TEST_CASE("the largest of rows and their places are two kernels, of which those that nobody takes are not there") {
  for (const bool both : {true, false}) {
    Net net;
    Node* x = net.call(ops::exp, {net.input("x", {4, 9})}, {4, 9});
    Node* most = net.calls(ops::max_dim, {x, 1});
    Node* places = net.item(most, 1, {4}, Dtype::int64);
    std::vector<Argument> results = {net.call(ops::add_Scalar, {places, 1}, {4}, Dtype::int64)};
    if (both) results.push_back(net.item(most, 0, {4}));
    const KernelPlan plan = net.plan_of(Argument::tuple(std::move(results)));
    CHECK(plan.called_back().empty());
    REQUIRE(plan.steps.size() == (both ? 3 : 1));
    const std::size_t at = both ? 1 : 0;  // exp is computed once for both, and in the loop of one
    CHECK(kernel_of<Rows>(plan.steps[at]).kind == Rows::Kind::arg_largest);
    CHECK(stored(plan, at) == "add(v, 1)");
    CHECK(test::text_of(plan, *kernel_of<Rows>(plan.steps[at]).input) == (both ? "exp" : "exponential(x)"));
    if (both) CHECK(kernel_of<Rows>(plan.steps[2]).kind == Rows::Kind::largest);
  }
}

TEST_CASE("integers, masks and floats become each other where LibTorch makes them one dtype") {
  Net net;
  Node* n = net.input("n", {6}, Dtype::int64);
  Node* m = net.input("m", {6}, Dtype::boolean);
  Node* x = net.input("x", {6});
  const auto integers = [&](Node* left, Argument right) {
    return net.call(ops::mul_Tensor, {left, std::move(right)}, {6}, Dtype::int64);
  };
  Node* halves = net.call(ops::mul_Scalar, {integers(n, n), 0.5}, {6});
  Node* whole = net.call(ops::to_dtype, {net.call(ops::relu, {x}, {6}), Dtype::int64}, {6}, Dtype::int64);
  Node* above = net.call(ops::gt_Scalar, {n, 2.5}, {6}, Dtype::boolean);
  const KernelPlan plan =
      net.plan_of(Argument::tuple({net.call(ops::add_Tensor, {x, n, 2}, {6}), integers(n, m), halves, whole, above,
                                   net.call(ops::sum, {m}, {}, Dtype::int64)}));
  CHECK(plan.called_back().empty());
  REQUIRE(plan.steps.size() == 6);
  CHECK(stored(plan, 0) == "add(x, multiply(n, 2))");
  CHECK(stored(plan, 1) == "multiply(n, select(m, 1, 0))");
  CHECK(stored(plan, 2) == "multiply(real(multiply(n, n)), 0.500000)");
  CHECK(stored(plan, 3) == "integer(relu(x))");
  CHECK(stored(plan, 4) == "greater(n, 2.500000)");
  CHECK(stored(plan, 5) == "integer(v)");
  CHECK(plan.steps[4].stores[0].value->operands[0]->elements == Elements::real);
}

// --- views -----------------------------------------------------------------------------------------------------------

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

// --- images ----------------------------------------------------------------------------------------------------------

TEST_CASE("images lie channels last, with the border that the convolution behind reads") {
  Net net;
  Node* x = net.input("x", {2, 3, 10, 12});
  Node* first = net.call(ops::relu, {net.convolution(x, 8)}, {2, 8, 10, 12});
  const KernelPlan plan = net.plan_of(net.convolution(first, 4));
  CHECK(plan.steps.size() == 3);
  const View& in = plan.steps[0].stores[0].to;
  CHECK(buffer_of(plan, in).border == Buffer::Border{1, 1, 1, 1});
  CHECK(buffer_of(plan, in).image == Sizes{2, 12, 14, 3});
  CHECK(in.strides == Sizes{12 * 14 * 3, 1, 14 * 3, 3});
  CHECK(in.offset == 15 * 3);
  const auto& convolution = kernel_of<Convolution>(plan.steps[1]);
  CHECK(convolution.method == Convolution::Method::direct);
  CHECK(convolution.in.offset == 0);  // at the first pixel of the border
  CHECK(buffer_of(plan, plan.steps[1].stores[0].to).border == Buffer::Border{1, 1, 1, 1});
  // The caller wants its result as LibTorch lays it out.
  CHECK(plan.steps[2].stores[0].to.strides == dense_strides({2, 4, 10, 12}));
  check_bounds(plan);
}

TEST_CASE("a result that lies channels last in LibTorch is written so") {
  Net net;
  Node* x = net.input("x", {1, 8, 6, 6});
  Node* y = net.convolution(x, 4);
  TensorMeta meta = *y->tensor_meta();
  meta.stride = {4 * 36, 1, 24, 4};
  y->set_tensor_meta(meta);
  CHECK(net.plan_of(y).outputs[0].view.strides == meta.stride);
}

TEST_CASE("Winograd's algorithm is taken where accuracy lets it, and where tiles are many") {
  using Method = Convolution::Method;
  const auto method = [](Sizes in, std::int64_t channels, Accuracy accuracy) {
    Net net;
    const KernelPlan plan = net.plan_of(net.convolution(net.input("x", in), channels), {.accuracy = accuracy});
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
  CHECK(method({1, 64, 1, 1}, 64, Accuracy::standard) == Method::direct);
}

TEST_CASE("weights that come from far are weighed against what Winograd's algorithm saves") {
  using Method = Convolution::Method;
  const auto method = [](std::int64_t channels, std::int64_t side, double flops_per_byte) {
    Net net;
    const KernelPlan plan = net.plan_of(net.convolution(net.input("x", {1, channels, side, side}), channels),
                                        {.processor = {.flops_per_byte = flops_per_byte}});
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
    LowerOptions options;
    for (const KernelStep& step : net.plan().steps)
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
    const Method estimated = kernel_of<Convolution>(net.plan().steps[1]).method;
    for (const Said other : {Said::joined, Said::apart}) {
      for (auto& [shape, way] : options.ways) way = {.method = other};
      CHECK(kernel_of<Convolution>(net.plan(options).steps[1]).method == estimated);
    }
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

TEST_CASE("convolutions of single channels and of single pixels have kernels of their own") {
  Net net;
  Node* x = net.input("x", {1, 32, 8, 8});
  Node* depthwise = net.convolution(x, 32, 3, 32);
  Node* pixelwise = net.convolution(depthwise, 48, 1);
  const KernelPlan plan = net.plan_of(net.call(ops::relu, {pixelwise}, {1, 48, 8, 8}));
  CHECK(plan.steps.size() == 3);
  CHECK(kernel_of<Convolution>(plan.steps[1]).method == Convolution::Method::depthwise);
  const auto& product = kernel_of<MatrixProduct>(plan.steps[2]);
  CHECK(product.rows == 64);
  CHECK(product.columns == 48);
  CHECK(product.depth == 32);
  check_bounds(plan);
}

namespace {
/// A pixelwise product, a convolution of single channels with stride 2 where `stride` says so, a product with a residual.
struct Bottleneck {
  Net net;
  Node *x = nullptr, *in = nullptr, *expanded = nullptr, *filtered = nullptr, *out = nullptr;
  explicit Bottleneck(std::int64_t side, std::int64_t channels, std::int64_t wide) {
    x = net.input("x", {1, channels, side, side});
    in = net.call(ops::relu, {net.convolution(x, channels)}, {1, channels, side, side});
    expanded = net.call(ops::relu, {net.convolution(in, wide, 1)}, {1, wide, side, side});
    filtered = net.call(ops::relu, {net.convolution(expanded, wide, 3, wide)}, {1, wide, side, side});
    out = net.call(ops::add_Tensor, {in, net.convolution(filtered, channels, 1)}, {1, channels, side, side});
  }
};
}  // namespace

TEST_CASE("what is wide between a convolution of single channels and the products around it is computed by rows") {
  Bottleneck b(64, 16, 96);
  const KernelPlan plan = b.net.plan_of(b.out);
  REQUIRE(plan.steps.size() == 3);
  const auto& block = kernel_of<DepthwiseBlock>(plan.steps[2]);
  REQUIRE(block.expand);
  REQUIRE(block.project);
  CHECK(block.expand->columns == 96);
  CHECK(block.project->depth == 96);
  CHECK(block.filter.in.buffer == -1);
  CHECK(block.filter.padding_height == 1);
  CHECK(block.filter.padding_width == 1);
  CHECK(test::text_of(plan, *block.expanded) == "relu(add(v, conv2_bias))");
  CHECK(test::text_of(plan, *block.filtered) == "relu(add(v, conv3_bias))");
  CHECK(stored(plan, 2) == "add(relu, add(v, conv4_bias))");
  CHECK(plan.steps[2].flops == 2. * 64 * 64 * 96 * (16 + 9 + 16));
  // Neither the wide images nor their border are in memory.
  CHECK(plan.arena_bytes < 64 * 64 * 96 * 4);
  CHECK(plan.to_string().find("product, depthwise, product  3 x 3, 16 -> 96 -> 64 x 64 x 16") != std::string::npos);
  check_bounds(plan);
}

TEST_CASE("small images, and what others read too, stay whole") {
  Bottleneck small(32, 16, 96);
  CHECK(small.net.plan_of(small.out).steps.size() == 5);
  // The product before is returned: only the one behind is joined.
  Bottleneck before(64, 16, 96);
  KernelPlan plan = before.net.plan_of(Argument::tuple({before.out, before.expanded}));
  bool found = false;
  for (const KernelStep& step : plan.steps)
    if (const auto* block = std::get_if<DepthwiseBlock>(&step.kernel)) {
      found = true;
      CHECK_FALSE(block->expand);
      CHECK(block->project);
      CHECK(block->filter.in.buffer >= 0);
    }
  CHECK(found);
  check_bounds(plan);
  Bottleneck behind(64, 16, 96);
  Node* again = behind.net.call(ops::relu, {behind.filtered}, {1, 96, 64, 64});
  plan = behind.net.plan_of(Argument::tuple({behind.out, again}));
  found = false;
  for (const KernelStep& step : plan.steps)
    if (const auto* block = std::get_if<DepthwiseBlock>(&step.kernel)) {
      found = true;
      CHECK(block->expand);
      CHECK_FALSE(block->project);
    }
  CHECK(found);
  check_bounds(plan);
}

TEST_CASE("one image serves several convolutions, with the largest of their borders") {
  Net net;
  Node* x = net.input("x", {1, 4, 9, 9});
  Node* r = net.call(ops::relu, {x}, {1, 4, 9, 9});
  Node* small = net.convolution(r, 4, 3);
  Node* large = net.convolution(r, 4, 7);
  const KernelPlan plan = net.plan_of(net.call(ops::add_Tensor, {small, large}, {1, 4, 9, 9}));
  CHECK(plan.steps.size() == 3);
  CHECK(buffer_of(plan, plan.steps[0].stores[0].to).border == Buffer::Border{3, 3, 3, 3});
  CHECK(kernel_of<Convolution>(plan.steps[1]).in.offset == (2 * 15 + 2) * 4);
  CHECK(stored(plan, 2) == "add(conv2d, add(v, conv2_bias))");
}

TEST_CASE("channels of images are put beside each other without a copy") {
  Net net;
  Node* x = net.input("x", {1, 8, 8, 8});
  Node* a = net.call(ops::relu, {net.convolution(x, 16)}, {1, 16, 8, 8});
  Node* b = net.convolution(a, 8);
  Node* whole = net.call(ops::cat, {listed({a, b}), 1}, {1, 24, 8, 8});
  const KernelPlan plan = net.plan_of(net.convolution(whole, 4));
  CHECK(plan.steps.size() == 4);
  const Buffer& image = buffer_of(plan, plan.steps[1].stores[0].to);
  CHECK(image.image == Sizes{1, 10, 10, 24});
  CHECK(&image == &buffer_of(plan, plan.steps[2].stores[0].to));
  CHECK(kernel_of<Convolution>(plan.steps[2]).in.strides[3] == 24);
  check_bounds(plan);
}

TEST_CASE("sequences are images of one row, with the border that the convolution behind reads") {
  Net net;
  Node* x = net.input("x", {2, 3, 20});
  const auto convolution = [&](Node* from, std::int64_t channels, std::int64_t kernel, std::int64_t padding,
                               std::int64_t dilation = 1) {
    const Sizes in = from->tensor_meta()->shape;
    const std::string name = "w" + std::to_string(net.graph.size());
    return net.call(ops::conv1d,
                    {from, net.weight(name, {channels, in[1], kernel}), Argument{}, 1, listed({padding}), dilation},
                    {in[0], channels, in[2] + 2 * padding - (kernel - 1) * dilation});
  };
  Node* a = net.call(ops::relu, {convolution(x, 8, 3, 1)}, {2, 8, 20});
  Node* b = net.call(ops::relu, {convolution(a, 8, 5, 4, 2)}, {2, 8, 20});
  Node* sum = net.call(ops::add_Tensor, {a, b}, {2, 8, 20});
  Node* pooled = net.call(ops::max_pool1d, {sum, listed({2})}, {2, 8, 10});
  Node* joined = net.call(ops::cat, {listed({pooled, pooled}), 1}, {2, 16, 10});
  const KernelPlan plan = net.plan_of(convolution(joined, 4, 1, 0));
  CHECK(plan.called_back().empty());
  check_bounds(plan);
  REQUIRE(plan.steps.size() == 6);
  CHECK(buffer_of(plan, plan.steps[0].stores[0].to).border == Buffer::Border{0, 1, 0, 1});
  const auto& first = kernel_of<Convolution>(plan.steps[1]);
  CHECK(first.images == 2);
  CHECK(first.out_height == 1);
  CHECK(first.out_width == 20);
  CHECK(first.kernel_height == 1);
  CHECK(first.kernel_width == 3);
  CHECK(first.weights.sizes == Sizes{8, 3, 1, 3});
  CHECK(first.in.sizes == Sizes{2, 3, 1, 20});
  const View& to = plan.steps[1].stores[0].to;
  CHECK(buffer_of(plan, to).image == Sizes{2, 1, 28, 8});
  CHECK(to.sizes == Sizes{2, 8, 20});
  CHECK(to.strides == Sizes{28 * 8, 1, 8});
  CHECK(to.offset == 4 * 8);
  const auto& second = kernel_of<Convolution>(plan.steps[2]);
  CHECK(second.dilation_height == 1);
  CHECK(second.dilation_width == 2);
  CHECK(second.in.offset == 0);
  CHECK(kernel_of<Pooling>(plan.steps[3]).kernel_height == 1);
  CHECK(kernel_of<Pooling>(plan.steps[3]).in_width == 20);
  CHECK(kernel_of<MatrixProduct>(plan.steps[5]).rows == 20);
  CHECK(kernel_of<MatrixProduct>(plan.steps[5]).a_row == 16);
}

TEST_CASE("tokens that are turned are a sequence where they lie") {
  Net net;
  Node* x = net.input("x", {2, 30, 16});
  Node* turned = net.call(ops::transpose_int, {x, 1, 2}, {2, 16, 30});
  Node* y = net.call(ops::conv1d, {turned, net.weight("w", {24, 16, 1})}, {2, 24, 30});
  Node* z = net.call(ops::conv1d, {turned, net.weight("w2", {24, 16, 3})}, {2, 24, 28});
  const KernelPlan plan = net.plan_of(Argument::tuple({net.call(ops::transpose_int, {y, 1, 2}, {2, 30, 24}), z}));
  CHECK(kernel_of<MatrixProduct>(plan.steps[0]).a == View{0, 0, {60, 16}, {16, 1}});
  CHECK(kernel_of<Convolution>(plan.steps[2]).in == View{0, 0, {2, 16, 1, 30}, {480, 1, 480, 16}});
  check_bounds(plan);
}

TEST_CASE("what is turned round is read from its end, in the loop of who reads it") {
  Net net;
  Node* x = net.input("x", {4, 6});
  Node* flipped = net.call(ops::flip, {x, listed({0, -1})}, {4, 6});
  Node* image = net.input("image", {1, 8, 6, 5});
  Node* mirrored = net.call(ops::flip, {net.convolution(image, 8), listed({3})}, {1, 8, 6, 5});
  const KernelPlan plan =
      net.plan_of(Argument::tuple({net.call(ops::relu, {flipped}, {4, 6}), net.convolution(mirrored, 8)}));
  CHECK(plan.called_back().empty());
  check_bounds(plan);
  REQUIRE(plan.steps.size() == 5);
  CHECK(stored(plan, 3) == "relu(x)");
  CHECK(plan.steps[3].stores[0].value->operands[0]->view == View{0, 23, {4, 6}, {-6, -1}});
  // A convolution reads memory that runs forwards, with a border around it.
  CHECK(stored(plan, 2) == "conv2d");
  CHECK(plan.steps[2].stores[0].value->view.strides[3] == -8);
  CHECK(kernel_of<Convolution>(plan.steps[4]).in.strides[3] == 8);
  CHECK_FALSE(buffer_of(plan, plan.steps[2].stores[0].to).border.empty());
}

// --- what is called back, and what is refused ------------------------------------------------------------------------

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

// --- results ---------------------------------------------------------------------------------------------------------

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
  for (const char* words : {"winograd 4 x 4", "3 x 3, 16 -> 16 x 16 x 16", "max pool", "2 x 2, 16 x 16 x 16 -> 8 x 8",
                            "call back", "no kernel", "4 steps", "arena"})
    CHECK(text.find(words) != std::string::npos);
  CHECK(plan.to_string({1e-6, 2e-6, 3e-6, 4e-6}).find("us\n") != std::string::npos);
}
