// expect: an item is not a pattern; write numbers as 0_c
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(view(x, list(1_c, 2_c)) >> x);
#else
inline constexpr auto r = rule<"r">(view(x, list(1, 2)) >> x);
#endif
