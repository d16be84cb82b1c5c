// An order in which a graph can run, with as little moved as possible.
#include "fxx/passes/stable_topological_sort.hpp"

#include <doctest/doctest.h>

#include "fxx/ops/operation.hpp"
#include "support.hpp"

using namespace fxx;
using test::fault_of;

namespace {
std::string order_of(const Graph &graph) {
  std::string names;
  for (const Node *node : graph.nodes()) names += (names.empty() ? "" : " ") + std::string(node->name());
  return names;
}
}  // namespace

TEST_CASE("a graph that can run stays as it is") {
  Graph g;
  Node *x = g.placeholder("x"), *y = g.placeholder("y");
  g.output(g.call_function(ops::add_Tensor, {x, y}));
  const std::uint64_t version = g.version();
  CHECK(stable_topological_sort(g) == 0);
  CHECK(g.version() == version);
  CHECK(order_of(g) == "x y add output");
  Graph swapped;
  Node *b = swapped.placeholder("y"), *a = swapped.placeholder("x");
  swapped.output(swapped.call_function(ops::add_Tensor, {a, b}));
  CHECK(stable_topological_sort(swapped) == 0);
  CHECK(order_of(swapped) == "y x add output");
  Graph empty;
  CHECK(stable_topological_sort(empty) == 0);
}

TEST_CASE("what stands before its input comes behind it, and nothing else moves") {
  Graph g;
  Node *x = g.placeholder("x"), *y = g.placeholder("y"), *sum = g.call_function(ops::add_Tensor, {y, x});
  sum->append(x);
  CHECK(order_of(g) == "y add x");
  stable_topological_sort(g);
  CHECK(order_of(g) == "y x add");
  g.lint();

  Graph chain;
  Node *a = chain.placeholder("a"), *first = chain.call_function(ops::relu, {a}),
       *second = chain.call_function(ops::tanh, {first}), *third = chain.call_function(ops::exp, {second}),
       *other = chain.call_function(ops::neg, {a});
  chain.output(Argument::list({third, other}));
  first->prepend(third);
  other->append(second);
  CHECK(order_of(chain) == "a exp relu neg tanh output");
  stable_topological_sort(chain);
  CHECK(order_of(chain) == "a relu neg tanh exp output");
  chain.lint();
}

TEST_CASE("what waits for several inputs, in lists too, comes behind the last") {
  Graph g;
  Node *x = g.placeholder("x"), *a = g.call_function(ops::relu, {x}), *b = g.call_function(ops::tanh, {x}),
       *c = g.call_function(ops::cat, {Argument::list({a, b})}), *d = g.call_function(ops::exp, {c});
  g.output(d);
  x->append(d);
  x->append(c);
  CHECK(order_of(g) == "x cat exp relu tanh output");
  stable_topological_sort(g);
  CHECK(order_of(g) == "x relu tanh cat exp output");
  g.lint();
}

TEST_CASE("nodes that need each other have no order, which is said, and the graph is as it was") {
  Graph g;
  Node *x = g.placeholder("x"), *a = g.call_function(ops::relu, {x}), *b = g.call_function(ops::tanh, {a});
  g.output(b);
  a->update_arg(0, b);
  const auto fault = fault_of<GraphError>([&] { stable_topological_sort(g); });
  CHECK(fault.id == 104);
  CHECK(fault.says("'relu', 'tanh' need each other"));
  CHECK(order_of(g) == "x relu tanh output");
}

TEST_CASE("a long graph in reverse is put in order") {
  Graph g;
  Node *x = g.placeholder("x"), *n = x;
  const std::size_t length = test::repeats(100'000, 20'000);
  std::vector<Node *> nodes;
  for (std::size_t i = 0; i < length; ++i) nodes.push_back(n = g.call_function(ops::relu, {n}));
  g.output(n);
  for (Node *node : nodes) x->append(node);
  CHECK(nodes.back()->is_before(*nodes.front()));
  CHECK(stable_topological_sort(g) > 0);
  g.lint();
  CHECK(g.nodes().front() == x);
}
