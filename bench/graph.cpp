// What a graph costs: nanoseconds a node to build, copy, check, print, read and edit, on a chain of binary operators.
#include <benchmark/benchmark.h>

#include "fxx/ir/graph.hpp"
#include "fxx/ops/operation.hpp"
#include "fxx/ops/registry.hpp"

namespace {

using namespace fxx;

Graph chain(std::int64_t nodes) {
  Graph g;
  Node* x = g.placeholder("x");
  Node* value = x;
  for (std::int64_t i = 2; i < nodes; ++i) value = g.call_function(ops::add_Tensor, {value, x});
  g.output(value);
  return g;
}

/// Runs `work(graph)` again and again on one graph of the size asked for; reports the time a node.
template <class F>
void measure(benchmark::State& state, F&& work) {
  Graph graph = chain(state.range(0));
  for (auto _ : state) work(graph);
  state.counters["per_node"] = benchmark::Counter(static_cast<double>(state.range(0)),
                                                  benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void build(benchmark::State& state) {
  measure(state, [](Graph& g) { benchmark::DoNotOptimize(chain(static_cast<std::int64_t>(g.size()))); });
}
void copy(benchmark::State& state) {
  measure(state, [](Graph& g) { benchmark::DoNotOptimize(Graph(g)); });
}
void lint(benchmark::State& state) {
  measure(state, [](Graph& g) { g.lint(); });
}
void print(benchmark::State& state) {
  measure(state, [](Graph& g) { benchmark::DoNotOptimize(to_string(g)); });
}
void read(benchmark::State& state) {
  const std::string text = to_string(chain(state.range(0)));
  measure(state, [&](Graph&) { benchmark::DoNotOptimize(parse_graph(text)); });
}
void replace_uses(benchmark::State& state) {
  measure(state, [](Graph& g) {
    Node *a = g.nodes().front(), *b = a->next();
    a->replace_all_uses_with(b, [&](Node* user) { return user != b; });
    b->replace_all_uses_with(a, [&](Node* user) { return user != b; });
  });
}

}  // namespace

BENCHMARK(build)->Arg(1000)->Arg(100000);
BENCHMARK(copy)->Arg(1000)->Arg(100000);
BENCHMARK(lint)->Arg(1000)->Arg(100000);
BENCHMARK(print)->Arg(1000)->Arg(100000);
BENCHMARK(read)->Arg(1000)->Arg(100000);
BENCHMARK(replace_uses)->Arg(1000)->Arg(100000);
BENCHMARK_MAIN();
