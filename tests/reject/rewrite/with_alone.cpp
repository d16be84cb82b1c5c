// expect: write with<"s">(1_c, p): what the name is where p is there
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(relu(mul(x, s) | with<"s">(1_c, exp(x))) >> mul(x, s));
#else
inline constexpr auto r = rule<"r">(relu(mul(x, s) | with<"s">(1_c)) >> mul(x, s));
#endif
