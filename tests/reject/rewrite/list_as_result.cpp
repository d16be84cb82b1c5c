// expect: the replacement is a number or a list, which cannot take the place of a call
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(cat(list(x, y)) >> stack(list(x, y)));
#else
inline constexpr auto r = rule<"r">(cat(list(x, y)) >> list(x, y));
#endif
