// Finding a graph within a graph: what matches, what does not, and how often.
#include "fxx/rewrite/subgraph_matcher.hpp"

#include <doctest/doctest.h>

#include "fxx/ir/parse.hpp"
#include "fxx/ir/print.hpp"
#include "fxx/ops/operation.hpp"
#include "fxx/ops/registry.hpp"
#include "fxx/trace/symbolic.hpp"
#include "graph_text.hpp"
#include "listed_owner.hpp"
#include "support.hpp"

using namespace fxx;
using test::fault_of;

namespace {
using Options = SubgraphMatcherOptions;

std::size_t matches(const Graph& pattern, const Graph& graph, Options options = {}) {
  return SubgraphMatcher(pattern, options).match(graph).size();
}
template <class P, class G>
std::size_t matches(P pattern, G graph, Options options = {}) {
  return matches(symbolic_graph(pattern), symbolic_graph(graph), options);
}
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

// --- nodes that compute the same -------------------------------------------------------------------------------------

TEST_CASE("function, method, position, keyword and defaults are spellings of one call") {
  Graph g;
  Node *x = g.placeholder("x"), *b = g.placeholder("b"), *w = g.placeholder("w");
  std::vector<Node*> calls = {
      g.call_function(ops::addmm, {b, x, w}),
      g.call_function(ops::addmm, {b, x, w}, {{"beta", 1}, {"alpha", 1.0}}),
      g.call_function(ops::addmm, {}, {{"mat2", w}, {"mat1", x}, {"self", b}}),
      g.call_method("addmm", {b, x, w}),
      g.call_method("addmm", {b, x}, {{"mat2", w}, {"alpha", 1}}),
  };
  g.output(Argument::list({calls.begin(), calls.end()}));
  for (const Node* call : calls) {
    Graph p;
    std::map<const Node*, Argument> copies;
    for (const Node* input : {b, x, w}) copies[input] = p.placeholder(input->target());
    p.output(p.node_copy(*call, [&](Node* input) { return copies.at(input); }));
    CAPTURE(test::text_of(*call));
    const auto found = SubgraphMatcher(p).match(g);
    REQUIRE(found.size() == calls.size());
    for (const InternalMatch& match : found) CHECK(match.placeholder_nodes == std::vector<Argument>{b, x, w});
  }
}

TEST_CASE("what was left out is what the schema says, also for an input of the pattern") {
  Graph p;
  Node *b = p.placeholder("b"), *x = p.placeholder("x"), *w = p.placeholder("w"), *beta = p.placeholder("beta"),
       *alpha = p.placeholder("alpha");
  p.output(p.call_function(ops::addmm, {b, x, w}, {{"beta", beta}, {"alpha", alpha}}));
  const auto found_in = [&](std::vector<KeywordArgument> kwargs) {
    Graph g;
    std::vector<Argument> args = {g.placeholder("b"), g.placeholder("x"), g.placeholder("w")};
    g.output(g.call_function(ops::addmm, args, kwargs));
    const auto found = SubgraphMatcher(p).match(g);
    REQUIRE(found.size() == 1);
    return to_string(found[0].nodes_map[beta]) + " " + to_string(found[0].nodes_map[alpha]);
  };
  CHECK(found_in({}) == "1 1");
  CHECK(found_in({{"beta", 2}}) == "2 1");
  CHECK(found_in({{"beta", 2}, {"alpha", 0.5}}) == "2 0.5");
  // Written out in the pattern, left out in the graph, and the other way round.
  CHECK(matches([](auto x) { return x.flatten(0, -1); }, [](auto x) { return x.flatten(); }) == 1);
  CHECK(matches([](auto x) { return x.flatten(); }, [](auto x) { return x.flatten(0); }) == 1);
  CHECK(matches([](auto x) { return x.flatten(); }, [](auto x) { return x.flatten(1); }) == 0);
  CHECK(matches([](auto x) { return x.clamp(0); }, [](auto x) { return x.clamp(0, std::nullopt); }) == 1);
  CHECK(matches([](auto x) { return x.clamp(0); }, [](auto x) { return x.clamp(0, 1); }) == 0);
}

TEST_CASE("the overload follows from what the arguments are") {
  const auto product = [](auto x, auto y) { return x * y; };
  CHECK(matches(product, [](auto x) { return x * 2; }) == 1);
  CHECK(matches(product, [](auto x) { return x.mul(2.5); }) == 1);
  Graph g;
  g.output(g.call_function(ops::mul_Tensor, {g.placeholder("x"), 2}));  // as torch.fx writes it
  CHECK(matches(symbolic_graph(product), g) == 1);
  CHECK(matches(symbolic_graph([](auto x) { return x * 2; }), g) == 1);
  CHECK(matches(symbolic_graph([](auto x) { return x * 3; }), g) == 0);
  CHECK(matches(g, symbolic_graph([](auto x) { return x.mul(2); })) == 1);
  CHECK(matches(product, [](auto x) { return x / 2; }) == 0);
  CHECK(matches([](auto x, auto y) { return x.pow(y); }, [](auto x) { return x.pow(2); }) == 1);
  // `max` of one tensor, of two, along a dimension: other parameters, other operators.
  CHECK(matches([](auto x) { return x.max(); }, [](auto x, auto y) { return x.max(y); }) == 0);
}

TEST_CASE("wrapped functions and unknown methods match by their names and arguments") {
  const UserFunction &f = register_function("tests::subgraph::f"), &other = register_function("tests::subgraph::g");
  const auto calling = [](const UserFunction& function, Argument number) {
    Graph g;
    g.output(g.call_function(function, {g.placeholder("x"), number}));
    return g;
  };
  CHECK(matches(calling(f, 2), calling(f, 2)) == 1);
  CHECK(matches(calling(f, 2), calling(f, 3)) == 0);
  CHECK(matches(calling(f, 2), calling(other, 2)) == 0);
  const auto method = [](const char* name, std::vector<KeywordArgument> kwargs) {
    Graph g;
    g.output(g.call_method(name, {g.placeholder("x")}, kwargs));
    return g;
  };
  CHECK(matches(method("lookup", {{"a", 1}, {"b", 2}}), method("lookup", {{"b", 2}, {"a", 1}})) == 1);
  CHECK(matches(method("lookup", {{"a", 1}}), method("lookup", {{"a", 1}, {"b", 2}})) == 0);
  CHECK(matches(method("lookup", {}), method("find", {})) == 0);
}

TEST_CASE("modules match by what they are, or by name where nobody knows that") {
  const auto calling = [](const char* name, const Owner* owner) {
    Graph g;
    g.output(g.call_module(name, {g.placeholder("x")}));
    g.set_owning_module(owner);
    return g;
  };
  CHECK(matches(calling("fc", nullptr), calling("fc", nullptr)) == 1);
  CHECK(matches(calling("fc", nullptr), calling("fc2", nullptr)) == 0);
  test::ListedOwner owner;
  owner.add(ModuleInfo{.name = "fc", .type = "Table", .construct = "4, 4"});
  owner.add(ModuleInfo{.name = "same", .type = "Table", .construct = "4, 4"});
  owner.add(ModuleInfo{.name = "wide", .type = "Table", .construct = "4, 8"});
  owner.add(ModuleInfo{.name = "other", .type = "List", .construct = "4, 4"});
  CHECK(matches(calling("fc", &owner), calling("same", &owner)) == 1);
  CHECK(matches(calling("fc", &owner), calling("wide", &owner)) == 0);
  CHECK(matches(calling("fc", &owner), calling("other", &owner)) == 0);
}

TEST_CASE("any attribute matches any, whatever it is called") {
  const auto reading = [](const char* name) {
    Graph g;
    g.output(g.call_function(ops::add_Tensor, {g.placeholder("x"), g.get_attr(name)}));
    return g;
  };
  CHECK(matches(reading("w"), reading("encoder.bias")) == 1);
  // An attribute in the pattern is no input of the graph.
  CHECK(matches(reading("w"), symbolic_graph([](auto x, auto y) { return x + y; })) == 0);
  CHECK(matches(symbolic_graph([](auto x, auto y) { return x + y; }), reading("w")) == 1);
}

TEST_CASE("an attribute matches any tensor, whatever its shape and dtype, parameter or buffer, but no module") {
  const auto owning = [](AttributeInfo::Kind kind, std::vector<std::int64_t> shape, Dtype dtype) {
    test::ListedOwner owner;
    owner.add(AttributeInfo{.name = "w", .kind = kind, .meta = {.shape = shape, .stride = {}, .dtype = dtype}});
    return owner;
  };
  const auto reading = [](const Owner& owner) {
    Graph g;
    g.set_owning_module(&owner);
    g.output(g.call_function(ops::linear, {g.placeholder("x"), g.get_attr("w")}));
    return g;
  };
  using Kind = AttributeInfo::Kind;
  const test::ListedOwner narrow = owning(Kind::parameter, {2, 3}, Dtype::float32),
                          wide = owning(Kind::parameter, {64, 128}, Dtype::float32),
                          other = owning(Kind::buffer, {1}, Dtype::float64),
                          none({}, {"w"});  // a module of that name, no tensor
  const Graph pattern = reading(narrow);
  CHECK(matches(pattern, reading(narrow)) == 1);
  CHECK(matches(pattern, reading(wide)) == 1);
  CHECK(matches(pattern, reading(other)) == 1);
  CHECK(matches(reading(other), reading(wide)) == 1);
  CHECK(matches(pattern, reading(none)) == 0);
}

TEST_CASE("a pattern can be kept as text: what is read back finds the same") {
  const Graph pattern = symbolic_graph([](auto x, auto y) { return (x * y).relu().add(x, 2); });
  const Graph read = parse_graph(to_string(pattern), registered_targets());
  const Graph graph = symbolic_graph([](auto x, auto y) { return (x.exp() * y).relu().add(x.exp(), 2).sin(); });
  const Graph same = symbolic_graph([](auto x, auto y) {
    auto e = x.exp();
    return (e * y).relu().add(e, 2).sin();
  });
  CHECK(to_string(read) == to_string(pattern));
  for (const Graph* p : {&pattern, &read}) {
    CHECK(matches(*p, graph) == 0);
    CHECK(matches(*p, same) == 1);
  }
}

// --- literals and inputs ---------------------------------------------------------------------------------------------

TEST_CASE("literals are equal by value, unless they are ignored") {
  const auto by = [](auto number) { return [=](auto x) { return x + number; }; };
  CHECK(matches(by(2), by(2)) == 1);
  CHECK(matches(by(2), by(2.0)) == 1);
  CHECK(matches(by(2), by(3)) == 0);
  CHECK(matches(by(2), by(3), {.ignore_literals = true}) == 1);
  const auto view = [](std::vector<std::int64_t> sizes) { return [=](auto x) { return x.view(sizes); }; };
  CHECK(matches(view({2, -1}), view({2, -1})) == 1);
  CHECK(matches(view({2, -1}), view({-1})) == 0);
  CHECK(matches(view({2, -1}), view({-1}), {.ignore_literals = true}) == 1);
  // Ignored are literals, not values.
  CHECK(matches(by(2), [](auto x, auto y) { return x + y; }, {.ignore_literals = true}) == 0);
  CHECK(matches([](auto x, auto y) { return x.sigmoid() + y.tanh(); }, [](auto x) { return x.sigmoid() + 2; },
                {.ignore_literals = true}) == 0);
}

TEST_CASE("one number is a list of it where the schema says so") {
  Graph p, g, h;
  p.output(p.call_function(ops::max_pool2d, {p.placeholder("x"), 2, 2}));
  g.output(g.call_function(ops::max_pool2d, {g.placeholder("x"), Argument::list({2, 2}), Argument::list({2})}));
  h.output(h.call_function(ops::max_pool2d, {h.placeholder("x"), Argument::list({2, 3}), 2}));
  CHECK(matches(p, g) == 1);
  CHECK(matches(g, p) == 1);
  CHECK(matches(p, h) == 0);
}

TEST_CASE("an input of the pattern matches anything: nodes, literals, lists, literals in lists") {
  Graph p;
  Node *x = p.placeholder("x"), *a = p.placeholder("a"), *b = p.placeholder("b");
  p.output(p.call_method("view", {x, Argument::list({a, b})}));
  Graph g;
  Node *y = g.placeholder("y"), *n = g.call_method("size", {y, 0});
  g.output(g.call_method("view", {y, Argument::list({n, -1})}));
  auto found = SubgraphMatcher(p).match(g);
  REQUIRE(found.size() == 1);
  CHECK(found[0].placeholder_nodes == std::vector<Argument>{y, n, -1});
  Graph whole;
  whole.output(whole.call_method("view", {whole.placeholder("x"), whole.placeholder("sizes")}));
  found = SubgraphMatcher(whole).match(g);
  REQUIRE(found.size() == 1);
  CHECK(found[0].nodes_map["sizes"] == Argument::list({n, -1}));
  CHECK(matches(symbolic_graph([](auto x, auto low, auto high) { return x.clamp(low, high); }),
                symbolic_graph([](auto x) { return x.clamp(0, 6); })) == 1);
}

TEST_CASE("nodes inside lists, slices and dictionaries are matched too") {
  CHECK(matches(
            [](auto x, auto y) {
              return fxx::cat({x.relu(), y.tanh()}, 1);
            },
            [](auto x) {
              return fxx::cat({x.relu(), x.tanh()}, 1).sum();
            }) == 1);
  CHECK(matches(
            [](auto x, auto y) {
              return fxx::cat({x.relu(), y.tanh()}, 1);
            },
            [](auto x) {
              return fxx::cat({x.tanh(), x.relu()}, 1);
            }) == 0);
  CHECK(matches(
            [](auto x, auto y) {
              return fxx::cat({x, y});
            },
            [](auto x, auto y, auto z) {
              return fxx::cat({x, y, z});
            }) == 0);
  const auto slicing = [](auto make) {
    Graph g;
    Node *x = g.placeholder("x"), *n = g.call_method("size", {x, 0});
    g.output(g.call_function(ops::operator_getitem, {x, make(n)}));
    return g;
  };
  const auto up_to = [](Node* n) { return Argument(Slice{{}, n, {}}); };
  CHECK(matches(slicing(up_to), slicing(up_to)) == 1);
  CHECK(matches(slicing(up_to), slicing([](Node* n) { return Argument(Slice{n, {}, {}}); })) == 0);
  const UserFunction& f = register_function("tests::subgraph::f");
  const auto named = [&](const char* key) {
    Graph g;
    Node* x = g.placeholder("x");
    g.output(g.call_function(f, {Argument::dict({{key, g.call_function(ops::relu, {x})}})}));
    return g;
  };
  CHECK(matches(named("a"), named("a")) == 1);
  CHECK(matches(named("a"), named("b")) == 0);
}

TEST_CASE("an input that is used twice binds one value") {
  const auto square = [](auto x) { return x * x; };
  CHECK(matches(square, [](auto x) { return x * x; }) == 1);
  CHECK(matches(square, [](auto x, auto y) { return x * y; }) == 0);
  const auto twice_by = [](auto x, auto s) { return (x * s).exp() * s; };
  CHECK(matches(twice_by, [](auto x) { return (x * 2).exp() * 2; }) == 1);
  CHECK(matches(twice_by, [](auto x) { return (x * 2).exp() * 3; }) == 0);
  // Two inputs may be one value; an attribute that is read twice is one.
  CHECK(matches([](auto x, auto y) { return x - y; }, [](auto x) { return x - x; }) == 1);
  Graph g;
  g.output(g.call_function(ops::mul_Tensor, {g.get_attr("w"), g.get_attr("w")}));
  CHECK(matches(symbolic_graph(square), g) == 1);
  Graph h;
  h.output(h.call_function(ops::mul_Tensor, {h.get_attr("w"), h.get_attr("v")}));
  CHECK(matches(symbolic_graph(square), h) == 0);
}

TEST_CASE("an input of the pattern is never one of the nodes that are matched") {
  // Otherwise what takes their place would need itself.
  CHECK(matches([](auto x, auto y) { return x.relu() + y; },
                [](auto x) {
                  const auto y = x.relu();
                  return y + y;
                }) == 0);
}

TEST_CASE("an input that the pattern does not use stands for nothing") {
  const Graph p = symbolic_graph([](auto x, auto) { return x.relu(); });
  const Graph g = symbolic_graph([](auto x) { return x.relu(); });
  const auto found = SubgraphMatcher(p).match(g);
  REQUIRE(found.size() == 1);
  REQUIRE(found[0].placeholder_nodes.size() == 2);
  CHECK(found[0].placeholder_nodes[1].is_none());
  CHECK(found[0].nodes_map.size() == 2);
  CHECK(found[0].nodes_map.find("arg1") == nullptr);
  CHECK(fault_of([&] { (void)found[0].nodes_map["arg1"]; }).id == 101);
  CHECK(fault_of([&] { (void)found[0].nodes_map[p.nodes().back()]; }).id == 101);
}

// --- orders ----------------------------------------------------------------------------------------------------------

TEST_CASE("arguments of a commutative operator match in either order") {
  const auto silu = [](auto x) { return x.sigmoid() * x; };
  CHECK(matches(silu, [](auto x) { return x * x.sigmoid(); }) == 1);
  CHECK(matches(silu, [](auto x, auto y) { return y * x.sigmoid(); }) == 0);
  CHECK(matches([](auto x, auto y) { return x.relu() - y; }, [](auto x, auto y) { return y - x.relu(); }) == 0);
  // A choice that only shows to be wrong further up: both products could be the first.
  const auto sum = [](auto a, auto b) { return (a.tanh() * b) + (a.sigmoid() * b).exp(); };
  CHECK(matches(sum, [](auto a, auto b) { return (b * a.sigmoid()).exp() + b * a.tanh(); }) == 1);
  const auto deep = [](auto x, auto y) { return x.relu() * y.relu() + x; };
  CHECK(matches(deep, [](auto x, auto y) { return y + x.relu() * y.relu(); }) == 1);
  CHECK(matches(deep, [](auto x, auto y) { return x + x.relu() * y.relu(); }) == 1);
  CHECK(matches(deep, [](auto x, auto y, auto z) { return z + x.relu() * y.relu(); }) == 0);
}

TEST_CASE("a factor belongs to one of the two, so that the order counts") {
  Graph p;
  Node *x = p.placeholder("x"), *y = p.placeholder("y");
  p.output(p.call_function(ops::add_Tensor, {p.call_function(ops::relu, {x}), y}, {{"alpha", 2}}));
  CHECK(matches(p, symbolic_graph([](auto x, auto y) { return x.relu().add(y, 2); })) == 1);
  CHECK(matches(p, symbolic_graph([](auto x, auto y) { return y.add(x.relu(), 2); })) == 0);
}

TEST_CASE("a match with overlaps is found once, in whichever order") {
  CHECK(matches([](auto x, auto y) { return x.relu() * y.relu(); }, [](auto x, auto y) { return y.relu() * x.relu(); },
                {.remove_overlapping_matches = false}) == 1);
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
