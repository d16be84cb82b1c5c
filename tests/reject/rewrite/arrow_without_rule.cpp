// expect: an argument is not a rule; write rule<"name">(pattern >> replacement)
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto rules = ruleset(rule<"r">(neg(neg(x)) >> x));
#else
inline constexpr auto rules = ruleset(neg(neg(x)) >> x);
#endif
