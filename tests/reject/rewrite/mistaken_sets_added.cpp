// expect: the replacement uses a capture that the pattern does not bind
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

inline constexpr auto right = ruleset(rule<"right">(relu(x) >> neg(x)), rule<"too">(exp(x) >> sin(x)));
#ifdef FXX_CONTROL
inline constexpr auto wrong = ruleset(rule<"wrong">(tanh(x) >> neg(x)));
#else
inline constexpr auto wrong = ruleset(rule<"wrong">(tanh(x) >> neg(y)));
#endif
inline constexpr auto first = wrong + right;
inline constexpr auto second = right + wrong;
