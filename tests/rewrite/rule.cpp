// Rules: what replaces a match, guards, callables, and what goes wrong with them.
#include "fxx/rewrite/rule.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <stdexcept>

#include "rewrite/rewritten.hpp"

using namespace fxx;
using namespace fxx::pattern;
using test::body_of;
using test::fault_of;
using test::fires;
using test::rewritten;
using test::text_of;

// --- rules that would go on for ever ---------------------------------------------------------------------------------

namespace {
template <class P, class R>
consteval bool goes_on(P, R) {
  return rewrite::detail::matches_own_result(rewrite::flat<P>.terms, rewrite::flat<R>.terms);
}
constexpr auto add_all = operands_of<ops::add_Tensor>;
constexpr auto add_any = operands_of<ops::add_Tensor, ops::add_Scalar>;
constexpr auto more = rest<"more">;
}  // namespace

TEST_CASE("a chain of operands that a rule builds is seen by the rule") {
  // Of calls, however they are put together, and of the operands on the right.
  static_assert(goes_on(add_all(x, more), add(x, relu(x))));
  static_assert(goes_on(add_all(x, more), add(relu(x), x)));
  static_assert(goes_on(add_all(relu(x), more), add(x, add(exp(x), relu(exp(x))))));
  static_assert(goes_on(add_all(relu(x), more), add_all(relu(neg(x)), more)));
  static_assert(goes_on(add_all(relu(x), exp(y), more), add_all(exp(x), add(relu(y), x))));
  static_assert(goes_on(add_all(relu(x), y), add(relu(exp(x)), exp(x))));
  static_assert(goes_on(add_any(s, more), mul(add(exp(sum(stack(list(more)))), s), 2_c)));
  static_assert(goes_on(add_all(each<"parts">(exp(y)), more), add(stack(list(more)), exp(stack(list(more))))));
  // Below another call, on one side or on both.
  static_assert(goes_on(add_all(x, more), sin(add(x, relu(x)))));
  static_assert(goes_on(add_all(x, more), sin(add(x, x))));
  static_assert(goes_on(sin(add_all(x, more)), sin(add(x, x))));
  // Not certain: a chain of one operand is none; more operands than the pattern takes; nothing new.
  static_assert(!goes_on(add_all(relu(x), exp(y), more), add_all(relu(x), more)));
  static_assert(!goes_on(add_all(relu(x), each<"parts">(exp(y)), more), add_all(relu(exp(x)), more)));
  static_assert(!goes_on(add_all(relu(x), y), add(add(relu(x), exp(x)), y)));
  static_assert(!goes_on(add_all(relu(x), y), add(relu(exp(x)), y)));
  static_assert(!goes_on(add_all(relu(x), relu(y)), sin(add(x, add(relu(x), relu(y))))));
  static_assert(!goes_on(add_all(x, more), add(x, x)));
  static_assert(!goes_on(add_all(x, more), add_all(more, x)));
  static_assert(!goes_on(add_all(x, relu(x), more), add(exp(x), relu(exp(x)))));
  static_assert(!goes_on(add_any(s, more), add_all(stack(list(more)), s)));  // another overload
  static_assert(!goes_on(add_all(s, more), add(stack(list(more)), s)));
}

// --- what is built ---------------------------------------------------------------------------------------------------

TEST_CASE("a replacement is built before the node that it replaces, arguments in order, what was left out left out") {
  constexpr auto rules = ruleset(rule<"r">(relu(x) >> add(mul(x, 2_c), neg(x), arg<"alpha">(0.5_c))));
  CHECK(rewritten(rules, [](auto x) { return relu(x).sigmoid(); }) ==
        "mul = aten::mul.Scalar(%x, 2)\nneg = aten::neg(%x)\nadd = aten::add.Tensor(%mul, %neg, alpha=0.5)\n"
        "sigmoid = .sigmoid(%add)\nreturn %sigmoid\n");
}

TEST_CASE("a replacement may be a capture: the value that is there already") {
  constexpr auto rules = ruleset(rule<"r">(neg(neg(x)) >> x), rule<"list">(cat(list(x), _) >> x));
  CHECK(rewritten(rules, [](auto x) { return -(-x); }) == "return %x\n");
  CHECK(rewritten(rules, [](auto x) { return -(-(-(-(-x)))); }) == "neg = aten::neg(%x)\nreturn %neg\n");
  CHECK(rewritten(rules, [](auto x) { return cat(std::vector{x}, 3); }) == "return %x\n");
}

TEST_CASE("lists, literals of every kind and None are built as such") {
  constexpr auto rules =
      ruleset(rule<"r">(relu(x) >> conv2d(cat(list(x, x), -1_c), x, none, ints<2, 1>, arg<"groups">(3_c))),
              rule<"s">(sigmoid(x) >> dropout(gelu(x, arg<"approximate">(text<"tanh">)), 0.25_c, lit<true>)));
  CHECK(rewritten(rules, [](auto x) { return relu(x); }) ==
        "cat = aten::cat([%x, %x], -1)\nconv2d = aten::conv2d(%cat, %x, None, [2, 1], groups=3)\nreturn %conv2d\n");
  CHECK(rewritten(rules, [](auto x) { return sigmoid(x); }) ==
        "gelu = aten::gelu(%x, approximate='tanh')\ndropout = aten::dropout(%gelu, 0.25, True)\nreturn %dropout\n");
}

TEST_CASE("what nobody uses any more goes, everything else stays") {
  constexpr auto rules = ruleset(rule<"r">(relu(add(x, y)) >> mul(x, y)));
  CHECK(rewritten(rules,
                  [](auto x, auto y) {
                    const auto sum = x.abs() + y;
                    const auto kept = sum.tanh();
                    return relu(sum) * kept;
                  }) ==
        "abs = .abs(%x)\nadd = aten::add.Tensor(%abs, %y)\ntanh = .tanh(%add)\nmul_1 = aten::mul.Tensor(%abs, %y)\n"
        "mul = aten::mul.Tensor(%mul_1, %tanh)\nreturn %mul\n");
  CHECK(rewritten(rules, [](auto x, auto y) { return relu(x + y); }) ==
        "mul = aten::mul.Tensor(%x, %y)\nreturn %mul\n");
  constexpr auto drop =
      ruleset(rule<"r">(mul(_, 0_c) >> [](const Match& m) -> Argument { return m.graph().nodes().front(); }));
  CHECK(rewritten(drop, [](auto x) { return x.relu().tanh().chunk(2)[1].neg() * 0; }) == "return %x\n");
}

TEST_CASE("what is known of the value goes over to what takes its place; a value that was there keeps its own") {
  constexpr auto rules = ruleset(rule<"r">(relu(x) >> neg(abs(x))), rule<"s">(sigmoid(sigmoid(x)) >> x));
  Graph g;
  Node* x = g.placeholder("x");
  Node* relu = g.call_function(ops::relu, {x});
  g.output(relu);
  const TensorMeta meta{
      .shape = {2, 3}, .stride = {3, 1}, .dtype = Dtype::float16, .device = {}, .requires_grad = true};
  relu->set_tensor_meta(meta);
  relu->set_type("torch::Tensor");
  relu->set_location(std::source_location::current());
  relu->meta().stack_trace = "model.cpp:41";
  relu->set_module_stack({{}, {"layer1"}});
  const auto line = relu->location().line();
  CHECK(rules.apply(g).rewrites == 1);
  const Node* made = g.output_node()->arg(0).node();
  CHECK(text_of(*made) == "aten::neg(%abs)");
  REQUIRE(made->tensor_meta());
  TensorMeta known = meta;
  known.stride.clear();  // who knows how the new value lies
  CHECK(*made->tensor_meta() == known);
  CHECK(made->type() == "torch::Tensor");
  CHECK(made->location().line() == line);
  CHECK(made->source() == "model.cpp:41");
  CHECK(made->module_stack().text() == "layer1");
  CHECK(made->arg(0).node()->tensor_meta() == nullptr);  // of the intermediate value nothing is known

  Graph other;
  Node* input = other.placeholder("x", {}, "torch::Tensor");
  Node* twice = other.call_function(ops::sigmoid, {other.call_function(ops::sigmoid, {input})});
  twice->set_type("something::Else");
  twice->set_tensor_meta(meta);
  other.output(twice);
  CHECK(rules.apply(other).rewrites == 1);
  CHECK(input->type() == "torch::Tensor");
  CHECK(input->tensor_meta() == nullptr);
}

TEST_CASE("a new node goes on under the name of a node of its operator that went") {
  constexpr auto rules = ruleset(rule<"fold">(relu(conv2d(x, w, b)) >> conv2d(neg(x), w, b)));
  Graph g;
  Node *x = g.placeholder("x"), *w = g.get_attr("w");
  Node* conv = g.create_node(CallFunction{&ops::conv2d.info()}, {x, w}, {}, "stem");
  Node* kept = g.create_node(CallFunction{&ops::conv2d.info()}, {x, w}, {}, "kept");
  Node* relu = g.call_function(ops::relu, {conv});
  Node* other = g.call_function(ops::relu, {kept});
  g.output(Argument::tuple({relu, other, kept}));
  CHECK(rules.apply(g).rewrites == 2);
  g.lint();
  CHECK(text_of(*g.output_node()) == "return (%stem, %conv2d, %kept)");
}

TEST_CASE("new nodes of one operator count up in the order of the graph") {
  constexpr auto rules = ruleset(rule<"r">(tanh(x) >> relu(x)));
  CHECK(rewritten(rules, [](auto x) { return tanh(tanh(tanh(x))); }) ==
        "relu = aten::relu(%x)\nrelu_1 = aten::relu(%relu)\nrelu_2 = aten::relu(%relu_1)\nreturn %relu_2\n");
}

// --- guards ----------------------------------------------------------------------------------------------------------

TEST_CASE("random numbers that somebody else uses too are not drawn anew") {
  constexpr auto dropped = dropout(x, s, lit<true>);
  constexpr auto rules = ruleset(rule<"later">(relu(dropped) >> dropout(relu(x), s, lit<true>)));
  CHECK(rewritten(rules, [](auto x) { return dropout(x, 0.5, true).relu(); }) ==
        "relu_1 = aten::relu(%x)\ndropout = aten::dropout(%relu_1, 0.5, True)\nreturn %dropout\n");
  const auto shared = [](auto x) {
    const auto d = dropout(x, 0.5, true);
    return d.relu() + d;
  };
  CHECK_FALSE(fires(rules, shared));
  // What the pattern names may be used as it is; and a root is replaced everywhere.
  CHECK(fires(ruleset(rule<"named">(relu(dropped.as<"d">()) >> tanh(tensor<"d">))), shared));
  CHECK(fires(ruleset(rule<"root">(dropped >> neg(x))), shared));
  CHECK(fires(ruleset(rule<"outputs">(outputs(dropped, neg(x)) >> outputs(sin(x), cos(x)))), [](auto x) {
    const auto d = dropout(x, 0.5, true);
    return d.relu() + d - x.neg();
  }));
  constexpr auto searched = ruleset(
      rule<"searched">(cat(list(each<"p">(dropped))) >> cat(list(each<"p">(x)))));
  CHECK_FALSE(fires(searched, [](auto x) {
    const auto d = dropout(x, 0.5, true);
    return fxx::cat({d, dropout(x.neg(), 0.5, true)}) + d;
  }));
  Graph g = symbolic_graph(shared);
  Node* relu = nullptr;
  for (Node* n : g.nodes())
    if (n->name() == "relu") relu = n;
  REQUIRE(relu);
  CHECK(explain(rules, "later", relu) ==
        "rule 'later' does not match %relu: all of it is there, but somebody else uses the random numbers that it "
        "draws");
}

TEST_CASE("a guard sees captures and nodes, and decides") {
  constexpr auto positive = [](const Match& m) {
    return m[s].number() > 0 && m.root() == m.nodes()[0] && m.node(x) == m[x].node();
  };
  constexpr auto rules = ruleset(rule<"r">(mul(relu(x), s) >> relu(mul(x, s)), positive));
  CHECK(rewritten(rules, [](auto x) { return relu(x) * 2; }) ==
        "mul_1 = aten::mul.Scalar(%x, 2)\nrelu = aten::relu(%mul_1)\nreturn %relu\n");
  CHECK_FALSE(fires(rules, [](auto x) { return relu(x) * -2; }));
}

TEST_CASE("nodes() has the matched calls, the root first") {
  constexpr auto rules = ruleset(rule<"r">(add(mul(x, y), neg(z)) >> relu(x), [](const Match& m) {
    std::string all;
    for (const Node* n : m.nodes()) all += std::string(n->name()) + " ";
    return all == "add mul neg ";
  }));
  CHECK(fires(rules, [](auto x, auto y, auto z) {
    const auto negative = -z;
    return negative + x * y;
  }));
}

TEST_CASE("captures() has what they hold") {
  constexpr auto rules = ruleset(rule<"r">(mul(x, s) >> relu(x), [](const Match& m) {
    return m.captures() == std::vector<Argument>{m[x], 2.5} && m.captures().size() == 2;
  }));
  CHECK(fires(rules, [](auto x) { return x * 2.5; }));
}

TEST_CASE("a guard may look at shapes") {
  constexpr auto rules = ruleset(rule<"r">(relu(x) >> abs(x), [](const Match& m) {
    return m.root()->tensor_meta() && m.root()->tensor_meta()->dim() == 2;
  }));
  Graph g;
  Node* x = g.placeholder("x");
  Node *flat = g.call_function(ops::relu, {x}), *square = g.call_function(ops::relu, {flat}),
       *unknown = g.call_function(ops::relu, {square});
  flat->set_tensor_meta({.shape = {4}, .stride = {}});
  square->set_tensor_meta({.shape = {2, 2}, .stride = {}});
  g.output(unknown);
  CHECK(rules.apply(g).rewrites == 1);
  CHECK(body_of(g) == "relu = aten::relu(%x)\nabs = aten::abs(%relu)\nrelu_2 = aten::relu(%abs)\nreturn %relu_2\n");
}

// --- callables -------------------------------------------------------------------------------------------------------

TEST_CASE("a callable builds what it likes from the match") {
  constexpr auto power = [](const Match& m) -> Argument {
    Node* value = m.node(x);
    for (int i = 1; i < m[s].number(); ++i) value = m.call(ops::mul_Tensor, {value, m[x]});
    return value;
  };
  constexpr auto rules = ruleset(
      rule<"power">(pow(x, s) >> power, [](const Match& m) { return m[s].number() >= 1 && m[s].number() <= 4; }));
  CHECK(rewritten(rules, [](auto x) { return x.pow(3); }) ==
        "mul = aten::mul.Tensor(%x, %x)\nmul_1 = aten::mul.Tensor(%mul, %x)\nreturn %mul_1\n");
  CHECK(rewritten(rules, [](auto x) { return x.pow(1); }) == "return %x\n");
  CHECK_FALSE(fires(rules, [](auto x) { return x.pow(100); }));
}

TEST_CASE("a callable may return a Node*, an Argument or None; its own root declines too") {
  constexpr auto node = ruleset(rule<"r">(relu(x) >> [](const Match& m) { return m.node(x); }));
  CHECK(rewritten(node, [](auto x) { return relu(x); }) == "return %x\n");
  constexpr auto none_given = ruleset(rule<"r">(relu(x) >> [](const Match&) -> Argument { return {}; }));
  CHECK_FALSE(fires(none_given, [](auto x) { return relu(x); }));
  constexpr auto root = ruleset(rule<"r">(relu(x) >> [](const Match& m) { return m.root(); }));
  CHECK_FALSE(fires(root, [](auto x) { return relu(x); }));
}

TEST_CASE("what a callable declines is left to the rules after it, in their order") {
  constexpr auto no = [](const Match& m) -> Argument { return m.call(ops::exp, {m[x]}), Argument(); };
  constexpr auto rules = ruleset(rule<"first">(relu(x) >> no), rule<"second">(relu(abs(x)) >> no),
                                 rule<"third">(relu(x) >> sigmoid(x)));
  CHECK(rewritten(rules, [](auto x) { return x.relu(); }) == "sigmoid = aten::sigmoid(%x)\nreturn %sigmoid\n");
  CHECK(rewritten(rules, [](auto x) { return x.abs().relu(); }) ==
        "abs = .abs(%x)\nsigmoid = aten::sigmoid(%abs)\nreturn %sigmoid\n");
  // Of a commutative operator, whose readings lie apart in the tree, too.
  constexpr auto sums =
      ruleset(rule<"product">(add(x, mul(y, tensor<"z">)) >> no), rule<"sum">(add(x, y) >> sub(x, y)));
  CHECK(rewritten(sums, [](auto x, auto y, auto z) { return y * z + x; }) ==
        "mul = aten::mul.Tensor(%y, %z)\nsub = aten::sub.Tensor(%mul, %x)\nreturn %sub\n");
}

TEST_CASE("what a callable built before it declined, threw or returned something wrong is gone again") {
  const auto unchanged = [](const auto& rules, int id) {
    Graph g = symbolic_graph([](auto x) { return relu(x).tanh(); });
    const std::string before = to_string(g);
    const auto fault = fault_of<Error>([&] { rules.apply(g); });
    CHECK(fault.id == id);
    CHECK(to_string(g) == before);
    g.lint();
    return fault;
  };
  unchanged(ruleset(rule<"r">(relu(x) >> [](const Match& m) -> Argument {
              m.call(ops::neg, {m.call(ops::abs, {m[x]})});
              m.call(ops::relu_, {m[x]});
              return {};
            })),
            0);
  unchanged(ruleset(rule<"r">(relu(x) >> [](const Match& m) -> Argument {
              m.call(ops::neg, {m[x]});
              throw RuleError(ErrorId::rewrite_limit, "test: on purpose");
            })),
            401);
  const auto fault = unchanged(
      ruleset(rule<"the rule">(relu(x) >> [](const Match& m) -> Argument { return m.call(ops::neg, {m[x]}), 3; })),
      402);
  CHECK(fault.says("'the rule'"));
  CHECK(fault.says("[3]"));
  CHECK(fault.says("None to decline"));
  CHECK(fault.says("node %relu"));
  unchanged(ruleset(rule<"r">(relu(x) >> [](const Match& m) -> Argument {
              return Argument::list({m[x], m[x]});
            })),
            402);
  unchanged(ruleset(rule<"r">(relu(x) >> [](const Match&) -> Argument { return "text"; })), 402);
}

TEST_CASE("other exceptions of guards and callables come through, with the graph whole") {
  Graph g = symbolic_graph([](auto x) { return relu(x); });
  constexpr auto guard =
      ruleset(rule<"r">(relu(x) >> x, [](const Match&) -> bool { throw std::runtime_error("guard"); }));
  CHECK_THROWS_WITH_AS(guard.apply(g), "guard", std::runtime_error);
  constexpr auto callable = ruleset(rule<"r">(relu(x) >> [](const Match&) -> Argument { throw 7; }));
  CHECK_THROWS_AS(callable.apply(g), int);
  CHECK(body_of(g) == "relu = aten::relu(%x)\nreturn %relu\n");
  g.lint();
}

TEST_CASE("rewrites before the one that failed stay done") {
  constexpr auto rules =
      ruleset(rule<"r">(tanh(x) >> abs(x)), rule<"fails">(relu(x) >> [](const Match&) -> Argument { return 1; }));
  Graph g = symbolic_graph([](auto x) { return relu(x).tanh(); });
  CHECK(fault_of<RuleError>([&] { rules.apply(g); }).id == 402);
  CHECK(body_of(g) == "relu = aten::relu(%x)\nabs = aten::abs(%relu)\nreturn %abs\n");
  g.lint();
}

TEST_CASE("a replacement that uses the node it replaces is refused, and one that is not there yet") {
  const auto refused = [](const auto& rules) {
    Graph g = symbolic_graph([](auto x) {
      const auto a = relu(x);
      const auto later = a.tanh();
      return a * later;
    });
    const std::string before = to_string(g);
    const auto fault = fault_of<RuleError>([&] { rules.apply(g); });
    CHECK(to_string(g) == before);
    g.lint();
    return fault.id == 402 && fault.says("'r'") && fault.says("node %relu");
  };
  CHECK(refused(ruleset(rule<"r">(relu(x) >> [](const Match& m) { return m.call(ops::neg, {m.root()}); }))));
  CHECK(refused(
      ruleset(rule<"r">(relu(x) >> [](const Match& m) { return m.call(ops::neg, {m.call(ops::abs, {m.root()})}); }))));
  CHECK(refused(ruleset(rule<"r">(relu(x) >> [](const Match& m) { return m.root()->users().front(); }))));
  CHECK(refused(
      ruleset(rule<"r">(relu(x) >> [](const Match& m) { return m.call(ops::neg, {m.root()->users().front()}); }))));
  static Graph other;
  static Node* foreign = other.placeholder("x");
  CHECK(refused(ruleset(rule<"r">(relu(x) >> [](const Match&) { return foreign; }))));
  CHECK(refused(ruleset(rule<"r">(relu(x) >> [](const Match& m) {
    Node* gone = m.call(ops::neg, {m[x]});
    m.graph().erase_node(gone);
    return gone;
  }))));
}

TEST_CASE("a capture that turns out to be no tensor cannot take the place of one") {
  constexpr auto rules = ruleset(rule<"r">(linear(x, w, b) >> b));
  CHECK(rewritten(rules, [](auto x, auto y, auto z) { return linear(x, y, z); }) == "return %z\n");
  Graph g = symbolic_graph([](auto x, auto y) { return linear(x, y); });
  const std::string before = to_string(g);
  const auto fault = fault_of<RuleError>([&] { rules.apply(g); });
  CHECK(fault.id == 402);
  CHECK(fault.says("[None]"));
  CHECK(to_string(g) == before);
}

TEST_CASE("a pattern may be written with + - * /; a number on the left of + and * is taken on the right") {
  using namespace fxx::pattern;
  constexpr auto rules =
      ruleset(rule<"silu">(x * sigmoid(x) >> silu(x)), rule<"silu, divided">(x / (1_c + exp(neg(x))) >> silu(x)),
              rule<"halves">(2_c * (x - y) >> sub(x, y) * 2.5_c));
  Graph g = symbolic_graph([](auto a, auto b) { return a / (exp(-a) + 1) + b * sigmoid(b) + (a - b) * 2; });
  CHECK(rules.apply(g).to_string() == "silu: 1, silu, divided: 1, halves: 1");
}

TEST_CASE("numbers of rules are those of the graph, however large, small or written") {
  const auto matches = []<class Rule>(Rule, Argument number) {
    constexpr auto rules = ruleset(Rule{});
    Graph g;
    g.output(g.call_function(ops::mul_Scalar, {g.placeholder("x"), std::move(number)}));
    return rules.apply(g).rewrites == 1;
  };
  constexpr auto sixteen = rule<"r">(mul(x, 0x1p4_c) >> x);
  CHECK(matches(sixteen, 16.0));
  CHECK(matches(sixteen, 16));
  CHECK_FALSE(matches(sixteen, 16.000000000000004));
  CHECK(matches(rule<"r">(mul(x, -0x1.8p-3_c) >> x), -0.1875));
  CHECK(matches(rule<"r">(mul(x, 0x1.fffffffffffffp1023_c) >> x), std::numeric_limits<double>::max()));
  CHECK(matches(rule<"r">(mul(x, 0x1p-1074_c) >> x), std::numeric_limits<double>::denorm_min()));
  // Doubles do not tell these integers apart.
  const std::int64_t large = 9007199254740993;
  CHECK(matches(rule<"r">(mul(x, 9007199254740993_c) >> x), large));
  CHECK_FALSE(matches(rule<"r">(mul(x, 9007199254740993_c) >> x), large - 1));
  CHECK_FALSE(matches(rule<"r">(mul(x, 9007199254740993_c) >> x), 9007199254740992.0));
  CHECK(matches(rule<"r">(mul(x, 9007199254740992_c) >> x), 9007199254740992.0));
  CHECK(matches(rule<"r">(mul(x, 9007199254740992.0_c) >> x), large - 1));
  CHECK_FALSE(matches(rule<"r">(mul(x, 9'007'199'254'740'992_c) >> x), large));
  CHECK(matches(rule<"r">(mul(x, -9223372036854775807_c) >> x), -std::numeric_limits<std::int64_t>::max()));
  CHECK_FALSE(matches(rule<"r">(mul(x, 9223372036854775807_c) >> x), 0x1p63));
}
