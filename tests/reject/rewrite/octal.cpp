// expect: not a decimal number
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(mul(x, 0x1p4_c) >> x);
#else
inline constexpr auto r = rule<"r">(mul(x, 017_c) >> x);
#endif
