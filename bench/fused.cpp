// What a fused kernel costs: tanh(x) * sigmoid(y) of 65,536 elements, one call of the traced module on one thread.
#include "fxx/torch/fused.hpp"

#include <ATen/Parallel.h>
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "fxx/torch/trace.hpp"

namespace {

struct GateImpl : torch::nn::Module {
  at::Tensor forward(at::Tensor x, at::Tensor y) { return x.tanh() * y.sigmoid(); }
};
TORCH_MODULE(Gate);

using namespace fxx::pattern;
constexpr auto rules = ruleset(rule<"gate">(tanh(x) * sigmoid(y) >> fused));

void call(benchmark::State& state, bool with_kernel) {
  const torch::NoGradGuard no_grad;
  const at::Tensor a = torch::rand({64, 1024}) * 8 - 4, c = torch::rand({64, 1024}) * 8 - 4;
  const auto module = fxx::trace(*Gate(), {a, c});
  if (with_kernel && rules.apply(*module).rewrites != 1) return state.SkipWithError("nothing was fused");
  if (!torch::allclose(module->run({a, c}).toTensor(), a.tanh() * c.sigmoid(), 1e-5, 1e-6))
    return state.SkipWithError("the results are wrong");
  // The fastest of many, as for the peers (peers/fused.py).
  using Clock = std::chrono::steady_clock;
  for (auto _ : state) {
    double least = 1;
    for (int i = 0; i < 3000; ++i) {
      const auto start = Clock::now();
      benchmark::DoNotOptimize(module->run({a, c}));
      least = std::min(least, std::chrono::duration<double>(Clock::now() - start).count());
    }
    state.SetIterationTime(least);
  }
  state.counters["nodes"] = 1;
  constexpr const char* names[] = {"plain", "AVX2", "AVX512"};
  state.SetLabel(names[static_cast<int>(fxx::kernels::instruction_set())]);
}

}  // namespace

int main(int argc, char** argv) {
  at::set_num_threads(1);
  for (const auto& [name, with_kernel] : {std::pair("rules/fused_64k", true), {"rules/fused_64k/operators", false}})
    benchmark::RegisterBenchmark(name, call, with_kernel)->Iterations(1)->UseManualTime();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
