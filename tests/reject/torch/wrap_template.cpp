// expect: the function has overloads or template parameters
#include "fxx/torch/wrap.hpp"

#ifdef FXX_CONTROL
inline const auto twice = fxx::wrap<"twice">([](const at::Tensor& x) { return x + x; });
#else
inline const auto twice = fxx::wrap<"twice">([](const auto& x) { return x + x; });
#endif
