// expect: a capture that one of the pattern's alternatives does not bind
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">((mul(tanh(x), s) | with<"s">(1_c, tanh(x))) >> mul(sigmoid(x), s));
#else
inline constexpr auto r = rule<"r">(maybe([](auto p) { return mul(p, s); }, tanh(x)) >> mul(sigmoid(x), s));
#endif
