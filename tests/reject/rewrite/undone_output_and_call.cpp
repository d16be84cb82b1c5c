// expect: two rules undo each other
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

inline constexpr auto apart = rule<"apart">(div(x, y) >> mul(exp(x), tanh(x)));
#ifdef FXX_CONTROL
inline constexpr auto r = ruleset(apart, rule<"r">(outputs(exp(x), tanh(x)) >> outputs(neg(x), sigmoid(x))));
#else
inline constexpr auto r = ruleset(apart, rule<"r">(outputs(exp(x), tanh(x)) >> outputs(div(x, x), sigmoid(x))));
#endif
