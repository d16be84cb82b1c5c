// ir/node.hpp: arguments and use-def links, what else a node carries, its place in the list.
#include "fxx/ir/node.hpp"

#include <doctest/doctest.h>

#include "fxx/ir/graph.hpp"
#include "fxx/ops/operation.hpp"
#include "fxx/ops/registry.hpp"
#include "support.hpp"

using namespace fxx;
using test::fault_of;
using Nodes = std::vector<Node*>;

namespace {

std::string order(const Graph& g) {
  std::string text;
  for (Node* n : g.nodes()) (text += text.empty() ? "" : " ") += n->name();
  return text;
}
Nodes users(const Node* n) { return n->users().snapshot(); }
Nodes inputs(const Node* n) { return n->all_input_nodes().snapshot(); }

/// x, y, z and a call of them all.
struct Three {
  Graph g;
  Node *x = g.placeholder("x"), *y = g.placeholder("y"), *z = g.placeholder("z");
};

}  // namespace

// --- links -----------------------------------------------------------------------------------------------------------

TEST_CASE("inputs come in order of appearance, each once, kwargs after args, nested ones too") {
  Three t;
  Node* n = t.g.call_function(ops::relu, {Argument::list({t.z, t.x, Argument::tuple({t.z})}), Slice{t.y, t.x, {}}},
                              {{"k", Argument::dict({{"a", t.y}, {"b", t.x}})}});
  CHECK(inputs(n) == Nodes{t.z, t.x, t.y});
  CHECK(n->all_input_nodes().size() == 3);
  CHECK(n->all_input_nodes().front() == t.z);
  CHECK(n->all_input_nodes().contains(t.y));
  CHECK_FALSE(n->all_input_nodes().contains(n));
}

TEST_CASE("users are distinct and in the order in which they began to use the node") {
  Three t;
  Node* a = t.g.call_function(ops::add_Tensor, {t.x, t.x}, {{"alpha", t.x}});
  Node* b = t.g.call_function(ops::neg, {t.x});
  Node* c = t.g.call_function(ops::cat, {Argument::list({t.x, t.y, t.x})});
  CHECK(users(t.x) == Nodes{a, b, c});
  CHECK(t.x->num_users() == 3);
  CHECK(users(t.y) == Nodes{c});
  CHECK(t.z->users().empty());
  a->set_args({t.y, t.y});  // one use, alpha, is left: a has begun anew
  CHECK(users(t.x) == Nodes{b, c, a});
  a->set_kwargs({});
  CHECK(users(t.x) == Nodes{b, c});
}

TEST_CASE("the inputs of each opcode") {
  Graph g;
  Node* x = g.placeholder("x");
  Node* m = g.call_module("linear", {x});
  Node* w = g.get_attr("weight");
  Node* add = g.call_function(ops::add_Tensor, {m, w});
  Node* view = g.call_method("unsqueeze", {add, 1});
  CHECK(inputs(x).empty());
  CHECK(inputs(m) == Nodes{x});
  CHECK(inputs(w).empty());
  CHECK(inputs(add) == Nodes{m, w});
  CHECK(inputs(view) == Nodes{add});
}

TEST_CASE("set_args and set_kwargs rewrite the links both ways") {
  Three t;
  Node* n = t.g.call_function(ops::add_Tensor, {t.x, t.y}, {{"alpha", 1}});
  n->set_args({t.z, t.y});
  CHECK(users(t.x).empty());
  CHECK(users(t.z) == Nodes{n});
  CHECK(n->kwarg("alpha")->integer() == 1);
  n->set_kwargs({{"alpha", t.x}, {"out", t.z}});
  CHECK(inputs(n) == Nodes{t.z, t.y, t.x});
  CHECK(n->args().size() == 2);
  n->set_args_kwargs({}, {});
  CHECK(inputs(n).empty());
  for (Node* input : {t.x, t.y, t.z}) CHECK(input->num_users() == 0);
  t.g.lint();
}

TEST_CASE("a node's own arguments may be given back to it") {
  Three t;
  Node* n = t.g.call_function(ops::relu, {t.x, Argument::list({t.y, "a text too long for a small string"}), t.z},
                              {{"k", t.y}});
  n->set_args(n->args());
  CHECK(inputs(n) == Nodes{t.x, t.y, t.z});
  n->set_args(n->args().subspan(1));
  CHECK(inputs(n) == Nodes{t.y, t.z});
  n->set_args_kwargs(n->args(), n->kwargs());
  CHECK(n->kwarg("k")->node() == t.y);
  CHECK(n->arg(0).items()[1].string() == "a text too long for a small string");
  t.g.lint();
}

TEST_CASE("arguments that do not belong to the graph are refused, and the node stays as it was") {
  Three t;
  Graph other;
  Node* foreign = other.placeholder("foreign");
  Node* gone = t.g.placeholder("gone");
  t.g.erase_node(gone);
  Node* n = t.g.call_function(ops::add_Tensor, {t.x, t.y}, {{"alpha", t.z}});
  const std::string before = format_node(*n);

  auto fault = fault_of<GraphError>([&] { n->set_args({t.z, Argument::list({foreign})}); });
  CHECK(fault.id == 101);
  CHECK(fault.says("argument 'foreign' of node 'add'"));
  CHECK(fault_of<GraphError>([&] { n->set_kwargs({{"alpha", gone}}); }).id == 103);
  CHECK(fault_of<GraphError>([&] { n->update_arg(0, foreign); }).id == 101);
  CHECK(fault_of<GraphError>([&] { n->insert_arg(0, foreign); }).id == 101);
  CHECK(fault_of<GraphError>([&] { n->update_kwarg("k", gone); }).id == 103);
  CHECK(fault_of<GraphError>([&] { n->replace_input_with(t.x, foreign); }).id == 101);
  CHECK(fault_of<GraphError>([&] { n->replace_input_with(t.x, nullptr); }).id == 101);
  CHECK(fault_of<GraphError>([&] { t.x->replace_all_uses_with(foreign); }).id == 101);
  CHECK(fault_of<GraphError>([&] { t.x->replace_all_uses_with(gone); }).id == 103);

  CHECK(format_node(*n) == before);
  CHECK(inputs(n) == Nodes{t.x, t.y, t.z});
  CHECK(users(t.z) == Nodes{n});
  CHECK(foreign->users().empty());
  t.g.lint();
}

TEST_CASE("an erased node takes no arguments") {
  Three t;
  Node* n = t.g.call_function(ops::neg, {t.x});
  t.g.erase_node(n);
  CHECK(fault_of<GraphError>([&] { n->set_args({t.x}); }).id == 103);
  CHECK(fault_of<GraphError>([&] { n->set_kwargs({{"k", t.x}}); }).id == 103);
  CHECK(t.x->num_users() == 0);
}

// --- one argument ----------------------------------------------------------------------------------------------------

TEST_CASE("update_arg changes one argument and counts repeated uses once") {
  Three t;
  Node* n = t.g.call_function(ops::add_Tensor, {t.x, t.x});
  n->update_arg(1, t.y);
  CHECK(inputs(n) == Nodes{t.x, t.y});
  n->update_arg(0, t.y);
  CHECK(inputs(n) == Nodes{t.y});
  CHECK(users(t.y) == Nodes{n});
  CHECK(users(t.x).empty());
  n->update_arg(0, Argument::list({1, t.z}));
  CHECK(inputs(n) == Nodes{t.z, t.y});
  const auto fault = fault_of<GraphError>([&] { n->update_arg(2, 1); });
  CHECK(fault.id == 109);
  CHECK(fault.says("no positional argument 2; the node has 2"));
  CHECK(fault.node == format_node(*n));
}

TEST_CASE("insert_arg puts an argument in front of another, or at the end") {
  Three t;
  Node* n = t.g.call_function(ops::relu, {t.x});
  n->insert_arg(0, t.y);
  n->insert_arg(2, 5);
  n->insert_arg(1, t.x);
  CHECK(format_node(*n).find("(args = (%y, %x, %x, 5)") != std::string::npos);
  CHECK(users(t.x) == Nodes{n});
  CHECK(fault_of<GraphError>([&] { n->insert_arg(5, 1); }).id == 109);
  CHECK(n->args().size() == 4);
  Node* empty = t.g.call_function(ops::relu);
  empty->insert_arg(0, t.z);
  CHECK(inputs(empty) == Nodes{t.z});
  t.g.lint();
}

TEST_CASE("update_kwarg sets or adds; keys outlive the text that they came from") {
  Three t;
  Node* n = t.g.call_function(ops::relu, {t.x}, {{"alpha", t.y}});
  n->update_kwarg("alpha", t.z);
  {
    const std::string key = "a_keyword_that_is_longer_than_a_small_string";
    n->update_kwarg(key, 3);
  }
  CHECK(n->kwargs().size() == 2);
  CHECK(n->kwarg("alpha")->node() == t.z);
  CHECK(n->kwarg("a_keyword_that_is_longer_than_a_small_string")->integer() == 3);
  CHECK(n->kwarg("beta") == nullptr);
  CHECK(users(t.y).empty());
  CHECK(n->kwargs()[0].key == "alpha");
  t.g.lint();
}

TEST_CASE("arg names the node when there is no such argument") {
  Three t;
  Node* n = t.g.call_function(ops::neg, {t.x});
  CHECK(n->arg(0).node() == t.x);
  const auto fault = fault_of<GraphError>([&] { (void)n->arg(1); });
  CHECK(fault.id == 109);
  CHECK(fault.says("no positional argument 1; the node has 1"));
  CHECK(fault.node == format_node(*n));
}

// --- replacing -------------------------------------------------------------------------------------------------------

TEST_CASE("replace_all_uses_with reaches every place where a node can stand") {
  Three t;
  const Argument everywhere =
      Argument::tuple({t.x, Argument::list({1, t.x, Argument::dict({{"k", t.x}, {"l", Argument::list({t.y, t.x})}})}),
                       Slice{t.x, t.y, t.x}});
  Node* a = t.g.call_function(ops::relu, {t.x, everywhere, 2}, {{"first", everywhere}, {"second", t.x}});
  Node* b = t.g.call_method("neg", {t.x});
  Node* out = t.g.output(Argument::dict({{"a", a}, {"x", t.x}}));
  const Nodes changed = t.x->replace_all_uses_with(t.z);
  CHECK(changed == Nodes{a, b, out});
  CHECK(t.x->users().empty());
  CHECK(users(t.z) == Nodes{a, b, out});
  const Argument expected =
      Argument::tuple({t.z, Argument::list({1, t.z, Argument::dict({{"k", t.z}, {"l", Argument::list({t.y, t.z})}})}),
                       Slice{t.z, t.y, t.z}});
  CHECK(a->arg(1) == expected);
  CHECK(*a->kwarg("first") == expected);
  CHECK(a->kwarg("second")->node() == t.z);
  CHECK(out->arg(0).entries()[1].value.node() == t.z);
  t.g.lint();
  t.g.erase_node(t.x);
  t.g.lint();
}

TEST_CASE("a replacement that is used already joins: f(a, b) with a -> b is f(b, b), one user") {
  Three t;
  Node* f = t.g.call_function(ops::add_Tensor, {t.x, t.y}, {{"alpha", Argument::list({t.y, t.x})}});
  Node* other = t.g.call_function(ops::neg, {t.y});
  t.x->replace_all_uses_with(t.y);
  CHECK(inputs(f) == Nodes{t.y});
  CHECK(t.y->num_users() == 2);
  CHECK(t.y->users().contains(f));
  CHECK(t.y->users().contains(other));
  CHECK(t.x->users().empty());
  CHECK(f->arg(0).node() == t.y);
  CHECK(f->kwarg("alpha")->items()[1].node() == t.y);
  t.g.lint();
}

TEST_CASE("a filter says which users change") {
  Three t;
  Node* a = t.g.call_function(ops::neg, {t.x});
  Node* b = t.g.call_function(ops::sin, {t.x});
  Node* c = t.g.call_function(ops::cos, {t.x});
  const Nodes changed = t.x->replace_all_uses_with(t.y, [&](Node* user) { return user != b; });
  CHECK(changed == Nodes{a, c});
  CHECK(users(t.x) == Nodes{b});
  CHECK(users(t.y) == Nodes{a, c});
  t.g.lint();
}

TEST_CASE("a node is put behind another for all its users but itself") {
  Three t;
  Node* relu = t.g.call_function(ops::relu, {t.x});
  t.g.output(relu);
  const auto guard = t.g.inserting_after(relu);
  Node* neg = t.g.call_function(ops::neg, {relu});
  relu->replace_all_uses_with(neg, [&](Node* user) { return user != neg; });
  CHECK(users(relu) == Nodes{neg});
  CHECK(t.g.output_node()->arg(0).node() == neg);
  t.g.lint();
}

TEST_CASE("after replacing the uses of a node by its input, the node can go") {
  Graph g;
  Node* x = g.placeholder("x");
  Node* relu = g.call_function(ops::relu, {x});
  Node* neg = g.call_function(ops::neg, {relu});
  g.output(neg);
  neg->replace_all_uses_with(relu);
  g.erase_node(neg);
  CHECK_FALSE(relu->users().contains(neg));
  CHECK(users(relu) == Nodes{g.output_node()});
  g.lint();
}

TEST_CASE("replacing a node by itself changes nothing") {
  Three t;
  Node* n = t.g.call_function(ops::add_Tensor, {t.x, t.y});
  t.x->replace_all_uses_with(t.x);
  n->replace_input_with(t.x, t.x);
  CHECK(inputs(n) == Nodes{t.x, t.y});
  t.g.lint();
}

TEST_CASE("replace_input_with changes this node only") {
  Three t;
  Node* a = t.g.call_function(ops::relu, {t.x});
  Node* b = t.g.call_function(ops::neg, {t.x});
  a->replace_input_with(t.x, t.y);
  CHECK(a->arg(0).node() == t.y);
  CHECK(b->arg(0).node() == t.x);
  a->replace_input_with(t.x, t.z);  // not an input any more
  CHECK(inputs(a) == Nodes{t.y});
  t.g.lint();
}

TEST_CASE("many users are replaced in the order of use") {
  Graph g;
  Node *x = g.placeholder("x"), *y = g.placeholder("y");
  Nodes made;
  for (int i = 0; i < 1000; ++i) made.push_back(g.call_function(ops::add_Tensor, {x, i % 3 ? x : y}));
  const Nodes changed = x->replace_all_uses_with(y);
  CHECK(changed == made);
  CHECK(x->num_users() == 0);
  CHECK(y->num_users() == 1000);
  g.lint();
}

// --- the list --------------------------------------------------------------------------------------------------------

TEST_CASE("neighbours, and who stands before whom") {
  Three t;
  CHECK(t.x->prev() == nullptr);
  CHECK(t.x->next() == t.y);
  CHECK(t.z->prev() == t.y);
  CHECK(t.z->next() == nullptr);
  CHECK(t.x->is_before(*t.z));
  CHECK_FALSE(t.z->is_before(*t.x));
  CHECK_FALSE(t.x->is_before(*t.x));
  CHECK(*t.x < *t.y);
}

TEST_CASE("a node is moved before or after another") {
  Three t;
  t.x->prepend(t.z);
  CHECK(order(t.g) == "z x y");
  CHECK(*t.z < *t.x);
  t.z->append(t.y);
  CHECK(order(t.g) == "z y x");
  t.x->append(t.z);
  CHECK(order(t.g) == "y x z");
  CHECK(*t.x < *t.z);
  t.z->prepend(t.y);
  CHECK(order(t.g) == "x y z");
  t.g.lint();
}

TEST_CASE("moving a node to itself or to where it is changes nothing") {
  Three t;
  t.x->prepend(t.x);
  t.x->append(t.x);
  t.y->prepend(t.x);
  t.x->append(t.y);
  CHECK(order(t.g) == "x y z");
  CHECK(t.g.size() == 3);
  t.g.lint();
}

TEST_CASE("a value made at the end is moved before its user") {
  Graph g;
  Node* x = g.placeholder("x");
  Node* relu = g.call_function(ops::relu, {x});
  Node* out = g.output(relu);
  Node* neg = g.call_function(ops::neg, {x});
  relu->replace_input_with(x, neg);
  relu->prepend(neg);
  CHECK(order(g) == "x neg relu output");
  g.lint();
  out->prepend(neg);
  CHECK(order(g) == "x relu neg output");
}

TEST_CASE("the output stays last") {
  Three t;
  Node* out = t.g.output(t.x);
  CHECK(fault_of<GraphError>([&] { t.y->prepend(out); }).id == 107);
  CHECK(fault_of<GraphError>([&] { t.y->append(out); }).id == 107);
  CHECK(fault_of<GraphError>([&] { out->append(t.y); }).id == 107);
  t.z->append(out);  // where it is already
  out->prepend(t.x);
  CHECK(order(t.g) == "y z x output");
  t.g.lint();
}

TEST_CASE("nodes are not moved between graphs, nor erased ones, nor null") {
  Three t;
  Graph other;
  Node* foreign = other.placeholder("foreign");
  CHECK(fault_of<GraphError>([&] { t.x->prepend(foreign); }).id == 101);
  CHECK(fault_of<GraphError>([&] { t.x->append(foreign); }).id == 101);
  CHECK(fault_of<GraphError>([&] { t.z->append(foreign); }).id == 101);
  CHECK(fault_of<GraphError>([&] { t.x->prepend(nullptr); }).id == 101);
  CHECK(fault_of<GraphError>([&] { t.z->append(nullptr); }).id == 101);
  t.g.erase_node(t.z);
  CHECK(fault_of<GraphError>([&] { t.x->prepend(t.z); }).id == 103);
  CHECK(fault_of<GraphError>([&] { t.y->append(t.z); }).id == 103);
  CHECK(order(t.g) == "x y");
  CHECK(order(other) == "foreign");
  t.g.lint();
}

TEST_CASE("nodes are not moved next to an erased node") {
  Three t;
  t.g.erase_node(t.y);
  CHECK(fault_of<GraphError>([&] { t.y->prepend(t.x); }).id == 103);
  CHECK(fault_of<GraphError>([&] { t.y->append(t.x); }).id == 103);
  CHECK(order(t.g) == "x z");
  t.g.lint();
}

// --- what else a node carries ----------------------------------------------------------------------------------------

TEST_CASE("a type is kept with the graph") {
  Three t;
  {
    const std::string type = "std::vector<torch::Tensor, std::allocator<torch::Tensor>>";
    t.x->set_type(type);
  }
  CHECK(t.x->type() == "std::vector<torch::Tensor, std::allocator<torch::Tensor>>");
  t.x->set_type("");
  CHECK(t.x->type().empty());
}

TEST_CASE("shape and dtype are known or not") {
  Three t;
  CHECK(t.x->tensor_meta() == nullptr);
  const TensorMeta meta{.shape = {2, 3}, .stride = {3, 1}, .dtype = Dtype::int64, .device = {}, .requires_grad = false};
  t.x->set_tensor_meta(meta);
  t.y->set_tensor_meta(meta);
  REQUIRE(t.x->tensor_meta() != nullptr);
  CHECK(*t.x->tensor_meta() == meta);
  CHECK(t.x->tensor_meta()->numel() == 6);
  CHECK(t.x->tensor_meta()->dim() == 2);
  CHECK(t.x->tensor_meta() == t.y->tensor_meta());  // equal ones are shared
  TensorMeta larger = meta;
  larger.shape = {4, 3};
  t.y->set_tensor_meta(larger);
  CHECK(*t.x->tensor_meta() == meta);
  CHECK(*t.y->tensor_meta() == larger);
  t.x->clear_tensor_meta();
  CHECK(t.x->tensor_meta() == nullptr);
  // The addresses of earlier ones stay good while many more are added.
  const TensorMeta* kept = t.y->tensor_meta();
  for (int i = 0; i < 1000; ++i) {
    larger.shape = {i, 1};
    t.z->set_tensor_meta(larger);
  }
  CHECK(kept->shape == std::vector<std::int64_t>{4, 3});
}

TEST_CASE("meta is made when it is first written") {
  Three t;
  const Node& reader = *t.x;
  CHECK_FALSE(reader.has_meta());
  CHECK(reader.meta().stack_trace.empty());
  CHECK_FALSE(reader.has_meta());
  t.x->meta().custom.emplace_back("quantised", 8);
  CHECK(reader.has_meta());
  CHECK(std::any_cast<int>(reader.meta().custom[0].second) == 8);
  CHECK_FALSE(t.y->has_meta());
}

TEST_CASE("the calls of modules that a node came from are shared, told apart when repeated, and compared by value") {
  Three t;
  CHECK(t.x->module_stack().empty());
  CHECK(t.x->module_stack().text().empty());
  const ModuleStack encoder({}, {"encoder", "Encoder"}), again(encoder, {"encoder.0", "Layer", 1});
  t.x->set_module_stack(again);
  CHECK(t.x->module_stack().text() == "encoder > encoder.0@1");
  CHECK(t.x->module_stack().innermost().type == "Layer");
  CHECK(t.x->module_stack().outer() == encoder);
  CHECK(again.frames() == std::vector<ModuleFrame>{{"encoder", "Encoder"}, {"encoder.0", "Layer", 1}});
  CHECK(ModuleStack(ModuleStack({}, {"encoder", "Encoder"}), {"encoder.0", "Layer", 1}) == again);
  CHECK_FALSE(ModuleStack(encoder, {"encoder.0", "Layer"}) == again);
  CHECK_FALSE(encoder == again);
  Graph copy = t.g;
  CHECK(copy.nodes().front()->module_stack() == again);
  t.x->set_module_stack({});
  CHECK(t.x->module_stack().empty());
  CHECK(copy.nodes().front()->module_stack() == again);
}

TEST_CASE("a place in the source is remembered") {
  Three t;
  CHECK(t.x->location().line() == 0);
  const auto here = std::source_location::current();
  t.x->set_location(here);
  CHECK(t.x->location().line() == here.line());
  CHECK(std::string_view(t.x->location().file_name()).ends_with("node.cpp"));
}

TEST_CASE("set_op changes what a node does and keeps its arguments") {
  Three t;
  Node* n = t.g.call_function(ops::relu, {t.x});
  n->set_op(CallFunction{&ops::neg.info()});
  CHECK(n->operation() == &ops::neg.info());
  CHECK(n->name() == "relu");
  n->set_op(CallMethod{"sin"});
  CHECK(n->opcode() == Opcode::call_method);
  CHECK(n->operation() == nullptr);
  CHECK(inputs(n) == Nodes{t.x});
  n->set_op(CallModule{"layer"});
  CHECK(n->target() == "layer");
  t.g.lint();
}

TEST_CASE("nothing becomes an output and an output becomes nothing else") {
  Three t;
  Node* n = t.g.call_function(ops::relu, {t.x});
  Node* out = t.g.output(n);
  CHECK(fault_of<GraphError>([&] { n->set_op(Output{}); }).id == 107);
  CHECK(fault_of<GraphError>([&] { out->set_op(CallMethod{"neg"}); }).id == 107);
  out->set_op(Output{});
  CHECK(n->target() == "torch.ops.aten.relu.default");
  t.g.lint();
}

TEST_CASE("what a method was resolved to is forgotten when the node changes") {
  Three t;
  Node* n = t.g.call_method("add", {t.x, t.y});
  CHECK(n->operation() == nullptr);
  n->set_resolved(&ops::add_Tensor.info());
  CHECK(n->operation() == &ops::add_Tensor.info());
  n->update_arg(1, 2);
  CHECK(n->operation() == nullptr);
  n->set_resolved(&ops::add_Tensor.info());
  n->replace_input_with(t.x, t.z);
  CHECK(n->operation() == nullptr);
  n->set_resolved(&ops::add_Tensor.info());
  n->set_op(CallMethod{"sub"});
  CHECK(n->operation() == nullptr);
}

TEST_CASE("changing the arguments of a call_function keeps its operator") {
  Three t;
  Node* n = t.g.call_function(ops::add_Tensor, {t.x, t.y});
  n->set_args({t.y, t.x});
  n->replace_input_with(t.y, t.z);
  CHECK(n->operation() == &ops::add_Tensor.info());
}

TEST_CASE("the family of a node is its operator's wherever the arguments leave no doubt, and follows every change") {
  Three t;
  const auto is_of = [](const Node* n, const auto& op) { return n->family() == op.info().family; };
  CHECK(t.x->family() == Node::no_call);
  CHECK(t.g.get_attr("weight")->family() == Node::no_call);
  Node* n = t.g.call_function(ops::add_Tensor, {t.x, t.y});
  CHECK(is_of(n, ops::add_Tensor));
  n->set_args({t.x, 2});  // another overload
  CHECK(n->family() == Node::any_call);
  n->set_args({t.x, t.y});
  CHECK(is_of(n, ops::add_Tensor));
  n->update_kwarg("alpha", 2);
  CHECK(n->family() == Node::any_call);
  n->set_kwargs({});
  n->replace_input_with(t.y, t.z);
  CHECK(is_of(n, ops::add_Tensor));
  n->set_op(CallFunction{&ops::mul_Tensor.info()});
  CHECK(is_of(n, ops::mul_Tensor));
  n->set_op(CallFunction{&ops::relu_.info()});
  CHECK(n->family() == Node::any_call);
  n->set_op(CallMethod{"mul"});
  CHECK(n->family() == Node::any_call);
  n->set_op(CallModule{"fc"});
  CHECK(n->family() == Node::any_call);
  n->set_op(GetAttr{"bias"});
  CHECK(n->family() == Node::no_call);
  CHECK(t.g.output(t.x)->family() == Node::any_call);
  n->set_op(CallFunction{&ops::mul_Tensor.info()});
  const Graph copy(t.g);
  CHECK(is_of(copy.output_node()->prev(), ops::mul_Tensor));
}

TEST_CASE("a node has as many keyword arguments as it is given") {
  Three t;
  Node* n = t.g.call_method("f", {t.x}, {{"a", 1}});
  const std::vector<KeywordArgument> many(std::size_t{1} << 20, KeywordArgument{"k", {}});
  n->set_kwargs(many);
  CHECK(n->kwargs().size() == many.size());
  CHECK(t.g.call_method("g", {t.x}, many)->kwargs().size() == many.size());
  t.g.lint();
}

TEST_CASE("a graph says whether any call that it has had could have an effect") {
  const auto may = [](auto put) {
    Three t;
    Node* pure = t.g.call_function(ops::add_Tensor, {t.x, t.y});
    CHECK_FALSE(t.g.may_have_effects());
    put(t.g, t.x, pure);
    CHECK(Graph(t.g).may_have_effects() == t.g.may_have_effects());
    return t.g.may_have_effects();
  };
  CHECK_FALSE(may([](Graph& g, Node* x, Node*) { g.output(g.call_function(ops::relu, {x})); }));
  CHECK_FALSE(may([](Graph& g, Node*, Node*) { g.get_attr("weight"); }));
  CHECK(may([](Graph& g, Node* x, Node*) { g.call_function(ops::relu_, {x}); }));
  CHECK(may([](Graph& g, Node* x, Node*) {
    g.call_function(ops::batch_norm, {x, {}, {}, x, x, false, 0.1, 1e-5, false});
  }));
  CHECK(may([](Graph& g, Node* x, Node*) { g.call_method("add_", {x, 1}); }));
  CHECK(may([](Graph& g, Node* x, Node*) { g.call_module("block", {x}); }));
  CHECK(may([](Graph& g, Node* x, Node*) { g.call_function(register_function("tests::node::any"), {x}); }));
  CHECK(may([](Graph&, Node*, Node* pure) { pure->set_op(CallFunction{&ops::add__Tensor.info()}); }));
}
