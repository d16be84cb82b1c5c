// expect: conditions are not put together by !, && and ||
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(relu(x.where([](const fxx::TensorMeta& m) { return m.dim() != 4; })) >> x);
#else
inline constexpr auto r = rule<"r">(relu(x.where(!rank_is<4>)) >> x);
#endif
