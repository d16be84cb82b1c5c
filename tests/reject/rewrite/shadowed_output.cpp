// expect: a rule can never fire, because an earlier rule matches everything that it matches
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

inline constexpr auto sines = rule<"sines">(sin(x) >> neg(x));
inline constexpr auto both = rule<"sine and cosine">(outputs(sin(x), cos(x)) >> outputs(neg(x), exp(x)));

#ifdef FXX_CONTROL
inline constexpr auto rules = ruleset(both, sines);
#else
inline constexpr auto rules = ruleset(sines, both);
#endif
