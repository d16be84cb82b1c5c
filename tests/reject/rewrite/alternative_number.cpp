// expect: an argument is not a pattern; write numbers as 0_c
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(mul(x, 1_c | 2_c) >> x);
#else
inline constexpr auto r = rule<"r">(mul(x, 1_c | 2) >> x);
#endif
