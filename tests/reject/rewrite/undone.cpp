// expect: two rules undo each other
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto rules =
    ruleset(rule<"split">(sub(x, y) >> add(x, neg(y))), rule<"join">(mul(x, neg(y)) >> neg(mul(x, y))));
#else
inline constexpr auto rules =
    ruleset(rule<"split">(sub(x, y) >> add(x, neg(y))), rule<"join">(add(x, neg(y)) >> sub(x, y)));
#endif
