// expect: two rules have the same name
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto rules = ruleset(rule<"a">(neg(neg(x)) >> x), rule<"b">(relu(relu(x)) >> x));
#else
inline constexpr auto rules = ruleset(rule<"a">(neg(neg(x)) >> x), rule<"a">(relu(relu(x)) >> x));
#endif
