// expect: no overload of this operator takes arguments of these kinds
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"size">(narrow(x, 0_c, 0_c, sym_size(x, 0_c)) >> x);
#else
inline constexpr auto r = rule<"size">(relu(sym_size(x, 0_c)) >> x);
#endif
