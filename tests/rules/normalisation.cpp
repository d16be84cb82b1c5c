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

TEST_CASE("a weight that is multiplied before it is divided goes into the norm where it has its sizes") {
  const auto first = [](P x, P w, P) { return w * centred(x) / (x.var(over(-1), 0, true) + 1e-5).sqrt(); };
  CHECK(made(first) == "layer_norm = aten::layer_norm(%x, [8], %w, None, 1e-05)");
  CHECK(made(first, {3, 8}).find("layer_norm") == std::string::npos);
  const auto rms = [](P x, P w, P) { return w * x * (x.pow(2).mean({-1}, true) + 1e-6).rsqrt(); };
  CHECK(made(rms) == "rms_norm = aten::rms_norm(%x, [8], %w, 1e-06)");
  CHECK(made(rms, {1}) == "");
}

TEST_CASE("the mean of squared differences is a variance") {
  CHECK(made([](P x, P, P) { return centred(x, 1).pow(2).mean({1}, true); }) ==
        "var = aten::var.dim(%x, [1], False, True)");
  CHECK(made([](P x, P, P) { return centred(x).square().mean({-1}, false); }) ==
        "var = aten::var.dim(%x, [-1], False, False)");
  CHECK(made([](P x, P, P) { return centred(x).pow(2).mean({1}, true); }) == "");
  CHECK(made([](P x, P, P) { return centred(x).pow(3).mean({-1}, true); }) == "");
}

TEST_CASE("weight and bias go into the norm where they have its sizes") {
  const auto formula = [](P x, P w, P b) { return b + w * (centred(x) / (x.var(over(-1), 0, true) + 1e-5).sqrt()); };
  CHECK(made(formula) == "layer_norm = aten::layer_norm(%x, [8], %w, %b, 1e-05)");
  CHECK(made(formula, {1}).find("layer_norm(%x, [8], None, None, 1e-05)") != std::string::npos);
  CHECK(made(formula, {3, 8}).find("layer_norm(%x, [8], None, None, 1e-05)") != std::string::npos);
}

TEST_CASE("what is no layer norm") {
  const auto is_none = [](const std::string& text) { return text.find("layer_norm") == std::string::npos; };
  CHECK(is_none(made([](P x, P, P) { return centred(x) / (x.var(over(-1), 1, true) + 1e-5).sqrt(); })));
  CHECK(is_none(made([](P x, P, P) { return centred(x, 1) / (x.var(over(1), 0, true) + 1e-5).sqrt(); })));
  CHECK(is_none(made([](P x, P, P) { return centred(x, 1) / (x.var(over(-1), 0, true) + 1e-5).sqrt(); })));
  CHECK(is_none(made([](P x, P, P) { return centred(x) / x.var(over(-1), 0, true).sqrt(); })));
  CHECK(is_none(made([](P x, P w, P) { return centred(x) / (w.var(over(-1), 0, true) + 1e-5).sqrt(); })));
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

TEST_CASE("a shifted softmax is one, where all shapes are known too") {
  Graph graph = symbolic_graph([](P x) {
    Proxy e = (x - x.amax({-1}, true)).exp();
    return e / e.sum({-1}, true);
  });
  for (Node* node : graph.nodes()) {
    const bool one = node->calls(ops::amax) || node->calls(ops::sum_dim_IntList);
    if (node->opcode() != Opcode::output) shaped(node, {2, 3, one ? 1 : 8});
  }
  CHECK(rules::normalisation.apply(graph).to_string() == "softmax, shifted: 1");
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

TEST_CASE("softmax lies in order, and by hand as its argument does: what sees that is changed, or keeps it") {
  const auto body = [](auto f) {
    Graph graph = symbolic_graph(f, {"x"});
    graph.nodes().front()->set_tensor_meta({.shape = {3, 8}, .stride = {1, 3}, .dtype = Dtype::float32});
    rules::normalisation.apply(graph);
    graph.lint();
    return test::body_of(graph);
  };
  const auto softmax = [](P x) {
    Proxy e = x.exp();
    return e / e.sum({1}, true);
  };
  const auto log_softmax = [](P x) { return x - x.logsumexp({1}, true); };
  CHECK(body([&](P x) { return softmax(x).t().view({24}); }) ==
        "softmax = aten::softmax.int(%x, 1)\nt = .t(%softmax)\nview = aten::reshape(%t, [24])\nreturn %view\n");
  CHECK(body([&](P x) { return log_softmax(x).t().view({24}); }) ==
        "log_softmax = aten::log_softmax.int(%x, 1)\nt = .t(%log_softmax)\nview = aten::reshape(%t, [24])\n"
        "return %view\n");
  CHECK(body([&](P x) { return softmax(x).as_strided({24}, {1}); }).find("softmax") == std::string::npos);
  CHECK(body([&](P x) { return log_softmax(x).as_strided({24}, {1}); }).find("log_softmax") == std::string::npos);
  // Of a contiguous one both lie in order, and nothing behind it changes.
  CHECK(made([&](P x, P, P) { return softmax(x).view({48}); }) ==
        "softmax = aten::softmax.int(%x, 1)\nview = .view(%softmax, [48])");
}

TEST_CASE("what is taken off before a softmax, and put back behind a sum of exponentials") {
  CHECK(made([](P x, P, P) { return (x - x.amax({-1}, true)).softmax(-1); }) == "softmax = aten::softmax.int(%x, -1)");
  CHECK(made([](P x, P, P) { return (x - x.amax({2}, true).detach()).log_softmax(-1); }) ==
        "log_softmax = aten::log_softmax.int(%x, -1)");
  CHECK(made([](P x, P, P) { return (x - x.amax({1}, true)).softmax(-1); }) == "");
  CHECK(made([](P x, P, P) { return (x - x.amin({-1}, true)).softmax(-1); }) == "");
  CHECK(made([](P x, P, P) {
          Proxy m = x.amax({-1}, true);
          return m + (x - m).exp().sum({-1}, true).log();
        }) == "logsumexp = aten::logsumexp(%x, [-1], True)");
  CHECK(made([](P x, P, P) {
          Proxy m = x.amax({-1}, true);
          return m.squeeze(-1) + (x - m).exp().sum({-1}, false).log();
        }) == "logsumexp = aten::logsumexp(%x, [-1], False)");
  CHECK(made([](P x, P, P) {
          Proxy m = x.amax({-1}, true);
          return m.squeeze(1) + (x - m).exp().sum({-1}, false).log();
        }) == "");
}

TEST_CASE("a sum over its count is a mean") {
  CHECK(made([](P x, P, P) { return x.sum({1, 2}) / 24; }) == "mean = aten::mean.dim(%x, [1, 2], False)");
  CHECK(made([](P x, P, P) { return x.sum() / 48; }) == "mean = aten::mean(%x)");
  CHECK(made([](P x, P, P) { return x.sum({1, 2}) / 48; }) == "");
}

namespace {

/// A group norm of a 2 x 6 x 4 x 4 value, as `normed(graph, view)` writes it, seen in this shape.
template <class F>
std::string grouped(F normed, std::vector<std::int64_t> seen, std::vector<std::int64_t> back = {2, 6, 4, 4},
                    bool known = true, const Operator& view = ops::view) {
  return test::fired_on(rules::normalisation, [&](Graph& g) {
    const auto of = [&](Node* node, std::vector<std::int64_t> shape) { return known ? shaped(node, shape) : node; };
    const auto sizes = [](const std::vector<std::int64_t>& shape) {
      return Argument::list(std::vector<Argument>(shape.begin(), shape.end()));
    };
    Node* x = of(g.placeholder("x"), {2, 6, 4, 4});
    Node* parts = of(g.call_function(view, {x, sizes(seen)}), seen);
    return of(g.call_function(view, {of(normed(g, parts), seen), sizes(back)}), back);
  });
}
Node* call(Graph& g, const Operator& op, std::initializer_list<Argument> args) {
  return g.call_function(op, std::vector<Argument>(args));
}
/// (x - mean) / sqrt(var + eps)
auto by_variance(std::vector<Argument> dims, bool unbiased = false) {
  return [=](Graph& g, Node* x) {
    const Argument over = Argument::list(dims);
    Node* centre = call(g, ops::sub_Tensor, {x, call(g, ops::mean_dim, {x, over, true})});
    Node* spread = call(g, ops::var_dim, {x, over, unbiased, true});
    return call(g, ops::div_Tensor, {centre, call(g, ops::sqrt, {call(g, ops::add_Scalar, {spread, 1e-5})})});
  };
}

}  // namespace

TEST_CASE("a norm of groups that were made by a view is a group norm") {
  const auto layer_norm = [](Graph& g, Node* x) {
    return call(g, ops::layer_norm, {x, Argument::list({Argument(32)}), {}, {}, 1e-5});
  };
  const auto batch_norm = [](Graph& g, Node* x) {
    return call(g, ops::batch_norm, {x, {}, {}, {}, {}, true, 0.1, 1e-5, true});
  };
  CHECK(grouped(by_variance({2}), {2, 3, 32}) == "layer norm, divided: 1, group norm: 1");
  CHECK(grouped(by_variance({2, 3, 4}), {2, 3, 2, 4, 4}) == "layer norm, divided: 1, group norm: 1");
  CHECK(grouped(by_variance({-1}), {2, 3, 32}, {2, 6, 4, 4}, true, ops::reshape) ==
        "layer norm, divided: 1, group norm: 1");
  CHECK(grouped(layer_norm, {2, 3, 32}) == "group norm: 1");
  CHECK(grouped(batch_norm, {1, 6, 32}) == "group norm by batch norm: 1");
}

TEST_CASE("what is no group norm") {
  const auto layer_norm = [](Graph& g, Node* x) {
    return call(g, ops::layer_norm, {x, Argument::list({Argument(4)}), {}, {}, 1e-5});
  };
  const auto batch_norm = [](bool training) {
    return [=](Graph& g, Node* x) { return call(g, ops::batch_norm, {x, {}, {}, {}, {}, training, 0.1, 1e-5, true}); };
  };
  CHECK(grouped(by_variance({2}, true), {2, 3, 32}) == "");
  CHECK(grouped(by_variance({2}), {2, 3, 32}, {2, 6, 4, 4}, false) == "");
  CHECK(grouped(by_variance({2}), {2, 4, 24}) == "layer norm, divided: 1");         // 6 channels in 4 groups
  CHECK(grouped(by_variance({2}), {2, 3, 32}, {2, 3, 32}) == "layer norm, divided: 1");
  CHECK(grouped(by_variance({3, 4}), {2, 3, 2, 4, 4}) == "layer norm, divided: 1");  // of each channel
  CHECK(grouped(by_variance({2}), {3, 2, 32}) == "layer norm, divided: 1");
  CHECK(grouped(layer_norm, {2, 3, 8, 4}) == "");
  CHECK(grouped(batch_norm(false), {1, 6, 32}) == "");
  CHECK(grouped(batch_norm(true), {2, 3, 32}) == "");
}

TEST_CASE("a group norm takes a weight and a bias of one number a channel") {
  const auto made = [](std::vector<std::int64_t> weight, std::vector<std::int64_t> bias) {
    return test::rewritten_graph(rules::normalisation, [&](Graph& g) {
      Node* x = shaped(g.placeholder("x"), {2, 6, 4, 4});
      Node *w = shaped(g.placeholder("w"), weight), *b = shaped(g.placeholder("b"), bias);
      Node* norm = call(g, ops::mul_Tensor, {call(g, ops::group_norm, {x, 3, {}, {}, 1e-5}), w});
      return call(g, ops::add_Tensor, {norm, b});
    });
  };
  CHECK(made({1, 6, 1, 1}, {6, 1, 1}) ==
        "reshape = aten::reshape(%w, [6])\nreshape_1 = aten::reshape(%b, [6])\n"
        "group_norm = aten::group_norm(%x, 3, %reshape, %reshape_1, 1e-05)\nreturn %group_norm\n");
  CHECK(made({4, 1}, {6, 1, 1}).find("group_norm(%x, 3, None, None, 1e-05)") != std::string::npos);
  CHECK(made({1, 6, 1, 1}, {1, 6, 1, 4}).find("group_norm(%x, 3, %reshape, None, 1e-05)") != std::string::npos);
  CHECK(made({2, 6, 1, 1}, {6, 1, 1}).find("group_norm(%x, 3, None, None, 1e-05)") != std::string::npos);
}

TEST_CASE("shapes that contradict their operators match nothing") {
  Graph graph = symbolic_graph([](P x, P w) { return group_norm(x, 1) * w; }, {"x", "w"});
  for (Node* node : graph.nodes())
    if (node->opcode() == Opcode::placeholder)
      shaped(node, node->name() == "x" ? std::vector<std::int64_t>{4} : std::vector<std::int64_t>{});
  CHECK(rules::normalisation.apply(graph).rewrites == 0);
}
