// Patterns that become one kernel: the same numbers as the operators' on float32 tensors of any layout, and the
// operators themselves wherever a kernel would not be right.
#include "fxx/torch/fused.hpp"

#include "fxx/ops/registry.hpp"
#include "fxx/passes/expand_functions.hpp"
#include "fxx/torch/build.hpp"
#include "fxx/torch/fake.hpp"
#include "fxx/torch/verify_rules.hpp"
#include "torch/support.hpp"
// after doctest, which the one above has to include first
#include "runtime/support.hpp"

using namespace fxx;
using namespace fxx::test;
using torch::Tensor;

namespace {
namespace p = fxx::pattern;
using namespace fxx::rewrite::literals;
using p::arg;
using p::fused;
using p::rule;
using p::ruleset;
using p::s;
using p::x;
using p::y;
using p::z;

constexpr auto gate = ruleset(rule<"gate">(p::tanh(x) * p::sigmoid(y) >> fused));
constexpr auto scaled = ruleset(rule<"scaled">(p::add(p::mul(x, s), y, arg<"alpha">(0.5_c)) >> fused));
constexpr auto twice = ruleset(rule<"twice">(p::relu(x * 2_c) >> fused));

std::shared_ptr<GraphModule> gated(const Tensors& inputs) {
  auto gm = traced([](const Tensors& in) { return in[0].tanh() * in[1].sigmoid(); }, inputs);
  CHECK(gate.apply(*gm).to_string() == "gate: 1");
  return gm;
}
Tensor of(const c10::IValue& value) { return value.toTensor(); }
/// Relative to one: what fused kernels and operators may differ by.
constexpr double rounding = 2e-6;
void check_near(const Tensor& given, const Tensor& wanted) {
  CHECK((given.sizes() == wanted.sizes()));
  CHECK((given.scalar_type() == wanted.scalar_type()));
  CHECK(at::allclose(given, wanted, rounding, rounding, /*equal_nan=*/true));
}

}  // namespace

TEST_CASE("what matches becomes one call, whose name spells the expression") {
  const auto gm = gated({torch::randn({4}), torch::randn({4})});
  const std::string text = to_string(gm->graph());
  CAPTURE(text);
  CHECK(text.find("fxx::fused<(Tensor x, Tensor y) tanh(x) * sigmoid(y)>'](args = (%") != text.npos);
  CHECK(gm->graph().size() == 4);
  gm->graph().lint();
  // Its printed form is read again, and copies call the same function.
  const Graph read = parse_graph(text);
  CHECK(to_string(read) == text);
  const auto scale = traced([](const Tensors& in) { return torch::add(in[0] * 3, in[1], 0.5); },
                            {torch::randn({4}), torch::randn({4})});
  CHECK(scaled.apply(*scale).to_string() == "scaled: 1");
  CHECK(to_string(scale->graph()).find("fxx::fused<(Tensor x, Scalar s, Tensor y) add((x * s), y, alpha=0.5)>") !=
        std::string::npos);
}

TEST_CASE("the kernel gives the operators' numbers, shape and layout") {
  const auto gm = gated({torch::randn({4}), torch::randn({4})});
  const auto run = [&](const Tensor& a, const Tensor& b) {
    const Tensor given = of(gm->run({a, b})), wanted = a.tanh() * b.sigmoid();
    CAPTURE(describe(a));
    CAPTURE(describe(b));
    check_near(given, wanted);
    CHECK((given.strides() == wanted.strides()));
  };
  for (const std::int64_t n : {0, 1, 7, 8, 33, 1009, 100003}) run(torch::randn({n}), torch::randn({n}));
  run(torch::randn({}), torch::randn({}));
  run(torch::randn({}), torch::randn({5, 3}));
  run(torch::randn({5, 3}), torch::randn({1}));
  run(torch::randn({5, 37}), torch::randn({37}));
  run(torch::randn({5, 37}), torch::randn({5, 1}));
  run(torch::randn({5, 1}), torch::randn({1, 37}));
  run(torch::randn({2, 3, 4, 5}), torch::randn({3, 1, 1}));
  run(torch::randn({7, 5}).t(), torch::randn({5, 7}));
  run(torch::randn({7, 5}).t(), torch::randn({7, 5}).t());
  run(torch::randn({7, 10}).slice(1, 0, 10, 2), torch::randn({7, 5}));
  run(torch::randn({7, 1}).expand({7, 300}), torch::randn({7, 300}));
  run(torch::randn({2, 3, 4, 5}).contiguous(torch::MemoryFormat::ChannelsLast), torch::randn({3, 1, 1}));
  run(torch::randn({2, 0, 3}), torch::randn({3}));
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  run(torch::tensor({inf, -inf, nan, 0.f, -0.f, 1e-40f}), torch::tensor({-inf, inf, 0.f, nan, inf, -1e-40f}));
}

TEST_CASE("the kernel is what runs on plain float32 tensors") {
  // It rounds otherwise than the operators one after the other, somewhere among this many numbers.
  const Tensor a = torch::linspace(-4, 4, 10007), b = torch::linspace(3, -3, 10007);
  const auto gm = gated({a, b});
  CHECK(!torch::equal(of(gm->run({a, b})), a.tanh() * b.sigmoid()));
  CHECK(torch::equal(of(gm->run({a.set_requires_grad(true), b})), a.tanh() * b.sigmoid()));
}

TEST_CASE("inputs that no kernel is for get the operators themselves") {
  const auto gm = gated({torch::randn({4}), torch::randn({4})});
  const auto run = [&](const Tensor& a, const Tensor& b) {
    const Tensor given = of(gm->run({a, b})), wanted = a.tanh() * b.sigmoid();
    CHECK((given.scalar_type() == wanted.scalar_type()));
    CHECK(same(given, wanted));
  };
  run(torch::randn({5}, torch::kDouble), torch::randn({5}, torch::kDouble));
  run(torch::randn({5}), torch::randn({5}, torch::kDouble));
  run(torch::randn({5}).to(torch::kHalf), torch::randn({5}).to(torch::kHalf));
  run(torch::randn({5}).to(torch::kBFloat16), torch::randn({5}));
  run(torch::arange(5), torch::arange(5));
  run(torch::randn({5}), torch::arange(5));
  run(torch::randn({5}), torch::tensor(2.0, torch::kDouble));
  run(torch::randn({5}) > 0, torch::randn({5}));
  CHECK_THROWS_AS(gm->run({torch::randn({3}), torch::randn({4})}), c10::Error);
  const Tensor meta = of(gm->run({torch::empty({5, 3}, torch::kMeta), torch::empty({3}, torch::kMeta)}));
  CHECK(meta.is_meta());
  CHECK((meta.sizes() == at::IntArrayRef({5, 3})));
  const Tensor unreal = of(gm->run({fake_like(torch::randn({5, 3})), fake_like(torch::randn({3}))}));
  CHECK(is_fake(unreal));
  CHECK((unreal.sizes() == at::IntArrayRef({5, 3})));
}

TEST_CASE("gradients are the operators'") {
  const auto gm = gated({torch::randn({4}), torch::randn({4})});
  const Tensor a = torch::randn({6, 5}).requires_grad_(), b = torch::randn({5}).requires_grad_();
  const auto given = torch::autograd::grad({of(gm->run({a, b})).sum()}, {a, b});
  const auto wanted = torch::autograd::grad({(a.tanh() * b.sigmoid()).sum()}, {a, b});
  CHECK(same(given[0], wanted[0]));
  CHECK(same(given[1], wanted[1]));
  const torch::NoGradGuard no_grad;
  CHECK(!of(gm->run({a, b})).requires_grad());
}

TEST_CASE("a trace through a module with fused kernels has the operators") {
  const auto gm = gated({torch::randn({4}), torch::randn({4})});
  const auto again = traced(
      [&](const Tensors& in) {
        return gm->run({in[0], in[1]});
      },
      {torch::randn({4}), torch::randn({4})});
  CHECK(gate.apply(*again).to_string() == "gate: 1");
}

TEST_CASE("literals keep the graph's own kind, which decides what becomes of integers") {
  const auto run = [&](auto factor, const std::string& name) {
    const auto gm = traced([=](const Tensors& in) { return torch::relu(in[0] * factor); }, {torch::randn({4})});
    CHECK(twice.apply(*gm).to_string() == "twice: 1");
    CHECK(to_string(gm->graph()).find(name) != std::string::npos);
    for (const Tensor& a : {torch::arange(-3, 3), torch::randn({6}), torch::randn({6}, torch::kDouble)})
      CHECK(same(of(gm->run({a})), torch::relu(a * factor)));
  };
  run(2, "relu((x * 2))");
  run(2.0, "relu((x * 2.0))");
}

TEST_CASE("numbers that the pattern captures are given to the kernel when it runs") {
  for (const double factor : {3., -0.5}) {
    const auto gm = traced([=](const Tensors& in) { return torch::add(in[0] * factor, in[1], 0.5); },
                           {torch::randn({4}), torch::randn({4})});
    CHECK(scaled.apply(*gm).to_string() == "scaled: 1");
    const Tensor a = torch::randn({3, 50}), b = torch::randn({50});
    check_near(of(gm->run({a, b})), torch::add(a * factor, b, 0.5));
    check_near(of(gm->run({a.to(torch::kDouble), b})), torch::add(a.to(torch::kDouble) * factor, b, 0.5));
  }
}

TEST_CASE("written as code it is the operators, and so it is expanded") {
  const auto gm = gated({torch::randn({4}), torch::randn({4})});
  const std::string code = gm->code();
  CAPTURE(code);
  CHECK(code.find("fxx") == code.npos);
  CHECK(code.find("tanh") != code.npos);
  CHECK(code.find("sigmoid") != code.npos);
  CHECK(has_expansions(gm->graph()));
  Graph plain(gm->graph());
  CHECK(expand_functions(plain) == 1);
  CHECK(!has_expansions(plain));
  plain.lint();
  CHECK(gate.apply(plain).to_string() == "gate: 1");
}

TEST_CASE("interpreted, built, copied and in inference mode it is the same kernel") {
  const Tensor a = torch::randn({33, 70}), b = torch::randn({70});
  const auto gm = gated({a, b});
  const Tensor wanted = of(gm->run({a, b}));
  CHECK(same(of(Interpreter(*gm).run({a, b})), wanted));
  const support::TemporaryFolder folder;
  const auto built = build(*gm, {a, b}, {.tolerance = 0, .cache_folder = folder.path()});
  CHECK(built->called_back() == std::vector<std::string>{"fused"});
  CHECK(same(of(built->run({a, b})), wanted));
  CHECK(to_string(Graph(gm->graph())) == to_string(gm->graph()));
  const c10::InferenceMode inference;
  CHECK(same(of(gm->run({a, b})), wanted));
}

TEST_CASE("writes in place beside a kernel neither hinder it nor change what it gives") {
  const Forward f = [](const Tensors& in) {
    Tensor gate = in[0].tanh() * in[1].sigmoid();
    gate.add_(1);
    in[0].mul_(2);
    return gate + in[0];
  };
  const Tensors inputs = {torch::randn({40}), torch::randn({40})};
  const auto gm = traced(f, inputs);
  CHECK(gate.apply(*gm).to_string() == "gate: 1");
  check_near(of(gm->run(boxed(cloned(inputs)))), of(f(cloned(inputs))));
}

/// Each operator with another around it.
constexpr auto operators = ruleset(
    rule<"abs(x)">(p::neg(p::abs(x)) >> fused), rule<"square(x)">(p::neg(p::square(x)) >> fused),
    rule<"sqrt(x)">(p::neg(p::sqrt(x)) >> fused), rule<"rsqrt(x)">(p::neg(p::rsqrt(x)) >> fused),
    rule<"reciprocal(x)">(p::neg(p::reciprocal(x)) >> fused), rule<"exp(x)">(p::neg(p::exp(x)) >> fused),
    rule<"expm1(x)">(p::neg(p::expm1(x)) >> fused), rule<"log(x)">(p::neg(p::log(x)) >> fused),
    rule<"erf(x)">(p::neg(p::erf(x)) >> fused), rule<"tanh(x)">(p::neg(p::tanh(x)) >> fused),
    rule<"sigmoid(x)">(p::neg(p::sigmoid(x)) >> fused), rule<"relu(x)">(p::neg(p::relu(x)) >> fused),
    rule<"relu6(x)">(p::neg(p::relu6(x)) >> fused), rule<"silu(x)">(p::neg(p::silu(x)) >> fused),
    rule<"gelu(x)">(p::neg(p::gelu(x)) >> fused),
    rule<"gelu(x, 'tanh')">(p::neg(p::gelu(x, arg<"approximate">(p::text<"tanh">))) >> fused),
    rule<"hardsigmoid(x)">(p::neg(p::hardsigmoid(x)) >> fused), rule<"hardswish(x)">(p::neg(p::hardswish(x)) >> fused),
    rule<"hardtanh(x, -0.5, 2)">(p::neg(p::hardtanh(x, -0.5_c, 2_c)) >> fused),
    rule<"mish(x)">(p::neg(p::mish(x)) >> fused), rule<"softplus(x)">(p::neg(p::softplus(x)) >> fused),
    rule<"softplus(x, 2, 5)">(p::neg(p::softplus(x, 2_c, 5_c)) >> fused),
    rule<"log_sigmoid(x)">(p::neg(p::log_sigmoid(x)) >> fused),
    rule<"leaky_relu(x, 0.2)">(p::neg(p::leaky_relu(x, 0.2_c)) >> fused),
    rule<"clamp(x, -1, 2)">(p::neg(p::clamp(x, -1_c, 2_c)) >> fused),
    rule<"clamp(x, none, 2)">(p::neg(p::clamp(x, p::none, 2_c)) >> fused),
    rule<"clamp_min(x, 0.5)">(p::neg(p::clamp_min(x, 0.5_c)) >> fused),
    rule<"pow(x, 2)">(p::neg(p::pow(x, 2_c)) >> fused), rule<"pow(x, 3)">(p::neg(p::pow(x, 3_c)) >> fused),
    rule<"pow(x, 4)">(p::neg(p::pow(x, 4_c)) >> fused), rule<"pow(x, 0.5)">(p::neg(p::pow(x, 0.5_c)) >> fused),
    rule<"pow(x, -0.5)">(p::neg(p::pow(x, -0.5_c)) >> fused), rule<"pow(x, -1)">(p::neg(p::pow(x, -1_c)) >> fused),
    rule<"pow(x, -2)">(p::neg(p::pow(x, -2_c)) >> fused), rule<"rsub(x, 3, 2)">(p::neg(p::rsub(x, 3_c, 2_c)) >> fused),
    rule<"where(gt(x, 0), x, 0.25)">(p::neg(p::where(p::gt(x, 0_c), x, 0.25_c)) >> fused),
    rule<"add(x, y, alpha(2))">(p::neg(p::add(x, y, arg<"alpha">(2_c))) >> fused),
    rule<"x - y">(p::neg(x - y) >> fused), rule<"x * y">(p::neg(x* y) >> fused), rule<"x / y">(p::neg(x / y) >> fused),
    rule<"maximum(x, y)">(p::neg(p::maximum(x, y)) >> fused), rule<"minimum(x, y)">(p::neg(p::minimum(x, y)) >> fused),
    rule<"where(le(x, y), x * 2, neg(y))">(p::neg(p::where(p::le(x, y), x * 2_c, p::neg(y))) >> fused));

TEST_CASE("every operator that has a kernel gives what LibTorch gives") {
  constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor a =
      torch::cat({torch::linspace(-9, 9, 777), torch::tensor({inf, -inf, nan, 0.f, -0.f, 1e-40f, 50.f, -50.f})});
  const Tensor b = torch::cat({torch::randn({777}), torch::tensor({1.f, 2.f, 3.f, nan, 1.f, 2.f, 1.f, 2.f})});
  const std::pair<std::string, Tensor (*)(const Tensor&, const Tensor&)> calls[] = {
      {"abs(x)", [](const Tensor& a, const Tensor& b) { return (void)b, a.abs(); }},
      {"square(x)", [](const Tensor& a, const Tensor& b) { return (void)b, a.square(); }},
      {"sqrt(x)", [](const Tensor& a, const Tensor& b) { return (void)b, a.sqrt(); }},
      {"rsqrt(x)", [](const Tensor& a, const Tensor& b) { return (void)b, a.rsqrt(); }},
      {"reciprocal(x)", [](const Tensor& a, const Tensor& b) { return (void)b, a.reciprocal(); }},
      {"exp(x)", [](const Tensor& a, const Tensor& b) { return (void)b, a.exp(); }},
      {"expm1(x)", [](const Tensor& a, const Tensor& b) { return (void)b, a.expm1(); }},
      {"log(x)", [](const Tensor& a, const Tensor& b) { return (void)b, a.log(); }},
      {"erf(x)", [](const Tensor& a, const Tensor& b) { return (void)b, a.erf(); }},
      {"tanh(x)", [](const Tensor& a, const Tensor& b) { return (void)b, a.tanh(); }},
      {"sigmoid(x)", [](const Tensor& a, const Tensor& b) { return (void)b, a.sigmoid(); }},
      {"relu(x)", [](const Tensor& a, const Tensor& b) { return (void)b, a.relu(); }},
      {"relu6(x)", [](const Tensor& a, const Tensor& b) { return (void)b, torch::relu6(a); }},
      {"silu(x)", [](const Tensor& a, const Tensor& b) { return (void)b, torch::silu(a); }},
      {"gelu(x)", [](const Tensor& a, const Tensor& b) { return (void)b, torch::gelu(a); }},
      {"gelu(x, 'tanh')", [](const Tensor& a, const Tensor& b) { return (void)b, torch::gelu(a, "tanh"); }},
      {"hardsigmoid(x)", [](const Tensor& a, const Tensor& b) { return (void)b, torch::hardsigmoid(a); }},
      {"hardswish(x)", [](const Tensor& a, const Tensor& b) { return (void)b, torch::hardswish(a); }},
      {"hardtanh(x, -0.5, 2)", [](const Tensor& a, const Tensor& b) { return (void)b, torch::hardtanh(a, -0.5, 2); }},
      {"mish(x)", [](const Tensor& a, const Tensor& b) { return (void)b, torch::mish(a); }},
      {"softplus(x)", [](const Tensor& a, const Tensor& b) { return (void)b, torch::softplus(a); }},
      {"softplus(x, 2, 5)", [](const Tensor& a, const Tensor& b) { return (void)b, torch::softplus(a, 2, 5); }},
      {"log_sigmoid(x)", [](const Tensor& a, const Tensor& b) { return (void)b, torch::log_sigmoid(a); }},
      {"leaky_relu(x, 0.2)", [](const Tensor& a, const Tensor& b) { return (void)b, torch::leaky_relu(a, 0.2); }},
      {"clamp(x, -1, 2)", [](const Tensor& a, const Tensor& b) { return (void)b, a.clamp(-1, 2); }},
      {"clamp(x, none, 2)", [](const Tensor& a, const Tensor& b) { return (void)b, a.clamp({}, 2); }},
      {"clamp_min(x, 0.5)", [](const Tensor& a, const Tensor& b) { return (void)b, a.clamp_min(0.5); }},
      {"pow(x, 2)", [](const Tensor& a, const Tensor& b) { return (void)b, a.pow(2); }},
      {"pow(x, 3)", [](const Tensor& a, const Tensor& b) { return (void)b, a.pow(3); }},
      {"pow(x, 4)", [](const Tensor& a, const Tensor& b) { return (void)b, a.pow(4); }},
      {"pow(x, 0.5)", [](const Tensor& a, const Tensor& b) { return (void)b, a.pow(0.5); }},
      {"pow(x, -0.5)", [](const Tensor& a, const Tensor& b) { return (void)b, a.pow(-0.5); }},
      {"pow(x, -1)", [](const Tensor& a, const Tensor& b) { return (void)b, a.pow(-1); }},
      {"pow(x, -2)", [](const Tensor& a, const Tensor& b) { return (void)b, a.pow(-2); }},
      {"rsub(x, 3, 2)", [](const Tensor& a, const Tensor& b) { return (void)b, torch::rsub(a, 3, 2); }},
      {"where(gt(x, 0), x, 0.25)",
       [](const Tensor& a, const Tensor& b) { return (void)b, torch::where(a > 0, a, 0.25); }},
      {"add(x, y, alpha(2))", [](const Tensor& a, const Tensor& b) { return (void)b, torch::add(a, b, 2); }},
      {"x - y", [](const Tensor& a, const Tensor& b) { return (void)b, a - b; }},
      {"x * y", [](const Tensor& a, const Tensor& b) { return (void)b, a * b; }},
      {"x / y", [](const Tensor& a, const Tensor& b) { return (void)b, a / b; }},
      {"maximum(x, y)", [](const Tensor& a, const Tensor& b) { return (void)b, torch::maximum(a, b); }},
      {"minimum(x, y)", [](const Tensor& a, const Tensor& b) { return (void)b, torch::minimum(a, b); }},
      {"where(le(x, y), x * 2, neg(y))",
       [](const Tensor& a, const Tensor& b) { return (void)b, torch::where(a <= b, a * 2, -b); }}};
  Graph none;
  none.output({});
  CHECK(operators.apply(none).fired.size() == std::size(calls));
  for (const auto& [name, call] : calls) {
    CAPTURE(name);
    const auto gm = traced([&, f = call](const Tensors& in) { return -f(in[0], in[1]); }, {a, b});
    CHECK(operators.apply(*gm).to_string() == name + ": 1");
    CHECK(has_expansions(gm->graph()));
    // With AVX-512 LibTorch leaves gelu of floats to oneDNN, which makes nan of infinity: pytorch issue 185770.
    const Tensor expected = name == "gelu(x)" ? torch::gelu(a.to(torch::kDouble)).to(torch::kFloat) : call(a, b);
    check_near(of(gm->run({a, b})), -expected);
  }
}

TEST_CASE("verify holds a fused rule to its pattern") {
  const auto report =
      verify(ruleset(rule<"gate">(p::tanh(x) * p::sigmoid(y) >> fused), rule<"affine">(p::relu(x * s + y) >> fused)));
  CAPTURE(report.to_string());
  CHECK(report.ok());
}
