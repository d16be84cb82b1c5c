// expect: uses a capture that the pattern does not bind
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(cat(list(each<"a">(relu(y)))) >> relu(cat(list(each<"a">(y)))));
#else
inline constexpr auto r = rule<"r">(cat(list(each<"a">(relu(y)))) >> relu(y));
#endif
