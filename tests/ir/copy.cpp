// Copies: of graphs, of nodes, of one graph into another.
#include <doctest/doctest.h>

#include "fxx/ir/graph.hpp"
#include "fxx/ir/signature.hpp"
#include "fxx/ops/operation.hpp"
#include "fxx/ops/registry.hpp"
#include "support.hpp"

using namespace fxx;
using test::fault_of;

namespace {

/// A graph with every opcode, nested arguments, types and meta.
Graph rich() {
  Graph g;
  Node* x = g.placeholder("x", {}, "torch::Tensor");
  Node* scale = g.placeholder("scale", 2.0);
  Node* w = g.get_attr("layer.weight");
  Node* m = g.call_module("layer", {x});
  Node* cat = g.call_function(ops::cat, {Argument::list({m, w, Argument::tuple({x, 1})})}, {{"dim", Slice{x, {}, 2}}});
  Node* method = g.call_method("add", {cat, scale});
  g.output(Argument::dict({{"a", method}, {"b", Argument::list({x})}}), "Result");
  m->set_tensor_meta({.shape = {2, 3}, .stride = {3, 1}});
  cat->meta().stack_trace = "model.cpp:12";
  cat->set_location(std::source_location::current());
  method->set_resolved(&ops::add_Tensor.info());
  return g;
}

}  // namespace

TEST_CASE("a copied graph has equal nodes, names, types, places and meta, in the same order") {
  const Graph g = rich();
  const Graph copy = g;
  copy.lint();
  CHECK(to_string(copy) == to_string(g));
  CHECK(same_structure(g, copy));
  auto b = copy.nodes().begin();
  for (const Node* a : g.nodes()) {
    const Node* twin = *b++;
    CHECK(twin != a);
    CHECK(&twin->graph() == &copy);
    CHECK(twin->name() == a->name());
    CHECK(twin->op() == a->op());
    CHECK(twin->type() == a->type());
    CHECK(twin->operation() == a->operation());
    CHECK(twin->location().line() == a->location().line());
    CHECK(twin->meta().stack_trace == a->meta().stack_trace);
    CHECK((twin->tensor_meta() == nullptr) == (a->tensor_meta() == nullptr));
    if (a->tensor_meta()) CHECK(*twin->tensor_meta() == *a->tensor_meta());
  }
  CHECK(copy.output_node()->type() == "Result");
}

TEST_CASE("a compact copy is a copy, without what was erased, and can be edited") {
  Graph g = rich();
  for (int i = 0; i < 200; ++i) g.erase_node(g.get_attr("layer.of_a_long_name"));
  Graph copy = detail::compact_copy(g);
  copy.lint();
  CHECK(to_string(copy) == to_string(g));
  CHECK(same_structure(g, copy));
  CHECK(copy.index_bound() == copy.size());
  // More than it was made for, under names that its own nodes have.
  for (int i = 0; i < 300; ++i) copy.call_function(ops::relu, {copy.nodes().front()});
  copy.call_function(ops::cat, {Argument::list({copy.nodes().front()})});
  copy.lint();
  CHECK(copy.size() == g.size() + 301);
  CHECK(detail::compact_copy(Graph()).size() == 0);
}

TEST_CASE("a copy and its original are independent") {
  Graph g = rich();
  const std::string before = to_string(g);
  Graph copy = g;
  Node* cat = copy.find_nodes(Opcode::call_function)[0];
  cat->set_op(CallFunction{&ops::stack.info()});
  cat->meta().stack_trace = "elsewhere";
  cat->update_kwarg("dim", 1);
  copy.nodes().front()->rename("renamed");
  Node* method = copy.find_nodes(Opcode::call_method)[0];
  method->replace_all_uses_with(cat);
  copy.erase_node(method);
  copy.lint();
  CHECK(to_string(g) == before);
  CHECK(g.find_nodes(Opcode::call_function)[0]->meta().stack_trace == "model.cpp:12");
  g.lint();
}

TEST_CASE("a copy outlives its original; texts are its own") {
  Graph copy;
  {
    const Graph g = rich();
    copy = g;
  }
  copy.lint();
  CHECK(copy.nodes().front()->type() == "torch::Tensor");
  CHECK(copy.find_nodes(Opcode::call_function)[0]->kwargs()[0].key == "dim");
  CHECK(copy.nodes().front()->name() == "x");
}

TEST_CASE("a graph assigned to itself stays; one assigned to another replaces it") {
  Graph g = rich();
  const std::string before = to_string(g);
  Graph& same = g;
  g = same;
  CHECK(to_string(g) == before);
  Graph other;
  other.placeholder("old");
  other = g;
  CHECK(to_string(other) == before);
  other = Graph();
  CHECK(other.nodes().empty());
}

TEST_CASE("erased nodes, and what only they had, are not copied") {
  Graph g;
  Node* x = g.placeholder("x");
  Node* relu = g.call_function(ops::relu, {x});
  g.erase_node(relu);
  Graph copy = g;
  CHECK(copy.size() == 1);
  CHECK(copy.call_function(ops::relu, {copy.nodes().front()})->name() == "relu");
}

TEST_CASE("new names in a copy do not meet those that it has") {
  Graph g;
  Node* x = g.placeholder("x");
  for (int i = 0; i < 3; ++i) g.call_function(ops::relu, {x});
  Graph copy = g;
  CHECK(copy.call_function(ops::relu, {copy.nodes().front()})->name() == "relu_3");
  copy.lint();
}

TEST_CASE("nested arguments are shared between copies") {
  Graph g;
  const Argument sizes = Argument::list({1, 2, Argument::list({3})});
  g.call_function(ops::zeros, {sizes});
  const Graph copy = g;
  CHECK(copy.nodes().front()->arg(0).items().data() == sizes.items().data());
}

TEST_CASE("a deep graph is copied without deep recursion") {
  Graph g;
  Node* n = g.placeholder("x");
  for (int i = 0; i < 200000; ++i) n = g.call_function(ops::relu, {n});
  g.output(n);
  const Graph copy = g;
  CHECK(copy.size() == g.size());
  CHECK(same_structure(g, copy));
}

TEST_CASE("a copy appends where the original would, and its insertion point is its own") {
  Graph g;
  Node* x = g.placeholder("x");
  g.call_function(ops::relu, {x});
  g.output(x);
  const auto guard = g.inserting_before(x);
  Graph copy = g;
  copy.call_function(ops::neg, {copy.nodes().front()});
  CHECK(copy.output_node()->prev()->name() == "neg");
}

// --- nodes -----------------------------------------------------------------------------------------------------------

TEST_CASE("node_copy maps the inputs and keeps type, meta, place, and the name when it is free") {
  Graph from = rich();
  Graph to;
  Node* a = to.placeholder("a");
  Node* cat = from.find_nodes(Opcode::call_function)[0];
  cat->set_type("torch::Tensor");
  Node* copy = to.node_copy(*cat, [&](Node* n) { return n->name() == "x" ? Argument(a) : Argument(5); });
  CHECK(copy->name() == "cat");
  CHECK(copy->type() == "torch::Tensor");
  CHECK(copy->meta().stack_trace == "model.cpp:12");
  CHECK(copy->location().line() == cat->location().line());
  CHECK(copy->arg(0) == Argument::list({5, 5, Argument::tuple({a, 1})}));
  CHECK(*copy->kwarg("dim") == Argument(Slice{a, {}, 2}));
  CHECK(to.node_copy(*cat, [&](Node*) { return Argument(a); })->name() == "cat_1");
  to.lint();
}

TEST_CASE("node_copy within one graph, of an argument's own node") {
  Graph g;
  Node* x = g.placeholder("x");
  Node* relu = g.call_function(ops::relu, {x});
  Node* again = g.node_copy(*relu, [](Node* n) { return Argument(n); });
  CHECK(again->arg(0).node() == x);
  CHECK(x->num_users() == 2);
  g.lint();
}

TEST_CASE("copying nodes without mapping their inputs is refused at once") {
  Graph from = rich();
  Graph to;
  bool refused = false;
  for (Node* n : from.nodes()) {
    const auto fault = fault_of<GraphError>([&] { to.node_copy(*n, [](Node* input) { return Argument(input); }); });
    if (fault.id == 0) continue;
    refused = true;
    CHECK(fault.id == 101);
    CHECK(fault.says("does not belong to this Graph"));
  }
  CHECK(refused);
  to.lint();
}

// --- graphs into graphs ----------------------------------------------------------------------------------------------

TEST_CASE("a graph is inlined: its placeholder is mapped to the other's value") {
  Graph second;
  second.output(second.call_method("neg", {second.placeholder("x")}));
  Graph g;
  Node* x = g.placeholder("x");
  Node* relu = g.call_function(ops::relu, {x});
  std::map<const Node*, Argument> values = {{second.nodes().front(), relu}};
  g.output(g.graph_copy(second, values));
  g.lint();
  CHECK(to_string(g) ==
        "graph():\n"
        "    %x : [num_users=1] = placeholder[target=x]\n"
        "    %relu : [num_users=1] = call_function[target=torch.ops.aten.relu.default](args = (%x,), kwargs = {})\n"
        "    %neg : [num_users=1] = call_method[target=neg](args = (%relu,), kwargs = {})\n"
        "    return neg");
  CHECK(values.size() == 2);
}

TEST_CASE("graph_copy without a map copies everything but the output, and gives the value returned") {
  const Graph from = rich();
  Graph to;
  std::map<const Node*, Argument> values;
  const Argument result = to.graph_copy(from, values);
  CHECK(to.size() == from.size() - 1);
  CHECK(values.size() == from.size() - 1);
  REQUIRE(result.kind() == Argument::Kind::dict);
  CHECK(result.entries()[0].value.node()->name() == "add");
  CHECK(&result.entries()[0].value.node()->graph() == &to);
  to.output(result, from.output_node()->type());
  CHECK(same_structure(to, from));
}

TEST_CASE("graph_copy goes to the insertion point, twice when asked twice") {
  Graph body;
  body.output(body.call_function(ops::relu, {body.placeholder("x")}));
  Graph g;
  Node* x = g.placeholder("x");
  Node* neg = g.call_function(ops::neg, {x});
  g.output(neg);
  const auto guard = g.inserting_before(neg);
  Argument value = x;
  for (int i = 0; i < 2; ++i) {
    std::map<const Node*, Argument> values = {{body.nodes().front(), value}};
    value = g.graph_copy(body, values);
  }
  neg->set_args({value});
  g.lint();
  CHECK(neg->arg(0).node()->name() == "relu_1");
  CHECK(neg->prev() == value.node());
}

TEST_CASE("a constant may stand for an input when inlining") {
  Graph body;
  Node* a = body.placeholder("a");
  body.output(body.call_function(ops::add_Tensor, {a, a}));
  Graph g;
  std::map<const Node*, Argument> values = {{a, 3}};
  const Argument sum = g.graph_copy(body, values);
  CHECK(sum.node()->arg(1).integer() == 3);
}

TEST_CASE("a graph without an output gives None") {
  Graph body;
  body.placeholder("x");
  Graph g;
  std::map<const Node*, Argument> values;
  CHECK(g.graph_copy(body, values).is_none());
  CHECK(g.size() == 1);
}

TEST_CASE("a signature goes along with copies, and is none when every input is one value") {
  const Structure a{.placeholder = "xs_1"}, b{.placeholder = "xs_2"}, y{.placeholder = "y"};
  const Signature nested{{{"xs", {.kind = Structure::Kind::list, .items = {a, b}}}, {"y", y}}};
  CHECK_FALSE(nested.flat());
  CHECK(nested.leaves() == std::vector<std::string_view>{"xs_1", "xs_2", "y"});
  Graph g;
  CHECK(g.signature() == nullptr);
  const auto version = g.version();
  g.set_signature(nested);
  CHECK(g.version() != version);
  Graph copy = g, moved = std::move(copy);
  REQUIRE(moved.signature());
  CHECK(*moved.signature() == nested);
  g.set_signature({{{"y", y}}});
  CHECK(g.signature() == nullptr);
  CHECK(moved.signature());
}

// --- same_structure --------------------------------------------------------------------------------------------------

TEST_CASE("graphs of one structure are the same whatever their names") {
  const Graph g = rich();
  Graph other = rich();
  int number = 0;
  for (Node* n : other.nodes()) n->rename("name" + std::to_string(number++));
  CHECK(same_structure(g, other));
  CHECK(same_structure(Graph(), Graph()));
}

TEST_CASE("any difference but names makes another structure") {
  const Graph g = rich();
  const auto differs = [&](auto&& change) {
    Graph other = g;
    change(other);
    CHECK_FALSE(same_structure(g, other));
    CHECK_FALSE(same_structure(other, g));
  };
  differs([](Graph& o) { o.placeholder("more"); });
  differs([](Graph& o) { o.nodes().front()->set_op(Placeholder{"y"}); });
  differs([](Graph& o) { o.nodes().front()->set_type("int"); });
  differs([](Graph& o) { o.find_nodes(Opcode::call_module)[0]->set_op(CallModule{"other"}); });
  differs([](Graph& o) { o.find_nodes(Opcode::call_function)[0]->set_op(CallFunction{&ops::stack.info()}); });
  differs([](Graph& o) { o.find_nodes(Opcode::call_function)[0]->update_kwarg("dim", Slice{{}, {}, 2}); });
  differs([](Graph& o) { o.find_nodes(Opcode::call_function)[0]->set_kwargs({}); });
  differs([](Graph& o) { o.find_nodes(Opcode::call_method)[0]->insert_arg(2, 1); });
  differs([](Graph& o) { o.find_nodes(Opcode::call_method)[0]->update_arg(1, o.nodes().front()); });
  differs([](Graph& o) { o.find_nodes(Opcode::get_attr)[0]->prepend(o.find_nodes(Opcode::call_module)[0]); });
  differs([](Graph& o) { o.erase_node(o.output_node()); });
}

TEST_CASE("one node used twice differs from two nodes used once") {
  Graph a, b;
  for (Graph* g : {&a, &b}) {
    Node *x = g->placeholder("x"), *y = g->placeholder("x");
    g->output(g->call_function(ops::add_Tensor, {x, g == &a ? x : y}));
  }
  CHECK_FALSE(same_structure(a, b));
}
