// expect first: a plain module of torch::nn is called with a proxy
#include "fxx/torch/nn.hpp"

struct NetImpl : torch::nn::Module {
#ifdef FXX_CONTROL
  fxx::nn::Linear fc{4, 4};
#else
  torch::nn::Linear fc{4, 4};
#endif
  template <class T>
  T forward(T x) {
    return fc(x);
  }
};
[[maybe_unused]] static fxx::Proxy f(NetImpl& net, const fxx::Proxy& x) { return net.forward(x); }
