// expect: give at least one rule
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto rules = ruleset(rule<"r">(neg(neg(x)) >> x));
void apply(fxx::Graph& g) {
  rules.apply(g);
  rules.describe();
  fxx::explain(rules, "r", nullptr);
}
#else
inline constexpr auto rules = ruleset();
void apply(fxx::Graph& g) {
  rules.apply(g);
  rules.describe();
  fxx::explain(rules, "r", nullptr);
}
#endif
