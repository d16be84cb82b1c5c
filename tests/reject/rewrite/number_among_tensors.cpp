// expect: no overload of this operator takes arguments of these kinds
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

// Sizes are numbers, or nodes that compute them.
inline constexpr auto sizes =
    rule<"sizes">(view(cat(list(each<"parts">(_), x)), list(sym_size(x, 0_c), y, -1_c, scalar<"n">)) >> x);
inline constexpr auto indices = rule<"indices">(index(x, list(none, y)) >> x);

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(cat(list(x, y)) >> add(x, y));
#else
inline constexpr auto r = rule<"r">(cat(list(x, 1_c)) >> add(x, 1_c));
#endif
