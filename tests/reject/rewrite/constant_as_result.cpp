// expect: the replacement is a number or a list, which cannot take the place of a call
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(mul(x, 0_c) >> zeros_like(x));
#else
inline constexpr auto r = rule<"r">(mul(x, 0_c) >> 0_c);
#endif
