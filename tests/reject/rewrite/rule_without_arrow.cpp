// expect: write rule<"name">(pattern >> replacement), and a guard behind it
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(relu(x) >> x);
#else
inline constexpr auto r = rule<"r">(relu(x), x);
#endif
