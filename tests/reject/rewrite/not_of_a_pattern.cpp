// expect: other operators are called by name
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(relu(logical_not(x)) >> x);
#else
inline constexpr auto r = rule<"r">(relu(!x) >> x);
#endif
