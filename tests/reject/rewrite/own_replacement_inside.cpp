// expect: the rule matches its own replacement, so rewriting would never end
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(relu(x) >> neg(gelu(x)));
#else
inline constexpr auto r = rule<"r">(relu(x) >> neg(relu(x)));
#endif
