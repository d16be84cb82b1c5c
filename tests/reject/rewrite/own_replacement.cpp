// expect: the rule matches its own replacement, so rewriting would never end
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"distribute">(neg(add(x, y)) >> add(neg(x), neg(y)));
#else
inline constexpr auto r = rule<"swap">(add(x, y) >> add(y, x));
#endif
