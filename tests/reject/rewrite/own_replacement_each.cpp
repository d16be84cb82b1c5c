// expect: the rule matches its own replacement, so rewriting would never end
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
// Items of another form, or perhaps; one of another form among them; a list of another call.
inline constexpr auto a = rule<"a">(cat(list(each<"l">(relu(x)))) >> relu(cat(list(each<"l">(x)))));
inline constexpr auto b = rule<"b">(cat(list(each<"l">(relu(x)))) >> cat(list(each<"l">(x))));
inline constexpr auto c = rule<"c">(cat(list(each<"l">(relu(x)), y)) >> cat(list(exp(y), each<"l">(relu(exp(x))))));
inline constexpr auto d = rule<"d">(cat(list(each<"l">(relu(x)))) >> stack(list(each<"l">(relu(exp(x))))));
// One value for all of them.
inline constexpr auto e = rule<"e">(add(cat(list(each<"l">(mul(x, y)))), y) >> cat(list(each<"l">(mul(exp(x), y)))));
#else
inline constexpr auto r = rule<"r">(cat(list(each<"l">(relu(x)))) >> cat(list(each<"l">(relu(exp(x))))));
#endif
