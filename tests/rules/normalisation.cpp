// rules::normalisation: ways of writing norms, softmaxes and means, and what is none of them.
#include "fxx/rules/normalisation.hpp"

#include <doctest/doctest.h>

#include "rules/shaped.hpp"

using namespace fxx;
using test::shaped;

namespace {

/// What is left of f(x, weight, bias): x is 2 x 3 x 8, weight and bias hold 8.
template <class F>
std::string made(F f, std::vector<std::int64_t> weight = {8}) {
  Graph graph = symbolic_graph(f, {"x", "w", "b"});
  for (Node* node : graph.nodes())
    if (node->opcode() == Opcode::placeholder)
      shaped(node, node->name() == "x" ? std::vector<std::int64_t>{2, 3, 8} : weight);
  const auto report = rules::normalisation.apply(graph);
  graph.lint();
  if (report.rewrites == 0) return "";
  const std::string text = test::body_of(graph);
  return text.substr(0, text.find("\nreturn"));
}
using P = const Proxy&;
std::vector<std::int64_t> over(std::int64_t dim) { return {dim}; }
Proxy centred(P x, std::int64_t dim = -1) { return x - x.mean({dim}, true); }

}  // namespace

TEST_CASE("layer norm by variance, by squares, divided and multiplied") {
  const std::string norm = "layer_norm = aten::layer_norm(%x, [8], None, None, 1e-05)";
  CHECK(made([](P x, P, P) { return centred(x) / (x.var(over(-1), 0, true) + 1e-5).sqrt(); }) == norm);
  CHECK(made([](P x, P, P) { return centred(x) * (x.var(over(-1), 0, true) + 1e-5).rsqrt(); }) == norm);
  CHECK(made([](P x, P, P) {
          Proxy c = centred(x);
          return c / (c.pow(2).mean({-1}, true) + 1e-5).sqrt();
        }) == norm);
  CHECK(made([](P x, P, P) {
          Proxy c = centred(x, 2);
          return (c.pow(2).mean({2}, true) + 1e-5).rsqrt() * c;
        }) == norm);
  CHECK(made([](P x, P, P) {
          Proxy c = centred(x);
          return c * ((c * c).mean({-1}, true) + 1e-5).rsqrt();
        }) == norm);
}

TEST_CASE("weight and bias go into the norm where they have its sizes") {
  const auto formula = [](P x, P w, P b) { return b + w * (centred(x) / (x.var(over(-1), 0, true) + 1e-5).sqrt()); };
  CHECK(made(formula) == "layer_norm = aten::layer_norm(%x, [8], %w, %b, 1e-05)");
  CHECK(made(formula, {1}).find("layer_norm(%x, [8], None, None, 1e-05)") != std::string::npos);
  CHECK(made(formula, {3, 8}).find("layer_norm(%x, [8], None, None, 1e-05)") != std::string::npos);
}

TEST_CASE("what is no layer norm") {
  CHECK(made([](P x, P, P) { return centred(x) / (x.var(over(-1), 1, true) + 1e-5).sqrt(); }) == "");
  CHECK(made([](P x, P, P) { return centred(x, 1) / (x.var(over(1), 0, true) + 1e-5).sqrt(); }) == "");
  CHECK(made([](P x, P, P) { return centred(x, 1) / (x.var(over(-1), 0, true) + 1e-5).sqrt(); }) == "");
  CHECK(made([](P x, P, P) { return centred(x) / x.var(over(-1), 0, true).sqrt(); }) == "");
  CHECK(made([](P x, P w, P) { return centred(x) / (w.var(over(-1), 0, true) + 1e-5).sqrt(); }) == "");
}

TEST_CASE("rms norm, with and without a weight") {
  const std::string norm = "rms_norm = aten::rms_norm(%x, [8], None, 1e-06)";
  CHECK(made([](P x, P, P) { return x * (x.pow(2).mean({-1}, true) + 1e-6).rsqrt(); }) == norm);
  CHECK(made([](P x, P, P) { return x * ((x * x).mean({-1}, true) + 1e-6).rsqrt(); }) == norm);
  CHECK(made([](P x, P, P) { return x / (x.square().mean({-1}, true) + 1e-6).sqrt(); }) == norm);
  CHECK(made([](P x, P w, P) { return w * (x * (x.pow(2).mean({-1}, true) + 1e-6).rsqrt()); }) ==
        "rms_norm = aten::rms_norm(%x, [8], %w, 1e-06)");
  CHECK(made([](P x, P, P) { return x * (x.pow(3).mean({-1}, true) + 1e-6).rsqrt(); }) == "");
  CHECK(made([](P x, P, P) { return x * (x.pow(2).mean({0}, true) + 1e-6).rsqrt(); }) == "");
}

TEST_CASE("softmax and log softmax") {
  CHECK(made([](P x, P, P) {
          Proxy e = x.exp();
          return e / e.sum({1}, true);
        }) == "softmax = aten::softmax.int(%x, 1)");
  CHECK(made([](P x, P, P) {
          Proxy e = (x - x.amax({-1}, true)).exp();
          return e / e.sum({-1}, true);
        }) == "softmax = aten::softmax.int(%x, -1)");
  CHECK(made([](P x, P, P) { return x.softmax(1).log(); }) == "log_softmax = aten::log_softmax.int(%x, 1)");
  CHECK(made([](P x, P, P) { return x - x.logsumexp({1}, true); }) == "log_softmax = aten::log_softmax.int(%x, 1)");
  CHECK(made([](P x, P, P) { return x.log_softmax(1).exp(); }) == "softmax = aten::softmax.int(%x, 1)");
  CHECK(made([](P x, P, P) {
          Proxy e = x.exp();
          return e / e.sum({1}, false);
        }) == "");
  CHECK(made([](P x, P w, P) { return x.exp() / w.exp().sum({1}, true); }) == "");
  CHECK(made([](P x, P, P) { return x - x.logsumexp({1, 2}, true); }) == "");
}

TEST_CASE("a sum over its count is a mean") {
  CHECK(made([](P x, P, P) { return x.sum({1, 2}) / 24; }) == "mean = aten::mean.dim(%x, [1, 2], False)");
  CHECK(made([](P x, P, P) { return x.sum() / 48; }) == "mean = aten::mean(%x)");
  CHECK(made([](P x, P, P) { return x.sum({1, 2}) / 48; }) == "");
}
