// expect: other operators are called by name
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(remainder(x, 1_c) >> x);
#else
inline constexpr auto r = rule<"r">((x % 1_c) >> x);
#endif
