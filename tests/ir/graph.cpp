// ir/graph.hpp: creating nodes, the insertion point, the list, erasing, moving a graph.
#include "fxx/ir/graph.hpp"

#include <doctest/doctest.h>

#include <sstream>

#include "fxx/ops/operation.hpp"
#include "fxx/ops/registry.hpp"
#include "support.hpp"

using namespace fxx;
using test::fault_of;

namespace {

std::string order(const Graph& g) {
  std::string text;
  for (Node* n : g.nodes()) (text += text.empty() ? "" : " ") += n->name();
  return text;
}
std::string backwards(const Graph& g) {
  std::string text;
  for (Node* n : g.nodes().reversed()) (text += text.empty() ? "" : " ") += n->name();
  return text;
}

}  // namespace

TEST_CASE("a graph built by hand has its nodes, targets and arguments") {
  Graph g;
  Node* x = g.placeholder("x");
  Node* linear = g.call_module("linear_mod", {x});
  Node* weight = g.get_attr("linear_mod.weight");
  Node* added = g.call_method("add", {linear, weight});
  Node* relu = g.call_function(ops::relu, {added}, {});
  const UserFunction& user = register_function("tests::twice", "\"twice.hpp\"");
  Node* twice = g.call_function(user, {relu}, {{"times", 2}});
  Node* out = g.output(Argument::tuple({twice, relu}));
  g.lint();

  CHECK(g.size() == 7);
  CHECK(order(g) == "x linear_mod linear_mod_weight add relu twice output");
  const Opcode opcodes[] = {Opcode::placeholder,   Opcode::call_module,   Opcode::get_attr, Opcode::call_method,
                            Opcode::call_function, Opcode::call_function, Opcode::output};
  std::size_t i = 0;
  for (Node* n : g.nodes()) CHECK(n->opcode() == opcodes[i++]);
  CHECK(std::get<Placeholder>(x->op()).target == "x");
  CHECK(std::get<CallModule>(linear->op()).target == "linear_mod");
  CHECK(std::get<GetAttr>(weight->op()).target == "linear_mod.weight");
  CHECK(std::get<CallMethod>(added->op()).target == "add");
  CHECK(std::get<const Operator*>(std::get<CallFunction>(relu->op()).target) == &ops::relu.info());
  CHECK(std::get<const UserFunction*>(std::get<CallFunction>(twice->op()).target) == &user);
  CHECK(relu->target() == "torch.ops.aten.relu.default");
  CHECK(twice->target() == "tests::twice");
  CHECK(out->target() == "output");
  CHECK(relu->operation() == &ops::relu.info());
  CHECK(twice->operation() == nullptr);
  CHECK(linear->operation() == nullptr);
  CHECK(added->arg(0).node() == linear);
  CHECK(twice->kwarg("times")->integer() == 2);
  CHECK(&x->graph() == &g);
  CHECK(g.output_node() == out);
  CHECK(g.nodes().front() == x);
  CHECK(g.nodes().back() == out);
}

TEST_CASE("an empty graph has no nodes and no output") {
  const Graph g;
  CHECK(g.size() == 0);
  CHECK(g.nodes().empty());
  CHECK(g.nodes().front() == nullptr);
  CHECK(g.nodes().back() == nullptr);
  CHECK(order(g) == "");
  CHECK(g.index_bound() == 0);
  g.lint();
  const auto fault = fault_of<GraphError>([&] { g.output_node(); });
  CHECK(fault.id == 107);
  CHECK(fault.says("no output"));
}

TEST_CASE("placeholders have defaults and types") {
  Graph g;
  Node* plain = g.placeholder("x");
  Node* typed = g.placeholder("y", {}, "torch::Tensor");
  Node* number = g.placeholder("alpha", 2.5);
  Node* none = g.placeholder("mask", Argument());
  CHECK(plain->args().empty());
  CHECK(plain->type().empty());
  CHECK(typed->type() == "torch::Tensor");
  CHECK(number->arg(0).real() == 2.5);
  CHECK(none->args().size() == 1);
  CHECK(none->arg(0).is_none());
}

TEST_CASE("a second output is refused and nothing changes") {
  Graph g;
  Node* x = g.placeholder("x");
  Node* out = g.output(x);
  const auto fault = fault_of<GraphError>([&] { g.output(x); });
  CHECK(fault.id == 107);
  CHECK(fault.says("has an output already"));
  CHECK(fault.node == "return x");
  CHECK(g.size() == 2);
  CHECK(x->num_users() == 1);
  g.lint();
  g.erase_node(out);  // once it is gone, there may be another
  g.output(Argument::list({x}));
  g.lint();
}

TEST_CASE("without an insertion point nodes go to the end, but before the output") {
  Graph g;
  Node* x = g.placeholder("x");
  g.output(x);
  g.call_function(ops::relu, {x});
  g.call_function(ops::neg, {x});
  CHECK(order(g) == "x relu neg output");
  const auto guard = g.inserting_after(g.output_node());
  g.call_function(ops::tanh, {x});
  CHECK(order(g) == "x relu neg tanh output");
  g.lint();
}

TEST_CASE("the output is the last node wherever the insertion point is") {
  Graph g;
  Node* x = g.placeholder("x");
  Node* y = g.placeholder("y");
  const auto guard = g.inserting_before(y);
  g.output(x);
  CHECK(order(g) == "x y output");
  g.call_function(ops::relu, {x});
  CHECK(order(g) == "x relu y output");
}

TEST_CASE("insertion points nest and are restored") {
  Graph g;
  Node* x = g.placeholder("x");
  Node* relu = g.call_function(ops::relu, {x});
  g.output(relu);
  {
    const auto before = g.inserting_before(relu);
    g.call_function(ops::neg, {x});
    {
      const auto after = g.inserting_after(relu);
      g.call_function(ops::sin, {relu});
      {
        const auto start = g.inserting_before(nullptr);
        g.placeholder("first");
      }
      g.call_function(ops::cos, {relu});
    }
    g.call_function(ops::tanh, {x});
  }
  g.call_function(ops::exp, {relu});
  CHECK(order(g) == "first x neg tanh relu sin cos exp output");
  g.lint();
}

TEST_CASE("inserting after null appends, before null starts the graph, also when it is empty") {
  Graph g;
  {
    const auto start = g.inserting_before(nullptr);
    g.placeholder("b");
  }
  {
    const auto start = g.inserting_before(nullptr);
    g.placeholder("a");
  }
  Node* first = g.nodes().front();
  {
    const auto place = g.inserting_before(first);
    const auto end = g.inserting_after(nullptr);
    g.placeholder("c");
  }
  CHECK(order(g) == "a b c");
}

TEST_CASE("an insertion guard can be moved; the place holds until the last owner ends") {
  Graph g;
  Node *x = g.placeholder("x"), *y = g.placeholder("y");
  {
    std::optional<InsertPoint> outer;
    {
      auto inner = g.inserting_before(y);
      outer.emplace(std::move(inner));
    }
    g.call_function(ops::relu, {x});
  }
  g.call_function(ops::neg, {x});
  CHECK(order(g) == "x relu y neg");
}

TEST_CASE("erasing the node at the insertion point moves the point to the next node") {
  Graph g;
  Node *x = g.placeholder("x"), *y = g.placeholder("y");
  g.placeholder("z");
  const auto guard = g.inserting_before(y);
  g.erase_node(y);
  g.call_function(ops::relu, {x});
  CHECK(order(g) == "x relu z");
}

TEST_CASE("a guard whose node was erased meanwhile restores the place before what followed it") {
  for (const bool collected : {false, true}) {
    Graph g;
    Node *x = g.placeholder("x"), *y = g.placeholder("y"), *z = g.placeholder("z");
    g.placeholder("last");
    const auto outer = g.inserting_before(y);
    {
      const auto inner = g.inserting_before(x);
      const auto moved = [&] { return g.inserting_before(z); }();
      g.erase_node(y);
      g.erase_node(z);
      if (collected) g.collect_erased();
    }
    g.placeholder("w");
    g.lint();
    CHECK(order(g) == "x w last");
  }
}

TEST_CASE("insertion points of another graph, or at erased nodes, are refused") {
  Graph g, other;
  Node* x = g.placeholder("x");
  Node* foreign = other.placeholder("foreign");
  CHECK(fault_of<GraphError>([&] { (void)g.inserting_before(foreign); }).id == 101);
  CHECK(fault_of<GraphError>([&] { (void)g.inserting_after(foreign); }).id == 101);
  g.erase_node(x);
  CHECK(fault_of<GraphError>([&] { (void)g.inserting_before(x); }).id == 103);
  CHECK(fault_of<GraphError>([&] { (void)g.inserting_after(x); }).id == 103);
  g.placeholder("y");
  CHECK(order(g) == "y");
}

TEST_CASE("several inserts in one scope keep their order") {
  Graph g;
  Node* x = g.placeholder("x");
  Node* relu = g.call_function(ops::relu, {x});
  g.output(relu);
  {
    const auto guard = g.inserting_before(relu);
    Node* neg = g.call_function(ops::neg, {x});
    Node* tanh = g.call_function(ops::tanh, {neg});
    relu->set_args({tanh});
  }
  CHECK(order(g) == "x neg tanh relu output");
  g.lint();
  CHECK(format_node(*relu) ==
        "%relu : [num_users=1] = call_function[target=torch.ops.aten.relu.default](args = (%tanh,), kwargs = {})");
}

TEST_CASE("create_node takes every opcode and a name") {
  Graph g;
  Node* x = g.create_node(Placeholder{"input.1"}, {}, {}, "chosen");
  CHECK(x->name() == "chosen");
  CHECK(x->target() == "input.1");
  Node* m = g.create_node(CallModule{"layer"}, {x}, {{"scale", 2}});
  CHECK(m->name() == "layer");
  CHECK(m->kwarg("scale")->integer() == 2);
  CHECK(g.create_node(CallFunction{&ops::add_Tensor.info()}, {x, m})->name() == "add");
  CHECK(g.create_node(Output{}, {x})->name() == "output");
  g.lint();
}

TEST_CASE("arguments of another graph, erased or null are refused, and the graph stays as it was") {
  Graph g, other;
  Node* x = g.placeholder("x");
  Node* foreign = other.placeholder("foreign");
  Node* gone = g.placeholder("gone");
  g.erase_node(gone);
  const std::string before = to_string(g);

  auto fault = fault_of<GraphError>([&] { g.call_function(ops::add_Tensor, {x, foreign}); });
  CHECK(fault.id == 101);
  CHECK(fault.says("'foreign'"));
  CHECK(fault.says("does not belong to this Graph"));
  fault = fault_of<GraphError>([&] { g.call_function(ops::relu, {}, {{"self", Argument::list({x, gone})}}); });
  CHECK(fault.id == 103);
  CHECK(fault.says("'gone'"));
  fault = fault_of<GraphError>([&] { g.call_function(ops::relu, {static_cast<Node*>(nullptr)}); });
  CHECK(fault.id == 101);
  CHECK(fault_of<GraphError>([&] { g.output(foreign); }).id == 101);

  CHECK(to_string(g) == before);
  CHECK(x->num_users() == 0);
  CHECK(foreign->num_users() == 0);
  g.output(x);  // the refused output left no trace
  g.lint();
}

TEST_CASE("find_nodes gives the nodes of an opcode and a target, in order") {
  Graph g;
  Node* x = g.placeholder("x");
  Node* a = g.call_function(ops::relu, {x});
  Node* b = g.call_method("relu", {x});
  Node* c = g.call_function(ops::neg, {x});
  Node* d = g.call_function(ops::relu, {c});
  CHECK(g.find_nodes(Opcode::call_function) == std::vector<Node*>{a, c, d});
  CHECK(g.find_nodes(Opcode::call_function, "torch.ops.aten.relu.default") == std::vector<Node*>{a, d});
  CHECK(g.find_nodes(Opcode::call_method, "relu") == std::vector<Node*>{b});
  CHECK(g.find_nodes(Opcode::output).empty());
}

// --- erasing ---------------------------------------------------------------------------------------------------------

TEST_CASE("a node with users is not erased; the message counts and names them") {
  Graph g;
  Node* x = g.placeholder("x");
  Node* relu = g.call_function(ops::relu, {x});
  g.call_function(ops::add_Tensor, {relu, relu});
  g.call_function(ops::neg, {relu});
  auto fault = fault_of<GraphError>([&] { g.erase_node(relu); });
  CHECK(fault.id == 102);
  CHECK(fault.says("'relu' still has 2 user(s) in the graph (add, neg)"));
  CHECK(fault.node == format_node(*relu));
  CHECK_FALSE(relu->is_erased());
  for (int i = 0; i < 5; ++i) g.call_function(ops::sin, {relu});
  fault = fault_of<GraphError>([&] { g.erase_node(relu); });
  CHECK(fault.says("7 user(s) in the graph (add, neg, sin, sin_1, sin_2, ...)"));
  g.lint();
}

TEST_CASE("erasing unlinks the inputs and flags the node, whose pointer stays good") {
  Graph g;
  Node* x = g.placeholder("x");
  Node* a = g.call_function(ops::add_Tensor, {x, x}, {{"alpha", 2}});
  Node* b = g.call_function(ops::neg, {a});
  CHECK(x->num_users() == 1);
  g.erase_node(b);
  g.erase_node(a);
  CHECK(a->is_erased());
  CHECK(a->name() == "add");
  CHECK(a->args().empty());
  CHECK(a->kwargs().empty());
  CHECK(x->num_users() == 0);
  CHECK(x->users().empty());
  CHECK(order(g) == "x");
  CHECK(g.size() == 1);
  g.lint();
}

TEST_CASE("erasing twice, in another graph, or nothing at all is refused") {
  Graph g, other;
  Node *x = g.placeholder("x"), *y = g.placeholder("y");
  CHECK(fault_of<GraphError>([&] { other.erase_node(x); }).id == 101);
  CHECK(fault_of<GraphError>([&] { g.erase_node(nullptr); }).id == 101);
  g.erase_node(y);
  const auto fault = fault_of<GraphError>([&] { g.erase_node(y); });
  CHECK(fault.id == 103);
  CHECK(fault.node == "y");
  CHECK(order(g) == "x");
}

TEST_CASE("the output can be erased") {
  Graph g;
  Node* x = g.placeholder("x");
  g.erase_node(g.output(x));
  CHECK(order(g) == "x");
  CHECK(fault_of<GraphError>([&] { g.output_node(); }).id == 107);
  g.call_function(ops::relu, {x});
  CHECK(order(g) == "x relu");
}

TEST_CASE("erasing while iterating is safe, forwards and backwards") {
  for (const bool forward : {true, false}) {
    Graph g;
    for (int i = 0; i < 10; ++i) g.placeholder("x");
    int met = 0;
    const auto erase_odd = [&](Node* n) {
      if (met++ % 2) g.erase_node(n);
    };
    if (forward)
      for (Node* n : g.nodes()) erase_odd(n);
    else
      for (Node* n : g.nodes().reversed()) erase_odd(n);
    CHECK(met == 10);
    CHECK(order(g) == (forward ? "x x_2 x_4 x_6 x_8" : "x_1 x_3 x_5 x_7 x_9"));
    g.lint();
  }
}

TEST_CASE("erasing the node stood on and its neighbours while iterating is safe") {
  Graph g;
  std::vector<Node*> all;
  for (int i = 0; i < 9; ++i) all.push_back(g.placeholder("x"));
  std::string met;
  for (Node* n : g.nodes()) {
    met += std::to_string(n->index());
    if (n == all[3])
      for (int i : {4, 5, 3, 2}) g.erase_node(all[static_cast<std::size_t>(i)]);
  }
  CHECK(met == "0123678");
  CHECK(order(g) == "x x_1 x_6 x_7 x_8");
  for (Node* n : g.nodes()) g.erase_node(n);
  CHECK(g.nodes().empty());
}

TEST_CASE("inserting while iterating is safe; what comes later in the list is met") {
  Graph g;
  Node* x = g.placeholder("x");
  g.call_function(ops::relu, {x});
  g.call_function(ops::neg, {x});
  int met = 0;
  for (Node* n : g.nodes()) {
    if (++met > 20) break;
    if (n->opcode() != Opcode::call_function) continue;
    const auto guard = g.inserting_before(n);
    g.call_method("before", {x});
  }
  CHECK(met == 3);
  CHECK(order(g) == "x before relu before_1 neg");
  met = 0;
  for (Node* n : g.nodes()) {
    ++met;
    if (n->opcode() != Opcode::call_function) continue;
    const auto guard = g.inserting_after(n);
    g.call_method("after", {x});
  }
  CHECK(met == 7);
  CHECK(order(g) == "x before relu after before_1 neg after_1");
}

TEST_CASE("a snapshot stays the same while the graph is edited") {
  Graph g;
  for (int i = 0; i < 4; ++i) g.placeholder("x");
  for (Node* n : g.nodes().snapshot()) {
    g.placeholder("y");
    g.erase_node(n);
  }
  CHECK(order(g) == "y y_1 y_2 y_3");
}

TEST_CASE("iterators go both ways, compare, and are counted") {
  Graph g;
  for (int i = 0; i < 3; ++i) g.placeholder("x");
  CHECK(order(g) == "x x_1 x_2");
  CHECK(backwards(g) == "x_2 x_1 x");
  auto it = g.nodes().begin();
  CHECK((*it++)->name() == "x");
  CHECK((*it)->name() == "x_1");
  CHECK(it != g.nodes().end());
  ++ ++it;
  CHECK(it == g.nodes().end());
  CHECK(g.nodes().size() == 3);
}

TEST_CASE("memory of erased nodes is freed on demand, and the graph goes on") {
  Graph g;
  Node* x = g.placeholder("x");
  for (int round = 0; round < 50; ++round) {
    std::vector<Node*> made;
    for (int i = 0; i < 20; ++i) {
      Node* n = g.call_function(ops::relu, {made.empty() ? x : made.back()});
      n->meta().stack_trace = "somewhere";
      made.push_back(n);
    }
    for (auto it = made.rbegin(); it != made.rend(); ++it) g.erase_node(*it);
    if (round % 3 == 0) g.collect_erased();
  }
  g.collect_erased();
  CHECK(order(g) == "x");
  g.lint();
}

TEST_CASE("indices are never given twice and stay below the bound") {
  Graph g;
  Node* a = g.placeholder("a");
  Node* b = g.placeholder("b");
  CHECK(a->index() != b->index());
  g.erase_node(b);
  g.collect_erased();
  Node* c = g.placeholder("c");
  CHECK(c->index() == 2);
  CHECK(g.index_bound() == 3);
}

// --- the graph as a whole --------------------------------------------------------------------------------------------

TEST_CASE("a graph moves with its nodes") {
  Graph g;
  Node* x = g.placeholder("x");
  g.output(x);
  Graph moved = std::move(g);
  CHECK(&x->graph() == &moved);
  CHECK(moved.size() == 2);
  moved.lint();
  Graph assigned;
  assigned.placeholder("other");
  assigned = std::move(moved);
  CHECK(&x->graph() == &assigned);
  assigned.call_function(ops::relu, {x});
  assigned.lint();
  CHECK(order(assigned) == "x relu output");
  std::vector<Graph> many;
  for (int i = 0; i < 5; ++i) {
    many.emplace_back();
    many.back().placeholder("x");
  }
  for (const Graph& one : many) CHECK(&one.nodes().front()->graph() == &one);
}

TEST_CASE("interned text lives as long as the graph and is kept once") {
  Graph g;
  const std::string_view kept = [&] {
    const std::string text = "a text that no small string holds inside itself";
    return g.intern(text);
  }();
  CHECK(kept == "a text that no small string holds inside itself");
  CHECK(g.intern(std::string(kept)).data() == kept.data());
  CHECK(g.intern("").empty());
}

TEST_CASE("print_tabular prints a row a node") {
  Graph g;
  Node* x = g.placeholder("x");
  Node* add = g.call_function(ops::add_Tensor, {x, 1}, {{"alpha", 2}});
  g.output(add);
  std::ostringstream out;
  g.print_tabular(out);
  std::vector<std::string> lines;
  std::istringstream text(out.str());
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  REQUIRE(lines.size() == 5);
  for (const std::string title : {"opcode", "name", "target", "args", "kwargs"})
    CHECK(lines[0].find(title) != std::string::npos);
  for (const std::string cell : {"call_function", "add", "aten.add.Tensor", "(x, 1)", "{'alpha': 2}"})
    CHECK(lines[3].find(cell) != std::string::npos);
  CHECK(lines[2].find("placeholder") == 0);
  CHECK(lines[2].find("x") == lines[3].find("add"));
  CHECK(lines[4].find("(add,)") != std::string::npos);
}
