// expect: the pattern does not start with an operator, so it would match everything
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(relu(x) >> x);
#else
inline constexpr auto r = rule<"r">(x >> relu(x));
#endif
