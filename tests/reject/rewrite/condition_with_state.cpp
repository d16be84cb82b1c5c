// expect: a condition is a callable without captures
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(mul(x, s.where([](double v) { return v > 0; })) >> neg(x));
#else
inline constexpr int limit = 3;
inline constexpr auto above = [l = limit](double v) { return v > l; };
inline constexpr auto r = rule<"r">(mul(x, s.where(above)) >> neg(x));
#endif
