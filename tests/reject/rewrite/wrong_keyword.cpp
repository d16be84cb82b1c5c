// expect: the operator has no parameter of that name
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"sum">(sum(x, arg<"dim">(1_c)) >> x);
#else
inline constexpr auto r = rule<"sum">(sum(x, arg<"axis">(1_c)) >> x);
#endif
