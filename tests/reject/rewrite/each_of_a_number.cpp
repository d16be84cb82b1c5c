// expect: all items match one pattern
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(cat(list(each(x))) >> [](const Match& m) { return m.root(); });
#else
inline constexpr auto r = rule<"r">(cat(list(each(1))) >> [](const Match& m) { return m.root(); });
#endif
