// expect: from expression of type '<brace-enclosed initializer list>' | initialization of 'const at::ITensorListRef &'
#include <torch/types.h>

#include "fxx/torch/creation.hpp"

[[maybe_unused]] static fxx::Proxy f(const fxx::Proxy& x, const fxx::Proxy& y) {
#ifdef FXX_CONTROL
  return fxx::cat({x, y});
#else
  return torch::cat({x, y});
#endif
}
