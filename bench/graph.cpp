// What a graph costs: building, copying, checking, printing, reading and editing a chain of 10,000 binary operators.
#include "fxx/ir/graph.hpp"

#include <benchmark/benchmark.h>

#include "fxx/ops/operation.hpp"
#include "fxx/ops/registry.hpp"
#include "fxx/passes/dead_code.hpp"

namespace {

using namespace fxx;

constexpr std::int64_t nodes = 10000;

/// x + x + x ...; with `dead`, nothing of it is returned.
Graph chain(bool dead = false) {
  Graph g;
  Node* x = g.placeholder("x");
  Node* value = x;
  for (std::int64_t i = 2; i < nodes; ++i) value = g.call_function(ops::add_Tensor, {value, x});
  g.output(dead ? x : value);
  return g;
}

/// `work(graph)` again and again on one graph.
template <class F>
void figure(const char* name, F work) {
  benchmark::RegisterBenchmark(name, [work](benchmark::State& state) {
    Graph graph = chain();
    for (auto _ : state) work(graph);
    state.counters["nodes"] = static_cast<double>(nodes);
  });
}

}  // namespace

int main(int argc, char** argv) {
  figure("graph/build", [](Graph&) { benchmark::DoNotOptimize(chain()); });
  figure("graph/copy", [](Graph& g) { benchmark::DoNotOptimize(Graph(g)); });
  figure("graph/lint", [](Graph& g) { g.lint(); });
  figure("graph/print", [](Graph& g) { benchmark::DoNotOptimize(to_string(g)); });
  figure("graph/parse", [text = to_string(chain())](Graph&) { benchmark::DoNotOptimize(parse_graph(text)); });
  figure("graph/replace_all_uses", [](Graph& g) {
    Node *a = g.nodes().front(), *b = a->next();
    a->replace_all_uses_with(b, [&](Node* user) { return user != b; });
    b->replace_all_uses_with(a, [&](Node* user) { return user != b; });
  });
  benchmark::RegisterBenchmark("graph/eliminate_dead_code", [](benchmark::State& state) {
    for (auto _ : state) {
      state.PauseTiming();
      Graph graph = chain(true);
      state.ResumeTiming();
      eliminate_dead_code(graph);
    }
    state.counters["nodes"] = static_cast<double>(nodes);
  });
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
