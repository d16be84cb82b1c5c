// expect: a capture that one of the pattern's alternatives does not bind
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
// A bias may be None, and so may what `optional` and `value` capture.
inline constexpr auto r = rule<"r">((mul(x, y) | with<"s">(1_c, relu(tensor<"y">) + x)) >> sub(x, y));
inline constexpr auto q =
    rule<"q">((mm(x, t(w)) | addmm(tensor<"c">, x, t(w))) >> linear(x, w, tensor<"c">));
#else
inline constexpr auto r = rule<"r">((mul(x, y) | relu(x)) >> sub(x, y));
#endif
