// expect: the pattern uses one name for captures of two kinds
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(add(x, s) >> x);
#else
inline constexpr auto r = rule<"r">(add(x, scalar<"x">) >> x);
#endif
