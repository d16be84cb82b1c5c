// rules::identities, number_chains, strength_reduction, casts, shapes, joins: what they make and what they leave.
#include "fxx/rules/algebra.hpp"

#include <doctest/doctest.h>

#include "listed_owner.hpp"
#include "rules/shaped.hpp"

using namespace fxx;
using test::rewritten;
using test::shaped;

namespace {

/// What the rules make of f(x), or f(x, y), where all inputs have this shape and dtype.
template <class Rules, class F>
std::string made(const Rules& rules, F f, std::vector<std::int64_t> shape = {2, 6}, Dtype dtype = Dtype::float32) {
  std::vector<std::string> names = {"x", "y", "z"};
  names.resize(static_cast<std::size_t>(detail::proxy_arity<F>()));
  Graph graph = symbolic_graph(f, names);
  for (Node* node : graph.nodes())
    if (node->opcode() == Opcode::placeholder) shaped(node, shape, dtype);
  return rewritten(rules, graph);
}
template <class Rules, class F>
bool gone(const Rules& rules, F f, std::vector<std::int64_t> shape = {2, 6}, Dtype dtype = Dtype::float32) {
  return made(rules, f, shape, dtype) == "return %x\n";
}
template <class Rules, class F>
bool stays(const Rules& rules, F f, std::vector<std::int64_t> shape = {2, 6}, Dtype dtype = Dtype::float32) {
  std::vector<std::string> names = {"x", "y", "z"};
  names.resize(static_cast<std::size_t>(detail::proxy_arity<F>()));
  Graph graph = symbolic_graph(f, names);
  for (Node* node : graph.nodes())
    if (node->opcode() == Opcode::placeholder) shaped(node, shape, dtype);
  const auto report = rules.apply(graph);
  CAPTURE(report.to_string());
  return report.rewrites == 0;
}
/// The call that is left of f(x, y).
template <class Rules, class F>
std::string left(const Rules& rules, F f, std::vector<std::int64_t> shape = {2, 6}, Dtype dtype = Dtype::float32) {
  const std::string text = made(rules, f, shape, dtype);
  std::size_t from = text.find(" = ");
  if (from == std::string::npos) return text;
  from = text.compare(from + 3, 6, "aten::") == 0 ? from + 9 : from + 4;  // a function, or a method
  return text.substr(from, text.find('\n', from) - from);
}
constexpr auto& same = rules::identities;

}  // namespace

TEST_CASE("zero and one do nothing to floating-point values, and may turn integers into them") {
  CHECK(gone(same, [](auto x) { return x + 0; }));
  CHECK(gone(same, [](auto x) { return 0 + x; }));
  CHECK(gone(same, [](auto x) { return x - 0.0; }));
  CHECK(gone(same, [](auto x) { return 1 * (x * 1.0) / 1; }));
  CHECK(gone(same, [](auto x) { return x.pow(1); }));
  CHECK(gone(same, [](auto x) { return -(-x); }));
  CHECK(gone(same, [](auto x) { return x * 1; }, {}));
  CHECK(stays(
      same, [](auto x) { return x * 1.0; }, {2}, Dtype::int64));
  CHECK(stays(
      same, [](auto x) { return x / 1; }, {2}, Dtype::int64));
  CHECK(stays(same, [](auto x) { return x + 1; }));
  CHECK(stays(same, [](auto x) { return x * 0; }));
  CHECK(stays(same, [](auto x) { return x - x; }));
  CHECK(stays(same, [](auto x) { return x / x; }));
  CHECK(stays(same, [](auto x) { return x.exp().log(); }));
}

TEST_CASE("minus moves through sums, products and differences") {
  CHECK(left(same, [](auto x) { return x * -1; }) == "neg(%x)");
  CHECK(left(same, [](auto x) { return x / -1; }) == "neg(%x)");
  CHECK(left(same, [](auto x, auto y) { return -(x - y); }) == "sub.Tensor(%y, %x)");
  CHECK(left(same, [](auto x, auto y) { return x + -y; }) == "sub.Tensor(%x, %y)");
  CHECK(left(same, [](auto x, auto y) { return -y + x; }) == "sub.Tensor(%x, %y)");
  CHECK(left(same, [](auto x, auto y) { return x - -y; }) == "add.Tensor(%x, %y)");
  CHECK(left(same, [](auto x, auto y) { return -x * -y; }) == "mul.Tensor(%x, %y)");
  CHECK(left(same, [](auto x, auto y) { return -x / -y; }) == "div.Tensor(%x, %y)");
  CHECK(left(same, [](auto x) { return (-x).abs(); }) == "abs(%x)");
  CHECK(left(same, [](auto x) { return (-x).cos(); }) == "cos(%x)");
  CHECK(stays(same, [](auto x) { return (-x).sin(); }));
  CHECK(left(
            same, [](auto x, auto y) { return x + -y; }, {2}, Dtype::uint8) == "sub.Tensor(%x, %y)");  // both wrap
  CHECK(stays(
      same, [](auto x, auto y) { return -x / -y; }, {2}, Dtype::uint8));
  CHECK(stays(
      same, [](auto x) { return (-x).abs(); }, {2}, Dtype::uint8));
  CHECK(stays(
      same, [](auto x) { return (-x).cos(); }, {2}, Dtype::uint8));
  CHECK(stays(
      same, [](auto x, auto y) { return x - -y; }, {2}, Dtype::boolean));
  CHECK(stays(same, [](auto x, auto y) {
    auto d = x - y;
    return -d * d;
  }));
}

TEST_CASE("what is done already is not done again") {
  CHECK(left(same, [](auto x) { return x.abs().abs(); }) == "abs(%x)");
  CHECK(left(same, [](auto x) { return x.relu().relu(); }) == "relu(%x)");
  CHECK(left(same, [](auto x) { return x.sigmoid().relu(); }) == "sigmoid(%x)");
  CHECK(left(same, [](auto x) { return x.abs().relu(); }) == "abs(%x)");
  CHECK(stays(
      same, [](auto x) { return x.abs().relu(); }, {2}, Dtype::int32));  // the least integer has no abs
  CHECK(stays(same, [](auto x) { return x.tanh().relu(); }));
  CHECK(left(same, [](auto x) { return x.ceil().floor(); }) == "ceil(%x)");
  CHECK(left(same, [](auto x) { return x.floor().round(); }) == "floor(%x)");
  CHECK(stays(same, [](auto x) { return x.exp().floor(); }));
  CHECK(gone(same, [](auto x) { return x.maximum(x); }));
  CHECK(gone(same, [](auto x) { return x.minimum(x); }));
  CHECK(stays(same, [](auto x, auto y) { return x.maximum(y); }));
  CHECK(gone(
      same, [](auto x) { return x.logical_not().logical_not(); }, {2}, Dtype::boolean));
  CHECK(stays(same, [](auto x) { return x.logical_not().logical_not(); }));
  CHECK(gone(
      same, [](auto x) { return x.bitwise_and(x).bitwise_or(x); }, {2}, Dtype::int64));
}

TEST_CASE("comparisons take in a not, where nan allows it") {
  CHECK(left(same, [](auto x, auto y) { return x.eq(y).logical_not(); }) == "ne.Tensor(%x, %y)");
  CHECK(left(same, [](auto x) { return x.ne(2).logical_not(); }) == "eq.Scalar(%x, 2)");
  CHECK(stays(same, [](auto x, auto y) { return x.lt(y).logical_not(); }));
  CHECK(left(
            same, [](auto x, auto y, auto z) { return functional::where(x.logical_not(), y, z); }, {2},
            Dtype::boolean) == "where.self(%x, %z, %y)");
}

TEST_CASE("a condition whose sides are the same goes where it does not broadcast") {
  const auto where = [](std::vector<std::int64_t> condition) {
    Graph g;
    Node *c = shaped(g.placeholder("c"), condition, Dtype::boolean), *x = shaped(g.placeholder("x"), {3, 4});
    g.output(g.call_function(ops::where_self, {c, x, x}));
    return rules::identities.apply(g).rewrites;
  };
  CHECK(where({3, 4}) == 1);
  CHECK(where({1, 4}) == 1);
  CHECK(where({4}) == 1);
  CHECK(where({2, 3, 4}) == 0);
  CHECK(where({1, 1, 4}) == 0);
}

TEST_CASE("clamps become one clamp") {
  CHECK(left(same, [](auto x) { return x.clamp(0, 6).clamp(-1, 2); }) == "clamp(%x, 0.0, 2.0)");
  CHECK(left(same, [](auto x) { return x.clamp_min(1).clamp_min(3); }) == "clamp_min(%x, 3)");
  CHECK(left(same, [](auto x) { return x.clamp_max(1).clamp_max(3); }) == "clamp_max(%x, 1)");
  CHECK(left(same, [](auto x) { return x.clamp_min(1).clamp_max(3); }) == "clamp(%x, 1, 3)");
  CHECK(left(same, [](auto x) { return x.clamp_max(3).clamp_min(1); }) == "clamp(%x, 1, 3)");
  CHECK(stays(same, [](auto x) { return x.clamp_max(1).clamp_min(3); }));
  CHECK(stays(same, [](auto x) { return x.clamp(0, 6).clamp(6, 9); }));  // no gradient anywhere
  CHECK(stays(
      same, [](auto x) { return x.clamp(0, 6).clamp(-1, 2); }, {2}, Dtype::int64));
}

TEST_CASE("a value that is written to later stays a value of its own") {
  Graph g;
  Node* x = shaped(g.placeholder("x"), {2});
  Node* sum = g.call_function(ops::add_Scalar, {x, 0});
  g.call_function(ops::relu_, {x});
  g.output(sum);
  CHECK(rules::identities.apply(g).rewrites == 0);
  // So does one whose layout somebody sees, unless x lies the same.
  Graph h;
  x = h.placeholder("x");
  x->set_tensor_meta({.shape = {2, 2}, .stride = {4, 1}, .dtype = Dtype::float32});
  h.output(h.call_function(ops::view, {h.call_function(ops::add_Scalar, {x, 0}), Argument::list({4})}));
  CHECK(rules::identities.apply(h).rewrites == 0);
}

TEST_CASE("a layout is seen behind what keeps it: pointwise operators and copies") {
  const auto fires = [](auto after) {
    Graph g;
    Node* x = g.placeholder("x");
    x->set_tensor_meta({.shape = {2, 3}, .stride = {1, 2}, .dtype = Dtype::float32});
    Node* one = g.call_function(ops::cat, {Argument::list({x}), 0});  // whose rows lie one after the other
    one->set_tensor_meta({.shape = {2, 3}, .stride = {3, 1}, .dtype = Dtype::float32});
    g.output(after(g, one));
    return rules::joins.apply(g).rewrites == 1;
  };
  const auto viewed = [](Graph& g, Node* n) { return g.call_function(ops::view, {n, Argument::list({6})}); };
  const auto relu = [](Graph& g, Node* n) { return g.call_function(ops::relu, {n}); };
  CHECK(fires(relu));
  CHECK_FALSE(fires(viewed));
  CHECK_FALSE(fires([&](Graph& g, Node* n) { return viewed(g, relu(g, n)); }));
  CHECK_FALSE(fires([&](Graph& g, Node* n) {
    return viewed(g, g.call_function(ops::clone, {g.call_function(ops::add_Scalar, {relu(g, n), 1})}));
  }));
  CHECK_FALSE(fires([&](Graph& g, Node* n) { return g.call_function(ops::view_as_complex, {relu(g, n)}); }));
  // What is laid out anew hides it.
  CHECK(fires([&](Graph& g, Node* n) {
    return viewed(g, g.call_function(ops::matmul, {n, g.call_function(ops::t, {n})}));
  }));
}

TEST_CASE("results follow their first operand: another one comes first where both lie alike or nobody sees it") {
  // f(x, y) and a view of it, where y lies as x, which is contiguous, or the other way round.
  const auto fires = [](const auto& rules, auto f, bool alike, bool viewed) {
    Graph graph = symbolic_graph(
        [&](auto x, auto y) {
          const Proxy result = f(x, y);
          return viewed ? result.view({12}) : result.relu();
        },
        {"x", "y"});
    shaped(graph.nodes().front(), {3, 4});
    graph.nodes().front()->next()->set_tensor_meta(
        {.shape = {3, 4},
         .stride = alike ? std::vector<std::int64_t>{4, 1} : std::vector<std::int64_t>{1, 3},
         .dtype = Dtype::float32});
    return rules.apply(graph).rewrites > 0;
  };
  const auto follows = [&](const auto& rules, auto f) {
    return fires(rules, f, true, true) && fires(rules, f, false, false) && !fires(rules, f, false, true);
  };
  const auto& cheaper = rules::strength_reduction;
  CHECK(follows(same, [](auto x, auto y) { return -(x - y); }));
  CHECK(follows(same, [](auto x, auto y) { return -x + y; }));
  CHECK(follows(cheaper, [](auto x, auto y) { return x.reciprocal() * y; }));
  CHECK(follows(cheaper, [](auto x, auto y) { return (x - y) * 0.25 + y; }));
  // Here the first one stays the first one.
  CHECK(fires(same, [](auto x, auto y) { return x + -y; }, false, true));
  CHECK(fires(cheaper, [](auto x, auto y) { return x * y.reciprocal(); }, false, true));
  CHECK(fires(cheaper, [](auto x, auto y) { return x + (y - x) * 0.25; }, false, true));
  // A number has no order, nor has what is broadcast along the other one's last dimensions.
  const auto with = [](std::vector<std::int64_t> shape) {
    Graph graph = symbolic_graph([](auto x, auto y) { return (-(x - y)).view({12}); });
    shaped(graph.nodes().front(), {3, 4});
    shaped(graph.nodes().front()->next(), shape);
    return rules::identities.apply(graph).rewrites;
  };
  CHECK(with({}) == 1);
  CHECK(with({4}) == 1);
}

TEST_CASE("whether a module sees a layout is known of those that are one operator") {
  test::ListedOwner owner;
  const auto add = [&](const char* name, const Operator* operation) {
    owner.add(ModuleInfo{.name = name, .type = {}, .construct = {}}).operation = operation;
  };
  add("linear", find_operator("aten::linear"));
  add("relu", find_operator("aten::relu"));
  add("in place", find_operator("aten::relu_"));
  add("anything", nullptr);
  const auto fires = [&](const char* module, bool viewed = false, bool owned = true) {
    Graph g;
    if (owned) g.set_owning_module(&owner);
    Node *x = g.placeholder("x"), *y = g.placeholder("y");
    Node* negated = g.call_function(ops::neg, {g.call_function(ops::sub_Tensor, {x, y})});
    Node* result = g.call_module(module, {negated});
    g.output(viewed ? g.call_function(ops::view, {result, Argument::list({12})}) : result);
    return same.apply(g).rewrites == 1;
  };
  CHECK(fires("linear"));
  CHECK_FALSE(fires("relu"));  // the result lies as the value does
  CHECK_FALSE(fires("relu", true));
  CHECK_FALSE(fires("in place"));
  CHECK_FALSE(fires("anything"));
  CHECK_FALSE(fires("not there"));
  CHECK_FALSE(fires("linear", false, false));
}

TEST_CASE("the sides of a condition change places where it tells how the result lies, or both lie alike") {
  const auto fires = [](std::vector<std::int64_t> condition, std::vector<std::int64_t> stride, bool viewed = true) {
    Graph g;
    Node* c = shaped(g.placeholder("c"), condition, Dtype::boolean);
    Node *x = shaped(g.placeholder("x"), {3, 4}), *y = g.placeholder("y");
    y->set_tensor_meta({.shape = {3, 4}, .stride = stride, .dtype = Dtype::float32});
    Node* chosen = g.call_function(ops::where_self, {g.call_function(ops::logical_not, {c}), x, y});
    g.output(viewed ? g.call_function(ops::view, {chosen, Argument::list({12})}) : chosen);
    return rules::identities.apply(g).rewrites == 1;
  };
  CHECK(fires({1}, {4, 1}));
  CHECK(fires({3, 4}, {1, 3}));
  CHECK_FALSE(fires({1}, {1, 3}));
  CHECK(fires({1}, {1, 3}, false));
}

TEST_CASE("a copy without gaps is there for a view, though its dtype was the one before") {
  const auto fired = [](std::int64_t step, bool viewed) {
    Graph g;
    Node* x = g.placeholder("x");
    x->set_tensor_meta({.shape = {4, 3}, .stride = {step, 1}, .dtype = Dtype::float32});
    Node* wide = g.call_function(ops::to_dtype, {x, Dtype::float64});
    Node* back = g.call_function(ops::to_dtype, {wide, Dtype::float32});
    g.output(viewed ? g.call_function(ops::view, {back, Argument::list({12})}) : back);
    return rules::casts.apply(g)["cast twice"];
  };
  CHECK(fired(3, true) == 1);
  CHECK(fired(6, true) == 0);
  CHECK(fired(6, false) == 1);
}

TEST_CASE("what took another's place, and all that lies as it does, has the strides of that no more") {
  Graph g;
  Node* x = g.placeholder("x");
  x->set_tensor_meta({.shape = {2, 3}, .stride = {1, 2}, .dtype = Dtype::float32});
  const auto known = [](Node* n) {
    n->set_tensor_meta({.shape = {2, 3}, .stride = {3, 1}, .dtype = Dtype::float32});
    return n;
  };
  Node* one = known(g.call_function(ops::cat, {Argument::list({x}), 0}));
  Node* relu = known(g.call_function(ops::relu, {one}));
  Node* laid_out = known(g.call_function(ops::contiguous, {relu}));
  Node* product = known(g.call_function(ops::matmul, {laid_out, laid_out}));
  g.output(product);
  CHECK(rules::joins.apply(g).rewrites == 1);
  CHECK(relu->tensor_meta()->shape == std::vector<std::int64_t>{2, 3});
  CHECK(relu->tensor_meta()->stride.empty());
  CHECK(laid_out->tensor_meta()->stride.empty());  // which may be relu itself
  CHECK(product->tensor_meta()->stride == std::vector<std::int64_t>{3, 1});
  CHECK(x->tensor_meta()->stride == std::vector<std::int64_t>{1, 2});
}

TEST_CASE("numbers that follow each other become one") {
  const auto& chains = rules::number_chains;
  CHECK(left(chains, [](auto x) { return x + 1 + 2; }) == "add.Scalar(%x, 3)");
  CHECK(left(chains, [](auto x) { return x + 1 + 2 + 3.5; }) == "add.Scalar(%x, 6.5)");
  CHECK(left(
            chains, [](auto x) { return 2 - (1 - x); }, {2}, Dtype::int64) == "add.Scalar(%x, 1)");
  CHECK(left(chains, [](auto x) { return x * 2 * 3; }) == "mul.Scalar(%x, 6)");
  CHECK(left(chains, [](auto x) { return x * 6 / 3; }).starts_with("mul.Scalar(%x, 2"));
  CHECK(left(chains, [](auto x) { return x * 1 / 4; }) == "mul.Scalar(%x, 0.25)");
  CHECK(left(chains, [](auto x) { return x / 4 * 1; }) == "mul.Scalar(%x, 0.25)");
  CHECK(left(chains, [](auto x) { return x / 2 / 3; }) == "div.Scalar(%x, 6)");
  CHECK(left(chains, [](auto x) { return -x * 3; }) == "mul.Scalar(%x, -3)");
  CHECK(left(chains, [](auto x) { return -(x * 3); }) == "mul.Scalar(%x, -3)");
  CHECK(left(
            chains, [](auto x) { return x + 1 - 3; }, {2}, Dtype::int64) == "add.Scalar(%x, -2)");
  CHECK(stays(chains, [](auto x) { return x + 1e20 - 1e20; }));  // rounds in between
  // Each of the two is finite in x's dtype, and their sum is not.
  const auto large = [](auto x) { return x + 40000 + 40000; };
  CHECK(stays(chains, large, {2}, Dtype::float16));
  CHECK(left(chains, large, {2}, Dtype::bfloat16) == "add.Scalar(%x, 80000)");
  CHECK(stays(chains, [](auto x) { return x - 3e38 - 3e38; }));
  CHECK(left(
            chains, [](auto x) { return x - 3e38 - 3e38; }, {2}, Dtype::float64) == "add.Scalar(%x, -6e+38)");
  CHECK(stays(
      chains, [](auto x) { return x * 2 * 0.5; }, {2}, Dtype::int64));
  CHECK(stays(
      chains, [](auto x) { return x * 73856093 * 19349663; }, {2}, Dtype::int64));  // more than a double has digits for
  CHECK(stays(chains, [](auto x) {
    auto y = x + 1;
    return (y + 2) * y;
  }));
}

TEST_CASE("strength reduction") {
  const auto& cheaper = rules::strength_reduction;
  CHECK(left(cheaper, [](auto x) { return x.pow(2); }) == "mul.Tensor(%x, %x)");
  CHECK(left(cheaper, [](auto x) { return x.pow(0.5); }) == "sqrt(%x)");
  CHECK(left(cheaper, [](auto x) { return x.pow(-0.5); }) == "rsqrt(%x)");
  CHECK(left(cheaper, [](auto x) { return x.pow(-1); }) == "reciprocal(%x)");
  CHECK(stays(
      cheaper, [](auto x) { return x.pow(0.5); }, {2}, Dtype::float16));  // of minus infinity it is infinity
  CHECK(stays(cheaper, [](auto x) { return x.pow(3); }));
  CHECK(stays(
      cheaper, [](auto x) { return x.pow(-1); }, {2}, Dtype::int64));
  CHECK(left(cheaper, [](auto x) { return x.sqrt().reciprocal(); }) == "rsqrt(%x)");
  CHECK(made(cheaper, [](auto x, auto y) { return x / y.sqrt(); }) ==
        "rsqrt = aten::rsqrt(%y)\nmul = aten::mul.Tensor(%x, %rsqrt)\nreturn %mul\n");
  CHECK(left(cheaper, [](auto x, auto y) { return y.reciprocal() * x; }) == "div.Tensor(%x, %y)");
  CHECK(left(cheaper, [](auto x) { return x / 8; }) == "mul.Scalar(%x, 0.125)");
  CHECK(stays(cheaper, [](auto x) { return x / 3; }));
  CHECK(stays(
      cheaper, [](auto x) { return x / 8; }, {2}, Dtype::int64));
  CHECK(left(cheaper, [](auto x) { return x.exp() - 1; }) == "expm1(%x)");
  CHECK(left(cheaper, [](auto x) { return (1 + x).log(); }) == "log1p(%x)");
  CHECK(stays(cheaper, [](auto x) { return (2 + x).log(); }));
  CHECK(left(cheaper, [](auto x, auto y) { return x + (y - x) * 0.25; }) == "lerp.Scalar(%x, %y, 0.25)");
}

TEST_CASE("casts that do nothing or lose nothing go") {
  const auto& casts = rules::casts;
  CHECK(gone(casts, [](auto x) { return x.to(Dtype::float32); }));
  CHECK(stays(casts, [](auto x) { return x.to(Dtype::float64); }));
  CHECK(gone(casts, [](auto x) { return x.to(Dtype::float64).to(Dtype::float32); }));
  CHECK(stays(casts, [](auto x) { return x.to(Dtype::float16).to(Dtype::float32); }));
  CHECK(left(
            casts, [](auto x) { return x.to(Dtype::float32).to(Dtype::bfloat16); }, {2}, Dtype::float16) ==
        "to.dtype(%x, torch.bfloat16)");
  CHECK(stays(
      casts, [](auto x) { return x.to(Dtype::float32).to(Dtype::int64); }, {2}, Dtype::float16));
  CHECK(gone(casts, [](auto x, auto y) { return x.type_as(y); }));
}

TEST_CASE("transposes and permutes that meet") {
  const auto& shapes = rules::shapes;
  CHECK(gone(shapes, [](auto x) { return x.transpose(0, 1).transpose(1, 0); }));
  CHECK(gone(shapes, [](auto x) { return x.transpose(0, 1).transpose(-1, -2); }));
  CHECK(stays(shapes, [](auto x) { return x.transpose(0, 1).transpose(-1, -2); }, {2, 3, 4}));
  CHECK(gone(shapes, [](auto x) { return x.t().t(); }));
  CHECK(gone(shapes, [](auto x) { return x.t().transpose(0, 1); }));
  CHECK(gone(shapes, [](auto x) { return x.permute({2, 0, 1}).permute({1, 2, 0}); }, {2, 3, 4}));
  CHECK(left(shapes,
             [](auto x) {
               return x.permute({2, 0, 1}).permute({2, 0, 1});
             },
             {2, 3, 4}) == "permute(%x, [1, 2, 0])");
  CHECK(left(shapes,
             [](auto x) {
               return x.permute({2, 0, 1}).transpose(0, 2);
             },
             {2, 3, 4}) == "permute(%x, [1, 0, 2])");
  CHECK(gone(shapes, [](auto x) { return x.transpose(0, 1).permute({1, 0, 2}); }, {2, 3, 4}));
  CHECK(gone(shapes, [](auto x) { return x.permute({0, 1}); }));
}

TEST_CASE("reshapes, squeezes and expands that meet") {
  const auto& shapes = rules::shapes;
  CHECK(left(shapes, [](auto x) { return x.view({3, 4}).view({4, 3}); }) == "view(%x, [4, 3])");
  CHECK(left(shapes, [](auto x) { return x.reshape({3, 4}).reshape({4, 3}); }) == "reshape(%x, [4, 3])");
  CHECK(left(shapes, [](auto x) { return x.flatten().view({4, 3}); }) == "reshape(%x, [4, 3])");
  CHECK(left(shapes, [](auto x) { return x.view({3, 4}).flatten(); }) == "flatten.using_ints(%x)");
  CHECK(gone(shapes, [](auto x) { return x.view({3, 4}).view({2, 6}); }));
  CHECK(gone(shapes, [](auto x) { return x.reshape({2, -1}); }));
  CHECK(stays(shapes, [](auto x) { return x.reshape({-1, 2}); }));
  CHECK(gone(shapes, [](auto x) { return x.flatten(); }, {6}));
  CHECK(stays(shapes, [](auto x) { return x.flatten(); }, {}));  // makes one dimension of none
  CHECK(gone(shapes, [](auto x) { return x.unsqueeze(1).squeeze(1); }));
  CHECK(gone(shapes, [](auto x) { return x.unsqueeze(-1).select(-1, 0); }));
  CHECK(stays(shapes, [](auto x) { return x.unsqueeze(1).squeeze(0); }));
  CHECK(gone(shapes, [](auto x) { return x.squeeze(1); }));
  CHECK(stays(shapes, [](auto x) { return x.squeeze(1); }, {2, 1}));
  CHECK(left(shapes, [](auto x) { return x.expand({4, 6}).expand({2, 4, 6}); }, {1, 6}) == "expand(%x, [2, 4, 6])");
  CHECK(stays(shapes, [](auto x) { return x.expand({4, 6}).expand({2, -1, 6}); }, {1, 6}));
  CHECK(gone(shapes, [](auto x) { return x.expand({-1, 6}); }));
}

TEST_CASE("slices of everything, and of slices") {
  const auto& shapes = rules::shapes;
  CHECK(gone(shapes, [](auto x) { return x.slice(1); }));
  CHECK(gone(shapes, [](auto x) { return x.slice(1, 0, 6); }));
  CHECK(stays(shapes, [](auto x) { return x.slice(1, 0, 5); }));
  CHECK(stays(shapes, [](auto x) { return x.slice(0, -2, 6); }));
  CHECK(left(shapes, [](auto x) { return x.slice(1, 1, 5).slice(1, 1, 9); }) == "slice.Tensor(%x, 1, 2, 5, 1)");
  CHECK(left(shapes, [](auto x) { return x.slice(1, 1, 6, 2).slice(1, 1, 2, 2); }) == "slice.Tensor(%x, 1, 3, 5, 4)");
  CHECK(stays(shapes, [](auto x) { return x.slice(1, 1, -1).slice(1, 1, 9); }));
  CHECK(stays(shapes, [](auto x) { return x.slice(1, 1, 5).slice(0, 1, 9); }));
  CHECK(left(shapes, [](auto x) { return x.slice(1, 1, 5, 2).select(1, 1); }) == "select.int(%x, 1, 3)");
  CHECK(stays(shapes, [](auto x) { return x.slice(1, 1, 5, 2).select(1, -1); }));
  CHECK(left(shapes, [](auto x) { return x.narrow(1, 1, 4).narrow(1, 2, 2); }) == "narrow(%x, 1, 3, 2)");
  CHECK(gone(shapes, [](auto x) { return x.narrow(1, 0, 6); }));
  CHECK(gone(shapes, [](auto x) { return x.repeat({1, 1}); }));
  CHECK(stays(shapes, [](auto x) { return x.repeat({1, 1, 1}); }));
}

TEST_CASE("cats, stacks and splits that undo each other") {
  const auto& joins = rules::joins;
  CHECK(gone(joins, [](auto x) { return fxx::cat({x}, 1); }));
  CHECK(left(joins, [](auto x) { return fxx::stack({x}, 1); }) == "unsqueeze(%x, 1)");
  CHECK(left(joins, [](auto x, auto y, auto z) {
          return fxx::cat({x, fxx::cat({y, z}, 1), x}, 1);
        }) == "cat([%x, %y, %z, %x], 1)");
  CHECK(stays(joins, [](auto x, auto y, auto z) { return fxx::cat({x, fxx::cat({y, z}, 0)}, 1); }));
  const auto of_types = [](Dtype first, Dtype second) {  // cat([x, cat([y, z])]), x of float64
    Graph g;
    Node *x = shaped(g.placeholder("x"), {2}, Dtype::float64), *y = shaped(g.placeholder("y"), {2}, first),
         *z = shaped(g.placeholder("z"), {2}, second);
    g.output(
        g.call_function(ops::cat, {Argument::list({x, g.call_function(ops::cat, {Argument::list({y, z}), 0})}), 0}));
    return rules::joins.apply(g).rewrites;
  };
  CHECK(of_types(Dtype::int32, Dtype::int32) == 1);
  CHECK(of_types(Dtype::int32, Dtype::float16) == 0);  // float16 does not hold them
  const auto split = [](const Operator& op, Argument length, std::vector<int> order, std::int64_t dim) {
    Graph g;
    Node* x = shaped(g.placeholder("x"), {2, 6});
    Node* parts = g.call_function(op, {x, length, 1});
    std::vector<Argument> items;
    for (const int at : order) items.emplace_back(g.call_function(ops::operator_getitem, {parts, at}));
    g.output(g.call_function(ops::cat, {Argument::list(items), dim}));
    return rewritten(rules::joins, g) == "return %x\n";
  };
  CHECK(split(ops::split_Tensor, 2, {0, 1, 2}, 1));
  CHECK(split(ops::split_Tensor, 4, {0, 1}, -1));
  CHECK_FALSE(split(ops::split_Tensor, 2, {0, 1}, 1));
  CHECK_FALSE(split(ops::split_Tensor, 2, {0, 2, 1}, 1));
  CHECK_FALSE(split(ops::split_Tensor, 2, {0, 1, 2}, 0));
  CHECK(split(ops::chunk, 3, {0, 1, 2}, 1));
  CHECK(split(ops::split_with_sizes, Argument::list({1, 5}), {0, 1}, 1));
  CHECK_FALSE(split(ops::split_with_sizes, Argument::list({1, 2, 3}), {0, 1}, 1));
}
