// expect: p >> r is a whole rule
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(relu(relu(x)) >> relu(x));
#else
inline constexpr auto r = rule<"r">((relu(relu(x)) >> relu(x)) >> "x");
#endif
