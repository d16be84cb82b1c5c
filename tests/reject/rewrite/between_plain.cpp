// expect: write s.where(between(0_c, 1_c)): two constants
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(mul(x, s.where(between(0_c, 1_c))) >> x);
#else
inline constexpr auto r = rule<"r">(mul(x, s.where(between(0, 1))) >> x);
#endif
