// expect: the least number of links is zero or more
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(chain<"c", 1>([](auto p) { return relu(p); }, x) >> x);
#else
inline constexpr auto r = rule<"r">(chain<"c", -1>([](auto p) { return relu(p); }, x) >> x);
#endif
