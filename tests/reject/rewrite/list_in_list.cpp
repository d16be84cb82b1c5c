// expect: an item is a list itself; no operator takes lists of lists
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(cat(list(x, y)) >> add(x, y));
#else
inline constexpr auto r = rule<"r">(cat(list(list(x, y), z)) >> add(x, y));
#endif
