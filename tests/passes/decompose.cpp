// Operators that are others put together: which those are, with names, sizes and what stays as it is. That numbers are the
// same is tested with LibTorch (torch/compile/composed.cpp).
#include "fxx/passes/decompose.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "fxx/ops/onednn.hpp"
#include "fxx/ops/operation.hpp"
#include "fxx/ops/registry.hpp"
#include "fxx/passes/dead_code.hpp"
#include "fxx/passes/stable_order.hpp"
#include "graph_text.hpp"

using namespace fxx;
using test::body_of;

namespace {

Node* sized(Node* node, std::vector<std::int64_t> shape, Dtype dtype = Dtype::float32) {
  node->set_tensor_meta({.shape = std::move(shape), .stride = {}, .dtype = dtype});
  return node;
}
std::ptrdiff_t count_of(const Graph& graph, const Operator& op) {
  return std::ranges::count_if(graph.nodes(), [&](const Node* n) {
    const Operator* called = operator_of(*n);
    return called && called->name == op.name;
  });
}
/// A graph of one call, whose result has the name of its operator.
struct One {
  Graph graph;
  std::vector<Argument> inputs;

  explicit One(const std::vector<std::vector<std::int64_t>>& sizes, Dtype dtype = Dtype::float32) {
    for (std::size_t i = 0; i < sizes.size(); ++i)
      inputs.emplace_back(sized(graph.placeholder(std::string(1, static_cast<char>('a' + i))), sizes[i], dtype));
  }
  std::string after(const Operator& op, std::vector<Argument> arguments, std::vector<std::int64_t> shape) {
    graph.output(sized(graph.call_function(op, std::move(arguments)), std::move(shape)));
    const std::size_t size = graph.size();
    replaced = decompose(graph);
    eliminate_dead_code(graph);
    graph.lint();
    CHECK((replaced > 0 || graph.size() == size));
    return body_of(graph);
  }
  std::size_t replaced = 0;
};

}  // namespace

TEST_CASE("products with vectors are sums of products") {
  One mv({{4, 7}, {7}});
  CHECK(mv.after(ops::mv, {mv.inputs[0], mv.inputs[1]}, {4}) ==
        "mul = aten::mul.Tensor(%a, %b)\nmv = aten::sum.dim_IntList(%mul, [-1], False)\nreturn %mv\n");
  CHECK(mv.replaced == 1);
  One row({{4}, {4, 7}});
  CHECK(row.after(ops::matmul, {row.inputs[0], row.inputs[1]}, {7}) ==
        "unsqueeze = aten::unsqueeze(%a, 0)\nmatmul_1 = aten::matmul(%unsqueeze, %b)\n"
        "matmul = aten::select.int(%matmul_1, -2, 0)\nreturn %matmul\n");
}

TEST_CASE("matrices stay matrices") {
  One both({{4, 7}, {7, 3}});
  both.after(ops::matmul, {both.inputs[0], both.inputs[1]}, {4, 3});
  CHECK(both.replaced == 0);
}

TEST_CASE("einsum of two operands is one product of matrices, whatever the order of dimensions") {
  One product({{2, 3, 5, 7}, {2, 3, 7, 4}});
  const std::string text =
      product.after(ops::einsum, {"bhij,bhjk->bkhi", Argument::list(product.inputs)}, {2, 4, 3, 5});
  CHECK(text.find("aten::matmul") != text.npos);
  CHECK(text.find("aten::mul") == text.npos);
  One scores({{11, 3, 5}, {3, 5}});
  CHECK(scores.after(ops::einsum, {"nhd,hd->nh", Argument::list(scores.inputs)}, {11, 3}) ==
        "unsqueeze = aten::unsqueeze(%b, 0)\nmul = aten::mul.Tensor(%a, %unsqueeze)\n"
        "einsum = aten::sum.dim_IntList(%mul, [2], False)\nreturn %einsum\n");
}

TEST_CASE("an equation that is not understood stays: sizes that do not fit, too few letters") {
  for (const char* equation : {"ij,jk->ik", "ij,kl", "i,j->ij", "ij->", "ij,jk->iz", "ij,jj->i"}) {
    One one({{2, 3}, {4, 5}});
    one.after(ops::einsum, {equation, Argument::list(one.inputs)}, {2, 5});
    CHECK(one.replaced == (std::string(equation) == "ij,kl" ? 1 : 0));
  }
}

TEST_CASE("sizes that are not known, and dtypes that kernels do not have, leave a call as it is") {
  One dynamic({{-2, 7}, {7}});
  dynamic.after(ops::mv, {dynamic.inputs[0], dynamic.inputs[1]}, {-2});
  CHECK(dynamic.replaced == 0);
  One wide({{4, 7}, {7}}, Dtype::float64);
  wide.after(ops::mv, {wide.inputs[0], wide.inputs[1]}, {4});
  CHECK(wide.replaced == 0);
  // Rearrangements know no dtypes, but for complex numbers, which some of them change.
  One view({{4, 7}}, Dtype::float64);
  CHECK(view.after(ops::mT, {view.inputs[0]}, {7, 4}) == "m_t = aten::transpose.int(%a, -2, -1)\nreturn %m_t\n");
  One complex({{4, 7}}, Dtype::complex64);
  complex.after(ops::mH, {complex.inputs[0]}, {7, 4});
  CHECK(complex.replaced == 0);
}

TEST_CASE("of several results each taker gets its own; one that is not made keeps the call") {
  for (const int second : {1, 2}) {
    Graph g;
    Node* x = sized(g.placeholder("x"), {2, 6, 5});
    Node* parts = g.call_function(ops::tensor_split_sections, {x, 2, 1});
    Node* a = sized(g.call_function(ops::operator_getitem, {parts, 0}), {2, 3, 5});
    Node* b = sized(g.call_function(ops::operator_getitem, {parts, second}), {2, 3, 5});
    g.output(Argument::tuple({a, b}));
    CHECK(decompose(g) == (second == 1 ? 1 : 0));
    g.lint();
    if (second == 1)
      CHECK(body_of(g) ==
            "getitem = aten::slice.Tensor(%x, 1, 0, 3)\ngetitem_1 = aten::slice.Tensor(%x, 1, 3, 6)\n"
            "return (%getitem, %getitem_1)\n");
  }
}

TEST_CASE("what LibTorch refuses has no sizes, and stays for it to say so") {
  const Argument two = Argument::list({2, 2, 2}), nine = Argument::list({9, 9, 9});
  const auto stays = [](const Operator& op, std::vector<std::int64_t> weight, std::vector<Argument> more) {
    Graph g;
    std::vector<Argument> arguments{sized(g.placeholder("x"), {1, 4, 8, 8, 8})};
    if (!weight.empty()) arguments.emplace_back(sized(g.placeholder("w"), weight));
    arguments.insert(arguments.end(), more.begin(), more.end());
    g.output(g.call_function(op, arguments));
    return decompose(g) == 0;
  };
  CHECK(stays(ops::conv3d, {8, 3, 3, 3, 3}, {}));
  CHECK(stays(ops::conv_transpose3d_input, {3, 8, 2, 2, 2}, {Argument(), two}));
  CHECK(stays(ops::avg_pool3d, {}, {nine}));
  CHECK(stays(ops::max_pool3d, {}, {nine}));
  One dot({{2, 3}, {3, 2}});
  dot.after(ops::tensordot, {dot.inputs[0], dot.inputs[1], Argument::list({0, 1}), Argument::list({0})}, {2});
  CHECK(dot.replaced == 0);
  for (const bool from : {false, true}) {
    One moved({{2, 3, 4}});
    const Argument twice = Argument::list({1, 1}), once = Argument::list({0, 1});
    moved.after(ops::movedim_intlist, {moved.inputs[0], from ? twice : once, from ? once : twice}, {2, 3, 4});
    CHECK(moved.replaced == 0);
  }
}

TEST_CASE("what rounds between its parts is taken apart in single precision alone, norms of real numbers alone") {
  for (const Dtype dtype : {Dtype::float32, Dtype::bfloat16, Dtype::float16, Dtype::float64}) {
    One gated({{4, 6}}, dtype);
    gated.after(ops::glu, {gated.inputs[0], 1}, {4, 3});
    CHECK(gated.replaced == (dtype == Dtype::float32 ? 1 : 0));
  }
  for (const Dtype dtype : {Dtype::float32, Dtype::int64}) {
    Graph g;
    Node *a = sized(g.placeholder("a"), {4, 6}), *b = sized(g.placeholder("b"), {4, 6}, dtype);
    g.output(sized(g.call_function(ops::cosine_similarity, {a, b}), {4}));
    CHECK(decompose(g) == (dtype == Dtype::float32 ? 1 : 0));
  }
}

TEST_CASE("a batch norm that infers is a factor and a summand of each channel, where its statistics are constants") {
  enum class What { constants, no_weight, inputs, training, laid_out_otherwise };
  const auto made = [](What what) {
    Graph g;
    std::vector<Argument> arguments = {sized(g.placeholder("x"), {2, 3, 4, 4})};
    for (const char* name : {"weight", "bias", "mean", "variance"})
      arguments.emplace_back(sized(what == What::inputs ? g.placeholder(name) : g.get_attr(name), {3}));
    if (what == What::no_weight) arguments[1] = arguments[2] = Argument();
    for (const Argument& last : {Argument(what == What::training), Argument(0.1), Argument(1e-5), Argument(false)})
      arguments.push_back(last);
    Node* norm = sized(g.call_function(ops::batch_norm, arguments), {2, 3, 4, 4});
    if (what == What::laid_out_otherwise)
      norm->set_tensor_meta({.shape = {2, 3, 4, 4}, .stride = {48, 1, 12, 3}, .dtype = Dtype::float32});
    g.output(norm);
    return decompose(g) == 0 ? std::string("as it was") : body_of(g);
  };
  CHECK(made(What::constants) ==
        "weight = attribute weight\nbias = attribute bias\nmean = attribute mean\nvariance = attribute variance\n"
        "add = aten::add.Scalar(%variance, 1e-05)\nrsqrt = aten::rsqrt(%add)\nmul = aten::mul.Tensor(%rsqrt, %weight)\n"
        "mul_1 = aten::mul.Tensor(%mean, %mul)\nsub = aten::sub.Tensor(%bias, %mul_1)\n"
        "reshape = aten::reshape(%mul, [3, 1, 1])\nmul_2 = aten::mul.Tensor(%x, %reshape)\n"
        "reshape_1 = aten::reshape(%sub, [3, 1, 1])\nbatch_norm = aten::add.Tensor(%mul_2, %reshape_1)\n"
        "return %batch_norm\n");
  CHECK(made(What::no_weight).find("neg = aten::neg(%mul)\n") != std::string::npos);
  for (const What what : {What::inputs, What::training, What::laid_out_otherwise}) CHECK(made(what) == "as it was");
}

TEST_CASE("a chain of products goes the cheapest way") {
  const auto chained = [](std::vector<std::vector<std::int64_t>> sizes, std::vector<std::int64_t> result) {
    One chain(sizes);
    return chain.after(ops::linalg_multi_dot, {Argument::list(chain.inputs)}, std::move(result));
  };
  CHECK(chained({{1000, 2}, {2, 1000}, {1000, 1}}, {1000, 1}) ==
        "mm = aten::mm(%b, %c)\nlinalg_multi_dot = aten::mm(%a, %mm)\nreturn %linalg_multi_dot\n");
  CHECK(chained({{1, 1000}, {1000, 2}, {2, 1000}}, {1, 1000}) ==
        "mm = aten::mm(%a, %b)\nlinalg_multi_dot = aten::mm(%mm, %c)\nreturn %linalg_multi_dot\n");
  // A vector behind them: from the right.
  CHECK(chained({{4, 5}, {5, 6}, {6}}, {4}) ==
        "unsqueeze = aten::unsqueeze(%c, 1)\nmm = aten::mm(%b, %unsqueeze)\nmm_1 = aten::mm(%a, %mm)\n"
        "linalg_multi_dot = aten::select.int(%mm_1, 1, 0)\nreturn %linalg_multi_dot\n");
}

TEST_CASE("sizes, type and place of the call are those of what takes its place") {
  Graph g;
  Node* x = sized(g.placeholder("x"), {3, 4});
  Node* norm = sized(g.call_function(ops::pairwise_distance, {x, x}), {3});
  norm->set_type("Tensor");
  g.output(norm);
  REQUIRE(decompose(g) == 1);
  const Node* made = g.output_node()->arg(0).node();
  CHECK(made->name() == "pairwise_distance");
  CHECK(made->type() == "Tensor");
  REQUIRE(made->tensor_meta());
  CHECK(made->tensor_meta()->shape == std::vector<std::int64_t>{3});
}

TEST_CASE(
    "a simple recurrent layer is a product for the inputs of all steps, and one a step; an LSTM stays, and so do many "
    "steps") {
  for (const std::int64_t steps : {3, 600}) {
    Graph g;
    Node* x = sized(g.placeholder("x"), {steps, 4, 5});
    Node* h = sized(g.placeholder("h"), {1, 4, 6});
    std::vector<Argument> weights = {sized(g.placeholder("w"), {6, 5}), sized(g.placeholder("u"), {6, 6})};
    Node* layer =
        g.call_function(ops::rnn_tanh_input, {x, h, Argument::list(weights), false, 1, 0., false, false, false});
    g.output(sized(g.call_function(ops::operator_getitem, {layer, 0}), {steps, 4, 6}));
    CHECK(decompose(g) == (steps == 3 ? 1 : 0));
    g.lint();
    CHECK(count_of(g, ops::linear) == (steps == 3 ? 4 : 0));
    CHECK(count_of(g, ops::tanh) == (steps == 3 ? 3 : 0));
  }
  Graph g;
  Node* x = sized(g.placeholder("x"), {3, 40, 5});
  Node* h = sized(g.placeholder("h"), {1, 40, 6});
  std::vector<Argument> weights = {sized(g.placeholder("w"), {24, 5}), sized(g.placeholder("u"), {24, 6})};
  Node* lstm = g.call_function(ops::lstm_input,
                               {x, Argument::list({h, h}), Argument::list(weights), false, 1, 0., false, false, false});
  g.output(sized(g.call_function(ops::operator_getitem, {lstm, 0}), {3, 40, 6}));
  CHECK(decompose(g) == 0);
}

TEST_CASE("orders of equal elements: stable operators where kernels are, and the first of all that are sorted") {
  Graph g;
  Node* x = sized(g.placeholder("x"), {3, 40});
  Node* wide = sized(g.placeholder("wide"), {3, 40}, Dtype::float64);
  Node* sorted = g.call_function(ops::sort, {x, 1, true});
  Node* top = g.call_function(ops::topk, {x, 5});
  Node* places = sized(g.call_function(ops::argsort, {wide}), {3, 40}, Dtype::int64);
  g.output(Argument::tuple(
      {g.call_function(ops::operator_getitem, {sorted, 0}), g.call_function(ops::operator_getitem, {top, 1}), places,
       g.call_function(ops::operator_getitem, {top, -1})}));
  CHECK(keep_order_of_equals(g, Orders::sorts_and_tops, {places}) == 0);
  Graph only_sorts(g);
  CHECK(keep_order_of_equals(only_sorts, Orders::sorts) == 1);
  only_sorts.lint();
  CHECK(count_of(only_sorts, ops::topk) == 1);
  CHECK(keep_order_of_equals(g, Orders::sorts_and_tops) == 2);
  g.lint();
  CHECK(count_of(g, ops::sort_stable) == 2);
  CHECK(count_of(g, ops::argsort) == 1);  // of doubles there is no kernel
  CHECK(count_of(g, ops::slice_Tensor) == 1);  // once, however many take it: what one writes to it all see
  CHECK(count_of(g, ops::contiguous) == 1);    // as topk gives it: what follows may view it
  CHECK(keep_order_of_equals(g, Orders::sorts_and_tops) == 0);
}

TEST_CASE("oneDNN's layers are the layer and what follows it") {
  const Argument none, empty = Argument::list({}), one = Argument::list({1, 1}), zero = Argument::list({0, 0});
  One relu({{2, 3, 8, 8}, {4, 3, 3, 3}, {4}});
  CHECK(relu.after(ops::onednn_convolution,
                   {relu.inputs[0], relu.inputs[1], relu.inputs[2], zero, one, one, 1, "relu", empty, none},
                   {2, 4, 6, 6}) ==
        "conv2d = aten::conv2d(%a, %b, %c, [1, 1], [0, 0], [1, 1], 1)\n_convolution_pointwise = aten::relu(%conv2d)\n"
        "return %_convolution_pointwise\n");
  One sum({{2, 3, 8, 8}, {2, 4, 6, 6}, {4, 3, 3, 3}});
  CHECK(sum.after(ops::onednn_convolution_binary,
                  {sum.inputs[0], sum.inputs[1], sum.inputs[2], none, zero, one, one, 1, "add", 1, "hardtanh",
                   Argument::list({0.0, 6.0}), none},
                  {2, 4, 6, 6}) ==
        "conv2d = aten::conv2d(%a, %c, None, [1, 1], [0, 0], [1, 1], 1)\nadd = aten::add.Tensor(%conv2d, %b)\n"
        "_convolution_pointwise = aten::hardtanh(%add, 0.0, 6.0)\nreturn %_convolution_pointwise\n");
  One turned({{2, 4, 8, 8}, {4, 3, 3, 3}});
  CHECK(turned.after(ops::onednn_convolution_transpose,
                     {turned.inputs[0], turned.inputs[1], none, zero, one, one, one, 2, "gelu", empty, "tanh"},
                     {2, 6, 11, 11}) ==
        "conv_transpose2d = aten::conv_transpose2d.input(%a, %b, None, [1, 1], [0, 0], [1, 1], 2, [1, 1])\n"
        "_convolution_transpose_pointwise = aten::gelu(%conv_transpose2d, approximate='tanh')\n"
        "return %_convolution_transpose_pointwise\n");
  One rows({{2, 3}, {5, 3}});
  CHECK(rows.after(ops::onednn_linear, {rows.inputs[0], rows.inputs[1], none, "none", empty, none}, {2, 5}) ==
        "_linear_pointwise = aten::linear(%a, %b, None)\nreturn %_linear_pointwise\n");
  One product({{2, 3}, {2, 5}, {5, 3}});
  CHECK(product.after(ops::onednn_linear_binary,
                      {product.inputs[0], product.inputs[1], product.inputs[2], none, "mul"}, {2, 5}) ==
        "linear = aten::linear(%a, %c, None)\n_linear_pointwise = aten::mul.Tensor(%linear, %b)\n"
        "return %_linear_pointwise\n");
  // What nobody here knows stays.
  One other({{2, 3}, {5, 3}});
  other.after(ops::onednn_linear, {other.inputs[0], other.inputs[1], none, "mish", empty, none}, {2, 5});
  CHECK(other.replaced == 0);
}
