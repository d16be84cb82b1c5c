// expect: missing template arguments | requires template arguments
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(relu(tensor<"x">) >> x);
#else
inline constexpr auto r = rule<"r">(relu(tensor) >> x);
#endif
