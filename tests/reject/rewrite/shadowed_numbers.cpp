// expect: a rule can never fire, because an earlier rule matches everything that it matches
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

inline constexpr auto one_or_two = rule<"one or two">(mul(x, 1_c | 2_c) >> x);
#ifdef FXX_CONTROL
inline constexpr auto rules = ruleset(rule<"positive">(mul(x, s > 1_c) >> neg(x)), one_or_two);
#else
inline constexpr auto rules = ruleset(rule<"any">(mul(x, s) >> neg(x)), one_or_two);
#endif
