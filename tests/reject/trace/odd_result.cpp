// expect: the function returns a type that a graph cannot hold
#include <string>

#include "fxx/trace/symbolic.hpp"

#ifdef FXX_CONTROL
struct Pair {
  fxx::Proxy a;
};
[[maybe_unused]] static void f() {
  (void)fxx::symbolic_graph([](auto x) { return Pair{x}.a; });
}
#else
struct Pair {
  fxx::Proxy a;
};
[[maybe_unused]] static void f() {
  (void)fxx::symbolic_graph([](auto x) { return Pair{x}; });
}
#endif
