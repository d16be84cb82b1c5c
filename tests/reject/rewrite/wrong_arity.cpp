// expect: wrong number of arguments for this operator
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"silu">(mul(sigmoid(x), x) >> silu(x));
#else
inline constexpr auto r = rule<"silu">(mul(sigmoid(x, y), x) >> silu(x));
#endif
