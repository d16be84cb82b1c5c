// What goes into the loop of a kernel: what is before and behind it, once or written again, and what is read with it.
#include <doctest/doctest.h>

#include "codegen/lower/bounds.hpp"
#include "codegen/lowered.hpp"
#include "fxx/codegen/lower.hpp"

using namespace fxx;
using namespace fxx::plans;
using test::buffer_of;
using test::check_bounds;
using test::kernel_of;
using test::listed;
using test::Net;
using test::nodes_of;
using test::stored;
using Kind = Buffer::Kind;

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
    if (between)
      e = net.call(ops::mul_Tensor, {e, net.call(ops::linear, {x, net.weight("u", {8, 16})}, {4, 8})}, {4, 8});
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
  CHECK(stored(plan, 0) == "multiply_add(n, 2, x)");
  CHECK(stored(plan, 1) == "multiply(n, select(m, 1, 0))");
  CHECK(stored(plan, 2) == "multiply(real(multiply(n, n)), 0.500000)");
  CHECK(stored(plan, 3) == "integer(relu(x))");
  CHECK(stored(plan, 4) == "greater(n, 2.500000)");
  CHECK(stored(plan, 5) == "integer(v)");
  CHECK(plan.steps[4].stores[0].value->operands[0]->elements == Elements::real);
}
