// expect: wrong number of arguments for this operator
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto rules = ruleset(rule<"r">(relu(x) >> x), rule<"q">(tanh(x) >> x));
void apply(fxx::Graph& g) {
  rules.apply(g);
  rules.describe();
  fxx::explain(rules, "r", nullptr);
}
#else
inline constexpr auto rules = ruleset(rule<"r">(relu(x, y) >> x), rule<"q">(tanh(x) >> x));
void apply(fxx::Graph& g) {
  rules.apply(g);
  rules.describe();
  fxx::explain(rules, "r", nullptr);
}
#endif
