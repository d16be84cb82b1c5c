// Replacing every occurrence of a pattern that is made at run time.
#include "fxx/rewrite/replace_pattern.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "fxx/ops/operation.hpp"
#include "graph_text.hpp"
#include "support.hpp"

using namespace fxx;
using test::body_of;
using test::fault_of;
using test::text_of;

namespace {

/// What becomes of a graph, without its inputs.
template <class P, class R>
std::string replaced(Graph graph, const P& pattern, const R& replacement) {
  replace_pattern(graph, pattern, replacement);
  graph.lint();
  return body_of(graph);
}
template <class G, class P, class R>
  requires(!std::is_same_v<G, Graph>)
std::string replaced(const G& function, const P& pattern, const R& replacement) {
  std::vector<std::string> names = {"x", "y", "z"};
  names.resize(static_cast<std::size_t>(fxx::detail::proxy_arity<G>()));
  return replaced(symbolic_graph(function, names), pattern, replacement);
}
/// How often the pattern was replaced; the graph stays as it is where that is never.
template <class G, class P, class R>
std::size_t times(const G& function, const P& pattern, const R& replacement) {
  Graph graph = symbolic_graph(function);
  const std::string before = to_string(graph);
  const std::size_t count = replace_pattern(graph, pattern, replacement).size();
  graph.lint();
  if (count == 0) CHECK(to_string(graph) == before);
  return count;
}
/// That the replacement is refused with these words, and the graph is as it was.
template <class P, class R>
bool refused(const P& pattern, const R& replacement, int id, std::string_view words) {
  Graph graph = symbolic_graph([](auto x, auto y) { return (x + y).relu() + (x + 2).relu(); });
  const std::string before = to_string(graph);
  const auto fault = fault_of<RuleError>([&] { replace_pattern(graph, pattern, replacement); });
  CAPTURE(fault.text);
  CHECK(to_string(graph) == before);
  return fault.id == id && fault.says(words);
}

const auto relu_of = [](auto x) { return x.relu(); };
const auto gelu_of = [](auto x) { return gelu(x); };
const auto itself = [](auto x) { return x; };

}  // namespace

// --- one result ------------------------------------------------------------------------------------------------------

TEST_CASE("a pattern replaced by itself leaves the graph as it was") {
  const auto pattern = [](auto x, auto y) { return (x + y).relu(); };
  Graph graph = symbolic_graph([](auto x, auto y) { return (x * 2 + y).relu().sum() + x; });
  const std::string before = to_string(graph);
  CHECK(replace_pattern(graph, pattern, pattern).size() == 1);
  graph.lint();
  CHECK(body_of(graph) == body_of(parse_graph(before)));
}

TEST_CASE("one operator, two, and a pattern that occurs twice") {
  CHECK(replaced([](auto x) { return x.relu().sum(); }, relu_of, gelu_of) ==
        "gelu = aten::gelu(%x)\nsum = .sum(%gelu)\nreturn %sum\n");
  const auto two = [](auto x) { return x.relu().tanh(); };
  CHECK(replaced([=](auto x) { return two(x + 1); }, two, gelu_of) ==
        "add = aten::add.Scalar(%x, 1)\ngelu = aten::gelu(%add)\nreturn %gelu\n");
  CHECK(replaced(
            [=](auto x, auto y) {
              return fxx::cat({two(x), two(y)});
            },
            two, gelu_of) ==
        "gelu = aten::gelu(%x)\ngelu_1 = aten::gelu(%y)\ncat = aten::cat([%gelu, %gelu_1])\nreturn %cat\n");
  CHECK(times([](auto x) { return x.tanh(); }, two, gelu_of) == 0);
}

TEST_CASE("inputs correspond by position, whatever they are called") {
  const auto pattern = [](auto a, auto b) { return a.div(b).relu(); };
  CHECK(replaced([=](auto x, auto y) { return pattern(y, x); }, pattern, [](auto a, auto b) { return b.sub(a); }) ==
        "sub = .sub(%x, %y)\nreturn %sub\n");
}

TEST_CASE("patterns and replacements may be graphs") {
  Graph pattern, replacement;
  pattern.output(pattern.call_function(ops::relu, {pattern.placeholder("a")}));
  replacement.output(replacement.call_function(ops::gelu, {replacement.placeholder("b")}));
  CHECK(replaced([](auto x) { return x.relu(); }, pattern, replacement) == "gelu = aten::gelu(%x)\nreturn %gelu\n");
  CHECK(replaced([](auto x) { return x.relu(); }, pattern, gelu_of) == "gelu = aten::gelu(%x)\nreturn %gelu\n");
  CHECK(replaced([](auto x) { return x.relu(); }, relu_of, replacement) == "gelu = aten::gelu(%x)\nreturn %gelu\n");
}

TEST_CASE("the pattern may be the whole graph") {
  const auto whole = [](auto x, auto y) { return x.relu() + y; };
  CHECK(replaced(whole, whole, [](auto x, auto y) { return x.maximum(y); }) ==
        "maximum = .maximum(%x, %y)\nreturn %maximum\n");
}

TEST_CASE("all users of the result are redirected, those that were not matched too, in lists as well") {
  CHECK(replaced(
            [](auto x) {
              const auto y = x.relu();
              return std::tuple{y, fxx::cat({y, x}), y + 1};
            },
            relu_of, gelu_of) ==
        "gelu = aten::gelu(%x)\ncat = aten::cat([%gelu, %x])\nadd = aten::add.Scalar(%gelu, 1)\n"
        "return (%gelu, %cat, %add)\n");
}

TEST_CASE("an input of the pattern may stand for a node with inputs of its own") {
  CHECK(replaced([](auto x, auto y) { return (x * y + 1).relu(); }, relu_of, gelu_of) ==
        "mul = aten::mul.Tensor(%x, %y)\nadd = aten::add.Scalar(%mul, 1)\ngelu = aten::gelu(%add)\nreturn %gelu\n");
}

TEST_CASE("matches in a chain use what took the place of the ones before, inside lists too") {
  const auto three = [](auto x) { return x.sigmoid().sigmoid().sigmoid(); };
  const auto one = [](auto x) { return x.sigmoid(); };
  CHECK(replaced(three, one, [](auto x) { return x.exp(); }) ==
        "exp = .exp(%x)\nexp_1 = .exp(%exp)\nexp_2 = .exp(%exp_1)\nreturn %exp_2\n");
  const auto joined = [](auto x, auto y) { return fxx::cat({x, y}); };
  CHECK(replaced(
            [=](auto x) {
              const auto first = joined(x, x), second = joined(x, x);
              return joined(first, second);
            },
            joined,
            [](auto x, auto y) {
              return fxx::stack({y, x});
            }) ==
        "stack = aten::stack([%x, %x])\nstack_1 = aten::stack([%x, %x])\nstack_2 = aten::stack([%stack_1, %stack])\n"
        "return %stack_2\n");
  // An input of the pattern that stands for a list of nodes which are replaced themselves.
  Graph pattern, replacement, graph;
  pattern.output(pattern.call_function(ops::cat, {pattern.placeholder("list")}));
  replacement.output(replacement.call_function(ops::stack, {replacement.placeholder("list")}));
  Node *x = graph.placeholder("x"), *first = graph.call_function(ops::cat, {Argument::list({x, x})});
  graph.output(graph.call_function(ops::cat, {Argument::list({first, x, first})}));
  CHECK(replaced(graph, pattern, replacement) ==
        "stack = aten::stack([%x, %x])\nstack_1 = aten::stack([%stack, %x, %stack])\nreturn %stack_1\n");
}

TEST_CASE("matches that share a node: the first one counts") {
  const auto four = [](auto x) { return x.sigmoid().sigmoid().sigmoid().sigmoid(); };
  const auto two = [](auto x) { return x.sigmoid().sigmoid(); };
  CHECK(replaced(four, two, [](auto x) { return x.exp(); }) == "exp = .exp(%x)\nexp_1 = .exp(%exp)\nreturn %exp_1\n");
}

TEST_CASE("a replacement that gives back its input takes the pattern away") {
  CHECK(replaced([](auto x) { return x.relu().relu().tanh().relu(); }, relu_of, itself) ==
        "tanh = .tanh(%x)\nreturn %tanh\n");
  CHECK(replaced([](auto x) { return x.relu(); }, relu_of, itself) == "return %x\n");
  const std::size_t length = test::repeats(100'000, 20'000);
  Graph graph;
  Node *x = graph.placeholder("x"), *n = x;
  for (std::size_t i = 0; i < length; ++i) n = graph.call_function(ops::relu, {n});
  graph.output(n);
  CHECK(replace_pattern(graph, relu_of, itself).size() == length);
  CHECK(body_of(graph) == "return %x\n");
}

TEST_CASE("inputs that the graph, the pattern or the replacement does not use stay where they are") {
  Graph graph = symbolic_graph([](auto x, auto, auto z) { return x.relu() + z; }, {"x", "unused", "z"});
  replace_pattern(
      graph, [](auto x, auto y) { return x + y; }, [](auto x, auto) { return x.exp(); });
  CHECK(text_of(graph) == "input x\ninput unused\ninput z\nrelu = .relu(%x)\nexp = .exp(%relu)\nreturn %exp\n");
  CHECK(replaced([](auto x) { return x.relu(); }, [](auto x, auto) { return x.relu(); },
                 [](auto x, auto) { return gelu(x); }) == "gelu = aten::gelu(%x)\nreturn %gelu\n");
}

TEST_CASE("what only the replaced nodes used goes with them; what else is unused stays") {
  Graph graph = symbolic_graph(
      [](auto x, auto y) {
        x.exp();
        return x + y.tanh().sigmoid();
      },
      {"x", "y"});
  replace_pattern(
      graph, [](auto x, auto y) { return x + y; }, [](auto x, auto) { return x.relu(); });
  CHECK(body_of(graph) == "exp = .exp(%x)\nrelu = .relu(%x)\nreturn %relu\n");
}

// --- literals --------------------------------------------------------------------------------------------------------

TEST_CASE("a literal that an input stood for goes into the replacement, by the overload that takes it") {
  const auto product = [](auto x, auto y) { return x * y; };
  CHECK(replaced(
            [](auto x, auto y) {
              const auto a = x * 2, b = x * y;
              return a + b;
            },
            product, [](auto x, auto y) { return x.pow(y); }) ==
        "pow = .pow(%x, 2)\npow_1 = .pow(%x, %y)\nadd = aten::add.Tensor(%pow, %pow_1)\nreturn %add\n");
  CHECK(replaced([](auto x) { return x * 2; }, product, [](auto x, auto y) { return x - y; }) ==
        "sub = aten::sub.Scalar(%x, 2)\nreturn %sub\n");
  CHECK(replaced([](auto x) { return x.clamp(0, 6); }, [](auto x, auto low, auto high) { return x.clamp(low, high); },
                 [](auto x, auto low, auto high) { return x.maximum(low).minimum(high); }) ==
        "maximum = .maximum(%x, 0)\nminimum = .minimum(%maximum, 6)\nreturn %minimum\n");
}

TEST_CASE("a pattern with an object's own number matches that number only") {
  struct Power {
    int exponent;
    Proxy pattern(const Proxy& x) const { return x.pow(exponent) * 2; }
    Proxy replacement(const Proxy& x) const { return x.square().square() * 2; }
  };
  const Power power{4};
  const auto pattern = [&](auto x) { return power.pattern(x); };
  const auto replacement = [&](auto x) { return power.replacement(x); };
  CHECK(times([](auto x) { return x.pow(4) * 2; }, pattern, replacement) == 1);
  CHECK(times([](auto x) { return x.pow(3) * 2; }, pattern, replacement) == 0);
}

TEST_CASE("addmm in three spellings becomes what its factors say") {
  Graph pattern;
  std::vector<Argument> inputs;
  for (const char* name : {"b", "x", "w", "beta", "alpha"}) inputs.push_back(pattern.placeholder(name));
  pattern.output(pattern.call_function(ops::addmm, {inputs[0], inputs[1], inputs[2]},
                                       {{"beta", inputs[3]}, {"alpha", inputs[4]}}));
  const auto replacement = [](auto b, auto x, auto w, auto beta, auto alpha) {
    const auto bias = b * beta, product = x.mm(w);
    return bias + product * alpha;
  };
  const auto with = [&](std::vector<KeywordArgument> kwargs) {
    Graph graph;
    std::vector<Argument> args = {graph.placeholder("b"), graph.placeholder("x"), graph.placeholder("w")};
    graph.output(graph.call_function(ops::addmm, args, kwargs));
    return replaced(std::move(graph), pattern, replacement);
  };
  CHECK(with({}).find("mul = aten::mul.Scalar(%b, 1)\n") == 0);
  CHECK(with({{"beta", 0.5}}).find("mul = aten::mul.Scalar(%b, 0.5)\n") == 0);
  CHECK(with({{"beta", 0.5}, {"alpha", 3}}).find("mul_1 = aten::mul.Scalar(%mm, 3)\n") != std::string::npos);
}

// --- several results -------------------------------------------------------------------------------------------------

TEST_CASE("patterns and replacements with several results: each takes its own place") {
  const auto pattern = [](auto x) {
    const auto y = x.relu();
    return std::tuple{y.tanh(), y.sigmoid()};
  };
  const auto replacement = [](auto x) { return std::tuple{x.exp(), x.log()}; };
  CHECK(replaced(
            [](auto x) {
              const auto y = x.relu(), a = y.tanh(), b = y.sigmoid();
              return a - b;
            },
            pattern,
            replacement) == "exp = .exp(%x)\nlog = .log(%x)\nsub = aten::sub.Tensor(%exp, %log)\nreturn %sub\n");
}

TEST_CASE("results that are used before all of the pattern is computed: what is needed comes first") {
  const auto pattern = [](auto x, auto y) { return std::tuple{x.sigmoid(), y.tanh()}; };
  const auto replacement = [](auto x, auto y) { return std::tuple{x + y, x - y}; };
  CHECK(replaced(
            [](auto x, auto y) {
              const auto first = x.sigmoid(), used = first.exp(), late = y.relu().neg();
              return used + late.tanh();
            },
            pattern, replacement) ==
        "relu = .relu(%y)\nneg = .neg(%relu)\nadd_1 = aten::add.Tensor(%x, %neg)\nsub = aten::sub.Tensor(%x, %neg)\n"
        "exp = .exp(%add_1)\nadd = aten::add.Tensor(%exp, %sub)\nreturn %add\n");
}

TEST_CASE("matches that would need each other: only one of them is replaced") {
  // a -> d and c -> b: with both pairs made one, each would be before the other.
  const auto pattern = [](auto x, auto y) { return std::tuple{x.sigmoid(), y.tanh()}; };
  Graph graph = symbolic_graph([](auto x) {
    const auto a = x.sigmoid(), c = x.exp().sigmoid();
    const auto b = c.neg().tanh(), d = a.neg().tanh();
    return b + d;
  });
  const auto done = replace_pattern(graph, pattern, [](auto x, auto y) { return std::tuple{x + y, x - y}; });
  graph.lint();
  CHECK(done.size() == 1);
}

TEST_CASE("an operator with several results against several values") {
  const auto largest = [](auto x) { return topk(x, 3); };
  const auto apart = [](auto x) { return std::tuple{x.relu(), x.tanh()}; };
  CHECK(replaced(
            [](auto x) {
              auto [values, indices] = topk(x, 3);
              return values + indices;
            },
            [=](auto x) {
              auto [values, indices] = largest(x);
              return std::tuple{values, indices};
            },
            apart) == "relu = .relu(%x)\ntanh = .tanh(%x)\nadd = aten::add.Tensor(%relu, %tanh)\nreturn %add\n");
  CHECK(replaced([](auto x) { return x.relu() + x.tanh(); }, apart,
                 [](auto x) {
                   auto [values, indices] = topk(x, 3);
                   return std::tuple{values, indices};
                 }) ==
        "topk = aten::topk(%x, 3)\ngetitem = operator::getitem(%topk, 0)\ngetitem_1 = operator::getitem(%topk, 1)\n"
        "add = aten::add.Tensor(%getitem, %getitem_1)\nreturn %add\n");
  // Used as a whole there is nothing to put in its place.
  Graph graph;
  graph.output(graph.call_function(ops::topk, {graph.placeholder("x"), 3}));
  CHECK(replace_pattern(
            graph,
            [](auto x) {
              auto [values, indices] = topk(x, 3);
              return std::tuple{values, indices};
            },
            apart)
            .empty());
}

TEST_CASE("a match that takes an item of several results has it no more when separate values stand for these") {
  const auto largest_of = [](Graph& graph, Node* several) {
    return graph.call_function(ops::topk, {graph.call_function(ops::operator_getitem, {several, 0}), 3});
  };
  Graph pattern, replacement, graph;
  pattern.output(largest_of(pattern, pattern.placeholder("x")));
  Node* item = replacement.call_function(ops::operator_getitem, {replacement.placeholder("x"), 0});
  replacement.output(Argument::list(
      {replacement.call_function(ops::relu, {item}), replacement.call_function(ops::tanh, {item})}));
  Node* last = largest_of(graph, largest_of(graph, graph.placeholder("x")));
  graph.output(graph.call_function(ops::operator_getitem, {last, 1}));
  CHECK(replace_pattern(graph, pattern, replacement).size() == 1);
  graph.lint();
  CHECK(body_of(graph).find("aten::topk(%relu, 3)") != std::string::npos);
}

TEST_CASE("an inner value that is returned too stays; what cancels goes") {
  const auto pair = [](auto x) { return x.permute({1, 0}).permute({1, 0}); };
  CHECK(replaced([=](auto x) { return pair(x.relu()); }, pair, itself) == "relu = .relu(%x)\nreturn %relu\n");
  CHECK(times(
            [](auto x) {
              const auto y = x.permute({1, 0});
              return std::tuple{y, y.permute({1, 0})};
            },
            pair, itself) == 0);
  // Numbers as inputs of a pattern: the trace has to know that they are none of its tensors.
  const auto inputs = concrete_args(PH, PH_NUMBER, PH_NUMBER);
  const Graph views = symbolic_graph([](auto x, auto a, auto b) { return x.view({a, 2}).view({b, 3}); }, inputs);
  const Graph view = symbolic_graph([](auto x, auto, auto b) { return x.view({b, 3}); }, inputs);
  CHECK(replaced(
            [](auto x) {
              return x.view({3, 2}).view({2, 3});
            },
            views, view) == "view_1 = .view(%x, [2, 3])\nreturn %view_1\n");
}

TEST_CASE("a pattern that returns its input as it came has it returned so") {
  const auto pattern = [](auto x) { return std::tuple{x, x.relu()}; };
  CHECK(replaced([](auto x) { return x.relu() + x; }, pattern,
                 [](auto x) {
                   return std::tuple{x, x.tanh()};
                 }) == "tanh = .tanh(%x)\nadd = aten::add.Tensor(%tanh, %x)\nreturn %add\n");
  CHECK(replaced([](auto x) { return x.relu() + x; }, pattern,
                 [](auto x) {
                   return std::tuple{x.tanh(), x};
                 }) == "tanh = .tanh(%x)\nadd = aten::add.Tensor(%x, %tanh)\nreturn %add\n");
}

TEST_CASE("users of an input that the pattern returns get what the replacement returns in its place") {
  const auto pattern = [](auto x) { return std::tuple{x.relu(), x}; };
  const auto replacement = [](auto x) { return std::tuple{x.sigmoid(), x.tanh()}; };
  CHECK(replaced(
            [](auto x) {
              const auto y = x.relu();
              return y + x.neg();
            },
            pattern, replacement) ==
        "sigmoid = .sigmoid(%x)\ntanh = .tanh(%x)\nneg = .neg(%tanh)\nadd = aten::add.Tensor(%sigmoid, %neg)\n"
        "return %add\n");
  // Those before the match too, as in torch.fx, and the output, in containers as well.
  CHECK(replaced(
            [](auto x) {
              const auto y = x.cos();
              const auto early = y.exp();
              return std::tuple{early, y.relu(), y};
            },
            pattern, replacement) ==
        "cos = .cos(%x)\nsigmoid = .sigmoid(%cos)\ntanh = .tanh(%cos)\nexp = .exp(%tanh)\n"
        "return (%exp, %sigmoid, %tanh)\n");
  // What the replacement is computed from keeps the value.
  const auto two = [](auto x, auto y) { return std::tuple{x * y, x}; };
  CHECK(replaced(
            [](auto x) {
              const auto before = x.exp();
              const auto product = (x * before).neg();
              return product + x.sin();
            },
            two,
            [](auto, auto y) {
              return std::tuple{y, y.tanh()};
            }) == "exp = .exp(%x)\ntanh = .tanh(%exp)\nneg = .neg(%exp)\nsin = .sin(%tanh)\n"
                  "add = aten::add.Tensor(%neg, %sin)\nreturn %add\n");
  // An early user that cannot wait keeps it, and the later ones do not.
  const auto late = replaced(
      [](auto x) {
        const auto early = x.exp();
        const auto other = early.sin();
        return std::tuple{x * other, x.cos()};
      },
      two, [](auto x, auto y) { return std::tuple{y, x + y}; });
  CHECK(late == "exp = .exp(%x)\nsin = .sin(%exp)\nadd = aten::add.Tensor(%x, %sin)\ncos = .cos(%add)\n"
                "return (%sin, %cos)\n");
}

TEST_CASE("values that a pattern passes on change places at once") {
  const auto pattern = [](auto x, auto y) { return std::tuple{x * y, x, y}; };
  CHECK(replaced(
            [](auto x, auto y) {
              return std::tuple{x * y, x - y, x.neg(), y.exp()};
            },
            pattern,
            [](auto x, auto y) {
              return std::tuple{x, y, x};
            }) == "sub = aten::sub.Tensor(%y, %x)\nneg = .neg(%y)\nexp = .exp(%x)\nreturn (%x, %sub, %neg, %exp)\n");
  // A literal has no users. Of two matches that pass on one value the first redirects its users.
  const auto one = [](auto x, auto y) { return std::tuple{x * y, y}; };
  const auto other = [](auto x, auto) { return std::tuple{x.sin(), x.cos()}; };
  CHECK(replaced([](auto x) { return x * 2; }, one, other) == "sin = .sin(%x)\ncos = .cos(%x)\nreturn %sin\n");
  const std::string chain = replaced(
      [](auto x, auto y) {
        return std::tuple{x * y * y, y.neg()};
      },
      one, other);
  CHECK(chain.find("neg = .neg(%cos)") != std::string::npos);
  CHECK(chain.find("return (%sin_1, %neg)") != std::string::npos);
  // Attributes as inputs.
  Graph graph, attribute, zero;
  Node *w = graph.get_attr("w"), *sum = graph.call_function(ops::add_Tensor, {graph.placeholder("x"), w});
  graph.output(Argument::list({sum, graph.call_function(ops::neg, {w})}));
  Node *p = attribute.placeholder("x"), *weight = attribute.get_attr("w");
  attribute.output(Argument::list({attribute.call_function(ops::add_Tensor, {p, weight}), weight}));
  Node* q = zero.placeholder("x");
  zero.output(Argument::list({zero.call_function(ops::relu, {q}), zero.call_function(ops::tanh, {q})}));
  CHECK(replace_pattern(graph, attribute, zero).size() == 1);
  graph.lint();
  CHECK(body_of(graph).find("aten::neg(%tanh)") != std::string::npos);
}

TEST_CASE("drawn graphs with patterns that pass an input on: every user gets the value that it should") {
  // Numbers stand for tensors: the pattern is a * b with a returned, the replacement a + b with 3 * a in its place.
  std::mt19937 random(7);
  const auto draw = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  std::size_t redirected = 0;
  for (int round = 0; round < 300; ++round) {
    Graph graph;
    std::vector<Node*> values = {graph.placeholder("x"), graph.placeholder("y")};
    const std::size_t count = 4 + draw(10);
    const std::size_t at = draw(count);
    Node* match = nullptr;
    for (std::size_t i = 0; i < count; ++i) {
      Node *a = values[draw(values.size())], *b = values[draw(values.size())];
      if (i == at && a != b) match = graph.call_function(ops::mul_Tensor, {a, b});
      values.push_back(i == at && match ? match
                       : draw(2)        ? graph.call_function(ops::sub_Tensor, {a, b})
                                        : graph.call_function(ops::neg, {a}));
    }
    if (!match) continue;
    graph.output(Argument::list({values.begin(), values.end()}));
    Node* const passed = match->arg(0).node();
    // The users as they are, and of these the ones that the replacement needs.
    const std::vector<Node*> users = passed->users().snapshot();
    std::vector<Node*> needed = {match->arg(1).node()};
    for (std::size_t i = 0; i < needed.size(); ++i)
      for (Node* input : needed[i]->all_input_nodes())
        if (std::find(needed.begin(), needed.end(), input) == needed.end()) needed.push_back(input);
    const auto done = replace_pattern(
        graph, [](auto a, auto b) { return std::tuple{a * b, a}; },
        [](auto a, auto b) {
          return std::tuple{a + b, a * 3.0};
        });
    graph.lint();
    REQUIRE(done.size() == 1);
    REQUIRE(done[0].replacements.size() == 2);
    const Node* scaled = done[0].replacements[1];
    for (const Node* user : users) {
      if (user == match) continue;
      const auto inputs = user->all_input_nodes();
      const bool gets = std::find(inputs.begin(), inputs.end(), scaled) != inputs.end();
      const bool keeps = std::find(inputs.begin(), inputs.end(), passed) != inputs.end();
      CHECK(gets != keeps);
      if (std::find(needed.begin(), needed.end(), user) != needed.end()) CHECK(keeps);
      else if (scaled->is_before(*user)) CHECK(gets);
      redirected += gets;
    }
  }
  CHECK(redirected > 300);
}

// --- what carries over -----------------------------------------------------------------------------------------------

TEST_CASE("names, shapes, types, source lines, modules and meta data carry over") {
  Graph graph;
  Node *x = graph.placeholder("x"), *sum = graph.call_function(ops::add_Tensor, {x, x});
  Node* activation = graph.call_function(ops::relu, {sum});
  activation->rename("block_out");
  TensorMeta meta;
  meta.shape = {2, 3};
  activation->set_tensor_meta(meta);
  activation->set_type("torch::Tensor");
  activation->set_location(std::source_location::current());
  activation->set_module_stack(ModuleStack({}, {"block", "Block"}));
  activation->meta().stack_trace = "net.cpp:7\n";
  activation->meta().custom.emplace_back("rank", 3);
  graph.output(graph.call_function(ops::tanh, {activation}));
  const auto done = replace_pattern(
      graph, [](auto x) { return (x + x).relu(); }, [](auto x) { return fxx::functional::relu(x * 2); });
  REQUIRE(done.size() == 1);
  const Node *inner = done[0].replacements[0], *result = done[0].replacements[1];
  CHECK(result->name() == "block_out");
  REQUIRE(result->tensor_meta());
  CHECK(*result->tensor_meta() == meta);
  CHECK(result->type() == "torch::Tensor");
  CHECK(result->location().line() == activation->location().line());
  CHECK(result->module_stack().text() == "block");
  CHECK(result->meta().stack_trace == "net.cpp:7\n");
  CHECK(std::any_cast<int>(result->meta().custom.at(0).second) == 3);
  CHECK(inner->module_stack().text() == "block");
  CHECK(inner->tensor_meta() == nullptr);
}

// --- memory ----------------------------------------------------------------------------------------------------------

TEST_CASE("nothing is replaced where the graph writes to memory in between") {
  const auto silu_of = [](auto x) { return x.sigmoid() * x; };
  CHECK(times(
            [](auto x) {
              const auto s = x.sigmoid();
              x.add_(1);
              return s * x;
            },
            silu_of, [](auto x) { return silu(x); }) == 0);
}

TEST_CASE("a value that is written to is not replaced by one that others see") {
  const auto copied = [](auto x) { return -(-x); };
  CHECK(times([=](auto x) { return copied(x).add_(1); }, copied, itself) == 0);
  CHECK(times(
            [=](auto x) {
              const auto y = copied(x);
              x.add_(1);
              return y;
            },
            copied, itself) == 0);
  CHECK(times(
            [=](auto x) {
              const auto y = copied(x);
              y[0] = 5;
              return y * x;
            },
            copied, itself) == 0);
  CHECK(times([=](auto x) { return copied(x).add(1).add_(1); }, copied, itself) == 1);
  CHECK(times([=](auto x) { return copied(x).add_(1); }, copied, [](auto x) { return x.clone(); }) == 1);
}

TEST_CASE("a write to a temporary goes with it") {
  CHECK(replaced([](auto x, auto y) { return x.add(1).add_(y).tanh(); },
                 [](auto x, auto y) { return x.add_(y).tanh(); }, [](auto x, auto y) { return (x + y).tanh(); }) ==
        "add = .add(%x, 1)\nadd_1 = aten::add.Tensor(%add, %y)\ntanh = .tanh(%add_1)\nreturn %tanh\n");
}

TEST_CASE("a write that a replacement brings is one that later matches see") {
  // The first match begins to write to x; a match around it reads x before and after.
  const auto pattern = [](auto x, auto y) { return std::tuple{x.sigmoid() * y.tanh()}; };
  Graph graph;
  Node *x = graph.placeholder("x"), *y = graph.placeholder("y");
  Node *outer = graph.call_method("sigmoid", {x}), *inner = graph.call_method("sigmoid", {y});
  Node* first = graph.call_function(ops::mul_Tensor, {inner, graph.call_method("tanh", {y})});
  Node* second = graph.call_function(ops::mul_Tensor, {outer, graph.call_method("tanh", {x})});
  graph.output(Argument::list({first, second}));
  const auto writes = [](auto x, auto y) {
    x.relu_();
    return std::tuple{x * y};
  };
  CHECK(replace_pattern(graph, pattern, writes).size() == 1);
  graph.lint();
}

// --- attributes and modules by name ----------------------------------------------------------------------------------

TEST_CASE("attributes that the graph has are used by name") {
  Graph graph, replacement;
  Node* x = graph.placeholder("x");
  graph.output(graph.call_function(ops::add_Tensor, {x, graph.get_attr("w")}));
  Graph pattern;
  pattern.output(pattern.call_function(ops::add_Tensor, {pattern.placeholder("x"), pattern.get_attr("any")}));
  replacement.output(replacement.call_module("norm", {replacement.placeholder("x")}));
  replace_pattern(graph, pattern, replacement);
  graph.lint();
  CHECK(body_of(graph) == "norm = norm(%x)\nreturn %norm\n");
}

TEST_CASE("a graph can be its own pattern and its own replacement") {
  const auto twice = [](auto x) { return x.relu().relu(); };
  Graph graph = symbolic_graph(twice);
  const std::string before = body_of(graph);
  CHECK(replace_pattern(graph, graph, graph).size() == 1);
  graph.lint();
  CHECK(body_of(graph) == before);
  Graph other = symbolic_graph(twice);
  CHECK(replace_pattern(other, [](auto x) { return x.relu(); }, other).size() == 2);
  other.lint();
  CHECK(other.size() == 2 + 4);  // input, output, two for each
}

// --- what does not fit -----------------------------------------------------------------------------------------------

TEST_CASE("a replacement that does not fit is refused before anything changes") {
  const auto sum = [](auto x, auto y) { return (x + y).relu(); };
  CHECK(refused(
      sum, [](auto x) { return x; }, 402, "takes 1 inputs, the pattern 2"));
  CHECK(refused(
      sum,
      [](auto x, auto y) {
        return std::tuple{x - y, x};
      },
      402, "returns 2 values, the pattern 1"));
  CHECK(refused(
      sum, [](auto, auto) { return 3; }, 402, "returns a constant"));
  CHECK(refused(
      sum, [](auto, auto y) { return y; }, 402, "which stands for 2 in a match"));
  CHECK(refused([](auto x, auto) { return x.relu(); }, [](auto x, auto y) { return x + y; }, 402,
                "which the pattern does not"));
  CHECK(refused(
      [](auto x) {
        const auto y = x.relu();
        return std::tuple{y, y};
      },
      [](auto x) {
        return std::tuple{x.tanh(), x.exp()};
      },
      402, "twice"));
  Graph open;
  open.placeholder("x");
  open.placeholder("y");
  CHECK(refused(sum, open, 402, "has no output"));
  CHECK(refused(
      [](auto x, auto y) {
        return std::tuple{x.relu(), y};
      },
      [](auto x, auto) {
        return std::tuple{x.tanh(), x};
      },
      402, "computes nothing with it"));
  CHECK(refused(
      [](auto x) {
        return std::tuple{x.relu(), 3};
      },
      [](auto x) {
        return std::tuple{x.tanh(), x};
      },
      402, "the constant 3"));
  CHECK(refused(itself, relu_of, 403, "computes nothing"));
  CHECK(refused(Graph(), relu_of, 403, "is empty"));
}

TEST_CASE("what filters throw passes through, and the graph is as it was") {
  Graph graph = symbolic_graph([](auto x) { return x.relu(); });
  const std::string before = to_string(graph);
  CHECK_THROWS_AS(
      replace_pattern_with_filters(graph, relu_of, gelu_of, {[](const InternalMatch&) -> bool { throw 3; }}), int);
  CHECK(to_string(graph) == before);
}

// --- size ------------------------------------------------------------------------------------------------------------

TEST_CASE("a long chain is replaced throughout") {
  const std::size_t length = test::repeats(100'000, 20'000);
  Graph graph;
  Node* n = graph.placeholder("x");
  for (std::size_t i = 0; i < length; ++i) n = graph.call_function(i % 2 ? ops::tanh.info() : ops::relu.info(), {n});
  graph.output(n);
  const auto done = replace_pattern(
      graph, [](auto x) { return x.relu().tanh(); }, [](auto x) { return x.exp(); });
  CHECK(done.size() == length / 2);
  CHECK(graph.size() == length / 2 + 2);
  graph.lint();
}
