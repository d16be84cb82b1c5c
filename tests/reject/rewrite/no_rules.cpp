// expect: give at least one rule
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto rules = ruleset(rule<"r">(neg(neg(x)) >> x));
#else
inline constexpr auto rules = ruleset();
#endif
