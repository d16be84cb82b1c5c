// expect: forward cannot be called with proxies for all of its parameters
#include "fxx/torch/symbolic_trace.hpp"

struct Net : torch::nn::Module {
#ifdef FXX_CONTROL
  template <class T>
  T forward(T x) {
    return x + 1;
  }
#else
  at::Tensor forward(at::Tensor x) { return x + 1; }
#endif
};
[[maybe_unused]] static void f(Net& net) { (void)fxx::symbolic_trace(net); }
