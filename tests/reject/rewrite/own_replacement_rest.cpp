// expect: the rule matches its own replacement, so rewriting would never end
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
// Fewer items than the pattern wants; another one first, or perhaps; nothing new, so that it may come to rest.
inline constexpr auto a = rule<"a">(cat(list(x, y, rest<"m">)) >> cat(list(add(x, y), rest<"m">)));
inline constexpr auto b = rule<"b">(cat(list(relu(x), rest<"m">)) >> cat(list(neg(x), rest<"m">)));
inline constexpr auto c = rule<"c">(cat(list(relu(x), rest<"m">)) >> cat(list(rest<"m">, relu(neg(x)))));
inline constexpr auto d = rule<"d">(cat(list(x, y, rest<"m">)) >> cat(list(x, x, rest<"m">)));
inline constexpr auto e = rule<"e">(cat(list(x, rest<"m">)) >> cat(list(rest<"m">)));
// A condition that may not hold, another dimension, the same tensor twice, a guard.
inline constexpr auto f = rule<"f">(cat(list(x.where(floating), rest<"m">)) >> cat(list(neg(x), rest<"m">)));
inline constexpr auto g = rule<"g">(cat(list(x, rest<"m">)) >> cat(list(neg(x), rest<"m">), 1_c));
inline constexpr auto h = rule<"h">(cat(list(x, x, rest<"m">)) >> cat(list(neg(x), exp(x), rest<"m">)));
inline constexpr auto i =
    rule<"i">(cat(list(x, rest<"m">)) >> cat(list(neg(x), rest<"m">)), [](const Match&) { return true; });
#else
inline constexpr auto r = rule<"r">(cat(list(x, rest<"m">)) >> cat(list(neg(x), rest<"m">)));
#endif
