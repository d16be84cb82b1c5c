// expect: an argument is not a pattern; write numbers as 0_c
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"add zero">(add(x, 0_c) >> x);
#else
inline constexpr auto r = rule<"add zero">(add(x, 0) >> x);
#endif
