// Transformer: a graph from a graph, node by node.
#include "fxx/trace/transformer.hpp"

#include <doctest/doctest.h>

#include "fxx/ops/operation.hpp"
#include "fxx/ops/registry.hpp"
#include "trace/recorded.hpp"

using namespace fxx;
using test::body_of;
using test::fault_of;
using test::text_of;

namespace {

Graph rich() {
  Graph g = symbolic_graph(
      [](auto x, auto scale) {
        const auto stage = annotate({{"stage", 1}});
        const ModuleScope block("block", "Block");
        const auto [values, indices] = topk(x.sigmoid(), 3);
        const auto scaled = values * scale;  // in statements: compilers differ in the order of arguments
        const auto viewed = x.view({x.size(0), -1});
        return std::tuple(scaled, std::vector{indices, viewed});
      },
      concrete_args(input("x"), input("scale", PH_NUMBER.with_default(2.0))));
  for (Node* node : g.nodes()) node->set_type("torch::Tensor");
  g.nodes().front()->set_tensor_meta({.shape = {2, 3}, .stride = {3, 1}});
  g.nodes().front()->meta().stack_trace = "main() at a.cpp:1";
  g.nodes().front()->rename("image");
  return g;
}

}  // namespace

TEST_CASE("without overrides the same graph comes out, with all that was noted") {
  const Graph g = rich();
  const Graph same = Transformer(g).transform();
  same.lint();
  CHECK(same_structure(g, same));
  CHECK(to_string(g) == to_string(same));
  for (auto a = g.nodes().begin(), b = same.nodes().begin(); a != g.nodes().end(); ++a, ++b) {
    CAPTURE(format_node(**a));
    CHECK((*a)->type() == (*b)->type());
    CHECK((*a)->module_stack() == (*b)->module_stack());
    CHECK((*a)->location().line() == (*b)->location().line());
    CHECK((*a)->operation() == (*b)->operation());
    CHECK((*a)->meta().custom.size() == (*b)->meta().custom.size());
  }
  REQUIRE(same.nodes().front()->tensor_meta());
  CHECK(*same.nodes().front()->tensor_meta() == *g.nodes().front()->tensor_meta());
  CHECK(same.nodes().front()->meta().stack_trace == "main() at a.cpp:1");
  CHECK(same.tracer() == g.tracer());
  CHECK(to_string(Transformer(Graph(same)).transform()) == to_string(g));
}

TEST_CASE("containers stay the inputs that they are") {
  const Graph g = symbolic_graph([](const std::vector<Proxy>& xs) { return cat(xs); },
                                 concrete_args(input("xs", std::vector{PH, PH})));
  const Graph same = Transformer(g).transform();
  REQUIRE(same.signature());
  CHECK(*same.signature() == *g.signature());
}

TEST_CASE("overrides record something else, which takes over what was noted of the old node") {
  struct Swap : Transformer {
    using Transformer::Transformer;
    int placeholders = 0;
    Argument placeholder(const Placeholder& op, Arguments args) override {
      ++placeholders;
      return Transformer::placeholder(op, args);
    }
    Argument call_method(const CallMethod& op, Arguments args, KeywordArguments kwargs) override {
      if (op.target == "sigmoid") return (-proxy(args.span()[0]).tanh()).node();
      if (op.target == "view") return args.span()[0];  // drops it
      return Transformer::call_method(op, args, kwargs);
    }
    Argument output(const Output&, Arguments args) override { return args.span()[0].items()[1]; }
  };
  const Graph g = rich();
  Swap swap(g);
  const Graph swapped = swap.transform();
  swapped.lint();
  CHECK(swap.placeholders == 2);
  CHECK(body_of(swapped) ==
        "tanh = .tanh(%image)\nneg = aten::neg(%tanh)\ntopk = aten::topk(%neg, 3)\n"
        "getitem = operator::getitem(%topk, 0)\nmul = aten::mul.Scalar(%getitem, %scale)\nsize = .size(%image, 0)\n"
        "getitem_1 = operator::getitem(%topk, 1)\nreturn [%getitem_1, %image]\n");
  const Node* neg = swapped.find_nodes(Opcode::call_function)[0];
  CHECK(neg->module_stack().text() == "block");
  REQUIRE(neg->meta().custom.size() == 1);
  CHECK(neg->meta().custom[0].first == "stage");
  CHECK(neg->location().line() == g.find_nodes(Opcode::call_method)[0]->location().line());
  CHECK(neg->type().empty());  // of another value nothing is known
}

TEST_CASE("a method that an override gives other arguments is the overload that takes these") {
  struct Other : Transformer {
    using Transformer::Transformer;
    Argument call_method(const CallMethod& op, Arguments args, KeywordArguments kwargs) override {
      if (op.target == "max") return Transformer::call_method(op, {args.span()[0]}, {});
      if (op.target == "sum") return Transformer::call_method(op, {args.span()[0], Argument::list({1})}, {});
      return Transformer::call_method(op, args, kwargs);
    }
  };
  Graph g = symbolic_graph([](auto x) {
    const auto total = x.sum(), mean = x.mean(1);
    const auto [values, indices] = x.max(1);
    return std::tuple(total, mean, values);
  });
  for (Node* node : g.find_nodes(Opcode::call_method)) node->set_tensor_meta({.shape = {}, .stride = {}});
  const Graph changed = Other(g).transform();
  changed.lint();
  const auto methods = changed.find_nodes(Opcode::call_method), before = g.find_nodes(Opcode::call_method);
  REQUIRE(methods.size() == 3);
  CHECK(operator_of(*methods[0])->name == "aten::sum.dim_IntList");
  CHECK(operator_of(*methods[1]) == operator_of(*before[1]));
  CHECK(operator_of(*methods[2])->name == "aten::max");
  CHECK_FALSE(methods[0]->tensor_meta());
  CHECK(methods[1]->tensor_meta());
}

TEST_CASE("a graph is recorded within a trace, with values for its inputs, inside of the module that it is") {
  const Graph block = symbolic_graph(
      [](auto x, auto scale) {
        const ModuleScope inner("fc", "Linear");
        return std::tuple(relu(x) * scale, x);
      },
      concrete_args(input("x"), input("scale", PH_NUMBER.with_default(2.0))));
  const Graph g = symbolic_graph([&](auto x) {
    const ModuleScope outer("block", "Block", 1);
    const Argument given[] = {relu(x).node()};
    const Argument result = Transformer(block).inline_into(x.tracer(), given);
    return from_argument<std::tuple<Proxy, Proxy>>(x.tracer(), result);
  });
  g.lint();
  CHECK(body_of(g) ==
        "relu = aten::relu(%x)\nrelu_1 = aten::relu(%relu)\nmul = aten::mul.Scalar(%relu_1, 2.0)\nreturn (%mul, "
        "%relu)\n");
  std::vector<std::string> stacks;
  for (const Node* node : g.nodes()) stacks.push_back(node->module_stack().text());
  CHECK(stacks == std::vector<std::string>{"", "block@1", "block@1 > block.fc", "block@1 > block.fc", ""});

  Graph other;
  Tracer tracer(other);
  const Proxy y = tracer.placeholder("y");
  const Argument many[] = {y.node(), 1, 2};
  CHECK(fault_of<TraceError>([&] { Transformer(block).inline_into(tracer, {}); }).says("input 'x' is missing"));
  CHECK(fault_of<TraceError>([&] {
          Transformer(block).inline_into(tracer, many);
        }).says("3 inputs were given; the graph takes 2"));
}
