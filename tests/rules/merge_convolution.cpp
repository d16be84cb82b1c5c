// rules::merge_convolution: convolutions over one value become one.
#include "fxx/rules/merge_convolution.hpp"

#include <doctest/doctest.h>

#include "rules/shaped.hpp"

using namespace fxx;
using test::attribute;
using test::fired_on;
using test::rewritten_graph;

namespace {
struct Branch {
  const char* name;
  std::int64_t channels = 4, kernel = 1;
  Argument stride = 1, padding = 0;
  bool bias = true;
  std::int64_t groups = 1;
};
/// Convolutions of the branches over x.
Argument branches(Graph& g, std::vector<Branch> all) {
  Node* x = g.placeholder("x");
  std::vector<Argument> results;
  for (const Branch& b : all) {
    const std::string name = b.name;
    Node* weight = attribute(g, name + ".weight", {b.channels, 8 / b.groups, b.kernel, b.kernel});
    const Argument bias = b.bias ? attribute(g, name + ".bias", {b.channels}) : Argument();
    results.push_back(g.call_function(ops::conv2d, {x, weight, bias, b.stride, b.padding, 1, b.groups}));
  }
  return Argument::list(results);
}
std::string fired(std::vector<Branch> all) {
  return fired_on(rules::merge_convolution, [&](Graph& g) { return branches(g, all); });
}
}  // namespace

TEST_CASE("branches of the same windows are one convolution, split into as many channels as each had") {
  CHECK(rewritten_graph(rules::merge_convolution, [](Graph& g) {
          return branches(g, {{"a", 6, 3, 2, 1}, {"b", 2, 3, Argument::list({2, 2}), 1}});
        }) == R"(a_weight = attribute a.weight
a_bias = attribute a.bias
b_weight = attribute b.weight
cat = aten::cat([%a_weight, %b_weight])
b_bias = attribute b.bias
cat_1 = aten::cat([%a_bias, %b_bias])
conv2d_2 = aten::conv2d(%x, %cat, %cat_1, 2, 1, 1)
split_with_sizes = aten::split_with_sizes(%conv2d_2, [6, 2], -3)
getitem = operator::getitem(%split_with_sizes, 0)
getitem_1 = operator::getitem(%split_with_sizes, 1)
return [%getitem, %getitem_1]
)");
}

TEST_CASE("of branches with other kernels those of one pixel are merged") {
  CHECK(fired({{"a"}, {"b"}, {"c", 4, 3}}) == "merge convolutions of one pixel: 1");
  CHECK(fired({{"a"}, {"b"}}) == "merge convolutions, 2d: 1");
}

TEST_CASE("one and three spatial dimensions, without a bias") {
  const auto merged = [](const Operator& op, std::vector<std::int64_t> weight) {
    return rewritten_graph(rules::merge_convolution, [&](Graph& g) {
      Node *x = g.placeholder("x"), *v = attribute(g, "v", weight), *w = attribute(g, "w", weight);
      return Argument::list({g.call_function(op, {x, v}), g.call_function(op, {x, w})});
    });
  };
  CHECK(merged(ops::conv1d, {4, 3, 2}).find("split_with_sizes(%conv1d_2, [4, 4], -2)") != std::string::npos);
  CHECK(merged(ops::conv3d, {4, 3, 1, 1, 1}).find("split_with_sizes(%conv3d_2, [4, 4], -4)") != std::string::npos);
}

TEST_CASE("what does not go together stays apart") {
  CHECK(fired({{"a"}}) == "");
  CHECK(fired({{"a"}, {"b", 4, 1, 2}}) == "");
  CHECK(fired({{"a"}, {"b", 4, 1, 1, 1}}) == "");
  CHECK(fired({{"a"}, {"b", 4, 1, 1, 0, false}}) == "");
  CHECK(fired({{"a"}, {"b", 4, 3}}) == "");
  CHECK(fired({{"a", 4, 1, 1, 0, true, 2}, {"b", 4, 1, 1, 0, true, 2}}) == "");
  CHECK(fired_on(rules::merge_convolution, [](Graph& g) {  // parts of one result are views: nobody may write to them
          const Argument both = branches(g, {{"a"}, {"b"}});
          g.call_function(ops::relu_, {both.items()[0]});
          return both;
        }) == "");
}
