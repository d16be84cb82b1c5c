// Graphs made of patterns: every reading of a pattern gives a graph that the pattern matches.
#include "fxx/rewrite/instantiate.hpp"

#include <doctest/doctest.h>

#include <set>

#include "rewrite/rewritten.hpp"

using namespace fxx;
using namespace fxx::pattern;
using test::body_of;

namespace {

/// Takes the choices that it is told, then the plainest, and notes what it was asked.
struct Answers : rewrite::Instantiation {
  std::vector<std::size_t> choices, among;
  std::vector<std::string> asked;
  int calls = 0;

  std::size_t choose(std::size_t n) override {
    among.push_back(n);
    if (choices.size() < among.size()) choices.push_back(0);
    return choices[among.size() - 1];
  }
  Argument fill(Graph& graph, const rewrite::Hole& hole) override {
    using Wants = rewrite::Hole::Wants;
    asked.push_back(std::string(hole.name()) + " of " + std::string(hole.op->name));
    switch (hole.wants) {
      case Wants::number: return 7;
      case Wants::constant: return graph.get_attr(hole.name());
      case Wants::node_or_none: return {};
      case Wants::node: break;
      case Wants::anything:
        if (hole.type.base != ValueType::tensor) return 1;
    }
    return graph.placeholder(hole.name());
  }
  void made(Node&) override { ++calls; }
};

/// The bodies of the graphs of all readings; each must be one that the rule fires on.
template <class Rule>
std::set<std::string> readings(const Rule& rule) {
  std::set<std::string> texts;
  const rewrite::Ruleset<Rule> rules(rule);
  Answers answers;
  for (bool more = true; more;) {
    Graph graph;
    answers.among.clear();
    const std::vector<Argument> roots = rewrite::instantiate(graph, rewrite::flat<typename Rule::pattern>.data(),
                                                             rewrite::detail::facts_of<Rule>[0].shared, answers);
    graph.output(roots.size() == 1 ? roots[0] : Argument::list(roots));
    graph.lint();
    texts.insert(body_of(graph));
    CAPTURE(body_of(graph));
    CHECK(rules.apply(graph).rewrites > 0);
    // The next reading: the last choice that has another option takes it.
    answers.choices.resize(answers.among.size());
    while (!answers.choices.empty() && answers.choices.back() + 1 >= answers.among[answers.choices.size() - 1])
      answers.choices.pop_back();
    more = !answers.choices.empty();
    if (more) ++answers.choices.back();
  }
  return texts;
}

}  // namespace

TEST_CASE("alternatives, both orders of commutative operators, numbers as integers and reals") {
  const auto texts = readings(rule<"r">(((mul(x, 2_c) | add(x, x)) + y) >> x));
  CHECK(texts.contains("mul = aten::mul.Scalar(%x, 2)\nadd = aten::add.Tensor(%mul, %y)\nreturn %add\n"));
  CHECK(texts.contains("mul = aten::mul.Scalar(%x, 2.0)\nadd = aten::add.Tensor(%y, %mul)\nreturn %add\n"));
  CHECK(texts.contains("add = aten::add.Tensor(%x, %x, alpha=1)\nadd_1 = aten::add.Tensor(%add, %y)\nreturn %add_1\n"));
}

TEST_CASE("arguments that have their default are left out, or given; what follows is given by name") {
  const auto texts = readings(rule<"r">(softplus(x, arg<"threshold">(20_c)) >> x));
  CHECK(texts.size() == 6);
  CHECK(texts.contains("softplus = aten::softplus(%x, threshold=20)\nreturn %softplus\n"));
  CHECK(texts.contains("softplus = aten::softplus(%x, 1, 20.0)\nreturn %softplus\n"));
  CHECK(texts.contains("softplus = aten::softplus(%x, 1.0, 20)\nreturn %softplus\n"));
}

TEST_CASE("captures are asked for once, lists are lists, one number stands for all of a list") {
  Answers answers;
  Graph graph;
  constexpr auto p = cat(list(x, relu(x), constant<"c">), value<"dim">);
  const std::vector<Argument> roots =
      rewrite::instantiate(graph, rewrite::flat<std::remove_const_t<decltype(p)>>.data(), 0, answers);
  graph.output(roots[0]);
  CHECK(body_of(graph) == "relu = aten::relu(%x)\nc = attribute c\ncat = aten::cat([%x, %relu, %c], 1)\nreturn %cat\n");
  CHECK(answers.asked == std::vector<std::string>{"x of aten::cat", "c of aten::cat", "dim of aten::cat"});
  CHECK(answers.calls == 2);

  const auto windows = readings(rule<"r">(max_pool2d(x, ints<2, 2>) >> x));
  CHECK(windows.contains("max_pool2d = aten::max_pool2d(%x, [2, 2])\nreturn %max_pool2d\n"));
  CHECK(windows.contains("max_pool2d = aten::max_pool2d(%x, 2)\nreturn %max_pool2d\n"));
}

TEST_CASE("siblings are two or three, which share one value") {
  constexpr auto c = constant<"c">;
  const auto texts = readings(rule<"r">(siblings(x, linear(x, c, b)) >> [c](const Match& m) -> Argument {
    std::vector<Argument> values;
    for (const Match& member : m.members()) values.push_back(m.call(ops::matmul, {member[x], member[c]}));
    return Argument::list(values);
  }));
  CHECK(texts.size() >= 2);
  bool three = false;
  for (const std::string& text : texts) three = three || text.find("%linear_2") != std::string::npos;
  CHECK(three);
}
