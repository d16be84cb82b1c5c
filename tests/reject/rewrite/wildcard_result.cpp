// expect: there is nothing definite to build
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(add(x, _) >> neg(x));
#else
inline constexpr auto r = rule<"r">(add(x, _) >> mul(x, _));
#endif
