// Specialised modules: functions element by element, over sizes that fill no vector, strides, nan and infinity; beside
// LibTorch in double precision.
#include <sys/resource.h>

#include <array>
#include <random>

#include "torch/compile/compiled.hpp"

using namespace fxx;
using namespace fxx::test;
namespace F = torch::nn::functional;

namespace {

Tensors pointwise_of_one(const Tensor& x) {
  const Tensor y = x.abs() + 0.5, unit = x.tanh() * 0.9;
  return {x.neg(),
          x.abs(),
          x.square(),
          y.sqrt(),
          y.reciprocal(),
          y.rsqrt(),
          x.exp(),
          x.expm1(),
          y.log(),
          x.erf(),
          x.tanh(),
          x.sigmoid(),
          x.relu(),
          F::silu(x),
          torch::hardsigmoid(x),
          torch::hardswish(x),
          F::mish(x),
          torch::log_sigmoid(x),
          torch::leaky_relu(x, 0.2),
          F::softplus(x),
          x.sin(),
          x.cos(),
          unit.tan(),
          unit.asin(),
          unit.acos(),
          x.atan(),
          x.sinh(),
          x.cosh(),
          x.asinh(),
          (y + 1).acosh(),
          unit.atanh(),
          x.exp2(),
          y.log2(),
          y.log10(),
          y.log1p(),
          x.erfc(),
          (x * 7).round(),
          (x * 7).floor(),
          (x * 7).ceil(),
          (x * 7).trunc(),
          x.sign(),
          torch::selu(x),
          torch::celu(x, 1.5),
          torch::elu(x, 0.7),
          torch::gelu(x),
          torch::gelu(x, "tanh"),
          torch::relu6(x * 4),
          torch::hardtanh(x, -0.5, 0.75),
          x.clamp(-0.3, 0.4),
          x.clamp_min(0.1),
          x.clamp_max(0.2),
          x.pow(2),
          x.pow(3),
          y.pow(-2),
          y.pow(0.5),
          y.pow(-0.5),
          y.pow(-1),
          x.pow(4),
          y.pow(1)};
}
Tensors pointwise_of_two(const Tensor& x, const Tensor& y) {
  const Tensor positive = y.abs() + 0.5;
  return {x + y,
          torch::add(x, y, 2.5),
          x - y,
          torch::sub(x, y, -3),
          torch::rsub(x, y, 2),
          torch::rsub(x, 1.5, 2),
          x * y,
          x / positive,
          x * 3,
          2 / positive,
          x + 1,
          1 - x,
          torch::maximum(x, y),
          torch::minimum(x, y),
          torch::max(x, y),
          torch::min(x, y),
          positive.pow(x),
          torch::atan2(x, positive),
          torch::fmod(x * 5, positive),
          torch::fmod(x * 5, 1.5),
          torch::remainder(x * 5, positive),
          torch::remainder(x * 5, -1.5),
          torch::floor_divide(x * 5, positive),
          torch::where(x > y, x, y * 2),
          torch::where(x < 0.1, x, torch::full({}, 2., x.options())),
          x.masked_fill((x >= y) | (y < 0), 3),
          x.masked_fill(~((x <= y) & (y > 0)), -infinite),
          torch::clamp(x, y.minimum(x * 0.5), y),
          x.clamp_min(y),
          x.clamp_max(y),
          (x == y),
          (x != y),
          (x <= 0.5) ^ (y >= 0.25),
          torch::logical_not(x < y),
          x.eq(0),
          x.ne(0),
          ((x > y).to(x.scalar_type()) + 1) * y};
}

TEST_CASE("functions of one element, over sizes that fill no vector, and other strides") {
  torch::manual_seed(1);
  for (const std::vector<std::int64_t>& sizes : std::vector<std::vector<std::int64_t>>{{7, 19}, {1}}) {
    const Tensor x = torch::randn(sizes), z = torch::randn(sizes);
    check([](const Tensors& in) { return all_of(pointwise_of_one(in[0])); }, {x},
          {.more = {{z}, {transposed_copy(z)}, {sliced_copy(z)}, {torch::randn({1}).expand(sizes)}}});
  }
}
TEST_CASE("functions of two elements: of other sizes, numbers, and strides that they were compiled for") {
  torch::manual_seed(2);
  const Forward f = [](const Tensors& in) {
    Tensors results = pointwise_of_two(in[0], in[1]);
    for (const Tensor& t : pointwise_of_two(in[2], in[1])) results.push_back(t);
    for (const Tensor& t : pointwise_of_two(in[0], in[3])) results.push_back(t);
    results.push_back(in[2] + in[3]);
    results.push_back(in[0].t() > in[1].t());
    results.push_back((in[0].t() * in[1].t()).exp());
    results.push_back(in[0].t() * 2 + in[4]);
    return all_of(results);
  };
  const Tensor x = torch::randn({5, 17}), y = torch::randn({5, 17});
  y[2] = x[2];
  y[3][4] = 0;
  const Tensor row = torch::randn({17}), column = torch::randn({5, 1}), wide = torch::randn({3, 17, 5});
  check(
      f, {x, y, row, column, wide},
      {.more = {{transposed_copy(y), sliced_copy(x), row, column, wide.transpose(0, 1).contiguous().transpose(0, 1)}}});
  check(f, {transposed_copy(x), y, sliced_copy(row), column, sliced_copy(wide)});
}
TEST_CASE("nan and infinity pass through functions, softmax, sums and pooling") {
  torch::manual_seed(3);
  Tensor x = torch::randn({3, 5, 9, 7}), y = torch::randn({3, 5, 9, 7});
  x[0][1][2][3] = not_a_number;
  x[0][2][4][4] = infinite;
  x[1][0][0][0] = -infinite;
  y[0][0][1][1] = not_a_number;
  y[2][2][2][2] = infinite;
  check(
      [](const Tensors& in) {
        const Tensor &x = in[0], &y = in[1];
        return all_of({x.relu(),
                       x + y,
                       torch::maximum(x, y),
                       torch::minimum(x, y),
                       x.clamp(-1, 1),
                       torch::relu6(x),
                       x.clamp_min(0.5),
                       x.isnan(),
                       x.isinf(),
                       x.isfinite(),
                       x > y,
                       x == x,
                       x != x,
                       x.sigmoid(),
                       x.tanh(),
                       torch::gelu(x.clamp_max(9)),  // of infinity nan in float32, by oneDNN, and not in float64
                       x.exp(),
                       F::silu(x),
                       torch::hardtanh(x),
                       torch::hardswish(x),
                       x.softmax(-1),
                       x.log_softmax(1),
                       x.sum(-1),
                       x.mean({2, 3}),
                       x.amax({1}),
                       x.sign(),
                       torch::max_pool2d(x, {2, 2}),
                       torch::max_pool2d(x, {3, 3}, {2, 2}, {1, 1}),
                       torch::avg_pool2d(x, {2, 2}),
                       torch::adaptive_avg_pool2d(x, {1, 1}),
                       torch::hardsigmoid(x),
                       torch::leaky_relu(x, 0.1),
                       F::softplus(x),
                       x.round(),
                       x.floor(),
                       torch::elu(x),
                       torch::where(x > 0, x, y),
                       x.abs(),
                       x.reciprocal()});
      },
      {x, y});
}

/// A chain of so many operators that keep what they get near 1: of one tensor, or with another, or with a value that was
/// read before.
Tensor chain_of(int operators, unsigned seed, const Tensor& x, const Tensor& y) {
  std::mt19937 drawn(seed);
  const auto number = [&](double from, double to) {
    return from + (to - from) * static_cast<double>(drawn() % 1000) / 1000;
  };
  Tensor v = x, before = x;
  for (int i = 0; i < operators; ++i) {
    const Tensor last = v;
    switch (drawn() % 16) {
      case 0: v = v.tanh(); break;
      case 1: v = v.sigmoid(); break;
      case 2: v = v * number(-1, 1); break;
      case 3: v = v + number(-1, 1); break;
      case 4: v = v.sin(); break;
      case 5: v = torch::gelu(v); break;
      case 6: v = v.clamp(-2, 2); break;
      case 7: v = v - y; break;
      case 8: v = v * y; break;
      case 9: v = torch::maximum(v, y); break;
      case 10: v = torch::where(v > y, v, before); break;
      case 11: v = v.abs(); break;
      case 12: v = (-v).clamp(-3, 3); break;
      case 13: v = F::silu(v); break;
      case 14: v = v.cos(); break;
      default: v = v - before; break;
    }
    before = last;
  }
  return v;
}

/// The same of integers.
Tensor integer_chain_of(int operators, unsigned seed, const Tensor& x, const Tensor& y) {
  std::mt19937 drawn(seed);
  Tensor v = x, before = x;
  for (int i = 0; i < operators; ++i) {
    const Tensor last = v;
    switch (drawn() % 8) {
      case 0: v = v * 3; break;
      case 1: v = v + static_cast<std::int64_t>(drawn() % 100); break;
      case 2: v = torch::remainder(v, 1009); break;
      case 3: v = v - y; break;
      case 4: v = torch::maximum(v, y); break;
      case 5: v = torch::where(v > before, v, y); break;
      case 6: v = v.clamp(-5000, 5000); break;
      default: v = v - before; break;
    }
    before = last;
  }
  return v;
}
/// Processor seconds of all children that this process has waited for: no matter what else the machine does meanwhile.
double seconds_of_children() {
  rusage used{};
  getrusage(RUSAGE_CHILDREN, &used);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

namespace {

/// The largest error of an element beside its own value; where both are infinite or nan there is none.
double worst_of_elements(const Tensor& given, const Tensor& exact) {
  const Tensor a = given.to(torch::kDouble), b = exact.to(torch::kDouble);
  const Tensor same = (a == b).logical_or(a.isnan().logical_and(b.isnan()));
  const Tensor error = (a - b).abs() / (b.abs() + 1e-37);  // what is less is no float with all of its digits
  return torch::where(same, torch::zeros_like(error), error).nan_to_num(infinite, infinite).max().item<double>();
}
/// A function whose result has the relative error of its operands, or a few times that: none that takes one number of
/// another away.
Tensor well_conditioned(int which, const Tensor& a, const Tensor& b) {
  const Tensor little = a.clamp(-4, 4);
  switch (which) {
    case 0: return a * b;
    case 1: return a / (b.abs() + 1);
    case 2: return (a.abs() + b.abs()).sqrt();
    case 3: return little.sigmoid() * b;
    case 4: return little.exp() * b;
    case 5: return little.tanh() * b;
    case 6: return torch::where(a > 0, a, b);
    case 7: return torch::minimum(a, b);
    case 8: return torch::maximum(a, b) * 0.5;
    case 9: return (a.abs() + 1e-3).rsqrt() * b;
    case 10: return F::silu(little) * b;
    case 11: return little.expm1();
    case 12: return a.abs().log1p() * b.sign();
    case 13: return little.atan() * b;
    case 14: return a.relu() + b.relu();
    default: return (little * 3).softmax(-1);
  }
}

}  // namespace

TEST_CASE("each element is right beside its own value, however small it is beside the largest") {
  const torch::NoGradGuard no_grad;
  std::mt19937 random(7);
  for (const std::int64_t columns : {37, 64, 3}) {
    CAPTURE(columns);
    torch::manual_seed(static_cast<std::uint64_t>(columns));
    // Magnitudes from 2^-20 to 2^20, so the smallest is 1e-12 of the largest.
    const auto drawn = [&] {
      return torch::pow(2., torch::rand({5, columns}) * 40 - 20) * torch::randint(0, 2, {5, columns}).mul(2).sub(1);
    };
    std::vector<std::array<int, 4>> chains;
    for (int i = 0; i < 32; ++i) {
      chains.push_back({i % 16, 0, 0, 0});
      for (std::size_t k = 1; k < 4; ++k) chains.back()[k] = static_cast<int>(random() % 15);
    }
    Net net;
    net.function = [&](const Tensors& in) {
      Tensors results;
      for (std::size_t i = 0; i < chains.size(); ++i) {
        const auto& [first, second, third, order] = chains[i];
        const Tensor inner = well_conditioned(first, in[i % 3], in[(i + 1) % 3]);
        const Tensor outer = well_conditioned(second, order % 2 ? inner : in[2], order % 2 ? in[2] : inner);
        results.push_back(i < 16 ? inner : i < 24 ? outer : well_conditioned(third, outer, in[0]));
      }
      return all_of(results);
    };
    const Tensors inputs{drawn(), drawn(), drawn()};
    const Tensors exact = in_double(net, inputs);
    const auto gm = traced_net(net, inputs);
    for (const Accuracy accuracy : {Accuracy::exact, Accuracy::standard})
      for (const int threads : {1, 2}) {
        CAPTURE(threads);
        const auto compiled = fxx::compile(
            *gm, inputs,
            {.accuracy = accuracy, .threads = threads, .tolerance = infinite, .cache_folder = cache()});
        const Tensors given = tensors_of(compiled->run(boxed(inputs)));
        REQUIRE(given.size() == exact.size());
        for (std::size_t i = 0; i < given.size(); ++i) {
          const std::array<int, 4> chain = chains[i];
          CAPTURE(i);
          CAPTURE(chain[0]);
          CAPTURE(chain[1]);
          CAPTURE(chain[2]);
          CHECK(worst_of_elements(given[i], exact[i]) <= 3e-5);
        }
      }
  }
}

TEST_CASE("chains of thousands of operators take the compiler a millisecond for each") {
  torch::manual_seed(5);
  const Tensor x = torch::randn({7, 19}), y = torch::rand({7, 19});
  const Tensor n = torch::randint(-99, 99, {7, 19}), m = torch::randint(-99, 99, {7, 19});
  for (const bool integers : {false, true}) {
    const int count = integers ? 1500 : 3000;
    CAPTURE(integers);
    const auto net = net_of([&](const Tensors& in) {
      return integers ? integer_chain_of(count, 3, in[0], in[1]) : chain_of(count, 3, in[0], in[1]);
    });
    const Tensors inputs = integers ? Tensors{n, m} : Tensors{x, y};
    const auto gm = traced_net(*net, inputs);
    const double before = seconds_of_children();
    const auto compiled = fxx::compile(*gm, inputs, {.threads = 2, .tolerance = infinite, .cache_folder = cache()});
    const double seconds = seconds_of_children() - before;
    CAPTURE(seconds);
    // On a machine that is idle half of this, or less; inlined into each loop they take three times as long.
    CHECK(seconds < (integers ? 8e-3 : 3e-3) * count);
    CHECK(compiled->kernel_plan().steps.size() < static_cast<std::size_t>(count) / 20);
    CHECK(compiled->called_back().empty());
    const torch::NoGradGuard no_grad;
    CHECK(error_of(compiled->run(boxed(inputs)), in_double(*net, inputs)) < 1e-5);
  }
  // Those that models have are inlined.
  const auto net = net_of([](const Tensors& in) { return chain_of(100, 3, in[0], in[1]); });
  const auto few = fxx::compile(*traced_net(*net, {x, y}), {x, y}, {.threads = 1, .cache_folder = cache()});
  CHECK(few->source_code().find("shared") == std::string::npos);
}

TEST_CASE("thousands of steps that are called back take the compiler a millisecond for each") {
  torch::manual_seed(6);
  const torch::NoGradGuard no_grad;
  const Tensor x = torch::randn({7, 19}, torch::kDouble);
  constexpr int count = 3000;
  const auto net = net_of([&](const Tensors& in) {
    Tensor v = in[0];
    for (int i = 0; i < count / 2; ++i) v = torch::sin(v) + 0.01;
    return c10::IValue(v);
  });
  const auto gm = traced_net(*net, {x});
  const double before = seconds_of_children();
  const auto compiled = fxx::compile(*gm, {x}, {.threads = 1, .tolerance = infinite, .cache_folder = cache()});
  const double seconds = seconds_of_children() - before;
  CAPTURE(seconds);
  CHECK(compiled->kernel_plan().steps.size() == count);
  CHECK(seconds < 1e-3 * count);
  CHECK(same(compiled->run({x}).toTensor(), net->function({x}).toTensor()));
}

TEST_CASE("hundreds of steps, of kernels and called back in turns: a call that fails ends them all") {
  torch::manual_seed(7);
  const torch::NoGradGuard no_grad;
  const Tensor x = torch::randn({7, 19}), v = torch::randn({7, 19}, torch::kDouble), rows = torch::arange(7).flip(0);
  const auto net = net_of([](const Tensors& in) {
    Tensor a = in[0], b = in[1];
    for (int i = 0; i < 150; ++i) {
      a = torch::softmax(a + b.to(torch::kFloat), -1);
      b = torch::sin(b + a.to(torch::kDouble));
      if (i == 100) b = b.index_select(0, in[2]);
    }
    return all_of({a, b});
  });
  const Tensors in{x, v, rows};
  for (const int threads : {1, 2}) {
    const auto compiled = fxx::compile(*traced_net(*net, in), in, {.threads = threads, .cache_folder = cache()});
    CHECK(compiled->kernel_plan().steps.size() > 400);
    for (int round = 0; round < 2; ++round) {
      CHECK_THROWS(compiled->run({x, v, rows + 5}));
      CHECK(relative_difference(compiled->run(boxed(in)), net->function(in)) < 1e-5);
    }
  }
}

}  // namespace
