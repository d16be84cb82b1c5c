// expect: + joins two sets; rules are put into one by ruleset(a, b)
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = ruleset(rule<"a">(relu(x) >> x)) + ruleset(rule<"b">(tanh(x) >> x));
#else
inline constexpr auto r = ruleset(rule<"a">(relu(x) >> x)) + rule<"b">(tanh(x) >> x);
#endif
