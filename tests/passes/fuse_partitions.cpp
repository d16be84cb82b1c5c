// Sets of nodes as graphs of their own, and one call in their place.
#include "fxx/passes/fuse_partitions.hpp"

#include <doctest/doctest.h>

#include "fxx/ops/operation.hpp"
#include "fxx/ops/registry.hpp"
#include "graph_text.hpp"
#include "listed_owner.hpp"
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
/// The name of the node that stands in the way of fusing the partitions at once; empty when nothing does.
std::string out_of_turn(const Graph &graph, const std::vector<std::vector<const Node *>> &partitions) {
  Graph g(graph);
  g.set_owning_module(graph.owning_module());
  std::vector<FusedGraph> fused;
  std::vector<std::string> names;
  for (const auto &partition : partitions) {
    std::vector<Node *> nodes;
    for (Node *node : g.nodes())
      for (const Node *named : partition)
        if (node->name() == named->name()) nodes.push_back(node);
    fused.push_back(fuse_as_graph(g, nodes));
    names.push_back("fused_" + std::to_string(names.size()));
  }
  const auto fault = fault_of<GraphError>([&] { insert_subgraphs(g, fused, names); });
  if (!fault.id) return {};
  CHECK(fault.id == 404);
  CHECK(fault.says("make partitions of what stands together"));
  const std::size_t quote = fault.text.find('\'') + 1;
  return fault.text.substr(quote, fault.text.find('\'', quote) - quote);
}
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
  CHECK(out_of_turn(g, {{a, sum}}) == "relu");
  CHECK(out_of_turn(g, {{a, write, sum}}) == "tanh");
  CHECK(out_of_turn(g, {{a, write, b}}) == "");
}

TEST_CASE("a write is seen behind a draw, in the partition and outside of it") {
  Graph g;
  Node *x = g.placeholder("x"), *y = g.placeholder("y"), *d = g.call_function(ops::dropout, {x, 0.5, true}),
       *w = g.call_function(ops::add__Tensor, {y, d}), *r = g.call_function(ops::relu, {y}),
       *m = g.call_function(ops::mul_Tensor, {w, 2});
  g.output(Argument::list({r, m}));
  CHECK(out_of_turn(g, {{d, w, m}}) == "relu");
  CHECK(out_of_turn(g, {{d, w}}) == "");
  CHECK(out_of_turn(g, {{w, m}}) == "relu");

  Graph h;
  Node *v = h.placeholder("v"), *z = h.placeholder("z"), *a = h.call_function(ops::relu, {v});
  h.call_function(ops::dropout, {z, 0.5, true});
  h.call_function(ops::add__Scalar, {v, 1});
  Node *b = h.call_function(ops::add_Tensor, {a, v});
  h.output(b);
  CHECK(out_of_turn(h, {{a, b}}) == "relu");
}

TEST_CASE("random numbers are drawn in their order, beside a partition too") {
  for (const bool depends : {false, true}) {
    Graph g;
    Node *x = g.placeholder("x"), *y = g.placeholder("y"), *a = g.call_function(ops::relu, {x}),
         *first = g.call_function(ops::dropout, {depends ? a : y, 0.5, true}),
         *second = g.call_function(ops::dropout, {y, 0.5, true}), *b = g.call_function(ops::tanh, {a});
    g.output(Argument::list({first, second, b}));
    CHECK(out_of_turn(g, {{a, b}}) == (depends ? "dropout_1" : ""));
    CHECK(out_of_turn(g, {{a, first, b}}) == "dropout_1");
    CHECK(out_of_turn(g, {{a, first, second, b}}) == "");
  }
}

TEST_CASE("draws of modules keep their order as those of functions do") {
  for (const bool training : {false, true}) {
    test::ListedOwner owner;
    ModuleInfo &module = owner.add(ModuleInfo{.name = "drop", .type = "torch::nn::Dropout", .construct = {}});
    module.operation = find_operator("aten::dropout");
    module.parts = {test::input(), test::constant_part(0.5), test::training_part()};
    module.training = training;
    Graph g;
    g.set_owning_module(&owner);
    Node *x = g.placeholder("x"), *a = g.call_module("drop", {x});
    g.call_function(ops::dropout, {x, 0.5, true});
    Node *b = g.call_function(ops::tanh, {a});
    g.output(b);
    CHECK(out_of_turn(g, {{a, b}}) == (training ? "dropout" : ""));
  }
}

TEST_CASE("partitions that are fine alone may draw out of turn together") {
  // The first comes behind the second, and what it draws behind the other draw.
  Graph g;
  Node *x = g.placeholder("x"), *a = g.call_function(ops::dropout, {x, 0.5, true}), *c = g.call_function(ops::relu, {x}),
       *b = g.call_function(ops::add_Tensor, {a, c}), *other = g.call_function(ops::dropout, {x, 0.5, true}),
       *d = g.call_function(ops::tanh, {c});
  g.output(Argument::list({b, other, d}));
  CHECK(out_of_turn(g, {{a, b}}) == "");
  CHECK(out_of_turn(g, {{c, d}}) == "");
  CHECK(out_of_turn(g, {{a, b}, {c, d}}) == "dropout_1");
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
