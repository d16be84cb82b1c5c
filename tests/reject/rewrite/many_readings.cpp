// expect: a pattern has more than 24 calls
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

consteval auto twice(auto p) { return mul(p, neg(p)); }
#ifdef FXX_CONTROL
inline constexpr auto rules = ruleset(rule<"r">(twice(twice(relu(x) | tanh(x) | sigmoid(x))) >> x));
#else
inline constexpr auto rules = ruleset(rule<"r">(twice(twice(twice(twice(relu(x) | tanh(x) | sigmoid(x))))) >> x));
#endif
void f(fxx::Graph& graph) { rules.apply(graph); }
