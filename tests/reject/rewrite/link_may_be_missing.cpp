// expect: a link has to be a call that holds what the next link is put into
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto either = [](auto p) { return any_of<fxx::ops::relu, fxx::ops::tanh>(p); };
inline constexpr auto q = rule<"q">(chain<"c">(either, x) >> x);
inline constexpr auto r = rule<"r">(chain<"c">([](auto p) { return relu(p) | mul(p, s).once(); }, x) >> x);
#else
inline constexpr auto r = rule<"r">(chain<"c">([](auto p) { return relu(p) | p; }, x) >> x);
#endif
