// expect: the first argument is the tensor that they share
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto p = siblings(x, mul(x, s));
#else
inline constexpr auto p = siblings(s, mul(x, s));
#endif
