// expect: the replacement uses the value that it replaces
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r =
    rule<"r">(outputs(relu(x).as<"r">(), neg(x).as<"n">()) >> outputs(tensor<"r">, tensor<"n">));
#else
inline constexpr auto r =
    rule<"r">(outputs(relu(x).as<"r">(), neg(x).as<"n">()) >> outputs(tensor<"n">, tensor<"r">));
#endif
