// Rewriting beside memory that changes: nothing is matched across a mutation that others can see, and no value comes to
// stand for memory that is written to later.
#include <doctest/doctest.h>

#include "rewrite/rewritten.hpp"
#include "rules/shaped.hpp"

using namespace fxx;
using namespace fxx::pattern;
using test::body_of;
using test::fires;
using test::rewritten;
using test::shaped;

namespace {
constexpr auto silu_rule = ruleset(rule<"silu">(mul(sigmoid(x), x) >> silu(x)));
constexpr auto nothing = ruleset(rule<"double negation">(neg(neg(x)) >> x));
}  // namespace

// --- matching --------------------------------------------------------------------------------------------------------

TEST_CASE("a rule never matches across a mutation that others can see") {
  CHECK_FALSE(fires(silu_rule, [](auto x) {
    const auto s = x.sigmoid();
    x.add_(1);
    return s * x;
  }));
  CHECK_FALSE(fires(silu_rule, [](auto x) {  // of other memory, for all that is known
    const auto s = x.sigmoid();
    x.view({-1}).mul_(2);
    return s * x;
  }));
  CHECK_FALSE(fires(silu_rule, [](auto x) {
    const auto s = x.sigmoid();
    x[0] = 1;
    return s * x;
  }));
  CHECK(fires(silu_rule, [](auto x) {  // after all of it
    x.add_(1);
    return x.sigmoid() * x;
  }));
  CHECK(rewritten(silu_rule, [](auto x) {  // before it
          const auto y = x.sigmoid() * x;
          x.add_(1);
          return y;
        }) == "silu = aten::silu(%x)\nadd_ = .add_(%x, 1)\nreturn %silu\n");
}

TEST_CASE("unknown modules and functions with effects are mutations too") {
  const auto with = [](auto effect) {
    Graph g;
    Node *x = g.placeholder("x"), *s = g.call_function(ops::sigmoid, {x});
    effect(g, x);
    g.output(g.call_function(ops::mul_Tensor, {s, x}));
    return silu_rule.apply(g).rewrites == 1;
  };
  CHECK_FALSE(with([](Graph& g, Node* x) { g.call_module("unknown", {x}); }));
  CHECK_FALSE(with([](Graph& g, Node* x) { g.call_method("unknown_", {x}); }));
  CHECK_FALSE(
      with([](Graph& g, Node* x) { g.call_function(register_function("tests::mutation::effect", {}, true), {x}); }));
  CHECK_FALSE(with([](Graph& g, Node* x) {
    g.call_function(ops::batch_norm, {x, {}, {}, x, x, true, 0.1, 1e-5, false});
  }));
  CHECK(with([](Graph& g, Node* x) { g.call_function(ops::batch_norm, {x, {}, {}, x, x, false, 0.1, 1e-5, false}); }));
  CHECK(with([](Graph& g, Node* x) { g.call_function(register_function("tests::mutation::pure"), {x}); }));
}

TEST_CASE("a write to a temporary that only the write sees hides nothing") {
  CHECK(rewritten(silu_rule,
                  [](auto x) {
                    const auto s = x.sigmoid();
                    const auto t = x.add(1).relu_();
                    const auto y = s * x;
                    return y + t;
                  }) ==
        "add = .add(%x, 1)\nrelu_ = .relu_(%add)\nsilu = aten::silu(%x)\nadd_1 = aten::add.Tensor(%silu, "
        "%relu_)\nreturn %add_1\n");
}

TEST_CASE("a visible mutation is no part of a match: it cannot be taken away") {
  constexpr auto functional = ruleset(rule<"r">(relu_(x) >> relu(x)), rule<"s">(neg(neg_(x)) >> x),
                                      rule<"t">(tanh(add_(x, y)) >> tanh(add(x, y))));
  CHECK_FALSE(fires(functional, [](auto x) { return x.relu_(); }));
  CHECK_FALSE(fires(functional, [](auto x) { return -x.neg_(); }));
  CHECK_FALSE(fires(functional, [](auto x, auto y) { return x.add_(y).tanh(); }));
}

TEST_CASE("an invisible one is, with its temporary") {
  constexpr auto functional = ruleset(rule<"r">(relu_(x) >> relu(x)), rule<"s">(neg(neg_(x)) >> x),
                                      rule<"t">(tanh(add_(x, y)) >> tanh(add(x, y))));
  CHECK(rewritten(functional, [](auto x) { return x.add(1).relu_(); }) ==
        "add = .add(%x, 1)\nrelu = aten::relu(%add)\nreturn %relu\n");
  CHECK(rewritten(functional, [](auto x) { return -x.add(1).neg_(); }) == "add = .add(%x, 1)\nreturn %add\n");
  CHECK(rewritten(functional, [](auto x, auto y) { return x.add(1).add_(y).tanh(); }) ==
        "add = .add(%x, 1)\nadd_1 = aten::add.Tensor(%add, %y)\ntanh = aten::tanh(%add_1)\nreturn %tanh\n");
}

TEST_CASE("an invisible mutation whose result is used elsewhere too stays as it is") {
  constexpr auto rules = ruleset(rule<"s">(neg(neg_(x)) >> x), rule<"t">(tanh(add_(x, y)) >> tanh(add(x, y))));
  CHECK_FALSE(fires(rules, [](auto x) {
    const auto n = x.add(1).neg_();
    return -n + n;
  }));
  CHECK_FALSE(fires(rules, [](auto x, auto y) {
    const auto n = x.add(1).add_(y);
    return tanh(n) + n;
  }));
}

TEST_CASE("in place is not out of place where that would give another dtype") {
  constexpr auto rules = ruleset(rule<"sum">(add(x, neg(y)) >> sub(x, y)), rule<"equal">(eq(x, y) >> ne(y, x)),
                                 rule<"number">(mul(x, s) >> neg(x)));
  const auto fired = [&](const Operator& op, Dtype self, Dtype other, std::vector<std::int64_t> shape = {3}) {
    Graph g;
    Node* a = shaped(g.placeholder("a"), {3}, self);
    Node* b = shaped(g.placeholder("b"), shape, other);
    Node* fresh = shaped(g.call_function(ops::abs, {a}), {3}, self);
    Node* minus = shaped(g.call_function(ops::neg, {b}), shape, other);
    g.output(shaped(g.call_function(op, {fresh, minus}), {3}, self));
    const bool any = rules.apply(g).rewrites > 0;
    g.lint();
    return any;
  };
  CHECK(fired(ops::add__Tensor, Dtype::float32, Dtype::float32));
  CHECK(fired(ops::add__Tensor, Dtype::float32, Dtype::float16));
  CHECK(fired(ops::add__Tensor, Dtype::float16, Dtype::int64));
  CHECK(fired(ops::add__Tensor, Dtype::float16, Dtype::float32, {}));  // one without dimensions does not count
  CHECK(fired(ops::add__Tensor, Dtype::complex64, Dtype::float32));
  CHECK_FALSE(fired(ops::add__Tensor, Dtype::float16, Dtype::float32));
  CHECK_FALSE(fired(ops::add__Tensor, Dtype::float16, Dtype::bfloat16));
  CHECK_FALSE(fired(ops::add__Tensor, Dtype::int32, Dtype::int64));
  CHECK_FALSE(fired(ops::add__Tensor, Dtype::complex64, Dtype::float64));
  CHECK_FALSE(fired(ops::eq__Tensor, Dtype::float32, Dtype::float32));  // 0.0 and 1.0
  CHECK(fired(ops::eq__Tensor, Dtype::boolean, Dtype::boolean));
  CHECK(fires(rules, [](auto x) { return x.add(1).mul_(2); }));
  CHECK_FALSE(fires(rules, [](auto x, auto y) { return x.add(1).eq_(y); }));
}

TEST_CASE("of unknown dtypes in place is out of place where both give the same whatever they are") {
  constexpr auto rules = ruleset(rule<"sum">(add(x, y) >> sub(x, y)), rule<"number">(mul(x, s) >> neg(x)),
                                 rule<"function">(relu(x) >> neg(x)), rule<"product">(addmm(x, y, z) >> mm(y, z)),
                                 rule<"running">(cumsum(x, value<"d">) >> flip(x, list(value<"d">))));
  // Numbers, one tensor alone, operators that take tensors of one dtype.
  CHECK(fires(rules, [](auto x) { return x.exp().mul_(2); }));
  const Graph sized = symbolic_graph([](auto x) { return x.exp().mul_(x.size(0)); });
  CHECK(rewrite::is_twin(*sized.output_node()->arg(0).node(), ops::mul_Scalar.info().id));
  CHECK(fires(rules, [](auto x) { return x.exp().relu_(); }));
  CHECK(fires(rules, [](auto x, auto y, auto z) { return x.exp().addmm_(y, z); }));
  // What is written to was computed from the other.
  CHECK(fires(rules, [](auto x) { return x.sigmoid().add_(x); }));
  CHECK(fires(rules, [](auto x, auto y) { return (x.exp() * y).add_(y); }));
  CHECK(fires(rules, [](auto x, auto y) { return (y.exp() * 2).tanh_().mul_(x).add_(y); }));
  CHECK_FALSE(fires(rules, [](auto x, auto y) { return x.exp().add_(y); }));
  CHECK_FALSE(fires(rules, [](auto x) { return x.exp().add_(x.sin()); }));
  CHECK_FALSE(fires(rules, [](auto x, auto y) { return x.exp().sub_(y).add_(y); }));  // keeps what x.exp() has
  CHECK_FALSE(fires(rules, [](auto x) { return x.sum().add_(x); }));
  CHECK_FALSE(fires(rules, [](auto x) { return x.exp().cumsum_(0); }));
  // One of the two is not enough.
  Graph g;
  Node *a = g.placeholder("a"), *b = shaped(g.placeholder("b"), {3}, Dtype::float32);
  Node* known = shaped(g.call_function(ops::sin, {b}), {3}, Dtype::float32);
  g.output(Argument::list({g.call_function(ops::add__Tensor, {known, a}),
                           g.call_function(ops::add__Tensor, {g.call_function(ops::exp, {a}), b})}));
  CHECK(rules.apply(g).rewrites == 0);
}

TEST_CASE("explain says why a call in place is not taken for its twin") {
  constexpr auto rules = ruleset(rule<"r">(relu(add(x, y)) >> neg(x)));
  const auto why = [&](auto f) {
    Graph g = symbolic_graph(f);
    return explain(rules, "r", g.output_node()->arg(0).node());
  };
  const std::string wanted =
      "rule 'r' does not match %relu: argument 'self' of %relu is %add_ = aten::add_.Tensor; the pattern wants a call "
      "of aten::add.Tensor";
  CHECK(why([](auto x, auto y) { return x.exp().add_(y).relu(); }) ==
        wanted + ", and the two give the same dtype only perhaps");
  CHECK(why([](auto x, auto y) { return x.add_(y).relu(); }) == wanted + ", and what it writes to others see, too");
}

TEST_CASE("a call in place is the twin whose overload takes what it takes, whatever the overload is called") {
  constexpr auto squares = ruleset(rule<"r">(pow(x, 2_c) >> square(x)));
  CHECK(fires(squares, [](auto x) { return x.exp().pow_(2); }));
  constexpr auto halves = ruleset(rule<"r">(floor_divide(x, y) >> div(x, y)));
  Graph g;
  Node *a = shaped(g.placeholder("a"), {3}, Dtype::float32), *b = shaped(g.placeholder("b"), {3}, Dtype::float32);
  Node* own = shaped(g.call_function(ops::exp, {a}), {3}, Dtype::float32);
  g.output(g.call_method("floor_divide_", {own, b}));
  CHECK(halves.apply(g).rewrites == 1);
}

TEST_CASE("in place operators that are idle are no mutations") {
  constexpr auto rules = ruleset(rule<"r">(dropout_(x, _, lit<false>) >> x));
  CHECK(rewritten(rules, [](auto x) { return dropout_(x, 0.5, false); }) == "return %x\n");
  CHECK_FALSE(fires(rules, [](auto x) { return dropout_(x, 0.5, true); }));
}

// --- values that come to share memory --------------------------------------------------------------------------------

TEST_CASE("a value that is written to is not replaced by one that others see") {
  CHECK_FALSE(fires(nothing, [](auto x) { return (-(-x)).add_(1); }));  // would change the input
  CHECK_FALSE(fires(nothing, [](auto x) {
    auto y = -(-x);
    y += 1;
    return y * x;
  }));
  CHECK_FALSE(fires(nothing, [](auto x) {
    const auto y = -(-x);
    y[0] = 5;
    return y * x;
  }));
  CHECK_FALSE(fires(nothing, [](auto x) { return (-(-x)).view({-1}).relu_(); }));
  CHECK_FALSE(fires(nothing, [](auto x) { return (-(-x)).chunk(2)[0].relu_(); }));
  CHECK_FALSE(fires(nothing, [](auto x) { return (-(-x)).contiguous().relu_(); }));
  CHECK(rewritten(nothing, [](auto x) { return (-(-x)).add(1).add_(1); }) ==
        "add = .add(%x, 1)\nadd_ = .add_(%add, 1)\nreturn %add_\n");
}

TEST_CASE("a value that is read after a mutation is not replaced by memory that the mutation may have changed") {
  CHECK_FALSE(fires(nothing, [](auto x) {
    const auto y = -(-x);
    x.add_(1);
    return y;
  }));
  CHECK_FALSE(fires(nothing, [](auto x) {
    const auto y = (-(-x)).view({-1}).t();
    x.add_(1);
    return y;
  }));
  CHECK(rewritten(nothing, [](auto x) {
          const auto y = (-(-x)).relu();
          x.add_(1);
          return y;
        }) == "relu = .relu(%x)\nadd_ = .add_(%x, 1)\nreturn %relu\n");
}

TEST_CASE("a write is seen after one before it is gone and many nodes were put beside it") {
  constexpr auto rules = ruleset(rule<"nothing">(neg(neg(x)) >> x), rule<"in place">(tanh(relu_(x)) >> x),
                                 rule<"many">(erf(x) >> [](const Match& m) {
                                   Argument value = m[x];
                                   for (int i = 0; i < 3000; ++i) value = m.call(ops::exp, {value});
                                   return value;
                                 }));
  Graph g;
  Node* x = g.placeholder("x");
  Node* copy = g.call_function(ops::neg, {g.call_function(ops::neg, {x})});
  Node* gone = g.call_function(ops::relu_, {g.call_function(ops::add_Tensor, {x, x})});
  Node* written = g.call_function(ops::add__Scalar, {copy, 1});  // nobody sees it, as long as it is not x
  Node* read = g.call_function(ops::exp, {written});
  Node* many = g.call_function(ops::erf, {x});
  g.output(Argument::list({read, many, g.call_function(ops::tanh, {gone})}));
  const auto report = rules.apply(g);
  g.lint();
  CHECK(report["in place"] == 1);
  CHECK(report["many"] == 1);
  CHECK(report["nothing"] == 0);
  CHECK(written->arg(0) == Argument(copy));
}

TEST_CASE("a view that a rule builds where a copy was, and the other way round") {
  constexpr auto to_view = ruleset(rule<"r">(mul(view(x, value<"size">), 1_c) >> view(x, value<"size">)));
  CHECK(fires(to_view, [](auto x) { return x.view({-1}) * 1; }));
  CHECK_FALSE(fires(to_view, [](auto x) { return (x.view({-1}) * 1).relu_(); }));
  constexpr auto to_copy = ruleset(rule<"r">(view(x, value<"size">) >> add(x, 0_c)));
  CHECK(fires(to_copy, [](auto x) { return x.view({-1}).relu(); }));
  CHECK_FALSE(fires(to_copy, [](auto x) {
    x.view({-1}).relu_();
    return x;
  }));
  constexpr auto same_memory = ruleset(rule<"r">(transpose(transpose(x, 0_c, 1_c), 0_c, 1_c) >> x));
  CHECK(rewritten(same_memory, [](auto x) {  // whoever writes to the one writes to the other
          x.transpose(0, 1).transpose(0, 1).add_(1);
          return x;
        }) == "add_ = .add_(%x, 1)\nreturn %x\n");
}

TEST_CASE("where nothing is written there is nothing to mind") {
  CHECK(rewritten(nothing, [](auto x) { return (-(-x)).view({-1}); }) == "view = .view(%x, [-1])\nreturn %view\n");
  CHECK(rewritten(nothing, [](auto x) {
          const auto y = -(-x);
          return y.chunk(2)[0] + y.relu();
        }).find("neg") == std::string::npos);
}

TEST_CASE("what the output shares with an input after a rewrite is memory that the graph does not write to") {
  CHECK(rewritten(nothing, [](auto x) { return -(-x); }) == "return %x\n");
}
