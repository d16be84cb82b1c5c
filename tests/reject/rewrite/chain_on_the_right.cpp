// expect: there is nothing definite to build
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(chain<"c", 2>([](auto p) { return relu(p); }, x) >> relu(x));
#else
inline constexpr auto r = rule<"r">(chain<"c", 2>([](auto p) { return relu(p); }, x) >> chain<"c">([](auto p) { return neg(p); }, x));
#endif
