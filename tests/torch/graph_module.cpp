// A graph as a module: what LibTorch does with modules is done with it, edits are followed, the interpreter's functions
// are overridden, and what cannot work says what and where. One long file: each that includes LibTorch takes 20 s and
// 1.3 GB to compile.
#include <sstream>
#include <thread>

#include "fxx/ops/operation.hpp"
#include "fxx/ops/registry.hpp"
#include "torch/support.hpp"

using namespace fxx;
using namespace fxx::test;

namespace {

bool contains(const std::string& text, std::string_view part) { return text.find(part) != text.npos; }
/// What LibTorch says when `f` fails; empty when it does not.
template <class F>
std::string refusal_of(F&& f) {
  try {
    f();
  } catch (const c10::Error& e) {
    return e.what();
  }
  return {};
}
template <class M>
std::set<std::string> parameter_names(const M& module) {
  const auto keys = module.named_parameters().keys();
  return {keys.begin(), keys.end()};
}
template <class M>
std::set<std::string> buffer_names(const M& module) {
  const auto keys = module.named_buffers().keys();
  return {keys.begin(), keys.end()};
}

/// A module with all that a module may have: leaf modules at two depths, a parameter and a buffer
/// of its own, a submodule and a parameter that forward does not use.
struct BlockImpl : torch::nn::Module {
  torch::nn::Linear inner = register_module("inner", torch::nn::Linear(4, 4));
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(4));
  torch::Tensor forward(torch::Tensor x) { return torch::relu(norm(inner(x))); }
};
TORCH_MODULE(Block);
struct NetImpl : torch::nn::Module {
  torch::nn::Linear first = register_module("first", torch::nn::Linear(3, 4));
  Block block = register_module("block", Block());
  torch::nn::Linear unused = register_module("unused", torch::nn::Linear(2, 2));
  torch::nn::Linear last = register_module("last", torch::nn::Linear(4, 2));
  torch::Tensor scale = register_parameter("scale", torch::randn({4}));
  torch::Tensor idle = register_parameter("idle", torch::randn({4}));
  torch::Tensor shift = register_buffer("shift", torch::randn({4}));
  torch::Tensor forward(torch::Tensor x) { return last(block(first(x)) * scale + shift); }
};
TORCH_MODULE(Net);
/// One call of every opcode.
struct AllOpcodesImpl : torch::nn::Module {
  fxx::nn::Linear fc = register_module("fc", fxx::nn::Linear(3, 3));
  torch::Tensor weight = register_parameter("weight", torch::randn({3}));
  template <class T>
  T forward(T x) {
    return relu(fc(x) * weight).neg();
  }
};

// --- a module like others ------------------------------------------------------------------------------------------

TEST_CASE(
    "what the graph uses is shared with the module that was traced, under the same names; the rest is not taken") {
  Net net;
  net->eval();
  const auto gm = trace(net, {torch::randn({5, 3})});
  CHECK(parameter_names(*gm) == std::set<std::string>{"scale", "first.weight", "first.bias", "block.inner.weight",
                                                      "block.inner.bias", "block.norm.weight", "block.norm.bias",
                                                      "last.weight", "last.bias"});
  CHECK(buffer_names(*gm) == std::set<std::string>{"shift", "block.norm.running_mean", "block.norm.running_var",
                                                   "block.norm.num_batches_tracked"});
  for (const auto& item : gm->named_parameters()) {
    CAPTURE(item.key());
    CHECK(item.value().is_same(net->named_parameters()[item.key()]));
  }
  CHECK(gm->submodule("first").get() == net->first.get());
  CHECK(gm->submodule("block.norm").get() == net->block->norm.get());
  CHECK(gm->submodule("block.nothing") == nullptr);
  CHECK(gm->class_name().ends_with("Net"));
  // Written through the one, read through the other.
  const torch::NoGradGuard no_grad;
  net->first->weight.fill_(0.5);
  gm->attribute("scale").fill_(2);
  const auto x = torch::randn({5, 3});
  CHECK(same((*gm)(x), net(x)));
}

TEST_CASE("training: one step with the graph's parameters and with the module's, batch statistics included") {
  torch::manual_seed(11);
  Net net, twin;
  {
    const torch::NoGradGuard no_grad;
    for (const auto& item : net->named_parameters()) twin->named_parameters()[item.key()].copy_(item.value());
    twin->shift.copy_(net->shift);
  }
  net->train();
  const auto gm = trace(net, {torch::randn({5, 3})});
  // Tracing runs the module once, and that run updates its statistics as every other.
  CHECK(net->block->norm->num_batches_tracked.item<std::int64_t>() == 1);
  {
    const torch::NoGradGuard no_grad;
    for (const auto& item : net->named_buffers()) twin->named_buffers()[item.key()].copy_(item.value());
  }
  torch::optim::Adam by_graph(gm->parameters(), torch::optim::AdamOptions(0.1));
  torch::optim::Adam by_twin(twin->parameters(), torch::optim::AdamOptions(0.1));
  for (int step = 0; step < 3; ++step) {
    const auto x = torch::randn({6, 3}), y = torch::randn({6, 2});
    by_graph.zero_grad();
    torch::mse_loss((*gm)(x), y).backward();
    by_graph.step();
    by_twin.zero_grad();
    torch::mse_loss(twin(x), y).backward();
    by_twin.step();
  }
  for (const auto& item : net->named_parameters()) {
    CAPTURE(item.key());
    CHECK(difference(item.value(), twin->named_parameters()[item.key()]) < 1e-6);
  }
  for (const auto& item : net->named_buffers()) {
    CAPTURE(item.key());
    CHECK(difference(item.value(), twin->named_buffers()[item.key()]) < 1e-6);
  }
}

TEST_CASE("gradients of gradients, of inputs, and none under NoGradGuard or for frozen parameters") {
  const auto gm = trace([](torch::Tensor x) { return (x * x * x).sum(); }, {torch::randn({3})});
  const auto x = torch::tensor({1.0, 2.0, 3.0}, torch::kDouble).requires_grad_();
  const auto first = torch::autograd::grad({(*gm)(x)}, {x}, {}, std::nullopt, /*create_graph=*/true)[0];
  CHECK(difference(first, 3 * x * x) < 1e-12);
  CHECK(difference(torch::autograd::grad({first.sum()}, {x})[0], 6 * x) < 1e-12);
  Net net;
  net->first->weight.set_requires_grad(false);
  const auto traced = trace(net, {torch::randn({5, 3})});
  CHECK_FALSE(traced->attribute("first.weight").requires_grad());
  (*traced)(torch::randn({5, 3})).sum().backward();
  CHECK_FALSE(net->first->weight.grad().defined());
  CHECK(net->first->bias.grad().defined());
  const torch::NoGradGuard no_grad;
  CHECK_FALSE((*traced)(torch::randn({5, 3})).requires_grad());
}

TEST_CASE("it stands in Sequential, in AnyModule, in another module, in ModuleList") {
  Net net;
  net->eval();
  const auto x = torch::randn({5, 3});
  const auto expected = torch::tanh(net(x));
  const auto gm = trace(net, {x});
  torch::nn::Sequential sequential(gm, torch::nn::Tanh());
  CHECK(same(sequential->forward(x), expected));
  CHECK(sequential->named_parameters().contains("0.block.inner.weight"));
  torch::nn::AnyModule any(gm);
  CHECK(same(torch::tanh(any.forward(x)), expected));
  const auto two = trace([](torch::Tensor a, torch::Tensor b) { return a - b; }, {x, x});
  torch::nn::AnyModule any_two(two);
  CHECK(same(any_two.forward(x, x + x), x - (x + x)));

  struct Outer : torch::nn::Module {
    std::shared_ptr<GraphModule> body;
    explicit Outer(std::shared_ptr<GraphModule> b) : body(register_module("body", std::move(b))) {}
    torch::Tensor forward(torch::Tensor t) { return torch::tanh((*body)(t)); }
  } outer(gm);
  CHECK(same(outer.forward(x), expected));
  // A module that holds a graph is traced through it, to the names where the leaves are now.
  const auto again = trace(outer, {x});
  CHECK(called_modules(again->graph()) ==
        std::set<std::string>{"body.first", "body.block.inner", "body.block.norm", "body.last"});
  CHECK(same((*again)(x), expected));
  torch::nn::ModuleList list;
  list->push_back(gm);
  CHECK(same(torch::tanh(list[0]->as<GraphModule>()->forward(x)), expected));
}

TEST_CASE("saved and loaded: a file of the graph fits the graph, and the module that was traced") {
  Net net, other;
  net->eval(), other->eval();
  const auto x = torch::randn({5, 3});
  const auto gm = trace(net, {x}), loaded = trace(other, {x});
  REQUIRE_FALSE(same((*gm)(x), (*loaded)(x)));
  std::stringstream file;
  torch::save(gm, file);
  torch::load(loaded, file);
  CHECK(same((*loaded)(x), (*gm)(x)));
  CHECK(same(other(x), (*gm)(x)));  // which it shares its parameters with
  // The whole module's file has more than the graph takes; what the graph takes is there.
  std::stringstream whole;
  Net third;
  third->eval();
  torch::save(third, whole);
  torch::load(gm, whole);
  CHECK(same((*gm)(x), third(x)));
  // A constant that tracing met is a buffer, so it is in the file.
  const auto constant = torch::tensor({1.0f, 2.0f, 3.0f});
  const auto adds = trace([&](torch::Tensor t) { return t + constant; }, {x});
  const auto adds_other = trace([](torch::Tensor t) { return t + torch::tensor({7.0f, 8.0f, 9.0f}); }, {x});
  std::stringstream constants;
  torch::save(adds, constants);
  torch::load(adds_other, constants);
  CHECK(same((*adds_other)(x), x + constant));
}

TEST_CASE("a clone shares nothing: not the graph, not the parameters, not the training flag") {
  Net net;
  net->eval();
  const auto x = torch::randn({5, 3});
  const auto gm = trace(net, {x});
  const auto copy = std::dynamic_pointer_cast<GraphModule>(gm->clone());
  REQUIRE(copy);
  CHECK(copy->class_name() == gm->class_name());
  CHECK_FALSE(copy->is_training());
  CHECK(same((*copy)(x), net(x)));
  CHECK(parameter_names(*copy) == parameter_names(*gm));
  CHECK(buffer_names(*copy) == buffer_names(*gm));
  for (const auto& item : copy->named_parameters()) {
    CAPTURE(item.key());
    CHECK_FALSE(item.value().is_same(gm->attribute(item.key())));
    CHECK_FALSE(item.value().is_alias_of(gm->attribute(item.key())));
    CHECK(item.value().is_leaf());
    CHECK(item.value().requires_grad());
  }
  const auto before = (*gm)(x);
  {
    const torch::NoGradGuard no_grad;
    for (const auto& p : copy->parameters()) p.mul_(2);
  }
  Node* mul = copy->graph().find_nodes(Opcode::call_function)[0];
  for (Node* node : copy->graph().find_nodes(Opcode::call_function))
    if (*node->operation() == ops::mul_Tensor) mul = node;
  mul->set_op(CallFunction{&ops::sub_Tensor.info()});
  copy->train();
  CHECK(same((*gm)(x), before));
  CHECK_FALSE(gm->submodule("block.norm")->is_training());
  CHECK_FALSE(same((*copy)(x), before));
  // In a Sequential that is cloned, too.
  torch::nn::Sequential sequential(gm);
  const auto cloned_sequential = std::dynamic_pointer_cast<torch::nn::SequentialImpl>(sequential->clone());
  CHECK(same(cloned_sequential->forward(x), before));
  CHECK_FALSE(cloned_sequential->parameters()[0].is_same(sequential->parameters()[0]));
}

TEST_CASE("to(dtype) converts what the graph runs on, before and after the first call") {
  Net net;
  net->eval();
  const auto x = torch::randn({5, 3});
  const auto gm = trace(net, {x});
  const auto single = (*gm)(x);
  CHECK(gm->owner().find_attribute("first.weight")->meta.dtype == Dtype::float32);
  CHECK(gm->owner().find_attribute("first.weight")->meta.requires_grad);
  gm->to(torch::kDouble);
  net->first->weight.set_requires_grad(false);
  CHECK(gm->owner().find_attribute("first.weight")->meta.dtype == Dtype::float64);
  CHECK_FALSE(gm->owner().find_attribute("first.weight")->meta.requires_grad);
  const auto in_double = (*gm)(x.to(torch::kDouble));
  CHECK((in_double.scalar_type() == torch::kDouble));
  CHECK(difference(in_double, single.to(torch::kDouble)) < 1e-5);
  CHECK((net->first->weight.scalar_type() == torch::kDouble));  // the same parameters
  CHECK(same(in_double, net(x.to(torch::kDouble))));
  gm->to(torch::kFloat);
  CHECK(same((*gm)(x), single));
  const std::string text = refusal_of([&] { (*gm)(x.to(torch::kDouble)); });
  CHECK(contains(text, "While executing %first"));
}

TEST_CASE("train and eval reach the leaf modules that the graph calls, and those alone follow") {
  struct Drops : torch::nn::Module {
    fxx::nn::Dropout drop = register_module("drop", fxx::nn::Dropout(0.5));
    fxx::nn::BatchNorm1d norm = register_module("norm", fxx::nn::BatchNorm1d(3));
    Proxy forward(Proxy x) { return norm(drop(x)); }
  } module;
  const auto gm = symbolic_trace(module);
  CHECK(gm->is_training());
  gm->eval();
  CHECK_FALSE(module.drop->is_training());
  CHECK_FALSE(module.norm->is_training());
  const auto x = torch::randn({64, 3});
  CHECK(relative_difference((*gm)(x), x / std::sqrt(1 + 1e-5)) < 1e-6);
  gm->train();
  torch::manual_seed(5);
  const auto dropped = (*gm)(x);
  torch::manual_seed(5);
  const auto expected = torch::batch_norm(torch::dropout(x, 0.5, true), {}, {}, {}, {}, true, 0.1, 1e-5, false);
  CHECK(relative_difference(dropped, expected) < 1e-6);
  CHECK(module.norm->num_batches_tracked.item<std::int64_t>() == 1);
  // A module that is traced in eval mode gives a graph in eval mode.
  module.eval();
  CHECK_FALSE(symbolic_trace(module)->is_training());
}

// --- attributes and modules by name --------------------------------------------------------------------------------

TEST_CASE("modules that the graph does not call go; what is inside a leaf stays") {
  Net net;
  net->eval();
  const auto x = torch::randn({5, 3});
  const auto gm = trace(net, {x});
  CHECK(gm->add_submodule("extra.deep.linear", std::make_shared<torch::nn::LinearImpl>(2, 2)));
  CHECK_FALSE(gm->add_submodule("extra.deep.linear", std::make_shared<torch::nn::LinearImpl>(2, 2)));
  CHECK_FALSE(gm->add_submodule("scale", std::make_shared<torch::nn::LinearImpl>(2, 2)));
  CHECK(gm->submodule("extra.deep") != nullptr);
  const auto expected = (*gm)(x);
  gm->delete_all_unused_submodules();
  CHECK(gm->submodule("extra") == nullptr);
  CHECK(gm->submodule("block.norm").get() == net->block->norm.get());
  CHECK(buffer_names(*gm).contains("block.norm.running_mean"));
  CHECK(same((*gm)(x), expected));

  // Cutting the last module off the graph.
  Node* last = nullptr;
  for (Node* node : gm->graph().find_nodes(Opcode::call_module))
    if (node->target() == "last") last = node;
  REQUIRE(last);
  last->replace_all_uses_with(last->arg(0).node());
  gm->graph().erase_node(last);
  CHECK(parameter_names(*gm).contains("last.weight"));
  gm->delete_all_unused_submodules();
  CHECK_FALSE(parameter_names(*gm).contains("last.weight"));
  CHECK(same((*gm)(x), net->block(net->first(x)) * net->scale + net->shift));
  // The module that was traced has lost nothing.
  CHECK(net->named_parameters().contains("last.weight"));

  CHECK_FALSE(gm->delete_submodule("last"));
  CHECK(gm->delete_submodule("block.norm"));
  CHECK(gm->submodule("block.norm") == nullptr);
  CHECK(net->block->named_children().contains("norm"));
  const Fault fault = fault_of<RunError>([&] { (*gm)(x); });
  CHECK(fault.id == 702);
  CHECK(fault.says("block.norm"));
  CHECK(contains(fault.node, "call_module[target=block.norm]"));
}

TEST_CASE("tensors are registered under names of any depth, and the graph reads them") {
  const auto gm = trace([](torch::Tensor x) { return x + 1; }, {torch::randn({3})});
  const auto x = torch::randn({3});
  gm->register_attribute("deep.er.scale", torch::full({3}, 3.0), true);
  CHECK(gm->attribute("deep.er.scale").requires_grad());
  gm->register_attribute("offset", torch::full({3}, 0.5));
  CHECK(parameter_names(*gm) == std::set<std::string>{"deep.er.scale"});
  CHECK(buffer_names(*gm) == std::set<std::string>{"offset"});
  CHECK(gm->fresh_name("deep.er.scale") == "deep.er.scale0");
  Fault fault = fault_of<GraphError>([&] { gm->register_attribute("offset", torch::ones({1})); });
  CHECK(fault.id == 108);
  CHECK(fault.says("'offset'"));
  CHECK(fault_of<GraphError>([&] { gm->register_attribute("deep.er", torch::ones({1})); }).id == 108);
  CHECK(same(gm->attribute("offset"), torch::full({3}, 0.5)));

  Node* output = gm->graph().output_node();
  {
    const InsertPoint point = gm->graph().inserting_before(output);
    Node* scale = gm->graph().get_attr("deep.er.scale");
    Node* offset = gm->graph().get_attr("offset");
    Node* product = gm->graph().call_function(ops::mul_Tensor, {output->arg(0), scale});
    output->update_arg(0, gm->graph().call_function(ops::add_Tensor, {product, offset}));
  }
  gm->graph().lint();
  CHECK(same((*gm)(x), (x + 1) * 3 + 0.5));
  (*gm)(x).sum().backward();
  CHECK(difference(gm->attribute("deep.er.scale").grad(), x + 1) < 1e-6);
  CHECK(fault_of<GraphError>([&] { gm->attribute("deep.er.other"); }).id == 108);
}

TEST_CASE("a graph against a mapping of names, and one that refers to what is not there") {
  Graph graph;
  Node* x = graph.placeholder("x");
  Node* w = graph.get_attr("weights.w");
  Node* product = graph.call_function(ops::mul_Tensor, {x, w});
  graph.output(graph.call_module("act", {product}));
  const auto w_tensor = torch::full({2}, 3.0, torch::requires_grad());
  GraphModule gm({{"weights.w", w_tensor}, {"act", torch::nn::Tanh().ptr()}, {"not used", torch::ones({1})}}, graph);
  const auto in = torch::randn({2});
  CHECK(same(gm(in), torch::tanh(in * 3)));
  CHECK(gm.attribute("weights.w").is_same(w_tensor));
  CHECK(parameter_names(gm) == std::set<std::string>{"weights.w"});
  CHECK(gm.buffers().empty());

  const torch::nn::Module empty("Empty");
  const Fault fault = fault_of<GraphError>([&] { GraphModule broken(empty, graph); });
  CHECK(fault.id == 108);
  CHECK((fault.says("'act'") || fault.says("'weights.w'")));
  // Given as a mapping, what is missing shows when it is wanted.
  GraphModule half({{"act", torch::nn::Tanh().ptr()}}, graph);
  const Fault missing = fault_of([&] { half(in); });
  CHECK(missing.says("weights.w"));
}

// --- edits ---------------------------------------------------------------------------------------------------------

TEST_CASE("every kind of edit shows at the next call") {
  const auto x = torch::randn({4}), y = torch::randn({4});
  const auto gm = trace([](torch::Tensor a, torch::Tensor b) { return torch::relu(a + b); }, {x, y});
  CHECK(same((*gm)(x, y), torch::relu(x + y)));
  Node* add = gm->graph().find_nodes(Opcode::call_function)[0];
  Node* relu = gm->graph().find_nodes(Opcode::call_function)[1];
  add->set_op(CallFunction{&ops::mul_Tensor.info()});
  CHECK(same((*gm)(x, y), torch::relu(x * y)));
  add->update_arg(1, Argument(add->arg(0)));
  CHECK(same((*gm)(x, y), x * x));
  add->update_arg(1, Argument(2.0));
  CHECK(same((*gm)(x, y), torch::relu(x * 2)));
  gm->graph().output_node()->update_arg(0, Argument(add));
  CHECK(same((*gm)(x, y), x * 2));
  gm->graph().erase_node(relu);
  CHECK(same((*gm)(x, y), x * 2));
  {
    const InsertPoint point = gm->graph().inserting_after(add);
    Node* neg = gm->graph().call_function(ops::neg, {add});
    gm->graph().output_node()->update_arg(0, Argument(neg));
  }
  CHECK(same((*gm)(x, y), x * -2));
  // An edit that breaks the graph is refused, and the module works again when it is taken back.
  gm->graph().output_node()->update_arg(0, Argument::tuple({add, x.dim()}));
  const auto both = gm->call<std::tuple<at::Tensor, std::int64_t>>(x, y);
  CHECK(same(std::get<0>(both), x * 2));
  CHECK(std::get<1>(both) == 1);

  Graph other;
  Node* a = other.placeholder("a");
  other.output(other.call_function(ops::exp, {a}));
  gm->set_graph(other);
  CHECK(same((*gm)(x), torch::exp(x)));
  Graph no_output;
  no_output.call_function(ops::exp, {no_output.get_attr("nowhere")});
  CHECK(fault_of<GraphError>([&] { gm->set_graph(no_output); }).id != 0);
  CHECK(same((*gm)(x), torch::exp(x)));
}

TEST_CASE("another graph that is assigned runs from then on, and belongs to the module") {
  const auto graph_of = [](const auto& op) {
    Graph graph;
    graph.output(graph.call_function(op, {graph.placeholder("x")}));
    return graph;
  };
  const auto x = torch::randn({4});
  GraphModule gm(std::map<std::string, GraphModule::Attribute>{}, graph_of(ops::relu));
  const Owner* owner = gm.graph().owning_module();
  REQUIRE(owner);
  CHECK(same(gm(x), torch::relu(x)));
  const Graph sigmoid = graph_of(ops::sigmoid);
  gm.graph() = sigmoid;
  CHECK(same(gm(x), torch::sigmoid(x)));
  CHECK(gm.graph().owning_module() == owner);
  gm.graph() = graph_of(ops::exp);
  CHECK(same(gm(x), torch::exp(x)));
  CHECK(gm.graph().owning_module() == owner);
}

TEST_CASE("what is registered in the module, replaced or taken out shows at the next call, deeper after recompile") {
  const auto x = torch::randn({2, 3});
  torch::nn::Linear first(3, 3), second(3, 3);
  Graph graph;
  graph.output(graph.call_module("deep.fc", {graph.call_module("fc", {graph.placeholder("x")})}));
  GraphModule gm({{"fc", first.ptr()}, {"deep.fc", first.ptr()}}, graph);
  CHECK(same(gm(x), first->forward(first->forward(x))));
  gm.replace_module("fc", second);
  CHECK(same(gm(x), first->forward(second->forward(x))));
  gm.submodule("deep")->replace_module("fc", second.ptr());
  gm.recompile();
  CHECK(same(gm(x), second->forward(second->forward(x))));
  gm.unregister_module("fc");
  CHECK(fault_of<RunError>([&] { gm(x); }).id == 702);
  gm.register_module("fc", first.ptr());
  CHECK(same(gm(x), second->forward(first->forward(x))));

  for (const bool parameter : {false, true}) {
    const std::string name = parameter ? "scale" : "shift";
    Node* added = gm.graph().get_attr(name);
    Node* add = gm.graph().call_function(ops::add_Tensor, {gm.graph().nodes().front(), added});
    gm.graph().output_node()->update_arg(0, Argument(add));
    CHECK(fault_of<RunError>([&] { gm(x); }).id == 702);
    if (parameter) gm.register_parameter(name, torch::ones({3}));
    else gm.register_buffer(name, torch::ones({3}));
    CHECK(same(gm(x), x + 1));
  }
}

TEST_CASE("many threads run one module at once, the first call included") {
  Net net;
  net->eval();
  const auto x = torch::randn({5, 3});
  const auto expected = net(x);
  for (int round = 0; round < 5; ++round) {
    const auto gm = trace(net, {x});
    std::vector<std::thread> threads;
    std::atomic<int> wrong = 0;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&] {
        const torch::NoGradGuard no_grad;
        for (int i = 0; i < 50; ++i) wrong += !same((*gm)(x), expected);
      });
    for (std::thread& thread : threads) thread.join();
    CHECK(wrong == 0);
  }
}

// --- the interpreter -----------------------------------------------------------------------------------------------

/// Notes which functions were called, and adds to the value of one of them.
class Noting : public Interpreter {
 public:
  using Interpreter::Interpreter;
  std::vector<std::string> calls;
  std::string add_one_in = {};

  c10::IValue run_node(Node& n) override {
    CHECK(&n == &node());
    return note("run_node", Interpreter::run_node(n));
  }
  c10::IValue placeholder(const Placeholder& op, Values args) override {
    return note("placeholder " + op.target, Interpreter::placeholder(op, std::move(args)));
  }
  c10::IValue get_attr(const GetAttr& op) override { return note("get_attr " + op.target, Interpreter::get_attr(op)); }
  c10::IValue call_function(const CallFunction& op, Values args, KeywordValues kwargs) override {
    const std::string name(std::get<const Operator*>(op.target)->name);
    return note("call_function " + name, Interpreter::call_function(op, std::move(args), std::move(kwargs)));
  }
  c10::IValue call_method(const CallMethod& op, Values args, KeywordValues kwargs) override {
    return note("call_method " + op.target, Interpreter::call_method(op, std::move(args), std::move(kwargs)));
  }
  c10::IValue call_module(const CallModule& op, Values args, KeywordValues kwargs) override {
    return note("call_module " + op.target, Interpreter::call_module(op, std::move(args), std::move(kwargs)));
  }
  c10::IValue output(const Output& op, Values args) override {
    return note("output", Interpreter::output(op, std::move(args)));
  }

 private:
  c10::IValue note(const std::string& call, c10::IValue value) {
    calls.push_back(call);
    return call == add_one_in ? value.toTensor() + 1 : value;
  }
};

TEST_CASE("each function of the interpreter is called for its opcode, and its override is the value") {
  AllOpcodesImpl module;
  const auto gm = symbolic_trace(module);
  const auto x = torch::randn({2, 3});
  auto& fc = module.fc;
  const torch::Tensor w = module.weight;
  std::vector<std::string> expected;
  for (const char* call : {"placeholder x", "call_module fc", "get_attr weight", "call_function aten::mul.Tensor",
                           "call_function aten::relu", "call_method neg", "output"}) {
    expected.push_back(call);
    expected.push_back("run_node");
  }
  Noting plain(*gm);
  const auto value = plain.run({x}).toTensor();
  CHECK(plain.calls == expected);
  CHECK(same(value, torch::relu(fc->forward(x) * w).neg()));
  const auto with_one_more = [&](const std::string& call) {
    Noting noting(*gm);
    noting.add_one_in = call;
    return noting.run({x}).toTensor();
  };
  CHECK(same(with_one_more("placeholder x"), torch::relu(fc->forward(x + 1) * w).neg()));
  CHECK(same(with_one_more("call_module fc"), torch::relu((fc->forward(x) + 1) * w).neg()));
  CHECK(same(with_one_more("get_attr weight"), torch::relu(fc->forward(x) * (w + 1)).neg()));
  CHECK(same(with_one_more("call_function aten::relu"), (torch::relu(fc->forward(x) * w) + 1).neg()));
  CHECK(same(with_one_more("call_method neg"), torch::relu(fc->forward(x) * w).neg() + 1));
  CHECK(same(with_one_more("output"), torch::relu(fc->forward(x) * w).neg() + 1));
}

TEST_CASE("values that are known already are not computed; values are kept when that is asked for") {
  class Keeps : public Interpreter {
   public:
    using Interpreter::environment;
    using Interpreter::Interpreter;
    using Interpreter::run_one;
    std::size_t most = 0, runs = 0;
    c10::IValue run_node(Node& n) override {
      ++runs;
      most = std::max(most, environment().size());
      return Interpreter::run_node(n);
    }
  };
  const auto gm = trace([](torch::Tensor x) { return x.exp().neg().exp().neg().exp(); }, {torch::randn({2})});
  const auto x = torch::randn({2});
  Keeps frugal(*gm), keeping(*gm);
  keeping.garbage_collect_values = false;
  CHECK(same(frugal.run({x}).toTensor(), keeping.run({x}).toTensor()));
  CHECK(frugal.most <= 2);
  CHECK(keeping.environment().size() == gm->graph().size());
  const auto nodes = gm->graph().find_nodes(Opcode::call_function);
  for (const Node* node : nodes) CHECK(keeping.environment().at(node).isTensor());
  // The value of the fourth takes the place of the first four, whose input need not be there.
  Keeps late(*gm);
  Interpreter::Environment initial{{nodes[3], torch::zeros({2})}};
  for (const Node* node : gm->graph().nodes()) {
    if (node == nodes[3]) break;
    initial.emplace(node, c10::IValue());
  }
  CHECK(same(late.run({}, initial).toTensor(), torch::ones({2})));
  CHECK(late.runs == 2);
  CHECK(
      same(Keeps(*gm).run_one(*nodes[0], {{nodes[0]->arg(0).node(), torch::zeros({2})}}).toTensor(), torch::ones({2})));
}

TEST_CASE("another graph than the module's own is interpreted against its attributes") {
  Net net;
  net->eval();
  Graph graph;
  Node* x = graph.placeholder("x");
  graph.output(graph.call_module("first", {graph.call_function(ops::neg, {x})}));
  const auto in = torch::randn({5, 3});
  CHECK(same(Interpreter(*net, graph).run({in}).toTensor(), net->first(-in)));
}

// --- inputs and errors ---------------------------------------------------------------------------------------------

TEST_CASE("inputs: too many, too few, undefined ones, defaults, other kinds") {
  const auto x = torch::randn({2, 3});
  const auto gm =
      trace([](torch::Tensor a, torch::Tensor b) { return a + b; }, {x, x}, {.input_names = {"left", "right"}});
  Fault fault = fault_of<RunError>([&] { (*gm)(x); });
  CHECK(fault.id == 701);
  CHECK(fault.says("'right'"));
  CHECK(fault.says("2 inputs"));
  fault = fault_of<RunError>([&] { (*gm)(); });
  CHECK(fault.id == 701);
  CHECK(fault.says("'left'"));
  fault = fault_of<RunError>([&] { (*gm)(x, x, x); });
  CHECK(fault.id == 701);
  CHECK(fault.says("3 inputs were given"));
  CHECK(fault_of<RunError>([&] { (*gm)(at::Tensor(), x); }).id == 701);
  CHECK(fault_of<RunError>([&] { gm->forward(x, at::Tensor(), x); }).id == 701);
  CHECK(fault_of<RunError>([&] { Interpreter(*gm).run({x}); }).id == 701);
  CHECK(fault_of<RunError>([&] { Interpreter(*gm).run({x, x, x}); }).id == 701);
  CHECK(same((*gm)(x, x), x + x));

  Graph graph;
  Node* a = graph.placeholder("a");
  Node* b = graph.placeholder("b", 2.5);
  graph.output(graph.call_function(ops::mul_Scalar, {a, b}));
  GraphModule scaled(std::map<std::string, GraphModule::Attribute>{}, graph);
  CHECK(same(scaled(x), x * 2.5));
  CHECK(same(scaled(x, 3), x * 3));
  CHECK(contains(refusal_of([&] { scaled(x, x); }), "While executing %mul"));
  CHECK(same(Interpreter(scaled).run({x}).toTensor(), x * 2.5));

  const auto two = trace([](torch::Tensor t) { return std::tuple(t, t + 1); }, {x});
  fault = fault_of<RunError>([&] { (*two)(x); });
  CHECK(fault.id == 701);
  CHECK(fault.says("call<R>()"));
}

TEST_CASE("an input that stands behind other nodes is the one that was given for it") {
  const auto x = torch::randn({3}), y = torch::randn({3}), z = torch::randn({3});
  Graph graph;
  Node *a = graph.placeholder("a"), *b = graph.placeholder("b");
  Node* sum = graph.call_function(ops::add_Tensor, {a, b});
  Node* c = graph.placeholder("c");
  graph.output(graph.call_function(ops::sub_Tensor, {sum, c}));
  GraphModule gm(std::map<std::string, GraphModule::Attribute>{}, graph);
  CHECK(same(gm(x, y, z), x + y - z));
  CHECK(same(Interpreter(gm).run({x, y, z}).toTensor(), x + y - z));
}

TEST_CASE("a number that is an integer is one for a float, given, by default and in a list") {
  const auto x = torch::randn({4, 3}), y = torch::randn({5, 3});
  Graph graph;
  Node *a = graph.placeholder("a"), *b = graph.placeholder("b"), *p = graph.placeholder("p", 3);
  graph.output(graph.call_function(ops::cdist, {a, b, p}));
  GraphModule distance(std::map<std::string, GraphModule::Attribute>{}, graph);
  CHECK(same(distance(x, y), torch::cdist(x, y, 3)));
  CHECK(same(distance(x, y, 2), torch::cdist(x, y, 2)));
  CHECK(same(distance(x, y, 1.5), torch::cdist(x, y, 1.5)));
  CHECK(same(Interpreter(distance).run({x, y, 2}).toTensor(), torch::cdist(x, y, 2)));

  const auto image = torch::randn({1, 2, 3, 3});
  Graph resize;
  Node *in = resize.placeholder("x"), *factor = resize.placeholder("factor");
  resize.output(resize.call_function(ops::upsample_nearest2d_vec, {in, {}, Argument::list({factor, 3.0})}));
  GraphModule resized(std::map<std::string, GraphModule::Attribute>{}, resize);
  const std::vector<double> factors{2, 3};
  const auto expected = torch::upsample_nearest2d(image, at::OptionalIntArrayRef(), at::ArrayRef<double>(factors));
  CHECK(same(resized(image, 2), expected));
  CHECK(same(Interpreter(resized).run({image, 2}).toTensor(), expected));
}

TEST_CASE("one number or a tuple, known when the graph runs, is a list for an operator that takes one") {
  static const UserFunction& last_two = register_function("tests::last_two");
  register_user_call(last_two, [](Values) { return c10::IValue(c10::ivalue::Tuple::create({2, 3})); });
  static const UserFunction& two = register_function("tests::two");
  register_user_call(two, [](Values) { return c10::IValue(2); });
  const auto x = torch::randn({1, 2, 2, 6});
  const auto check = [&](auto&& write, const torch::Tensor& expected) {
    Graph graph;
    Node* in = graph.placeholder("x");
    graph.output(write(graph, in));
    GraphModule gm(std::map<std::string, GraphModule::Attribute>{}, graph);
    CAPTURE(to_string(graph));
    CHECK(same(gm(x), expected));
    CHECK(same(Interpreter(gm).run({x}).toTensor(), expected));
  };
  const auto rows = [](Graph& graph, Node* in) {
    return graph.call_function(ops::operator_getitem, {graph.call_function(ops::prim_sizes, {in}), 2});
  };
  check([&](Graph& g, Node* in) { return g.call_function(ops::avg_pool2d, {in, rows(g, in)}); },
        torch::avg_pool2d(x, {2, 2}));
  check([&](Graph& g, Node* in) { return g.call_function(ops::adaptive_avg_pool2d, {in, rows(g, in)}); },
        torch::adaptive_avg_pool2d(x, {2, 2}));
  check([&](Graph& g, Node* in) { return g.call_function(ops::max_pool2d, {in, g.call_function(two, {in})}); },
        torch::max_pool2d(x, {2, 2}));
  check([&](Graph& g, Node* in) { return g.call_function(ops::max_pool2d, {in, g.call_function(last_two, {in})}); },
        torch::max_pool2d(x, {2, 3}));
  check([&](Graph& g, Node* in) { return g.call_function(ops::mean_dim, {in, g.call_function(two, {in})}); },
        x.mean(2));
  check([&](Graph& g, Node* in) { return g.call_function(ops::mean_dim, {in, g.call_function(last_two, {in})}); },
        x.mean({2, 3}));
  check([&](Graph& g, Node* in) { return g.call_function(ops::reshape, {in, g.call_function(ops::prim_sizes, {in})}); },
        x);
}

TEST_CASE("a list that a graph has in it is another one in each run") {
  static const UserFunction& appends = register_function("tests::appends", {}, true);
  register_user_call(appends, [](Values values) {
    auto list = values[0].toIntList();
    list.push_back(4);
    return c10::IValue(static_cast<std::int64_t>(list.size()));
  });
  const auto x = torch::randn({2});
  Graph graph;
  graph.placeholder("x");
  Node* standard = graph.placeholder("sizes", Argument::list({5, 6}));
  Node* appended = graph.call_function(appends, {Argument::list({1, 2, 3})});
  graph.output(Argument::tuple({Argument::list({1, 2}), standard, appended, Argument::dict({{"a", Complex{1, 2}}})}));
  GraphModule gm(std::map<std::string, GraphModule::Attribute>{}, graph);
  for (int i = 0; i < 2; ++i) {
    CAPTURE(i);
    const auto results = gm.run({x}).toTupleRef().elements().vec();
    for (const std::size_t at : {0, 1}) {
      auto list = results[at].toIntList();
      CHECK(list.size() == 2);
      list.push_back(7);
    }
    CHECK(results[2].toInt() == 4);
    auto dict = results[3].toGenericDict();
    CHECK(dict.size() == 1);
    dict.insert("b", 1);
  }
}

TEST_CASE("a container of nodes where one tensor is taken is refused, and says which") {
  const auto x = torch::randn({2, 2});
  for (const char* kind : {"tuple", "list", "dict"})
    for (const bool optional : {false, true}) {
      CAPTURE(kind);
      CAPTURE(optional);
      Graph graph;
      Node *a = graph.placeholder("a"), *b = graph.placeholder("b");
      const Argument both = kind[0] == 't'   ? Argument::tuple({a, b})
                            : kind[0] == 'l' ? Argument::list({a, b})
                                             : Argument::dict({{"a", a}, {"b", b}});
      graph.output(optional ? graph.call_function(ops::linear, {a, b, both}) : graph.call_function(ops::relu, {both}));
      GraphModule gm(std::map<std::string, GraphModule::Attribute>{}, graph);
      const Fault fault = fault_of<RunError>([&] { gm(x, x); });
      CHECK(fault.id == 702);
      CHECK(fault.says("'" + std::string(kind) + "'"));
      CHECK(contains(fault.node, optional ? "%linear" : "%relu"));
    }
}

TEST_CASE("an input of a name with a star takes the rest as a list, planned and interpreted") {
  const auto x = torch::randn({1, 3}), y = torch::randn({1, 3}), z = torch::randn({1, 3});
  Graph graph;
  Node *first = graph.placeholder("x"), *rest = graph.placeholder("*args"), *last = graph.placeholder("last", 2);
  graph.output(Argument::tuple({first, rest, last}));
  GraphModule gm(std::map<std::string, GraphModule::Attribute>{}, graph);
  for (const bool interpreted : {false, true}) {
    CAPTURE(interpreted);
    const auto run = [&](Values inputs) {
      const c10::IValue result = interpreted ? Interpreter(gm).run(std::move(inputs)) : gm.run(std::move(inputs));
      return result.toTupleRef().elements().vec();
    };
    CHECK(run({x})[1].toListRef().empty());
    const auto three = run({x, y, z});
    CHECK(same(three[0].toTensor(), x));
    REQUIRE(three[1].toListRef().size() == 2);
    CHECK(same(three[1].toListRef()[1].toTensor(), z));
    CHECK(three[2].toInt() == 2);
    CHECK(fault_of<RunError>([&] { run({}); }).id == 701);
  }
}

TEST_CASE("keywords for a module or a function of the user's are refused, planned and interpreted") {
  static const UserFunction& same_as = register_function("tests::same_as");
  register_user_call(same_as, [](Values values) { return values[0]; });
  const auto x = torch::randn({2, 3});
  for (const bool function : {false, true}) {
    CAPTURE(function);
    Graph graph;
    Node* in = graph.placeholder("x");
    graph.output(function ? graph.call_function(same_as, {in}, {{"by", 3.0}})
                          : graph.call_module("fc", {in}, {{"by", 3.0}}));
    GraphModule gm({{"fc", std::make_shared<torch::nn::LinearImpl>(3, 3)}}, graph);
    for (const Fault& fault :
         {fault_of<RunError>([&] { gm(x); }), fault_of<RunError>([&] { Interpreter(gm).run({x}); })}) {
      CHECK(fault.id == 702);
      CHECK(fault.says("'by'"));
    }
  }
}

TEST_CASE("keywords for operators on numbers, planned and interpreted; values that are missing or too many") {
  Graph graph;
  Node* n = graph.placeholder("n");
  Node* first = graph.call_function(ops::operator_sub, {n}, {{"b", 2}});
  graph.output(graph.call_function(ops::operator_floordiv, {}, {{"b", first}, {"a", 20}}));
  GraphModule gm(std::map<std::string, GraphModule::Attribute>{}, graph);
  CHECK(gm.run({5}).toInt() == 6);
  CHECK(Interpreter(gm).run({5}).toInt() == 6);
  const Operator& add = ops::operator_add;
  CHECK(call_operator(add, {3}, {{"b", 4}}).toInt() == 7);
  Fault fault = fault_of<RunError>([&] { call_operator(add, {3}); });
  CHECK(fault.id == 701);
  CHECK(fault.says("'b' is missing"));
  CHECK(fault_of<RunError>([&] { call_operator(add, {3, 4, 5}); }).id == 701);
  CHECK(fault_of<RunError>([&] { call_operator(add, {3, 4}, {{"b", 5}}); }).id == 701);
  CHECK(fault_of<RunError>([&] { call_operator(add, {3}, {{"c", 5}}); }).id == 701);
}

TEST_CASE("a module that first ran in inference mode can train later") {
  Graph graph;
  graph.output(graph.call_function(ops::mul_Tensor, {graph.placeholder("x"), 2.0}));
  GraphModule gm(std::map<std::string, GraphModule::Attribute>{}, graph);
  {
    const c10::InferenceMode on;
    CHECK(same(gm(torch::ones({3})), torch::full({3}, 2.0)));
  }
  const auto x = torch::ones({3}).requires_grad_();
  gm(x).sum().backward();
  CHECK(same(x.grad(), torch::full({3}, 2.0)));
}

TEST_CASE("a value that does not fit names the node that it does not fit") {
  Net net;
  net->eval();
  const auto gm = trace(net, {torch::randn({5, 3})});
  const auto wrong = torch::randn({5, 7});
  // In a leaf module, in the graph's own plan and interpreted.
  for (const std::string& text :
       {refusal_of([&] { (*gm)(wrong); }), refusal_of([&] { Interpreter(*gm).run({wrong}); })}) {
    CHECK(contains(text,
                   "While executing %first : [num_users=1] = call_module[target=first](args = (%x,), kwargs = {})"));
    CHECK(contains(text, "7"));
  }
  // In an operator that is called unboxed, one that is called boxed, a method, and getitem.
  const auto functions = symbolic_trace([](Proxy x, Proxy y) { return matmul(x, y).view({2, 3}).t(); });
  CHECK(contains(refusal_of([&] {
                   (*functions)(torch::randn({2, 3}), torch::randn({2, 3}));
                 }),
                 "While executing %matmul"));
  CHECK(contains(refusal_of([&] {
                   (*functions)(torch::randn({2, 3}), torch::randn({3, 4}));
                 }),
                 "While executing %view"));
  const auto lists = symbolic_trace([](Proxy x, Proxy y) { return cat(std::vector{x, y}, 1); });
  CHECK(contains(refusal_of([&] { (*lists)(torch::randn({2, 3}), torch::randn({3, 3})); }), "While executing %cat"));
  // After a failure the module works.
  const auto right = torch::randn({2, 3});
  CHECK(same((*gm)(right), net(right)));
  // Traced with stack traces, the line of the user's is told too.
  const auto traced = trace(net, {torch::randn({5, 3})}, {.record_stack_traces = true});
  CHECK(contains(refusal_of([&] { (*traced)(wrong); }), "Original code: "));
}

TEST_CASE("what a function of the user's throws names its node, planned and interpreted") {
  static const UserFunction& refuses = register_function("tests::refuses");
  register_user_call(refuses, [](Values) -> c10::IValue { throw std::runtime_error("I will not"); });
  const auto x = torch::randn({2});
  Graph graph;
  graph.output(graph.call_function(refuses, {graph.placeholder("x")}));
  GraphModule gm(std::map<std::string, GraphModule::Attribute>{}, graph);
  for (const Fault& fault :
       {fault_of<RunError>([&] { gm(x); }), fault_of<RunError>([&] { Interpreter(gm).run({x}); })}) {
    CHECK(fault.id == 702);
    CHECK(fault.says("I will not"));
    CHECK(contains(fault.node, "%refuses"));
  }
}

TEST_CASE("what a graph refers to and nobody has: an attribute, a module, an operator, a function") {
  AllOpcodesImpl module;
  const auto gm = symbolic_trace(module);
  const auto x = torch::randn({2, 3});
  Node* read = gm->graph().find_nodes(Opcode::get_attr)[0];
  read->set_op(GetAttr{"gone"});
  Fault fault = fault_of([&] { (*gm)(x); });
  CHECK(fault.says("gone"));
  CHECK(contains(fault.node, "%mul"));
  fault = fault_of<RunError>([&] { Interpreter(*gm).run({x}); });
  CHECK(fault.id == 702);
  CHECK(fault.says("'gone'"));
  fault = fault_of<GraphError>([&] { gm->recompile(); });
  CHECK(fault.id == 108);
  CHECK(fault.says("gone"));
  read->set_op(GetAttr{"weight"});
  Node* call = gm->graph().find_nodes(Opcode::call_module)[0];
  call->set_op(CallModule{"nobody"});
  fault = fault_of<RunError>([&] { Interpreter(*gm).run({x}); });
  CHECK(fault.id == 702);
  CHECK(fault.says("'nobody'"));
  CHECK(fault_of([&] { (*gm)(x); }).says("nobody"));
  call->set_op(CallModule{"fc"});
  CHECK(same((*gm)(x), module.forward(x)));
  // A method that tensors do not have.
  gm->graph().find_nodes(Opcode::call_method)[0]->set_op(CallMethod{"no_such_method"});
  fault = fault_of([&] { (*gm)(x); });
  CHECK(fault.says("no_such_method"));
  // A user's type that nobody registered.
  struct Unknown : torch::nn::Module {
    torch::Tensor forward(torch::Tensor t) { return t; }
  };
  Graph graph;
  graph.output(graph.call_module("m", {graph.placeholder("x")}));
  GraphModule unknown({{"m", std::make_shared<Unknown>()}}, graph);
  fault = fault_of<RunError>([&] { unknown(x); });
  CHECK(fault.id == 702);
  CHECK(fault.says("Unknown"));
  CHECK(fault.says("register_leaf"));
}

TEST_CASE("integers reach operators whole, the largest too") {
  constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();
  Graph graph;
  graph.output(graph.call_function(ops::slice_Tensor, {graph.placeholder("x"), 0, 1, largest}));
  GraphModule module(std::map<std::string, GraphModule::Attribute>{}, graph);
  CHECK(module(torch::arange(5)).numel() == 4);
  for (const std::int64_t n : {largest, -largest, (std::int64_t{1} << 53) + 1})
    CHECK(to_ivalue(n, {.base = ValueType::integer}).toInt() == n);
}

TEST_CASE("an argument that holds a node is no value: a fault of fxx, where it comes to that") {
  Graph graph;
  Node* x = graph.placeholder("x");
  for (const Argument& argument : {Argument(x), Argument::list({1, x}), Argument::tuple({x})}) {
    const auto fault = fault_of<InternalError>([&] { to_ivalue(argument); });
    CHECK(fault.id == static_cast<int>(ErrorId::internal));
    CHECK(fault.says("This is a bug in fxx"));
  }
}

}  // namespace

TEST_CASE("a module that holds or calls itself is refused, directly and through others") {
  const torch::Tensor x = torch::randn({3});
  const auto gm_of = [&] { return trace([](torch::Tensor t) { return torch::relu(t) + 1; }, {x}); };
  const auto gm = gm_of();
  const auto refused = [](auto&& f) {
    const Fault fault = fault_of<GraphError>(f);
    CHECK(fault.id == 113);
    return fault;
  };
  // Registered by itself.
  CHECK(refused([&] { gm->register_module("self", gm); }).says("is that module itself"));
  refused([&] { gm->add_submodule("self", gm); });
  refused([&] { gm->add_submodule("a.b.self", gm); });
  CHECK(gm->children().empty());
  // Through a child that holds it, at any depth.
  torch::nn::Sequential around;
  around->push_back("gm", gm);
  torch::nn::ModuleList further;
  further->push_back(around);
  CHECK(refused([&] { gm->register_module("around", around); }).says("holds that module"));
  refused([&] { gm->add_submodule("further", further.ptr()); });
  CHECK(gm->children().empty());
  gm->add_submodule("leaf", std::make_shared<torch::nn::LinearImpl>(3, 3));
  refused([&] { gm->replace_module("leaf", gm); });
  CHECK(same(gm->forward(x), torch::relu(x) + 1));

  // Closed afterwards, where nobody sees it: found when it is used.
  struct Holder : torch::nn::Module {
    std::shared_ptr<GraphModule> held;
    torch::Tensor forward(torch::Tensor t) { return held ? held->forward(t) : t; }
  };
  register_leaf<Holder>();
  const auto inside = std::make_shared<Holder>();
  const auto outer = gm_of();
  REQUIRE(outer->add_submodule("inside", inside));
  Graph& graph = outer->graph();
  Node* const input = graph.find_nodes(Opcode::placeholder)[0];
  {
    const InsertPoint point = graph.inserting_after(input);
    Node* const call = graph.call_module("inside", {input});
    graph.output_node()->update_arg(0, call);
  }
  outer->recompile();
  inside->register_module("outer", outer);
  inside->held = outer;
  CHECK(refused([&] { outer->forward(x); }).says("calls itself"));
  refused([&] { outer->recompile(); });
  refused([&] { outer->clone(); });
  refused([&] { GraphModule copy(*outer, outer->graph()); });
  refused([&] { trace(*outer, {x}); });
  refused([&] { trace(*inside, {x}); });
  // In other threads, too, and again.
  std::thread([&] { refused([&] { outer->forward(x); }); }).join();
  refused([&] { outer->forward(x); });
  inside->unregister_module("outer");  // so that both end
  inside->held.reset();
}

TEST_CASE("deep nests of modules and of values are run, or refused in words") {
  // As deep as any model is, and deeper.
  const torch::Tensor x = torch::randn({3});
  struct Nest : torch::nn::Module {
    std::shared_ptr<Nest> inner;
    explicit Nest(std::shared_ptr<Nest> held) : inner(std::move(held)) {
      if (inner) register_module("inner", inner);
    }
    torch::Tensor forward(torch::Tensor t) { return inner ? inner->forward(t) : torch::relu(t); }
  };
  auto deep = std::make_shared<Nest>(nullptr);
  const auto wrap = [&](int times) {
    for (; times > 0; --times) deep = std::make_shared<Nest>(deep);
  };
  wrap(150);
  const auto gm = trace(*deep, {x});
  CHECK(same(gm->forward(x), torch::relu(x)));
  wrap(100);
  CHECK(fault_of<GraphError>([&] { trace(*deep, {x}); }).id == 113);
  // Lists in lists, as an operator or TorchScript may return them.
  const auto nested = [](int depth) {
    c10::IValue value(std::int64_t{1});
    for (int i = 0; i < depth; ++i) value = c10::ivalue::Tuple::create({value});
    return value;
  };
  CHECK_NOTHROW((void)to_argument(nested(64), {}));
  for (const int depth : {65, 100, 5000})
    CHECK(fault_of<GraphError>([&] { (void)to_argument(nested(depth), {}); }).id == 113);
}
