// expect: the replacement uses a capture that one of the pattern's alternatives does not bind
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(cat(list(each<"p">(relu(y) | exp(y)))) >> stack(list(each<"p">(neg(y)))));
#else
inline constexpr auto r = rule<"r">(cat(list(each<"p">(relu(y) | exp(z)))) >> stack(list(each<"p">(neg(y)))));
#endif
