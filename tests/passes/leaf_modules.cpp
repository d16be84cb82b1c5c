// Calls of leaf modules turned into operators and back.
#include "fxx/passes/leaf_modules.hpp"

#include <doctest/doctest.h>

#include "fxx/ops/operation.hpp"
#include "graph_text.hpp"
#include "listed_owner.hpp"

using namespace fxx;
using test::attribute_part;
using test::body_of;
using test::constant_part;
using test::input;
using test::ListedOwner;
using test::training_part;

namespace {

/// fc, conv (stride 2), conv2 (the same weights), bn, drop, relu: what a small net is made of.
ListedOwner net(bool training) {
  ListedOwner owner;
  const auto add = [&](std::string name, const Operator& op, std::vector<test::Part> parts) {
    owner.add(ModuleInfo{.name = std::move(name),
                         .type = {},
                         .construct = {},
                         .operation = &op,
                         .parts = std::move(parts),
                         .training = training});
  };
  add("fc", ops::linear, {input(), attribute_part("fc.weight"), attribute_part("fc.bias")});
  const Argument two = Argument::list({2, 2}), one = Argument::list({1, 1}), zero = Argument::list({0, 0});
  for (const char* name : {"conv", "conv2"})
    add(name, ops::conv2d,
        {input(), attribute_part("conv.weight"), constant_part({}),
         constant_part(std::string(name) == "conv" ? two : one), constant_part(zero), constant_part(one),
         constant_part(1)});
  add("bn", ops::batch_norm,
      {input(), attribute_part("bn.weight"), attribute_part("bn.bias"), attribute_part("bn.running_mean"),
       attribute_part("bn.running_var"), training_part(), constant_part(0.1), constant_part(1e-5),
       constant_part(true)});
  add("drop", ops::dropout, {input(), constant_part(0.5), training_part()});
  add("relu", ops::relu, {input()});
  owner.add(ModuleInfo{.name = "opaque", .type = {}, .construct = {}});
  for (const char* name :
       {"fc.weight", "fc.bias", "conv.weight", "bn.weight", "bn.bias", "bn.running_mean", "bn.running_var"})
    owner.add(
        AttributeInfo{.name = name, .kind = AttributeInfo::Kind::parameter, .meta = {.shape = {3}, .stride = {1}}});
  return owner;
}
Graph calls(std::vector<const char*> modules) {
  Graph g;
  Node* x = g.placeholder("x");
  for (const char* m : modules) x = g.call_module(m, {x});
  g.output(x);
  return g;
}

}  // namespace

TEST_CASE("a call becomes the operator, without what is its default, under the same name, with shapes of its weights") {
  const ListedOwner owner = net(false);
  Graph g = calls({"conv", "bn", "drop", "relu", "opaque", "fc"});
  const std::vector<Node*> before = g.nodes().snapshot();
  CHECK(expand_modules(g, owner) == 5);
  g.lint();
  CHECK(body_of(g) == R"(conv_weight = attribute conv.weight
conv = aten::conv2d(%x, %conv_weight, None, [2, 2])
bn_weight = attribute bn.weight
bn_bias = attribute bn.bias
bn_running_mean = attribute bn.running_mean
bn_running_var = attribute bn.running_var
bn = aten::batch_norm(%conv, %bn_weight, %bn_bias, %bn_running_mean, %bn_running_var, False, 0.1, 1e-05, True)
drop = aten::dropout(%bn, 0.5, False)
relu = aten::relu(%drop)
opaque = opaque(%relu)
fc_weight = attribute fc.weight
fc_bias = attribute fc.bias
fc = aten::linear(%opaque, %fc_weight, %fc_bias)
return %fc
)");
  for (Node* n : before) CHECK_FALSE(n->is_erased());
  REQUIRE(before[1]->arg(1).node()->tensor_meta());
  CHECK(before[1]->arg(1).node()->tensor_meta()->shape == std::vector<std::int64_t>{3});
}

TEST_CASE("what depends on the training flag is taken as it is now") {
  Graph g = calls({"drop"});
  expand_modules(g, net(true));
  CHECK(body_of(g) == "drop = aten::dropout(%x, 0.5, True)\nreturn %drop\n");
}

TEST_CASE("calls in a form that the operator has not stay") {
  const ListedOwner owner = net(false);
  Graph g;
  Node* x = g.placeholder("x");
  g.call_module("fc", {x, x});
  g.call_module("relu", {}, {{"input", x}});
  g.call_module("nobody", {x});
  g.output(x);
  CHECK(expand_modules(g, owner) == 0);
}

TEST_CASE("there and back again gives the same graph") {
  const ListedOwner owner = net(false);
  Graph g = calls({"conv", "bn", "drop", "relu", "opaque", "fc", "fc"});
  const std::string before = body_of(g);
  const auto parameterless = parameterless_calls(g, owner);
  CHECK(parameterless == std::map<std::string, std::string, std::less<>>{{"drop", "drop"}, {"relu", "relu"}});
  CHECK(expand_modules(g, owner) == 6);
  CHECK(reroll_modules(g, owner, parameterless) == 6);
  g.lint();
  CHECK(body_of(g) == before);
}

TEST_CASE("without being told, modules without parameters stay operators") {
  const ListedOwner owner = net(false);
  Graph g = calls({"relu", "fc"});
  expand_modules(g, owner);
  CHECK(reroll_modules(g, owner) == 1);
  CHECK(body_of(g) == "relu = aten::relu(%x)\nfc = fc(%relu)\nreturn %fc\n");
}

TEST_CASE("an operator is a module's call only when all its arguments say so") {
  const ListedOwner owner = net(false);
  const auto rerolled = [&](auto make) {
    Graph g;
    Node *x = g.placeholder("x"), *w = g.get_attr("conv.weight");
    g.output(make(g, x, w));
    reroll_modules(g, owner);
    g.lint();
    return test::text_of(*g.output_node()->arg(0).node());
  };
  CHECK(rerolled([](Graph& g, Node* x, Node* w) { return g.call_function(ops::conv2d, {x, w, {}, 2}); }) == "conv(%x)");
  CHECK(rerolled([](Graph& g, Node* x, Node* w) { return g.call_function(ops::conv2d, {x, w}); }) == "conv2(%x)");
  CHECK(rerolled([](Graph& g, Node* x, Node* w) {
          return g.call_function(ops::conv2d, {x, w}, {{"stride", Argument::list({2, 2})}});
        }) == "conv(%x)");
  CHECK(rerolled([](Graph& g, Node* x, Node* w) {
          return g.call_function(ops::conv2d, {x, w, {}, 3});
        }) == "aten::conv2d(%x, %conv_weight, None, 3)");
  CHECK(rerolled([](Graph& g, Node* x, Node* w) {
          return g.call_function(ops::conv2d, {x, w, x});
        }) == "aten::conv2d(%x, %conv_weight, %x)");
  CHECK(rerolled([](Graph& g, Node* x, Node* w) {
          return g.call_function(ops::conv2d, {x, g.call_function(ops::relu, {w})});
        }) == "aten::conv2d(%x, %relu)");
}

TEST_CASE("a name that only says which operator it was gives way to the module's; attributes in use stay") {
  const ListedOwner owner = net(false);
  Graph g;
  Node *x = g.placeholder("x"), *w = g.get_attr("fc.weight"), *b = g.get_attr("fc.bias");
  Node* linear = g.call_function(ops::linear, {x, w, b});
  Node* mine = g.create_node(CallFunction{&ops::linear.info()}, {linear, w, b}, {}, "mine");
  g.output(Argument::list({mine, b}));
  CHECK(reroll_modules(g, owner) == 2);
  g.lint();
  CHECK(body_of(g) == "fc_bias = attribute fc.bias\nfc = fc(%x)\nmine = fc(%fc)\nreturn [%mine, %fc_bias]\n");
}

TEST_CASE("a batch norm in training counts its calls: the count goes into the call, and both together are the call") {
  ListedOwner owner;
  ModuleInfo bn = *net(true).find_module("bn");
  bn.counter = "bn.count";
  owner.add(bn);
  const auto traced = [](std::optional<int> added) {
    Graph g;
    Node *x = g.placeholder("x"), *count = g.get_attr("bn.count");
    if (added) g.call_function(ops::add__Scalar, {count, *added});
    std::vector<Argument> args = {x};
    for (const char* name : {"bn.weight", "bn.bias", "bn.running_mean", "bn.running_var"})
      args.push_back(g.get_attr(name));
    for (const Argument& constant : {Argument(true), Argument(0.1), Argument(1e-5), Argument(true)})
      args.push_back(constant);
    g.output(g.call_function(ops::batch_norm, args));
    return g;
  };
  Graph whole = traced(1);
  CHECK(reroll_modules(whole, owner) == 1);
  CHECK(body_of(whole) == "bn = bn(%x)\nreturn %bn\n");
  CHECK(expand_modules(whole, owner) == 0);
  for (const std::optional<int> added : {std::optional<int>(), std::optional(2)}) {
    Graph other = traced(added);
    CHECK(reroll_modules(other, owner) == 0);
  }
}

TEST_CASE("a norm with a flag of its own becomes no call of a module whose flag train() sets") {
  const ListedOwner owner = net(false);
  Graph g;
  std::vector<Argument> args = {g.placeholder("x")};
  for (const char* name : {"bn.weight", "bn.bias", "bn.running_mean", "bn.running_var"})
    args.push_back(g.get_attr(name));
  for (const Argument& constant : {Argument(false), Argument(0.1), Argument(1e-5), Argument(true)})
    args.push_back(constant);
  g.output(g.call_module("bn", {g.call_function(ops::batch_norm, args)}));
  const auto known = parameterless_calls(g, owner);
  CHECK(known == std::map<std::string, std::string, std::less<>>{{"batch_norm", ""}});
  CHECK(expand_modules(g, owner) == 1);
  CHECK(reroll_modules(g, owner, known) == 1);
  g.lint();
  CHECK(g.output_node()->arg(0).node()->opcode() == Opcode::call_module);
  CHECK(g.output_node()->arg(0).node()->arg(0).node()->opcode() == Opcode::call_function);
  CHECK(reroll_modules(g, owner) == 1);
}

TEST_CASE("norms and dropout of channels are one operator for inputs of as many dimensions as a batch has") {
  const auto owner_of = [](const char* type, const Operator& op, bool training) {
    ListedOwner owner;
    std::vector<test::Part> parts = {input()};
    if (op == ops::feature_dropout.info()) {
      parts.push_back(constant_part(0.5)), parts.push_back(training_part());
    } else {
      for (const char* name : {"m.weight", "m.bias", "m.running_mean", "m.running_var"})
        parts.push_back(attribute_part(name));
      parts.push_back(training_part());
      for (const Argument& constant : {Argument(0.1), Argument(1e-5), Argument(true)})
        parts.push_back(constant_part(constant));
    }
    owner.add(ModuleInfo{
        .name = "m", .type = type, .construct = {}, .operation = &op, .parts = std::move(parts), .training = training});
    return owner;
  };
  // 0: they are not known.
  const auto with_input = [](int dims) {
    Graph g = calls({"m"});
    if (dims)
      g.nodes().front()->set_tensor_meta(
          {.shape = std::vector<std::int64_t>(static_cast<std::size_t>(dims), 3), .stride = {}});
    return g;
  };
  const auto opens = [&](const char* type, const Operator& op, int dims, bool training) {
    const ListedOwner owner = owner_of(type, op, training);
    Graph g = with_input(dims);
    return expand_modules(g, owner) == 1;
  };
  const Operator &batch = ops::batch_norm.info(), &instance = ops::instance_norm.info(),
                 &dropout = ops::feature_dropout.info();
  for (const bool training : {false, true}) {
    CAPTURE(training);
    for (const auto& [type, dims] :
         {std::pair("torch::nn::InstanceNorm1d", 3), std::pair("torch::nn::InstanceNorm2d", 4),
          std::pair("torch::nn::InstanceNorm3d", 5)}) {
      CAPTURE(type);
      CHECK(opens(type, instance, dims, training));
      CHECK_FALSE(opens(type, instance, dims - 1, training));
      CHECK_FALSE(opens(type, instance, 0, training));
    }
    for (const auto& [type, dims] : {std::pair("torch::nn::Dropout2d", 4), std::pair("torch::nn::Dropout3d", 5)}) {
      CAPTURE(type);
      CHECK(opens(type, dropout, dims, training));
      CHECK(opens(type, dropout, dims - 1, training) == !training);
      CHECK(opens(type, dropout, 0, training) == !training);
    }
    CHECK(opens("torch::nn::BatchNorm2d", batch, 4, training));
    CHECK(opens("torch::nn::BatchNorm2d", batch, 0, training));
    CHECK_FALSE(opens("torch::nn::BatchNorm2d", batch, 2, training));
  }
  // And back.
  const auto closes = [&](const char* type, const Operator& op, int dims) {
    const ListedOwner any = owner_of("", op, false), owner = owner_of(type, op, false);
    Graph g = with_input(dims);
    REQUIRE(expand_modules(g, any) == 1);
    if (op == dropout) return reroll_modules(g, owner, {{"m", "m"}}) == 1;
    return reroll_modules(g, owner) == 1;
  };
  CHECK(closes("torch::nn::BatchNorm2d", batch, 4));
  CHECK(closes("torch::nn::BatchNorm2d", batch, 0));
  CHECK_FALSE(closes("torch::nn::BatchNorm2d", batch, 2));
  CHECK_FALSE(closes("torch::nn::InstanceNorm2d", instance, 3));
  CHECK(closes("torch::nn::Dropout3d", dropout, 5));
  CHECK_FALSE(closes("torch::nn::Dropout2d", dropout, 5));
}
