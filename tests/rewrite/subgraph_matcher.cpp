// Finding a graph within a graph: what counts as a match, and how often.
#include "fxx/rewrite/subgraph_matcher.hpp"

#include <doctest/doctest.h>

#include "fxx/ops/operation.hpp"
#include "fxx/trace/symbolic.hpp"
#include "rewrite/matches.hpp"
#include "support.hpp"

using namespace fxx;
using test::fault_of;
using test::matches;

namespace {
using Options = SubgraphMatcherOptions;

/// By (match_output, match_placeholder): neither, output, placeholders, both.
template <class P, class G>
std::vector<std::size_t> table(P pattern, G graph) {
  std::vector<std::size_t> counts;
  for (const bool placeholders : {false, true})
    for (const bool output : {false, true})
      counts.push_back(matches(pattern, graph, {.match_output = output, .match_placeholder = placeholders}));
  return counts;
}
/// A chain of `length` calls of relu on an input.
Graph chain(std::size_t length) {
  Graph g;
  Node* n = g.placeholder("x");
  for (std::size_t i = 0; i < length; ++i) n = g.call_function(ops::relu, {n});
  g.output(n);
  return g;
}
const auto twice = [](auto x) { return x.relu().relu(); };
}  // namespace

// --- what counts -----------------------------------------------------------------------------------------------------

TEST_CASE("options decide whether inputs and the output have to be those of the graph") {
  using Counts = std::vector<std::size_t>;
  const auto one = [](auto x) { return -x; };
  CHECK(table(one, [](auto x) {
          const auto y = -x;
          return y + y;
        }) == Counts{1, 0, 1, 0});
  CHECK(table(
            [](auto a, auto b) {
              return fxx::cat({a, b}).sum();
            },
            [](auto x, auto u, auto v) {
              const auto first = fxx::cat({u, v}).sum(), second = fxx::cat({v, u}).sum();
              return x + exp(first) + exp(second) + fxx::cat({first, second}).sum();
            }) == Counts{3, 0, 2, 0});
  const auto whole = [](auto x) {
    const auto y = -x;
    return y + y;
  };
  CHECK(table(whole, whole) == Counts{1, 1, 1, 1});
  const auto diamond = [](auto x) {
    const auto y = x.relu();
    return y.sigmoid() + y.relu();
  };
  CHECK(table(diamond, [=](auto x) { return diamond(-x); }) == Counts{1, 1, 0, 0});
}

TEST_CASE("of matches that share a node only the first counts, unless all are wanted") {
  const Graph pattern = symbolic_graph(twice), graph = chain(4);
  CHECK(matches(pattern, graph) == 2);
  const auto apart = SubgraphMatcher(pattern).match(graph);
  CHECK(apart[0].anchors[0]->name() == "relu_1");
  CHECK(apart[1].anchors[0]->name() == "relu_3");
  CHECK(matches(pattern, graph, {.remove_overlapping_matches = false}) == 3);
  CHECK(matches(pattern, chain(5), {.remove_overlapping_matches = false}) == 4);
}

TEST_CASE("what the graph does not have is found zero times") {
  CHECK(matches([](auto x) { return x.sigmoid().tanh(); }, [](auto x) { return x.relu(); }) == 0);
  CHECK(matches(twice, [](auto x) { return x; }) == 0);
  CHECK(matches(symbolic_graph(twice), Graph()) == 0);
  CHECK(matches(chain(50), chain(49)) == 0);
  CHECK(matches(chain(50), chain(50)) == 1);
}

TEST_CASE("nodes inside have no users outside; what is returned may have them") {
  const auto graph = [](auto x) {
    const auto y = x.sigmoid();
    return std::tuple{y.tanh(), y};
  };
  CHECK(matches([](auto x) { return x.sigmoid().tanh(); }, graph) == 0);
  CHECK(matches(
            [](auto x) {
              const auto y = x.sigmoid();
              return std::tuple{y.tanh(), y};
            },
            graph) == 1);
  CHECK(matches([](auto x) { return x.sigmoid(); }, graph) == 1);
  CHECK(matches([](auto x) { return x.sigmoid().tanh(); }, [](auto x) {  // in a list too
          const auto y = x.sigmoid();
          return fxx::cat({y.tanh(), y});
        }) == 0);
}

TEST_CASE("an attribute may have users outside: reading it computes nothing") {
  Graph g;
  Node *x = g.placeholder("x"), *w = g.get_attr("w");
  Node* first = g.call_function(ops::mul_Tensor, {x, w});
  g.output(Argument::list({first, g.call_function(ops::mul_Tensor, {first, w})}));
  Graph p;
  p.output(p.call_function(ops::mul_Tensor, {p.placeholder("a"), p.get_attr("scale")}));
  const auto found = SubgraphMatcher(p).match(g);
  REQUIRE(found.size() == 2);
  CHECK(found[0].nodes_map.node("scale") == w);
  CHECK(found[1].nodes_map.node("scale") == w);
  CHECK(found[1].nodes().size() == 1);
}

// --- several results -------------------------------------------------------------------------------------------------

TEST_CASE("a pattern with several results is found by all of them") {
  const auto pattern = [](auto x) {
    const auto y = x.relu();
    return std::tuple{y.tanh(), y.sigmoid()};
  };
  CHECK(matches(pattern, [](auto x) {
          const auto y = x.relu();
          return y.tanh() + y.sigmoid();
        }) == 1);
  CHECK(matches(pattern, [](auto x) { return x.relu().tanh() + x.relu().sigmoid(); }) == 0);
  const Graph p = symbolic_graph(pattern);
  CHECK(SubgraphMatcher(p).pattern_anchors().size() == 2);
}

TEST_CASE("a horizontal pattern is found among the users of what its parts share") {
  const auto pattern = [](auto x, auto w, auto v) { return std::tuple{matmul(x, w), matmul(x, v)}; };
  const auto graph = [](auto x, auto w, auto v) {
    const auto other = matmul(x.relu(), w), first = matmul(x, w), second = matmul(x, v);
    return other + first + second;
  };
  const Graph p = symbolic_graph(pattern), g = symbolic_graph(graph);
  const auto found = SubgraphMatcher(p).match(g);
  REQUIRE(found.size() == 1);
  CHECK(found[0].anchors[0]->name() == "matmul_1");
  CHECK(found[0].anchors[1]->name() == "matmul_2");
}

TEST_CASE("parts that share nothing are tried in turn, and what failed is undone") {
  // The first tanh fits no partner: its argument is not what sigmoid has.
  const auto pattern = [](auto x, auto y) { return std::tuple{(x * y).sigmoid(), (y * 2).tanh()}; };
  const Graph p = symbolic_graph(pattern);
  const Graph g = symbolic_graph([](auto a, auto b, auto c) {
    return std::tuple{(c * 2).tanh(), (b * 2).tanh(), (a * b).sigmoid()};
  });
  const auto found = SubgraphMatcher(p).match(g);
  REQUIRE(found.size() == 1);
  CHECK(found[0].anchors[1] == g.output_node()->arg(0).items()[1].node());
  const auto apart = [](auto x, auto y) { return std::tuple{x.sigmoid(), y.tanh()}; };
  CHECK(matches(apart, [](auto x) { return std::tuple{x.sigmoid(), x.sigmoid()}; }) == 0);
  const auto two_each = [](auto x) { return std::tuple{x.sigmoid(), x.sigmoid(), x.tanh(), x.tanh()}; };
  CHECK(matches(apart, two_each) == 2);
  CHECK(matches(apart, two_each, {.remove_overlapping_matches = false}) == 4);
}

TEST_CASE("no match from which a path leads out and back") {
  const auto pattern = [](auto x, auto y) { return std::tuple{x.sigmoid(), y.tanh()}; };
  CHECK(matches(pattern, [](auto x) { return x.sigmoid().exp().tanh(); }) == 0);
  CHECK(matches(pattern, [](auto x) { return x.tanh().exp().sigmoid(); }) == 0);
  CHECK(matches(pattern, [](auto x, auto y) {  // beside each other, with users in between
          const auto first = x.sigmoid().exp();
          return first + y.exp().tanh();
        }) == 1);
}

TEST_CASE("names that the pattern returns last are those of the match") {
  const Graph p = symbolic_graph([](auto x, auto y) {
    const auto product = matmul(x, y), sum = product + 1;
    return std::tuple{sum, std::map<std::string, Proxy>{{"product", product}, {"x", x}}};
  });
  const Graph g = symbolic_graph([](auto a, auto b) { return (matmul(a.relu(), b) + 1).tanh(); });
  const SubgraphMatcherWithNameNodeMap matcher(p);
  CHECK(matcher.pattern_returning_nodes().size() == 1);
  const auto found = matcher.match(g);
  REQUIRE(found.size() == 1);
  CHECK(found[0].name_node_map.at("product").node()->name() == "matmul");
  CHECK(found[0].name_node_map.at("x").node()->name() == "relu");
  CHECK(found[0].returning_nodes.size() == 1);
  CHECK(found[0].returning_nodes[0]->name() == "add");
}

TEST_CASE("a match that is declined hides no other") {
  const Graph p = symbolic_graph(twice), g = chain(4);
  const SubgraphMatcher matcher(p);
  const auto found = matcher.match(g, [](const InternalMatch& m) { return m.anchors[0]->name() != "relu_1"; });
  REQUIRE(found.size() == 1);
  CHECK(found[0].anchors[0]->name() == "relu_2");
  CHECK(matcher.match(g, [](const InternalMatch&) { return false; }).empty());
}

// --- memory ----------------------------------------------------------------------------------------------------------

TEST_CASE("a pattern is not found across a write that others can see") {
  const auto silu = [](auto x) { return x.sigmoid() * x; };
  CHECK(matches(silu, [](auto x) {
          const auto s = x.sigmoid();
          x.add_(1);
          return s * x;
        }) == 0);
  CHECK(matches(silu, [](auto x) {
          const auto s = x.sigmoid();
          x[0] = 1;
          return s * x;
        }) == 0);
  CHECK(matches(silu, [](auto x) {
          x.add_(1);
          return x.sigmoid() * x;
        }) == 1);
  CHECK(matches(silu, [](auto x) {  // to a temporary
          const auto s = x.sigmoid(), t = x.add(1).relu_();
          return s * x + t;
        }) == 1);
}

TEST_CASE("a write that others can see is part of no match, one to a temporary is") {
  CHECK(matches([](auto x) { return x.relu_(); }, [](auto x) { return x.relu_(); }) == 0);
  CHECK(matches([](auto x) { return x.relu_(); }, [](auto x) { return (x + 1).relu_(); }) == 1);
  CHECK(matches([](auto x) { return x.relu(); }, [](auto x) { return x.relu_(); }) == 0);
}

TEST_CASE("a call that nobody knows can be replaced where it stands, and not across what reads beside it") {
  const auto calling = [](auto&& beside) {
    Graph g;
    Node *x = g.placeholder("x"), *y = g.call_function(ops::relu, {x});
    Node* z = g.call_module("unknown", {y});
    Node* other = beside(g, x);
    g.output(Argument::list({g.call_function(ops::tanh, {z}), other}));
    return g;
  };
  Graph p;
  p.output(p.call_function(ops::tanh, {p.call_module("unknown", {p.placeholder("x")})}));
  CHECK(matches(p, calling([](Graph&, Node* x) { return x; })) == 1);
  CHECK(matches(p, calling([](Graph& g, Node* x) { return g.call_function(ops::exp, {x}); })) == 0);
  CHECK(matches(p, calling([](Graph& g, Node* x) { return g.call_module("other", {x}); })) == 0);
  CHECK(matches(p, calling([](Graph& g, Node*) { return g.call_function(ops::arange, {4}); })) == 1);
}

// --- what is no pattern ----------------------------------------------------------------------------------------------

TEST_CASE("a graph that cannot be searched for is refused, with the reason") {
  const auto refused = [](const Graph& pattern, std::string_view words) {
    const auto fault = fault_of<RuleError>([&] { SubgraphMatcher matcher(pattern); });
    CAPTURE(fault.text);
    return fault.id == 403 && fault.says(words);
  };
  CHECK(refused(Graph(), "is empty"));
  Graph open;
  open.call_function(ops::relu, {open.placeholder("x")});
  CHECK(refused(open, "has no output"));
  CHECK(refused(symbolic_graph([](auto x) { return x; }), "computes nothing"));
  CHECK(refused(symbolic_graph([](auto x, auto y) { return std::tuple{y, x}; }), "computes nothing"));
  CHECK(refused(symbolic_graph([](auto) { return 3; }), "computes nothing"));
  CHECK(refused(symbolic_graph([](auto x) {
                  x.tanh();
                  return x.relu();
                }),
                "do not depend on"));
  CHECK(refused(symbolic_graph([](auto x) {
                  x.add_(1);
                  return x.relu();
                }),
                "do not depend on"));
  const auto fault = fault_of<RuleError>([&] {
    const Graph g = symbolic_graph([](auto x) { return x.relu(); });
    SubgraphMatcherWithNameNodeMap matcher(g);
  });
  CHECK(fault.id == 403);
  CHECK(fault.says("no map of names"));
}

// --- why not ---------------------------------------------------------------------------------------------------------

TEST_CASE("explain names what failed after most of the pattern had matched") {
  const auto why = [](auto pattern, auto graph, Options options = {}) {
    const Graph p = symbolic_graph(pattern);
    Graph g = symbolic_graph(graph);
    return explain(SubgraphMatcher(p, options), g.output_node()->prev());
  };
  const auto plus_one = [](auto x) { return (x + 1).relu(); };
  CHECK(why(plus_one, [](auto x) { return (x + 2).relu(); }) ==
        "the pattern does not match at %relu: argument 'other' of %add is 2; the pattern wants 1");
  CHECK(why(plus_one, [](auto x) { return (x + 1).relu(); }).empty());
  CHECK(why(plus_one, [](auto x) { return (x + 2).relu(); }, {.ignore_literals = true}).empty());
  CHECK(why(plus_one, [](auto x) { return x.relu(); }) ==
        "the pattern does not match at %relu: argument 'self' of %relu is %x, an input; the pattern wants a call of "
        "aten::add.Scalar");
  CHECK(why(plus_one, [](auto x) { return (x + 1).tanh(); }) ==
        "the pattern does not match at %tanh: %tanh = aten::tanh; the pattern wants a call of aten::relu");
  const auto gate = [](auto x) { return x * x.sigmoid(); };
  CHECK(why(gate, [](auto x) { return x * x.exp().sigmoid(); }) ==
        "the pattern does not match at %mul: 'x' of the pattern is %x, an input in one place and %exp = aten::exp in "
        "another");
  CHECK(why(gate, [](auto x) { return x * x.tanh(); }) ==
        "the pattern does not match at %mul: argument 'other' of %mul is %tanh = aten::tanh; the pattern wants a call "
        "of aten::sigmoid");
  CHECK(why(gate,
            [](auto x) {
              const auto s = x.sigmoid();
              s.exp();
              return x * s;
            }) ==
        "the pattern does not match at %mul: %sigmoid is used by %exp too, which is not in the match; only what the "
        "pattern returns may be");
  CHECK(why(gate, [](auto x) {
          const auto s = x.sigmoid();
          x.add_(1);
          return x * s;
        }).find("memory is written to") != std::string::npos);
  CHECK(why(
            [](auto x, auto y) {
              return fxx::cat({x, y});
            },
            [](auto x) {
              return fxx::cat({x, x, x});
            }) == "the pattern does not match at %cat: argument 'tensors' of %cat has 3 items; the pattern wants 2");
  CHECK(why(
            [](auto x, auto y) {
              return std::tuple{x.sigmoid(), y.tanh()};
            },
            [](auto x) { return x.sigmoid(); }) ==
        "the pattern does not match at %sigmoid: nothing matches another result of the pattern, 'tanh'");
}

// --- size ------------------------------------------------------------------------------------------------------------

TEST_CASE("long chains are searched, for short patterns and for one as long") {
  const std::size_t length = test::repeats(100'000, 20'000);
  const Graph graph = chain(length);
  CHECK(matches(symbolic_graph(twice), graph) == length / 2);
  CHECK(matches(graph, graph) == 1);
  CHECK(matches(graph, graph, {.match_output = true, .match_placeholder = true}) == 1);
  CHECK(matches(chain(length + 1), graph) == 0);
}

TEST_CASE("parts that share nothing are found throughout a long graph") {
  Graph g;
  Node* x = g.placeholder("x");
  std::vector<Argument> results;
  const std::size_t pairs = test::repeats(20'000, 4'000);
  for (std::size_t i = 0; i < pairs; ++i) {
    results.push_back(g.call_function(ops::sigmoid, {x}));
    results.push_back(g.call_function(ops::tanh, {x}));
  }
  g.output(Argument::list(results));
  CHECK(matches(symbolic_graph([](auto x, auto y) { return std::tuple{x.sigmoid(), y.tanh()}; }), g) == pairs);
}

TEST_CASE("orders that all fail are given up after so many") {
  // Twenty sums that could each be read in two orders, with a difference at the very end.
  const auto tree = [](bool differs) {
    Graph g;
    std::vector<Node*> nodes;
    for (int i = 0; i < 32; ++i) {
      Node* x = g.placeholder("x" + std::to_string(i));
      nodes.push_back(g.call_function(ops::relu, {g.call_function(ops::mul_Scalar, {x, differs && i == 31 ? 3 : 2})}));
    }
    while (nodes.size() > 1) {
      std::vector<Node*> sums;
      for (std::size_t i = 0; i < nodes.size(); i += 2)
        sums.push_back(g.call_function(ops::relu, {g.call_function(ops::add_Tensor, {nodes[i], nodes[i + 1]})}));
      nodes = sums;
    }
    g.output(nodes[0]);
    return g;
  };
  CHECK(matches(tree(false), tree(false)) == 1);
  CHECK(matches(tree(false), tree(true)) == 0);
}
