// Patterns of unknown size: as, rest, each, operands_of, maybe, with, chain, module, outputs; explain and reports.
#include <doctest/doctest.h>

#include "fxx/rewrite/erase_ruleset.hpp"
#include "rewrite/rewritten.hpp"
#include "rules/shaped.hpp"

using namespace fxx;
using namespace fxx::pattern;
using test::body_of;
using test::fires;
using test::rewritten;
using test::rewritten_graph;

namespace {
constexpr auto factor = scalar<"s">;
constexpr auto others = rest<"others">;
constexpr auto chain_length = [](const Match& m) -> Argument {
  return m.call(ops::mul_Scalar, {m[pattern::x], m.group<"links">().size()});
};
}  // namespace

TEST_CASE("as captures the node of a call, and twice it is the same node") {
  constexpr auto r = relu(x).as<"r">();
  constexpr auto rules = ruleset(rule<"r">(mul(r, sigmoid(r)) >> silu(tensor<"r">)));
  CHECK(rewritten(rules, [](auto x) {
          auto y = x.relu();
          return y * y.sigmoid();
        }) == "relu = .relu(%x)\nsilu = aten::silu(%relu)\nreturn %silu\n");
  CHECK_FALSE(fires(rules, [](auto x) { return x.relu() * x.relu().sigmoid(); }));
}

TEST_CASE("a list's rest is captured, and put into another list") {
  constexpr auto rules = ruleset(rule<"r">(cat(list(relu(x), others), 1_c) >> stack(list(x, others), 1_c)));
  CHECK(rewritten(rules, [](auto x, auto y, auto z) {
          return fxx::cat({x.relu(), y, z}, 1);
        }) == "stack = aten::stack([%x, %y, %z], 1)\nreturn %stack\n");
  CHECK(rewritten(rules, [](auto x) { return fxx::cat({x.relu()}, 1); }) ==
        "stack = aten::stack([%x], 1)\nreturn %stack\n");
  CHECK_FALSE(fires(rules, [](auto x) { return fxx::cat({x, x.relu()}, 1); }));
  CHECK_FALSE(fires(rules, [](auto x) { return fxx::cat({x.relu(), x}, 0); }));
  constexpr auto middle =
      ruleset(rule<"r">(cat(list(rest<"a">, relu(x), rest<"b">)) >> cat(list(rest<"b">, x, rest<"a">))));
  CHECK(rewritten(middle, [](auto x, auto y, auto z) {
          return fxx::cat({y, x.relu(), z});
        }) == "cat = aten::cat([%z, %x, %y])\nreturn %cat\n");
}

TEST_CASE("each takes all items of one form, and each on the right makes one of every item") {
  constexpr auto rules = ruleset(rule<"r">(cat(list(each<"parts">(relu(y)))) >> relu(cat(list(each<"parts">(y))))));
  CHECK(rewritten(rules, [](auto x, auto y, auto z) {
          return fxx::cat({x.relu(), y.relu(), z.relu()});
        }) == "cat_1 = aten::cat([%x, %y, %z])\nrelu = aten::relu(%cat_1)\nreturn %relu\n");
  CHECK_FALSE(fires(rules, [](auto x) { return fxx::cat({x.relu(), x}); }));
  // A name that stands outside too is one value.
  constexpr auto shared = ruleset(rule<"r">(add(cat(list(each(mul(x, y)))), x) >> cat(list(each(y)))));
  CHECK(fires(shared, [](auto x, auto y, auto z) { return fxx::cat({x * y, x * z}) + x; }));
  CHECK_FALSE(fires(shared, [](auto x, auto y, auto z) { return fxx::cat({x * y, z * y}) + x; }));
}

TEST_CASE("a result that is what stands there already is no rewrite") {
  constexpr auto rules = ruleset(rule<"r">(cat(list(each<"parts">(relu(y)), x), value<"d">) >>
                                           cat(list(each<"parts">(exp(y)), x), value<"d">)));
  CHECK(rewritten(rules, [](auto x, auto y) { return fxx::cat({y.relu(), x.relu(), x}, 1); }) ==
        "exp = aten::exp(%y)\nexp_1 = aten::exp(%x)\ncat = aten::cat([%exp, %exp_1, %x], 1)\nreturn %cat\n");
  Graph g = symbolic_graph([](auto x) { return fxx::cat({x}, 1); });
  const auto report = rules.apply(g, {.near_misses = true});
  CHECK(report.rewrites == 0);
  CHECK(body_of(g) == "cat = aten::cat([%x], 1)\nreturn %cat\n");
  REQUIRE(report.near_misses.size() == 1);
  CHECK(report.near_misses[0].why ==
        "rule 'r' does not match %cat: all of it is there, and its result is what stands there already");
}

TEST_CASE("a callable sees the items of each, in their order") {
  constexpr auto rules = ruleset(rule<"r">(cat(list(each<"parts">(mul(y, factor)))) >> [](const Match& m) -> Argument {
    double sum = 0;
    for (const auto& part : m.group<"parts">()) sum = 10 * sum + part[factor].number();
    return m.call(ops::mul_Scalar, {m.group<"parts">()[0][pattern::y], sum});
  }));
  CHECK(rewritten(rules, [](auto x) {
          return fxx::cat({x * 1, x * 2, x * 3});
        }) == "mul = aten::mul.Scalar(%x, 123.0)\nreturn %mul\n");
}

TEST_CASE("operands of a chain match in any order and however they were put together") {
  constexpr auto sum = operands_of<ops::add_Tensor>;
  constexpr auto rules = ruleset(rule<"r">(sum(relu(x), exp(y), z) >> sum(neg(x), neg(y), neg(z))));
  for (const auto& text : {
           rewritten(rules, [](auto x, auto y, auto z) { return (x.relu() + y.exp()) + z; }),
           rewritten(rules, [](auto x, auto y, auto z) { return y.exp() + (z + x.relu()); }),
           rewritten(rules, [](auto x, auto y, auto z) { return z + (x.relu() + y.exp()); }),
       })
    CHECK(text ==
          "neg = aten::neg(%x)\nneg_1 = aten::neg(%y)\nneg_2 = aten::neg(%z)\n"
          "add_1 = aten::add.Tensor(%neg, %neg_1)\nadd_2 = aten::add.Tensor(%add_1, %neg_2)\nreturn %add_2\n");
  CHECK_FALSE(fires(rules, [](auto x, auto y, auto z) { return x.relu() + y.exp() + z + z; }));
  CHECK_FALSE(fires(rules, [](auto x, auto y) { return x.relu() + y.exp(); }));
  // An argument besides the operands ends the chain; so does another user.
  CHECK_FALSE(fires(rules, [](auto x, auto y, auto z) { return (x.relu() + y.exp()).add(z, 2); }));
  CHECK_FALSE(fires(rules, [](auto x, auto y, auto z) {
    auto a = x.relu() + y.exp();
    return (a + z) * a;
  }));
}

TEST_CASE("a chain's other operands are captured; numbers are operands too") {
  constexpr auto sum = operands_of<ops::add_Tensor, ops::add_Scalar>;
  constexpr auto rules = ruleset(rule<"r">(sum(factor, scalar<"t">, others) >> [](const Match& m) -> Argument {
    Argument all = m.call(ops::stack, {m[others]});
    return m.call(ops::add_Scalar, {all, m[factor].number() + m[scalar<"t">].number()});
  }));
  CHECK(rewritten(rules, [](auto x, auto y) { return x + 1 + y + 2; }) ==
        "stack = aten::stack([%x, %y])\nadd_2 = aten::add.Scalar(%stack, 3.0)\nreturn %add_2\n");
  CHECK_FALSE(fires(rules, [](auto x, auto y) { return x + 1 + y; }));
}

TEST_CASE("a long chain of operands is found once, whole") {
  Graph g;
  Node* x = g.placeholder("x");
  Node* sum = x;
  for (int i = 0; i < 20000; ++i) sum = g.call_function(ops::add_Tensor, {sum, g.call_function(ops::exp, {x})});
  g.output(sum);
  constexpr auto rules = ruleset(
      rule<"r">(operands_of<ops::add_Tensor>(each<"parts">(exp(y)), rest<"others">) >> stack(list(each<"parts">(y)))));
  CHECK(rules.apply(g).rewrites == 1);
  g.lint();
  CHECK(g.size() == 3);
}

TEST_CASE("an optional part leaves its captures None, or what with says") {
  constexpr auto scaled = [](auto p) { return mul(p, factor); };
  constexpr auto rules = ruleset(rule<"r">(softmax(maybe(scaled, relu(x)), 1_c) >> [](const Match& m) -> Argument {
    return m.call(ops::mul_Scalar, {m[x], m[factor].is_none() ? Argument(7) : m[factor]});
  }));
  CHECK(rewritten(rules, [](auto x) { return (x.relu() * 3).softmax(1); }) ==
        "mul = aten::mul.Scalar(%x, 3)\nreturn %mul\n");
  CHECK(rewritten(rules, [](auto x) { return x.relu().softmax(1); }) == "mul = aten::mul.Scalar(%x, 7)\nreturn %mul\n");
  constexpr auto scores = relu(x);
  constexpr auto given = ruleset(
      rule<"r">(softmax(mul(scores, factor) | with<"s">(0.5_c, div(scores, 2_c)) | with<"s">(1_c, scores), 1_c) >>
                mul(x, factor)));
  CHECK(rewritten(given, [](auto x) { return (x.relu() * 3).softmax(1); }) ==
        "mul = aten::mul.Scalar(%x, 3)\nreturn %mul\n");
  CHECK(rewritten(given, [](auto x) { return x.relu().softmax(1); }) == "mul = aten::mul.Scalar(%x, 1)\nreturn %mul\n");
  CHECK(rewritten(given, [](auto x) { return (x.relu() / 2).softmax(1); }) ==
        "mul = aten::mul.Scalar(%x, 0.5)\nreturn %mul\n");
}

TEST_CASE("a chain of unknown length is one match, as long as it is") {
  constexpr auto rules = ruleset(rule<"r">(chain<"links", 2>([](auto p) { return relu(p); }, x) >> relu(x)));
  CHECK(rewritten(rules, [](auto x) { return x.relu().relu().relu().relu(); }) ==
        "relu_3 = aten::relu(%x)\nreturn %relu_3\n");
  CHECK_FALSE(fires(rules, [](auto x) { return x.relu(); }));
  CHECK_FALSE(fires(rules, [](auto x) { return x.relu().exp().relu(); }));
  constexpr auto product =
      ruleset(rule<"r">(chain<"links", 2>([](auto p) { return mul(p, factor); }, x) >> [](const Match& m) -> Argument {
        double all = 1;
        for (const auto& link : m.group<"links">()) all *= link[factor].number();
        return m.call(ops::mul_Scalar, {m[x], all});
      }));
  CHECK(rewritten(product, [](auto x) { return x.exp() * 2 * 3 * 4; }) ==
        "exp = .exp(%x)\nmul_2 = aten::mul.Scalar(%exp, 24.0)\nreturn %mul_2\n");
  // The end may ask for less of the chain.
  constexpr auto ends = ruleset(rule<"r">(chain([](auto p) { return relu(p); }, relu(exp(x))) >> neg(x)));
  CHECK(rewritten(ends, [](auto x) { return x.exp().relu().relu().relu(); }) == "neg = aten::neg(%x)\nreturn %neg\n");
  CHECK_FALSE(fires(ends, [](auto x) { return x.exp().relu(); }));
}

TEST_CASE("where a link holds the next one twice, both are one value") {
  constexpr auto rules = ruleset(rule<"r">(chain<"links">([](auto p) { return mul(p, sigmoid(p)); }, relu(x)) >>
                                           chain_length));
  CHECK(rewritten(rules, [](auto x) {
          const auto a = x.relu(), b = a * a.sigmoid();
          return b.sigmoid() * b;
        }) == "mul_2 = aten::mul.Scalar(%x, 2)\nreturn %mul_2\n");
  CHECK_FALSE(fires(rules, [](auto x, auto y) { return x.relu() * y.relu().sigmoid(); }));
  CHECK_FALSE(fires(rules, [](auto x, auto y) { return y.relu().sigmoid() * x.relu(); }));
}

TEST_CASE("a chain of a hundred thousand links needs no stack") {
  Graph g;
  Node* last = g.placeholder("x");
  for (int i = 0; i < 100000; ++i) last = g.call_function(ops::relu, {last});
  g.output(last);
  CHECK(ruleset(rule<"r">(chain<"links", 2>([](auto p) { return relu(p); }, x) >> relu(x))).apply(g).rewrites == 1);
  g.lint();
  CHECK(g.size() == 3);
}

TEST_CASE("two values that share one are replaced together") {
  constexpr auto rules = ruleset(rule<"r">(outputs(sin(x), cos(x)) >> outputs(neg(x), exp(x))));
  const auto made = [&](auto f) {
    Graph g = symbolic_graph(f);
    const auto report = rules.apply(g);
    g.lint();
    return std::to_string(report.rewrites) + ": " + body_of(g);
  };
  CHECK(made([](auto x) { return x.sin() + x.cos(); }) ==
        "1: neg = aten::neg(%x)\nexp = aten::exp(%x)\nadd = aten::add.Tensor(%neg, %exp)\nreturn %add\n");
  CHECK(made([](auto x) { return x.cos() - x.sin(); }) ==
        "1: neg = aten::neg(%x)\nexp = aten::exp(%x)\nsub = aten::sub.Tensor(%exp, %neg)\nreturn %sub\n");
  CHECK(made([](auto x) { return x.cos() - x.exp().sin(); }).starts_with("0: "));
  // What the later one needs comes from what the earlier one is: there is no one place for both.
  constexpr auto deep = ruleset(rule<"r">(outputs(sin(x), add(cos(x), y)) >> outputs(neg(y), exp(x))));
  Graph g;
  Node* x = g.placeholder("x");
  Node* s = g.call_function(ops::sin, {x});
  Node* late = g.call_function(ops::exp, {s});
  g.output(Argument::list({s, g.call_function(ops::add_Tensor, {g.call_function(ops::cos, {x}), late})}));
  CHECK(deep.apply(g).rewrites == 0);
  g.lint();
  // Where it does not, what the later one needs is moved up.
  Graph h;
  x = h.placeholder("x");
  s = h.call_function(ops::sin, {x});
  late = h.call_function(ops::exp, {x});
  h.output(Argument::list({s, h.call_function(ops::add_Tensor, {h.call_function(ops::cos, {x}), late})}));
  CHECK(deep.apply(h).rewrites == 1);
  h.lint();
  CHECK(body_of(h) == "exp = aten::exp(%x)\nneg = aten::neg(%exp)\nexp_1 = aten::exp(%x)\nreturn [%neg, %exp_1]\n");
}

TEST_CASE("outputs without anything in common are found all the same") {
  constexpr auto rules = ruleset(rule<"r">(outputs(sin(x), cos(y)) >> outputs(neg(x), exp(y))));
  CHECK(rewritten(rules, [](auto x, auto y) { return x.sin() * y.cos(); }) ==
        "neg = aten::neg(%x)\nexp = aten::exp(%y)\nmul = aten::mul.Tensor(%neg, %exp)\nreturn %mul\n");
}

TEST_CASE("another output is found among however many users what they share has") {
  constexpr auto rules = ruleset(rule<"r">(outputs(sin(x), cos(exp(x))) >> outputs(neg(x), tanh(x))));
  const auto rewrites = [&](int many, bool there) {
    Graph g;
    Node* x = g.placeholder("x");
    std::vector<Argument> values;
    for (int i = 0; i < many; ++i) {
      values.push_back(g.call_function(ops::exp, {x}));
      values.push_back(g.call_function(ops::relu, {values.back()}));
    }
    values.push_back(g.call_function(ops::sin, {x}));
    if (there) values.push_back(g.call_function(ops::cos, {g.call_function(ops::exp, {x})}));
    g.output(Argument::list(values));
    const std::size_t done = rules.apply(g).rewrites;
    g.lint();
    return done;
  };
  CHECK(rewrites(2, true) == 1);
  CHECK(rewrites(1000, true) == 1);
  CHECK(rewrites(1000, false) == 0);
}

TEST_CASE("results of operators with several are matched by getitem") {
  constexpr auto rules = ruleset(rule<"r">(getitem(split(x, 2_c, 0_c), 0_c) >> slice(x, 0_c, 0_c, 2_c)));
  Graph g;
  Node* parts = g.call_function(ops::split_Tensor, {g.placeholder("x"), 2, 0});
  g.output(g.call_function(ops::operator_getitem, {parts, 0}));
  CHECK(rewritten(rules, g) == "slice_1 = aten::slice.Tensor(%x, 0, 0, 2)\nreturn %slice_1\n");
}

TEST_CASE("a call in place on a temporary is matched as its twin") {
  constexpr auto rules = ruleset(rule<"r">(relu(add(x, y)) >> neg(x)));
  const auto make = [](auto f) {
    return [f](Graph& g) {
      Node *x = g.placeholder("x"), *y = g.placeholder("y");
      return f(g, x, y);
    };
  };
  CHECK(rewritten_graph(rules, make([](Graph& g, Node* x, Node* y) {
                          return g.call_function(ops::relu_, {g.call_function(ops::add_Tensor, {x, y})});
                        })) == "neg = aten::neg(%x)\nreturn %neg\n");
  CHECK(
      rewritten_graph(
          rules, make([](Graph& g, Node* x, Node*) {
            return g.call_function(ops::relu, {g.call_function(ops::add__Tensor, {g.call_function(ops::exp, {x}), x})});
          })) == "exp = aten::exp(%x)\nneg = aten::neg(%exp)\nreturn %neg\n");
  // Somebody else sees the sum before and after: not the same.
  Graph g;
  Node *x = g.placeholder("x"), *y = g.placeholder("y");
  Node* sum = g.call_function(ops::add_Tensor, {x, y});
  g.call_function(ops::relu_, {sum});
  g.output(sum);
  CHECK(rules.apply(g).rewrites == 0);
  // An input is nobody's temporary.
  Graph h;
  x = h.placeholder("x");
  h.output(h.call_function(ops::relu_, {x}));
  CHECK(ruleset(rule<"r">(relu(pattern::x) >> neg(pattern::x))).apply(h).rewrites == 0);
}

TEST_CASE("explain names the first condition that failed after most of the pattern had matched") {
  constexpr auto gate = rule<"gate">(mul(x, sigmoid(x.where(rank_is<2>))).where(one_user) >> silu(x));
  const auto why = [&](const auto& rule, auto f) {
    Graph g = symbolic_graph(f);
    Node* last = g.output_node()->prev();
    return explain(rule, last);
  };
  CHECK(why(gate, [](auto x) { return x * x.tanh(); }) ==
        "rule 'gate' does not match %mul: argument 'other' of %mul is %tanh = aten::tanh; the pattern wants a call of "
        "aten::sigmoid");
  CHECK(why(gate, [](auto x) { return x.tanh(); }) ==
        "rule 'gate' does not match %tanh: %tanh = aten::tanh; the pattern wants a call of aten::mul.Tensor");
  CHECK(why(gate, [](auto x) { return x * x.sigmoid(); }).ends_with("is %x, an input, which is not rank_is<2>"));
  CHECK(why(gate, [](auto x) { return x * x.exp().sigmoid(); }).find("'x' is ") != std::string::npos);
  constexpr auto twice = rule<"twice">(mul(x, sigmoid(x)) >> silu(x));
  CHECK(why(twice, [](auto x) { return x * x.exp().sigmoid(); }).find("'x' is ") != std::string::npos);
  CHECK(why(twice, [](auto x) { return x * x.sigmoid(); }).empty());
  constexpr auto never = rule<"never">(relu(x) >> neg(x), [](const Match&) { return false; });
  CHECK(why(never, [](auto x) { return x.relu(); }) ==
        "rule 'never' does not match %relu: all of it is there, but its guard declines");
  constexpr auto number = rule<"number">(mul(x, 2_c) >> add(x, x));
  CHECK(why(number, [](auto x) { return x * 3; }) ==
        "rule 'number' does not match %mul: argument 'other' of %mul is 3; the pattern wants 2");
  constexpr auto single = rule<"single">(neg(relu(x).once()) >> x);
  Graph g = symbolic_graph([](auto x) {
    auto y = x.relu();
    return fxx::stack({y, -y});
  });
  CHECK(explain(single, g.find_nodes(Opcode::call_function, "torch.ops.aten.neg.default").at(0))
            .find("has 2 users; the pattern wants one") != std::string::npos);
  CHECK(test::fault_of([&] {
          explain(ruleset(number), "none", g.output_node());
        }).text.find("the set has no rule 'none'; the rules are 'number'") != std::string::npos);
}

TEST_CASE("explain of a chain names what its end is, by the call that takes it") {
  const auto why = [](const auto& rule, auto f) {
    Graph g = symbolic_graph(f);
    return explain(rule, g.output_node()->prev());
  };
  constexpr auto relus = rule<"relus">(chain([](auto p) { return relu(p); }, constant<"c">) >> neg(constant<"c">));
  for (const std::string& text : {why(relus, [](auto x) { return x.tanh(); }), why(relus, [](auto x) { return x.relu(); }),
                                  why(relus, [](auto x) { return x.relu().relu(); })}) {
    CAPTURE(text);
    CHECK(text.starts_with("rule 'relus' does not match "));
    CHECK(text.find("'?'") == text.npos);
  }
}

TEST_CASE("conditions are named with their values") {
  const auto name_of = []<class P>(P) {
    for (const rewrite::Term& t : rewrite::flat<P>)
      if (t.condition) return std::string(t.condition->name);
    return std::string();
  };
  CHECK(name_of(x.where(floating)) == "floating");
  CHECK(name_of(x.where(rank_is<4>)) == "rank_is<4>");
  CHECK(name_of(x.where(rank_from<2>)) == "rank_from<2>");
  CHECK(name_of(x.where(dtype_is<Dtype::int64>)) == "dtype_is<int64>");
  CHECK(name_of(x.where(dtype_is<Dtype::boolean, Dtype::float16>)) == "dtype_is<bool, float16>");
  CHECK(name_of(x.where(shape_is<-1, 3>)) == "shape_is<-1, 3>");
  CHECK(name_of(x.where(shape_is<>)) == "shape_is<>");
  CHECK(name_of(x.where(size_is<0, 1234567890123>)) == "size_is<0, 1234567890123>");
  CHECK(name_of(x.where(device_is<DeviceType::cuda>)) == "device_is<cuda>");
  CHECK(name_of(x.where(memory_is<MemoryFormat::channels_last>)) == "memory_is<channels_last>");
  CHECK(name_of(factor.where(between(0_c, 1_c))) == "between 0 and 1");
  CHECK(name_of(factor.where(between(-0.125_c, 100000.5_c))) == "between -0.125 and 100000.5");
  CHECK(name_of(factor > 0.7978845608_c) == "greater than 0.7978846");
  CHECK(name_of(factor >= 1e-6_c) == "at least 1e-6");
  CHECK(name_of(factor < 2.5e20_c) == "less than 2.5e20");
  CHECK(name_of(factor <= -3_c) == "at most -3");
  CHECK(name_of(factor != 0.05_c) == "unequal to 0.05");
  CHECK(name_of(x.where([](const Node&) { return true; })) == "a condition of the rule's");
}

TEST_CASE("a report tells where each rule fired, and nodes keep what they stand for") {
  constexpr auto rules = ruleset(rule<"r">(relu(x) >> neg(exp(x))), rule<"twice">(neg(x) >> sin(x)));
  Graph g = symbolic_graph([](auto x) { return x.relu(); });
  const auto report = rules.apply(g, {.record = true});
  REQUIRE(report.firings.size() == 2);
  CHECK(report.firings[0].rule == "r");
  CHECK(report.firings[0].node == "relu");
  CHECK(report.firings[1].rule == "twice");
  const Node* last = g.output_node()->prev();
  CHECK(last->meta().rule == "twice");
  CHECK(last->meta().from == "relu");
  CHECK(rules.apply(g).firings.empty());
}

TEST_CASE("what a result is computed from comes from the same place as the result") {
  constexpr auto expression = ruleset(rule<"expression">(relu(neg(x)) >> exp(abs(x))));
  constexpr auto builds = [](const Match& m) { return m.call(ops::exp, {m.call(ops::abs, {m[pattern::x]})}); };
  constexpr auto callable = ruleset(rule<"callable">(relu(neg(x)) >> builds));
  const auto check = [](const auto& rules, std::string_view rule) {
    Graph g = symbolic_graph([](auto x) { return (-x).relu(); });
    Node* relu = g.output_node()->prev();
    relu->meta().stack_trace = "line 7";
    relu->set_location(std::source_location::current());
    const auto line = relu->location().line();
    REQUIRE(rules.apply(g).rewrites == 1);
    for (const Node* n : {g.output_node()->prev(), g.output_node()->prev()->prev()}) {
      CAPTURE(n->name());
      CHECK(n->meta().rule == rule);
      CHECK(n->meta().from == "relu");
      CHECK(n->meta().stack_trace == "line 7");
      CHECK(n->location().line() == line);
    }
  };
  check(expression, "expression");
  check(callable, "callable");
}

TEST_CASE("what a run makes and rewrites again takes no name; the report says what it was made of") {
  constexpr auto rules = ruleset(rule<"r">(relu(x) >> neg(exp(x))), rule<"again">(exp(x) >> exp2(cos(x))));
  Graph g = symbolic_graph([](auto x) { return x.relu().relu(); });
  const auto report = rules.apply(g, {.record = true});
  REQUIRE(report.firings.size() == 4);
  CHECK(report.firings[1].rule == "again");
  CHECK(report.firings[1].node == "relu_1");
  CHECK(body_of(g) ==
        "cos = aten::cos(%x)\nexp2 = aten::exp2(%cos)\nneg = aten::neg(%exp2)\n"
        "cos_1 = aten::cos(%neg)\nexp2_1 = aten::exp2(%cos_1)\nneg_1 = aten::neg(%exp2_1)\nreturn %neg_1\n");
  for (const Node* n : g.nodes()) {
    CAPTURE(n->name());
    const bool made = n->opcode() == Opcode::call_function;
    CHECK(n->meta().from == (!made ? "" : n->name().ends_with("_1") ? "relu_1" : "relu"));
  }
  g.call_function(ops::exp, {g.nodes().front()});
  CHECK(g.output_node()->prev()->name() == "exp");
}

TEST_CASE("after a run every node has a name, whoever made it and however the run ended") {
  const auto all_named = [](const Graph& g) {
    bool all = true;
    for (const Node* n : g.nodes()) all = all && n->has_name();
    return all;
  };
  // A rule that declines, but has given what it made to somebody else.
  const auto hooks_in = ruleset(rule<"r">(relu(x) >> [](const Match& m) -> Argument {
    Graph& g = m.root()->graph();
    Node* other = g.output_node()->prev();
    if (other->calls(ops::sin)) other->set_args({g.call_function(ops::exp, {m[pattern::x]})});
    return {};
  }));
  Graph g = symbolic_graph([](auto x) { return x.relu().sin(); });
  CHECK(hooks_in.apply(g).rewrites == 0);
  CHECK(all_named(g));
  CHECK(body_of(g) == "exp = aten::exp(%x)\nrelu = .relu(%x)\nsin = .sin(%exp)\nreturn %sin\n");
  // One that throws after another has fired.
  const auto throws =
      ruleset(rule<"fires">(sin(x) >> cos(x)),
              rule<"throws">(relu(x) >> [](const Match&) -> Argument { throw std::runtime_error("no"); }));
  Graph h = symbolic_graph([](auto x) { return x.relu().sin(); });
  CHECK_THROWS_AS(throws.apply(h), std::runtime_error);
  CHECK(all_named(h));
  CHECK(body_of(h) == "relu = .relu(%x)\ncos = aten::cos(%relu)\nreturn %cos\n");
  h.call_function(ops::neg, {h.nodes().front()});
  CHECK(all_named(h));
}

TEST_CASE("phases apply sets one after the other, each to its end") {
  constexpr auto back_and_forth = phases(ruleset(rule<"a">(relu(x) >> exp(x))), ruleset(rule<"b">(exp(x) >> relu(x))));
  Graph g = symbolic_graph([](auto x) { return x.relu().exp(); });
  const auto report = back_and_forth.apply(g);
  CHECK(report.to_string() == "a: 1, b: 2");
  CHECK(report.rewrites == 3);
  CHECK(body_of(g) == "relu_1 = aten::relu(%x)\nrelu_2 = aten::relu(%relu_1)\nreturn %relu_2\n");
}

TEST_CASE("explain asks the phase that has the rule") {
  constexpr auto first = ruleset(rule<"a">(relu(x) >> exp(x)));
  constexpr auto second = ruleset(rule<"b">(tanh(exp(x)) >> x));
  static constexpr auto third = ruleset(rule<"c">(sin(x) >> x));
  constexpr auto all = phases(first, phases(second, third));
  Graph g = symbolic_graph([](auto x) { return x.relu().tanh(); });
  Node* last = g.output_node()->arg(0).node();
  CHECK(explain(all, "b", last) ==
        "rule 'b' does not match %tanh: argument 'self' of %tanh is %relu = aten::relu; the pattern wants a call of "
        "aten::exp");
  CHECK(explain(all, "a", last->args()[0].node()) == "");
  CHECK(explain(rewrite::erase("third", third), "c", last).starts_with("rule 'c' does not match %tanh: "));
  const auto none = test::fault_of<RuleError>([&] { explain(all, "d", last); });
  CHECK(none.id == 405);
  CHECK(none.says("no phase has a rule 'd'; the rules are 'a', 'b', 'c'"));
  const auto erased = phases(rewrite::erase("third", third), all, third);  // each is said once
  CHECK(test::fault_of<RuleError>([&] { explain(erased, "d", last); }).says("the rules are 'c', 'a', 'b'"));
}

TEST_CASE("a set whose rules only take away always ends") {
  static_assert(ruleset(rule<"r">(relu(relu(x)) >> relu(x))).always_ends);
  static_assert(!ruleset(rule<"r">(sin(x) >> cos(x))).always_ends);
  static_assert(!ruleset(rule<"r">(mul(x, exp(y)) >> mul(y, y))).always_ends);
  static_assert(!ruleset(rule<"r">(relu(x) >> [](const Match& m) { return m[pattern::x]; })).always_ends);
  static_assert(ruleset(rule<"r">(chain<"c", 2>([](auto p) { return relu(p); }, x) >> relu(x))).always_ends);
}
