// expect: phases, and sets without the types of their rules, go one after the other: phases(a, b)
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

inline constexpr auto first = fxx::ruleset(rule<"a">(relu(relu(x)) >> relu(x)));
inline constexpr auto second = fxx::ruleset(rule<"b">(neg(neg(x)) >> x));
#ifdef FXX_CONTROL
inline constexpr auto all = fxx::phases(fxx::phases(first, second), first);
#else
inline constexpr auto all = fxx::phases(first, second) + first;
#endif
