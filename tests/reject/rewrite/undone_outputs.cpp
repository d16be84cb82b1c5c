// expect: two rules undo each other
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

inline constexpr auto there = rule<"there">(outputs(relu(x), exp(x)) >> outputs(tanh(x), sigmoid(neg(x))));
#ifdef FXX_CONTROL
// Of two values, and only one of them.
inline constexpr auto a = ruleset(there, rule<"a">(outputs(tanh(x), sigmoid(x)) >> outputs(relu(x), exp(x))));
inline constexpr auto b = ruleset(there, rule<"b">(outputs(tanh(x), sigmoid(y)) >> outputs(relu(x), exp(y))));
inline constexpr auto c = ruleset(there, rule<"c">(tanh(x) >> relu(x)));
// A third rule may take away what the second wants.
inline constexpr auto d = ruleset(there, rule<"back">(outputs(tanh(x), sigmoid(neg(x))) >> outputs(relu(x), exp(x))),
                                  rule<"on">(tanh(x) >> gelu(x)));
#else
inline constexpr auto r = ruleset(there, rule<"back">(outputs(tanh(x), sigmoid(neg(x))) >> outputs(relu(x), exp(x))));
#endif
