// What a callable asks a match for: names that the pattern has, or has not.
#include <doctest/doctest.h>

#include "rewrite/rewritten.hpp"

using namespace fxx;
using namespace fxx::pattern;

namespace {
/// What is thrown when the rule is applied to relu(exp(x)); "" when nothing is.
template <class Rule>
std::string thrown_by(Rule rule) {
  Graph g = symbolic_graph([](auto x) { return x.exp().relu(); });
  const std::size_t size = g.size();
  try {
    rule.apply(g);
  } catch (const RuleError& e) {
    CHECK(e.id() == ErrorId::no_such_name);
    g.lint();
    CHECK(g.size() == size);
    return e.what();
  }
  return "";
}
bool says(const std::string& text, std::string_view words) {
  if (text.find(words) != std::string::npos) return true;
  MESSAGE(text);
  return false;
}
constexpr auto keep = [](const Match& m) { return m.root(); };
constexpr auto a_link = [](auto p) { return relu(p) | mul(p, scalar<"factor">); };
}  // namespace

TEST_CASE("a name that the pattern does not bind is an error that names it") {
  CHECK(says(thrown_by(ruleset(rule<"r">(relu(exp(x)) >> [](const Match& m) { return m[y]; }))),
             "the pattern of the rule does not bind 'y'; it binds 'x' [E406"));
  CHECK(says(thrown_by(ruleset(rule<"r">(relu(x).as<"r">() >> [](const Match& m) -> Argument { return m.node(y); }))),
             "does not bind 'y'; it binds 'r', 'x'"));
  CHECK(says(thrown_by(ruleset(rule<"r">(relu(_) >> [](const Match& m) { return m[s]; }))),
             "does not bind 's'; it binds no names"));
  CHECK(says(thrown_by(ruleset(rule<"r">(relu(x) >> x, [](const Match& m) { return m[y].is_none(); }))),
             "does not bind 'y'"));
  // Patterns that are searched for.
  CHECK(says(thrown_by(ruleset(rule<"r">(chain<"c">([](auto p) { return relu(p); }, exp(x)) >>
                                         [](const Match& m) { return m[rest<"others">]; }))),
             "does not bind 'others'; it binds 'x'"));
}

TEST_CASE("a name of items is asked of the items") {
  constexpr auto outside =
      ruleset(rule<"r">(chain<"c">(a_link, exp(x)) >> [](const Match& m) { return m[scalar<"factor">]; }));
  CHECK(says(thrown_by(outside), "binds 'factor' once an item; read it by group<\"c\">()[i]"));
  constexpr auto other = ruleset(rule<"r">(chain<"c">(a_link, exp(x)) >> [](const Match& m) -> Argument {
    return m.group<"d">()[0][x];
  }));
  CHECK(says(thrown_by(other), "has no each or chain of the name 'd'; it has 'c'"));
  constexpr auto none = ruleset(rule<"r">(relu(x) >> [](const Match& m) -> Argument { return m.group<"d">()[0][x]; }));
  CHECK(says(thrown_by(none), "has no each or chain of the name 'd'; it has none"));
  constexpr auto unknown = ruleset(rule<"r">(chain<"c">(a_link, exp(x)) >> [](const Match& m) -> Argument {
    return m.group<"c">()[0][y];
  }));
  CHECK(says(thrown_by(unknown), "does not bind 'y'"));
  // What the alternative that is there does not bind is None, and so is what another item binds.
  constexpr auto left_out = ruleset(rule<"r">(chain<"c">(a_link, exp(x)) >> [](const Match& m) -> Argument {
    CHECK(m.group<"c">()[0][scalar<"factor">].is_none());
    CHECK(m.group<"c">()[0][x].is_node());
    return m[x];
  }));
  CHECK(thrown_by(left_out).empty());
}

TEST_CASE("a name of an alternative that is not there is None") {
  constexpr auto rules = ruleset(rule<"r">(relu(exp(x) | mul(x, s)) >> [](const Match& m) -> Argument {
    CHECK(m[s].is_none());
    return m[x];
  }));
  CHECK(thrown_by(rules).empty());
}

TEST_CASE("siblings and outputs have the names of their patterns") {
  const auto twice = [](auto rules) {
    Graph g = symbolic_graph([](auto x) { return x.relu() + x.exp().relu() + x.exp() + x.relu(); });
    return rules.apply(g).rewrites;
  };
  constexpr auto outer = ruleset(rule<"r">(siblings(x, relu(x)) >> [](const Match& m) -> Argument {
    return m[x].is_node() ? Argument() : m[x];
  }));
  CHECK(twice(outer) == 0);
  constexpr auto wrong = ruleset(rule<"r">(siblings(x, relu(x)) >> [](const Match& m) -> Argument { return m[y]; }));
  CHECK_THROWS_AS(twice(wrong), RuleError);
  constexpr auto both = ruleset(rule<"r">(outputs(relu(x), exp(x)) >> [](const Match& m) -> Argument {
    for (const Match& one : m.members()) CHECK(one[x].is_node());
    return m[y];
  }));
  CHECK_THROWS_AS(twice(both), RuleError);
}

TEST_CASE("of alternatives explain tells of the one that came furthest") {
  const auto why = [](auto rules, auto f) {
    Graph g = symbolic_graph(f);
    Node* last = nullptr;
    for (Node* n : g.nodes())
      if (n->operation()) last = n;
    return explain(rules, "r", last);
  };
  // Both are a call of softmax on the same value; the second also has the dimension.
  constexpr auto constants =
      ruleset(rule<"r">(relu(softmax(x, 0_c, none) | softmax(x.where(floating), 1_c, none)) >> keep));
  CHECK(says(why(constants, [](auto x) { return x.softmax(2).relu(); }), "is 2; the pattern wants 0"));
  CHECK(says(why(constants, [](auto x) { return x.softmax(0).neg().relu(); }), "%neg"));
  constexpr auto further = ruleset(rule<"r">(
      (clamp(x, 0_c, 1_c) | clamp(x, 2_c, 3_c) | clamp(x, 2_c, scalar<"high"> > 10_c)) >> keep));
  CHECK(says(why(further, [](auto x) { return x.clamp(2, 4); }), "which is not greater than 10"));
  constexpr auto later = ruleset(rule<"r">((clamp(x, 0_c, 1_c) | clamp(x, 2_c, 3_c)) >> keep));
  CHECK(says(why(later, [](auto x) { return x.clamp(2, 4); }), "argument 'max' of %clamp is 4; the pattern wants 3"));
}
