// expect: the pattern uses one name for captures of two kinds
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(mul(relu(x).as<"s">(), tensor<"s">) >> square(tensor<"s">));
inline constexpr auto size = rule<"size">(add(sym_size(x, 0_c).as<"n">(), sym_int<"n">) >> neg(sym_int<"n">));
#else
inline constexpr auto r = rule<"r">(mul(relu(x).as<"s">(), s) >> mul(x, s));
#endif
