// expect: a condition is no function of a pattern
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(relu(x.where(floating)) >> x);
#else
inline constexpr auto r = rule<"r">(relu(floating(x)) >> x);
#endif
