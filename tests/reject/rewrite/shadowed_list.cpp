// expect: a rule can never fire, because an earlier rule matches everything that it matches
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto rules = ruleset(rule<"two">(cat(list(x, y)) >> y), rule<"first">(cat(list(x, rest<"more">)) >> x));
inline constexpr auto same = ruleset(rule<"rests">(mul(cat(list(x, rest<"o">)), cat(list(y, rest<"o">))) >> x),
                                     rule<"items">(mul(cat(list(x, z)), cat(list(y, w))) >> x));
#else
inline constexpr auto rules = ruleset(rule<"first">(cat(list(x, rest<"more">)) >> x), rule<"two">(cat(list(x, y)) >> y));
#endif
