// expect: gelou
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(gelu(x) >> x);
#else
inline constexpr auto r = rule<"r">(gelou(x) >> x);
#endif
