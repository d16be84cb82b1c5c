// Graph::lint: passes on whatever the calls of a graph make, and names each breakage that they allow.
#include <doctest/doctest.h>

#include <set>

#include "fxx/ir/detail/storage.hpp"
#include "fxx/ir/graph.hpp"
#include "fxx/ops/operation.hpp"
#include "listed_owner.hpp"
#include "support.hpp"

using namespace fxx;
using test::fault_of;

namespace {

// No call leaves a graph broken, so the tests write to a node's private members, as a stray write to memory would: names
// in an explicit instantiation are not checked for access.
struct NodeMemory {
  friend detail::ColdNode*& cold_of(NodeMemory, Node& node);
  friend Node*& next_of(NodeMemory, Node& node);
  friend std::uint32_t& users_of(NodeMemory, Node& node);
};
template <detail::ColdNode* Node::*Cold, Node* Node::*Next, std::uint32_t Node::*Users>
struct OpenNode {
  friend detail::ColdNode*& cold_of(NodeMemory, Node& node) { return node.*Cold; }
  friend Node*& next_of(NodeMemory, Node& node) { return node.*Next; }
  friend std::uint32_t& users_of(NodeMemory, Node& node) { return node.*Users; }
};
template struct OpenNode<&Node::cold_, &Node::next_, &Node::users_size_>;

/// Sets a value until the end of a scope, so that the graph can be destroyed.
template <class T>
class Overwritten {
 public:
  Overwritten(T& place, T value) : place_(place), before_(std::exchange(place, value)) {}
  Overwritten(const Overwritten&) = delete;
  Overwritten& operator=(const Overwritten&) = delete;
  ~Overwritten() { place_ = before_; }

 private:
  T& place_;
  T before_;
};

}  // namespace

TEST_CASE("two nodes of one name are found") {
  Graph g;
  Node* x = g.placeholder("x");
  Node* relu = g.call_function(ops::relu, {x});
  g.output(relu);
  g.lint();
  const Overwritten name(cold_of(NodeMemory{}, *relu)->name_text, x->name().data());
  const Overwritten size(cold_of(NodeMemory{}, *relu)->name_size, 1u);
  const auto fault = fault_of<GraphError>([&] { g.lint(); });
  CHECK(fault.id == static_cast<int>(ErrorId::duplicate_name));
  CHECK(fault.says("two nodes are called 'x'"));
}

TEST_CASE("links that contradict the list or the arguments are found") {
  Graph g;
  Node* x = g.placeholder("x");
  Node* relu = g.call_function(ops::relu, {x});
  Node* neg = g.call_function(ops::neg, {relu});
  Node* unused = g.call_function(ops::abs, {x});
  g.output(neg);
  g.lint();
  const auto check_broken = [&](std::string_view words) {
    const auto fault = fault_of<GraphError>([&] { g.lint(); });
    CHECK(fault.id == static_cast<int>(ErrorId::broken_links));
    CHECK_MESSAGE(fault.says(words), fault.text);
  };
  {
    const Overwritten order(cold_of(NodeMemory{}, *neg)->order, cold_of(NodeMemory{}, *x)->order);
    check_broken("the position of node 'neg' is not after");
  }
  {
    const Overwritten input(cold_of(NodeMemory{}, *x)->first_user->input, neg);
    check_broken("the links of node 'relu' to its inputs differ");
  }
  {
    const Overwritten next(next_of(NodeMemory{}, *neg), unused->next());
    check_broken("the graph counts 5 nodes but holds 4");
  }
  {
    const Overwritten users(users_of(NodeMemory{}, *relu), 2u);
    check_broken("the node lists 1 users but 1 nodes use it");  // and counts 2
  }
  {
    const Overwritten first(cold_of(NodeMemory{}, *x)->first_user, cold_of(NodeMemory{}, *relu)->first_user);
    check_broken("'neg' is listed as a user but does not use this node");
  }
  g.lint();
}

TEST_CASE("a use before its definition is named, with what to do") {
  Graph g;
  Node* x = g.placeholder("x");
  Node* relu = g.call_function(ops::relu, {x});
  Node* neg = g.call_function(ops::neg, {relu});
  g.output(neg);
  g.lint();
  neg->append(relu);
  const auto fault = fault_of<GraphError>([&] { g.lint(); });
  CHECK(fault.id == 104);
  CHECK(fault.says("argument 'relu' of node 'neg' was used before it has been defined"));
  CHECK(fault.says("move its definition up"));
  CHECK(fault.node == format_node(*neg));
  neg->prepend(relu);
  g.lint();
}

TEST_CASE("uses before the definition are found inside containers and kwargs") {
  for (const int where : {0, 1, 2, 3}) {
    CAPTURE(where);
    Graph g;
    Node *x = g.placeholder("x"), *late = g.placeholder("late");
    Node* user = g.call_function(ops::relu, {x});
    if (where == 0) user->set_args({Argument::list({x, Argument::tuple({late})})});
    if (where == 1) user->set_args({Slice{{}, late, {}}});
    if (where == 2) user->set_kwargs({{"k", late}});
    if (where == 3) user->set_kwargs({{"k", Argument::dict({{"a", 1}, {"b", late}})}});
    g.lint();
    user->append(late);
    CHECK(fault_of<GraphError>([&] { g.lint(); }).id == 104);
  }
}

TEST_CASE("a node that uses itself is used before it has been defined") {
  Graph g;
  Node* x = g.placeholder("x");
  Node* relu = g.call_function(ops::relu, {x});
  relu->set_args({relu});
  const auto fault = fault_of<GraphError>([&] { g.lint(); });
  CHECK(fault.id == 104);
  CHECK(fault.says("argument 'relu' of node 'relu'"));
  relu->set_args({x});
  g.lint();
}

TEST_CASE("an output with more than one argument is refused") {
  Graph g;
  Node* x = g.placeholder("x");
  Node* out = g.output(x);
  out->set_args({x, x});
  const auto fault = fault_of<GraphError>([&] { g.lint(); });
  CHECK(fault.id == 107);
  CHECK(fault.says("2 arguments"));
}

TEST_CASE("attributes and modules that the owner lacks are named; without an owner nothing is asked") {
  const test::ListedOwner owner({"linear.weight"}, {"linear", "linear.activation"});
  Graph g;
  Node* x = g.placeholder("x");
  g.get_attr("linear.weight");
  g.get_attr("linear");  // a module may be an attribute
  g.call_module("linear.activation", {x});
  CHECK(g.owning_module() == nullptr);
  g.set_owning_module(&owner);
  CHECK(g.owning_module() == &owner);
  g.lint();

  Node* attribute = g.get_attr("linear.bias");
  auto fault = fault_of<GraphError>([&] { g.lint(); });
  CHECK(fault.id == 108);
  CHECK(fault.says("attribute 'linear.bias', which Net does not have"));
  CHECK(fault.node == format_node(*attribute));
  g.erase_node(attribute);
  g.lint();

  Node* module = g.call_module("linear.weight", {x});  // a parameter is no module
  fault = fault_of<GraphError>([&] { g.lint(); });
  CHECK(fault.id == 108);
  CHECK(fault.says("module 'linear.weight', which Net does not have"));
  module->set_op(CallModule{"linear"});
  g.lint();
  module->set_op(CallModule{"gone"});
  g.set_owning_module(nullptr);
  g.lint();
}

TEST_CASE("lint holds after any edits that the calls allow") {
  test::Random random(3);
  for (int round = 0; round < 30; ++round) {
    Graph g;
    std::vector<Node*> live = {g.placeholder("x")};
    // Definitions stay before uses here, so lint must pass throughout.
    for (int step = 0; step < 120; ++step) {
      Node* a = live[random.below(live.size())];
      Node* b = live[random.below(live.size())];
      switch (random.below(7)) {
        case 0:
        case 1: {
          Node* later = a->is_before(*b) ? b : a;
          const auto guard = g.inserting_after(later);
          live.push_back(g.call_function(ops::add_Tensor, {a, Argument::list({b, 1})}, {{"alpha", a}}));
          break;
        }
        case 2:
          if (a->num_users() == 0 && live.size() > 1) {
            g.erase_node(a);
            std::erase(live, a);
          }
          break;
        case 3:
          if (a->is_before(*b)) b->replace_all_uses_with(a, [&](Node* user) { return user != a; });
          break;
        case 4:
          if (b->is_before(*a) && !a->args().empty()) a->update_arg(random.below(a->args().size()), b);
          break;
        case 5:
          if (a->all_input_nodes().contains(b)) a->replace_input_with(b, live[0]);
          break;
        case 6: a->rename(b->name()); break;
      }
      g.lint();
    }
    const Graph copy = g;
    copy.lint();
    CHECK(same_structure(copy, g));
    std::set<std::string_view> names;
    for (Node* n : g.nodes()) names.insert(n->name());
    CHECK(names.size() == g.size());
  }
}

TEST_CASE("lint walks a deep graph without recursion") {
  Graph g;
  Node* n = g.placeholder("x");
  for (int i = 0; i < 100000; ++i) n = g.call_function(ops::relu, {n});
  g.output(n);
  g.lint();
}

TEST_CASE("lint of a node with very many inputs grows in proportion") {
  Graph g;
  Node* x = g.placeholder("x");
  std::vector<Argument> parts;
  for (int i = 0; i < 1000000; ++i) parts.push_back(g.call_function(ops::relu, {x}));
  g.output(g.call_function(ops::cat, {Argument::list(std::move(parts))}));
  g.lint();
}

TEST_CASE("an output without an argument is refused, and prints") {
  CHECK(test::holds_in_child([] {
    Graph g;
    g.output(g.placeholder("x"))->set_args({});
    return fault_of<GraphError>([&] { g.lint(); }).id == 107 && !to_string(g).empty();
  }));
}
