// expect: the function cannot be called with what concrete_args describes
#include <vector>

#include "fxx/trace/symbolic.hpp"

[[maybe_unused]] static void f() {
  const auto sum = [](const std::vector<fxx::Proxy>& xs, double scale) { return xs[0] * scale; };
#ifdef FXX_CONTROL
  (void)fxx::symbolic_graph(sum, fxx::concrete_args(std::vector{fxx::PH, fxx::PH}, 2.0));
#else
  (void)fxx::symbolic_graph(sum, fxx::concrete_args(fxx::PH, 2.0));
#endif
}
