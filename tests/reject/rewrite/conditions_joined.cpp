// expect: patterns are not joined by &&
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(mul(x, s.where(between(0_c, 1_c))) >> x);
#else
inline constexpr auto r = rule<"r">(mul(x, s > 0_c && s < 1_c) >> x);
#endif
