// expect: siblings are matched by plain calls
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(siblings(x, cat(list(x, y))) >> [](const Match& m) { return m.root(); });
#else
inline constexpr auto r = rule<"r">(siblings(x, cat(list(x, rest<"more">))) >> [](const Match& m) { return m.root(); });
#endif
