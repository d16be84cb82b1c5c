// What rules cost: 10 and 100 rules over graphs of their own operators, of foreign ones and of a traced model.
//
//   bench_rules --graph no_match|rewrite    prints that graph of 10,000 nodes, for the peers
//   bench_rules --cold node|rewrite         reads such a graph, and prints microseconds a node, or a rewrite, of the
//                                           first call of the process
#include <benchmark/benchmark.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <functional>
#include <iostream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>

#include "fxx/ir/graph.hpp"
#include "fxx/ops/operation.hpp"
#include "fxx/ops/registry.hpp"
#include "rules_10.hpp"
#include "rules_100.hpp"

namespace {

using namespace fxx;
using rewrite::RewriteReport;

/// Operators that no rule knows.
const Operator* const foreign[] = {&ops::floor.info(), &ops::ceil.info(),  &ops::round.info(), &ops::trunc.info(),
                                   &ops::sign.info(),  &ops::asin.info(),  &ops::atan.info(),  &ops::sinh.info(),
                                   &ops::cosh.info(),  &ops::log1p.info(), &ops::expm1.info(), &ops::tan.info()};

struct Mix {
  double instances = 0;  // how many steps put a whole pattern of some rule
  double foreign = 0;    // how many of the other nodes are foreign
};

/// Calls of the operators that the rules use, as often as patterns use them, on values made shortly before.
Graph random_graph(std::size_t size, Mix mix, unsigned seed = 1) {
  namespace made = bench::rules_100;
  std::mt19937 bits(seed);
  const auto below = [&](std::size_t n) { return bits() % n; };
  const auto chance = [&](double p) { return static_cast<double>(bits()) < p * 4294967296.0; };
  const auto one_of = [&](const auto& items) { return items[below(std::size(items))]; };
  Graph g;
  std::array<Node*, 8> recent;
  for (Node*& n : recent) n = g.placeholder("x");
  while (g.size() < size) {
    Node *x = one_of(recent), *y = one_of(recent), *b = recent[0], *made_now = nullptr;
    constexpr double numbers[] = {0, 1, 0.5, 2, 3, 4, 5, 0.25, 7};
    const double s = one_of(numbers);
    const std::size_t kind = below(100);
    if (chance(mix.instances)) made_now = one_of(made::instances)(g, x, y, b, s);
    else if (chance(mix.foreign)) made_now = g.call_function(*one_of(foreign), {x});
    else if (kind < 45) made_now = one_of(made::unary)(g, x, y, b, s);
    else if (kind < 65) made_now = one_of(made::scalar)(g, x, y, b, s);
    else made_now = one_of(made::binary)(g, x, y, b, s);
    recent[below(recent.size())] = made_now;
  }
  g.output(Argument::list({recent.begin(), recent.end()}));
  return g;
}

/// What is left of a random graph once the rules have been applied: still made of their operators, and none matches.
Graph settled_graph(std::size_t size, double part_foreign = 0, unsigned seed = 1) {
  Graph g = random_graph(size, {.foreign = part_foreign}, seed);
  bench::rules_100::apply(g);
  return Graph(g);  // its nodes lie in order again
}
Graph rewritable_graph(std::size_t size, unsigned seed = 1) { return random_graph(size, {.instances = 0.32}, seed); }

/// Encoder layers and residual blocks in turns, as the dispatcher tracer writes them.
class Model {
 public:
  explicit Model(std::size_t size) {
    Node* value = g_.placeholder("x");
    for (layer_ = 0; g_.size() < size; ++layer_) value = layer_ % 2 ? block(value) : encoder(value);
    g_.output(value);
  }
  Graph take() { return std::move(g_); }

 private:
  Node* weight(const std::string& name) { return g_.get_attr("layers." + std::to_string(layer_) + "." + name); }
  Node* call(const Operator& op, Arguments args) { return g_.call_function(op, args); }
  Node* linear(Node* x, const std::string& name) {
    return call(ops::linear, {x, weight(name + ".weight"), weight(name + ".bias")});
  }
  Node* norm(Node* x, const std::string& name) {
    return call(ops::layer_norm,
                {x, Argument::list({512}), weight(name + ".weight"), weight(name + ".bias"), 1e-5, true});
  }
  Node* heads(Node* x, const std::string& name) {
    Node* split = call(ops::view, {linear(x, name), Argument::list({1, 128, 8, 64})});
    return call(ops::transpose_int, {split, 1, 2});
  }
  Node* encoder(Node* x) {
    Node *q = heads(x, "query"), *k = heads(x, "key"), *v = heads(x, "value");
    Node* scores = call(ops::matmul, {q, call(ops::transpose_int, {k, -2, -1})});
    Node* weights = call(ops::softmax_int, {call(ops::div_Scalar, {scores, 8}), -1});
    Node* mixed = call(ops::transpose_int, {call(ops::matmul, {weights, v}), 1, 2});
    Node* joined = call(ops::reshape, {mixed, Argument::list({1, 128, 512})});
    x = norm(call(ops::add_Tensor, {x, linear(joined, "out")}), "norm1");
    return norm(call(ops::add_Tensor, {x, linear(call(ops::gelu, {linear(x, "up")}), "down")}), "norm2");
  }
  Node* convolution(Node* x, const std::string& number) {
    const Argument one = Argument::list({1, 1});
    Node* y = call(ops::conv2d, {x, weight("conv" + number + ".weight"), {}, one, one, one, 1});
    const std::string bn = "bn" + number;
    return call(ops::batch_norm, {y, weight(bn + ".weight"), weight(bn + ".bias"), weight(bn + ".running_mean"),
                                  weight(bn + ".running_var"), false, 0.1, 1e-5, true});
  }
  Node* block(Node* x) {
    Node* y = call(ops::relu, {convolution(x, "1")});
    return call(ops::relu, {call(ops::add_Tensor, {convolution(y, "2"), x})});
  }

  Graph g_;
  int layer_ = 0;
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

using Apply = RewriteReport (*)(Graph&);

/// Rules over graphs in which nothing matches, a node each.
void unmatched(const char* name, std::function<std::vector<Graph>()> make, Apply apply) {
  benchmark::RegisterBenchmark(name, [make, apply](benchmark::State& state) {
    std::vector<Graph> graphs = make();
    std::size_t nodes = 0, rewrites = 0;
    for (const Graph& g : graphs) nodes += g.size();
    for (auto _ : state)
      for (Graph& g : graphs) rewrites += apply(g).rewrites;
    if (rewrites) state.SkipWithError("something matched");
    state.counters["nodes"] = static_cast<double>(nodes);
  });
}
std::vector<Graph> some(int count, std::function<Graph()> make) {
  std::vector<Graph> graphs;
  for (int i = 0; i < count; ++i) graphs.push_back(make());
  return graphs;
}

/// Rewriting copies of a graph, a rewrite each.
void rewriting(const char* name, std::size_t size, int count) {
  benchmark::RegisterBenchmark(name, [size, count](benchmark::State& state) {
    const Graph graph = rewritable_graph(size);
    std::size_t rewrites = 0;
    for (auto _ : state) {
      std::vector<Graph> copies = some(count, [&] { return Graph(graph); });
      rewrites = 0;
      const auto start = std::chrono::steady_clock::now();
      for (Graph& g : copies) rewrites += bench::rules_100::apply(g).rewrites;
      state.SetIterationTime(seconds_since(start));
    }
    state.counters["nodes"] = static_cast<double>(rewrites);
    state.counters["share"] = static_cast<double>(rewrites) / (static_cast<double>(graph.size()) * count);
  })->UseManualTime();
}

/// Rules over graphs of ten thousand nodes that lie in the cache, a node or a rewrite each. No two are alike: what is
/// looked at hundreds of times the processor foretells branch by branch, as it cannot in a graph of a million nodes.
void once_each(const char* name, Graph (*make)(unsigned seed), bool by_rewrite) {
  benchmark::RegisterBenchmark(name, [make, by_rewrite](benchmark::State& state) {
    std::vector<Graph> graphs;
    for (unsigned seed = 1; seed <= 100; ++seed) graphs.push_back(make(seed));
    std::size_t count = 0;
    for (auto _ : state) {
      double seconds = 0;
      count = 0;
      for (const Graph& graph : graphs) {
        Graph copy(graph);
        if (!by_rewrite) bench::rules_100::apply(copy);  // changes nothing; copying drove the rules out of the cache
        const auto start = std::chrono::steady_clock::now();
        const std::size_t rewrites = bench::rules_100::apply(copy).rewrites;
        seconds += seconds_since(start);
        count += by_rewrite ? rewrites : graph.size();
      }
      state.SetIterationTime(seconds);
    }
    state.counters["nodes"] = static_cast<double>(count);
  })->UseManualTime();
}

/// Every node is looked at, as a rule set has to.
RewriteReport walk(Graph& g) {
  std::size_t calls = 0;
  for (const Node* n : g.nodes().reversed()) calls += n->operation() != nullptr;
  benchmark::DoNotOptimize(calls);
  return {};
}

constexpr std::size_t ten_thousand = 10'000, hundred_thousand = 100'000, million = 1'000'000;

}  // namespace

int main(int argc, char** argv) {
  using bench::rules_100::apply;
  if (argc == 3 && std::string_view(argv[1]) == "--graph") {
    const bool rewrites = std::string_view(argv[2]) == "rewrite";
    std::puts(to_string(rewrites ? rewritable_graph(ten_thousand) : settled_graph(ten_thousand)).c_str());
    return 0;
  }
  if (argc == 3 && std::string_view(argv[1]) == "--cold") {
    const std::string text{std::istreambuf_iterator<char>(std::cin), {}};
    Graph graph = parse_graph(text);
    const std::size_t nodes = graph.size();
    const auto start = std::chrono::steady_clock::now();
    const std::size_t count = apply(graph).rewrites;
    const double seconds = seconds_since(start);
    std::printf("%.6f\n", 1e6 * seconds / static_cast<double>(std::string_view(argv[2]) == "rewrite" ? count : nodes));
    return 0;
  }
  const auto model = [] { return some(1, [] { return Model(ten_thousand).take(); }); };
  const auto settled = [](int count, std::size_t size) {
    return [=] { return some(count, [=] { return settled_graph(size); }); };
  };
  const auto mostly_foreign = [] { return some(1, [] { return settled_graph(hundred_thousand, 0.75); }); };
  unmatched("rules/walk", settled(1, hundred_thousand), walk);
  unmatched("rules/no_match", settled(1, hundred_thousand), apply);
  unmatched("rules/no_match/10k", settled(1, ten_thousand), apply);
  unmatched("rules/no_match/ten_rules", settled(1, hundred_thousand), bench::rules_10::apply);
  unmatched("rules/foreign", mostly_foreign, apply);
  unmatched("rules/foreign/ten_rules", mostly_foreign, bench::rules_10::apply);
  once_each("rules/no_match/10k/once", [](unsigned seed) { return settled_graph(ten_thousand, 0, seed); }, false);
  unmatched("rules/million", settled(1, million), apply);
  unmatched("rules/hundred_graphs", settled(100, ten_thousand), apply);
  unmatched("rules/model/ten_rules", model, bench::rules_10::apply);
  unmatched("rules/model/hundred_rules", model, apply);
  rewriting("rules/rewrite", hundred_thousand, 1);
  rewriting("rules/rewrite/10k", ten_thousand, 1);
  once_each("rules/rewrite/10k/once", [](unsigned seed) { return rewritable_graph(ten_thousand, seed); }, true);
  rewriting("rules/rewrite/million", million, 1);
  rewriting("rules/rewrite/hundred_graphs", ten_thousand, 100);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
