// expect: two rules undo each other
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

inline constexpr auto opened = rule<"split">(silu(x) >> mul(x, sigmoid(x)));
#ifdef FXX_CONTROL
inline constexpr auto rules = ruleset(opened, rule<"join">(mul(x, sigmoid(x).once()) >> sin(x)));
#else
inline constexpr auto rules = ruleset(opened, rule<"join">(mul(x, sigmoid(x).once()) >> silu(x)));
#endif
