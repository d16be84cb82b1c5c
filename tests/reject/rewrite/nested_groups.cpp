// expect: each and chain do not stand inside of each other
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(cat(list(each<"a">(relu(y)))) >> [](const Match& m) { return m.root(); });
#else
inline constexpr auto r = rule<"r">(cat(list(each<"a">(cat(list(each<"b">(relu(y))))))) >> [](const Match& m) { return m.root(); });
#endif
