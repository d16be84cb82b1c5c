// expect: a condition is not called; write x.where(floating)
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(relu(x.where(rank_is<4>)) >> x);
#else
inline constexpr auto r = rule<"r">(relu(x.where(rank_is<4>())) >> x);
#endif
