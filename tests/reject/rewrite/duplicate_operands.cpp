// expect: two rules have the same pattern
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto rules =
    ruleset(rule<"a">(operands_of<fxx::ops::add_Tensor>(exp(x), log(y), rest<"more">) >> add(x, y)),
            rule<"b">(operands_of<fxx::ops::mul_Tensor>(exp(x), log(y), rest<"more">) >> sub(x, y)));
#else
inline constexpr auto rules =
    ruleset(rule<"a">(operands_of<fxx::ops::add_Tensor>(exp(x), log(y), rest<"more">) >> add(x, y)),
            rule<"b">(operands_of<fxx::ops::add_Tensor>(exp(x), log(y), rest<"more">) >> sub(x, y)));
#endif
