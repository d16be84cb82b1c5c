// expect: the pattern uses one name for captures of two kinds
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(add(cat(list(x, rest<"y">)), z) >> sub(stack(list(x, rest<"y">)), z));
#else
inline constexpr auto r = rule<"r">(add(cat(list(x, rest<"y">)), y) >> sub(x, y));
#endif
