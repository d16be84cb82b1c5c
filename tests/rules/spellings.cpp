// rules::spellings: what is written in several ways, as the one that the other sets look for.
#include "fxx/rules/spellings.hpp"

#include <doctest/doctest.h>

#include "rules/shaped.hpp"

using namespace fxx;
using test::shaped;

namespace {
using P = const Proxy&;
/// What is left of f(x), where x is 2 x 3 x 8.
template <class F>
std::string made(F f, Dtype dtype = Dtype::float32) {
  Graph graph = symbolic_graph(f, {"x"});
  for (Node* node : graph.nodes())
    if (node->opcode() == Opcode::placeholder) shaped(node, {2, 3, 8}, dtype);
  const auto report = rules::spellings.apply(graph);
  graph.lint();
  return report.rewrites == 0 ? "" : test::body_of(graph);
}
}  // namespace

TEST_CASE("a reduced dimension that is put back is kept") {
  CHECK(made([](P x) { return x.sum({-1}).unsqueeze(-1); }) ==
        "sum = aten::sum.dim_IntList(%x, [-1], keepdim=True)\nreturn %sum\n");
  CHECK(made([](P x) { return x.mean({1}, false).unsqueeze(1); }) ==
        "mean = aten::mean.dim(%x, [1], True)\nreturn %mean\n");
  CHECK(made([](P x) { return x.amax({2}).unsqueeze(-1); }) != "");
  CHECK(made([](P x) { return x.logsumexp({0}).unsqueeze(0); }) != "");
  CHECK(made([](P x) { return x.var(std::vector<std::int64_t>{-1}, 0, false).unsqueeze(-1); }) != "");
  CHECK(made([](P x) { return x.sum({-1}).unsqueeze(1); }) == "");
  CHECK(made([](P x) { return x.sum({-1, -2}).unsqueeze(-1); }) == "");
  CHECK(made([](P x) {
          Proxy sum = x.sum({-1});
          return sum.unsqueeze(-1) + sum.mean();
        }) == "");
}

TEST_CASE("the largest without its place") {
  const auto largest = [](bool with_place) {
    Graph graph;
    Node* x = shaped(graph.placeholder("x"), {2, 3});
    Node* both = graph.call_function(ops::max_dim, {x, -1, true});
    Node* value = graph.call_function(ops::operator_getitem, {both, 0});
    if (with_place) graph.output(Argument::list({value, graph.call_function(ops::operator_getitem, {both, 1})}));
    else graph.output(value);
    return rules::spellings.apply(graph).to_string();
  };
  CHECK(largest(false) == "largest alone: 1");
  CHECK(largest(true) == "");
}

TEST_CASE("roots and quotients of single and double precision") {
  CHECK(made([](P x) { return x.pow(-0.5); }) == "rsqrt = aten::rsqrt(%x)\nreturn %rsqrt\n");
  CHECK(made([](P x) { return x.pow(0.5); }) == "sqrt = aten::sqrt(%x)\nreturn %sqrt\n");
  CHECK(made([](P x) { return x.sqrt().reciprocal(); }) == "rsqrt = aten::rsqrt(%x)\nreturn %rsqrt\n");
  CHECK(made([](P x) { return x.pow(0.5); }, Dtype::float16) == "");
  CHECK(made([](P x) { return x.pow(0.5); }, Dtype::int64) == "");
}
