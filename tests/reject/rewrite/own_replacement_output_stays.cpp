// expect: the rule matches its own replacement, so rewriting would never end
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto a = rule<"a">(outputs(relu(x), exp(x).as<"e">()) >> outputs(log(tensor<"e">), tensor<"e">));
inline constexpr auto b =
    rule<"b">(outputs(relu(x), exp(x).as<"e">()) >> outputs(relu(tensor<"e">), tensor<"e">));
// It has one user more, or may not fulfil the condition any more.
inline constexpr auto c =
    rule<"c">(outputs(relu(x), exp(x).once().as<"e">()) >> outputs(neg(relu(x)), tensor<"e">));
#else
inline constexpr auto r = rule<"r">(outputs(relu(x), exp(x).as<"e">()) >> outputs(neg(relu(x)), tensor<"e">));
#endif
