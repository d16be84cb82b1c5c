// expect: two rules have the same pattern
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

inline constexpr auto first = rule<"first">(relu(sin(x) | abs(x)) >> x);
#ifdef FXX_CONTROL
inline constexpr auto rules = ruleset(first, rule<"second">(relu(abs(y) | cos(y)) >> neg(y)));
#else
inline constexpr auto rules = ruleset(first, rule<"second">(relu(abs(y) | sin(y)) >> neg(y)));
#endif
