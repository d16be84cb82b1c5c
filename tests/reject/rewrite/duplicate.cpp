// expect: two rules have the same pattern
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto rules = ruleset(rule<"a">(mul(sigmoid(x), x) >> silu(x)), rule<"b">(mul(y, relu(y)) >> silu(y)));
#else
inline constexpr auto rules =
    ruleset(rule<"a">(mul(sigmoid(x), x) >> silu(x)), rule<"b">(mul(y, sigmoid(y)) >> silu(y)));
#endif
