// expect: the replacement uses the value that it replaces
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r =
    rule<"r">(outputs(relu(x).as<"r">(), neg(x)) >> outputs(tensor<"r">, mul(tensor<"r">, -1_c)));
#else
inline constexpr auto r =
    rule<"r">(outputs(relu(x).as<"r">(), neg(x)) >> outputs(tanh(x), mul(tensor<"r">, -1_c)));
#endif
