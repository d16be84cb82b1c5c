// siblings: all users of one value that match alike, replaced together.
#include <doctest/doctest.h>

#include "rewrite/rewritten.hpp"

using namespace fxx;
using namespace fxx::pattern;
using test::body_of;
using test::fault_of;
using test::rewritten;

namespace {
constexpr auto factor = scalar<"s">;

/// x * 2, x * 3 -> quotients of one stack: enough to see what was collected.
constexpr auto together = [](const Match& m) -> Argument {
  std::vector<Argument> members, parts;
  for (const Match& member : m.members()) members.push_back(member[factor]);
  Node* all = m.call(ops::stack, {Argument::list({m[x], m[x]})});
  for (std::size_t i = 0; i < members.size(); ++i) parts.push_back(m.call(ops::div_Scalar, {all, members[i]}));
  return Argument::list(parts);
};
constexpr auto scales = ruleset(rule<"scales">(siblings(x, mul(x, factor)) >> together));
}  // namespace

TEST_CASE("all users of a value that match are replaced at once, in the order of the graph") {
  Graph g;
  Node* x = g.placeholder("x");
  Node* a = g.call_function(ops::mul_Scalar, {x, 2});
  Node* r = g.call_function(ops::relu, {x});
  Node* b = g.call_function(ops::mul_Scalar, {x, 3});
  Node* c = g.call_method("mul", {x, 4});
  g.output(Argument::list({c, a, r, b}));
  const auto report = scales.apply(g);
  g.lint();
  CHECK(report.rewrites == 1);
  CHECK(body_of(g) ==
        "stack = aten::stack([%x, %x])\ndiv = aten::div.Scalar(%stack, 2)\ndiv_1 = aten::div.Scalar(%stack, 3)\n"
        "div_2 = aten::div.Scalar(%stack, 4)\nrelu = aten::relu(%x)\nreturn [%div_2, %div, %relu, %div_1]\n");
}

TEST_CASE("one user alone has no siblings; users of two values are two families") {
  CHECK(rewritten(ruleset(rule<"r">(siblings(x, neg(x)) >> [](const Match&) -> Argument { return {}; })),
                  [](auto x) { return -x; }) == "neg = aten::neg(%x)\nreturn %neg\n");
  Graph g;
  Node *x = g.placeholder("x"), *y = g.placeholder("y");
  std::vector<Argument> all;
  for (Node* input : {x, y, x, y}) all.push_back(g.call_function(ops::mul_Scalar, {input, 2}));
  g.output(Argument::list(all));
  CHECK(scales.apply(g).rewrites == 2);
  g.lint();
  CHECK(g.find_nodes(Opcode::call_function, "torch.ops.aten.stack.default").size() == 2);
}

TEST_CASE("a guard sees all members") {
  constexpr auto three = ruleset(
      rule<"r">(siblings(x, mul(x, factor)) >> together, [](const Match& m) { return m.members().size() == 3; }));
  const auto with = [&](int users) {
    Graph g;
    Node* x = g.placeholder("x");
    std::vector<Argument> all;
    for (int i = 0; i < users; ++i) all.push_back(g.call_function(ops::mul_Scalar, {x, i}));
    g.output(Argument::list(all));
    return three.apply(g).rewrites;
  };
  CHECK(with(2) == 0);
  CHECK(with(3) == 1);
  CHECK(with(4) == 0);
}

TEST_CASE("members on two sides of a mutation are not put together") {
  Graph g;
  Node* x = g.placeholder("x");
  Node* a = g.call_function(ops::mul_Scalar, {x, 2});
  g.call_function(ops::relu_, {x});
  Node* b = g.call_function(ops::mul_Scalar, {x, 3});
  g.output(Argument::list({a, b}));
  CHECK(scales.apply(g).rewrites == 0);
}

TEST_CASE("members need what stands before the first of them; constants are moved there") {
  constexpr auto linears = ruleset(rule<"r">(siblings(x, matmul(x, w)) >> [](const Match& m) -> Argument {
    std::vector<Argument> parts, weights;
    for (const Match& member : m.members()) weights.push_back(member[w]);
    Node* all = m.call(ops::cat, {Argument::list(weights)});
    for (const Match& member : m.members()) parts.push_back(m.call(ops::mm, {member[x], all}));
    return Argument::list(parts);
  }));
  Graph g;  // the second weight is computed from the first result
  Node *x = g.placeholder("x"), *w = g.placeholder("w");
  Node* a = g.call_function(ops::matmul, {x, w});
  Node* b = g.call_function(ops::matmul, {x, g.call_function(ops::relu, {a})});
  g.output(Argument::list({a, b}));
  CHECK(linears.apply(g).rewrites == 0);

  Graph h;  // the second weight is a constant that is made late
  Node *input = h.placeholder("x"), *first = h.get_attr("first");
  a = h.call_function(ops::matmul, {input, first});
  b = h.call_function(ops::matmul, {input, h.call_function(ops::relu, {h.get_attr("second")})});
  h.output(Argument::list({a, b}));
  CHECK(linears.apply(h).rewrites == 1);
  h.lint();
  CHECK(body_of(h) ==
        "first = attribute first\nsecond = attribute second\nrelu = aten::relu(%second)\ncat = aten::cat([%first, "
        "%relu])\n"
        "mm = aten::mm(%x, %cat)\nmm_1 = aten::mm(%x, %cat)\nreturn [%mm, %mm_1]\n");
}

TEST_CASE("the wrong values, or the wrong number of them, are refused and leave nothing behind") {
  const auto refused = [](const auto& rules, std::string_view words = "(2)") {
    Graph g;
    Node* x = g.placeholder("x");
    g.output(Argument::list({g.call_function(ops::mul_Scalar, {x, 2}), g.call_function(ops::mul_Scalar, {x, 3})}));
    const std::string before = to_string(g);
    const auto fault = fault_of<RuleError>([&] { rules.apply(g); });
    CHECK(to_string(g) == before);
    g.lint();
    return fault.id == 402 && fault.says(words);
  };
  CHECK(refused(ruleset(
      rule<"r">(siblings(x, mul(x, factor)) >> [](const Match& m) -> Argument { return m.call(ops::relu, {m[x]}); }))));
  CHECK(refused(ruleset(
      rule<"r">(siblings(x, mul(x, factor)) >> [](const Match& m) -> Argument { return Argument::list({m[x]}); }))));
  CHECK(refused(ruleset(rule<"r">(siblings(x, mul(x, factor)) >> [](const Match& m) -> Argument {
    return Argument::list({m[x], 2});
  }))));
  CHECK(refused(ruleset(rule<"r">(siblings(x, mul(x, factor)) >> [](const Match& m) -> Argument {
                  return Argument::list({m[x], m.members()[1].root()});
                })),
                "'mul_1', which is not in the graph before"));
}

TEST_CASE("two families of siblings in one set keep apart, whichever is tried first") {
  // The third rule shares tests with the first, so it is tried before the second, whose guard then declines.
  constexpr auto maxima = [](const Match& m) -> Argument {
    std::vector<Argument> parts;
    for (const Match& member : m.members()) parts.push_back(m.call(ops::maximum, {member[x], member[y]}));
    return Argument::list(parts);
  };
  constexpr auto declines = [](const Match& m) -> Argument { return m.members().empty() ? m[x] : Argument(); };
  constexpr auto rules =
      ruleset(rule<"a">(siblings(x, mul(x, relu(abs(y)))) >> declines),
              rule<"b">(siblings(x, mul(x, tanh(y))) >> declines, [](const Match&) { return false; }),
              rule<"c">(siblings(x, mul(x, relu(neg(y)))) >> maxima));
  Graph g;
  Node* in = g.placeholder("x");
  Node *t = g.call_function(ops::tanh, {in}), *r = g.call_function(ops::relu, {g.call_function(ops::neg, {in})});
  Node* first = g.call_function(ops::mul_Tensor, {t, r});
  Node* of_c = g.call_function(ops::mul_Tensor, {t, g.call_function(ops::relu, {g.call_function(ops::neg, {t})})});
  Node* of_b = g.call_function(ops::mul_Tensor, {r, g.call_function(ops::tanh, {t})});
  g.output(Argument::list({first, of_c, of_b}));
  CHECK(rules.apply(g).to_string() == "c: 1");
  g.lint();
  CHECK(test::text_of(*g.output_node()->arg(0).items()[0].node()) == "aten::maximum(%tanh, %x)");
  CHECK(test::text_of(*g.output_node()->arg(0).items()[1].node()) == "aten::maximum(%tanh, %tanh)");
  CHECK(g.output_node()->arg(0).items()[2].node() == of_b);
}

TEST_CASE("a commutative call is a member whichever way round it has the shared value") {
  constexpr auto products = ruleset(rule<"r">(siblings(x, mul(x, y)) >> [](const Match& m) -> Argument {
    std::vector<Argument> parts;
    for (const Match& member : m.members()) parts.push_back(m.call(ops::maximum, {member[x], member[y]}));
    return Argument::list(parts);
  }));
  Graph g;
  Node *x = g.placeholder("x"), *y = g.placeholder("y");
  g.output(Argument::list({g.call_function(ops::mul_Tensor, {x, y}), g.call_function(ops::mul_Tensor, {y, x})}));
  CHECK(rewritten(products, g) ==
        "maximum = aten::maximum(%x, %y)\nmaximum_1 = aten::maximum(%x, %y)\nreturn [%maximum, %maximum_1]\n");
}

TEST_CASE("a family of thousands is one family") {
  Graph g;
  Node* x = g.placeholder("x");
  std::vector<Argument> all;
  for (int i = 0; i < 4000; ++i) all.push_back(g.call_function(ops::mul_Scalar, {x, i}));
  g.output(Argument::list(all));
  CHECK(scales.apply(g).rewrites == 1);
  g.lint();
  CHECK(test::text_of(*g.output_node()->arg(0).items()[3999].node()) == "aten::div.Scalar(%stack, 3999)");
}

TEST_CASE("a family is found behind a user that matches, and is no member since what the others take comes too late") {
  constexpr auto w = tensor<"w">;
  constexpr auto rules = ruleset(rule<"r">(siblings(x, matmul(x, w)) >> [](const Match& m) -> Argument {
    std::vector<Argument> factors, parts;
    for (const Match& member : m.members()) factors.push_back(member[tensor<"w">]);
    Node* all = m.call(ops::stack, {Argument::list(factors)});
    for (std::size_t i = 0; i < factors.size(); ++i) parts.push_back(m.call(ops::div_Scalar, {all, static_cast<std::int64_t>(i)}));
    return Argument::list(parts);
  }));
  Graph g;
  Node *x = g.placeholder("x"), *first = g.placeholder("w");
  Node* a = g.call_function(ops::matmul, {x, first});
  Node *u = g.call_function(ops::relu, {a}), *v = g.call_function(ops::exp, {a});
  g.output(Argument::list({a, g.call_function(ops::matmul, {x, u}), g.call_function(ops::matmul, {x, v})}));
  CHECK(rules.apply(g).rewrites == 1);
  g.lint();
  CHECK(body_of(g).find("stack = aten::stack([%relu, %exp])") != std::string::npos);
}
