// expect: == is no condition; a number stands as it is
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(mul(x, 0_c) >> zeros_like(x));
#else
inline constexpr auto r = rule<"r">(mul(x, s == 0_c) >> zeros_like(x));
#endif
