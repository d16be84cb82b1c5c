// expect: a rule can never fire, because an earlier rule matches everything that it matches
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto products = rule<"any product">(mul(sigmoid(x), y) >> div(y, neg(x)));
inline constexpr auto same = rule<"same">(mul(sigmoid(x), x) >> silu(x));
inline constexpr auto rules = ruleset(same, products);
#else
inline constexpr auto products = rule<"any product">(mul(sigmoid(x), y) >> div(y, neg(x)));
inline constexpr auto same = rule<"same">(mul(sigmoid(x), x) >> silu(x));
inline constexpr auto rules = ruleset(products, same);
#endif
