// expect: two rules undo each other
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto rules = ruleset(rule<"down">(div(neg(x), y) >> div(x, neg(y))),
                                      rule<"up">(div(x, neg(relu(y))) >> div(neg(x), y)));
#else
inline constexpr auto rules =
    ruleset(rule<"down">(div(neg(x), y) >> div(x, neg(y))), rule<"up">(div(x, neg(y)) >> div(neg(x), y)));
#endif
