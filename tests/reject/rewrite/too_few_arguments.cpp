// expect: wrong number of arguments for this operator
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"linear">(linear(x, w) >> matmul(x, w));
#else
inline constexpr auto r = rule<"linear">(linear(x) >> matmul(x, x));
#endif
