// expect: wrong number of arguments for this operator
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(relu(x) >> neg(x));
#else
inline constexpr auto r = rule<"r">(relu() >> neg(x));
#endif
