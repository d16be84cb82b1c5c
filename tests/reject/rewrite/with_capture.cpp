// expect: the value is not a constant
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">((mul(relu(x), s) | with<"s">(1_c, relu(x))) >> mul(x, s));
#else
inline constexpr auto r = rule<"r">((mul(relu(x), s) | with<"s">(y, relu(x))) >> mul(x, s));
#endif
