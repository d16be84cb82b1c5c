// expect: not a decimal number
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(mul(x, 16_c) >> x);
#else
inline constexpr auto r = rule<"r">(mul(x, 0x10_c) >> x);
#endif
