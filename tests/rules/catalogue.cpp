// docs/rules.md lists every rule that ships: it is made from the rules, and this compares the two.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "fxx/rules/all.hpp"
#include "fxx/rules/library.hpp"
#include "fxx/rules/onednn.hpp"
#include "fxx/trace/symbolic.hpp"
#include "rules/needs.hpp"
#include "rules/rule_text.hpp"

using namespace fxx;

#define FXX_ALL_SETS \
  FXX_SET(reroll) FXX_SET(identities) FXX_SET(number_chains) FXX_SET(strength_reduction) \
  FXX_SET(casts) FXX_SET(shapes) FXX_SET(joins) FXX_SET(activations) \
  FXX_SET(normalisation) FXX_SET(rearrangement) FXX_SET(rotary) FXX_SET(einsums) \
  FXX_SET(attention) FXX_SET(attention_dropout) FXX_SET(inference) FXX_SET(merge_activation) \
  FXX_SET(merge_linear) FXX_SET(merge_convolution) FXX_SET(layout) \
  FXX_SET(spellings) FXX_SET(attention_scores) FXX_SET(onednn)

namespace {

const std::string first_line = "<!-- rules: made by tests/rules/catalogue.cpp -->\n",
                  last_line = "<!-- end of rules -->";

std::string source_text(const std::string& path) {
  const char* source = std::getenv("FXX_SOURCE_DIR");
  REQUIRE(source != nullptr);
  std::ifstream file(std::string(source) + "/" + path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}
/// What the comment above the set says of its law and its needs, in one line.
std::string law_of(std::string_view set) {
  static constexpr const char* headers[] = {"activations",   "algebra", "attention",         "einsum",
                                            "inference",     "layout",  "merge_convolution", "merge_linear",
                                            "normalisation", "rearrangement", "reroll",      "rotary",
                                            "spellings",     "onednn"};
  for (const char* header : headers) {
    const std::string text = source_text("include/fxx/rules/" + std::string(header) + ".hpp");
    const std::size_t end = text.find("\ninline constexpr auto " + std::string(set) + " = [] {");
    if (end == text.npos) continue;
    std::string comment;
    for (std::size_t line = end; text.compare(text.rfind('\n', line - 1) + 1, 4, "/// ") == 0;) {
      const std::size_t from = text.rfind('\n', line - 1);
      comment = text.substr(from + 5, line - from - 5) + (comment.empty() ? "" : " " + comment);
      line = from;
    }
    const std::size_t law = comment.find("Law");
    return law == comment.npos ? "" : comment.substr(law);
  }
  return "";
}
/// Inside of a code span in a table.
std::string in_cell(std::string text) {
  for (std::size_t at = text.find('|'); at != text.npos; at = text.find('|', at + 2)) text.insert(at, 1, '\\');
  return text;
}
std::string words_of(const test::Needs& needs, Law law, bool guarded) {
  std::string words;
  const auto add = [&](bool needed, std::string_view word) {
    if (needed) words += (words.empty() ? "" : ", ") + std::string(word);
  };
  add(guarded, "guard");
  add(needs.bits, "to the bit");
  add(law != law::exact, to_string(law));
  add(!needs.note.empty(), needs.note);
  return words;
}

template <class... Rules>
void add_to(std::string& text, int& count, std::string_view set, const rewrite::Ruleset<Rules...>& rules) {
  const std::string law = law_of(set);
  CAPTURE(set);
  CHECK(law.find("Needs: ") != law.npos);
  text += "**`" + std::string(set) + "`** " + law +
          "\n\n| rule | calls | law | needs |\n|---|---|---|---|\n";
  rules.for_each([&](const auto& rule) {
    using Rule = std::decay_t<decltype(rule)>;
    text += "| " + std::string(Rule::name) + " | " +
            std::to_string(rewrite::detail::calls_in(rewrite::flat<typename Rule::pattern>.data())) + " | `" +
            in_cell(test::rule_text<Rule>()) + "` | " +
            words_of(test::needs_of(set, Rule::name), Rule::needs, rewrite::Guarded<Rule>) + " |\n";
    ++count;
  });
  text += "\n";
}
std::string table() {
  std::string text;
  int count = 0;
#define FXX_SET(name) add_to(text, count, #name, rules::name);
  FXX_ALL_SETS
#undef FXX_SET
  return "\n" + std::to_string(count) + " rules, by their sets `rules::`.\n\n" + text;
}

}  // namespace

TEST_CASE("docs/rules.md lists the rules that ship, with their laws and needs") {
  const std::string text = source_text("docs/rules.md");
  const std::size_t from = text.find(first_line), to = text.find(last_line);
  REQUIRE(from != std::string::npos);
  REQUIRE(to != std::string::npos);
  const std::string wanted = table(), there = text.substr(from + first_line.size(), to - from - first_line.size());
  const bool same = there == wanted;
  if (!same) {
    std::ofstream("rules_table.md") << wanted;
    MESSAGE("between the two marks of docs/rules.md there should be what is now in ./rules_table.md");
  }
  CHECK(same);
}

TEST_CASE("what is said of the inputs on which rules hold is said of rules that there are") {
  const auto names = []<class... Rules>(std::string_view set, const test::NeedsOf& needs,
                                        const rewrite::Ruleset<Rules...>&) {
    return needs.set == set && (needs.rule.empty() || (false || ... || (needs.rule == Rules::name)));
  };
  for (const test::NeedsOf& needs : test::all_needs) {
    CAPTURE(needs.set);
    CAPTURE(needs.rule);
    bool known = false;
#define FXX_SET(name) known = known || names(#name, needs, rules::name);
    FXX_ALL_SETS
#undef FXX_SET
    CHECK(known);
  }
}

TEST_CASE("algebra is one set of more than a hundred rules") { CHECK(decltype(rules::algebra)::count > 100); }

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

TEST_CASE("the library has every set under its name, with the rules of its header") {
#define FXX_SET(set_)                                                            \
  {                                                                              \
    CAPTURE(#set_);                                                              \
    const rewrite::AnyRuleset* found = rules::find_in_library(#set_);            \
    REQUIRE(found != nullptr);                                                   \
    std::vector<std::string_view> names;                                         \
    rules::set_.for_each([&](const auto& rule) { names.push_back(rule.name); }); \
    CHECK(found->rule_names() == names);                                         \
    CHECK(found->module_classes() == rules::set_.module_classes());              \
    ++sets;                                                                      \
  }
  std::size_t sets = 0;
  FXX_ALL_SETS
  FXX_SET(rearrangements)
  FXX_SET(cleaning)
  FXX_SET(cheaper)
#undef FXX_SET
  REQUIRE(rules::find_in_library("equal_calls") != nullptr);  // no patterns, but a pass
  CHECK(rules::find_in_library("equal_calls")->rule_names() == rules::equal_calls.rule_names());
  CHECK(sets + 1 == rules::library().size());
  CHECK(rules::find_in_library("no such set") == nullptr);
}

TEST_CASE("a set explains each of its rules as the rule alone does, whatever stands before it") {
  Graph graph = symbolic_graph([](Proxy x, Proxy y) {
    const Proxy gate = x * x.sigmoid();
    const Proxy half = x * 0.5 * ((x / std::sqrt(2.0)).erf() + 1);
    const Proxy moved = x.transpose(0, 1).transpose(0, 1);
    const Proxy joined = fxx::functional::cat({gate, half, moved, x + 0}, 0);
    return (joined * 2 * 3).relu().relu() + y.softmax(-1).log();
  });
  int matched = 0, missed = 0;
  const auto compare = [&](const auto& set) {
    set.for_each([&](const auto& rule) {
      for (Node* node : graph.nodes()) {
        const std::string alone = explain(rule, node);
        ++(alone.empty() ? matched : missed);
        CHECK(explain(set, rule.name, node) == alone);
      }
    });
  };
  compare(rules::activations);
  compare(rules::cleaning);
  compare(rules::cheaper);
  compare(rules::merge_linear);  // siblings
  CHECK(matched >= 4);
  CHECK(missed > 100);
}

TEST_CASE("what is exact makes no number of two") {
  Graph exact;
  Node* x = exact.placeholder("x");
  x->set_tensor_meta({.shape = {2, 4}, .stride = {4, 1}, .dtype = Dtype::float32});
  Node* thrice = exact.call_function(ops::mul_Scalar, {exact.call_function(ops::mul_Scalar, {x, 1}), 3});
  exact.output(exact.call_function(ops::mul_Scalar, {thrice, 0.1}));
  Graph all = exact;
  CHECK(rules::apply_exact(exact).rewrites == 1);  // times one
  CHECK(exact.size() == 4);                        // input, two factors, output
  rules::apply_all(all);
  CHECK(all.size() == 3);
}

TEST_CASE("a set of the library rewrites, describes and explains as its header does") {
  const auto make = [](Graph& graph) {
    Node* x = graph.placeholder("x");
    x->set_tensor_meta({.shape = {2, 4}, .stride = {4, 1}, .dtype = Dtype::float32});
    Node* half = graph.call_function(ops::div_Scalar, {graph.call_function(ops::mul_Scalar, {x, 1}), 2});
    graph.output(graph.call_function(ops::mul_Tensor, {half, graph.call_function(ops::sigmoid, {half})}));
    return half;
  };
  Graph one, other;
  Node* half = make(one);
  make(other);
  const rewrite::AnyRuleset& activations = *rules::find_in_library("activations");
  CHECK(activations.describe() == rules::activations.describe());
  CHECK(activations.explain("gelu", half) == explain(rules::activations, "gelu", half));
  CHECK_THROWS_AS(activations.explain("no such rule", half), RuleError);
  Graph exact = one, exact_other = other;
  CHECK(rules::apply_all(one).to_string() == rules::all.apply(other).to_string());
  CHECK(to_string(one) == to_string(other));
  CHECK(rules::apply_exact(exact).to_string() == rules::exact.apply(exact_other).to_string());
  CHECK(to_string(exact) == to_string(exact_other));
  Graph third, fourth;
  make(third);
  make(fourth);
  const auto in_phases = rewrite::phases(activations, *rules::find_in_library("identities"));
  const auto headers = rewrite::phases(rules::activations, rules::identities);
  CHECK(in_phases.apply(third).to_string() == headers.apply(fourth).to_string());
  CHECK(to_string(third) == to_string(fourth));
}
