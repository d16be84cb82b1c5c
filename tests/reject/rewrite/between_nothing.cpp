// expect: no number is between these; the lower one stands first
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(mul(x, s.where(between(1_c, 1_c))) >> x);
#else
inline constexpr auto r = rule<"r">(mul(x, s.where(between(1_c, 0_c))) >> x);
#endif
