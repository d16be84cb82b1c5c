// Run-time replacement by degrees: filters, callbacks, and one match alone.
#include <doctest/doctest.h>

#include "fxx/ops/operation.hpp"
#include "fxx/rewrite/replace_pattern.hpp"
#include "graph_text.hpp"
#include "support.hpp"

using namespace fxx;
using test::body_of;
using test::fault_of;

namespace {
const auto relu_of = [](auto x) { return x.relu(); };
const auto gelu_of = [](auto x) { return gelu(x); };
}  // namespace

// --- filters and callbacks -------------------------------------------------------------------------------------------

TEST_CASE("filters decide; what took the place is told, in the order of the graph") {
  const auto function = [](auto x, auto y) { return (x + y).relu() + (x.exp() + 2).relu(); };
  const auto pattern = [](auto a, auto b) { return (a + b).relu(); };
  const auto replacement = [](auto a, auto b) { return gelu(a.sub(b)); };
  Graph graph = symbolic_graph(function);
  CHECK(replace_pattern_with_filters(graph, pattern, replacement).size() == 2);

  graph = symbolic_graph(function);
  const auto second_is_number = [](const InternalMatch& match, const Graph&, const Graph& pattern) {
    for (const Node* node : pattern.nodes())
      if (node->calls(ops::add_Tensor)) return match.nodes_map[node->arg(1).node()].is_number();
    return false;
  };
  const auto by_name = [](const InternalMatch& match) { return match.nodes_map["arg1"] == Argument(2); };
  const auto done = replace_pattern_with_filters(graph, pattern, replacement, {second_is_number, by_name});
  graph.lint();
  REQUIRE(done.size() == 1);
  REQUIRE(done[0].replacements.size() == 2);
  CHECK(done[0].replacements[0]->target() == "sub");
  CHECK(done[0].replacements[1]->calls(ops::gelu));
  CHECK(done[0].replacements[0]->next() == done[0].replacements[1]);
  CHECK(done[0].nodes_map["arg0"].node()->target() == "exp");
  CHECK(done[0].anchor->is_erased());
  CHECK(done[0].anchor->target() == "relu");

  graph = symbolic_graph(function);
  CHECK(replace_pattern_with_filters(graph, pattern, replacement,
                                     {[](const InternalMatch&) { return false; }, second_is_number})
            .empty());
}

TEST_CASE("literals can be ignored") {
  Graph graph = symbolic_graph([](auto x) { return x + 1; }, {"x"});
  const auto pattern = [](auto x) { return x + 2; };
  CHECK(replace_pattern_with_filters(graph, pattern, relu_of).empty());
  CHECK(replace_pattern_with_filters(graph, pattern, relu_of, {}, true).size() == 1);
  CHECK(body_of(graph) == "relu = .relu(%x)\nreturn %relu\n");
}

TEST_CASE("a filter may look at shapes: only what fits is fused") {
  // mm + bias is addmm where the bias has a row's or the product's shape, as a callback for each match.
  const auto pattern = [](auto x, auto w, auto b) { return x.mm(w) + b; };
  const auto fused = [](auto x, auto w, auto b) { return addmm(b, x, w); };
  const auto fits = [](const InternalMatch& match) {
    const Argument& bias = match.nodes_map["arg2"];
    return bias.is_node() && bias.node()->tensor_meta() && bias.node()->tensor_meta()->shape.size() == 1;
  };
  const auto count = [&](std::vector<std::int64_t> shape, bool number) {
    Graph graph;
    Node *x = graph.placeholder("x"), *w = graph.placeholder("w"), *b = graph.placeholder("b");
    TensorMeta meta;
    meta.shape = shape;
    b->set_tensor_meta(meta);
    Node* product = graph.call_function(ops::mm, {x, w});
    Node* first = graph.call_function(ops::add_Tensor, {product, number ? Argument(4) : Argument(b)});
    Node* second = graph.call_function(ops::add_Tensor, {b, graph.call_function(ops::mm, {w, x})});
    graph.output(Argument::list({first, second}));
    return replace_pattern_with_filters(graph, pattern, fused, {fits}).size();
  };
  CHECK(count({8}, false) == 2);
  CHECK(count({8}, true) == 1);
  CHECK(count({4, 1}, false) == 0);
}

TEST_CASE("a callback makes the replacement of each match, before anything is replaced") {
  Graph graph = symbolic_graph([](auto x) { return x.mul(2) + x.mul(3).exp(); }, {"x"});
  std::size_t calls = 0;
  const std::string before = to_string(graph);
  const auto replacement = [&](const InternalMatch& match, const Graph& original, const Graph&) {
    ++calls;
    CHECK(to_string(original) == before);
    const auto times = match.nodes_map["arg1"].integer();
    return symbolic_graph([&](auto x, auto) {
      auto sum = x;
      for (std::int64_t i = 1; i < times; ++i) sum = sum + x;
      return sum;
    });
  };
  CHECK(replace_pattern_with_filters(
            graph, [](auto x, auto n) { return x.mul(n); }, replacement)
            .size() == 2);
  CHECK(calls == 2);
  graph.lint();
  CHECK(graph.find_nodes(Opcode::call_function).size() == 4);
  // One that throws, or does not fit, leaves the graph alone.
  const std::string now = to_string(graph);
  int asked = 0;
  const auto once = [&](const InternalMatch&, const Graph&, const Graph&) -> Graph {
    if (asked++) return symbolic_graph([](auto x) { return x; });
    return symbolic_graph([](auto x, auto y) { return x - y; });
  };
  CHECK(fault_of<RuleError>([&] {
          replace_pattern_with_filters(
              graph, [](auto x, auto y) { return x + y; }, once);
        }).id == 402);
  CHECK(to_string(graph) == now);
}

TEST_CASE("filters and callbacks find nodes by the names that the pattern returns last") {
  const auto pattern = [](auto x, auto y) {
    const auto product = x.mm(y);
    return std::tuple{product.relu(), std::map<std::string, Proxy>{{"product", product}}};
  };
  Graph graph = symbolic_graph([](auto x, auto y) { return x.mm(y).relu() + y.mm(x).relu(); }, {"x", "y"});
  const auto swapped = [](const InternalMatch& match) {
    return match.name_node_map.at("product").node()->arg(0).node()->name() == "y";
  };
  CHECK(replace_pattern_with_filters(graph, pattern, [](auto x, auto y) { return x - y; }, {swapped}).size() == 1);
  graph.lint();
  CHECK(graph.find_nodes(Opcode::call_method, "relu").size() == 1);
}

// --- one match at a time ---------------------------------------------------------------------------------------------

TEST_CASE("one match can be replaced alone, by a graph or by an example, or erased") {
  Graph graph = symbolic_graph([](auto x) { return x.relu() + x.exp().relu(); }, {"x"});
  const Graph pattern = symbolic_graph(relu_of);
  const SubgraphMatcher matcher(pattern);
  const auto done = replace_by_example(graph, matcher, matcher.match(graph).at(1), gelu_of);
  REQUIRE(done);
  CHECK(done->replacements.size() == 1);
  CHECK(
      replace_with_graph(graph, matcher, matcher.match(graph).at(0), symbolic_graph([](auto x) { return x.tanh(); })));
  graph.lint();
  CHECK(matcher.match(graph).empty());

  graph = symbolic_graph(
      [](auto x) {
        x.exp().relu();
        return x.relu();
      },
      {"x"});
  auto found = matcher.match(graph);
  REQUIRE(found.size() == 2);
  CHECK(fault_of<GraphError>([&] { erase_nodes(graph, found[1]); }).id == 102);
  erase_nodes(graph, found[0]);
  graph.lint();
  CHECK(body_of(graph) == "exp = .exp(%x)\nrelu_1 = .relu(%x)\nreturn %relu_1\n");
}
