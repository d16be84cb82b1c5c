// expect: the replacement is neither a pattern nor a callable that takes the match
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto rules = ruleset(rule<"r">(relu(x) >> [](const Match& m) { return m[x]; }));
void apply(fxx::Graph& g) { rules.apply(g); }
#else
inline constexpr auto rules = ruleset(rule<"r">(relu(x) >> [](const Match&) {}));
void apply(fxx::Graph& g) { rules.apply(g); }
#endif
