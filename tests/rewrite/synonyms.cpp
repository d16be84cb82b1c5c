// Operators by another of their names: `multiply` is `mul`, in graphs, in patterns and in patterns made at run time.
#include "fxx/ops/synonyms.hpp"

#include <doctest/doctest.h>

#include "fxx/ops/registry.hpp"
#include "fxx/rewrite/replace_pattern.hpp"
#include "rewrite/rewritten.hpp"

using namespace fxx;
using namespace fxx::pattern;
using test::fires;
using test::rewritten;

TEST_CASE("each synonym has the parameters and the traits of what it means") {
  for (const Synonym& s : synonyms) {
    INFO(s.name);
    const Operator *name = find_operator(s.name), *meaning = find_operator(s.meaning);
    REQUIRE((name && meaning));
    CHECK(name->means == meaning->id);
    CHECK(meaning->means == meaning->id);
    CHECK(name->family == meaning->family);
    REQUIRE(name->arity() == meaning->arity());
    for (std::size_t i = 0; i < name->parameters.size(); ++i) {
      CHECK(name->parameters[i].type == meaning->parameters[i].type);
      CHECK(name->parameters[i].standard == meaning->parameters[i].standard);
      CHECK(name->parameters[i].keyword_only == meaning->parameters[i].keyword_only);
      CHECK(name->parameters[i].alias == meaning->parameters[i].alias);
    }
    for (const Trait t : {Trait::commutative, Trait::pointwise, Trait::random, Trait::reduction, Trait::impure})
      CHECK(has(name->traits, t) == has(meaning->traits, t));
    CHECK(has(name->traits, Trait::synonym));
    CHECK_FALSE(has(meaning->traits, Trait::synonym));
  }
}

TEST_CASE("a rule matches an operator by any of its names, at the root, below it, and in place") {
  constexpr auto rules =
      ruleset(rule<"silu">(mul(x, sigmoid(x)) >> silu(x)), rule<"turned">(transpose(x, 0_c, 1_c) >> t(x)),
              rule<"least">(clamp(x, 0_c) >> relu(x)));
  CHECK(rewritten(rules, [](auto x) { return x.multiply(special_expit(x)); }) ==
        "silu = aten::silu(%x)\nreturn %silu\n");
  CHECK(rewritten(rules, [](auto x) { return special_expit(x) * x; }) == "silu = aten::silu(%x)\nreturn %silu\n");
  CHECK(fires(rules, [](auto x) { return x.swapaxes(0, 1); }));
  CHECK(fires(rules, [](auto x) { return x.swapdims(0, 1); }));
  CHECK_FALSE(fires(rules, [](auto x) { return x.swapdims(0, 2); }));
  CHECK(fires(rules, [](auto x) { return x.clip(0); }));
  constexpr auto scaled = ruleset(rule<"scaled">(mul(neg(x), s) >> neg(x)));
  CHECK(fires(scaled, [](auto x) { return x.negative().multiply(2); }));
  CHECK(fires(scaled, [](auto x) { return x.negative().multiply_(2); }));
}

TEST_CASE("a pattern may say another name, which is the operator itself") {
  constexpr auto rules = ruleset(rule<"silu">(multiply(x, special_expit(x)) >> silu(x)),
                                 rule<"turned">(swapaxes(x, arg<"axis0">(0_c), arg<"axis1">(1_c)) >> t(x)));
  CHECK(fires(rules, [](auto x) { return x * x.sigmoid(); }));
  CHECK(fires(rules, [](auto x) { return x.transpose(0, 1); }));
  constexpr auto chain = ruleset(rule<"sum">(operands_of<ops::multiply_Tensor>(neg(x), relu(y), z) >> add(x, y)));
  CHECK(fires(chain, [](auto x) { return (x * relu(x)).multiply(neg(x)); }));
}

TEST_CASE("patterns made at run time match an operator by any of its names") {
  Graph graph = symbolic_graph([](auto x, auto y) { return x.multiply(y) + x.absolute().multiply(3); });
  CHECK(replace_pattern(
            graph, [](auto x, auto y) { return x * y; }, [](auto x, auto y) { return x - y; })
            .size() == 2);
  CHECK(replace_pattern(
            graph, [](auto x) { return x.abs(); }, [](auto x) { return x.neg(); })
            .size() == 1);
  graph.lint();
}
