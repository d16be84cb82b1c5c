// A small module from capture to compiled code: traced in two ways, printed, rewritten by a rule, compiled, run.
#include <torch/torch.h>

#include <iostream>

#include "fxx/torch.hpp"

/// As any LibTorch user writes it.
struct PlainImpl : torch::nn::Module {
  torch::Tensor param = register_parameter("param", torch::rand({3, 4}));
  torch::nn::Linear linear = register_module("linear", torch::nn::Linear(4, 5));
  torch::Tensor forward(torch::Tensor x) { return linear(x + param).clamp(0.0, 1.0); }
};
TORCH_MODULE(Plain);

/// The same with a forward over any tensor type, which proxies can run through without an example input.
struct TemplatedImpl : torch::nn::Module {
  torch::Tensor param = register_parameter("param", torch::rand({3, 4}));
  fxx::nn::Linear linear = register_module("linear", fxx::nn::Linear(4, 5));
  template <class T>
  T forward(T x) {
    return linear(x + param).clamp(0.0, 1.0);
  }
};
TORCH_MODULE(Templated);

/// relu(x), held at 1: what a clamp between 0 and 1 is. Checked, and made a matcher, when this file is compiled.
constexpr auto clamp_as_relu = [] {
  using namespace fxx::pattern;
  return ruleset(rule<"clamp from 0 to 1">(clamp(x, 0_c, 1_c) >> clamp_max(relu(x), 1_c)));
}();

int main() {
  torch::manual_seed(0);
  const torch::Tensor x = torch::randn({3, 4});

  Templated templated;
  std::cout << "Traced by proxies, as a table:\n\n";
  fxx::symbolic_trace(templated)->graph().print_tabular(std::cout);

  Plain plain;
  const auto graph_module = fxx::trace(plain, {x});
  std::cout << "\nTraced at the dispatcher, as torch.fx prints it:\n\n" << graph_module->graph() << "\n";
  std::cout << "\nAs C++:\n\n" << graph_module->code();

  const auto report = clamp_as_relu.apply(*graph_module);
  std::cout << "\nRewritten (" << report.to_string() << "):\n\n" << graph_module->code();

  const auto compiled = fxx::compile(*graph_module, {x});
  const double error = (compiled->forward(x) - plain->forward(x)).abs().max().item<double>();
  std::cout << "\nCompiled into " << compiled->kernel_plan().steps.size()
            << " kernels; the largest difference from eager is below 1e-6: " << (error < 1e-6 ? "yes" : "no") << "\n";
}
