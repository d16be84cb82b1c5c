// expect: a number that is captured has no minus in a pattern
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(mul(-x, s) >> x);
#else
inline constexpr auto r = rule<"r">(mul(x, -s) >> x);
#endif
