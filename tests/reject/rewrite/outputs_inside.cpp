// expect: outputs and siblings are whole patterns
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(outputs(relu(x), exp(x)) >> outputs(x, neg(x)));
#else
inline constexpr auto r = rule<"r">(neg(outputs(relu(x), exp(x))) >> x);
#endif
