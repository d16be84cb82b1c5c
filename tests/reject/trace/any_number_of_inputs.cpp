// expect: the function takes any number of inputs; say how many with concrete_args(PH, PH)
#include "fxx/trace/symbolic.hpp"

[[maybe_unused]] static void f() {
  const auto sum = [](const auto&... inputs) {
    if constexpr (sizeof...(inputs) > 0) return (... + inputs);
  };
#ifdef FXX_CONTROL
  (void)fxx::symbolic_graph(sum, fxx::concrete_args(fxx::PH, fxx::PH));
#else
  (void)fxx::symbolic_graph(sum);
#endif
}
