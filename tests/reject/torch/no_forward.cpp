// expect: fxx::trace: there is no public forward that takes tensors alone, by value or const&
#include "fxx/torch/trace.hpp"

struct Net : torch::nn::Module {
  at::Tensor forward(at::Tensor x) { return x; }
};
std::shared_ptr<fxx::GraphModule> f(const std::shared_ptr<Net>& net, const at::Tensor& x) {
#ifdef FXX_CONTROL
  return fxx::trace(net, {x});
#else
  return fxx::trace(std::shared_ptr<torch::nn::Module>(net), {x});
#endif
}
