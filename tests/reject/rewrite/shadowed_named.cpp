// expect: a rule can never fire, because an earlier rule matches everything that it matches
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

inline constexpr auto own = rule<"own">(sub(relu(x).as<"r">(), sigmoid(tensor<"r">)) >> x);
inline constexpr auto general = rule<"general">(sub(relu(x), sigmoid(y)) >> y);
#ifdef FXX_CONTROL
inline constexpr auto rules = ruleset(own, general);
inline constexpr auto smaller =
    rule<"smaller">(sub(relu(x).as<"r">(), sigmoid(tensor<"r">)) >> sub(relu(x), sigmoid(x)));
#else
inline constexpr auto rules = ruleset(general, own);
#endif
