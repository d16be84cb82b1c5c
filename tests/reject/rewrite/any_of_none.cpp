// expect: write any_of<ops::relu, ops::sigmoid>(x)
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(any_of<fxx::ops::relu, fxx::ops::sigmoid>(x) >> x);
#else
inline constexpr auto r = rule<"r">(any_of<>(x) >> x);
#endif
