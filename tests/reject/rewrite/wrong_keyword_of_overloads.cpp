// expect: the operator has no parameter of that name
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"add">(add(x, y, arg<"alpha">(2_c)) >> x);
#else
inline constexpr auto r = rule<"add">(add(x, y, arg<"alfa">(2_c)) >> x);
#endif
