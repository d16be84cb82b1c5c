// Several outputs replaced together: three of them, a call that they share, results of one operator.
#include <doctest/doctest.h>

#include "rewrite/rewritten.hpp"

using namespace fxx;
using namespace fxx::pattern;
using test::body_of;
using test::rewritten;

TEST_CASE("three outputs of one value are replaced together, in whichever order they stand") {
  constexpr auto rules = ruleset(rule<"three">(outputs(sin(x), cos(x), tan(x)) >> outputs(neg(x), exp(x), abs(x))));
  CHECK(rewritten(rules, [](auto x) { return fxx::stack({x.sin(), x.cos(), x.tan()}); }) ==
        "neg = aten::neg(%x)\nexp = aten::exp(%x)\nabs = aten::abs(%x)\n"
        "stack = aten::stack([%neg, %exp, %abs])\nreturn %stack\n");
  CHECK(rewritten(rules, [](auto x) {
          auto t = x.tan(), c = x.cos();
          return t - c * x.sin();
        }) ==
        "neg = aten::neg(%x)\nexp = aten::exp(%x)\nabs = aten::abs(%x)\n"
        "mul = aten::mul.Tensor(%exp, %neg)\nsub = aten::sub.Tensor(%abs, %mul)\nreturn %sub\n");
  Graph two = symbolic_graph([](auto x) { return x.sin() + x.cos(); });
  CHECK(rules.apply(two).rewrites == 0);
  Graph apart = symbolic_graph([](auto x) { return x.sin() + x.cos() + x.exp().tan(); });
  CHECK(rules.apply(apart).rewrites == 0);
}

TEST_CASE("outputs share a call that one of them names") {
  constexpr auto r = relu(x).as<"r">();
  constexpr auto rules = ruleset(rule<"r">(outputs(sin(r), cos(tensor<"r">)) >> outputs(neg(x), exp(x))));
  const auto made = [&](auto f) {
    Graph g = symbolic_graph(f);
    const auto report = rules.apply(g);
    g.lint();
    return std::to_string(report.rewrites) + ": " + body_of(g);
  };
  CHECK(made([](auto x) {
          auto y = x.relu();
          return y.sin() * y.cos();
        }) == "1: neg = aten::neg(%x)\nexp = aten::exp(%x)\nmul = aten::mul.Tensor(%neg, %exp)\nreturn %mul\n");
  CHECK(made([](auto x) { return x.relu().sin() * x.relu().cos(); }).starts_with("0: "));
}

TEST_CASE("a call that is written in both outputs is one node or two that do the same") {
  constexpr auto rules = ruleset(rule<"r">(outputs(sin(relu(x)), cos(relu(x))) >> outputs(neg(x), exp(x))));
  const std::string wanted =
      "neg = aten::neg(%x)\nexp = aten::exp(%x)\nmul = aten::mul.Tensor(%neg, %exp)\nreturn %mul\n";
  CHECK(rewritten(rules, [](auto x) {
          auto y = x.relu();
          return y.sin() * y.cos();
        }) == wanted);
  CHECK(rewritten(rules, [](auto x) { return x.relu().sin() * x.relu().cos(); }) == wanted);
  // Somebody else who uses the shared call keeps it.
  CHECK(rewritten(rules, [](auto x) {
          auto y = x.relu();
          return fxx::stack({y.sin(), y.cos(), y});
        }) ==
        "relu = .relu(%x)\nneg = aten::neg(%x)\nexp = aten::exp(%x)\n"
        "stack = aten::stack([%neg, %exp, %relu])\nreturn %stack\n");
}

TEST_CASE("the results of one operator are replaced together") {
  constexpr auto best = topk(x, 1_c).as<"t">();
  constexpr auto rules =
      ruleset(rule<"best">(outputs(getitem(best, 0_c), getitem(tensor<"t">, 1_c)) >> outputs(amax(x), argmax(x))));
  const auto made = [&](int first, int second) {
    Graph g;
    Node* top = g.call_function(ops::topk, {g.placeholder("x"), 1});
    Node* one = g.call_function(ops::operator_getitem, {top, first});
    Node* other = g.call_function(ops::operator_getitem, {top, second});
    g.output(Argument::list({one, other}));
    const auto report = rules.apply(g);
    g.lint();
    return std::to_string(report.rewrites) + ": " + body_of(g);
  };
  const std::string before = "1: amax = aten::amax(%x)\nargmax = aten::argmax(%x)\n";
  CHECK(made(0, 1) == before + "return [%amax, %argmax]\n");
  CHECK(made(1, 0) == before + "return [%argmax, %amax]\n");
  CHECK(made(0, 0).starts_with("0: "));
}

TEST_CASE("a result that stands in the graph already is there for all that use it, and stays") {
  // It stands behind what uses the other output.
  constexpr auto kept =
      ruleset(rule<"r">(outputs(mul(x, x), square(x).as<"e">()) >> outputs(tensor<"e">, tensor<"e">)));
  CHECK(rewritten(kept, [](auto x) {
          auto m = x * x;
          auto a = m.sin();
          return a * x.square();
        }) == "square = .square(%x)\nsin = .sin(%square)\nmul_1 = aten::mul.Tensor(%sin, %square)\nreturn %mul_1\n");
  constexpr auto captured = ruleset(rule<"r">(outputs(relu(x), add(x, y)) >> outputs(y, exp(x))));
  constexpr auto built = ruleset(rule<"r">(outputs(relu(x), add(x, y)) >> [](const Match& m) -> Argument {
    return Argument::list({m[y], m.call(ops::exp, {m[x]})});
  }));
  const auto late = [](auto x, auto z) {
    auto r = x.relu().sin();
    return r * (x + z.tanh());
  };
  const std::string wanted =
      "exp = aten::exp(%x)\ntanh = .tanh(%y)\nsin = .sin(%tanh)\nmul = aten::mul.Tensor(%sin, %exp)\nreturn %mul\n";
  CHECK(rewritten(captured, late) == wanted);
  CHECK(rewritten(built, late) == wanted);
  // Nobody else uses it.
  constexpr auto named =
      ruleset(rule<"r">(outputs(mul(x, sign(x).as<"s">()), div(x, abs(x))) >> outputs(exp(x), tensor<"s">)));
  CHECK(rewritten(named, [](auto x) {
          auto m = x * x.sign();
          return m + x / x.abs();
        }) == "sign = .sign(%x)\nexp = aten::exp(%x)\nadd = aten::add.Tensor(%exp, %sign)\nreturn %add\n");
  constexpr auto other = ruleset(rule<"r">(outputs(mul(x, y), relu(x)) >> outputs(sin(x), y)));
  CHECK(rewritten(other, [](auto x, auto z) {
          auto m = x * z.tanh();
          return m + x.relu();
        }) == "tanh = .tanh(%y)\nsin = aten::sin(%x)\nadd = aten::add.Tensor(%sin, %tanh)\nreturn %add\n");
}

TEST_CASE("outputs stay where their results would need each other, or what cannot be computed early") {
  const auto left = [](const auto& rules, auto f) {
    Graph g = symbolic_graph(f);
    const std::string before = body_of(g);
    const std::size_t rewrites = rules.apply(g).rewrites;
    g.lint();
    return rewrites == 0 && body_of(g) == before;
  };
  // What is captured is the other result, which goes.
  constexpr auto captured = ruleset(rule<"r">(outputs(sub(x, y), relu(x)) >> outputs(mul(x, y), tanh(x))));
  CHECK(left(captured, [](auto x) {
    auto r = x.relu();
    return (x - r).exp() * r;
  }));
  CHECK(rewritten(captured, [](auto x, auto y) {
          return (x - y) * x.relu();
        }).starts_with("mul_1 = aten::mul.Tensor(%x, %y)"));
  constexpr auto built =
      ruleset(rule<"r">(outputs(sub(x, y), relu(x)) >> [](const Match& m) -> Argument {
        return Argument::list({m.call(ops::mul_Tensor, {m[x], m[y]}), m.call(ops::tanh, {m[x]})});
      }));
  CHECK(left(built, [](auto x) {
    auto r = x.relu();
    return (x - r).exp() * r;
  }));
  // Nobody makes anything of it.
  constexpr auto unused = ruleset(rule<"r">(outputs(sub(x, y), relu(x)) >> outputs(exp(x), tanh(x))));
  CHECK(rewritten(unused, [](auto x) {
          auto r = x.relu();
          return (x - r) * r;
        }) == "exp = aten::exp(%x)\ntanh = aten::tanh(%x)\nmul = aten::mul.Tensor(%exp, %tanh)\nreturn %mul\n");
  // An item of a list that needs the other result.
  constexpr auto items = ruleset(rule<"r">(outputs(cat(list(x, each<"p">(neg(y)))), relu(x)) >>
                                           outputs(cat(list(x, each<"p">(abs(y)))), tanh(x))));
  CHECK(left(items, [](auto x) {
    auto r = x.relu();
    return fxx::cat({x, -r.exp()}) * 2 + r.sum();
  }));
  // A call below a result, which stays, whose operand nobody names.
  constexpr auto below =
      ruleset(rule<"r">(outputs(add(x, exp(_).as<"e">()), relu(x)) >> outputs(mul(x, tensor<"e">), tanh(x))));
  CHECK(left(below, [](auto x) {
    auto r = x.relu();
    return (x + r.neg().exp()) * r;
  }));
  CHECK(rewritten(below, [](auto x, auto y) {
          auto r = x.relu();
          return (x + y.neg().exp()) * r;
        }).find("mul_1 = aten::mul.Tensor(%x, %exp)") != std::string::npos);
  // An output that stays, and that the other one is made of.
  constexpr auto output =
      ruleset(rule<"r">(outputs(relu(x), mul(x, _).as<"e">()) >> outputs(neg(tensor<"e">), tensor<"e">)));
  CHECK(left(output, [](auto x) {
    auto r = x.relu();
    return r * (x * r.exp());
  }));
  CHECK(rewritten(output, [](auto x, auto y) {
          auto r = x.relu();
          return r.sin() * (x * y.exp());
        }).find("neg = aten::neg(%mul)") != std::string::npos);
}
