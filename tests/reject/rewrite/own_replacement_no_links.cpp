// expect: the rule matches its own replacement, so rewriting would never end
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

inline constexpr auto link = [](auto p) { return relu(p); };
#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(neg(chain<"c", 1>(link, tanh(x))) >> neg(tanh(exp(x))));
#else
inline constexpr auto r = rule<"r">(neg(chain<"c", 0>(link, tanh(x))) >> neg(tanh(exp(x))));
#endif
