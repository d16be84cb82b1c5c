// The pattern language: what each kind of pattern matches, and what it does not.
#include <doctest/doctest.h>

#include <limits>

#include "rewrite/rewritten.hpp"

using namespace fxx;
using namespace fxx::pattern;
using test::fires;
using test::rewritten;

// --- captures --------------------------------------------------------------------------------------------------------

TEST_CASE("tensor captures a node, and the same name the same node") {
  constexpr auto rules = ruleset(rule<"silu">(mul(sigmoid(x), x) >> silu(x)));
  CHECK(rewritten(rules, [](auto x) { return x.sigmoid() * x; }) == "silu = aten::silu(%x)\nreturn %silu\n");
  CHECK(rewritten(rules, [](auto x) { return x * sigmoid(x); }) == "silu = aten::silu(%x)\nreturn %silu\n");
  CHECK_FALSE(fires(rules, [](auto x, auto y) { return x.sigmoid() * y; }));
  CHECK_FALSE(
      fires(rules, [](auto x) { return x.relu().sigmoid() * x.relu(); }));  // two nodes, though they compute the same
  CHECK_FALSE(fires(rules, [](auto x) { return sigmoid(x) * 2; }));
}

TEST_CASE("optional captures a node, None, or what was left out") {
  constexpr auto once = ruleset(rule<"linear">(linear(x, w, b) >> [](const Match& m) -> Argument {
    return m.call(ops::bilinear, {m[x], m[x], m[w], m[b]});
  }));
  CHECK(rewritten(once, [](auto x, auto y, auto z) { return linear(x, y, z); }) ==
        "bilinear = aten::bilinear(%x, %x, %y, %z)\nreturn %bilinear\n");
  CHECK(rewritten(once, [](auto x, auto y) { return linear(x, y, std::nullopt); }) ==
        "bilinear = aten::bilinear(%x, %x, %y, None)\nreturn %bilinear\n");
  CHECK(rewritten(once, [](auto x, auto y) { return linear(x, y); }) ==
        "bilinear = aten::bilinear(%x, %x, %y, None)\nreturn %bilinear\n");
}

TEST_CASE("an optional that the replacement passes on is None there too") {
  constexpr auto rules = ruleset(rule<"conv">(conv2d(x, w, b) >> conv3d(x, w, b)));
  CHECK(rewritten(rules, [](auto x, auto y) { return conv2d(x, y); }) ==
        "conv3d = aten::conv3d(%x, %y, None)\nreturn %conv3d\n");
  CHECK(rewritten(rules, [](auto x, auto y, auto z) { return conv2d(x, y, z); }) ==
        "conv3d = aten::conv3d(%x, %y, %z)\nreturn %conv3d\n");
}

TEST_CASE("constant captures a node that the inputs do not reach") {
  constexpr auto rules = ruleset(rule<"constant">(mul(constant<"c">, x) >> add(x, constant<"c">)));
  const auto with = [&](auto make) {
    Graph g;
    Node* x = g.placeholder("x");
    g.output(g.call_function(ops::mul_Tensor, {x, make(g, x)}));
    return rules.apply(g).rewrites == 1;
  };
  CHECK(with([](Graph& g, Node*) { return g.get_attr("w"); }));
  CHECK(with([](Graph& g, Node*) { return g.call_function(ops::relu, {g.get_attr("w")}); }));
  CHECK(with([](Graph& g, Node*) {
    return g.call_function(ops::add_Tensor, {g.get_attr("w"), g.call_function(ops::relu, {g.get_attr("v")})});
  }));
  CHECK(with([](Graph& g, Node*) { return g.call_method("relu", {g.get_attr("w")}); }));
  CHECK_FALSE(with([](Graph& g, Node* x) { return g.call_function(ops::relu, {x}); }));
  CHECK_FALSE(with([](Graph& g, Node* x) { return g.call_function(ops::add_Tensor, {g.get_attr("w"), x}); }));
  CHECK_FALSE(with([](Graph& g, Node*) { return g.call_function(ops::rand_like, {g.get_attr("w")}); }));
  CHECK_FALSE(with([](Graph& g, Node*) { return g.call_function(ops::relu_, {g.get_attr("w")}); }));
  CHECK_FALSE(with([](Graph& g, Node*) {
    return g.call_function(register_function("tests::rewrite::unknown"), {g.get_attr("w")});
  }));
}

TEST_CASE("scalar captures a number of any kind, and binds it for the replacement") {
  constexpr auto rules = ruleset(rule<"scale">(mul(x, s) >> div(x, s)));
  CHECK(rewritten(rules, [](auto x) { return x * 3; }) == "div = aten::div.Scalar(%x, 3)\nreturn %div\n");
  CHECK(rewritten(rules, [](auto x) { return x * 0.5; }) == "div = aten::div.Scalar(%x, 0.5)\nreturn %div\n");
  CHECK(rewritten(rules, [](auto x) { return 2.5 * x; }) == "div = aten::div.Scalar(%x, 2.5)\nreturn %div\n");
  CHECK_FALSE(fires(rules, [](auto x) { return x * x; }));
  CHECK_FALSE(fires(rules, [](auto x) { return x * x.size(0); }));  // a node is no number yet
}

TEST_CASE("value captures whatever is there; the same name must hold equal arguments") {
  constexpr auto rules =
      ruleset(rule<"twice">(transpose(transpose(x, value<"a">, value<"b">), value<"a">, value<"b">) >> x));
  CHECK(rewritten(rules, [](auto x) { return x.transpose(0, 1).transpose(0, 1); }) == "return %x\n");
  CHECK_FALSE(fires(rules, [](auto x) { return x.transpose(0, 1).transpose(1, 0); }));
  CHECK(rewritten(rules, [](auto x) {
          const auto n = x.dim();
          return x.transpose(0, n).transpose(0, n);
        }) == "return %x\n");
  constexpr auto lists = ruleset(rule<"view">(view(view(x, value<"size">), value<"size">) >> view(x, value<"size">)));
  CHECK(rewritten(lists, [](auto x) {
          return x.view({2, -1}).view({2, -1});
        }) == "view_1 = aten::view(%x, [2, -1])\nreturn %view_1\n");
  CHECK_FALSE(fires(lists, [](auto x) { return x.view({2, -1}).view({-1, 2}); }));
}

TEST_CASE("what was left out holds the schema's default, also for a capture of what comes next") {
  constexpr auto rules =
      ruleset(rule<"flatten">(flatten(x, value<"from">, value<"to">) >> [](const Match& m) -> Argument {
        return m.call(ops::transpose_int, {m[x], m[value<"from">], m[value<"to">]});
      }));
  CHECK(rewritten(rules, [](auto x) { return x.flatten(); }) ==
        "transpose = aten::transpose.int(%x, 0, -1)\nreturn %transpose\n");
  CHECK(rewritten(rules, [](auto x) { return x.flatten(1); }) ==
        "transpose = aten::transpose.int(%x, 1, -1)\nreturn %transpose\n");
  // A default equals the same value written out.
  constexpr auto same = ruleset(rule<"flatten">(flatten(flatten(x, _, value<"to">), _, value<"to">) >> x));
  CHECK(fires(same, [](auto x) { return x.flatten().flatten(2, -1); }));
  CHECK_FALSE(fires(same, [](auto x) { return x.flatten().flatten(2, 3); }));
}

TEST_CASE("a wildcard matches anything at all, and nothing too") {
  constexpr auto rules =
      ruleset(rule<"dropout">(dropout(x, _, lit<false>) >> x), rule<"clamp">(clamp(x, _, _) >> relu(x)));
  CHECK(rewritten(rules, [](auto x) { return dropout(x, 0.25, false); }) == "return %x\n");
  CHECK(rewritten(rules, [](auto x) { return x.clamp(0); }) == "relu = aten::relu(%x)\nreturn %relu\n");
  CHECK(rewritten(rules, [](auto x) { return x.clamp(std::nullopt, 1.5); }) == "relu = aten::relu(%x)\nreturn %relu\n");
}

// --- literals --------------------------------------------------------------------------------------------------------

TEST_CASE("numbers match by value, not by kind; booleans are no numbers") {
  constexpr auto rules = ruleset(rule<"one">(mul(x, 1_c) >> x), rule<"half">(mul(x, 0.5_c) >> div(x, 2_c)),
                                 rule<"minus">(mul(x, -1_c) >> neg(x)));
  CHECK(rewritten(rules, [](auto x) { return x * 1; }) == "return %x\n");
  CHECK(rewritten(rules, [](auto x) { return x * 1.0; }) == "return %x\n");
  CHECK(rewritten(rules, [](auto x) { return x * 0.5f; }) == "div = aten::div.Scalar(%x, 2)\nreturn %div\n");
  CHECK(rewritten(rules, [](auto x) { return x * -1.0; }) == "neg = aten::neg(%x)\nreturn %neg\n");
  CHECK_FALSE(fires(rules, [](auto x) { return x * 1.0000001; }));
  CHECK_FALSE(fires(rules, [](auto x) { return x * std::numeric_limits<double>::quiet_NaN(); }));
  CHECK_FALSE(fires(rules, [](auto x) { return x * 2; }));
  Graph g;
  Node* x = g.placeholder("x");
  g.output(g.call_function(ops::mul_Scalar, {x, true}));
  CHECK(rules.apply(g).rewrites == 0);
}

TEST_CASE("near takes what rounding to single precision leaves") {
  constexpr auto rules = ruleset(rule<"root">(div(x, near(1.41421356_c)) >> relu(x)));
  CHECK(fires(rules, [](auto x) { return x / 1.41421356; }));
  CHECK(fires(rules, [](auto x) { return x / 1.4142135f; }));
  CHECK(fires(rules, [](auto x) { return x / 1.4142135623730951; }));
  CHECK_FALSE(fires(rules, [](auto x) { return x / 1.4143; }));
  CHECK_FALSE(fires(rules, [](auto x) { return x / -1.41421356; }));
  CHECK_FALSE(fires(rules, [](auto x) { return x / x; }));
}

TEST_CASE("booleans, text, lists of numbers and None") {
  constexpr auto booleans = ruleset(rule<"idle">(dropout(x, _, lit<false>) >> x));
  CHECK_FALSE(fires(booleans, [](auto x) { return dropout(x, 0.5, true); }));
  constexpr auto texts = ruleset(rule<"tanh">(gelu(x, arg<"approximate">(text<"tanh">)) >> tanh(x)));
  CHECK(fires(texts, [](auto x) { return gelu(x, "tanh"); }));
  CHECK_FALSE(fires(texts, [](auto x) { return gelu(x, "none"); }));
  CHECK_FALSE(fires(texts, [](auto x) { return gelu(x); }));
  constexpr auto none_given = ruleset(rule<"no bias">(linear(x, w, none) >> matmul(x, t(w))));
  CHECK(fires(none_given, [](auto x, auto y) { return linear(x, y); }));
  CHECK(fires(none_given, [](auto x, auto y) { return linear(x, y, std::nullopt); }));
  CHECK_FALSE(fires(none_given, [](auto x, auto y, auto z) { return linear(x, y, z); }));
  constexpr auto lists = ruleset(rule<"permute">(permute(x, ints<1, 0>) >> t(x)));
  CHECK(fires(lists, [](auto x) { return x.permute({1, 0}); }));
  CHECK_FALSE(fires(lists, [](auto x) { return x.permute({0, 1}); }));
  CHECK_FALSE(fires(lists, [](auto x) { return x.permute({1, 0, 2}); }));
}

TEST_CASE("one number stands for a list of fixed length, on either side") {
  constexpr auto pairs = ruleset(rule<"pair">(max_pool2d(x, ints<2, 2>) >> relu(x)));
  CHECK(fires(pairs, [](auto x) { return max_pool2d(x, {2, 2}); }));
  CHECK(fires(pairs, [](auto x) { return max_pool2d(x, 2); }));
  CHECK(fires(pairs, [](auto x) { return max_pool2d(x, {2}); }));
  CHECK_FALSE(fires(pairs, [](auto x) { return max_pool2d(x, {2, 3}); }));
  constexpr auto single = ruleset(rule<"single">(max_pool2d(x, 2_c) >> relu(x)));
  CHECK(fires(single, [](auto x) { return max_pool2d(x, {2, 2}); }));
  CHECK(fires(single, [](auto x) { return max_pool2d(x, 2); }));
  CHECK_FALSE(fires(single, [](auto x) { return max_pool2d(x, {2, 3}); }));
}

// --- calls -----------------------------------------------------------------------------------------------------------

TEST_CASE("a parameter that the pattern leaves out must have its default") {
  constexpr auto rules = ruleset(rule<"pool">(max_pool2d(x, 2_c, 2_c) >> relu(x)));
  CHECK(fires(rules, [](auto x) { return max_pool2d(x, 2, 2); }));
  CHECK(fires(rules, [](auto x) { return max_pool2d(x, 2, 2, 0, 1, false); }));
  CHECK(fires(rules, [](auto x) { return max_pool2d(x, 2, 2, {0, 0}); }));
  CHECK_FALSE(fires(rules, [](auto x) { return max_pool2d(x, 2, 2, 1); }));
  CHECK_FALSE(fires(rules, [](auto x) { return max_pool2d(x, 2, 2, 0, 1, true); }));
  CHECK_FALSE(fires(rules, [](auto x) { return max_pool2d(x, 2); }));  // the stride's default is no number
  constexpr auto plain = ruleset(rule<"pool">(max_pool2d(x, 2_c) >> relu(x)));
  CHECK(fires(plain, [](auto x) { return max_pool2d(x, 2); }));
  CHECK_FALSE(fires(plain, [](auto x) { return max_pool2d(x, 2, 1); }));
}

TEST_CASE("arguments match by parameter, however they are given in the graph") {
  constexpr auto rules = ruleset(rule<"conv">(conv2d(x, w, b, 2_c, 1_c) >> relu(x)));
  const auto with = [&](std::vector<Argument> args, std::vector<KeywordArgument> kwargs) {
    Graph g;
    Node *x = g.placeholder("x"), *w = g.placeholder("w");
    args.insert(args.begin(), {x, w});
    g.output(g.call_function(ops::conv2d, args, kwargs));
    return rules.apply(g).rewrites == 1;
  };
  CHECK(with({{}, 2, 1}, {}));
  CHECK(with({{}, 2}, {{"padding", 1}}));
  CHECK(with({}, {{"padding", 1}, {"stride", 2}}));
  CHECK(with({{}}, {{"padding", Argument::list({1, 1})}, {"stride", Argument::list({2, 2})}, {"groups", 1}}));
  CHECK_FALSE(with({}, {{"padding", 2}, {"stride", 1}}));
  CHECK_FALSE(with({}, {{"stride", 2}}));
}

TEST_CASE("arg names a parameter in the pattern and in the replacement") {
  constexpr auto rules = ruleset(rule<"sum">(sum(x, arg<"dim">(1_c), arg<"keepdim">(lit<true>)) >>
                                             mean(x, arg<"keepdim">(lit<true>), arg<"dim">(ints<1>))));
  CHECK(rewritten(rules, [](auto x) { return x.sum(1, true); }) ==
        "mean = aten::mean.dim(%x, [1], True)\nreturn %mean\n");
  CHECK_FALSE(fires(rules, [](auto x) { return x.sum(1); }));
  constexpr auto gap = ruleset(rule<"gap">(relu6(x) >> max_pool2d(x, 2_c, arg<"padding">(1_c))));
  CHECK(rewritten(gap, [](auto x) { return relu6(x); }) ==
        "max_pool2d = aten::max_pool2d(%x, 2, padding=1)\nreturn %max_pool2d\n");
}

TEST_CASE("methods are matched as the operators that they mean, overload for overload") {
  constexpr auto rules = ruleset(rule<"add">(add(x, s) >> sub(x, s)));
  CHECK(rewritten(rules, [](auto x) { return x.add(2); }) == "sub = aten::sub.Scalar(%x, 2)\nreturn %sub\n");
  CHECK_FALSE(fires(rules, [](auto x) { return x.add(x); }));
  Graph g;  // a method that nobody has resolved yet
  Node* x = g.placeholder("x");
  g.output(g.call_method("add", {x}, {{"other", 2}}));
  CHECK(rewritten(rules, g) == "sub = aten::sub.Scalar(%x, 2)\nreturn %sub\n");
  Graph unknown;
  unknown.output(unknown.call_method("no_such_method", {unknown.placeholder("x")}));
  CHECK(rewritten(rules, unknown) == "no_such_method = .no_such_method(%x)\nreturn %no_such_method\n");
}

TEST_CASE("the overload for tensors with a number in it is the one for numbers") {
  constexpr auto rules = ruleset(rule<"one">(mul(x, 1_c) >> x), rule<"scale">(div(x, s) >> mul(x, s)));
  const auto with = [&](const Operator& op, Argument number, std::vector<KeywordArgument> kwargs = {}) {
    Graph g;
    Node* x = g.placeholder("x");
    std::vector<Argument> args = {x};
    if (kwargs.empty()) args.push_back(number);
    g.output(g.call_function(op, args, kwargs));
    return rewritten(rules, g);
  };
  CHECK(with(ops::mul_Tensor, 1) == "return %x\n");
  CHECK(with(ops::mul_Tensor, 1.0) == "return %x\n");
  CHECK(with(ops::mul_Tensor, {}, {{"other", 1}}) == "return %x\n");
  CHECK(with(ops::mul_Tensor, 2) == "mul = aten::mul.Tensor(%x, 2)\nreturn %mul\n");
  CHECK(with(ops::div_Tensor, 4) == "mul = aten::mul.Scalar(%x, 4)\nreturn %mul\n");
}

TEST_CASE("an operator of the user's is matched and built like any other") {
  constexpr auto rotate = op<"tests::pattern_rotate(Tensor x, float angle=0.5, *, bool degrees=False) -> Tensor">;
  constexpr auto rules = ruleset(
      rule<"rotate twice">(apply<rotate>(apply<rotate>(x, s), s) >> apply<rotate>(x, s, arg<"degrees">(lit<true>))));
  Graph g;
  Node* x = g.placeholder("x");
  Node* once = g.call_function(rotate, {x, 0.25});
  g.output(g.call_function(rotate, {once}, {{"angle", 0.25}}));
  CHECK(rewritten(rules, g) ==
        "pattern_rotate_1 = tests::pattern_rotate(%x, 0.25, degrees=True)\nreturn %pattern_rotate_1\n");
}

// --- commutative operators -------------------------------------------------------------------------------------------

TEST_CASE("commutative operators match in both orders, at every level") {
  constexpr auto rules = ruleset(rule<"fused">(add(mul(neg(x), y), relu(z)) >> maximum(x, minimum(y, z))));
  const std::string expected =
      "minimum = aten::minimum(%y, %z)\nmaximum = aten::maximum(%x, %minimum)\nreturn %maximum\n";
  CHECK(rewritten(rules, [](auto x, auto y, auto z) { return -x * y + relu(z); }) == expected);
  CHECK(rewritten(rules, [](auto x, auto y, auto z) { return y * -x + relu(z); }) == expected);
  CHECK(rewritten(rules, [](auto x, auto y, auto z) { return relu(z) + -x * y; }) == expected);
  CHECK(rewritten(rules, [](auto x, auto y, auto z) { return relu(z) + y * -x; }) == expected);
  CHECK_FALSE(fires(rules, [](auto x, auto y, auto z) { return -x * y - relu(z); }));
}

TEST_CASE("both orders are tried where only one fits, with a capture bound on either side") {
  constexpr auto rules = ruleset(rule<"r">(add(mul(x, y), mul(x, z)) >> mul(x, add(y, z))));
  const auto f = [](bool a, bool b) {
    return [=](auto p, auto q, auto r) {
      const auto left = a ? p * q : q * p;
      const auto right = b ? p * r : r * p;
      return left + right;
    };
  };
  for (int i = 0; i < 4; ++i)
    CHECK(rewritten(rules, f(i & 1, i & 2)) ==
          "add_1 = aten::add.Tensor(%y, %z)\nmul = aten::mul.Tensor(%x, %add_1)\nreturn %mul\n");
}

TEST_CASE("operators that do not commute match in one order only") {
  constexpr auto rules = ruleset(rule<"r">(sub(neg(x), y) >> relu(x)));
  CHECK(fires(rules, [](auto x, auto y) { return -x - y; }));
  CHECK_FALSE(fires(rules, [](auto x, auto y) { return y - -x; }));
}

TEST_CASE("a sum with a factor on one side does not commute") {
  constexpr auto rules = ruleset(rule<"r">(add(x, neg(y), arg<"alpha">(s)) >> sub(x, y, arg<"alpha">(s))));
  CHECK(rewritten(rules, [](auto x, auto y) { return add(x, -y, 3); }) ==
        "sub = aten::sub.Tensor(%x, %y, alpha=3)\nreturn %sub\n");
  CHECK_FALSE(fires(rules, [](auto x, auto y) { return add(-y, x, 3); }));
}

// --- alternatives ----------------------------------------------------------------------------------------------------

TEST_CASE("either of several patterns, at the root and below") {
  constexpr auto rules = ruleset(rule<"r">(relu(mul(x, 0.5_c) | div(x, 2_c) | neg(x)) >> x));
  CHECK(rewritten(rules, [](auto x) { return relu(x * 0.5); }) == "return %x\n");
  CHECK(rewritten(rules, [](auto x) { return relu(x / 2); }) == "return %x\n");
  CHECK(rewritten(rules, [](auto x) { return relu(-x); }) == "return %x\n");
  CHECK_FALSE(fires(rules, [](auto x) { return relu(x / 3); }));
  constexpr auto roots = ruleset(rule<"r">((relu(neg(x)) | neg(relu(x))) >> x));
  CHECK(rewritten(roots, [](auto x) { return relu(-x); }) == "return %x\n");
  CHECK(rewritten(roots, [](auto x) { return -relu(x); }) == "return %x\n");
}

TEST_CASE("alternatives inside alternatives, with constants and captures among them") {
  constexpr auto rules = ruleset(rule<"r">(relu(add(x, 1_c | 2_c) | (neg(x) | abs(x) | sigmoid(tanh(x) | x))) >> x));
  CHECK(fires(rules, [](auto x) { return relu(x + 1); }));
  CHECK(fires(rules, [](auto x) { return relu(x + 2); }));
  CHECK_FALSE(fires(rules, [](auto x) { return relu(x + 3); }));
  CHECK(fires(rules, [](auto x) { return relu(abs(x)); }));
  CHECK(rewritten(rules, [](auto x) { return relu(x.tanh().sigmoid()); }) == "return %x\n");
  CHECK(rewritten(rules, [](auto x) { return relu(x.sigmoid()); }) == "return %x\n");
}

TEST_CASE("readings: alternatives add up, what stands beside each other multiplies") {
  constexpr auto of = [](auto p) { return rewrite::readings(rewrite::flat<decltype(p)>.terms); };
  // A call has three tests, of its operator, its users and its order; all else has one.
  CHECK(of(relu(x)).count == 1);
  CHECK(of(relu(x)).tests == 4);
  CHECK(of(relu(x) | tanh(x)).count == 2);
  CHECK(of(relu(x) | tanh(x)).tests == 8);
  constexpr auto four = mul(relu(x) | tanh(x), sigmoid(y) | y);
  CHECK(of(four).count == 4);
  CHECK(of(four).tests == 4 * 3 + 2 * 8 + 2 * 5);
  CHECK(of(mul(four, neg(z) | z | relu(relu(z)))).count == 12);
  constexpr auto sum = [](auto p) { return mul(p, p); };
  constexpr auto many = sum(sum(sum(sum(relu(x) | tanh(x) | sigmoid(x)))));  // 3 to the power of 16
  CHECK(of(many).count == rewrite::Readings::most);
  CHECK(of(many).tests == rewrite::Readings::most);
}
TEST_CASE("any_of takes one of several operators with the same arguments") {
  constexpr auto rules = ruleset(rule<"r">(any_of<ops::relu, ops::abs, ops::sigmoid>(relu(x)) >> relu(x)));
  CHECK(rewritten(rules, [](auto x) { return relu(x).abs(); }) == "relu = aten::relu(%x)\nreturn %relu\n");
  CHECK(rewritten(rules, [](auto x) { return relu(relu(relu(x))); }) == "relu_2 = aten::relu(%x)\nreturn %relu_2\n");
  CHECK_FALSE(fires(rules, [](auto x) { return relu(x).tanh(); }));
}

// --- lists -----------------------------------------------------------------------------------------------------------

TEST_CASE("a list matches item by item and by length") {
  constexpr auto rules = ruleset(rule<"r">(cat(list(x, neg(y)), 1_c) >> stack(list(y, x))));
  CHECK(rewritten(rules, [](auto x, auto y) {
          return cat(std::vector{x, -y}, 1);
        }) == "stack = aten::stack([%y, %x])\nreturn %stack\n");
  CHECK_FALSE(fires(rules, [](auto x, auto y) { return cat(std::vector{-y, x}, 1); }));
  CHECK_FALSE(fires(rules, [](auto x, auto y) { return cat(std::vector{x, -y}, 0); }));
  CHECK_FALSE(fires(rules, [](auto x, auto y) { return cat(std::vector{x, -y, x}, 1); }));
  CHECK_FALSE(fires(rules, [](auto x) { return cat(x.chunk(2), 1); }));
}

TEST_CASE("one capture for a whole list, and one that comes back inside another list") {
  constexpr auto rules = ruleset(rule<"r">(relu(cat(value<"all">, value<"dim">)) >> cat(value<"all">, value<"dim">)),
                                 rule<"same">(cat(list(x, x)) >> x));
  CHECK(rewritten(rules, [](auto x, auto y) {
          return relu(cat(std::vector{x, y}, 1));
        }) == "cat = aten::cat([%x, %y], 1)\nreturn %cat\n");
  CHECK(rewritten(rules, [](auto x) { return cat(std::vector{x, x}); }) == "return %x\n");
  CHECK_FALSE(fires(rules, [](auto x, auto y) { return cat(std::vector{x, y}); }));
}

// --- once ------------------------------------------------------------------------------------------------------------

TEST_CASE("once asks for a single user of the value") {
  constexpr auto rules = ruleset(rule<"r">(relu(neg(x).once()) >> abs(x)));
  CHECK(fires(rules, [](auto x) { return relu(-x); }));
  CHECK_FALSE(fires(rules, [](auto x) {
    const auto n = -x;
    return relu(n) + n;
  }));
  constexpr auto any_number = ruleset(rule<"r">(relu(neg(x)) >> abs(x)));
  CHECK(rewritten(any_number, [](auto x) {
          const auto n = -x;
          const auto r = relu(n);
          return r + n;
        }) == "neg = aten::neg(%x)\nabs = aten::abs(%x)\nadd = aten::add.Tensor(%abs, %neg)\nreturn %add\n");
}

TEST_CASE("once holds for the root of a pattern too") {
  constexpr auto rules = ruleset(rule<"r">(neg(x).once() >> abs(x)));
  CHECK(fires(rules, [](auto x) { return relu(-x); }));
  CHECK_FALSE(fires(rules, [](auto x) {
    const auto n = -x;
    return relu(n) + n;
  }));
}

TEST_CASE("once is asked again when another rewrite takes a user away") {
  constexpr auto rules = ruleset(rule<"drop">(mul(_, 0_c) >> [](const Match& m) -> Argument {
                                   return m.call(ops::zeros_like, {m.graph().nodes().front()});
                                 }),
                                 rule<"r">(relu(neg(x).once()) >> abs(x)), rule<"root">(tanh(x).once() >> sigmoid(x)));
  CHECK(rewritten(rules,
                  [](auto x) {
                    const auto n = -x;
                    const auto dropped = n * 0;
                    const auto kept = relu(n);
                    return kept + dropped;
                  }) ==
        "zeros_like = aten::zeros_like(%x)\nabs = aten::abs(%x)\nadd = aten::add.Tensor(%abs, %zeros_like)\nreturn "
        "%add\n");
  CHECK(rewritten(rules,
                  [](auto x) {
                    const auto n = tanh(x);
                    const auto dropped = n * 0;
                    return n + dropped;
                  }) ==
        "sigmoid = aten::sigmoid(%x)\nzeros_like = aten::zeros_like(%x)\nadd = aten::add.Tensor(%sigmoid, "
        "%zeros_like)\nreturn %add\n");
}
