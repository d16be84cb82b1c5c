// expect: no overload of this operator takes arguments of these kinds
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(cat(list(x, rest<"more">)) >> x);
#else
inline constexpr auto r = rule<"r">(cat(rest<"more">) >> x);
#endif
