// expect: a rule has a name; write rule<"name">(pattern >> replacement)
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(relu(x) >> x);
#else
inline constexpr auto r = rule(relu(x) >> x);
#endif
