// Templated forwards written as LibTorch users write them: what is recorded runs as the module itself does, with
// tensors made, indices, functions of the user's, modules of every class of torch::nn, containers. One long file: each
// that includes LibTorch takes 20 s and 1.3 GB to compile.
#include <torch/custom_class.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "../graph_text.hpp"
#include "fxx/ops/operation.hpp"
#include "fxx/passes/dead_code.hpp"
#include "fxx/torch/build.hpp"
#include "fxx/torch/containers.hpp"
#include "fxx/torch/creation.hpp"
#include "fxx/torch/functional.hpp"
#include "fxx/torch/indexing.hpp"
#include "fxx/torch/script.hpp"
#include "fxx/torch/wrap.hpp"
#include "fxx/trace/math.hpp"
#include "torch/support.hpp"

using namespace fxx;
using namespace fxx::test;
using torch::Tensor;

namespace geometry {

enum class Shape { round, square };
struct Box {
  Tensor corner;
  double size;
};
/// Holds proxies in a trace, tensors outside.
template <class T>
struct Pair {
  T first, second;
};
Argument fx_create_arg(Tracer& tracer, const Pair<Proxy>& pair) {
  return Argument::tuple({tracer.node_of(pair.first), tracer.node_of(pair.second)});
}

std::int64_t rows(const Tensor& x) { return x.size(0); }
int calls = 0;
Tensor twice(const Tensor& x) {
  ++calls;
  return x * 2;
}
struct Scale {
  double factor;
  Tensor apply(const Tensor& x) const { return x * factor; }
};

inline const auto rows_of = fxx::wrap<"geometry::rows">(&rows, "\"geometry.hpp\"");
inline const auto rows_again = fxx::wrap<"geometry::rows">(&rows, "\"geometry.hpp\"");
inline const auto doubled = fxx::wrap<"geometry::twice">(twice);
inline const auto announce =
    fxx::wrap<"geometry::announce">([](const Tensor&, std::string_view) { ++calls; }, {}, true);
inline const auto parts = fxx::wrap<"geometry::parts">([](const Tensor& x) {
  return std::make_tuple(x.sum(), std::vector<Tensor>{x, -x}, x.size(0));
});
inline const auto make_box = fxx::proxyable<"geometry::Box", Box(Tensor, double)>("\"geometry.hpp\"");
/// Says of itself how a Box is built of it.
template <class T>
struct Corner {
  T at;
  operator Box() const
    requires std::same_as<T, Tensor>
  {
    return {at, 0.5};
  }
};
Argument fx_create_arg(Tracer&, const Corner<Proxy>& corner) { return make_box(corner.at, 0.5).node(); }
inline const auto area = fxx::wrap<"geometry::area">(
    [](const Box& box, Shape shape) { return box.corner * (shape == Shape::round ? 3.0 : box.size); });
inline const auto joined =
    fxx::wrap<"geometry::joined">([](std::vector<Tensor> list, std::map<std::string, Tensor> named,
                                     std::optional<Tensor> more, std::pair<Tensor, std::int64_t> last) {
      Tensor sum = last.first * last.second;
      for (const Tensor& t : list) sum = sum + t;
      for (const auto& [name, t] : named) sum = sum + t * static_cast<double>(name.size());
      return more ? sum + *more : sum;
    });
inline const auto sum_of =
    fxx::wrap<"geometry::sum_of">([](std::tuple<Tensor, Tensor> p) { return std::get<0>(p) + std::get<1>(p); });
inline const auto through = fxx::wrap<"geometry::through">(
    [](torch::nn::Linear fc, const torch::nn::ReLUImpl&, std::shared_ptr<torch::nn::Module> any, const Tensor& x) {
      return fc(x) * static_cast<double>(any->parameters().size());
    });
inline const auto scaled = fxx::wrap<"geometry::Scale::apply">(&Scale::apply);
inline const auto sigmoid = fxx::wrap<fxx::ops::sigmoid>();
inline const auto cat = fxx::wrap<fxx::ops::cat>();
inline const auto topk = fxx::wrap<fxx::ops::topk>();
inline const auto narrow =
    fxx::wrap<fxx::op<"aten::narrow(Tensor(a) self, int dim, SymInt start, SymInt length) -> Tensor(a)">>();

}  // namespace geometry

namespace {

/// A callable traced, checked against itself on several inputs.
template <class F>
std::shared_ptr<GraphModule> check_callable(F f, const std::vector<Tensors>& inputs, double tolerance = 0) {
  const auto gm = symbolic_trace(f);
  CAPTURE(to_string(gm->graph()));
  check_traced(f, *gm, inputs, tolerance);
  return gm;
}
/// Likewise a module, by its holder or not.
template <class M>
std::shared_ptr<GraphModule> check_module(M& module, const std::vector<Tensors>& inputs, double tolerance = 0) {
  const auto gm = symbolic_trace(module);
  CAPTURE(to_string(gm->graph()));
  check_traced(module, *gm, inputs, tolerance);
  return gm;
}
std::string body(const GraphModule& gm) { return body_of(gm.graph()); }
bool calls_operator(const GraphModule& gm, const Operator& op) { return count_of(gm.graph(), op) > 0; }
bool has_constant(const GraphModule& gm) { return gm.named_buffers().contains("_tensor_constant0"); }

const Tensor x34 = torch::randn({3, 4}), x54 = torch::randn({5, 4});

}  // namespace

// --- tensors that forward makes --------------------------------------------------------------------------------------

/// The head has the weight of the embedding; the one that it registered stays behind.
struct Tied : torch::nn::Module {
  fxx::nn::Embedding in = register_module("in", fxx::nn::Embedding(5, 4));
  fxx::nn::Linear out = register_module("out", fxx::nn::Linear(4, 5));
  Tied() { out->weight = in->weight; }
  template <class T>
  T forward(T x) {
    return out(in(x));
  }
};

TEST_CASE("a module whose weight is another's is the operator, so that copies stay tied") {
  Tied net;
  const auto gm = fxx::symbolic_trace(net);
  CHECK(gm->graph().find_nodes(fxx::Opcode::call_module).size() == 1);
  const auto copy = std::dynamic_pointer_cast<fxx::GraphModule>(gm->clone());
  const Tensor ids = torch::arange(5), expected = net.forward(ids);
  CHECK(same((*gm)(ids), expected));
  CHECK(same((*copy)(ids), expected));
  const torch::NoGradGuard no_grad;
  copy->named_parameters()["in.weight"].zero_();
  CHECK(same((*copy)(ids), net.out->bias.expand({5, 5})));
  CHECK(same((*gm)(ids), expected));
}

TEST_CASE("tensors of traced sizes are made in every run, of sizes of their own") {
  const auto made = [](auto f) {
    const auto gm = check_callable(f, {{x34}, {x54}});
    CHECK_FALSE(has_constant(*gm));
    return gm;
  };
  made([](auto x) { return fxx::zeros({x.size(0), 2}) + 1; });
  made([](auto x) { return x + fxx::ones(x.sizes(), x.options()); });
  made([](auto x) { return fxx::full({x.size(0)}, 0.5, torch::kDouble); });
  made([](auto x) { return x * fxx::arange(x.size(1)); });
  made([](auto x) { return fxx::arange(1, x.size(0) + 1, torch::kLong); });
  made([](auto x) { return fxx::linspace(0, 1, x.size(1)) * x; });
  made([](auto x) { return fxx::eye(x.size(0)).matmul(x); });
  made([](auto x) { return fxx::tril_indices(x.size(0), x.size(1)); });
  made([](auto x) { return fxx::cat({x, fxx::zeros({x.size(0), 1}, x.options())}, 1); });
  made([](auto x) { return x.new_full({x.size(1)}, 3) + zeros_like(x) + fxx::hann_window(x.size(1), false); });
  made([](auto x) { return fxx::zeros({2, 2}, x.options()); });
}

TEST_CASE("tensors of sizes that are known are made once: constants, random ones too") {
  const auto zeros = check_callable([](auto x) { return x + fxx::zeros({3, 4}); }, {{x34}});
  CHECK(has_constant(*zeros));
  CHECK(zeros->attribute("_tensor_constant0").sizes() == at::IntArrayRef({3, 4}));
  CHECK(has_constant(*check_callable([](auto x) { return linear(x, fxx::zeros({5, 4})); }, {{x34}})));
  const auto frozen = symbolic_trace([](auto x) { return x + fxx::rand({3, 4}); });
  CHECK(same((*frozen)(x34), (*frozen)(x34)));
  const auto recorded = symbolic_trace([](auto x) { return x + fxx::rand({3, 4}, x.options()); });
  CHECK_FALSE(same((*recorded)(x34), (*recorded)(x34)));
  torch::manual_seed(3);
  const Tensor once = (*recorded)(x34);
  torch::manual_seed(3);
  CHECK(same((*recorded)(x34), once));
  // A tensor that is used twice is one attribute, an equal one beside it another.
  const Tensor a = torch::ones({4}), b = torch::ones({4});
  const auto shared = check_callable([a, b](auto x) { return (x + a) * a + b; }, {{x34}});
  CHECK(shared->graph().find_nodes(Opcode::get_attr).size() == 2);
  CHECK_FALSE(std::string(shared->graph().find_nodes(Opcode::get_attr)[0]->target()).starts_with("__"));
}

TEST_CASE("dtype, device, layout and the like are arguments as they are") {
  const auto like = check_callable(
      [](auto x) {
        return empty_like(x, torch::TensorOptions().layout(torch::kStrided).pinned_memory(false)).fill_(2);
      },
      {{x34}});
  CHECK(body(*like).starts_with("empty_like = aten::empty_like(%x, layout=torch.strided, pin_memory=False)\n"));
  check_callable([](auto x) { return zeros_like(x, torch::dtype(torch::kLong).device(torch::kCPU)) + x; }, {{x34}});
  check_callable(
      [](auto x) {
        return x.to(torch::kDouble).to(torch::kCPU).to(x.options()).contiguous(torch::MemoryFormat::Contiguous);
      },
      {{x34}});
  check_callable([](auto x) { return x.to(x.device(), torch::kHalf).to(x.scalar_type()).toType(torch::kLong); },
                 {{x34}});
  check_callable([](auto x) { return x.cpu().data() * x.itemsize(); }, {{x34}});
  check_callable(
      [](auto x) { return x.chalf().to(torch::kComplexFloat).abs() + x[1].storage_offset() + x.get_device(); },
      {{x34}});
  check_callable([](auto x) { return x.hash_tensor({0}, true).view(torch::kLong); }, {{x34}});
  const auto gm = symbolic_trace([](auto x) { return fxx::ones({2}, torch::requires_grad()) * x; });
  CHECK(gm->attribute("_tensor_constant0").requires_grad());
}

TEST_CASE("infinities, not a number, complex numbers and 64-bit integers are kept, in the printed code too") {
  static constexpr double infinity = std::numeric_limits<double>::infinity();
  const auto gm = check_callable(
      [](auto x) {
        return fxx::stack({x + infinity, x - infinity, x * std::numeric_limits<double>::quiet_NaN(), x + (-infinity)});
      },
      {{x34}});
  CHECK(gm->code().find("std::numeric_limits<double>::infinity()") != std::string::npos);
  CHECK(gm->code().find("std::numeric_limits<double>::quiet_NaN()") != std::string::npos);
  check_callable([](auto x) { return view_as_real(x * c10::complex<double>(0, 1)); }, {{x34}});
  check_callable([](auto x) { return x.to(torch::kLong) + std::numeric_limits<std::int64_t>::max(); }, {{x34}});
}

TEST_CASE("shifts, bits and integer arithmetic of tensors") {
  const Tensor n = torch::tensor({-3, 5, 1 << 20}, torch::kLong);
  check_callable(
      [](auto x) {
        const auto shifted = bitwise_left_shift(x, 3) + bitwise_right_shift(x, 1);
        return fxx::stack({shifted, x & x, x | (x + 1), x ^ 3, ~x, -x, floor_divide(x, 2), x % 4, add(x, x, 3)});
      },
      {{n}});
}

TEST_CASE("a constant tensor on either side of matmul") {
  const Tensor w = torch::randn({4, 3});
  const auto right = check_callable([w](auto x) { return matmul(x, w); }, {{x34}});
  const auto left = check_callable([w](auto x) { return matmul(w, x); }, {{x34}});
  CHECK(body(*right) ==
        "_tensor_constant0 = attribute _tensor_constant0\nmatmul = aten::matmul(%x, %_tensor_constant0)\nreturn "
        "%matmul\n");
  CHECK(body(*left) ==
        "_tensor_constant0 = attribute _tensor_constant0\nmatmul = aten::matmul(%_tensor_constant0, %x)\nreturn "
        "%matmul\n");
  check_callable([w](auto x) { return w.t() * x + (w.t() - x) / w.t(); }, {{x34}});
}

// --- numbers ---------------------------------------------------------------------------------------------------------

TEST_CASE("functions of sizes compute what C++ computes") {
  using std::abs, std::ceil, std::floor, std::log, std::max, std::min, std::pow, std::round, std::sqrt;
  const auto gm = check_callable(
      [](auto x) {
        const auto n = x.size(0), m = x.size(1);
        const auto mean =
            x / sqrt(static_cast<float>(2)) / sqrt(n) * pow(m, 0.5) + log(n * 1.0) * floor(n * 0.7) - ceil(m / 3.0);
        const auto whole = max(n, m) * min(n, m) - abs(n - m) + n / 2 + n % 3 - round(0.5 * n);
        return mean * whole + x.narrow(0, 0, fxx::math::to_int(n * 0.5)).sum();
      },
      {{x34}, {x54}}, 1e-6);
  CHECK(calls_operator(*gm, ops::math_sqrt));
  const auto folded = symbolic_trace([](auto x) { return x * sqrt(16.0); });
  CHECK(body(*folded) == "mul = aten::mul.Scalar(%x, 4.0)\nreturn %mul\n");
}

TEST_CASE("every function of numbers gives in a graph what it gives in C++") {
  check_callable(
      [](auto x) {
        const auto a = x.size(0) / 8.0, b = x.size(1) / 8.0;
        std::vector<decltype(x)> values = {x * fxx::math::to_int(a * 20)};
        for (const auto& number : {a, a * -3.1}) {
#define FXX_OF_ONE(name, index) values.push_back(fxx::math::name(number) * x);
          FXX_NUMBER_FUNCTIONS(FXX_OF_ONE)
#undef FXX_OF_ONE
#define FXX_OF_TWO(name, index) values.push_back(fxx::math::name(b, number) * x);
          FXX_NUMBER_FUNCTIONS_OF_TWO(FXX_OF_TWO)
#undef FXX_OF_TWO
        }
        return stack(values);
      },
      {{x34}, {x54}});
}

TEST_CASE("whole numbers below zero are divided as C++ divides them: interpreted, planned, built") {
  const auto divided = [](auto x) {
    const auto n = x.size(0) - 10, m = 2 - x.size(1);
    return fxx::stack({x * (n / 4), x * (n % 4), x * (n / -4), x * (n % -4), x * (-7 / x.size(0)), x * (-7 % x.size(0)),
                       x * (n / m), x * (n % m), x * (x.size(0) / 2), x * (x.size(0) % 2), x * (n * 0.5 / 2)});
  };
  const Tensor x14_4 = torch::randn({14, 4});
  const auto gm = check_callable(divided, {{x34}, {x54}, {x14_4}});
  CHECK(count_of(gm->graph(), ops::std_divides) == 4);
  CHECK(count_of(gm->graph(), ops::std_modulus) == 4);
  CHECK(count_of(gm->graph(), ops::operator_floordiv) == 1);
  CHECK(count_of(gm->graph(), ops::operator_mod) == 1);
  const auto compiled = build(*gm, {x34});
  for (const Tensor& x : {x34, x54, x14_4}) CHECK(same((*compiled)(x), divided(x)));
  // A number that is an input may be either; 3 is divided as a whole number, 3.5 is not.
  const auto given = symbolic_trace([](auto x, auto p) { return x * (p / 2); }, concrete_args(PH, PH_NUMBER));
  CHECK(same(given->run({x34, std::int64_t{-3}}).toTensor(), x34 * -1));
  CHECK(same(given->run({x34, -3.5}).toTensor(), x34 * -1.75));
}

TEST_CASE("truths are whole numbers in arithmetic: interpreted, planned, built") {
  const Tensor whole = torch::arange(12).reshape({3, 4});
  const auto check = [&](auto f) {
    const auto gm = check_callable(f, {{whole}, {torch::arange(20).reshape({5, 4})}});
    CHECK(same((*build(*gm, {whole}))(whole), f(whole)));
  };
  check([flag = true](auto x) { return x.view({x.size(0) + flag - 1, -1}); });
  check([](auto x) { return x * ((x.size(0) > 3) + 1); });
  check([](auto x) { return x * (7 / ((x.size(0) > 2) + 1)); });
  for (const bool a : {false, true}) {
    CAPTURE(a);
    const std::int64_t n = a;
    CHECK(call_operator(ops::operator_neg, {a}).toInt() == -n);
    CHECK(call_operator(ops::operator_abs, {a}).toInt() == n);
    CHECK(call_operator(ops::operator_add, {a, a}).toInt() == 2 * n);
    CHECK(call_operator(ops::operator_mod, {-7, a + 1}).toInt() == n);
    CHECK(call_operator(ops::std_divides, {a, -1}).toInt() == -n);
    CHECK(call_operator(ops::builtins_max, {a, -1}).toInt() == n);
    CHECK(call_operator(ops::operator_lt, {a, 1}).toBool() == !a);
  }
}

TEST_CASE("graphs of Python's operators round down, interpreted and built") {
  Graph g;
  Node* x = g.placeholder("x");
  Node* n = g.call_function(ops::operator_sub, {g.call_method("size", {x, 0}), 10});
  std::vector<Argument> results;
  for (const Argument& divisor : {Argument(4), Argument(-4), Argument(g.call_method("size", {x, 1}))})
    for (const Operator* op : {&ops::operator_floordiv.info(), &ops::operator_mod.info()})
      results.push_back(g.call_function(ops::mul_Scalar, {x, g.call_function(*op, {n, divisor})}));
  g.output(g.call_function(ops::stack, {Argument::list(results)}));
  GraphModule gm(std::map<std::string, GraphModule::Attribute>(), std::move(g));
  const Tensor expected = torch::stack({x34 * -2, x34 * 1, x34 * 1, x34 * -3, x34 * -2, x34 * 1});
  CHECK(same(gm(x34), expected));
  CHECK(same((*build(gm, {x34}))(x34), expected));
}

TEST_CASE("real numbers are divided as Python's operators do it: interpreted, planned, built") {
  const double infinite = std::numeric_limits<double>::infinity();
  const struct {
    double a, b, quotient, rest;
  } cases[] = {{1.0, 0.1, 9.0, 0.09999999999999995}, {-7.5, 2.0, -4.0, 0.5}, {7.5, -2.0, -4.0, -0.5},
               {-6.0, 2.0, -3.0, 0.0},               {0.0, -3.0, 0.0, 0.0},  {5.0, infinite, 0.0, 5.0},
               {-5.0, infinite, -1.0, infinite}};
  for (const auto& c : cases) {
    CAPTURE(c.a);
    CAPTURE(c.b);
    CHECK(call_operator(ops::operator_floordiv, {c.a, c.b}).toDouble() == c.quotient);
    CHECK(call_operator(ops::operator_mod, {c.a, c.b}).toDouble() == c.rest);
  }
  Graph g;
  Node* x = g.placeholder("x");
  Node* n = g.call_function(ops::operator_sub, {g.call_method("size", {x, 0}), 10});
  std::vector<Argument> results;
  for (const double divisor : {0.1, -0.3, 2.5})
    for (const Operator* op : {&ops::operator_floordiv.info(), &ops::operator_mod.info()})
      results.push_back(g.call_function(ops::mul_Scalar, {x, g.call_function(*op, {n, divisor})}));
  g.output(g.call_function(ops::stack, {Argument::list(results)}));
  GraphModule gm(std::map<std::string, GraphModule::Attribute>(), std::move(g));
  const auto compiled = build(gm, {x34});
  const Tensor x11_4 = torch::randn({11, 4});
  // 1 // 0.1, 1 % 0.1 and so on; -7 // 0.1 and so on.
  const double of_1[] = {9, 0.09999999999999995, -4, -0.19999999999999996, 0, 1};
  const double of_minus_7[] = {-70, 3.885780586188048e-16, 23, -0.10000000000000026, -3, 0.5};
  for (const Tensor& input : {x11_4, x34}) {
    std::vector<Tensor> expected;
    for (const double number : input.size(0) == 11 ? of_1 : of_minus_7) expected.push_back(input * number);
    CHECK(same(gm(input), torch::stack(expected)));
    CHECK(same((*compiled)(input), torch::stack(expected)));
    CHECK(same(Interpreter(gm).run({input}).toTensor(), torch::stack(expected)));
  }
}

TEST_CASE("division that has no result is refused when the graph runs") {
  const auto smallest = std::numeric_limits<std::int64_t>::min();
  for (const Operator* op : {&ops::operator_floordiv.info(), &ops::operator_mod.info(), &ops::std_divides.info(),
                             &ops::std_modulus.info()}) {
    CAPTURE(op->name);
    const auto refused = [&](std::int64_t a, std::int64_t b, std::string_view words) {
      const auto fault = fault_of<RunError>([&] { call_operator(*op, {a, b}); });
      return fault.id == static_cast<int>(ErrorId::run_failed) && fault.says(words);
    };
    CHECK(refused(-5, 0, "division of -5 by zero"));
    CHECK(refused(smallest, -1, "division of -9223372036854775808 by -1"));
    CHECK(call_operator(*op, {smallest + 1, std::int64_t{-1}}).toInt() ==
          (op->base_name().starts_with("mod") ? 0 : std::numeric_limits<std::int64_t>::max()));
  }
}

// --- checks ----------------------------------------------------------------------------------------------------------

namespace {
struct CheckedImpl : torch::nn::Module {
  template <class T>
  T forward(T x) {
    fxx::check(x.size(1) == 4, "four columns");
    fxx::check((x > -100).all(), "no such\nnumber");
    fxx::check(x.dim() == 2);
    return x * 2;
  }
};
}  // namespace

TEST_CASE("checks fail with their message when the graph runs: interpreted, planned, built, and in the code") {
  CheckedImpl net;
  const auto gm = check_module(net, {{x34}, {x54}});
  const auto compiled = build(*gm, {x34});
  const Tensor narrow = torch::randn({3, 3}), low = torch::full({3, 4}, -200.0);
  const auto refused = [&](auto&& run, const char* message) {
    CAPTURE(message);
    CHECK_THROWS_WITH_AS(run(), doctest::Contains(message), c10::Error);
  };
  for (GraphModule* module : {gm.get(), static_cast<GraphModule*>(compiled.get())}) {
    CHECK(same((*module)(x54), x54 * 2));
    refused([&] { (*module)(narrow); }, "four columns");
    refused([&] { (*module)(low); }, "no such\nnumber");
    refused([&] { Interpreter(*module).run({narrow}); }, "four columns");
    CHECK_THROWS_AS((*module)(torch::randn({2, 4, 4})), c10::Error);  // the check without a message
  }
  refused([&] { net.forward(narrow); }, "four columns");
  refused([&] { net.forward(low); }, "no such\nnumber");
  CHECK(gm->code().find("TORCH_CHECK(eq, \"four columns\")") != std::string::npos);
  // TORCH_CHECK itself, and assert, ask for a bool.
  const auto plain = fault_of<TraceError>([] {
    symbolic_trace([](auto x) {
      TORCH_CHECK(x.size(1) == 4, "four columns");
      return x;
    });
  });
  CHECK(plain.id == 301);
}

// --- indices ---------------------------------------------------------------------------------------------------------

TEST_CASE("a tensor of C++ becomes a value of the trace, so that traced numbers may cut it") {
  using fxx::indexing::Slice, fxx::indexing::None;
  const Tensor positions = torch::randn({9, 4});
  const auto gm = check_callable(
      [&]<class T>(T x) {
        const auto n = x.size(0);
        return x + T(positions).index({Slice(None, n)}) + T(positions).narrow(0, 1, n);
      },
      {{x34}, {x54}});
  CHECK(gm->graph().find_nodes(Opcode::get_attr).size() == 1);
  CHECK(same((*symbolic_trace([&](Proxy x) { return x + positions.index({Slice(None, 3)}); }))(x34),
             x34 + positions.slice(0, 0, 3)));
  CHECK_FALSE(Proxy(Tensor()).defined());
  CHECK(fault_of<TraceError>([&] { (void)Proxy(positions); }).id == 308);
  const auto fault = fault_of<TraceError>(
      [&] { (void)symbolic_trace([&](Proxy x) { return x + positions.index({Slice(None, x.size(0))}); }); });
  CHECK(fault.id == 305);
  CHECK(fault.says("T(tensor).index"));
}

TEST_CASE("indices of torch::indexing and of fxx::indexing, read") {
  using fxx::indexing::Slice, fxx::indexing::None, fxx::indexing::Ellipsis;
  const Tensor rows = torch::tensor({2, 0}), mask = torch::tensor({true, false, true, false});
  check_callable([](auto x) { return x.index({Slice(1, None), 0}); }, {{x34}});
  check_callable([](auto x) { return x.index({"...", Slice(None, None, 2)}); }, {{x34}});
  check_callable([](auto x) { return x.index({None, Ellipsis, -1}); }, {{x34}});
  check_callable([](auto x) { return x.index({torch::indexing::Slice(0, 2), torch::indexing::Slice(1)}); }, {{x34}});
  check_callable([rows](auto x) { return x.index({rows}); }, {{x34}});
  check_callable(
      [rows, mask](auto x) {
        return x.index({Slice(), mask}).sum() + x.index({rows, torch::indexing::Slice()});
      },
      {{x34}});
  check_callable([](auto x) { return x.index({Slice(0, x.size(0) - 1), Slice(x.size(1) - 2, None)}); }, {{x34}, {x54}});
  check_callable([](auto x) { return x[0] + x[-1]; }, {{x34}, {x54}});
  check_callable(
      [](auto x) {
        return x.index({torch::indexing::TensorIndex(1), torch::indexing::TensorIndex(torch::indexing::Slice(1, 3))});
      },
      {{x34}});
}

TEST_CASE("parts are written in place as LibTorch writes them") {
  using fxx::indexing::Slice, fxx::indexing::None, fxx::indexing::Ellipsis;
  const Tensor rows = torch::tensor({2, 0}), columns = torch::tensor({1, 3}), value = torch::randn({2});
  const auto wrote = [](auto f) { return check_callable(f, {{x34}}); };
  wrote([](auto x) {
    auto y = x.clone();
    y.index_put_({Slice(1, 3), 0}, 7.5);
    return y;
  });
  wrote([](auto x) {
    auto y = x.clone();
    y.index_put_({Slice(), Slice(1, 3)}, x.index({Slice(), Slice(0, 2)}));
    return y;
  });
  wrote([rows](auto x) {
    auto y = x.clone();
    y.index_put_({rows}, 2);
    return y;
  });
  wrote([rows, columns, value](auto x) {
    auto y = x.clone();
    y.index_put_({rows, columns}, value);
    return y;
  });
  wrote([columns](auto x) {
    auto y = x.clone();
    y.index_put_({1, columns}, 2.5);
    return y;
  });
  wrote([columns](auto x) {
    auto y = x.clone();
    y.index_put_({Slice(0, 2), columns}, x.index({Slice(1, 3), Slice(0, 2)}));
    return y;
  });
  wrote([](auto x) {
    auto y = x.clone();
    y[0] = x[1];
    y[1] = 3;
    y[2] += 1;
    y.index({Slice(), 0}) = x.index({Slice(), 1});
    return y;
  });
  wrote([](auto x) {
    auto y = x.clone();
    y.index_put_({x > 0}, 0);
    return y;
  });
  // A mask is for as many dimensions as it has, none for one of none.
  const Tensor x235 = torch::randn({2, 3, 5}), mask = torch::arange(6).view({2, 3}).ne(4),
               behind = torch::arange(15).view({3, 5}).ne(4), whole = torch::tensor(true);
  const auto wrote_behind = [&](auto f) { return check_callable(f, {{x235}}); };
  wrote_behind([mask](auto x) {
    auto y = x.clone();
    y.index_put_({mask, Slice(0, 3)}, 1);
    return y;
  });
  wrote_behind([mask](auto x) {
    auto y = x.clone();
    y.index_put_({mask, 0}, 1);
    return y;
  });
  wrote_behind([behind](auto x) {
    auto y = x.clone().unsqueeze(-1);
    y.index_put_({Slice(), behind, 0}, 1);
    return y;
  });
  wrote_behind([whole](auto x) {
    auto y = x.clone();
    y.index_put_({whole, 0}, 1);
    return y;
  });
}

TEST_CASE("lists are unpacked and indexed, in a trace and outside") {
  check_callable(
      [](auto x) {
        auto [a, b] = fxx::unpack<2>(x.chunk(2, 1));
        return a * b;
      },
      {{x34}});
  check_callable(
      [](auto x) {
        auto [a, b, c] = fxx::unpack<3>(x);
        return a * b - c;
      },
      {{x34}});
  check_callable(
      [](auto x) {
        auto [values, indices] = topk(x, 2);
        return values * indices;
      },
      {{x34}});
  const auto pair = check_callable(
      [](auto x) {
        auto [values, indices] = max(x, 0);
        return values + indices;
      },
      {{x34}});
  CHECK(count_of(pair->graph(), ops::operator_getitem) == 2);
}

// --- functions of the user's -----------------------------------------------------------------------------------------

TEST_CASE("a wrapped function runs at once on tensors and is one node of proxies; wrapping twice is harmless") {
  CHECK(geometry::rows_of(x54) == 5);
  CHECK(&geometry::rows_of.target() == &geometry::rows_again.target());
  const auto gm = check_callable(
      [](auto x) {
        const auto product = x * geometry::rows_of(x);
        return product + geometry::rows_again(x);
      },
      {{x34}, {x54}});
  CHECK(body(*gm) ==
        "rows = geometry::rows(%x)\nmul = aten::mul.Scalar(%x, %rows)\nrows_1 = geometry::rows(%x)\nadd = "
        "aten::add.Scalar(%mul, %rows_1)\nreturn %add\n");
  CHECK(gm->code().find("::geometry::rows(x)") != std::string::npos);
  // Constants only: computed while tracing, once.
  const Tensor c = torch::ones({4});
  const int before = geometry::calls;
  const auto constant = symbolic_trace([c](auto x) { return x + geometry::doubled(c); });
  CHECK(geometry::calls == before + 1);
  CHECK(
      body(*constant) ==
      "_tensor_constant0 = attribute _tensor_constant0\nadd = aten::add.Tensor(%x, %_tensor_constant0)\nreturn %add\n");
  CHECK(same((*constant)(x34), x34 + 2));
  CHECK(geometry::calls == before + 1);
}

TEST_CASE("impure functions stay though nobody uses them") {
  auto gm = symbolic_trace([](auto x) {
    geometry::announce(x, "seen");
    geometry::doubled(x);
    return x;
  });
  eliminate_dead_code(gm->graph());
  CHECK(body(*gm) == "announce = geometry::announce(%x, 'seen')\nreturn %x\n");
  const int before = geometry::calls;
  (*gm)(x34);
  CHECK(geometry::calls == before + 1);
}

TEST_CASE("results that are tuples, lists and numbers, nested, are taken apart") {
  check_callable(
      [](auto x) {
        const auto [sum, both, n] = geometry::parts(x);
        return sum + both[0] * both[1] + n;
      },
      {{x34}, {x54}});
}

TEST_CASE("arguments that are lists, maps, optionals, pairs and tuples of proxies") {
  const auto gm = check_callable(
      [](auto x) {
        using T = decltype(x);
        return geometry::joined(std::vector<T>{x, x * 2}, std::map<std::string, T>{{"ab", x}}, std::optional<T>(x),
                                std::make_pair(x, std::int64_t(3))) +
               geometry::joined(std::vector<T>{}, std::map<std::string, T>{}, std::optional<T>(),
                                std::pair<T, std::int64_t>(x, 2)) +
               geometry::sum_of(std::make_tuple(x, x));
      },
      {{x34}});
  CHECK(gm->code().find("std::map<std::string, torch::Tensor>{{\"ab\", x}}") != std::string::npos);
}

TEST_CASE("tensors of C++ stand beside proxies, in arguments and results") {
  const Tensor w = torch::randn({4}), v = torch::randn({4});
  const auto gm = check_callable(
      [w, v](auto x) {
        return std::make_tuple(geometry::sum_of(std::make_tuple(x, w)), w, std::vector<Tensor>{v, w});
      },
      {{x34}});
  CHECK(body(*gm) ==
        "_tensor_constant0 = attribute _tensor_constant0\nsum_of = geometry::sum_of((%x, %_tensor_constant0))\n"
        "_tensor_constant1 = attribute _tensor_constant1\n"
        "return (%sum_of, %_tensor_constant0, [%_tensor_constant1, %_tensor_constant0])\n");
}

TEST_CASE("a class of the user's is built, passed on and used in a graph; an enum stays one") {
  const auto gm = check_callable(
      [](auto x) { return geometry::area(geometry::make_box(x, 0.5), geometry::Shape::square); }, {{x34}});
  CHECK(body(*gm) ==
        "box = geometry::Box(%x, 0.5)\narea = geometry::area(%box, enum('geometry::Shape', 'square', 1))\nreturn "
        "%area\n");
  CHECK(gm->code().find("::geometry::Box(x, 0.5)") != std::string::npos);
  CHECK(gm->code().find("geometry::Shape::square") != std::string::npos);
  CHECK(geometry::make_box(x34, 2.0).size == 2);
  // An object as an input.
  const auto given = symbolic_trace([](auto box) { return geometry::area(box, geometry::Shape::round); });
  CHECK(same(given->run({box(geometry::Box{x34, 1})}).toTensor(), x34 * 3));
  const auto fault = fault_of<RunError>([&] { (void)given->run({x34}); });
  CHECK(fault.id == 701);
  CHECK(fault.says("geometry::Box"));
}

TEST_CASE("an object with fx_create_arg says what it is in the graph") {
  const auto gm = symbolic_trace([](auto x) { return geometry::sum_of(geometry::Pair<Proxy>{x, relu(x)}); });
  CHECK(body(*gm) == "relu = aten::relu(%x)\nsum_of = geometry::sum_of((%x, %relu))\nreturn %sum_of\n");
  CHECK(same((*gm)(x34), x34 + x34.relu()));
}

TEST_CASE("a member function of an input") {
  const auto gm = symbolic_trace([](auto scale, auto x) { return geometry::scaled(scale, x); }, {"scale", "x"});
  CHECK(same(gm->run({box(geometry::Scale{3}), x34}).toTensor(), x34 * 3));
}

TEST_CASE("operators as functions, those of the user's own among them") {
  check_callable([](auto x) { return geometry::sigmoid(x); }, {{x34}});
  check_callable([](auto x) { return geometry::cat(std::vector{x, x}, 1); }, {{x34}});
  check_callable([](auto x) { return geometry::cat(std::make_tuple(x, x)); }, {{x34}});
  check_callable(
      [](auto x) {
        auto [values, indices] = geometry::topk(x, 2);
        return values * indices;
      },
      {{x34}});
  const auto gm = check_callable([](auto x) { return geometry::narrow(x, 1, 0, 2); }, {{x34}});
  CHECK(body(*gm) == "narrow = aten::narrow(%x, 1, 0, 2)\nreturn %narrow\n");
}

namespace {
struct PassingImpl : torch::nn::Module {
  fxx::nn::Linear fc = register_module("fc", fxx::nn::Linear(4, 4));
  torch::nn::ReLU act = register_module("act", torch::nn::ReLU());
  template <class T>
  T forward(T x) {
    return geometry::through(fc, *act, std::shared_ptr<torch::nn::Module>(fc.ptr()), x);
  }
};
}  // namespace

TEST_CASE("a module is passed to a function, as an attribute of the graph") {
  PassingImpl net;
  const auto gm = check_module(net, {{x34}});
  CHECK(body(*gm) ==
        "fc = attribute fc\nact = attribute act\nfc_1 = attribute fc\nthrough = geometry::through(%fc, %act, %fc_1, "
        "%x)\nreturn %through\n");
  CHECK(gm->submodule("fc").get() == net.fc.get());
  const auto compiled = build(*gm, {x34});
  CHECK(same((*compiled)(x54), net.forward(x54)));
}

namespace {
/// What the guide of torch.fx calls a simple module: parameters, a nested module, `.data`, arithmetic of all kinds.
struct OverviewImpl : torch::nn::Module {
  struct InnerImpl : torch::nn::Module {
    fxx::nn::Linear fc = register_module("fc", fxx::nn::Linear(4, 4));
    Tensor scale = torch::randn({4});  // a member that is not registered
    auto forward(const auto& x) { return sigmoid(fc(x)) * scale; }
  };
  std::shared_ptr<InnerImpl> inner = register_module("inner", std::make_shared<InnerImpl>());
  Tensor a = register_parameter("a", torch::rand({4}));
  Tensor b = register_parameter("b", torch::rand({4}) + 1);
  template <class T>
  T operator()(T x) {
    return relu(x);
  }
  template <class T>
  T forward(T x) {
    const T y = inner->forward(x);
    const T z = add(-y + a.data(), b, 3) - floor_divide(x.detach(), b.detach()) % 2;
    return (*this)(z) / a - 1;
  }
};

struct ScriptedImpl : torch::nn::Module {
  fxx::nn::Script script;
  explicit ScriptedImpl(const torch::jit::Module& module) : script(module) { register_module("script", script); }
  template <class T>
  T forward(T x) {
    return relu(script(x));
  }
};

struct BoxReaderImpl : torch::nn::Module {
  Tensor forward(const geometry::Box& box) { return box.corner * box.size; }
};
TORCH_MODULE(BoxReader);
struct FramedImpl : torch::nn::Module {
  fxx::nn::leaf<BoxReader> reader = register_module("reader", fxx::nn::leaf<BoxReader>());
  template <class T>
  T forward(T x) {
    return reader(geometry::Corner<T>{x});
  }
};

struct DictReaderImpl : torch::nn::Module {
  Tensor forward(std::map<std::int64_t, Tensor> rows, std::optional<double> factor) {
    return (rows.at(3) + rows.at(7)) * factor.value_or(1);
  }
};
TORCH_MODULE(DictReader);
struct ReadingImpl : torch::nn::Module {
  fxx::nn::leaf<DictReader> reader = register_module("reader", fxx::nn::leaf<DictReader>());
  template <class T>
  T forward(T x) {
    return reader(std::map<std::int64_t, T>{{3, x}, {7, x * 2}}, std::optional<double>(0.5)) +
           reader(std::map<std::int64_t, T>{{3, x}, {7, x}}, std::nullopt);
  }
};
}  // namespace

namespace {
/// Tensors that are left out, as LibTorch's users do it.
struct LeftOutImpl : torch::nn::Module {
  fxx::nn::MultiheadAttention attention = register_module("attention", fxx::nn::MultiheadAttention(4, 2));
  Tensor weight = register_parameter("weight", torch::randn({4, 4}));
  Tensor bias;  // undefined: this one has none
  template <class T>
  T attend(const T& x, const T& mask = {}) {
    auto [out, weights] = attention(x, x, x, T(), true, mask);
    return out + weights.sum();
  }
  template <class T>
  T forward(T x) {
    T mask;
    std::vector<T> parts(2);
    parts[0] = attend(x.unsqueeze(1), mask);
    if (!mask.defined()) mask = full_like(x.size(0) * eye_like(x), 0.5);
    parts[1] = attend(x.unsqueeze(1), mask);
    return fxx::nn::functional::linear(parts[0] + parts[1], weight, bias) + linear(x, weight, T()) +
           linear(x, weight, Tensor());
  }
  template <class T>
  static T eye_like(const T& x) {
    return matmul(x, x.t());
  }
};
}  // namespace

TEST_CASE("undefined tensors stand for arguments that are left out") {
  LeftOutImpl net;
  const auto gm = check_module(net, {{x34}, {x54}}, 1e-6);
  CHECK(body(*gm).find("attention(%unsqueeze, %unsqueeze, %unsqueeze, None, True, None)") != std::string::npos);
  const auto compiled = build(*gm, {x34});
  CHECK(difference((*compiled)(x54), net.forward(x54)) <= 1e-6);
}

TEST_CASE("parameters, members that are not registered, operators of a module's own, arithmetic of all kinds") {
  OverviewImpl net;
  const auto gm = check_module(net, {{x34}, {x54}}, 1e-6);
  CHECK(gm->named_parameters().contains("a"));
  CHECK(has_constant(*gm));
}

TEST_CASE("a module of TorchScript is a submodule and one node") {
  torch::jit::Module script("Scaler");
  script.register_attribute("training", c10::BoolType::get(), true);
  script.register_parameter("weight", torch::randn({4}), false);
  script.register_buffer("shift", torch::randn({4}));
  script.define("def forward(self, x):\n    return x * self.weight + self.shift\n");
  ScriptedImpl net(script);
  CHECK(net.named_parameters().contains("script.weight"));
  CHECK(net.named_buffers().contains("script.shift"));
  const auto gm = check_module(net, {{x34}});
  CHECK(body(*gm) == "script = script(%x)\nrelu = aten::relu(%script)\nreturn %relu\n");
  net.eval();
  CHECK_FALSE(net.script->script().is_training());
  const torch::NoGradGuard no_grad;
  net.script->parameters()[0].fill_(2);
  CHECK(same((*gm)(x34), torch::relu(x34 * 2 + net.script->buffers()[0])));
  const auto copy = std::dynamic_pointer_cast<fxx::nn::ScriptImpl>(net.script->clone());
  net.script->parameters()[0].fill_(3);
  CHECK(same(copy->run({x34}).toTensor(), x34 * 2 + net.script->buffers()[0]));
}

TEST_CASE("a module takes maps with numbers as keys, and optionals") {
  ReadingImpl net;
  const auto gm = check_module(net, {{x34}});
  CHECK(body(*gm).find("reader({3: %x, 7: %mul}, 0.5)") != std::string::npos);
  CHECK(body(*gm).find("reader({3: %x, 7: %x}, None)") != std::string::npos);
}

TEST_CASE("a module takes an object that says how it is built") {
  FramedImpl net;
  const auto gm = check_module(net, {{x34}});
  CHECK(body(*gm) == "box = geometry::Box(%x, 0.5)\nreader = reader(%box)\nreturn %reader\n");
  CHECK(gm->code().find("auto box = ::geometry::Box(x, 0.5);") != std::string::npos);
}

TEST_CASE("inputs that are dictionaries are indexed by key; results are dictionaries") {
  const auto gm = symbolic_trace([](Proxy d) {
    return std::map<std::string, Proxy>{{"sum", d["a"] + d["b"]}, {"a", d["a"]}};
  });
  c10::impl::GenericDict in(c10::StringType::get(), c10::TensorType::get());
  in.insert("a", x34);
  in.insert("b", x34 * 2);
  const auto out = gm->run({in}).toGenericDict();
  CHECK(same(out.at("sum").toTensor(), x34 * 3));
  CHECK(same(out.at("a").toTensor(), x34));
  // A new one beside a tensor.
  const auto mixed = symbolic_trace([](Proxy d) {
    return std::make_tuple(d["a"], std::map<std::string, Proxy>{{"twice", d["b"] * 2}});
  });
  const auto [a, made] = mixed->call<std::tuple<Tensor, std::map<std::string, Tensor>>>(in);
  CHECK(same(a, x34));
  CHECK(made.size() == 1);
  CHECK(same(made.at("twice"), x34 * 4));
  CHECK(mixed->code().find("std::map<std::string, torch::Tensor>{{\"twice\", mul}}") != std::string::npos);
}

namespace {
/// A class that is bound to TorchScript.
struct Mixer : torch::CustomClassHolder {
  double share;
  explicit Mixer(double s) : share(s) {}
  Tensor mix(const Tensor& a, const Tensor& b) const { return a * share + b * (1 - share); }
};

/// Objects as members.
struct MixingImpl : torch::nn::Module {
  fxx::nn::ScriptObject mixer;
  explicit MixingImpl(c10::intrusive_ptr<Mixer> given) : mixer(std::move(given)) { register_module("mixer", mixer); }
  template <class T>
  T forward(T x) {
    return relu(mixer.call("mix", x, x * 2));
  }
};

/// A functional dropout beside the module.
struct DroppingImpl : torch::nn::Module {
  fxx::nn::Dropout drop = register_module("drop", fxx::nn::Dropout(0.5));
  template <class T>
  T forward(T x) {
    const T dropped = drop(x);  // operands of + are evaluated in any order
    return dropped + dropout(x, 0.5, is_training());
  }
};
}  // namespace

namespace {
void bind_mixer() {
  static const auto bound =
      torch::class_<Mixer>("fxx_symbolic", "Mixer")
          .def(torch::init<double>())
          .def("mix", &Mixer::mix)
          .def("__call__", [](const c10::intrusive_ptr<Mixer>& self, const Tensor& x) { return x * self->share; });
}
}  // namespace

TEST_CASE("methods of a class that is bound to TorchScript are called by name") {
  bind_mixer();
  const auto gm = symbolic_trace([](auto mixer, auto x) { return relu(mixer.call("mix", x, x * 2)); }, {"mixer", "x"});
  CHECK(body(*gm) ==
        "mul = aten::mul.Scalar(%x, 2)\nmix = .mix(%mixer, %x, %mul)\nrelu = aten::relu(%mix)\nreturn %relu\n");
  const auto mixer = c10::make_intrusive<Mixer>(0.25);
  CHECK(same(gm->run({mixer, x34}).toTensor(), torch::relu(mixer->mix(x34, x34 * 2))));
  // An object that is called itself.
  const auto called = symbolic_trace([](auto object, auto x) { return object(x) + 1; }, {"object", "x"});
  CHECK(body(*called) == "call = .__call__(%object, %x)\nadd = aten::add.Scalar(%call, 1)\nreturn %add\n");
  CHECK(same(called->run({mixer, x34}).toTensor(), x34 * 0.25 + 1));
}

TEST_CASE("an object that is a member is read by its name, and its methods are called") {
  bind_mixer();
  const auto mixer = c10::make_intrusive<Mixer>(0.25);
  MixingImpl net(mixer);
  const auto gm = symbolic_trace(net);
  CHECK(body(*gm) ==
        "mul = aten::mul.Scalar(%x, 2)\nmixer = attribute mixer\nmix = .mix(%mixer, %x, %mul)\nrelu = "
        "aten::relu(%mix)\nreturn %relu\n");
  CHECK(same((*gm)(x34), net.forward(x34)));
  CHECK(same(net.forward(x34), torch::relu(mixer->mix(x34, x34 * 2))));
  const auto copy = std::dynamic_pointer_cast<GraphModule>(gm->clone());
  mixer->share = 0.75;  // copies are of the same object
  for (const auto& graph_module : {gm, copy}) {
    CHECK(same((*graph_module)(x34), net.forward(x34)));
    CHECK(same(Interpreter(*graph_module).run({x34}).toTensor(), net.forward(x34)));
  }
  // At the dispatcher, methods are traced through.
  const auto through = trace([&](Tensor x) { return net.forward(x); }, {x34});
  CHECK(same((*through)(x34), net.forward(x34)));
  CHECK_THROWS_AS(net.mixer.call("stir", x34), RunError);
  CHECK_THROWS_AS(fxx::nn::ScriptObject(c10::IValue(3)), RunError);
}

TEST_CASE("the flag of a functional dropout is the one while tracing; a Dropout module follows train and eval") {
  DroppingImpl net;
  for (const bool traced_in_training : {true, false}) {
    CAPTURE(traced_in_training);
    net.train(traced_in_training);
    const auto gm = symbolic_trace(net);
    CHECK(body(*gm) == std::string("drop = drop(%x)\ndropout = aten::dropout(%x, 0.5, ") +
                           (traced_in_training ? "True" : "False") +
                           ")\nadd = aten::add.Tensor(%drop, %dropout)\nreturn %add\n");
    const Tensor ones = torch::ones({1000});
    gm->train();
    CHECK_FALSE(same((*gm)(ones), ones * 2));  // the module drops
    gm->eval();
    CHECK(same((*gm)(ones), ones * 2) == !traced_in_training);  // the function drops when it was traced so
  }
}

TEST_CASE("methods of objects of TorchScript are called by name") {
  torch::jit::Module script("Scaler");
  script.define("def forward(self, x):\n    return x * 2\ndef shift(self, x, by: float):\n    return x + by\n");
  const auto gm = symbolic_trace(
      [](auto object, auto x) {
        const auto shifted = object.call("shift", x, 0.5);
        return shifted + object.call("forward", x);
      },
      {"object", "x"});
  CHECK(body(*gm) ==
        "shift = .shift(%object, %x, 0.5)\nforward_1 = .forward(%object, %x)\nadd = aten::add.Tensor(%shift, "
        "%forward_1)\nreturn %add\n");
  CHECK(same(gm->run({script._ivalue(), x34}).toTensor(), x34 + 0.5 + x34 * 2));
}
