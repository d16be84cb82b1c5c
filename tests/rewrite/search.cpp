// The decision tree beside the search with backtracking: two ways to the same answer.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <vector>

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

// --- items that can be read in several ways --------------------------------------------------------------------------

TEST_CASE("an item is read in another way where a later one, or what stands outside, wants it") {
  // The first reading of `w + a` takes a for w; the second item has none.
  constexpr auto items = ruleset(rule<"r">(mul(cat(list(each<"l">(add(x, w)))), w) >> stack(list(each<"l">(x)))));
  const auto of_sums = [](auto a, auto b, auto w) { return fxx::cat({w + a, b + w}) * w; };
  CHECK(test::rewritten(items, of_sums) == "stack = aten::stack([%x, %y])\nreturn %stack\n");
  const auto twice = [](auto a, auto w) { return fxx::cat({w + a, w + a}) * w; };
  CHECK(test::rewritten(items, twice) == "stack = aten::stack([%x, %x])\nreturn %stack\n");
  CHECK_FALSE(test::fires(items, [](auto a, auto b, auto w) { return fxx::cat({w + a, b + w}) * b; }));
  CHECK_FALSE(test::fires(items, [](auto a, auto b, auto w) { return fxx::cat({w + a, b + a}) * w; }));
  // Of alternatives the first one that is there is not the one that fits.
  constexpr auto either =
      ruleset(rule<"r">(sub(cat(list(each<"l">(relu(w) | relu(exp(w))))), w) >> stack(list(w, w))));
  CHECK(test::rewritten(either, [](auto a) { return fxx::cat({a.exp().relu(), a.relu()}) - a; }) ==
        "stack = aten::stack([%x, %x])\nreturn %stack\n");
  CHECK_FALSE(test::fires(either, [](auto a) {
    const auto e = a.exp();
    return fxx::cat({e.relu(), a.relu()}) - e;
  }));
  // An optional part.
  constexpr auto scaled = [](auto p) { return mul(p, w); };
  constexpr auto maybe_scaled = ruleset(
      rule<"r">(sub(cat(list(each<"l">(neg(maybe(scaled, z))))), exp(w)) >> stack(list(each<"l">(z)))));
  CHECK(test::rewritten(maybe_scaled, [](auto a, auto b, auto w) {
          return fxx::cat({-(w * a), -(b * w), -b}) - w.exp();
        }) == "stack = aten::stack([%x, %y, %y])\nreturn %stack\n");
  // Two groups share a name; the first binds it.
  constexpr auto groups =
      ruleset(rule<"r">(cat(list(each<"l">(add(x, w)), each<"m">(mul(y, w)))) >> stack(list(w, each<"l">(x)))));
  CHECK(test::rewritten(groups, [](auto a, auto b, auto w) { return fxx::cat({w + a, w * b}); }) ==
        "stack = aten::stack([%z, %x])\nreturn %stack\n");
}

TEST_CASE("operands are read in another way too, or left to others") {
  constexpr auto sum = operands_of<ops::add_Tensor>;
  constexpr auto rules = ruleset(
      rule<"r">(sub(sum(each<"l">(mul(x, w)), rest<"more">), w) >> stack(list(each<"l">(x), rest<"more">))));
  CHECK(test::rewritten(rules, [](auto a, auto b, auto w) { return (w * a + b * w) - w; }) ==
        "stack = aten::stack([%x, %y])\nreturn %stack\n");
  // `a * b` would bind w to one of the two.
  CHECK(test::rewritten(rules, [](auto a, auto b, auto w) {
          const auto other = a * b;
          return (other + a * w) - w;
        }) == "mul = aten::mul.Tensor(%x, %y)\nstack = aten::stack([%x, %mul])\nreturn %stack\n");
}

TEST_CASE("a chain goes on where its end is") {
  constexpr auto rules =
      ruleset(rule<"r">(chain<"links">([](auto p) { return mul(p, y); }, exp(x)) >> stack(list(x, each<"links">(y)))));
  CHECK(test::rewritten(rules, [](auto a, auto b, auto c) { return b * (a.exp() * c); }) ==
        "stack = aten::stack([%x, %y, %z])\nreturn %stack\n");
  CHECK_FALSE(test::fires(rules, [](auto a, auto b, auto c) { return b * (a.sin() * c); }));
}

TEST_CASE("a guard sees other readings of items") {
  constexpr auto same = [](const Match& m) {
    const auto parts = m.group<"l">();
    return std::all_of(parts.begin(), parts.end(), [&](const auto& part) { return part[y] == parts[0][y]; });
  };
  constexpr auto rules = ruleset(rule<"r">(cat(list(each<"l">(mul(x, y)))) >> stack(list(each<"l">(x))), same));
  CHECK(test::rewritten(rules, [](auto a, auto b, auto c) { return fxx::cat({c * a, b * c, a * c}); }) ==
        "stack = aten::stack([%x, %y, %x])\nreturn %stack\n");
  CHECK_FALSE(test::fires(rules, [](auto a, auto b, auto c) { return fxx::cat({c * a, b * a, b * c}); }));
}

TEST_CASE("items are found in some reading exactly where there is one") {
  // Two names, both bound by the items and asked for only behind them.
  constexpr auto items = rule<"r">(
      sub(cat(list(each<"l">(add(mul(x, z), w)), each<"m">(mul(y, w)))), stack(list(z, w))) >> stack(list(z, w)));
  std::mt19937 random(11);
  int matched = 0;
  for (int round = 0; round < 4000; ++round) {
    Graph g;
    std::vector<Node*> leaves = {g.placeholder("a"), g.placeholder("b"), g.placeholder("c")};
    const auto leaf = [&] { return leaves[random() % leaves.size()]; };
    struct Item {
      Node *one, *other, *third;  // third: of a sum
      bool third_first;
    };
    std::vector<Item> made;
    std::vector<Argument> nodes;
    Node *z = leaf(), *w = leaf();
    for (std::size_t n = 1 + random() % 4; nodes.size() < n;) {
      // Mostly what fits, in any order.
      Item item{random() % 4 ? z : leaf(), leaf(), random() % 4 ? w : leaf(), random() % 2 == 0};
      if (random() % 3 == 0) item = {random() % 4 ? w : leaf(), leaf(), nullptr, false};
      if (random() % 2) std::swap(item.one, item.other);
      Node* product = g.call_function(ops::mul_Tensor, {item.one, item.other});
      nodes.push_back(!item.third         ? product
                      : item.third_first ? g.call_function(ops::add_Tensor, {item.third, product})
                                         : g.call_function(ops::add_Tensor, {product, item.third}));
      made.push_back(item);
    }
    Node* joined = g.call_function(ops::cat, {Argument::list(nodes)});
    Node* root = g.call_function(ops::sub_Tensor, {joined, g.call_function(ops::stack, {Argument::list({z, w})})});
    g.output(root);
    bool expected = true;
    for (std::size_t i = 0, products = 0; i < made.size(); ++i) {
      const Item& item = made[i];
      products += !item.third;
      if (item.third && products) expected = false;
      Node* const wanted = item.third ? z : w;
      expected = expected && (item.one == wanted || item.other == wanted) && (!item.third || item.third == w);
    }
    matched += expected;
    CAPTURE(to_string(g));
    CHECK(explain(items, root).empty() == expected);
  }
  CHECK(matched > 200);
}

TEST_CASE("reading items again is bounded") {
  static int asked;
  constexpr auto never = [](const Match&) {
    ++asked;
    return false;
  };
  constexpr auto declined = ruleset(rule<"r">(cat(list(each<"l">(mul(x, y)))) >> stack(list(each<"l">(x))), never));
  constexpr auto elsewhere = ruleset(
      rule<"r">(sub(cat(list(each<"l">(add(mul(x, z), w)))), stack(list(z, w))) >> stack(list(each<"l">(x)))));
  constexpr auto end_missing =
      ruleset(rule<"r">(chain<"links">([](auto p) { return mul(p, y); }, exp(x)) >> stack(list(each<"links">(y)))));
  Graph g;
  Node *a = g.placeholder("a"), *b = g.placeholder("b"), *c = g.placeholder("c"), *deep = g.placeholder("deep");
  std::vector<Argument> products, sums;
  for (int i = 0; i < 500; ++i) {
    Node* product = g.call_function(ops::mul_Tensor, {a, b});
    products.push_back(product);
    sums.push_back(g.call_function(ops::add_Tensor, {product, c}));
    deep = g.call_function(ops::mul_Tensor, {deep, g.call_function(ops::mul_Tensor, {a, deep})});
  }
  Node* sum = g.call_function(ops::cat, {Argument::list(sums)});
  Node* others = g.call_function(ops::stack, {Argument::list({a, a})});
  g.output(Argument::list({g.call_function(ops::cat, {Argument::list(products)}), deep,
                           g.call_function(ops::sub_Tensor, {sum, others})}));
  CHECK(declined.apply(g).rewrites == 0);
  CHECK(asked > 10);
  CHECK(asked <= 65);
  CHECK(elsewhere.apply(g).rewrites == 0);
  CHECK(end_missing.apply(g).rewrites == 0);
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

TEST_CASE("of operands the open members take what the others leave, wherever they are written") {
  constexpr auto sum = operands_of<ops::add_Tensor>;
  constexpr auto first = ruleset(rule<"r">(sum(rest<"m">, relu(x)) >> stack(list(x, rest<"m">))));
  CHECK(test::rewritten(first, [](auto a, auto b, auto c) { return a + b + c.relu(); }) ==
        "stack = aten::stack([%z, %x, %y])\nreturn %stack\n");
  constexpr auto parts =
      ruleset(rule<"r">(sum(rest<"m">, each<"p">(exp(y))) >> stack(list(each<"p">(neg(y)), rest<"m">))));
  CHECK(test::rewritten(parts, [](auto a, auto b) { return a + b.exp(); }) ==
        "neg = aten::neg(%y)\nstack = aten::stack([%neg, %x])\nreturn %stack\n");
  constexpr auto three =
      ruleset(rule<"r">(sum(each<"p">(exp(y)), rest<"m">, relu(x)) >> stack(list(each<"p">(neg(y)), x, rest<"m">))));
  CHECK(test::rewritten(three, [](auto a, auto b, auto c) { return a.relu() + b.exp() + c; }) ==
        "neg = aten::neg(%y)\nstack = aten::stack([%neg, %x, %z])\nreturn %stack\n");
}

TEST_CASE("what is added to itself is one operand twice: doublings do not multiply") {
  constexpr auto rules =
      ruleset(rule<"r">(operands_of<ops::add_Tensor>(exp(x), rest<"m">) >> stack(list(x, rest<"m">))));
  Graph g;
  Node* v = g.placeholder("x");
  for (int i = 0; i < 60; ++i) v = g.call_function(ops::add_Tensor, {v, v});
  g.output(v);
  CHECK(rules.apply(g).rewrites == 0);
}
