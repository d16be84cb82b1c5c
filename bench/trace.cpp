// What tracing costs, by either path, and what the traced module costs beside the C++ that it came from.
#include <benchmark/benchmark.h>

#include "fxx/torch.hpp"
#include "models.hpp"

namespace {

/// `work()` again and again, without autograd, as a figure of a graph of so many nodes.
template <class F>
void figure(const std::string& name, std::size_t nodes, F work) {
  benchmark::RegisterBenchmark(name.c_str(), [work, nodes](benchmark::State& state) {
    const torch::NoGradGuard no_grad;
    for (auto _ : state) benchmark::DoNotOptimize(work());
    state.counters["nodes"] = static_cast<double>(nodes);
  });
}

template <class Model>
void figures(const std::string& name) {
  const auto model = std::make_shared<Model>();
  const at::Tensor x = Model::input();
  const auto graph_module = fxx::symbolic_trace(*model);
  const std::size_t nodes = graph_module->graph().size();
  figure("trace/" + name + "/path1", nodes, [=] { return fxx::symbolic_trace(*model); });
  figure("trace/" + name + "/path2", fxx::trace(*model, {x})->graph().size(), [=] { return fxx::trace(*model, {x}); });
  figure("eager/" + name, nodes, [=] { return model->forward(x); });
  figure("interpreter/" + name, nodes, [=] { return graph_module->forward(x); });
  figure("hooks/" + name, nodes, [=] { return fxx::Interpreter(*graph_module).run({x}); });
}

}  // namespace

int main(int argc, char** argv) {
  at::set_num_threads(1);
  torch::manual_seed(0);
  figures<bench::Deep10k>("deep10k");
  figures<bench::ResNet18>("resnet18");
  figures<bench::Encoder>("encoder");
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
