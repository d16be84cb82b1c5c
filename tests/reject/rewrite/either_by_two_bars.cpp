// expect: other operators are called by name
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">((relu(x) | tanh(x)) >> x);
#else
inline constexpr auto r = rule<"r">((relu(x) || tanh(x)) >> x);
#endif
