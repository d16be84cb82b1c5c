// expect: a callable that makes a link, and what the innermost stands around
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(chain<"c">([](auto p) { return relu(p); }, x) >> x);
#else
inline constexpr auto r = rule<"r">(chain<"c">([](auto p) { return relu(p); }) >> x);
#endif
