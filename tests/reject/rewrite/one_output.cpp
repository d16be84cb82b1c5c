// expect: write outputs(p, q): two patterns or more
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(outputs(relu(x), exp(x)) >> outputs(x, neg(x)));
#else
inline constexpr auto r = rule<"r">(outputs(relu(x)) >> outputs(x));
#endif
