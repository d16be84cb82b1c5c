// expect: write siblings(x, linear(x, w, b)): the tensor that they share
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(siblings(x, relu(x)) >> [](const Match& m) { return m.root(); });
#else
inline constexpr auto r = rule<"r">(siblings(relu(x), relu(x)) >> [](const Match& m) { return m.root(); });
#endif
