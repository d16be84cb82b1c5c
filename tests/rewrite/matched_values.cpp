// Finding a graph within a graph: which calls, arguments and orders count as the same.
#include <doctest/doctest.h>

#include "fxx/ir/parse.hpp"
#include "fxx/ir/print.hpp"
#include "fxx/ops/operation.hpp"
#include "fxx/ops/registry.hpp"
#include "graph_text.hpp"
#include "listed_owner.hpp"
#include "rewrite/matches.hpp"
#include "support.hpp"

using namespace fxx;
using test::fault_of;
using test::matches;

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
