// expect: a pattern has more than 24 calls
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

consteval auto four(auto p) { return neg(abs(neg(abs(p)))); }
consteval auto twenty_four(auto p) { return four(four(four(four(four(four(p)))))); }
#ifdef FXX_CONTROL
inline constexpr auto rules = ruleset(rule<"r">(twenty_four(x) >> x));
#else
inline constexpr auto rules = ruleset(rule<"r">(twenty_four(relu(x)) >> x));
#endif
