// What a call of a compiled module takes beside its kernels: of the relu of 64 numbers, whose kernel takes some
// nanoseconds; by one thread, and by two at the same time.
#include <ATen/Parallel.h>
#include <benchmark/benchmark.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include <memory>
#include <string>
#include <utility>

#include "fxx/torch/compile.hpp"
#include "fxx/torch/trace.hpp"

namespace {

struct Small {
  at::Tensor input = at::ones({64}), output = at::zeros({64});
  std::shared_ptr<fxx::CompiledModule> module;
  const void* from[1] = {input.const_data_ptr()};

  Small() {
    const at::NoGradGuard no_grad;
    struct Relu : torch::nn::Module {
      at::Tensor forward(at::Tensor x) { return x.relu(); }
    };
    const auto net = std::make_shared<Relu>();
    module = fxx::compile(*fxx::trace(*net, {input}), {input});
  }
};
const Small& small() {
  static const Small made;
  return made;
}

/// The library's own entry, with memory and threads that are there already: what the kernels take.
void kernels(benchmark::State& state) {
  const fxx::Library library(small().module->library_path());
  void* const team = library.symbol<void*(int, int)>("fxx_open")(1, 0);
  const auto run = library.symbol<void(void*, fxx::kernels::ModuleCall*)>("fxx_run");
  at::Tensor output = at::zeros({64});
  void* to[] = {output.mutable_data_ptr()};
  fxx::kernels::ModuleCall call{small().from, to, nullptr, nullptr, nullptr, nullptr, 0, 0};
  for (auto _ : state) {
    run(team, &call);
    benchmark::ClobberMemory();
  }
  library.symbol<void(void*)>("fxx_close")(team);
  state.counters["nodes"] = 1;
}
void raw(benchmark::State& state) {
  at::Tensor output = at::zeros({64});
  void* to[] = {output.mutable_data_ptr()};
  fxx::CompiledModule& module = *small().module;
  for (auto _ : state) {
    module.run_raw(small().from, to);
    benchmark::ClobberMemory();
  }
  state.counters["nodes"] = benchmark::Counter(1.0 / state.threads(), benchmark::Counter::kAvgThreads);
}
void tensors(benchmark::State& state) {
  const at::NoGradGuard no_grad;
  fxx::CompiledModule& module = *small().module;
  for (auto _ : state) benchmark::DoNotOptimize(module.forward(small().input));
  state.counters["nodes"] = benchmark::Counter(1.0 / state.threads(), benchmark::Counter::kAvgThreads);
}

/// Of fifty layers, whose hundred parameters each call looks at: have they changed?
struct Deep {
  at::Tensor input = at::rand({1, 8}), output = at::zeros({1, 8});
  const void* from[1] = {input.const_data_ptr()};
  void* to[1] = {output.mutable_data_ptr()};
  std::shared_ptr<fxx::CompiledModule> module;
  Deep() {
    const at::NoGradGuard no_grad;
    torch::nn::Sequential layers;
    for (int i = 0; i < 50; ++i) layers->push_back(torch::nn::Linear(8, 8));
    module = fxx::compile(*fxx::trace(*layers, {input}), {input}, {.threads = 1});
  }
};
const Deep& deep() {
  static const Deep made;
  return made;
}
void layers_raw(benchmark::State& state) {
  for (auto _ : state) {
    deep().module->run_raw(deep().from, deep().to);
    benchmark::ClobberMemory();
  }
  state.counters["nodes"] = 1;
}
void layers_tensors(benchmark::State& state) {
  const at::NoGradGuard no_grad;
  for (auto _ : state) benchmark::DoNotOptimize(deep().module->forward(deep().input));
  state.counters["nodes"] = 1;
}

}  // namespace

int main(int argc, char** argv) {
  at::set_num_threads(1);
  benchmark::RegisterBenchmark("call/kernels", kernels);
  for (const auto& [name, body] : {std::pair("call/raw", &raw), {"call/tensors", &tensors}}) {
    benchmark::RegisterBenchmark(name, body);
    benchmark::RegisterBenchmark((std::string(name) + "/2t").c_str(), body)->Threads(2)->UseRealTime();
  }
  benchmark::RegisterBenchmark("call/layers", layers_raw);
  benchmark::RegisterBenchmark("call/layers/tensors", layers_tensors);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
