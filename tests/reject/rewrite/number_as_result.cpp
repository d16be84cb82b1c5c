// expect: the replacement is neither a pattern nor a callable that takes the match
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(mul(x, 0_c) >> zeros_like(x));
#else
inline constexpr auto r = rule<"r">(mul(x, 0_c) >> 0);
#endif
