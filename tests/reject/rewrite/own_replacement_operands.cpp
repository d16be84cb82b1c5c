// expect: the rule matches its own replacement, so rewriting would never end
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

inline constexpr auto add_all = operands_of<fxx::ops::add_Tensor>;
#ifdef FXX_CONTROL
// Of one operator, with a factor, of operands that the pattern does not take, of what may stand there already.
inline constexpr auto a = rule<"a">(add_all(x, rest<"more">) >> mul(x, relu(x)));
inline constexpr auto b = rule<"b">(add_all(x, rest<"more">) >> add(x, relu(x), arg<"alpha">(2_c)));
inline constexpr auto c = rule<"c">(add_all(exp(x), rest<"more">) >> add(x, relu(x)));
inline constexpr auto d = rule<"d">(add_all(x, rest<"more">) >> add(x, x));
inline constexpr auto e = rule<"e">(add_all(x, rest<"more">) >> add_all(x, rest<"more">));
// Of more operands, or perhaps of more.
inline constexpr auto f = rule<"f">(add_all(exp(x), exp(y)) >> add(add(exp(x), exp(y)), exp(x)));
inline constexpr auto g = rule<"g">(add_all(exp(x), y) >> add(exp(exp(x)), y));
// The same tensor twice; a condition that may not hold; a guard.
inline constexpr auto h = rule<"h">(add_all(x, relu(x), rest<"more">) >> add(exp(x), relu(exp(x))));
inline constexpr auto i = rule<"i">(add_all(x.where(floating), rest<"more">) >> add(exp(x), relu(x)));
inline constexpr auto j = rule<"j">(add_all(x, rest<"more">) >> add(x, relu(x)), [](const Match&) { return true; });
#else
inline constexpr auto r = rule<"r">(add_all(x, rest<"more">) >> add(x, relu(x)));
#endif
