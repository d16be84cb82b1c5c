// expect: the replacement uses a capture that the pattern does not bind
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"silu">(mul(sigmoid(x), y) >> add(silu(x), y));
#else
inline constexpr auto r = rule<"silu">(mul(sigmoid(x), x) >> add(silu(x), y));
#endif
