// expect: an argument by its name is one pattern
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(sum(x, arg<"dim">(list(1_c))) >> x);
#else
inline constexpr auto r = rule<"r">(sum(x, arg<"dim">(1)) >> x);
#endif
