// expect: the guard is not a callable that takes the match and says true or false
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto rules = ruleset(rule<"r">(relu(x) >> x, [](const Match&) { return true; }));
void apply(fxx::Graph& g) { rules.apply(g); }
#else
inline constexpr auto rules = ruleset(rule<"r">(relu(x) >> x, [](const Match&) {}));
void apply(fxx::Graph& g) { rules.apply(g); }
#endif
