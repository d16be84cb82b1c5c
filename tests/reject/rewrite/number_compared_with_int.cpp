// expect: what a number is compared with is not a pattern; write it as 0_c
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(mul(x, s > 0_c) >> x);
#else
inline constexpr auto r = rule<"r">(mul(x, s > 0) >> x);
#endif
