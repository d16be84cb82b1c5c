// Which nodes are interpreted together, and in which order a graph then runs.
#include "fxx/passes/regions.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "fxx/ops/effects.hpp"
#include "fxx/ops/operation.hpp"
#include "graph_text.hpp"
#include "support.hpp"

using namespace fxx;
using test::fault_of;
using test::text_of;

namespace {

/// A graph of tensors of four floats, and of values of unknown sizes.
struct Net {
  Graph graph;
  std::unordered_set<const Node*> unknown;

  Node* sized(Node* node) {
    node->set_tensor_meta({.shape = {4}, .stride = {1}, .dtype = Dtype::float32});
    return node;
  }
  Node* input(std::string_view name) { return sized(graph.placeholder(name)); }
  Node* call(const Operator& op, std::vector<Argument> args) { return sized(graph.call_function(op, std::move(args))); }
  Node* unknown_call(const Operator& op, std::vector<Argument> args) {
    Node* node = graph.call_function(op, std::move(args));
    unknown.insert(node);
    return node;
  }
  /// "x gt | nonzero sum | relu output": regions between bars.
  std::string gathered() {
    const std::vector<Region> regions = gather_regions(graph, unknown);
    graph.lint();
    std::map<const Node*, std::size_t> of;
    for (std::size_t i = 0; i < regions.size(); ++i) {
      CHECK(regions[i].nodes.size() == regions[i].reasons.size());
      for (const Node* node : regions[i].nodes) CHECK(of.emplace(node, i + 1).second);
    }
    std::string text;
    std::size_t before = 0, seen = 0;
    for (const Node* node : graph.nodes()) {
      const auto found = of.find(node);
      const std::size_t now = found == of.end() ? 0 : found->second;
      if (now != before) {
        text += text.empty() ? "| " : " | ";
        if (now) CHECK(++seen == now);  // each stands together, in order
      } else if (!text.empty()) {
        text += " ";
      }
      text += node->name();
      before = now;
    }
    CHECK(seen == regions.size());
    return text;
  }
};

}  // namespace

TEST_CASE("where all sizes are known there is no region, and nothing moves") {
  Net net;
  Node *x = net.input("x"), *pair = net.graph.call_function(ops::split_Tensor, {x, 2});
  net.graph.output(net.call(ops::operator_getitem, {pair, 1}));
  const std::string text = text_of(net.graph);
  const std::uint64_t version = net.graph.version();
  CHECK(net.gathered() == "x split getitem output");
  CHECK(text_of(net.graph) == text);
  CHECK(net.graph.version() == version);
  Graph empty;
  CHECK(gather_regions(empty, {}).empty());
}

TEST_CASE("what has unknown sizes and what reads it are one region, between what it needs and what needs it") {
  Net net;
  Node *x = net.input("x"), *mask = net.call(ops::gt_Scalar, {x, 0});
  Node *chosen = net.unknown_call(ops::masked_select, {x, mask}), *doubled = net.unknown_call(ops::exp, {chosen});
  Node *sum = net.call(ops::sum, {doubled}), *after = net.call(ops::mul_Tensor, {x, sum});
  Node* other = net.call(ops::tanh, {x});
  net.graph.output(Argument::tuple({after, other, doubled}));
  CHECK(net.gathered() == "x gt tanh | masked_select exp sum | mul output");
  Net again;
  again.graph = std::move(net.graph);
  again.unknown = net.unknown;
  const std::vector<Region> regions = gather_regions(again.graph, again.unknown);
  REQUIRE(regions.size() == 1);
  CHECK(regions[0].reasons == std::vector<std::string>{"its sizes depend on elements", "its sizes depend on elements",
                                                       "reads 'exp', whose sizes depend on elements"});
}

TEST_CASE("regions that do not need each other are one, those that need a kernel in between are two") {
  Net net;
  Node *x = net.input("x"), *y = net.input("y");
  Node* first = net.unknown_call(ops::nonzero, {x});
  Node* count = net.call(ops::sum, {first});
  Node* between = net.call(ops::relu, {net.call(ops::mul_Tensor, {y, count})});
  Node* beside = net.unknown_call(ops::nonzero, {net.call(ops::tanh, {y})});
  Node* second = net.unknown_call(ops::masked_select, {between, between});
  // Reads what the first region gave past the kernels in between.
  Node* both = net.unknown_call(ops::cat, {Argument::list({first, second, beside})});
  net.graph.output(Argument::tuple({net.call(ops::relu, {net.call(ops::sum, {both})}), first}));
  CHECK(net.gathered() == "x y tanh | nonzero sum nonzero_1 | mul relu | masked_select cat sum_1 | relu_1 output");
}

TEST_CASE("values that are no tensors do not leave a region; those that are taken apart are no reason for one") {
  {
    Net net;  // known, but a list, and read as a whole by what has unknown sizes
    Node *x = net.input("x"), *parts = net.graph.call_function(ops::split_Tensor, {x, 2});
    Node* part = net.call(ops::operator_getitem, {parts, 0});
    Node *chosen = net.unknown_call(ops::nonzero, {x}), *mixed = net.unknown_call(ops::index_Tensor, {chosen, parts});
    net.graph.output(Argument::tuple({net.call(ops::relu, {part}), mixed}));
    CHECK(net.gathered() == "x | split getitem nonzero index | relu output");
  }
  {
    Net net;  // known sizes, of what a region computes
    Node *x = net.input("x"), *chosen = net.unknown_call(ops::nonzero, {x});
    Node* best = net.graph.call_function(ops::topk, {chosen, 2});
    net.graph.output(net.call(ops::relu, {net.call(ops::operator_getitem, {best, 0})}));
    CHECK(net.gathered() == "x | nonzero topk getitem | relu output");
  }
  {
    Net net;  // used as a whole, and returned as a whole
    Node *x = net.input("x"), *parts = net.graph.call_function(ops::split_Tensor, {net.call(ops::exp, {x}), 2});
    Node* joined = net.call(ops::cat, {parts});
    net.graph.output(net.call(ops::relu, {joined}));
    CHECK(net.gathered() == "x exp | split cat | relu output");
    Net returned;
    Node* list = returned.graph.call_function(ops::split_Tensor, {returned.input("x"), 2});
    returned.graph.output(list);
    CHECK(returned.gathered() == "x | split | output");
  }
}

TEST_CASE("random numbers are drawn in the order of the graph") {
  Net net;
  Node *x = net.input("x"), *chosen = net.unknown_call(ops::nonzero, {x});
  Node* first = net.unknown_call(ops::rand_like, {chosen});
  Node* second = net.call(ops::rand_like, {x});
  Node* third = net.unknown_call(ops::rand_like, {first});
  Node* fourth = net.call(ops::bernoulli, {x});
  Node* dropped = net.unknown_call(ops::dropout, {chosen, 0.5, false});  // draws none
  net.graph.output(Argument::tuple({third, second, fourth, dropped}));
  CHECK(net.gathered() == "x | nonzero rand_like dropout | rand_like_1 | rand_like_2 | bernoulli output");
}

TEST_CASE("writes to memory keep their place among reads, in regions and outside") {
  Net net;
  Node *x = net.input("x"), *chosen = net.unknown_call(ops::nonzero, {x}), *sum = net.call(ops::sum, {chosen});
  Node* before = net.call(ops::exp, {x});
  net.call(ops::add__Tensor, {x, sum});
  Node* read = net.call(ops::exp, {x});
  Node* in_region = net.unknown_call(ops::masked_select, {x, chosen});
  net.call(ops::masked_scatter_, {x, in_region, in_region});
  Node* last = net.unknown_call(ops::masked_select, {x, chosen});
  net.graph.output(Argument::tuple({before, read, in_region, last, net.call(ops::exp, {x})}));
  CHECK(net.gathered() ==
        "x exp | nonzero sum | add_ exp_1 | masked_select masked_scatter_ masked_select_1 | exp_2 output");
}

TEST_CASE("where a value of a region may share memory that is written to elsewhere, all is one region") {
  const auto shares = [](bool view, bool returned, bool written) {
    Net net;
    Node *x = net.input("x"), *chosen = net.unknown_call(ops::nonzero, {x});
    Node* part = view ? net.unknown_call(ops::slice_Tensor, {x, 0, 0, chosen})
                      : net.unknown_call(ops::masked_select, {x, chosen});
    Node* product = net.unknown_call(ops::exp, {part});
    Node* next = net.call(ops::relu, {x});
    if (written) net.call(ops::copy_, {x, next});
    net.graph.output(Argument::tuple({returned ? part : product, next}));
    return net.gathered();
  };
  CHECK(shares(true, true, true) == "x | nonzero slice_1 exp relu copy_ | output");
  CHECK(shares(false, true, true) == "x relu | nonzero masked_select exp | copy_ output");
  CHECK(shares(true, false, true) == "x relu | nonzero slice_1 exp | copy_ output");  // does not leave the region
  CHECK(shares(true, true, false) == "x relu | nonzero slice_1 exp | output");
  {
    Net net;  // what was written to before may be shared
    Node* x = net.input("x");
    net.call(ops::add__Tensor, {x, 1});
    Node* chosen = net.unknown_call(ops::nonzero, {x});
    net.graph.output(net.unknown_call(ops::slice_Tensor, {x, 0, 0, chosen}));
    CHECK(net.gathered() == "x add_ | nonzero slice_1 | output");
  }
  {
    Net net;  // what is written to in a region and given back as it is
    Node *x = net.input("x"), *chosen = net.unknown_call(ops::nonzero, {x});
    Node* same = net.call(ops::masked_scatter_, {x, chosen, chosen});
    net.call(ops::add__Tensor, {x, 1});
    net.graph.output(net.call(ops::exp, {same}));
    CHECK(net.gathered() == "x | nonzero masked_scatter_ | add_ exp output");
  }
}

TEST_CASE("what a node writes to and gives back") {
  Net net;
  Node *x = net.input("x"), *y = net.input("y");
  CHECK(written_operand(*net.call(ops::add__Tensor, {x, y})) == x);
  CHECK(written_operand(*net.call(ops::add_Tensor, {x, y})) == nullptr);
  CHECK(written_operand(*x) == nullptr);
  CHECK(written_operand(*net.unknown_call(ops::add__Tensor, {x, y})) == nullptr);
  Node* turned = net.graph.call_function(ops::t_, {x});
  turned->set_tensor_meta({.shape = {2, 2}, .stride = {1, 2}, .dtype = Dtype::float32});
  CHECK(written_operand(*turned) == nullptr);
}

TEST_CASE("nodes as a graph of their own") {
  Graph g;
  Node *x = g.placeholder("x"), *w = g.get_attr("w"), *layer = g.get_attr("layer");
  x->set_tensor_meta({.shape = {4}, .stride = {1}, .dtype = Dtype::float32});
  Node *sum = g.call_function(ops::add_Tensor, {x, w}), *more = g.call_function(ops::mul_Tensor, {sum, x});
  Node* called = g.call_method("apply", {layer, more});
  Node* last = g.call_function(ops::relu, {called});
  g.output(last);
  const std::vector<const Node*> nodes = {more, called}, inputs = {sum, x}, outputs = {called, more};
  const Graph part = graph_of(nodes, inputs, outputs);
  part.lint();
  CHECK(text_of(part) ==
        "input add\ninput x\nmul = aten::mul.Tensor(%add, %x)\nlayer = attribute layer\n"
        "apply = .apply(%layer, %mul)\nreturn (%apply, %mul)\n");
  CHECK(part.nodes().front()->tensor_meta() == nullptr);
  REQUIRE(part.nodes().front()->next()->tensor_meta());
  CHECK(part.nodes().front()->next()->tensor_meta()->shape == std::vector<std::int64_t>{4});
  CHECK(text_of(graph_of(std::vector<const Node*>{}, {}, {})) == "return ()\n");
}

TEST_CASE("random graphs: each region stands together, what reads unknown values is in one, all order is kept") {
  for (std::uint64_t seed = 0; seed < static_cast<std::uint64_t>(test::repeats(400, 60)); ++seed) {
    CAPTURE(seed);
    test::Random random(seed);
    Net net;
    std::vector<Node*> values = {net.input("x"), net.input("y")};
    std::vector<std::string> effects;  // in order
    const bool writes = random.chance(3);
    for (int i = 0; i < 30; ++i) {
      Node *a = values[random.below(values.size())], *b = values[random.below(values.size())];
      const bool reads = net.unknown.contains(a) || net.unknown.contains(b);
      Node* made = nullptr;
      if (random.chance(6)) made = net.unknown_call(ops::nonzero, {a});
      else if (random.chance(8)) made = reads ? net.unknown_call(ops::rand_like, {a}) : net.call(ops::rand_like, {a});
      else if (writes && random.chance(8)) made = net.call(ops::add__Tensor, {values[random.below(2)], b});
      else if (random.chance(4)) made = net.call(ops::sum, {a});
      else
        made =
            reads && !random.chance(3) ? net.unknown_call(ops::add_Tensor, {a, b}) : net.call(ops::add_Tensor, {a, b});
      if (is_barrier(*made) || draws_numbers(*made)) effects.emplace_back(made->name());
      values.push_back(made);
    }
    net.graph.output(Argument::tuple({values.back(), values[values.size() / 2]}));
    net.gathered();
    std::vector<std::string> now;
    for (const Node* node : net.graph.nodes())
      if (is_barrier(*node) || draws_numbers(*node)) now.emplace_back(node->name());
    CHECK(now == effects);
    // A second look finds the same regions, and moves nothing.
    const std::string text = text_of(net.graph);
    net.gathered();
    CHECK(text_of(net.graph) == text);
  }
}
