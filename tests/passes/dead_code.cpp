// Removal of dead code: what is unused goes, what others can see stays.
#include "fxx/passes/dead_code.hpp"

#include <doctest/doctest.h>

#include "fxx/ops/operation.hpp"
#include "fxx/ops/registry.hpp"
#include "fxx/passes/merge_equal.hpp"
#include "fxx/trace/symbolic.hpp"
#include "graph_text.hpp"
#include "listed_owner.hpp"
#include "support.hpp"

using namespace fxx;
using test::body_of;

namespace {
/// What is left of a traced function.
template <class F>
std::string alive(F f) {
  Graph g = symbolic_graph(f);
  const std::size_t before = g.size(), erased = eliminate_dead_code(g);
  g.lint();
  CHECK(g.size() + erased == before);
  CHECK(eliminate_dead_code(g) == 0);
  return body_of(g);
}
template <class F>
std::string read(F f) {
  Graph g = symbolic_graph(f);
  erase_unread_memory(g);
  g.lint();
  return body_of(g);
}
}  // namespace

TEST_CASE("unused values go, and what only they used; inputs and the output stay") {
  CHECK(alive([](auto x) {
          x.relu().neg().chunk(2)[1].abs();
          return x.tanh();
        }) == "tanh = .tanh(%x)\nreturn %tanh\n");
  Graph g = symbolic_graph([](auto x, auto) { return x; });
  CHECK(eliminate_dead_code(g) == 0);
  CHECK(g.size() == 3);
  Graph no_output;
  no_output.call_function(ops::relu, {no_output.placeholder("x")});
  CHECK(eliminate_dead_code(no_output) == 1);
}

TEST_CASE("mutations that others can see stay, whichever way they are spelled") {
  CHECK(alive([](auto x) {
          x.mul_(2);
          return x;
        }) == "mul_ = .mul_(%x, 2)\nreturn %x\n");
  CHECK(alive([](auto x) {
          functional::relu_(x);
          return x;
        }) == "relu_ = aten::relu_(%x)\nreturn %x\n");
  CHECK(alive([](auto x) {
          x[0] = 1;
          return x;
        }) == "getitem = operator::getitem(%x, 0)\nfill_ = .fill_(%getitem, 1)\nreturn %x\n");
  CHECK(alive([](auto x) {  // of a view of a temporary that is returned
          auto y = x + 1;
          y.view({-1}).mul_(2);
          return y;
        }) == "add = aten::add.Scalar(%x, 1)\nview = .view(%add, [-1])\nmul_ = .mul_(%view, 2)\nreturn %add\n");
}

TEST_CASE("a mutation of a temporary that nobody reads is as dead as its result") {
  CHECK(alive([](auto x) {
          (x + 1).relu_().mul_(2);
          return x;
        }) == "return %x\n");
}

TEST_CASE("random calls, training statistics and unknown modules stay") {
  CHECK(alive([](auto x) {
          functional::rand_like(x);
          functional::dropout(x, 0.5, true);
          return x;
        }) == "rand_like = aten::rand_like(%x)\ndropout = aten::dropout(%x, 0.5, True)\nreturn %x\n");
  Graph g;
  Node *x = g.placeholder("x"), *s = g.get_attr("statistics");
  g.call_function(ops::batch_norm, {x, {}, {}, s, s, true, 0.1, 1e-5, false});
  g.call_function(ops::batch_norm, {x, {}, {}, s, s, false, 0.1, 1e-5, false});
  g.call_module("unknown", {x});
  g.call_method("unknown_", {x});
  g.call_method("unknown", {x});
  g.call_function(register_function("tests::passes::effect", {}, true), {x});
  g.call_function(register_function("tests::passes::pure"), {x});
  g.output(x);
  CHECK(eliminate_dead_code(g) == 3);
  CHECK(g.size() == 7);
}

TEST_CASE("methods of objects that a module holds stay") {
  test::ListedOwner owner;
  owner.add(ModuleInfo{.name = "object", .type = "nn::ScriptObject", .construct = {}, .operation = nullptr, .parts = {}});
  Graph g;
  g.set_owning_module(&owner);
  Node *x = g.placeholder("x"), *object = g.get_attr("object");
  g.call_method("log", {object, x});
  g.call_method("unknown", {x, object});
  g.output(x);
  CHECK(eliminate_dead_code(g) == 1);
  CHECK(g.size() == 4);
}

TEST_CASE("a leaf module is as pure as the operator that its owner says it is") {
  test::ListedOwner owner;
  ModuleInfo relu{.name = "relu",
                  .type = "torch::nn::ReLU",
                  .construct = {},
                  .operation = &ops::relu.info(),
                  .parts = {test::input()}};
  owner.add(relu);
  relu.name = "in_place";
  relu.operation = &ops::relu_.info();
  owner.add(relu);
  owner.add(ModuleInfo{.name = "opaque", .type = "Own", .construct = {}});
  Graph g;
  Node* x = g.placeholder("x");
  for (const char* name : {"relu", "in_place", "opaque"}) g.call_module(name, {x});
  g.output(x);
  g.set_owning_module(&owner);
  CHECK(eliminate_dead_code(g) == 1);
  CHECK(body_of(g) == "in_place = in_place(%x)\nopaque = opaque(%x)\nreturn %x\n");
}

TEST_CASE("the caller may keep more") {
  Graph g = symbolic_graph([](auto x) {
    x.relu();
    x.neg();
    return x;
  });
  CHECK(eliminate_dead_code(g, [](const Node& n) { return n.name() == "neg"; }) == 1);
  CHECK(body_of(g) == "neg = .neg(%x)\nreturn %x\n");
}

TEST_CASE("what draws random numbers stays, unless the caller says that it may go") {
  const auto graph = [] {
    return symbolic_graph([](auto x) {
      bernoulli(x);
      dropout(x, 0.5, true);
      dropout(x, 0.5, false);
      empty_like(x).uniform_();
      return rand_like(x);
    });
  };
  Graph kept = graph(), erased = graph();
  CHECK(eliminate_dead_code(kept) == 1);
  CHECK(kept.size() == erased.size() - 1);
  CHECK(eliminate_dead_code(erased, false) == 5);
  CHECK(body_of(erased).starts_with("rand_like = "));
}

TEST_CASE("what is called for its effect stays, and is not merged") {
  const Operator &log = register_operator("dead_code::log(Tensor x) -> ()"),
                 &reduce = register_operator("_c10d_functional::tests_reduce(Tensor x) -> Tensor");
  Graph g;
  Node* x = g.placeholder("x");
  for (int i = 0; i < 2; ++i) {
    g.call_function(log, {x});
    g.call_function(reduce, {x});
    g.call_function(ops::relu, {x});
  }
  g.output(x);
  CHECK(merge_equal(g) == 0);
  CHECK(eliminate_dead_code(g) == 2);
  CHECK(eliminate_dead_code(g, false) == 0);
  CHECK(g.size() == 6);
}

TEST_CASE("equal calls are merged across an effect that is none on memory, and not across one that may be") {
  const auto merged = [](const char* schema) {
    Graph g;
    Node *x = g.placeholder("x"), *first = g.call_function(ops::relu, {x});
    g.call_function(register_operator(schema), {first});
    g.output(g.call_function(ops::add_Tensor, {first, g.call_function(ops::relu, {x})}));
    return merge_equal(g);
  };
  CHECK(merged("dead_code::log(Tensor x) -> ()") == 1);
  CHECK(merged("dead_code::store(Tensor x, __torch__.torch.classes.dead_code.Cache? c=None) -> ()") == 0);
}

TEST_CASE("a broken graph is refused before anything is erased") {
  Graph g = symbolic_graph([](auto x) {
    x.abs();
    return x.relu().neg();
  });
  Node* neg = g.output_node()->arg(0).node();
  neg->append(neg->arg(0).node());
  const std::size_t size = g.size();
  CHECK(test::fault_of<GraphError>([&] { eliminate_dead_code(g); }).id == 104);
  CHECK(g.size() == size);
}

TEST_CASE("memory that is written and never read goes, with its views") {
  CHECK(read([](auto x) {
          auto y = functional::zeros_like(x);
          y.view({-1}).fill_(1);
          y[0] = x;
          return x;
        }) == "return %x\n");
  CHECK(read([](auto x) {  // what is written into it is read, but not changed
          auto y = functional::zeros_like(x);
          y.copy_(x);
          return x;
        }) == "return %x\n");
}

TEST_CASE("memory that somebody reads stays, and so does what it is written to") {
  const auto stays = [](auto f) {
    const Graph before = symbolic_graph(f);
    return read(f) == body_of(before);
  };
  CHECK(stays([](auto x) {
    auto y = functional::zeros_like(x);
    y.fill_(1);
    return y;
  }));
  CHECK(stays([](auto x) {
    auto y = functional::zeros_like(x);
    y.view({-1}).fill_(1);
    return y.sum();
  }));
  CHECK(stays([](auto x) {  // through a part of it
    auto y = functional::zeros_like(x);
    y[0] = x;
    y[1].fill_(2);
    return y;
  }));
  CHECK(stays([](auto x) {  // written into memory that others see
    auto y = functional::zeros_like(x);
    y.fill_(1);
    x.copy_(y);
    return x;
  }));
  CHECK(stays([](auto x) {
    x.fill_(1);
    return 0;
  }));
}
