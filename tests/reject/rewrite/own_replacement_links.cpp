// expect: the rule matches its own replacement, so rewriting would never end
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

inline constexpr auto link = [](auto p) { return relu(p); };
#ifdef FXX_CONTROL
// Too few links, another one between them, another end.
inline constexpr auto a = rule<"a">(chain<"c", 2>(link, x) >> relu(exp(x)));
inline constexpr auto b = rule<"b">(chain<"c", 2>(link, x) >> relu(exp(relu(x))));
inline constexpr auto c = rule<"c">(chain<"c", 2>(link, tanh(x)) >> relu(relu(exp(x))));
inline constexpr auto d = rule<"d">(neg(chain<"c", 0>(link, tanh(x))) >> neg(relu(exp(x))));
#else
inline constexpr auto r = rule<"r">(chain<"c", 2>(link, x) >> relu(relu(exp(x))));
#endif
