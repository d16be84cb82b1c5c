// expect: a chain has two operands or more
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(operands_of<fxx::ops::add_Tensor>(relu(x), y) >> neg(x));
#else
inline constexpr auto r = rule<"r">(operands_of<fxx::ops::add_Tensor>(relu(x)) >> neg(x));
#endif
