// expect: the replacement holds once(), where, as or with, which say what is matched
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(relu(tanh(x).once()) >> exp(tanh(x)));
#else
inline constexpr auto r = rule<"r">(relu(tanh(x)) >> exp(tanh(x).once()));
#endif
