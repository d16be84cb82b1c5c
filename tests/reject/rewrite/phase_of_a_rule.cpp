// expect: an argument is not a rule set
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto p = phases(ruleset(rule<"r">(relu(x) >> neg(x))));
#else
inline constexpr auto p = phases(rule<"r">(relu(x) >> neg(x)));
#endif
