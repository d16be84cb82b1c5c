// The decision tree beside the search with backtracking: two ways to the same answer.
#include <doctest/doctest.h>

#include <random>

#include "listed_owner.hpp"
#include "rewrite/rewritten.hpp"

using namespace fxx;
using namespace fxx::pattern;
using rewrite::flat;
using rewrite::Found;
using rewrite::TermMatcher;
using test::body_of;

namespace {

constexpr auto s2 = scalar<"t">;
constexpr auto rules =
    ruleset(rule<"pair">(mul(relu(x), sigmoid(x)) >> x), rule<"both">(mul(relu(x), relu(y)) >> x),
            rule<"deep">(mul(add(relu(x), y), y) >> x), rule<"numbers">(mul(mul(x, s), s2) >> mul(x, s)),
            rule<"same number">(add(mul(x, s), s) >> x), rule<"either">(neg(relu(x) | sigmoid(add(x, y))) >> x),
            rule<"once">(neg(add(x, y).once()) >> x), rule<"constant">(add(x, relu(constant<"c">)) >> x),
            rule<"named">(add(relu(x).as<"r">(), neg(tensor<"r">)) >> tensor<"r">),
            rule<"with">(sigmoid(mul(x, s) | with<"s">(1_c, relu(x))) >> mul(x, s)),
            rule<"list">(cat(list(relu(x), y), 1_c) >> x), rule<"alpha">(add(relu(x), y, arg<"alpha">(2_c)) >> x),
            rule<"asked">(relu(x.where(one_user)) >> x), rule<"default">(softmax(x, s, none) >> x));

/// A graph in which the patterns above are not rare.
Graph random_graph(std::mt19937& random) {
  Graph g;
  std::vector<Node*> values = {g.placeholder("x"), g.placeholder("y"), g.get_attr("c")};
  const auto any = [&] { return values[random() % values.size()]; };
  const auto late = [&] { return values[values.size() - 1 - random() % std::min<std::size_t>(4, values.size())]; };
  for (int i = 0; i < 40; ++i) {
    const int number = static_cast<int>(random() % 3);
    Node* made = nullptr;
    switch (random() % 11) {
      case 0:
      case 1: made = g.call_function(ops::relu, {any()}); break;
      case 2: made = g.call_method("relu", {late()}); break;
      case 3: made = g.call_function(ops::sigmoid, {late()}); break;
      case 4: made = g.call_function(ops::neg, {late()}); break;
      case 5: made = g.call_function(ops::mul_Tensor, {late(), late()}); break;
      case 6: made = g.call_function(ops::mul_Tensor, {late(), number}); break;
      case 7: made = g.call_function(ops::add_Scalar, {late(), number}); break;
      case 8: made = g.call_function(ops::add_Tensor, {late(), late()}, {{"alpha", 1 + number / 2}}); break;
      case 9: made = g.call_function(ops::cat, {Argument::list({late(), any()}), number / 2}); break;
      default: made = g.call_function(ops::softmax_int, {late(), number}); break;
    }
    values.push_back(made);
  }
  g.output(Argument::list({values.end() - 5, values.end()}));
  return g;
}

}  // namespace

TEST_CASE("the tree and the search agree on every node of random graphs, and on what is captured") {
  std::mt19937 random(7);
  std::size_t matched = 0, nodes = 0;
  for (int round = 0; round < 60; ++round) {
    Graph g = random_graph(random);
    for (Node* n : g.nodes()) {
      rules.for_each([&](const auto& one) {
        using Pattern = typename std::decay_t<decltype(one)>::pattern;
        TermMatcher search;
        const bool found = search.match(flat<Pattern>.data(), n, [](const Found&) { return true; });
        ++nodes;
        matched += found;
        const std::string why = explain(one, n);
        CAPTURE(one.name);
        CAPTURE(to_string(g));
        CHECK(why.empty() == found);
        CHECK(why.find("all of it is there") == why.npos);
      });
    }
  }
  CHECK(matched > 500);
  CHECK(matched < nodes / 4);
}

TEST_CASE("every rule of the set is met by the random graphs") {
  std::mt19937 random(8);
  rewrite::RewriteReport all;
  for (int round = 0; round < 300; ++round) {
    Graph g = random_graph(random);
    rules.for_each([&](const auto& one) {
      Graph copy = g;
      all.add(rewrite::Ruleset<std::decay_t<decltype(one)>>(one).apply(copy));
      copy.lint();
    });
  }
  for (const auto& fired : all.fired) {
    CAPTURE(fired.rule);
    CHECK(fired.times > 0);
  }
}

TEST_CASE("a module is matched by its class, with its arguments") {
  test::ListedOwner owner;
  owner.add({.name = "block", .type = "my::Block", .construct = {}});
  owner.add({.name = "other", .type = "my::Other", .construct = {}});
  constexpr auto blocks = ruleset(rule<"block">(module<"my::Block">(relu(x), s) >> mul(x, s)),
                                  rule<"inside">(neg(module<"my::Block">(x, y)) >> add(x, y)));
  const auto made = [&](std::string_view name, auto... more) {
    Graph g;
    g.set_owning_module(&owner);
    Node *x = g.placeholder("x"), *y = g.placeholder("y");
    Node* r = g.call_function(ops::relu, {x});
    Node* call = g.call_module(name, {r, more...});
    Node* twice = g.call_module("block", {x, y});
    g.output(Argument::list({call, g.call_function(ops::neg, {twice})}));
    const auto report = blocks.apply(g);
    g.lint();
    return report.to_string();
  };
  CHECK(made("block", 2) == "block: 1, inside: 1");
  CHECK(made("other", 2) == "inside: 1");
  CHECK(made("block") == "inside: 1");
  CHECK(made("block", 2, 3) == "inside: 1");
}

TEST_CASE("a module is asked for its options and its mode, an operator for its training flag") {
  test::ListedOwner owner;
  owner.add({.name = "small", .type = "my::Block", .construct = "my::Block(2)", .training = true});
  owner.add({.name = "large", .type = "my::Block", .construct = "my::Block(64)"});
  constexpr auto is_small = [](const Node& n) { return rewrite::module_info(n)->construct == "my::Block(2)"; };
  constexpr auto rules = ruleset(rule<"small">(module<"my::Block">(x).where(is_small, in_train_mode) >> neg(x)),
                                 rule<"large">(module<"my::Block">(x).where(in_eval_mode) >> exp(x)),
                                 rule<"drop">(dropout(x, _, _).where(in_eval_mode) >> x));
  Graph g;
  g.set_owning_module(&owner);
  Node* input = g.placeholder("x");
  g.output(Argument::list({g.call_module("small", {input}), g.call_module("large", {input}),
                           g.call_function(ops::dropout, {input, 0.5, false}),
                           g.call_function(ops::dropout, {input, 0.5, true})}));
  CHECK(rules.apply(g).to_string() == "small: 1, large: 1, drop: 1");
  g.lint();
}

TEST_CASE("the printed tree says what a search does, and of which module") {
  constexpr auto open =
      ruleset(rule<"block">(module<"my::Block">(x) >> neg(x)),
              rule<"sum">(operands_of<ops::add_Tensor>(relu(x), rest<"others">) >> stack(list(x, rest<"others">))));
  const std::string text = open.describe();
  CHECK(text.find("%0 is my::Block") != text.npos);
  CHECK(text.find("=> sum, searches the rest") != text.npos);
}
