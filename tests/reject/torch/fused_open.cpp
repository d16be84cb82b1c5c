// expect: the pattern leaves open what is computed; a kernel is made of one expression
#include "fxx/torch/fused.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(tanh(x) * (sigmoid(y) | relu(y)) >> tanh(x));
#else
inline constexpr auto r = rule<"r">(tanh(x) * (sigmoid(y) | relu(y)) >> fused);
#endif
