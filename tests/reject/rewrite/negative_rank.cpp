// expect: no tensor has fewer than zero dimensions
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(relu(x.where(rank_is<0>)) >> x);
#else
inline constexpr auto r = rule<"r">(relu(x.where(rank_is<-1>)) >> x);
#endif
