// expect: a link has to be a call that holds
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(chain<"c">([](auto p) { return relu(p); }, x) >> x);
#else
inline constexpr auto r = rule<"r">(chain<"c">([](auto) { return relu(y); }, x) >> x);
#endif
