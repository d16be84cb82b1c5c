// ir/detail/names.hpp through the graph: names are snake case, unique, C++ identifiers, numbered as torch.fx numbers
// them.
#include "fxx/ir/names.hpp"

#include <doctest/doctest.h>

#include <set>

#include "fxx/ir/graph.hpp"
#include "fxx/ops/operation.hpp"
#include "fxx/ops/registry.hpp"
#include "support.hpp"

using namespace fxx;
using Texts = std::vector<std::string>;

namespace {

/// Names that a fresh graph gives to these candidates, one after another.
Texts names_for(const Texts& candidates) {
  Graph g;
  Texts names;
  for (const std::string& c : candidates) names.emplace_back(g.placeholder(c)->name());
  return names;
}
std::string name_for(const std::string& candidate) { return names_for({candidate})[0]; }

bool is_identifier(std::string_view name) {
  if (name.empty() || (name[0] >= '0' && name[0] <= '9')) return false;
  for (char c : name)
    if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_')) return false;
  return true;
}

}  // namespace

TEST_CASE("candidates become snake case") {
  CHECK(name_for("x") == "x");
  CHECK(name_for("fooBar") == "foo_bar");
  CHECK(name_for("FooBar") == "foo_bar");
  CHECK(name_for("ALL_CAPS") == "all_caps");
  CHECK(name_for("SelfAttention.fc1") == "self_attention_fc1");
  CHECK(name_for("layer1.0.conv1") == "layer1_0_conv1");
  CHECK(name_for("aB1C") == "a_b1c");
  CHECK(name_for("A1B") == "a1b");
  CHECK(name_for("_x") == "_x");
}

TEST_CASE("characters that no identifier has become underscores") {
  CHECK(name_for("a b") == "a_b");
  CHECK(name_for("a-b+c") == "a_b_c");
  CHECK(name_for("1x") == "_1x");
  CHECK(name_for("0") == "_0");
  for (const std::string candidate :
       {"", "_", "__", "\n", "\xc3\xa9", "%", "é", "a\"b", "x\\", "(", "日本", "7", "_7", "__7", "...."}) {
    CAPTURE(candidate);
    CHECK(is_identifier(name_for(candidate)));
  }
}

TEST_CASE("names never begin with two underscores, which belong to the compiler") {
  for (const std::string candidate : {"__x", "__init__", "____", "..x", "-_x", "__a__b"}) {
    CAPTURE(candidate);
    CHECK_FALSE(name_for(candidate).starts_with("__"));
  }
}

TEST_CASE("the examples of torch.fx: taken names are numbered") {
  CHECK(names_for({"x", "x", "x_1", "x"}) == Texts{"x", "x_1", "x_2", "x_3"});
  CHECK(names_for({"x", "x_1", "x", "x"}) == Texts{"x", "x_1", "x_2", "x_3"});
  CHECK(names_for({"x_1", "x", "x", "x"}) == Texts{"x_1", "x", "x_2", "x_3"});
  CHECK(names_for({"x_3", "x_3", "x", "x_2", "x_4", "x_3"}) == Texts{"x_3", "x_4", "x", "x_2", "x_5", "x_6"});
  CHECK(names_for({"add", "add", "add_1", "add_1", "add", "add_1_1"}) ==
        Texts{"add", "add_1", "add_2", "add_3", "add_4", "add_1_1"});
  CHECK(names_for({"x_10", "x", "x_10", "x_9", "x_10"}) == Texts{"x_10", "x", "x_11", "x_9", "x_12"});
  CHECK(names_for({"a.b", "a b", "aB"}) == Texts{"a_b", "a_b_1", "a_b_2"});
  CHECK(names_for({"x_1_1", "x_1_1", "x_1_2", "x_1"}) == Texts{"x_1_1", "x_1_2", "x_1_3", "x_1"});
}

TEST_CASE("numbers count on from every number given before, as in torch.fx") {
  CHECK(names_for({"x_10", "x", "x"}) == Texts{"x_10", "x", "x_11"});
  CHECK(names_for({"y_1", "x_3", "x", "x_1", "x", "x_2"}) == Texts{"y_1", "x_3", "x", "x_1", "x_2", "x_4"});
  CHECK(names_for({"x_1", "x_1_1", "x_3", "y", "y_1", "x", "x_1", "x", "x", "x", "x_1_1", "y_1", "x", "x_2"}) ==
        Texts{"x_1", "x_1_1", "x_3", "y", "y_1", "x", "x_4", "x_5", "x_6", "x_7", "x_1_2", "y_2", "x_8", "x_2"});
  // Numbers that were given in turn, and such as were not.
  CHECK(names_for({"x", "x", "x_3", "x_4", "x", "x", "x", "x_5", "x_2"}) ==
        Texts{"x", "x_1", "x_3", "x_4", "x_5", "x_6", "x_7", "x_8", "x_2"});
  CHECK(names_for({"x_2", "x_1", "x_1", "x_3", "x_2", "x_1", "x_5", "x_4", "x_4"}) ==
        Texts{"x_2", "x_1", "x_3", "x_4", "x_5", "x_6", "x_7", "x_8", "x_9"});
  CHECK(names_for({"x_03", "x", "x", "x_3", "x_03"}) == Texts{"x_03", "x", "x_4", "x_3", "x_5"});
  CHECK(names_for({"x_0", "x_0", "x", "x_01", "x_01"}) == Texts{"x_0", "x_1", "x", "x_01", "x_2"});
}

TEST_CASE("words of C++, of generated code and of the printed form name no node") {
  for (const std::string word : {"for",   "class",  "int", "auto", "and",     "not_eq", "co_await", "nullptr",
                                 "torch", "at",     "std", "fxx",  "forward", "main",   "assert",   "errno",
                                 "unix",  "device", "inf", "nan",  "slice",   "range",  "return"}) {
    CAPTURE(word);
    CHECK(names_for({word, word}) == Texts{std::string(word) + "_1", std::string(word) + "_2"});
  }
  CHECK(name_for("For") == "for_1");
  CHECK(name_for("input") == "input");
}

TEST_CASE("each opcode is named after its target") {
  Graph g;
  Node* x = g.placeholder("InputImage");
  CHECK(x->name() == "input_image");
  CHECK(g.get_attr("layer.weight")->name() == "layer_weight");
  CHECK(g.call_module("encoder.layers.0.fc1", {x})->name() == "encoder_layers_0_fc1");
  CHECK(g.call_method("unsqueeze", {x})->name() == "unsqueeze");
  CHECK(g.call_method("__and__", {x})->name() == "and_1");
  CHECK(g.call_method("__getitem__", {x})->name() == "getitem");
  CHECK(g.call_function(ops::add_Tensor, {x, x})->name() == "add");
  CHECK(g.call_function(ops::add_Tensor, {x, x})->name() == "add_1");
  CHECK(g.call_function(register_function("geometry::rotateLeft"), {x})->name() == "rotate_left");
  CHECK(g.output(x)->name() == "output");
}

TEST_CASE("rename takes the name or numbers it, and a node keeps its own") {
  Graph g;
  Node *x = g.placeholder("x"), *y = g.placeholder("y");
  y->rename("y");
  CHECK(y->name() == "y");
  y->rename("x");
  CHECK(y->name() == "x_1");
  x->rename("imageBatch");
  CHECK(x->name() == "image_batch");
  y->rename("while");
  CHECK(y->name() == "while_1");
  g.lint();
}

TEST_CASE("a name stays taken after its node is erased or renamed") {
  Graph g;
  Node* x = g.placeholder("x");
  g.erase_node(x);
  CHECK(g.placeholder("x")->name() == "x_1");
  Node* y = g.placeholder("y");
  y->rename("z");
  CHECK(g.placeholder("y")->name() == "y_1");
}

TEST_CASE("names live as long as the graph") {
  Graph g;
  Node* x = g.placeholder("x");
  const std::string_view old = x->name();
  for (int i = 0; i < 1000; ++i) x->rename("another_name_" + std::to_string(i * 7));
  CHECK(old == "x");
}

TEST_CASE("very long names and very high numbers are fine") {
  const std::string name(100000, 'n');
  CHECK(names_for({name, name}) == Texts{name, name + "_1"});
  const Texts high =
      names_for({"x_99999999999", "x_99999999999", "x_18446744073709551615", "x_18446744073709551615", "x"});
  CHECK(std::set<std::string>(high.begin(), high.end()).size() == high.size());
  for (const std::string& n : high) CHECK(is_identifier(n));
}

TEST_CASE("whatever is asked for, names are unique identifiers that are not reserved") {
  test::Random random(7);
  const char* pieces[] = {"x", "x_1", "_", "1", "Add", "for", "é", ".", "y_2", "_0", "int", " ", "B"};
  Graph g;
  std::set<std::string> seen;
  for (int i = 0; i < 3000; ++i) {
    std::string candidate;
    for (std::size_t k = random.below(5); k > 0; --k) candidate += pieces[random.below(std::size(pieces))];
    const std::string name(g.placeholder(candidate)->name());
    CAPTURE(candidate);
    CHECK(is_identifier(name));
    CHECK_FALSE(name.starts_with("__"));
    CHECK_FALSE(is_reserved_name(name));
    CHECK(seen.insert(name).second);
  }
  g.lint();
}

TEST_CASE("late names are given to those who ask, in the order in which they are asked for") {
  Graph g;
  Node* x = g.placeholder("x");
  const auto relu = [&] { return g.call_function(ops::relu, {x}); };
  Node *early = relu(), *second = nullptr, *first = nullptr, *gone = nullptr, *named = nullptr;
  {
    const LateNames late = g.naming_late();
    {
      const LateNames again = g.naming_late();
      second = relu();
    }
    gone = relu();  // still late: the guard around the other one lives
    first = relu();
    named = g.create_node(CallFunction{&ops::relu.info()}, {x}, {}, "mine");
    for (const Node* n : {second, gone, first}) CHECK_FALSE(n->has_name());
    CHECK(named->has_name());
    CHECK(first->name() == "relu_1");
    CHECK(first->has_name());
    g.erase_node(gone);
  }
  const Node* after = relu();
  CHECK(after->has_name());
  CHECK(after->name() == "relu_2");
  CHECK_FALSE(second->has_name());
  CHECK(second->name() == "relu_3");
  CHECK(first->name() == "relu_1");
  CHECK(early->name() == "relu");
  CHECK(named->name() == "mine");
  CHECK(gone->name() == "relu_4");  // erased ones, too, once asked
  g.output(x);
  g.lint();
}

TEST_CASE("a node without a name exchanges it, is renamed, copied and printed like any other") {
  Graph g;
  Node* x = g.placeholder("x");
  const LateNames late = g.naming_late();
  Node *a = g.call_function(ops::relu, {x}), *b = g.call_function(ops::exp, {a}), *c = g.call_function(ops::sin, {b});
  a->rename("first");
  CHECK(a->name() == "first");
  b->swap_names(*a);
  CHECK(b->name() == "first");
  CHECK_FALSE(a->has_name());
  const Graph copy(g);
  CHECK(a->name() == "relu");
  CHECK(copy.nodes().back()->name() == "sin");
  CHECK(to_string(g) == to_string(copy));
  CHECK(c->name() == "sin");
}

TEST_CASE("ten thousand nodes of one name are numbered without a gap") {
  Graph g;
  for (int i = 0; i < 10000; ++i) g.placeholder("x");
  CHECK(g.nodes().back()->name() == "x_9999");
}
