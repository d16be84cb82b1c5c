// expect: the pattern of the siblings does not use the tensor that they share
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto p = siblings(x, linear(x, w, b));
#else
inline constexpr auto p = siblings(x, linear(y, w, b));
#endif
