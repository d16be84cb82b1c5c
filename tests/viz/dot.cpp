// viz/dot.hpp: what is drawn, in which order, and names that try to break out of their quotes.
#include "fxx/viz/dot.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "../runtime/support.hpp"
#include "fxx/ops/operation.hpp"
#include "fxx/runtime/process.hpp"
#include "not_checked.hpp"

namespace {

using fxx::Argument;
using fxx::Graph;
using fxx::Node;
using support::contains;

/// The attributes of a node's box.
std::string box_of(const std::string& dot, const Node* node) {
  const std::string begin = "\n  n" + std::to_string(node->index()) + " [";
  const std::size_t at = dot.find(begin);
  REQUIRE(at != dot.npos);
  return dot.substr(at + begin.size(), dot.find("]\n", at) - at - begin.size());
}

/// The label as it stands in the text.
std::string label_of(const std::string& dot, const Node* node) {
  const std::string box = box_of(dot, node);
  REQUIRE(box.starts_with("label=\""));
  for (std::size_t end = 7; end < box.size(); ++end) {
    if (box[end] == '\\') ++end;
    else if (box[end] == '"') return box.substr(7, end - 7);
  }
  FAIL("the label does not end");
  return "";
}

/// Does Graphviz take it without a complaint? Nothing is claimed where it is not installed.
bool drawable(const std::string& dot) {
  if (!fxx::find_program("dot")) {
    fxx::test::not_checked("whether Graphviz takes what write_dot writes: it is not installed");
    return true;
  }
  const support::TemporaryFolder folder;
  const fxx::ProcessResult result = fxx::run_process(
      {"dot", "-Tsvg", "-o", folder / "out.svg", folder.file("in.dot", dot)}, {.timeout_seconds = 300});
  if (!result.output.empty()) MESSAGE(result.output);
  return result.ok() && result.output.empty();
}

}  // namespace

TEST_CASE("a graph becomes boxes with their arrows, in order") {
  Graph graph;
  Node* x = graph.placeholder("x");
  Node* y = graph.placeholder("y", Argument(2.5));
  Node* weight = graph.get_attr("layer.weight");
  Node* add = graph.call_function(fxx::ops::add_Tensor, {x, y}, {{"alpha", 2}});
  Node* linear = graph.call_function(fxx::ops::linear, {add, weight});
  Node* size = graph.call_method("size", {linear, 0});
  Node* layer = graph.call_module("layer", {linear});
  Node* out = graph.output(Argument::tuple({layer, size}));
  linear->set_tensor_meta({.shape = {8, 16}, .stride = {16, 1}, .dtype = fxx::Dtype::bfloat16});
  const std::string dot = fxx::to_dot(graph);
  CHECK(dot.starts_with("digraph \"\" {\n"));
  CHECK(dot.ends_with("}\n"));
  CHECK(contains(dot, "ordering=\"in\""));
  CHECK(label_of(dot, x) == "x");
  CHECK(label_of(dot, y) == "y\\n= 2.5");
  CHECK(label_of(dot, weight) == "layer_weight\\nlayer.weight");
  CHECK(label_of(dot, add) == "add\\naten.add.Tensor\\n(_, _, alpha=2)");
  CHECK(label_of(dot, linear) == "linear\\naten.linear.default\\nbfloat16[8, 16]");
  CHECK(label_of(dot, size) == "size\\n(_, 0)");
  CHECK(label_of(dot, layer) == "layer");
  CHECK(label_of(dot, out) == "output");
  const std::string arrows[] = {"n0 -> n3", "n1 -> n3", "n3 -> n4", "n2 -> n4",
                                "n4 -> n5", "n4 -> n6", "n6 -> n7", "n5 -> n7"};
  std::size_t at = 0;
  for (const std::string& arrow : arrows) {
    CAPTURE(arrow);
    const std::size_t found = dot.find("  " + arrow + "\n", at);
    REQUIRE(found != dot.npos);
    at = found;
  }
  CHECK(dot.find("->", at + arrows[0].size()) == dot.npos);
  CHECK(drawable(dot));
}

TEST_CASE("a node that is used twice has two arrows") {
  Graph graph;
  Node* x = graph.placeholder("x");
  Node* list = graph.call_function(fxx::ops::cat, {Argument::list({x, x}), 1}, {{"other", Argument::dict({{"k", x}})}});
  const std::string dot = fxx::to_dot(graph);
  CHECK(label_of(dot, list) == "cat\\naten.cat.default\\n([_, _], 1, other={'k': _})");
  std::size_t count = 0;
  for (std::size_t at = 0; (at = dot.find("n0 -> n1\n", at)) != dot.npos; ++at) ++count;
  CHECK(count == 3);
}

TEST_CASE("each opcode has its own colour") {
  Graph graph;
  Node* x = graph.placeholder("x");
  std::vector<const Node*> nodes = {x,
                                    graph.get_attr("w"),
                                    graph.call_function(fxx::ops::relu, {x}),
                                    graph.call_method("relu", {x}),
                                    graph.call_module("m", {x}),
                                    graph.output(x)};
  const std::string dot = fxx::to_dot(graph);
  std::vector<std::string> colours;
  for (const Node* node : nodes) {
    const std::string box = box_of(dot, node);
    const std::size_t at = box.find("fillcolor=\"#");
    REQUIRE(at != box.npos);
    colours.push_back(box.substr(at, 20));
  }
  std::sort(colours.begin(), colours.end());
  CHECK(std::adjacent_find(colours.begin(), colours.end()) == colours.end());
  CHECK(contains(box_of(dot, nodes[1]), "fontsize=8"));
}

TEST_CASE("immediates in containers are shown with the nodes left out") {
  Graph graph;
  Node* x = graph.placeholder("x");
  const auto shown = [&](std::vector<Argument> args) {
    const Node* node = graph.call_function(fxx::ops::cat, args);
    const std::string label = label_of(fxx::to_dot(graph), node);
    return label.substr(label.rfind("\\n") + 2);
  };
  CHECK(shown({x, Argument::tuple({x})}) == "aten.cat.default");  // nothing after the target
  CHECK(shown({x, Argument::tuple({1})}) == "(_, (1,))");
  CHECK(shown({x, Argument::tuple({x, 1})}) == "(_, (_, 1))");
  CHECK(shown({x, Argument::list({})}) == "(_, [])");
  CHECK(shown({Argument(fxx::Slice{x, {}, 2})}) == "(slice(_, None, 2))");
  CHECK(shown({x, std::nullopt, true, fxx::Dtype::float16}) == "(_, None, True, torch.float16)");
}

TEST_CASE("options leave parts out") {
  Graph graph;
  Node* x = graph.placeholder("x");
  Node* weight = graph.get_attr("w");
  Node* linear = graph.call_function(fxx::ops::linear, {x, weight, std::nullopt});
  linear->set_tensor_meta({.shape = {}, .stride = {}, .dtype = fxx::Dtype::int64});
  graph.output(linear);
  CHECK(label_of(fxx::to_dot(graph), linear) == "linear\\naten.linear.default\\n(_, _, None)\\nint64[]");
  CHECK(label_of(fxx::to_dot(graph, {.immediates = false}), linear) == "linear\\naten.linear.default\\nint64[]");
  CHECK(label_of(fxx::to_dot(graph, {.shapes = false}), linear) == "linear\\naten.linear.default\\n(_, _, None)");
  const std::string without = fxx::to_dot(graph, {.attributes = false});
  CHECK(!contains(without, "n1 "));
  CHECK(!contains(without, "n1\n"));
  CHECK(contains(without, "n0 -> n2\n"));
  CHECK(contains(fxx::to_dot(graph, {.left_to_right = true}), "rankdir=\"LR\""));
  CHECK(!contains(fxx::to_dot(graph), "rankdir"));
  const std::string titled = fxx::to_dot(graph, {.title = "A \"net\""});
  CHECK(titled.starts_with("digraph \"A \\\"net\\\"\" {\n"));
  CHECK(contains(titled, "label=\"A \\\"net\\\"\"\n"));
}

TEST_CASE("long lines are cut at whole characters") {
  Graph graph;
  Node* node = graph.get_attr("\xc3\xa9\xc3\xa9\xc3\xa9");
  const auto shown = [&](std::size_t longest) {
    const std::string label = label_of(fxx::to_dot(graph, {.longest_line = longest}), node);
    return label.substr(label.find("\\n") + 2);
  };
  CHECK(shown(6) == "\xc3\xa9\xc3\xa9\xc3\xa9");
  CHECK(shown(5) == "\xc3\xa9\xc3\xa9...");
  CHECK(shown(4) == "\xc3\xa9\xc3\xa9...");
  CHECK(shown(1) == "...");
  CHECK(shown(0) == "...");
  Node* call = graph.call_method("f", {std::string(100000, 'x')});
  CHECK(label_of(fxx::to_dot(graph), call).size() < 200);
}

TEST_CASE("names cannot break out of their quotes") {
  Graph graph;
  const auto shown = [&](std::string_view target) {
    Node* node = graph.call_module(target);
    const std::string label = label_of(fxx::to_dot(graph), node);
    return label.substr(label.find("\\n") + 2);
  };
  CHECK(shown("a\"]; n9 [label=\"b") == "a\\\"]; n9 [label=\\\"b");
  CHECK(shown("back\\slash\\") == "back\\\\slash\\\\");
  CHECK(shown("\\N \\G \\l") == "\\\\N \\\\G \\\\l");  // Graphviz would put names in their place
  CHECK(shown("<b>x</b>") == "<b>x</b>");
  CHECK(shown("&lt;&amp;") == "&amp;lt;&amp;amp;");
  CHECK(shown("line\nbreak\ttab\rreturn") == "line\\\\nbreak\\\\ttab\\\\rreturn");
  CHECK(shown(std::string_view("zero\0\x1b\x7f", 7)) == "zero\\\\x00\\\\x1b\\\\x7f");
  CHECK(shown("{a|b}") == "{a|b}");
  // Well-formed UTF-8 stays, anything else is shown byte by byte.
  CHECK(shown("\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80") == "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80");
  CHECK(shown("\xff") == "\\\\xff");
  CHECK(shown("\xc3") == "\\\\xc3");
  CHECK(shown("\xc0\x80") == "\\\\xc0\\\\x80");
  CHECK(shown("\xe0\x80\x80") == "\\\\xe0\\\\x80\\\\x80");
  CHECK(shown("\xed\xa0\x80") == "\\\\xed\\\\xa0\\\\x80");
  CHECK(shown("\xf0\x80\x80\x80") == "\\\\xf0\\\\x80\\\\x80\\\\x80");
  CHECK(shown("\xf4\x90\x80\x80") == "\\\\xf4\\\\x90\\\\x80\\\\x80");
  CHECK(shown("\xf5\x80\x80\x80") == "\\\\xf5\\\\x80\\\\x80\\\\x80");
  CHECK(shown("\xe2\x82") == "\\\\xe2\\\\x82");
  graph.placeholder("typed", {}, "std::map<int, \"x\">");
  CHECK(contains(fxx::to_dot(graph), "std::map<int, \\\"x\\\">"));
  CHECK(drawable(fxx::to_dot(graph, {.title = "a\"\\\n\xff<&"})));
}

TEST_CASE("random texts are always drawable") {
  std::mt19937 random(3);
  const auto text = [&] {
    static constexpr std::string_view pieces[] = {"\"", "\\", "\n", "<",  ">",    "&",    "&#60;", "{",
                                                  "|",  "]",  ";",  "->", "\xff", "\xc3", "\xa9",  "a"};
    std::string out;
    for (auto size = random() % 20; size > 0; --size) {
      if (random() % 4 == 0) out += static_cast<char>(random());
      else out += pieces[random() % std::size(pieces)];
    }
    return out;
  };
  Graph graph;
  Node* x = graph.placeholder("x");
  for (int i = 0; i < 200; ++i) graph.call_module(text(), {x, text()}, {{graph.intern(text()), text()}});
  CHECK(drawable(fxx::to_dot(graph, {.title = text(), .longest_line = 25})));
}

TEST_CASE("an empty graph is drawable") {
  CHECK(drawable(fxx::to_dot(Graph())));
  Graph graph;
  graph.output({});
  CHECK(contains(fxx::to_dot(graph), "label=\"output\\n(None)\""));
}
