// expect: a number or a list has no users; ask it of a tensor or a call
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(mul(x.once(), s) >> x);
#else
inline constexpr auto r = rule<"r">(mul(x, s.once()) >> x);
#endif
