// expect: no overload of this operator takes arguments of these kinds
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"linear">(linear(x, w, b) >> matmul(x, w));
#else
inline constexpr auto r = rule<"linear">(linear(x, w, 1_c) >> matmul(x, w));
#endif
