// expect: not a callable that makes a pattern
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(chain<"c">([](auto p) { return relu(p); }, x) >> x);
#else
inline constexpr auto r = rule<"r">(chain<"c">(relu(x), x) >> x);
#endif
