// rules::merge_linear: linears over one value become one.
#include "fxx/rules/merge_linear.hpp"

#include <doctest/doctest.h>

#include "fxx/ops/rotary_embedding.hpp"
#include "rules/shaped.hpp"

using namespace fxx;
using test::attribute;
using test::fired_on;
using test::rewritten_graph;
using test::shaped;

namespace {
struct Layer {
  const char* name;
  std::int64_t rows = 4;
  bool bias = true;
  Dtype dtype = Dtype::float32;
};
/// Linears of the layers over x.
Argument linears(Graph& g, std::vector<Layer> layers) {
  Node* x = g.placeholder("x");
  std::vector<Argument> results;
  for (const Layer& l : layers) {
    const std::string name = l.name;
    Node* weight = attribute(g, name + ".weight", {l.rows, 8}, l.dtype);
    const Argument bias = l.bias ? attribute(g, name + ".bias", {l.rows}, l.dtype) : Argument();
    results.push_back(g.call_function(ops::linear, {x, weight, bias}));
  }
  return Argument::list(results);
}
std::string fired(std::vector<Layer> layers) {
  return fired_on(rules::merge_linear, [&](Graph& g) { return linears(g, layers); });
}
}  // namespace

TEST_CASE("queries, keys and values are one product, split into as many rows as each had") {
  CHECK(rewritten_graph(rules::merge_linear, [](Graph& g) {
          return linears(g, {{"q", 8}, {"k", 2}, {"v", 2}});
        }) == R"(q_weight = attribute q.weight
q_bias = attribute q.bias
k_weight = attribute k.weight
v_weight = attribute v.weight
cat = aten::cat([%q_weight, %k_weight, %v_weight])
k_bias = attribute k.bias
v_bias = attribute v.bias
cat_1 = aten::cat([%q_bias, %k_bias, %v_bias])
linear_3 = aten::linear(%x, %cat, %cat_1)
split_with_sizes = aten::split_with_sizes(%linear_3, [8, 2, 2], -1)
getitem = operator::getitem(%split_with_sizes, 0)
getitem_1 = operator::getitem(%split_with_sizes, 1)
getitem_2 = operator::getitem(%split_with_sizes, 2)
return [%getitem, %getitem_1, %getitem_2]
)");
}

TEST_CASE("without bias") {
  CHECK(rewritten_graph(rules::merge_linear, [](Graph& g) {
          return linears(g, {{"gate", 4, false}, {"up", 4, false}});
        }) == R"(gate_weight = attribute gate.weight
up_weight = attribute up.weight
cat = aten::cat([%gate_weight, %up_weight])
linear_2 = aten::linear(%x, %cat)
split_with_sizes = aten::split_with_sizes(%linear_2, [4, 4], -1)
getitem = operator::getitem(%split_with_sizes, 0)
getitem_1 = operator::getitem(%split_with_sizes, 1)
return [%getitem, %getitem_1]
)");
}

TEST_CASE("views of a part become reshapes, whatever lies between") {
  const std::string text = rewritten_graph(rules::merge_linear, [](Graph& g) {
    const Argument both = linears(g, {{"a"}, {"b"}});
    Node *a = both.items()[0].node(), *b = both.items()[1].node();
    Node* seen = g.call_method("view", {g.call_function(ops::transpose_int, {a, 0, 1}), Argument::list({-1})});
    Node* copied = g.call_function(ops::view, {g.call_function(ops::relu, {b}), Argument::list({-1})});
    return Argument::list({seen, copied});
  });
  CHECK(text.find("view = aten::reshape(%transpose, [-1])") != std::string::npos);
  CHECK(text.find("view_1 = aten::reshape(%relu, [-1])") != std::string::npos);
  // The size by name.
  CHECK(rewritten_graph(rules::merge_linear, [](Graph& g) {
          const Argument both = linears(g, {{"a"}, {"b"}});
          Node* seen = g.call_function(ops::view, {both.items()[0]}, {{"size", Argument::list({-1})}});
          return Argument::list({seen, both.items()[1]});
        }).find("view = aten::reshape(%getitem, [-1])") != std::string::npos);
}

TEST_CASE("queries and keys that are turned by their places merge with the values") {
  Graph g;
  Node *x = shaped(g.placeholder("x"), {2, 5, 16}), *cos = shaped(g.placeholder("cos"), {5, 4}),
       *sin = shaped(g.placeholder("sin"), {5, 4});
  std::vector<Argument> results;
  for (const char* name : {"q", "k", "v"}) {
    Node* y = shaped(g.call_function(ops::linear, {x, attribute(g, name, {16, 16})}), {2, 5, 16});
    Node* heads = shaped(g.call_function(ops::view, {y, Argument::list({2, 5, 4, 4})}), {2, 5, 4, 4});
    Node* turned = shaped(g.call_function(ops::transpose_int, {heads, 1, 2}), {2, 4, 5, 4});
    if (*name != 'v')
      turned = shaped(g.create_node(CallFunction{&rotary_embedding_function()}, std::vector<Argument>{turned, cos, sin, false}),
                      {2, 4, 5, 4});
    results.push_back(g.call_function(ops::exp, {turned}));
  }
  g.output(Argument::list(std::move(results)));
  CHECK(rules::merge_linear.apply(g).rewrites == 1);
}

TEST_CASE("what does not go together stays apart") {
  CHECK(fired({{"a"}, {"b"}}) == "merge linears: 1");
  CHECK(fired({{"a"}}) == "");
  CHECK(fired({{"a"}, {"b", 4, false}}) == "");
  CHECK(fired({{"a"}, {"b", 4, true, Dtype::float16}}) == "");
  CHECK(fired_on(rules::merge_linear, [](Graph& g) {  // two values
          Node *x = g.placeholder("x"), *y = g.placeholder("y"), *w = attribute(g, "w", {4, 8});
          return Argument::list({g.call_function(ops::linear, {x, w}), g.call_function(ops::linear, {y, w})});
        }) == "");
  CHECK(fired_on(rules::merge_linear, [](Graph& g) {  // a bias of one number for all rows
          Node *x = g.placeholder("x"), *w = attribute(g, "w", {4, 8}), *v = attribute(g, "v", {4, 8});
          Node *a = attribute(g, "a", {}), *b = attribute(g, "b", {1});
          return Argument::list({g.call_function(ops::linear, {x, w, a}), g.call_function(ops::linear, {x, v, b})});
        }) == "");
  CHECK(fired_on(rules::merge_linear, [](Graph& g) {  // shapes that are not known
          Node *x = g.placeholder("x"), *w = g.get_attr("w");
          return Argument::list({g.call_function(ops::linear, {x, w}), g.call_function(ops::linear, {x, w})});
        }) == "");
  CHECK(fired_on(rules::merge_linear, [](Graph& g) {  // weights that the inputs reach
          Node *x = g.placeholder("x"), *w = test::shaped(g.placeholder("w"), {4, 8});
          return Argument::list({g.call_function(ops::linear, {x, w}), g.call_function(ops::linear, {x, w})});
        }) == "");
  CHECK(fired_on(rules::merge_linear, [](Graph& g) {  // parts of one result are views of it: nobody may write to them
          const Argument both = linears(g, {{"a"}, {"b"}});
          g.call_function(ops::relu_, {both.items()[0]});
          return both;
        }) == "");
}

TEST_CASE("a silu that is computed again and again is computed once, and what reads it merges") {
  const auto blocks = [](bool written) {
    return [=](Graph& g) {
      Node* x = g.placeholder("x");
      std::vector<Argument> results;
      for (const char* name : {"a", "b"}) {
        Node* silu = g.call_function(ops::silu, {x});
        if (written) silu = g.call_function(ops::relu_, {silu});
        results.push_back(g.call_function(ops::linear, {silu, attribute(g, name, {4, 8})}));
      }
      return Argument::list(results);
    };
  };
  constexpr auto rules = phases(rules::merge_activation, rules::merge_linear);
  CHECK(fired_on(rules, blocks(false)) == "one silu for all: 1, merge linears: 1");
  CHECK(fired_on(rules, blocks(true)) == "");
}
