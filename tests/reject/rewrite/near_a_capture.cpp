// expect: only a constant is near something; write near(0.5_c)
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(mul(x, near(1.0_c)) >> x);
#else
inline constexpr auto r = rule<"r">(mul(x, near(y)) >> x);
#endif
