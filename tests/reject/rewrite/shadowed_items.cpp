// expect: a rule can never fire, because an earlier rule matches everything that it matches
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto rules = ruleset(rule<"all">(cat(list(each<"parts">(relu(y)))) >> stack(list(each<"parts">(y)))),
                                      rule<"some">(cat(list(relu(x), y)) >> x));
#else
inline constexpr auto rules = ruleset(rule<"all">(cat(list(each<"parts">(relu(y)))) >> stack(list(each<"parts">(y)))),
                                      rule<"two">(cat(list(relu(x), relu(y))) >> x));
#endif
