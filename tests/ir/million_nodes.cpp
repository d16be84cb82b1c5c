// A graph of a million nodes: what it costs in memory, and that every walk over it grows in proportion.
//
// A program of its own, without sanitizers: it counts every allocation. Growth is judged by counts of allocations and
// bytes, which are the same in every run, never by time.
#include <doctest/doctest.h>
#include <malloc.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <new>

#include "fxx/ir/graph.hpp"
#include "fxx/ops/operation.hpp"
#include "fxx/ops/registry.hpp"
#include "fxx/trace/symbolic.hpp"

using namespace fxx;

namespace {

std::size_t allocations = 0, bytes_held = 0, bytes_taken = 0;

void* counted(std::size_t size, std::size_t alignment = alignof(std::max_align_t)) {
  void* block = std::aligned_alloc(alignment, (size / alignment + 1) * alignment);
  if (!block) throw std::bad_alloc();
  ++allocations;
  bytes_held += malloc_usable_size(block);
  bytes_taken += malloc_usable_size(block);
  return block;
}
void released(void* block) {
  if (!block) return;
  bytes_held -= malloc_usable_size(block);
  std::free(block);
}

}  // namespace

void* operator new(std::size_t size) { return counted(size); }
void* operator new[](std::size_t size) { return counted(size); }
void* operator new(std::size_t size, std::align_val_t alignment) { return counted(size, std::size_t(alignment)); }
void operator delete(void* block, std::align_val_t) noexcept { released(block); }
void operator delete(void* block, std::size_t, std::align_val_t) noexcept { released(block); }
void operator delete(void* block) noexcept { released(block); }
void operator delete[](void* block) noexcept { released(block); }
void operator delete(void* block, std::size_t) noexcept { released(block); }
void operator delete[](void* block, std::size_t) noexcept { released(block); }

namespace {

/// What a piece of work took from the heap, and what it left there.
struct Cost {
  std::size_t allocations, taken, kept;
};
template <class F>
Cost cost_of(F&& work) {
  const std::size_t a = allocations, t = bytes_taken, h = bytes_held;
  work();
  return {allocations - a, bytes_taken - t, bytes_held - h};
}

/// Binary operators in a chain, each with a constant beside it, as after tracing a long model.
void build(Graph& g, int nodes) {
  Node* x = g.placeholder("x");
  Node* value = x;
  for (int i = 2; i < nodes; ++i) value = g.call_function(ops::add_Tensor, {value, x});
  g.output(value);
}

/// Has all memory that graphs before it have left for the next, so that what these take is counted.
Graph left_behind() {
  Graph g;
  build(g, 400'000);
  return g;
}

struct Costs {
  Cost build, lint, copy, print, edit, read;
  std::size_t text;
};
Costs measure(int nodes) {
  Costs costs{};
  const Graph others = left_behind();
  Graph g, copy, parsed;
  std::string text;
  costs.build = cost_of([&] { build(g, nodes); });
  costs.lint = cost_of([&] { g.lint(); });
  costs.copy = cost_of([&] { copy = g; });
  costs.print = cost_of([&] { text = to_string(g); });
  costs.read = cost_of([&] { parsed = parse_graph(text); });
  CHECK(parsed.size() == g.size());
  costs.edit = cost_of([&] {
    Node* x = g.nodes().front();
    for (Node* n : g.nodes())
      if (n->operation()) {
        const auto guard = g.inserting_before(n);
        n->replace_input_with(x, g.call_function(ops::relu, {x}));
      }
  });
  CHECK(g.size() == 2 * static_cast<std::size_t>(nodes) - 2);
  CHECK(copy.size() == static_cast<std::size_t>(nodes));
  costs.text = text.size();
  return costs;
}

}  // namespace

TEST_CASE("a million nodes take at most 400 bytes each, and every walk grows in proportion") {
  constexpr int small = 100'000, large = 1'000'000;
  measure(1000);  // the registry is filled once, here
  const Costs few = measure(small), many = measure(large);
  const auto show = [&](const char* what, const Cost& a, const Cost& b) {
    std::printf(
        "%-6s a node: %.2f allocations, %.0f bytes taken, %.0f kept; with ten times the nodes %.2f, %.0f, %.0f\n", what,
        static_cast<double>(a.allocations) / small, static_cast<double>(a.taken) / small,
        static_cast<double>(a.kept) / small, static_cast<double>(b.allocations) / large,
        static_cast<double>(b.taken) / large, static_cast<double>(b.kept) / large);
  };
  const auto grows_in_proportion = [&](const char* what, const Cost& a, const Cost& b) {
    CAPTURE(what);
    show(what, a, b);
    // Tables double when they are full, so a step may cost up to twice its share; anything quadratic would cost ten
    // times.
    CHECK(b.allocations <= 11 * a.allocations + 100);
    CHECK(b.taken <= 20 * a.taken);
  };
  CHECK(many.build.kept <= 400ull * large);
  CHECK(few.build.kept <= 400ull * small);
  CHECK(many.copy.kept <= 400ull * large);
  grows_in_proportion("build", few.build, many.build);
  grows_in_proportion("lint", few.lint, many.lint);
  grows_in_proportion("copy", few.copy, many.copy);
  grows_in_proportion("print", few.print, many.print);
  grows_in_proportion("read", few.read, many.read);
  grows_in_proportion("edit", few.edit, many.edit);
  CHECK(many.lint.kept == 0);
  CHECK(many.text <= 13 * few.text);
}

TEST_CASE("tracing a million operators takes at most 400 bytes a node, in a module too") {
  const auto traced = [](int nodes, bool in_module) {
    return symbolic_graph([=](auto x) {
      std::optional<ModuleScope> block;
      if (in_module) block.emplace("encoder.layer.0.attention", "Attention");
      Proxy y = x;
      for (int i = 0; i < nodes / 4; ++i) y = ((relu(y) + x) * 2).add(x);
      return y;
    });
  };
  traced(1000, true);
  for (const bool in_module : {false, true}) {
    CAPTURE(in_module);
    const Graph others = left_behind();
    Graph g, smaller;
    const Cost few = cost_of([&] { smaller = traced(100'000, in_module); });
    const Cost many = cost_of([&] { g = traced(1'000'000, in_module); });
    std::printf("trace  a node: %.2f allocations, %.0f bytes kept\n", static_cast<double>(many.allocations) / 1e6,
                static_cast<double>(many.kept) / 1e6);
    CHECK(many.kept <= 400'000'000);
    CHECK(many.allocations <= 11 * few.allocations + 100);
    CHECK(g.output_node()->prev()->module_stack().empty() == !in_module);
  }
}

TEST_CASE("nodes that come and go leave nothing behind") {
  Graph g;
  Node* x = g.placeholder("x");
  const auto churn = [&](int rounds) {
    for (int i = 0; i < rounds; ++i) g.erase_node(g.call_function(ops::add_Tensor, {x, Argument::list({x, 1, 2.5})}));
    g.collect_erased();
  };
  churn(200'000);
  // Names are never given back, so that pointers to them stay good; nodes, arguments and links are.
  const Cost again = cost_of([&] { churn(200'000); });
  std::printf("a node that comes and goes leaves %.0f bytes\n", static_cast<double>(again.kept) / 200'000);
  CHECK(again.kept <= 64ull * 200'000);
  CHECK(g.size() == 1);
  // Nor do arguments that become fewer: an input that takes the place of another has one edge.
  Node* y = g.call_function(ops::relu, {x});
  Node* sum = g.call_function(ops::add_Tensor, {x, y});
  const auto join = [&](int rounds) {
    for (int i = 0; i < rounds; ++i) {
      sum->set_args({x, y});
      sum->replace_input_with(y, x);
    }
  };
  join(1000);
  CHECK(cost_of([&] { join(100'000); }).kept == 0);
}
