// expect: another number of outputs
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(outputs(sin(x), cos(x)) >> outputs(neg(x), exp(x)));
#else
inline constexpr auto r = rule<"r">(outputs(sin(x), cos(x)) >> neg(x));
#endif
