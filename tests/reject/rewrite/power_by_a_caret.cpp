// expect: other operators are called by name
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(pow(x, 2_c) >> x * x);
#else
inline constexpr auto r = rule<"r">((x ^ 2_c) >> x * x);
#endif
