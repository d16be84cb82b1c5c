// expect: the rule matches its own replacement, so rewriting would never end
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

inline constexpr auto link = [](auto p) { return relu(p); };
#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(chain<"c">(link, tanh(x)) >> relu(relu(relu(exp(x)))));
#else
inline constexpr auto r = rule<"r">(chain<"c">(link, tanh(x)) >> relu(relu(relu(tanh(exp(x))))));
#endif
