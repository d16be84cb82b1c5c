// expect: a rule can never fire, because an earlier rule matches everything that it matches
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

inline constexpr auto general = rule<"general">(relu(x) >> gelu(x));
inline constexpr auto two = rule<"two">(relu(sin(y) | abs(y)) >> y);
#ifdef FXX_CONTROL
inline constexpr auto rules = ruleset(two, general);
inline constexpr auto not_both = ruleset(rule<"sine">(relu(sin(x)) >> x), two);
inline constexpr auto not_each = ruleset(rule<"one node">(mul(x, sin(x)) >> x),
                                         rule<"mostly two">(mul(y, sin(y) | sin(z)) >> neg(y)));
#else
inline constexpr auto rules = ruleset(general, two);
#endif
