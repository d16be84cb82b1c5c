// expect: pass a callable beside the module: trace(net, [&](torch::Tensor x) { return net->forward(x, 2.0); }, {x})
#include "fxx/torch/trace.hpp"

struct Net : torch::nn::Module {
  at::Tensor forward(at::Tensor x, double scale) { return scale > 1 ? x : x.t(); }
};
std::shared_ptr<fxx::GraphModule> f(Net& net, const at::Tensor& x) {
#ifdef FXX_CONTROL
  return fxx::trace(net, [&](at::Tensor t) { return net.forward(t, 2.0); }, {x});
#else
  return fxx::trace(net, {x});
#endif
}
