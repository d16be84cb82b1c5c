// expect: the rule matches its own replacement, so rewriting would never end
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(neg(relu(x).once()) >> tanh(neg(exp(x))));
inline constexpr auto root = rule<"root">(neg(relu(x)).once() >> neg(relu(exp(x))));  // others may use it
#else
inline constexpr auto r = rule<"r">(neg(relu(x).once()) >> tanh(neg(relu(x))));
#endif
