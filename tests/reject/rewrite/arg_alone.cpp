// expect: arg names an argument of a call; the pattern itself has no name
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(neg(arg<"self">(relu(x))) >> x);
#else
inline constexpr auto r = rule<"r">(arg<"self">(relu(x)) >> x);
#endif
