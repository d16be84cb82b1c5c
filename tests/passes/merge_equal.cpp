// merge_equal: of equal calls one is left, but for those that may be told apart.
#include "fxx/passes/merge_equal.hpp"

#include <doctest/doctest.h>

#include "fxx/ops/operation.hpp"
#include "fxx/ops/registry.hpp"
#include "fxx/trace/symbolic.hpp"
#include "graph_text.hpp"
#include "support.hpp"

using namespace fxx;
using test::body_of;

namespace {
template <class F>
std::string merged(F f) {
  Graph g = symbolic_graph(f);
  const std::size_t before = g.size(), erased = merge_equal(g);
  g.lint();
  CHECK(g.size() + erased == before);
  CHECK(merge_equal(g) == 0);
  return body_of(g);
}
using P = Proxy;
}  // namespace

TEST_CASE("equal calls become one, and then those of their values") {
  CHECK(merged([](P x) { return (x - x.mean(-1, true)) * (x - x.mean(-1, true)); }) ==
        "mean = .mean(%x, -1, True)\nsub = aten::sub.Tensor(%x, %mean)\nmul = aten::mul.Tensor(%sub, %sub)\n"
        "return %mul\n");
  // However they are called, defaults given or not.
  CHECK(merged([](P x) {
          Proxy first = x.relu();
          return first + functional::relu(x);
        }) ==
        "relu = .relu(%x)\nadd = aten::add.Tensor(%relu, %relu)\nreturn %add\n");
  CHECK(merged([](P x) {
          Proxy first = x.flatten();
          return first + x.flatten(0, -1);
        }) ==
        "flatten = .flatten(%x)\nadd = aten::add.Tensor(%flatten, %flatten)\nreturn %add\n");
}

TEST_CASE("what differs stays: numbers of another kind, operands, zeros of another sign") {
  const auto same = [](auto f) {
    Graph g = symbolic_graph(f);
    return merge_equal(g) == 0;
  };
  CHECK(same([](P x) { return x.pow(2) + x.pow(2.0); }));
  CHECK(same([](P x) { return x.add(0.0) + x.add(-0.0); }));
  CHECK(same([](P x, P y) { return (x - y) * (y - x); }));
  CHECK(same([](P x) { return x * 1.5 + x * 2.5; }));
  CHECK(same([](P x) { return x.permute({1, 0}) + x.permute({0, 1}); }));
  CHECK_FALSE(same([](P x) { return x.permute({1, 0}) * 1.5 + x.permute({1, 0}) * 1.5; }));
}

TEST_CASE("random numbers and undefined memory are not shared, nor what is written to, or left to two owners") {
  const auto same = [](auto f) {
    Graph g = symbolic_graph(f);
    return merge_equal(g) == 0;
  };
  CHECK(same([](P x) { return x.bernoulli() + x.bernoulli(); }));
  CHECK(same([](P x) { return functional::dropout(x, 0.5, true) + functional::dropout(x, 0.5, true); }));
  CHECK_FALSE(same([](P x) { return functional::dropout(x, 0.5, false) + functional::dropout(x, 0.5, false); }));
  CHECK(same([](P x) { return functional::empty_like(x) + functional::empty_like(x); }));
  CHECK(same([](P x) { return x.exp().mul_(2) + x.exp(); }));
  CHECK(same([](P x) {
    Proxy before = x.exp();
    x.add_(1);
    return before + x.exp();
  }));
  CHECK(same([](P x) { return std::vector<Proxy>{x.exp(), x.exp()}; }));
  CHECK_FALSE(same([](P x) { return std::vector<Proxy>{x.exp(), x.exp() + 1}; }));
}
