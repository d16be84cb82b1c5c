// Rule sets: which rule wins, when rewriting ends, what is reported, sets put together.
#include "fxx/rewrite/ruleset.hpp"

#include <doctest/doctest.h>

#include "rewrite/rewritten.hpp"

using namespace fxx;
using namespace fxx::pattern;
using test::body_of;
using test::fires;
using test::rewritten;

TEST_CASE("the earlier rule wins where several match") {
  constexpr auto specific = ruleset(rule<"one">(relu(neg(x)) >> abs(x)), rule<"all">(relu(x) >> sigmoid(x)));
  Graph g = symbolic_graph([](auto x) { return relu(-x) + relu(x); });
  const auto report = specific.apply(g);
  CHECK(report["one"] == 1);
  CHECK(report["all"] == 1);
  constexpr auto guarded = ruleset(rule<"never">(relu(x) >> tanh(x), [](const Match&) { return false; }),
                                   rule<"all">(relu(x) >> sigmoid(x)));
  CHECK(rewritten(guarded, [](auto x) { return relu(x); }) == "sigmoid = aten::sigmoid(%x)\nreturn %sigmoid\n");
  constexpr auto declines = ruleset(
      rule<"first">(relu(x) >> tanh(x), [](const Match& m) { return m.node(x)->opcode() == Opcode::placeholder; }),
      rule<"second">(relu(x) >> sigmoid(x)));
  CHECK(rewritten(declines, [](auto x) { return relu(relu(x)); }) ==
        "tanh = aten::tanh(%x)\nsigmoid = aten::sigmoid(%tanh)\nreturn %sigmoid\n");
}

TEST_CASE("the earlier rule wins when a later one is tried first because it shares tests") {
  constexpr auto yes = [](const Match&) { return true; };
  constexpr auto rules = ruleset(rule<"a">(sub(relu(neg(x)), y) >> x), rule<"b">(sub(x, tanh(y)) >> y, yes),
                                 rule<"c">(sub(relu(abs(x)), y) >> x));
  Graph g = symbolic_graph([](auto x, auto y) { return relu(abs(x)) - tanh(y); });
  CHECK(rules.apply(g).to_string() == "b: 1");
}

TEST_CASE("largest patterns are seen first: the sweep goes from the end") {
  constexpr auto rules = ruleset(rule<"inner">(sigmoid(x) >> tanh(x)), rule<"outer">(mul(x, sigmoid(x)) >> silu(x)));
  CHECK(rewritten(rules, [](auto x) { return x * sigmoid(x); }) == "silu = aten::silu(%x)\nreturn %silu\n");
}

TEST_CASE("what a rewrite makes possible is done too, up and down the graph, through functions and methods") {
  constexpr auto rules = ruleset(rule<"inner">(tanh(x) >> abs(x)), rule<"outer">(relu(abs(x)) >> abs(x)),
                                 rule<"square">(mul(abs(x), abs(x)) >> mul(x, x)), rule<"sign">(neg(neg(x)) >> x),
                                 rule<"flat">(flatten(flatten(x, _, _), _, _) >> flatten(x)));
  CHECK(rewritten(rules, [](auto x) { return relu(tanh(x)); }) == "abs = aten::abs(%x)\nreturn %abs\n");
  CHECK(rewritten(rules, [](auto x) { return x.tanh().relu(); }) == "abs = aten::abs(%x)\nreturn %abs\n");
  CHECK(rewritten(rules, [](auto x) {
          const auto t = x.tanh().relu();
          return -t.mul(t).neg();
        }) == "mul = aten::mul.Tensor(%x, %x)\nreturn %mul\n");
  CHECK(rewritten(rules, [](auto x) { return (-(-x.flatten(1))).flatten(); }) ==
        "flatten_1 = aten::flatten.using_ints(%x)\nreturn %flatten_1\n");
}

TEST_CASE("operands are found wherever they stand and however they are spelled") {
  constexpr auto rules = ruleset(rule<"sum">(add(neg(mul(x, s)), y) >> sub(y, mul(x, s))),
                                 rule<"list">(cat(list(relu(x), y)) >> cat(list(y, x))),
                                 rule<"kept">(relu(sub_(x, y)) >> clamp_min(sub(x, y), 0_c)));
  const auto fired = [&](auto&& build) {
    Graph g;
    Node* x = g.placeholder("x");
    g.output(build(g, x));
    return rules.apply(g).to_string();
  };
  const auto scaled = [](Graph& g, Node* x) { return g.call_function(ops::mul_Tensor, {x, 2}); };
  CHECK(fired([&](Graph& g, Node* x) {
          return g.call_function(ops::add_Tensor, {}, {{"self", g.call_method("neg", {scaled(g, x)})}, {"other", x}});
        }) == "sum: 1");
  CHECK(fired([&](Graph& g, Node* x) {
          return g.call_method("add", {x}, {{"other", g.call_function(ops::neg, {}, {{"self", scaled(g, x)}})}});
        }) == "sum: 1");
  CHECK(fired([](Graph& g, Node* x) {
          return g.call_function(ops::cat, {Argument::list({g.call_method("relu", {x}), x})});
        }) == "list: 1");
  CHECK(fired([](Graph& g, Node* x) {
          Node* fresh = g.call_function(ops::exp, {x});
          return g.call_method("relu", {g.call_method("sub_", {fresh, x})});
        }) == "kept: 1");
}

TEST_CASE("a long chain of methods that nobody has resolved is rewritten") {
  constexpr auto rules = ruleset(rule<"double negation">(neg(neg(x)) >> x));
  Graph g;
  Node* value = g.placeholder("x");
  for (int i = 0; i < 200'000; ++i) value = g.call_method("neg", {value});
  g.output(g.call_function(ops::relu, {value}));
  CHECK(rules.apply(g)["double negation"] == 100'000);
  CHECK(g.size() == 3);
}

TEST_CASE("a thousand rewrites in a row, each made possible by the one before") {
  constexpr auto rules = ruleset(rule<"double negation">(neg(neg(x)) >> x));
  Graph g = symbolic_graph([](auto x) {
    for (int i = 0; i < 2001; ++i) x = -x;
    return x;
  });
  const auto report = rules.apply(g);
  CHECK(report.rewrites == 1000);
  CHECK(g.size() == 3);
  g.lint();
}

TEST_CASE("the report counts what fired, visited nodes, and nodes before and after") {
  constexpr auto rules = ruleset(rule<"double negation">(neg(neg(x)) >> x),
                                 rule<"relu, twice">(relu(relu(x)) >> relu(x)), rule<"unused">(tanh(tanh(x)) >> x));
  Graph g = symbolic_graph([](auto x) { return relu(relu(relu(-(-x)))); });
  const auto report = rules.apply(g);
  CHECK(report.rewrites == 3);
  CHECK(report.nodes_before == 7);
  CHECK(report.nodes_after == 3);
  CHECK(report.visited >= 7);
  CHECK_FALSE(report.stopped_at_limit);
  REQUIRE(report.fired.size() == 3);
  CHECK(report["double negation"] == 1);
  CHECK(report["relu, twice"] == 2);
  CHECK(report["unused"] == 0);
  CHECK(report["no such rule"] == 0);
  CHECK(report.to_string() == "double negation: 1, relu, twice: 2");
  CHECK(rules.apply(g).to_string() == "");
}

TEST_CASE("the work grows with the graph and not faster, whatever its shape") {
  constexpr auto rules = ruleset(rule<"sign">(neg(neg(x)) >> x), rule<"silu">(mul(sigmoid(x), x) >> silu(x)),
                                 rule<"once">(relu(abs(x).once()) >> abs(x)));
  const auto deep = [](int n) {  // every rewrite makes the next possible
    return symbolic_graph([=](auto x) {
      for (int i = 0; i < n; ++i) x = -(x.abs().relu() * sigmoid(x.abs().relu()));
      return -(-x);
    });
  };
  const auto wide = [](int n) {  // one value with many users
    Graph g;
    Node* x = g.placeholder("x");
    std::vector<Argument> all;
    for (int i = 0; i < n; ++i) all.push_back(g.call_function(ops::neg, {g.call_function(ops::neg, {x})}));
    g.output(Argument::list(all));
    return g;
  };
  const auto ladder = [](int n) {  // every value has two users, so there are 2^n ways through
    return symbolic_graph([=](auto x) {
      for (int i = 0; i < n; ++i) x = (-(-x)) * sigmoid(x);
      return x;
    });
  };
  const auto looks_a_node = [&](Graph g) {
    const auto report = rules.apply(g);
    g.lint();
    CHECK(report.rewrites > 0);
    return static_cast<double>(report.visited) / static_cast<double>(report.nodes_before + report.rewrites);
  };
  for (const int n : {10, 100, test::repeats(10000, 1000)}) {
    CAPTURE(n);
    CHECK(looks_a_node(deep(n)) < 4);
    CHECK(looks_a_node(wide(n)) < 4);
    CHECK(looks_a_node(ladder(n)) < 4);
  }
}

TEST_CASE("a constant is known as one by a bounded look at what it is made of") {
  constexpr auto rules = ruleset(rule<"r">(mul(constant<"c">, x) >> add(x, constant<"c">)));
  Graph g;
  Node *x = g.placeholder("x"), *made = g.get_attr("w");
  for (int i = 0; i < 60; ++i)  // 3^60 ways through
    made = g.call_function(
        ops::cat, {Argument::list({g.call_function(ops::neg, {made}), g.call_function(ops::abs, {made}), made})});
  g.output(g.call_function(ops::mul_Tensor, {x, made}));
  CHECK(rules.apply(g).visited < 1000);
  g.lint();
}

TEST_CASE("rules that make work for each other stop at the limit, with a graph that is whole") {
  // A cycle of three is longer than what the compiler looks for.
  constexpr auto rules =
      ruleset(rule<"a">(relu(x) >> tanh(x)), rule<"b">(tanh(x) >> sigmoid(x)), rule<"c">(sigmoid(x) >> relu(x)));
  Graph g = symbolic_graph([](auto x) { return relu(x); });
  const auto limited = rules.apply(g, {.limit = 10});
  CHECK(limited.stopped_at_limit);
  CHECK(limited.rewrites == 10);
  CHECK(g.size() == 3);
  g.lint();
  CHECK(test::fault_of([&] { limited.check(); }).text.find("'a' (4 times), 'b' (3 times), 'c' (3 times)") !=
        std::string::npos);
  CHECK_NOTHROW(ruleset(rule<"never">(abs(abs(x)) >> x)).apply(g).check());
  const auto unlimited = rules.apply(g);
  CHECK(unlimited.stopped_at_limit);
  CHECK(unlimited.rewrites == 1000 + 100 * 3);
  g.lint();
}

TEST_CASE("rules that undo each other only where a third steps in end where it does") {
  constexpr auto rules = ruleset(rule<"end">(neg(exp(x)) >> log(x)), rule<"down">(relu(x) >> neg(exp(x))),
                                 rule<"up">(exp(x) >> relu(x)));
  CHECK(rewritten(rules, [](auto x) { return relu(x); }) == "log = aten::log(%x)\nreturn %log\n");
}

TEST_CASE("the order of the rules is their priority, within a set and in a sum of sets") {
  constexpr auto general = ruleset(rule<"general">(relu(x) >> tanh(x)));
  constexpr auto special = ruleset(rule<"special">(relu(exp(x)) >> sigmoid(x)));
  // The special one first: both get what is theirs. The other way round the compiler refuses: it could never fire.
  constexpr auto both = special + general;
  CHECK(rewritten(both, [](auto x) { return relu(exp(x)); }) == "sigmoid = aten::sigmoid(%x)\nreturn %sigmoid\n");
  CHECK(rewritten(both, [](auto x) { return relu(x); }) == "tanh = aten::tanh(%x)\nreturn %tanh\n");
  // Where a guard lets a match go, the next rule in the order gets it.
  constexpr auto at_input = [](const Match& m) { return m.node(x)->opcode() == Opcode::placeholder; };
  constexpr auto asked = ruleset(rule<"first">(relu(x) >> exp(x), at_input)) + general;
  CHECK(rewritten(asked, [](auto x) { return relu(sin(x)); }) ==
        "sin = aten::sin(%x)\ntanh = aten::tanh(%sin)\nreturn %tanh\n");
  CHECK(rewritten(asked, [](auto x) { return relu(x); }) == "exp = aten::exp(%x)\nreturn %exp\n");
}

TEST_CASE("a limit that is just enough is no stop") {
  constexpr auto rules = ruleset(rule<"r">(relu(x) >> tanh(x)));
  Graph g = symbolic_graph([](auto x) { return relu(relu(x)); });
  const auto report = rules.apply(g, {.limit = 2});
  CHECK(report.rewrites == 2);
  CHECK_FALSE(report.stopped_at_limit);
}

TEST_CASE("what would be declined is not what a limit keeps from being done") {
  constexpr auto rules = ruleset(rule<"r">(relu(x) >> tanh(x)), rule<"never">(clone(x) >> x));
  Graph g = symbolic_graph([](auto x) {
    const auto kept = x.clone();
    x.add_(1);
    return relu(kept);
  });
  const auto report = rules.apply(g, {.limit = 1});
  CHECK(report.rewrites == 1);
  CHECK_FALSE(report.stopped_at_limit);
  Graph free = symbolic_graph([](auto x) { return relu(x.clone()); });
  CHECK(rules.apply(free, {.limit = 1}).stopped_at_limit);
  Graph h = symbolic_graph([](auto x) { return relu(relu(x.exp())); });
  CHECK(rules.apply(h, {.limit = 1}).stopped_at_limit);
  h.lint();
  CHECK(body_of(h) == "exp = .exp(%x)\nrelu = aten::relu(%exp)\ntanh = aten::tanh(%relu)\nreturn %tanh\n");
}

TEST_CASE("beyond the limit no callable is asked, for it may change more than what it returns") {
  static int asked = 0;
  constexpr auto rules = ruleset(rule<"r">(relu(x) >> [](const Match& m) -> Argument {
    ++asked;
    return m.call(ops::tanh, {m[x]});
  }));
  Graph g = symbolic_graph([](auto x) { return relu(relu(x)); });
  const auto report = rules.apply(g, {.limit = 1});
  CHECK(report.rewrites == 1);
  CHECK(report.stopped_at_limit);
  CHECK(asked == 1);
  CHECK(rules.apply(g, {.limit = 1}).rewrites == 1);
  CHECK(asked == 2);
}

TEST_CASE("a graph without nodes, without output, or with nothing to do is left alone") {
  constexpr auto rules = ruleset(rule<"r">(relu(x) >> tanh(x)));
  Graph empty;
  CHECK(rules.apply(empty).rewrites == 0);
  Graph g;
  g.call_function(ops::relu, {g.placeholder("x")});
  CHECK(rules.apply(g).rewrites == 1);
  const std::uint64_t version = g.version();
  CHECK(rules.apply(g).rewrites == 0);
  CHECK(g.version() == version);
}

TEST_CASE("two sets put together are one, the left one first") {
  constexpr auto first = ruleset(rule<"a">(relu(x) >> tanh(x)));
  constexpr auto second = ruleset(rule<"b">(relu(x) >> sigmoid(x)), rule<"c">(neg(neg(x)) >> x));
  constexpr auto both = first + ruleset(rule<"c">(neg(neg(x)) >> x));
  static_assert(both.count == 2);
  CHECK(rewritten(both, [](auto x) { return relu(-(-x)); }) == "tanh = aten::tanh(%x)\nreturn %tanh\n");
  constexpr auto three = second + ruleset(rule<"d">(abs(abs(x)) >> abs(x)));
  CHECK(rewritten(three, [](auto x) {
          return relu(abs(abs(x)));
        }).ends_with("sigmoid = aten::sigmoid(%abs_1)\nreturn %sigmoid\n"));
}

TEST_CASE("many rules on one argument's operator") {
  // Four and more become one binary search in the tree.
  constexpr auto rules =
      ruleset(rule<"1">(relu(neg(x)) >> x), rule<"2">(relu(abs(x)) >> x), rule<"3">(relu(tanh(x)) >> x),
              rule<"4">(relu(sigmoid(x)) >> x), rule<"5">(relu(exp(x)) >> x), rule<"6">(relu(log(neg(x))) >> x),
              rule<"7">(relu(log(abs(x))) >> x), rule<"8">(relu(y) >> abs(y)));
  CHECK(rewritten(rules, [](auto x) { return relu(-x); }) == "return %x\n");
  CHECK(rewritten(rules, [](auto x) { return relu(x.abs()); }) == "return %x\n");
  CHECK(rewritten(rules, [](auto x) { return relu(x.tanh()); }) == "return %x\n");
  CHECK(rewritten(rules, [](auto x) { return relu(x.sigmoid()); }) == "return %x\n");
  CHECK(rewritten(rules, [](auto x) { return relu(x.exp()); }) == "return %x\n");
  CHECK(rewritten(rules, [](auto x) { return relu((-x).log()); }) == "return %x\n");
  CHECK(rewritten(rules, [](auto x) { return relu(x.abs().log()); }) == "return %x\n");
  CHECK(rewritten(rules, [](auto x) { return relu(x.log()); }) ==
        "log = .log(%x)\nabs = aten::abs(%log)\nreturn %abs\n");
  CHECK(rewritten(rules, [](auto x) { return relu(x); }) == "abs = aten::abs(%x)\nreturn %abs\n");
}

TEST_CASE("chains of another least length and of other names are other patterns") {
  constexpr auto link = [](auto p) { return relu(p); };
  constexpr auto lengths =
      ruleset(rule<"two">(chain<"c", 2>(link, x) >> exp(x)), rule<"one">(chain<"c", 1>(link, x) >> tanh(x)));
  CHECK(rewritten(lengths, [](auto x) { return x.relu().relu(); }) == "exp = aten::exp(%x)\nreturn %exp\n");
  CHECK(rewritten(lengths, [](auto x) { return x.relu(); }) == "tanh = aten::tanh(%x)\nreturn %tanh\n");
  // The name inside is also the name outside, in the first rule only.
  constexpr auto names = ruleset(rule<"same">(sub(x, operands_of<fxx::ops::add_Tensor>(x, exp(y))) >> sin(y)),
                                 rule<"other">(sub(z, operands_of<fxx::ops::add_Tensor>(x, exp(y))) >> cos(y)));
  CHECK(rewritten(names, [](auto x) { return x - (x + x.exp()); }) == "sin = aten::sin(%x)\nreturn %sin\n");
  CHECK(rewritten(names, [](auto x, auto y) { return y - (x + x.exp()); }) == "cos = aten::cos(%x)\nreturn %cos\n");
}

TEST_CASE("lists of any length that hold nothing new come to rest, and outputs that stay as they are do too") {
  constexpr auto repeats = ruleset(rule<"r">(cat(list(x, y, rest<"m">)) >> cat(list(x, x, rest<"m">))));
  Graph g;
  Node *first = g.placeholder("x"), *second = g.placeholder("y");
  g.output(g.call_function(ops::cat, {Argument::list({first, second, second})}));
  CHECK(repeats.apply(g).rewrites == 1);
  g.lint();
  constexpr auto kept =
      ruleset(rule<"r">(outputs(relu(x), exp(x).as<"e">()) >> outputs(relu(tensor<"e">), tensor<"e">)));
  Graph h = symbolic_graph([](auto x) { return x.relu() * x.exp(); });
  CHECK(!kept.apply(h, {.limit = 20}).stopped_at_limit);
  h.lint();
}

TEST_CASE("a number in a pattern may be a list in the graph, which a capture of numbers does not hold, and back") {
  constexpr auto w = tensor<"w">;
  constexpr auto b = tensor<"b">;
  const auto made = [](const auto& rules, Argument stride) {
    Graph g;
    Node *in = g.placeholder("x"), *weight = g.placeholder("w"), *bias = g.placeholder("b");
    g.output(g.call_function(ops::conv2d, {in, weight, bias, stride}));
    rules.apply(g);
    return body_of(g).substr(0, 4);
  };
  constexpr auto lists = ruleset(rule<"list">(conv2d(x, w, b, sequence<"k">) >> relu(x)),
                                 rule<"two">(conv2d(x, w, b, ints<2, 2>) >> neg(x)));
  CHECK(made(lists, Argument::list({2, 2})) == "relu");
  CHECK(made(lists, 2) == "neg ");
  constexpr auto numbers = ruleset(rule<"number">(conv2d(x, w, b, scalar<"s">) >> relu(x)),
                                   rule<"one">(conv2d(x, w, b, 1_c) >> neg(x)));
  CHECK(made(numbers, 1) == "relu");
  CHECK(made(numbers, Argument::list({1, 1})) == "neg ");
  constexpr auto sizes =
      ruleset(rule<"int">(mul(x, sym_int<"n">) >> neg(x)), rule<"two">(mul(x, 2_c) >> abs(x)));
  CHECK(test::rewritten(sizes, [](auto x) { return x * 2; }) == "neg = aten::neg(%x)\nreturn %neg\n");
  CHECK(test::rewritten(sizes, [](auto x) { return x * 2.0; }) == "abs = aten::abs(%x)\nreturn %abs\n");
}

TEST_CASE("rules that need more of numbers than is assumed are left out, and the report says what the others needed") {
  constexpr auto set = ruleset(rule<"exact">(relu(relu(x)) >> relu(x)),
                               rule<"finite", law::finite | law::sums>(exp(relu(x)) >> sigmoid(x)),
                               rule<"asks">(tanh(relu(x)) >> [](const Match& m) -> Argument {
                                 if (m.may_assume(law::visible)) return m.call(ops::sin, {m[x]});
                                 return m.call(ops::cos, {m[x]});
                               }));
  static_assert(rewrite::is_rule<decltype(rule<"finite", law::finite>(relu(x) >> x))>);
  static_assert(decltype(rule<"finite", law::finite>(exp(x) >> x))::needs == law::finite);
  const auto made = [](Graph& graph) {
    Node* value = graph.placeholder("x");
    for (const Operator* op : {&get_operator("aten::relu"), &get_operator("aten::relu"), &get_operator("aten::exp")})
      value = graph.call_function(*op, {value});
    Node* other = graph.call_function(ops::tanh, {graph.call_function(ops::relu, {value})});
    graph.output(other);
    return value;
  };
  Graph all, strict;
  made(all);
  Node* exponential = made(strict);
  const auto of_all = set.apply(all);
  CHECK(of_all["finite"] == 1);
  CHECK(of_all.needs == (law::finite | law::sums | law::visible));
  CHECK(to_string(of_all.needs) == "no sum that overflows, finite inputs, queries that see a key");
  CHECK(std::string(all.output_node()->arg(0).node()->target()) == "torch.ops.aten.sin.default");
  const auto exact = set.apply(strict, {.near_misses = true, .assume = law::sums});
  CHECK(exact["exact"] == 1);
  CHECK(exact["finite"] == 0);
  CHECK(exact.needs == law::exact);
  CHECK(std::string(strict.output_node()->arg(0).node()->target()) == "torch.ops.aten.cos.default");
  REQUIRE(exact.near_misses.size() == 1);
  CHECK(exact.near_misses[0].node == exponential->name());
  CHECK(exact.near_misses[0].why.find("it needs what may not be taken for granted here: finite inputs") !=
        std::string::npos);
  CHECK(to_string(law::exact).empty());
}
