// rules::activations: every way of writing gelu and silu that it knows, and formulas that only look like them.
#include "fxx/rules/activations.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "rewrite/rewritten.hpp"

using namespace fxx;
using namespace fxx::functional;
using test::fires;
using test::rewritten;

namespace {
const double root = std::sqrt(2.0), tanh_root = std::sqrt(2 / 3.14159265358979323846);
const auto made_of = [](auto formula) { return rewritten(rules::activations, formula); };
const auto stays = [](auto formula) { return !fires(rules::activations, formula); };
auto erf_part(Proxy x) { return erf(x / root) + 1; }
auto tanh_part(Proxy x) { return tanh(tanh_root * (x + 0.044715 * x.pow(3))) + 1; }
}  // namespace

TEST_CASE("gelu with the error function") {
  const std::string gelu = "gelu = aten::gelu(%x)\nreturn %gelu\n";
  CHECK(made_of([](auto x) { return x * 0.5 * (erf(x / root) + 1); }) == gelu);
  CHECK(made_of([](auto x) { return 0.5 * x * (1 + erf(x * (1 / root))); }) == gelu);
  CHECK(made_of([](auto x) { return (1 + erf(x / root)) * (x / 2); }) == gelu);
  CHECK(made_of([](auto x) { return x * erf_part(x) * 0.5; }) == gelu);
  CHECK(made_of([](auto x) { return x * erf_part(x) / 2; }) == gelu);
  CHECK(made_of([](auto x) { return x * (erf_part(x) * 0.5); }) == gelu);
  CHECK(made_of([](auto x) { return x.mul(0.5).mul(x.div(1.4142135).erf().add(1.0)); }) == gelu);  // a rounded root
}

TEST_CASE("gelu with the hyperbolic tangent") {
  const std::string gelu = "gelu = aten::gelu(%x, approximate='tanh')\nreturn %gelu\n";
  CHECK(made_of([](auto x) { return 0.5 * x * tanh_part(x); }) == gelu);
  CHECK(made_of([](auto x) { return x / 2 * (tanh((x + x * x * x * 0.044715) * tanh_root) + 1); }) == gelu);
  CHECK(made_of([](auto x) { return x * tanh_part(x) * 0.5; }) == gelu);
  CHECK(made_of([](auto x) { return tanh_part(x) * x / 2; }) == gelu);
  CHECK(made_of([](auto x) { return x / 2 * (tanh((x + 0.044715 * x * x * x) * tanh_root) + 1); }) == gelu);
  CHECK(made_of([](auto x) { return x / 2 * (tanh((x + 0.044715 * x * (x * x)) * tanh_root) + 1); }) == gelu);
  CHECK(made_of([](auto x) { return x / 2 * (tanh(tanh_root * x * (0.044715 * x * x + 1)) + 1); }) == gelu);
  CHECK(made_of([](auto x) { return x / 2 * (tanh(tanh_root * (x * (0.044715 * x * x + 1))) + 1); }) == gelu);
}

TEST_CASE("silu") {
  const std::string silu = "silu = aten::silu(%x)\nreturn %silu\n";
  CHECK(made_of([](auto x) { return x * sigmoid(x); }) == silu);
  CHECK(made_of([](auto x) { return x.sigmoid().mul(x); }) == silu);
  CHECK(made_of([](auto x) { return x / (1 + exp(-x)); }) == silu);
}

TEST_CASE("what is used elsewhere too stays") {
  CHECK(made_of([](auto x) {
          const auto gate = sigmoid(x);
          return x * gate + gate;
        }) ==
        "sigmoid = aten::sigmoid(%x)\nsilu = aten::silu(%x)\n"
        "add = aten::add.Tensor(%silu, %sigmoid)\nreturn %add\n");
}

TEST_CASE("formulas that only look alike are left alone") {
  CHECK(stays([](auto x) { return x * 0.4 * erf_part(x); }));
  CHECK(stays([](auto x) { return x * 0.5 * (erf(x / 2) + 1); }));
  CHECK(stays([](auto x) { return x * 0.5 * (erf(x / root) + 2); }));
  CHECK(stays([](auto x) { return x * 0.5 * (erf(x / root) - 1); }));
  CHECK(stays([](auto x, auto y) { return x * 0.5 * erf_part(y); }));
  CHECK(stays([](auto x) { return x * erf_part(x); }));
  CHECK(stays([](auto x) { return 0.5 * x * (tanh(tanh_root * (x + 0.04 * x.pow(3))) + 1); }));
  CHECK(stays([](auto x) { return 0.5 * x * (tanh(tanh_root * (x + 0.044715 * x.pow(2))) + 1); }));
  CHECK(made_of([](auto x, auto y) {
          return 0.5 * x * (tanh(tanh_root * (x + 0.044715 * x * x * y)) + 1);
        }).find("gelu") == std::string::npos);
  CHECK(stays([](auto x, auto y) { return x * sigmoid(y); }));
  CHECK(stays([](auto x) { return x / (1 + exp(x)); }));
  CHECK(stays([](auto x) { return x * sigmoid(x * 1.702); }));
  CHECK(stays([](auto x) { return div(x, exp(-x) + 1, "floor"); }));
}

TEST_CASE("sigmoid and tanh by each other, hard ones, softplus and what is made of it") {
  const auto made = [](auto f) {
    const std::string text = rewritten(rules::activations, f);
    const std::size_t from = text.find("aten::");
    return from == std::string::npos ? text : text.substr(from + 6, text.find('\n', from) - from - 6);
  };
  const auto stays = [](auto f) { return !fires(rules::activations, f); };
  CHECK(made([](auto x) { return 1 / (1 + (-x).exp()); }) == "sigmoid(%x)");
  CHECK(made([](auto x) { return (1 + (-x).exp()).reciprocal(); }) == "sigmoid(%x)");
  CHECK(made([](auto x) { return 0.5 * (1 + (x / 2).tanh()); }) == "sigmoid(%x)");
  CHECK(made([](auto x) { return 2 * (2 * x).sigmoid() - 1; }) == "tanh(%x)");
  CHECK(made([](auto x) { return x.clamp_min(0); }) == "relu(%x)");
  CHECK(stays([](auto x) { return x.clamp_min(1); }));
  CHECK(made([](auto x) { return x.clamp(0, 6); }) == "relu6(%x)");
  CHECK(stays([](auto x) { return x.clamp(0, 5); }));
  CHECK(made([](auto x) { return (x + 3).clamp(0, 6) / 6; }) == "hardsigmoid(%x)");
  CHECK(made([](auto x) { return (x / 6 + 0.5).clamp(0, 1); }) == "hardsigmoid(%x)");
  CHECK(made([](auto x) { return x * (3 + x).clamp(0, 6) / 6; }) == "hardswish(%x)");
  CHECK(made([](auto x) { return (x + 3).clamp(0, 6) / 6 * x; }) == "hardswish(%x)");
  CHECK(made([](auto x) { return (1 + x.exp()).log(); }) == "softplus(%x, 1, 40)");
  CHECK(made([](auto x) { return x.exp().log1p().tanh() * x; }) == "mish(%x)");
  CHECK(made([](auto x) { return x.sigmoid().log(); }) == "log_sigmoid(%x)");
  CHECK(made([](auto x) { return 0.5 * x * (1 + (0.7978845608 * x * (1 + 0.044715 * (x * x))).tanh()); }) ==
        "gelu(%x, approximate='tanh')");
}

TEST_CASE("log_sigmoid lies in order, whatever its argument does, so nobody may see that") {
  const auto by_sigmoid = [](auto x) { return x.sigmoid().log().t().view({12}); };
  const auto by_softplus = [](auto x) { return (-softplus(-x, 1, 40)).t().view({12}); };
  CHECK(stays(by_sigmoid));
  CHECK(stays(by_softplus));
  const auto fires_with = [](auto f, std::vector<std::int64_t> stride) {
    Graph graph = symbolic_graph(f);
    graph.nodes().front()->set_tensor_meta({.shape = {3, 4}, .stride = stride, .dtype = Dtype::float32});
    return rules::activations.apply(graph).rewrites == 1;
  };
  CHECK(fires_with(by_sigmoid, {4, 1}));
  CHECK(fires_with(by_softplus, {4, 1}));
  CHECK_FALSE(fires_with(by_sigmoid, {1, 3}));
  CHECK_FALSE(fires_with(by_softplus, {1, 3}));
  CHECK(fires_with([](auto x) { return x.sigmoid().log().sum(); }, {1, 3}));
}

TEST_CASE("activations of two branches") {
  using namespace fxx::functional;
  const auto made = [](auto f) {
    const std::string text = rewritten(rules::activations, f);
    const std::size_t from = text.find("aten::");
    return from == std::string::npos ? text : text.substr(from + 6, text.find('\n', from) - from - 6);
  };
  const auto stays = [](auto f) { return !fires(rules::activations, f); };
  CHECK(made([](auto x) { return where(x > 0, x, x.expm1()); }) == "elu(%x)");
  CHECK(made([](auto x) { return where(x <= 0, 0.5 * (x.exp() - 1), x); }) == "elu(%x, 0.5)");
  CHECK(stays([](auto x) { return where(x > 0, x.expm1(), x); }));
  CHECK(stays([](auto x) { return where(x > 1, x, x.expm1()); }));
  CHECK(made([](auto x) { return x.relu() + (2 * ((x / 2).exp() - 1)).clamp_max(0); }) == "celu(%x, 2)");
  CHECK(stays([](auto x) { return x.relu() + (2 * ((x / 3).exp() - 1)).clamp_max(0); }));
  CHECK(made([](auto x) { return where(x > 0, x, 0.1 * x); }) == "leaky_relu(%x, 0.1)");
  CHECK(made([](auto x) { return where(x < 0, x * 0.1, x); }) == "leaky_relu(%x, 0.1)");
  CHECK(made([](auto x) { return (x * 0.1).maximum(x); }) == "leaky_relu(%x, 0.1)");
  CHECK(stays([](auto x) { return (x * 2).maximum(x); }));
  CHECK(stays([](auto x) { return where(x > 0, x, 0); }));  // makes 0 of nan
}

TEST_CASE("forms that round to zero what the operator keeps need their law, others hold on every input") {
  const auto fires_exactly = [](auto f) {
    Graph graph = symbolic_graph(f);
    return rules::activations.apply(graph, {.assume = law::ordinary}).rewrites > 0;
  };
  CHECK_FALSE(fires_exactly([](Proxy x) { return 0.5 * (1 + (x / 2).tanh()); }));
  CHECK_FALSE(fires_exactly([](Proxy x) { return 2 * (2 * x).sigmoid() - 1; }));
  CHECK_FALSE(fires_exactly([](Proxy x) { return (1 + x.exp()).log().tanh() * x; }));
  CHECK(fires_exactly([](Proxy x) { return x.exp().log1p().tanh() * x; }));
  CHECK_FALSE(fires_exactly([](Proxy x) { return x.relu() + ((-x.abs()).exp() + 1).log(); }));
  CHECK(fires_exactly([](Proxy x) { return x.relu() + (-x.abs()).exp().log1p(); }));
  CHECK_FALSE(fires_exactly([](Proxy x) { return where(x > 0, x, x.exp() - 1); }));
  CHECK_FALSE(fires_exactly([](Proxy x) { return where(x <= 0, 0.5 * (x.exp() - 1), x); }));
  CHECK(fires_exactly([](Proxy x) { return where(x > 0, x, x.expm1()); }));
  CHECK(fires_exactly([](Proxy x) { return where(x <= 0, 0.5 * x.expm1(), x); }));
  CHECK_FALSE(fires_exactly([](Proxy x) { return x.relu() + (x.exp() - 1).clamp_max(0); }));
  CHECK(fires_exactly([](Proxy x) { return x.relu() + x.expm1().clamp_max(0); }));
  CHECK_FALSE(fires_exactly([](Proxy x) { return x.relu() + (2 * ((x / 2).exp() - 1)).clamp_max(0); }));
  CHECK(fires_exactly([](Proxy x) { return x.relu() + (2 * (x / 2).expm1()).clamp_max(0); }));
}
