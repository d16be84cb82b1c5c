// expect: a callable that makes a pattern out of a pattern, and what it may stand around
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(tanh(maybe([](auto p) { return relu(p); }, x)) >> x);
#else
inline constexpr auto r = rule<"r">(tanh(maybe([](auto) { return 3; }, x)) >> x);
#endif
