// Values that nobody else uses, once() of everything that a pattern can hold; links that are one of several calls.
#include <doctest/doctest.h>

#include "rewrite/rewritten.hpp"

using namespace fxx;
using namespace fxx::pattern;
using test::fires;

namespace {
/// Does a rule with this pattern, whose inner value is computed by `inner`, fire where that has one user, and not where
/// it has two?
template <class P, class F>
bool wants_one_user(P, F inner) {
  constexpr auto rules =
      ruleset(rule<"r">(P{} >> [](const Match& m) { return m.call(ops::abs, {m.root()->args()[0]}); }));
  return fires(rules, [&](auto x) { return inner(x).neg(); }) &&
         !fires(rules, [&](auto x) {
           auto value = inner(x);
           return value.neg() + value;
         });
}
}  // namespace

TEST_CASE("once() may follow every pattern of a value") {
  const auto relu_of = [](auto x) { return x.relu(); };
  CHECK(wants_one_user(neg(x.once()), relu_of));
  CHECK(wants_one_user(neg(value<"v">.once()), relu_of));
  CHECK(wants_one_user(neg(rewrite::_.once()), relu_of));
  CHECK(wants_one_user(neg((tanh(x) | relu(x)).once()), relu_of));
  CHECK(wants_one_user(neg(any_of<ops::tanh, ops::relu>(x).once()), relu_of));
  CHECK(wants_one_user(neg(maybe([](auto p) { return relu(p); }, exp(x)).once()), [](auto x) { return x.exp(); }));
  CHECK(wants_one_user(neg(with<"s">(1_c, relu(x)).once()), relu_of));
  CHECK(wants_one_user(neg(relu(x).as<"r">().once()), relu_of));
  CHECK(wants_one_user(neg(relu(x).once().as<"r">()), relu_of));
  CHECK(wants_one_user(neg(relu(x).where([](const Node&) { return true; }).once()), relu_of));
  CHECK(wants_one_user(neg(relu(x).once().where([](const Node&) { return true; })), relu_of));
  CHECK(wants_one_user(neg(operands_of<ops::add_Tensor>(relu(x), rest<"m">).once()),
                       [](auto x) { return x.exp() + x.relu() + x; }));
  CHECK(wants_one_user(neg(module<"my::Block">(x).once() | relu(x).once()), relu_of));
  CHECK(wants_one_user(neg(chain<"c">([](auto p) { return relu(p); }, x).once()), relu_of));
  CHECK(wants_one_user(neg(chain<"c", 2>([](auto p) { return relu(p).once(); }, x)),
                       [](auto x) { return x.relu().relu(); }));
}

TEST_CASE("a rule that wants one user is asked again when another one goes") {
  // The second user of %exp is dropped only when neg(neg(x)) goes, after the first has been looked at.
  constexpr auto rules = ruleset(rule<"gone">(mul(neg(neg(x)), y) >> y), rule<"single">(relu(x.once()) >> tanh(x)),
                                 rule<"deep">(sigmoid(abs(y.once())) >> cos(y)));
  CHECK(test::rewritten(rules, [](auto x, auto y) {
          auto shared = x.exp();
          return shared.neg().neg() * y + shared.relu();
        }) == "exp = .exp(%x)\ntanh = aten::tanh(%exp)\nadd = aten::add.Tensor(%y, %tanh)\nreturn %add\n");
  CHECK(test::rewritten(rules, [](auto x, auto y) {
          auto shared = x.exp();
          return shared.neg().neg() * y + shared.abs().sigmoid();
        }) == "exp = .exp(%x)\ncos = aten::cos(%exp)\nadd = aten::add.Tensor(%y, %cos)\nreturn %add\n");
}

TEST_CASE("links of a chain may be one of several calls") {
  constexpr auto either = [](auto p) { return any_of<ops::relu, ops::tanh>(p); };
  constexpr auto rules = ruleset(rule<"r">(chain<"links", 2>(either, exp(x)) >> [](const Match& m) -> Argument {
    return m.call(ops::mul_Scalar, {m[x], m.group<"links">().size()});
  }));
  const auto links = [&](auto f) { return test::rewritten(rules, f); };
  CHECK(links([](auto x) { return x.exp().tanh().relu().tanh(); }) == "mul = aten::mul.Scalar(%x, 3)\nreturn %mul\n");
  CHECK(links([](auto x) { return x.exp().relu().tanh(); }) == "mul = aten::mul.Scalar(%x, 2)\nreturn %mul\n");
  CHECK(!fires(rules, [](auto x) { return x.exp().tanh().neg().relu(); }));
  CHECK(!fires(rules, [](auto x) { return x.exp().tanh(); }));
  // Each alternative may say more, and the chain may stand inside of a pattern.
  constexpr auto scaled = [](auto p) { return mul(p, scalar<"factor">) | relu(p).once(); };
  constexpr auto inside = ruleset(rule<"r">(neg(chain<"links">(scaled, exp(x))) >> [](const Match& m) -> Argument {
    double all = 1;
    for (const auto& link : m.group<"links">())
      if (!link[scalar<"factor">].is_none()) all *= link[scalar<"factor">].number();
    return m.call(ops::mul_Scalar, {m[x], all});
  }));
  CHECK(test::rewritten(inside, [](auto x) { return -((x.exp() * 2.0).relu() * 3.0); }) ==
        "mul_1 = aten::mul.Scalar(%x, 6.0)\nreturn %mul_1\n");
  CHECK(!fires(inside, [](auto x) {
    auto inner = (x.exp() * 2.0).relu();
    return -(inner * 3.0) + inner;
  }));
}
