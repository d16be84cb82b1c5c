// expect: siblings are replaced by a callable that returns one value each
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(linear(x, w) >> matmul(x, w));
#else
inline constexpr auto r = rule<"r">(siblings(x, linear(x, w)) >> matmul(x, w));
#endif
