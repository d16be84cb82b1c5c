// docs/rules.md lists every rule that ships: the table there is made from the rules, and this compares the two.
#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "fxx/rules/all.hpp"

using namespace fxx;

namespace {

const std::string first_line = "<!-- rules: made by tests/rules/catalogue.cpp -->\n",
                  last_line = "<!-- end of rules -->";

template <class... Rules>
void add_to(std::string& table, int& count, std::string_view set, const rewrite::Ruleset<Rules...>& rules) {
  rules.for_each([&](const auto& rule) {
    using Rule = std::decay_t<decltype(rule)>;
    table += "| `" + std::string(set) + "` | " + std::string(Rule::name) + " | " +
             std::to_string(rewrite::detail::calls_in(rewrite::flat<typename Rule::pattern>.data())) + " | " +
             (Rule::builds ? "built" : "expression") + (Rule::guarded ? ", guarded" : "") + " |\n";
    ++count;
  });
}
std::string table() {
  std::string text;
  int count = 0;
#define FXX_SET(name) add_to(text, count, #name, rules::name)
  FXX_SET(reroll);
  FXX_SET(identities);
  FXX_SET(number_chains);
  FXX_SET(strength_reduction);
  FXX_SET(casts);
  FXX_SET(shapes);
  FXX_SET(joins);
  FXX_SET(activations);
  FXX_SET(normalisation);
  FXX_SET(rearrangement);
  FXX_SET(rotary);
  FXX_SET(einsums);
  FXX_SET(attention);
  FXX_SET(attention_dropout);
  FXX_SET(inference);
  FXX_SET(merge_activation);
  FXX_SET(merge_linear);
  FXX_SET(merge_convolution);
  FXX_SET(layout);
#undef FXX_SET
  return "\n" + std::to_string(count) +
         " rules. Calls: the least number of calls that the pattern takes away.\n\n"
         "| set `rules::` | rule | calls | replacement |\n|---|---|---|---|\n" +
         text + "\n";
}

}  // namespace

TEST_CASE("docs/rules.md lists the rules that ship") {
  const char* source = std::getenv("FXX_SOURCE_DIR");
  REQUIRE(source != nullptr);
  std::ifstream file(std::string(source) + "/docs/rules.md");
  std::stringstream page;
  page << file.rdbuf();
  const std::string text = page.str();
  const std::size_t from = text.find(first_line), to = text.find(last_line);
  REQUIRE(from != std::string::npos);
  REQUIRE(to != std::string::npos);
  const std::string wanted = table(), there = text.substr(from + first_line.size(), to - from - first_line.size());
  const bool same = there == wanted;
  if (!same) MESSAGE("between the two marks of docs/rules.md there should be:\n", wanted);
  CHECK(same);
}

TEST_CASE("all sets together hold more than a hundred rules, none of which another hides") {
  CHECK(decltype(rules::algebra)::count > 100);
  boost::hana::unpack(rules::algebra.rules,
                      [](const auto&... rule) { rewrite::detail::check_distinct<std::decay_t<decltype(rule)>...>(); });
}

TEST_CASE("all rules find a rotary embedding of a part of a value, whose slices could be merged") {
  Graph graph;
  const auto call = [&](const Operator& op, std::vector<Argument> args, std::vector<std::int64_t> shape) {
    Node* node = graph.call_function(op, args);
    node->set_tensor_meta({.shape = shape, .stride = {}, .dtype = Dtype::float32});
    return node;
  };
  Node *whole = graph.placeholder("x"), *cos = graph.placeholder("cos"), *sin = graph.placeholder("sin");
  whole->set_tensor_meta({.shape = {2, 12}, .stride = {12, 1}, .dtype = Dtype::float32});
  Node* x = call(ops::slice_Tensor, {whole, 1, 0, 8}, {2, 8});
  Node* first = call(ops::slice_Tensor, {x, 1, 0, 4}, {2, 4});
  Node* second = call(ops::neg, {call(ops::slice_Tensor, {x, 1, 4}, {2, 4})}, {2, 4});
  Node* turned = call(ops::cat, {Argument::list({second, first}), -1}, {2, 8});
  Node* product = call(ops::mul_Tensor, {x, cos}, {2, 8});
  graph.output(call(ops::add_Tensor, {product, call(ops::mul_Tensor, {turned, sin}, {2, 8})}, {2, 8}));
  CHECK(rules::all.apply(graph).to_string() == "rotary embedding, halves: 1");
  graph.lint();
}

TEST_CASE("all rules leave alone what they have no rule for, and stop on what they have several for") {
  Graph graph;
  Node* x = graph.placeholder("x");
  x->set_tensor_meta({.shape = {2, 4}, .stride = {4, 1}, .dtype = Dtype::float32});
  Node* half = graph.call_function(ops::div_Scalar, {graph.call_function(ops::mul_Scalar, {x, 1}), 2});
  graph.output(graph.call_function(ops::tanh, {half}));
  const auto report = rules::all.apply(graph);
  CHECK(report.to_string() == "times one: 1, by a power of two: 1");
  CHECK_FALSE(report.stopped_at_limit);
  CHECK(rules::all.apply(graph).rewrites == 0);
}
