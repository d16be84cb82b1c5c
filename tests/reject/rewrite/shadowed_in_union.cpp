// expect: a rule can never fire, because an earlier rule matches everything that it matches
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

inline constexpr auto products = ruleset(rule<"any product">(mul(sigmoid(x), y) >> div(y, neg(x))));
inline constexpr auto same = ruleset(rule<"same">(mul(sigmoid(x), x) >> silu(x)));
#ifdef FXX_CONTROL
inline constexpr auto rules = same + products;
#else
inline constexpr auto rules = products + same;
#endif
