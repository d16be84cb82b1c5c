// expect: a wrapped function is called with more or fewer arguments than it takes
#include "fxx/torch/wrap.hpp"

inline const auto twice = fxx::wrap<"twice">([](const at::Tensor& x) { return x + x; });

[[maybe_unused]] static fxx::Proxy f(const fxx::Proxy& x) {
#ifdef FXX_CONTROL
  return twice(x);
#else
  return twice(x, 2);
#endif
}
