// expect: the condition is one on numbers and the value a tensor, or the other way round
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(mul(x.where(floating), s) >> x);
#else
inline constexpr auto r = rule<"r">(mul(x, s.where(floating)) >> x);
#endif
