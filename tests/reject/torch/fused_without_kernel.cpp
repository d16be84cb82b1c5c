// expect: an operator of the pattern has no kernel in this form; docs/writing_rules.md lists those that have
#include "fxx/torch/fused.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(tanh(x) * sigmoid(y) >> fused);
#else
inline constexpr auto r = rule<"r">(tanh(x) * lgamma(y) >> fused);
#endif
