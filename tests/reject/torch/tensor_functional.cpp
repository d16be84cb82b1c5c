// expect: Proxy' to 'at::Tensor' | Proxy' to 'Tensor'
#include <torch/nn/functional.h>

#include "fxx/torch/functional.hpp"

#ifdef FXX_CONTROL
namespace F = fxx::nn::functional;
#else
namespace F = torch::nn::functional;
#endif
[[maybe_unused]] static fxx::Proxy f(const fxx::Proxy& x) { return F::relu(x); }
