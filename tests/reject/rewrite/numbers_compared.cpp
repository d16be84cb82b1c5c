// expect: only a number is compared, and with a constant
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(mul(x, s >= 1_c) >> x);
#else
inline constexpr auto r = rule<"r">(mul(x, s >= scalar<"t">) >> x);
#endif
