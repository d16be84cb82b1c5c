// What a report says of rules that never fired.
#include <doctest/doctest.h>

#include "rewrite/rewritten.hpp"

using namespace fxx;
using namespace fxx::pattern;

namespace {
template <class Rules>
std::vector<rewrite::RewriteReport::NearMiss> missed(const Rules& rules, Graph& g) {
  const auto report = rules.apply(g, {.near_misses = true});
  g.lint();
  return report.near_misses;
}
}  // namespace

TEST_CASE("a rule that never fired is told with the node that came nearest, and the first condition that failed") {
  constexpr auto rules = ruleset(rule<"gate">(mul(x, sigmoid(relu(x))) >> silu(x)), rule<"fires">(abs(x) >> neg(x)),
                                 rule<"absent">(tanh(x) >> exp(x)));
  Graph g = symbolic_graph([](auto x) {
    auto far = x * x.exp(), near = x * x.exp().sigmoid();
    return far + near + x.abs();
  });
  const auto misses = missed(rules, g);
  REQUIRE(misses.size() == 2);
  CHECK(misses[0].rule == "gate");
  CHECK(misses[0].node == "mul_1");
  CHECK(misses[0].why ==
        "rule 'gate' does not match %mul_1: argument 'self' of %sigmoid is %exp_1 = aten::exp; the pattern wants a "
        "call of aten::relu");
  // It says what explain says.
  Node* nearest = nullptr;
  for (Node* n : g.nodes())
    if (n->name() == "mul_1") nearest = n;
  CHECK(misses[0].why == explain(rules, "gate", nearest));
  CHECK(misses[1].rule == "absent");
  CHECK(misses[1].node == "");
  CHECK(misses[1].why == "rule 'absent' does not match: no node is a call of aten::tanh");
}

TEST_CASE("nothing is looked for unless it is asked for") {
  constexpr auto rules = ruleset(rule<"r">(relu(relu(x)) >> relu(x)));
  Graph g = symbolic_graph([](auto x) { return x.relu(); });
  CHECK(rules.apply(g).near_misses.empty());
  CHECK(missed(rules, g).size() == 1);
  Graph fired = symbolic_graph([](auto x) { return x.relu().relu(); });
  CHECK(missed(rules, fired).empty());
}

TEST_CASE("a guard, a callable and a condition that keep a whole pattern from being replaced") {
  constexpr auto no = [](const Match&) { return false; };
  constexpr auto declines = [](const Match&) -> Argument { return {}; };
  constexpr auto rules =
      ruleset(rule<"guarded">(relu(x) >> neg(x), no), rule<"built">(relu(exp(x)) >> declines),
              rule<"ranked">(relu(exp(x.where(rank_is<2>))) >> neg(x), [](const Match&) { return true; }));
  Graph g = symbolic_graph([](auto x) { return x.exp().relu(); });
  const auto misses = missed(rules, g);
  REQUIRE(misses.size() == 3);
  CHECK(misses[0].why == "rule 'guarded' does not match %relu: all of it is there, but its guard declines");
  CHECK(misses[1].why == "rule 'built' does not match %relu: all of it is there, but its callable declines");
  CHECK(misses[2].why.ends_with("which is not rank_is<2>"));
}

TEST_CASE("of phases that share a rule those that fired are not missed, and the last miss counts") {
  constexpr auto first = ruleset(rule<"a">(relu(x) >> exp(x)), rule<"b">(tanh(exp(x)) >> x));
  constexpr auto second = ruleset(rule<"b">(tanh(exp(x)) >> x), rule<"c">(sin(cos(x)) >> x));
  Graph g = symbolic_graph([](auto x) { return x.relu().sin(); });
  const auto report = phases(first, second).apply(g, {.near_misses = true});
  REQUIRE(report.near_misses.size() == 2);
  CHECK(report.near_misses[0].rule == "b");
  CHECK(report.near_misses[1].rule == "c");
  CHECK(report.near_misses[1].node == "sin");
  Graph h = symbolic_graph([](auto x) { return x.exp().tanh(); });
  const auto fired = phases(first, second).apply(h, {.near_misses = true});
  REQUIRE(fired.near_misses.size() == 2);
  CHECK(fired.near_misses[0].rule == "a");
  CHECK(fired.near_misses[1].rule == "c");
}

TEST_CASE("outputs and siblings that are missed say so") {
  constexpr auto rules =
      ruleset(rule<"two">(outputs(sin(x), cos(x)) >> outputs(neg(x), exp(x))),
              rule<"family">(siblings(x, linear(x, w, b)) >> [](const Match&) -> Argument { return {}; }));
  Graph g;
  Node *x = g.placeholder("x"), *w = g.placeholder("w");
  g.output(g.call_function(ops::linear, {g.call_function(ops::sin, {x}), w}));
  const auto misses = missed(rules, g);
  REQUIRE(misses.size() == 2);
  CHECK(misses[0].why == "rule 'two' does not match %sin: nothing matches another output of the pattern, a call of "
                         "aten::cos");
  CHECK(misses[1].why == "rule 'family' does not match %linear: it has no siblings that match too");
}

TEST_CASE("of siblings that are there their guard declines, or their callable, and the first is asked for all") {
  constexpr auto parts = [](const Match&) -> Argument { return {}; };
  constexpr auto guarded = ruleset(rule<"r">(siblings(x, linear(x, w, b)) >> parts, [](const Match& m) {
    return m.members().size() > 2 && m[w] != m[x];
  }));
  constexpr auto built = ruleset(rule<"r">(siblings(x, linear(x, w, b)) >> parts));
  Graph g;
  Node *x = g.placeholder("x"), *w = g.placeholder("w"), *v = g.placeholder("v"), *bias = g.placeholder("bias");
  Node* first = g.call_function(ops::linear, {x, w, bias});
  Node* second = g.call_function(ops::linear, {x, v, bias});
  g.output(Argument::list({first, second}));
  CHECK(explain(guarded, "r", first) == "rule 'r' does not match %linear: all of it is there, but its guard declines");
  CHECK(explain(built, "r", second) ==
        "rule 'r' does not match %linear_1: it is replaced together with its siblings, of which %linear is the first; "
        "ask why that does not match");
  const auto misses = missed(built, g);
  REQUIRE(misses.size() == 1);
  CHECK(misses[0].why == "rule 'r' does not match %linear: all of it is there, but its callable declines");
}

TEST_CASE("a chain of fewer operands than the pattern has") {
  constexpr auto rules = ruleset(
      rule<"three">(operands_of<fxx::ops::add_Tensor>(x, y, z) >> stack(list(x, y, z))));
  Graph g = symbolic_graph([](auto x, auto y) { return x + y; });
  Node* sum = g.output_node()->prev();
  const std::string why =
      "rule 'three' does not match %add: the chain has 2 operands; the pattern wants a tensor (tensor<\"z\">) more";
  CHECK(explain(rules, "three", sum) == why);
  const auto misses = missed(rules, g);
  REQUIRE(misses.size() == 1);
  CHECK(misses[0].node == "add");
  CHECK(misses[0].why == why);
}
