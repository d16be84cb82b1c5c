// expect: the condition is one on numbers and the value a tensor
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(mul(x, s.where(between(0_c, 1_c))) >> x);
#else
inline constexpr auto r = rule<"r">(mul(x.where(between(0_c, 1_c)), s) >> x);
#endif
