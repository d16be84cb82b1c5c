// expect: the rule matches its own replacement, so rewriting would never end
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
// One of them is gone, they hang on two values, or perhaps there are no others; the first stays as it is.
inline constexpr auto a = rule<"a">(outputs(relu(x), exp(x)) >> outputs(relu(x), tanh(x)));
inline constexpr auto b = rule<"b">(outputs(relu(x), exp(x)) >> outputs(relu(neg(x)), exp(x)));
inline constexpr auto c = rule<"c">(outputs(relu(x), relu(y)) >> outputs(relu(add(x, y)), sub(x, y)));
inline constexpr auto d = rule<"d">(outputs(relu(x).as<"r">(), exp(x)) >> outputs(tensor<"r">, exp(tensor<"r">)));
inline constexpr auto e = rule<"e">(outputs(relu(x).once(), exp(x)) >> outputs(relu(x), exp(x)));
inline constexpr auto f =
    rule<"f">(outputs(relu(x), exp(x)) >> outputs(relu(x), exp(x)), [](const Match&) { return false; });
#else
inline constexpr auto r = rule<"r">(outputs(relu(x), exp(x)) >> outputs(relu(x), exp(x)));
#endif
