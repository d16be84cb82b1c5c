// What tracing costs, by either path, and what the traced module costs beside the C++ that it came from.
#include <benchmark/benchmark.h>
#include <malloc.h>

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
  const at::Tensor x = Model::input(), fake = fxx::fake_like(x);
  const auto graph_module = fxx::symbolic_trace(*model);
  const std::size_t nodes = graph_module->graph().size();
  figure("trace/" + name + "/path1", nodes, [=] { return fxx::symbolic_trace(*model); });
  // Traced with a fake input, so that nothing is computed.
  figure("trace/" + name + "/path2", fxx::trace(*model, {fake})->graph().size(),
         [=] { return fxx::trace(*model, {fake}); });
  figure("eager/" + name, nodes, [=] { return model->forward(x); });
  figure("interpreter/" + name, nodes, [=] { return graph_module->forward(x); });
  figure("hooks/" + name, nodes, [=] { return fxx::Interpreter(*graph_module).run({x}); });
}

/// Bytes that the program has allocated.
double allocated() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<double>(info.uordblks) + static_cast<double>(info.hblkhd);
}

/// One trace of a million operators: time a node, and the memory that the traced module holds.
template <class F>
void once(const std::string& name, F trace) {
  for (const bool memory : {false, true})
    benchmark::RegisterBenchmark((name + (memory ? "/memory" : "")).c_str(),
                                 [trace, memory](benchmark::State& state) {
                                   const double before = allocated();
                                   for (auto _ : state) {
                                     const auto module = trace();
                                     const auto nodes = static_cast<double>(module->graph().size());
                                     state.counters["nodes"] = nodes;
                                     if (memory) state.counters["bytes"] = allocated() - before;
                                   }
                                 })
        ->Iterations(1)
        ->Repetitions(1);
}
void million() {
  const auto model = std::make_shared<bench::Deep<250000>>();
  const at::Tensor fake = fxx::fake_like(model->input());
  once("trace/deep1m/path1", [=] { return fxx::symbolic_trace(*model); });
  once("trace/deep1m/path2", [=] { return fxx::trace(*model, {fake}); });
}

}  // namespace

int main(int argc, char** argv) {
  at::set_num_threads(1);
  torch::manual_seed(0);
  figures<bench::Deep<2500>>("deep10k");
  figures<bench::ResNet18>("resnet18");
  figures<bench::Encoder>("encoder");
  million();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
