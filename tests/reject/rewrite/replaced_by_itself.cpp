// expect: the replacement uses the value that it replaces
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(neg(relu(x).as<"r">()) >> tanh(tensor<"r">));
#else
inline constexpr auto r = rule<"r">(neg(relu(x)).as<"r">() >> tanh(tensor<"r">));
#endif
