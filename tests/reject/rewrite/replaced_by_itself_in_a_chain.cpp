// expect: the replacement uses the value that it replaces
#include "fxx/rewrite/functions.hpp"

using namespace fxx::pattern;

// The first link is what is replaced.
inline constexpr auto links = chain<"links">([](auto p) { return relu(mul(p, y)).template as<"r">(); }, x);
#ifdef FXX_CONTROL
inline constexpr auto r = rule<"r">(links >> stack(list(each<"links">(y))));
#else
inline constexpr auto r = rule<"r">(links >> stack(list(each<"links">(tensor<"r">))));
#endif
