// ResNet-18: traced without a change to it, batch norms folded into convolutions, compiled into kernels for its sizes,
// written as a project.
//
// usage: 02_resnet18 [FOLDER]   writes a LibTorch project of the rewritten network into FOLDER
#include <torch/torch.h>

#include <chrono>
#include <iostream>

#include "fxx/torch.hpp"
#include "resnet.hpp"

namespace {
template <class Module>
double milliseconds(Module& module, const torch::Tensor& x) {
  const torch::NoGradGuard no_grad;
  const auto start = std::chrono::steady_clock::now();
  module->forward(x);
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}
}  // namespace

int main(int argc, char** argv) {
  torch::manual_seed(0);
  ResNet resnet = resnet18();
  resnet->eval();
  const torch::Tensor images = torch::randn({1, 3, 224, 224});
  const torch::Tensor expected = resnet->forward(images);

  const auto graph_module = fxx::trace(resnet, {images});
  std::cout << "traced: " << graph_module->graph().size() << " nodes\n";

  std::cout << fxx::optimize_for_inference(*graph_module).to_string();

  const auto compiled = fxx::compile(*graph_module, {images});
  const double error = ((compiled->forward(images) - expected).abs().max() / expected.abs().max()).item<double>();
  std::cout << "compiled: " << compiled->kernel_plan().steps.size() << " kernels, " << compiled->called_back().size()
            << " nodes called back\n";
  std::cout << "largest relative difference from eager below 1e-5: " << (error < 1e-5 ? "yes" : "no") << "\n";

  double eager = 1e9, fast = 1e9;  // of ten calls, in turns
  for (int i = 0; i < 10; ++i) {
    eager = std::min(eager, milliseconds(resnet, images));
    fast = std::min(fast, milliseconds(compiled, images));
  }
  std::cout << "eager " << eager << " ms, compiled " << fast << " ms, built in " << compiled->build_seconds()
            << " s\n";

  if (argc > 1) {
    fxx::to_folder(*graph_module, argv[1], "ResNet18", {.example_inputs = {images}});
    std::cout << "written to " << argv[1] << "; build it with: meson setup build && meson compile -C build\n";
  }
}
