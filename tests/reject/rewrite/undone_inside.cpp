// expect: two rules undo each other
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

inline constexpr auto down = rule<"down">(relu(x) >> neg(exp(x)));
inline constexpr auto up = rule<"up">(exp(x) >> relu(x));
#ifdef FXX_CONTROL
inline constexpr auto other = ruleset(down, rule<"up">(exp(x) >> exp2(x)));
inline constexpr auto asked = ruleset(down, rule<"up">(exp(x).where(floating) >> relu(x)));
// A third rule takes away what the second would match.
inline constexpr auto ended = ruleset(rule<"end">(neg(exp(x)) >> log(x)), down, up);
#else
inline constexpr auto rules = ruleset(down, up);
#endif
