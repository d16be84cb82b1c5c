// expect: the function cannot be called with proxies
#include <string>

#include "fxx/trace/symbolic.hpp"

#ifdef FXX_CONTROL
[[maybe_unused]] static void f() {
  (void)fxx::symbolic_graph([](auto x) { return relu(x); });
}
#else
[[maybe_unused]] static void f() {
  (void)fxx::symbolic_graph([](std::string x) { return x.size(); });
}
#endif
