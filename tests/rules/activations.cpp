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
  CHECK(stays([](auto x, auto y) { return 0.5 * x * (tanh(tanh_root * (x + 0.044715 * x * x * y)) + 1); }));
  CHECK(stays([](auto x, auto y) { return x * sigmoid(y); }));
  CHECK(stays([](auto x) { return x / (1 + exp(x)); }));
  CHECK(stays([](auto x) { return x * sigmoid(x * 1.702); }));
  CHECK(stays([](auto x) { return div(x, exp(-x) + 1, "floor"); }));
}
