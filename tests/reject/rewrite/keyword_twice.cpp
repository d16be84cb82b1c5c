// expect: the operator has no parameter of that name, or it is given twice
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"linear">(linear(x, w, arg<"bias">(b)) >> x);
#else
inline constexpr auto r = rule<"linear">(linear(x, w, b, arg<"bias">(b)) >> x);
#endif
