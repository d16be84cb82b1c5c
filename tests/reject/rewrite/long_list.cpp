// expect: a list of numbers in a pattern holds four at most
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(permute(x, ints<3, 2, 1, 0>) >> x);
#else
inline constexpr auto r = rule<"r">(permute(x, ints<4, 3, 2, 1, 0>) >> x);
#endif
