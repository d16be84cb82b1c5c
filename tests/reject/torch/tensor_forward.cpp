// expect first: Proxy' to 'const at::Tensor&' | Proxy' to 'const Tensor'
#include "fxx/torch/nn.hpp"

struct NetImpl : torch::nn::Module {
  fxx::nn::Linear fc{4, 4};
  template <class T>
  T forward(T x) {
#ifdef FXX_CONTROL
    return fc(x);
#else
    return fc->forward(x);
#endif
  }
};
[[maybe_unused]] static fxx::Proxy f(NetImpl& net, const fxx::Proxy& x) { return net.forward(x); }
