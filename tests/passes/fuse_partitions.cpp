// Sets of nodes as graphs of their own, and one call in their place.
#include "fxx/passes/fuse_partitions.hpp"

#include <doctest/doctest.h>

#include "fxx/ops/operation.hpp"
#include "graph_text.hpp"
#include "support.hpp"

using namespace fxx;
using test::fault_of;
using test::text_of;

namespace {
/// x -> relu -> tanh -> exp, and relu -> neg; sum of exp and neg.
struct Fork {
  Graph g;
  Node *x = g.placeholder("x"), *relu = g.call_function(ops::relu, {x}), *tanh = g.call_function(ops::tanh, {relu}),
       *neg = g.call_function(ops::neg, {relu}), *exp = g.call_function(ops::exp, {tanh}),
       *sum = g.call_function(ops::add_Tensor, {exp, neg}), *out = g.output(sum);
};
int refused(const Graph &g, std::vector<Node *> nodes, std::string_view words) {
  const auto fault = fault_of<GraphError>([&] { fuse_as_graph(g, nodes); });
  CAPTURE(fault.text);
  CHECK(fault.says(words));
  return fault.id;
}
const std::string one_name[] = {"fused"};
}  // namespace

TEST_CASE("nodes in any order become one graph with what goes in and out") {
  Fork f;
  const FusedGraph fused[] = {fuse_as_graph(f.g, std::vector<Node *>{f.exp, f.relu, f.tanh})};
  CHECK(text_of(fused[0].graph) ==
        "input x\nrelu = aten::relu(%x)\ntanh = aten::tanh(%relu)\nexp = aten::exp(%tanh)\nreturn (%relu, %exp)\n");
  CHECK(fused[0].inputs == std::vector<Node *>{f.x});
  CHECK(fused[0].outputs == std::vector<Node *>{f.relu, f.exp});
  insert_subgraphs(f.g, fused, one_name);
  f.g.lint();
  CHECK(text_of(f.g) ==
        "input x\nfused = fused(%x)\ngetitem = operator::getitem(%fused, 0)\nneg = aten::neg(%getitem)\n"
        "getitem_1 = operator::getitem(%fused, 1)\nadd = aten::add.Tensor(%getitem_1, %neg)\nreturn %add\n");
}

TEST_CASE("one result comes as it is, or as a tuple of one when that is wanted") {
  Fork f;
  const std::vector<Node *> nodes = {f.tanh, f.exp};
  CHECK(text_of(fuse_as_graph(f.g, nodes, true).graph).ends_with("return (%exp,)\n"));
  const FusedGraph fused[] = {fuse_as_graph(f.g, nodes)};
  CHECK(text_of(fused[0].graph).ends_with("return %exp\n"));
  const auto calls = insert_subgraphs(f.g, fused, one_name);
  f.g.lint();
  REQUIRE(calls.size() == 1);
  CHECK(f.sum->arg(0) == Argument(calls[0]));
}

TEST_CASE("attributes are read inside, and outside only where somebody else uses them") {
  Graph g;
  Node *x = g.placeholder("x"), *w = g.get_attr("w"), *v = g.get_attr("v"),
       *a = g.call_function(ops::mul_Tensor, {x, w}), *b = g.call_function(ops::mul_Tensor, {a, v});
  g.output(g.call_function(ops::add_Tensor, {b, v}));
  const FusedGraph fused[] = {fuse_as_graph(g, std::vector<Node *>{a, b})};
  CHECK(fused[0].inputs == std::vector<Node *>{x});
  CHECK(fused[0].graph.find_nodes(Opcode::get_attr).size() == 2);
  insert_subgraphs(g, fused, one_name);
  g.lint();
  CHECK(w->is_erased());
  CHECK_FALSE(v->is_erased());
}

TEST_CASE("an attribute is read where it is used, whichever partition has it") {
  Graph g;
  Node *x = g.placeholder("x"), *w = g.get_attr("w"), *a = g.call_function(ops::relu, {x}),
       *b = g.call_function(ops::mul_Tensor, {a, w});
  g.output(b);
  const FusedGraph fused[] = {fuse_as_graph(g, std::vector<Node *>{b}), fuse_as_graph(g, std::vector<Node *>{w, a})};
  const std::string names[] = {"second", "first"};
  insert_subgraphs(g, fused, names);
  g.lint();
  CHECK(g.find_nodes(Opcode::get_attr).empty());
  CHECK(fused[0].graph.find_nodes(Opcode::get_attr).size() == 1);
  CHECK(fused[1].graph.find_nodes(Opcode::get_attr).empty());
}

TEST_CASE("several at once: they may use each other's results, and lie between each other") {
  Graph g;
  Node *x = g.placeholder("x"), *a = g.call_function(ops::relu, {x}), *b = g.call_function(ops::tanh, {x}),
       *c = g.call_function(ops::exp, {a}), *d = g.call_function(ops::add_Tensor, {b, c});
  g.output(d);
  const FusedGraph fused[] = {fuse_as_graph(g, std::vector<Node *>{a, c}), fuse_as_graph(g, std::vector<Node *>{b, d})};
  const std::string names[] = {"first", "second"};
  insert_subgraphs(g, fused, names);
  g.lint();
  CHECK(text_of(g) == "input x\nfirst = first(%x)\nsecond = second(%x, %first)\nreturn %second\n");
}

TEST_CASE("partitions that cannot be fused are refused, with the reason") {
  Fork f;
  CHECK(refused(f.g, {}, "empty") == 404);
  CHECK(refused(f.g, {f.tanh, f.tanh}, "twice") == 404);
  CHECK(refused(f.g, {f.x, f.relu}, "an input or the output") == 404);
  CHECK(refused(f.g, {f.sum, f.out}, "an input or the output") == 404);
  CHECK(refused(f.g, {f.relu, f.exp}, "needs values that need the partition") == 404);
  Fork other;
  CHECK(refused(f.g, {f.relu, other.tanh}, "not in the graph") == 404);
  CHECK(validate_partition(std::vector<Node *>{f.tanh, f.neg}));
  CHECK_FALSE(validate_partition(std::vector<Node *>{f.relu, f.sum}));
  const std::vector<Node *> twice[] = {{f.relu, f.tanh}, {f.tanh}};
  CHECK(fault_of<GraphError>([&] { check_apart(twice); }).id == 404);

  // Each could be fused, but not both: a needs d, and c needs b.
  Graph g;
  Node *x = g.placeholder("x"), *a = g.call_function(ops::relu, {x}), *b = g.call_function(ops::tanh, {x}),
       *c = g.call_function(ops::exp, {a}), *d = g.call_function(ops::neg, {b});
  g.output(Argument::list({c, d}));
  const FusedGraph fused[] = {fuse_as_graph(g, std::vector<Node *>{a, d}), fuse_as_graph(g, std::vector<Node *>{b, c})};
  const std::string names[] = {"first", "second"};
  const auto fault = fault_of<GraphError>([&] { insert_subgraphs(g, fused, names); });
  CHECK(fault.id == 404);
  CHECK(fault.says("need each other"));
}

TEST_CASE("nothing is fused across a write that others can see") {
  Graph g;
  Node *x = g.placeholder("x"), *a = g.call_function(ops::relu, {x}), *write = g.call_method("add_", {x, 1}),
       *b = g.call_function(ops::tanh, {x}), *other = g.call_function(ops::exp, {x}),
       *sum = g.call_function(ops::add_Tensor, {a, b});
  g.output(Argument::list({sum, other}));
  CHECK(refused(g, {a, sum}, "writes to memory") == 404);
  CHECK(refused(g, {a, write, sum}, "writes to memory") == 404);
  CHECK(fuse_as_graph(g, std::vector<Node *>{a, write, b}).outputs.size() == 2);
}

TEST_CASE("a long chain is one graph") {
  Graph g;
  Node *n = g.placeholder("x");
  std::vector<Node *> nodes;
  for (std::size_t i = 0; i < test::repeats(100'000, 20'000); ++i) nodes.push_back(n = g.call_function(ops::relu, {n}));
  g.output(n);
  const FusedGraph fused[] = {fuse_as_graph(g, nodes)};
  insert_subgraphs(g, fused, one_name);
  g.lint();
  CHECK(g.size() == 3);
  CHECK(fused[0].graph.size() == nodes.size() + 2);
}
