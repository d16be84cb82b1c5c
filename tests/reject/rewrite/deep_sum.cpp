// expect: a pattern has more than 24 calls
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

consteval auto six(auto p) { return add(add(add(add(add(add(p, y), y), y), y), y), y); }
consteval auto twenty_four(auto p) { return six(six(six(six(p)))); }
#ifdef FXX_CONTROL
inline constexpr auto rules = ruleset(rule<"r">(twenty_four(x) >> x));
#else
inline constexpr auto rules = ruleset(rule<"r">(six(twenty_four(x)) >> neg(twenty_four(x))));
#endif
