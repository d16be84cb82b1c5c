// expect: no overload of this operator takes arguments of these kinds
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(cat(list(each<"parts">(x))) >> stack(list(each<"parts">(x))));
#else
inline constexpr auto r = rule<"r">(cat(list(each<"parts">(scalar<"s"> | 1_c))) >> x);
#endif
