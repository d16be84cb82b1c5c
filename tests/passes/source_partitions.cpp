// Nodes by the call of a module, or of a function, that they came from.
#include "fxx/passes/source_partitions.hpp"

#include <doctest/doctest.h>

#include "fxx/ops/operation.hpp"
#include "support.hpp"

using namespace fxx;

namespace {

/// linear1, relu, linear2 and linear1 again, lowered to operators: `addmm(b, x, t(w))`.
struct Lowered {
  Graph graph;
  ModuleStack net{{}, {"net", "Net"}};
  std::map<std::string, std::uint32_t> calls;

  Node* in(const ModuleStack& stack, Node* node) {
    node->set_module_stack(stack);
    return node;
  }
  Node* linear(const std::string& name, Node* x) {
    const ModuleStack stack(net, {name, "torch::nn::Linear", calls[name]++});
    Node* w = graph.get_attr(name + ".weight");
    Node* b = in(stack, graph.get_attr(name + ".bias"));
    Node* t = in(stack, graph.call_function(ops::t, {w}));
    return in(stack, graph.call_function(ops::addmm, {b, x, t}));
  }
  Node* relu(Node* x) { return in(ModuleStack(net, {"act", "torch::nn::ReLU"}), graph.call_function(ops::relu, {x})); }
};

std::vector<std::string> names_of(const std::vector<SourcePartition>& partitions) {
  std::vector<std::string> names;
  for (const SourcePartition& p : partitions) names.push_back(p.name);
  return names;
}

}  // namespace

TEST_CASE("calls of modules are partitions, each call its own, with what goes in and out") {
  Lowered l;
  Node* x = l.graph.placeholder("x");
  Node* first = l.linear("linear1", x);
  Node* again = l.linear("linear1", first);
  Node* active = l.relu(again);
  Node* last = l.linear("linear2", active);
  l.graph.output(last);
  const auto found = get_source_partitions(l.graph, {"torch::nn::Linear", "ReLU"});
  REQUIRE(found.size() == 2);
  const auto& linears = found.at("torch::nn::Linear");
  const auto& relus = found.at("ReLU");
  CHECK(names_of(linears) == std::vector<std::string>{"linear1", "linear1@1", "linear2"});
  REQUIRE(relus.size() == 1);
  CHECK(linears[0].input_nodes == std::vector<Node*>{x});
  CHECK(linears[0].output_nodes == std::vector<Node*>{first});
  CHECK(linears[0].nodes.size() == 3);
  REQUIRE(linears[0].params.size() == 2);
  CHECK(linears[0].params[0]->target() == "linear1.bias");
  CHECK(linears[0].params[1]->target() == "linear1.weight");
  CHECK(linears[1].input_nodes == std::vector<Node*>{first});
  CHECK(relus[0].input_nodes == std::vector<Node*>{again});
  CHECK_FALSE(check_subgraphs_connected(linears[0], relus[0]));
  CHECK(check_subgraphs_connected(linears[1], relus[0]));
  CHECK_FALSE(check_subgraphs_connected(linears[2], relus[0]));
  CHECK(check_subgraphs_connected(relus[0], linears[2]));
}

TEST_CASE("functions are partitions where no module of torch.nn called them") {
  Lowered l;
  Node *x = l.graph.placeholder("x"), *w = l.graph.placeholder("w");
  Node* first = l.in(l.net, l.graph.call_function(ops::conv2d, {x, w}));
  Node* inside = l.graph.call_function(ops::conv2d, {first, w});
  inside->set_module_stack(ModuleStack(l.net, {"conv", "torch::nn::Conv2d"}));
  Node* second = l.graph.call_method("relu", {l.graph.call_function(ops::conv2d, {inside, w})});
  l.graph.output(l.graph.call_function(ops::add_Tensor, {second, second}));
  CHECK(get_source_partitions(l.graph, {"aten::conv2d"}).at("aten::conv2d").size() == 2);
  CHECK(get_source_partitions(l.graph, {"conv2d"}).at("conv2d").size() == 2);
  CHECK(get_source_partitions(l.graph, {"relu"}).at("relu").size() == 1);
  CHECK(get_source_partitions(l.graph, {"aten::add"}).at("aten::add").size() == 1);
  CHECK(get_source_partitions(l.graph, {"aten::add.Tensor"}).size() == 1);
  CHECK(get_source_partitions(l.graph, {"aten::add.Scalar", "on2d", "aten::con"}).empty());
  const auto both = get_source_partitions(l.graph, {"conv2d", "torch::nn::Conv2d"});
  CHECK(both.at("conv2d").size() == 2);
  CHECK(both.at("torch::nn::Conv2d").size() == 1);
}

TEST_CASE("of modules within each other the inner one counts; nodes outside of all belong to none") {
  Graph g;
  Node* x = g.placeholder("x");
  const ModuleStack block({}, {"block", "Block"});
  Node *a = g.call_function(ops::relu, {x}), *b = g.call_function(ops::tanh, {a}), *c = g.call_function(ops::exp, {b});
  a->set_module_stack(block);
  b->set_module_stack(ModuleStack(block, {"block.0", "Layer"}));
  g.output(c);
  const auto both = get_source_partitions(g, {"Block", "Layer"});
  CHECK(both.at("Block")[0].nodes == std::vector<Node*>{a});
  CHECK(both.at("Layer")[0].nodes == std::vector<Node*>{b});
  const auto outer = get_source_partitions(g, {"Block"});
  CHECK(outer.at("Block")[0].nodes == std::vector<Node*>{a, b});
  CHECK(outer.at("Block")[0].output_nodes == std::vector<Node*>{b});
}

TEST_CASE("a filter leaves out partitions that have a node it does not let through") {
  Lowered l;
  Node *x = l.graph.placeholder("x"), *first = l.linear("a", x);
  l.graph.output(l.linear("b", first));
  const auto found = get_source_partitions(l.graph, {"Linear"}, [&](const Node& node) { return &node != first; });
  CHECK(names_of(found.at("Linear")) == std::vector<std::string>{"b"});
  CHECK(get_source_partitions(l.graph, {"Linear"}, [](const Node&) { return false; }).empty());
}
