// expect: 'const at::Tensor&' from expression of type 'const fxx:: | from 'const fxx::Proxy' to 'const at::Tensor'
#include <torch/types.h>

#include "fxx/torch/types.hpp"

[[maybe_unused]] static fxx::Proxy f(const fxx::Proxy& x) {
#ifdef FXX_CONTROL
  return relu(x);
#else
  return torch::relu(x);
#endif
}
