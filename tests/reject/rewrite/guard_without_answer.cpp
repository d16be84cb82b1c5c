// expect: the guard is not a callable that takes the match and says true or false
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(relu(x) >> x, [](const Match& m) { return m[x].is_node(); });
#else
inline constexpr auto r = rule<"r">(relu(x) >> x, [](const Match&) { return "yes, always"; });
#endif
