// expect: the rule matches its own replacement
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto two = chain<"links", 2>([](auto p) { return relu(p); }, x);
inline constexpr auto r = rule<"r">(two >> relu(x));
inline constexpr auto q = rule<"q">(chain([](auto p) { return relu(p); }, exp(x)) >> relu(x));
#else
inline constexpr auto r = rule<"r">(chain([](auto p) { return relu(p); }, x) >> relu(x));
#endif
