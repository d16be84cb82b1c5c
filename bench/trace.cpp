// What tracing costs, by either path, and what the traced module costs beside the C++ that it came from.
#include <benchmark/benchmark.h>
#include <malloc.h>

#include "../tests/models/llama.hpp"
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

/// Traces once with memory that is new to the process: time a node, and with `memory` what the traced modules hold.
/// `trace()` returns all of them.
template <class F>
void once(const std::string& name, bool memory, F trace) {
  benchmark::RegisterBenchmark(name.c_str(),
                               [trace, memory](benchmark::State& state) {
                                 malloc_trim(0);
                                 const double before = allocated();
                                 for (auto _ : state) {
                                   const auto modules = trace();
                                   std::size_t nodes = 0;
                                   for (const auto& module : modules) nodes += module->graph().size();
                                   state.counters["nodes"] = static_cast<double>(nodes);
                                   if (memory) state.counters["bytes"] = allocated() - before;
                                 }
                               })
      ->Iterations(1)
      ->Repetitions(1);
}
/// A trace of a million operators, and a hundred of ten thousand that are all kept, which is as much memory: a trace is
/// linear when a node costs the same in both.
void million() {
  const auto deep = std::make_shared<bench::Deep<250000>>();
  const auto short_one = std::make_shared<bench::Deep<2500>>();
  const at::Tensor fake = fxx::fake_like(deep->input());
  using Modules = std::vector<std::shared_ptr<fxx::GraphModule>>;
  const auto times = [](std::size_t n, auto trace) {
    Modules modules;
    for (std::size_t i = 0; i < n; ++i) modules.push_back(trace());
    return modules;
  };
  const auto path1 = [=](const auto& model, std::size_t n) {
    return [=] { return times(n, [&] { return fxx::symbolic_trace(*model); }); };
  };
  const auto path2 = [=](const auto& model, std::size_t n) {
    return [=] { return times(n, [&] { return fxx::trace(*model, {fake}); }); };
  };
  for (const bool memory : {false, true}) {
    const std::string what = memory ? "/memory" : "";
    once("trace/deep1m/path1" + what, memory, path1(deep, 1));
    once("trace/deep1m/path2" + what, memory, path2(deep, 1));
  }
  once("trace/hundred/path1", false, path1(short_one, 100));
  once("trace/hundred/path2", false, path2(short_one, 100));
}

/// A decoder of 7 billion parameters, built and traced with fakes: seconds, written as microseconds of a million.
void decoder() {
  figure("trace/llama7b", 1'000'000, [] {
    const fxx::fake on;
    const auto net = zoo::Llama(zoo::LlamaConfig()).ptr();
    return fxx::trace(net, {torch::zeros({1, 2048}, torch::kLong)});
  });
}

}  // namespace

int main(int argc, char** argv) {
  at::set_num_threads(1);
  torch::manual_seed(0);
  figures<bench::Deep<2500>>("deep10k");
  figures<bench::ResNet18>("resnet18");
  figures<bench::Encoder>("encoder");
  million();
  decoder();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
