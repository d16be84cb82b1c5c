// expect: an argument is not a pattern
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(relu(x + 1_c) >> x);
#else
inline constexpr auto r = rule<"r">(relu(x + 1) >> x);
#endif
