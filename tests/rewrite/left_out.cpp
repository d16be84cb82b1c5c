// Numbers that a call leaves out, or writes as 2 where the pattern has 2.0: they are there, whichever word captures them.
#include <doctest/doctest.h>

#include "rewrite/rewritten.hpp"

using namespace fxx;
using namespace fxx::pattern;
using test::fires;
using test::rewritten;

TEST_CASE("what is near a default is there where it is left out") {
  constexpr auto slope = ruleset(rule<"slope">(leaky_relu(x, near(0.01_c)) >> relu(x)));
  CHECK(fires(slope, [](auto x) { return leaky_relu(x); }));
  CHECK(fires(slope, [](auto x) { return leaky_relu(x, 0.01); }));
  CHECK_FALSE(fires(slope, [](auto x) { return leaky_relu(x, 0.02); }));
  constexpr auto factor = ruleset(rule<"factor">(add(x, y, arg<"alpha">(near(1_c))) >> mul(x, y)));
  CHECK(fires(factor, [](auto x, auto y) { return x + y; }));
  constexpr auto other = ruleset(rule<"other">(leaky_relu(x, near(0.02_c)) >> relu(x)));
  CHECK_FALSE(fires(other, [](auto x) { return leaky_relu(x); }));
}

TEST_CASE("a name that is bound to a default holds where that is left out, before it and behind it") {
  constexpr auto first = ruleset(rule<"first">(add(mul(x, s) | with<"s">(1_c, relu(x)), y, arg<"alpha">(s)) >> neg(x)));
  CHECK(fires(first, [](auto x, auto y) { return relu(x) + y; }));
  constexpr auto second =
      ruleset(rule<"second">(addmm(x, relu(y) | with<"s">(1_c, neg(y)), z, arg<"alpha">(s)) >> neg(x)));
  CHECK(fires(second, [](auto x, auto y, auto z) { return addmm(x, -y, z); }));
  constexpr auto third = ruleset(rule<"third">(add(mul(x, s) | with<"s">(2_c, relu(x)), y, arg<"alpha">(s)) >> neg(x)));
  CHECK_FALSE(fires(third, [](auto x, auto y) { return relu(x) + y; }));
}

TEST_CASE("a constant of the pattern is 2 and 2.0, in plain patterns and in those that search") {
  const auto twice = [](auto x, auto y) { return cat({x * 2.0, sigmoid(y)}); };
  constexpr auto plain = ruleset(rule<"plain">(cat(list(mul(x, s), with<"s">(2_c, sigmoid(y)))) >> add(x, y)));
  CHECK(fires(plain, twice));
  constexpr auto searched =
      ruleset(rule<"searched">(cat(list(mul(x, s), with<"s">(2_c, sigmoid(y)), rest<"more">)) >> add(x, y)));
  CHECK(fires(searched, twice));
  CHECK_FALSE(fires(searched, [](auto x, auto y) { return cat({x * 3.0, sigmoid(y)}); }));
}

TEST_CASE("one number is a list of it, given or left out") {
  constexpr auto strides = ruleset(rule<"strides">(conv2d(x, w, _, 1_c) >> relu(x)));
  CHECK(fires(strides, [](auto x, auto w) { return conv2d(x, w); }));
  constexpr auto others = ruleset(rule<"others">(conv2d(x, w, _, 2_c) >> relu(x)));
  CHECK_FALSE(fires(others, [](auto x, auto w) { return conv2d(x, w); }));
  constexpr auto listed = ruleset(rule<"listed">(conv2d(x, w, _, list(1_c, 1_c)) >> relu(x)));
  CHECK(fires(listed, [](auto x, auto w) { return conv2d(x, w); }));
  constexpr auto mixed = ruleset(rule<"mixed">(conv2d(x, w, _, list(1_c, 2_c)) >> relu(x)));
  CHECK_FALSE(fires(mixed, [](auto x, auto w) { return conv2d(x, w); }));
  constexpr auto searched =
      ruleset(rule<"searched">(cat(list(conv2d(x, w, _, list(1_c, 1_c)), rest<"more">)) >> relu(x)));
  CHECK(fires(searched, [](auto x, auto w) { return cat({conv2d(x, w), x}); }));
}

TEST_CASE("a rule shadows another only where both orders of what that takes are its own") {
  // With a factor that is captured the order counts: this one leaves `y + relu(x)` to the other.
  constexpr auto rules = ruleset(rule<"scaled">(add(relu(x), y, arg<"alpha">(s)) >> neg(mul(x, s))),
                                 rule<"plain">(add(relu(x), y) >> neg(y)));
  CHECK(rewritten(rules, [](auto x, auto y) { return y + relu(x); }) == "neg = aten::neg(%y)\nreturn %neg\n");
  // A name does not hold 2 and 2.0 together, a constant does.
  constexpr auto numbers =
      ruleset(rule<"name">(add(mul(x, s), s) >> neg(x)), rule<"constant">(add(mul(x, 2_c), 2_c) >> abs(x)));
  CHECK(fires(numbers, [](auto x) { return x * 2 + 2.0; }));
}

TEST_CASE("what a rule goes on using does not go, so that nothing says that it ends") {
  constexpr auto circle = ruleset(rule<"one">(relu(relu(x).as<"inner">()) >> neg(tensor<"inner">)),
                                  rule<"other">(neg(relu(x).as<"inner">()) >> relu(tensor<"inner">)));
  CHECK_FALSE(circle.always_ends);
  constexpr auto ends = ruleset(rule<"one">(relu(relu(x)) >> relu(x)));
  CHECK(ends.always_ends);
}

TEST_CASE("what becomes a constant far below is found in the same run") {
  constexpr auto rules =
      ruleset(rule<"undo">(sub(add(x, y), x) >> y), rule<"factor">(mul(constant<"c">, x) >> div(x, constant<"c">)));
  Graph g;
  Node *first = g.placeholder("x"), *held = g.get_attr("w");
  Node* value = g.call_function(ops::sub_Tensor, {g.call_function(ops::add_Tensor, {first, held}), first});
  for (int i = 0; i < 5; ++i) value = g.call_function(ops::sigmoid, {value});
  g.output(g.call_function(ops::mul_Tensor, {first, value}));
  const auto report = rules.apply(g);
  CHECK(report.to_string() == "undo: 1, factor: 1");
  CHECK(rules.apply(g).rewrites == 0);
}

TEST_CASE("where a write can no longer be seen, what it stood between is found in the same run") {
  constexpr auto rules = ruleset(rule<"undo">(sub(add(x, y), x) >> y), rule<"both">(neg(relu(x)) >> exp(x)));
  Graph g;
  Node *a = g.placeholder("a"), *b = g.placeholder("b"), *c = g.placeholder("c");
  Node *k = g.call_function(ops::relu, {b}), *r = g.call_function(ops::sigmoid, {a});
  Node* u = g.call_function(ops::sub_Tensor, {g.call_function(ops::add_Tensor, {r, c}), r});
  Node* m = g.call_function(ops::mul__Tensor, {r, c});
  Node* n = g.call_function(ops::neg, {k});
  g.output(Argument::list({u, m, n}));
  rules.apply(g);
  g.lint();
  CHECK(rules.apply(g).rewrites == 0);
}

namespace {
/// Operators of nobody: "test::f007(Tensor x) -> Tensor".
template <int I>
consteval auto signature() {
  fixed_string text("test::f000(Tensor x) -> Tensor");
  text.text[7] = static_cast<char>('0' + I / 100);
  text.text[8] = static_cast<char>('0' + I / 10 % 10);
  text.text[9] = static_cast<char>('0' + I % 10);
  return text;
}
template <int... I>
consteval auto many_rules(std::integer_sequence<int, I...>) {
  return ruleset(rule<signature<I>()>(relu(apply<op<signature<I>()>>(x)) >> x)...);
}
}  // namespace

TEST_CASE("one argument may be a call of any of hundreds of operators, in as many rules") {
  constexpr auto rules = many_rules(std::make_integer_sequence<int, 258>());
  for (const int number : {0, 128, 255, 256, 257}) {
    CAPTURE(number);
    Graph g;
    Node* input = g.placeholder("x");
    const std::string schema = "test::f" + std::to_string(1000 + number).substr(1) + "(Tensor x) -> Tensor";
    const Operator& called = register_operator(schema);
    g.output(g.call_function(ops::relu, {g.call_function(called, {input})}));
    CHECK(rules.apply(g).to_string() == schema + ": 1");
  }
  // All that is asked of each rule, too: clang takes folds of 256 at most.
  int count = 0;
  rules.for_each([&](const auto& one) { count += one.name.starts_with("test::f"); });
  CHECK(count == 258);
  CHECK(rules.always_ends);
}

TEST_CASE("a list in the pattern is the number that its parameter has by default") {
  constexpr auto rules = ruleset(rule<"r">(max_pool2d(x, _, _, ints<0, 0>) >> relu(x)));
  const auto fires_with = [&](std::vector<Argument> more) {
    Graph g;
    std::vector<Argument> args = {g.placeholder("x"), 2, 2};
    args.insert(args.end(), more.begin(), more.end());
    g.output(g.call_function(ops::max_pool2d, args));
    return rules.apply(g).rewrites == 1;
  };
  CHECK(fires_with({}));
  CHECK(fires_with({0}));
  CHECK(fires_with({Argument::list({0, 0})}));
  CHECK_FALSE(fires_with({1}));
  CHECK_FALSE(fires_with({Argument::list({0, 1})}));
}
