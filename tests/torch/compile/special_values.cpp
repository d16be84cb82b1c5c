// Compiled modules give what the graph gives for every float input: nan and infinities in the same places, also where
// rules recognise what was written by hand, and results lie in memory as they do in eager.
#include <bit>
#include <random>

#include "fxx/rules/library.hpp"
#include "fxx/torch/fold_constants.hpp"
#include "torch/compile/compiled.hpp"
#include "torch/compile/special_program.hpp"

using namespace fxx;
using namespace fxx::test;
namespace F = torch::nn::functional;

namespace {

/// Where the two differ in class: nan, an infinity of a sign, a finite number; and where finite numbers do by more than
/// rounding. Empty when nowhere.
std::string difference_in_class(const Tensor& given, const Tensor& wanted, double tolerance = 1e-3) {
  if (given.sizes() != wanted.sizes()) return "sizes";
  const Tensor a = given.to(torch::kDouble).contiguous().flatten(), b = wanted.to(torch::kDouble).contiguous().flatten();
  double largest = 0;
  for (int64_t i = 0; i < b.numel(); ++i)
    if (const double v = std::abs(b[i].item<double>()); std::isfinite(v) && v < 1e6) largest = std::max(largest, v);
  for (int64_t i = 0; i < b.numel(); ++i) {
    const double x = a[i].item<double>(), y = b[i].item<double>();
    const bool same = std::isnan(y)   ? std::isnan(x)
                      : std::isinf(y) ? x == y
                                      : std::isfinite(x) && std::abs(x - y) <= tolerance * std::max(largest, std::abs(y));
    if (!same) return "element " + std::to_string(i) + " is " + repr(x) + " instead of " + repr(y);
  }
  return {};
}
void expect_class(const c10::IValue& given, const c10::IValue& wanted, double tolerance = 1e-3) {
  const Tensors a = tensors_of(given), b = tensors_of(wanted);
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    CAPTURE(i);
    CHECK(difference_in_class(a[i], b[i], tolerance) == "");
    CHECK(a[i].strides() == b[i].strides());
  }
}
/// Compiled in both modes that keep values, for `inputs`, and run on all of `more`, beside the module itself.
void check_class(Net& net, const Tensors& inputs, const std::vector<Tensors>& more, double tolerance = 1e-3) {
  const torch::NoGradGuard no_grad;
  const auto gm = traced_net(net, inputs);
  for (const Accuracy accuracy : {Accuracy::exact, Accuracy::standard}) {
    CAPTURE(static_cast<int>(accuracy));
    const auto compiled =
        fxx::compile(*gm, inputs, {.accuracy = accuracy, .threads = 1, .tolerance = infinite, .cache_folder = cache()});
    for (std::size_t i = 0; i < more.size(); ++i) {
      CAPTURE(i);
      expect_class(compiled->run(boxed(more[i])), net.function(cloned(more[i])), tolerance);
    }
  }
}
void check_class(const Forward& function, const Tensors& inputs, const std::vector<Tensors>& more,
                 double tolerance = 1e-3) {
  check_class(*net_of(function), inputs, more, tolerance);
}

const std::vector<float>& every_kind() {
  static const std::vector<float> values = {
      NAN,    INFINITY, -INFINITY, 0.f,     -0.f,    1e-45f, -1e-45f, 1e-38f, 1e-20f, -1e-20f, 1e-8f, 0.5f,  -0.5f, 1.f,
      -1.f,   3.f,      -3.f,      10.f,    -10.f,   20.5f,  -20.5f,  41.f,   -41.f,  87.f,    -87.f, 89.f,  -89.f, 100.f,
      -100.f, 104.f,    -104.f,    200.f,   -200.f,  1e4f,   -1e4f,   1e10f,  -1e10f, 1e13f,   1e15f, 1e20f, -1e20f, 1e30f,
      -1e30f, 1e37f,    -1e37f,    1.6e38f, -1.6e38f, 3e38f, -3e38f,  3.4e38f, -3.4e38f};
  return values;
}

}  // namespace

TEST_CASE("a query that sees nothing gets what softmax gives, and hidden keys may be anything") {
  torch::manual_seed(11);
  struct Sizes {
    int64_t queries, keys;
  };
  for (const auto& [queries, keys] : {Sizes{5, 7}, Sizes{1, 9}, Sizes{2, 8}, Sizes{3, 1100}}) {
    CAPTURE(keys);
    const Tensor q = torch::randn({2, 3, queries, 8}), k = torch::randn({2, 3, keys, 8}), v = torch::randn({2, 3, keys, 8});
    Tensor hide = torch::rand({2, 1, queries, keys}) < 0.4;
    hide[0][0][0] = true;
    if (queries > 1) hide[1][0][queries - 1] = true;
    Tensor padded = k.clone();
    hide.select(3, 1).fill_(true);
    padded.select(2, 1).fill_(NAN);
    const Tensor added = torch::zeros_like(hide, torch::kFloat).masked_fill(hide, -INFINITY);
    const Tensor open = torch::zeros_like(hide);
    check_class(
        [](const Tensors& in) {
          const auto &q = in[0], &k = in[1], &v = in[2], &hide = in[3], &added = in[4];
          const auto scores = [&] { return torch::matmul(q, k.transpose(-2, -1)); };
          return all_of({torch::matmul((scores() / 2).masked_fill(hide, -INFINITY).softmax(-1), v),
                         torch::matmul(torch::where(hide, torch::full({}, -INFINITY), scores() * 0.3).softmax(-1), v),
                         torch::matmul((scores() / 2 + added).softmax(-1), v),
                         torch::matmul((scores() * 0.5).masked_fill(hide, -1e9).softmax(-1), v),
                         torch::matmul((scores() * 0.5).softmax(-1), v),
                         torch::scaled_dot_product_attention(q, k, v, hide.logical_not()),
                         torch::scaled_dot_product_attention(q, k, v, added)});
        },
        {q, k, v, hide, added},
        {{q, k, v, hide, added}, {q, padded, v, hide, added}, {q, k, v, open, torch::zeros_like(added)},
         {q * 1e9, k * 1e9, v, hide, added}});
  }
}

TEST_CASE("heads of keys that several heads of queries share are read where they lie, and keep nan") {
  torch::manual_seed(17);
  const Tensor q = torch::randn({1, 6, 5, 8}), k = torch::randn({1, 2, 7, 8}), v = torch::randn({1, 2, 7, 8});
  Tensor hide = torch::rand({5, 7}) < 0.4;
  hide[2] = true;
  const Forward f = [](const Tensors& in) {
    const Tensor k = in[1].repeat_interleave(3, 1), v = in[2].repeat_interleave(3, 1);
    const Tensor scores = torch::matmul(in[0], k.transpose(-2, -1)) / 2;
    return c10::IValue(torch::matmul(scores.masked_fill(in[3], -INFINITY).softmax(-1), v) * 1);
  };
  check_class(f, {q, k, v, hide}, {{q, k, v, hide}, {q, k, v, torch::zeros_like(hide)}});
  const torch::NoGradGuard no_grad;
  const auto gm = traced_net(*net_of(f), {q, k, v, hide});
  const auto compiled = fxx::compile(*gm, {q, k, v, hide}, {.tolerance = infinite, .cache_folder = cache()});
  CAPTURE(compiled->kernel_plan().to_string());
  for (const KernelStep& step : compiled->kernel_plan().steps) CHECK(step.bytes < 4 * (3 * 6 * 7 * 8));  // no copies of keys
}

TEST_CASE("the plan has one step for attention that was written by hand") {
  const Tensor q = torch::randn({2, 3, 5, 8}), k = torch::randn({2, 3, 7, 8}), hide = torch::rand({5, 7}) < 0.4;
  const torch::NoGradGuard no_grad;
  const auto gm = traced_net(*net_of([](const Tensors& in) {
    const auto scores = torch::matmul(in[0], in[1].transpose(-2, -1)) / 2;
    return c10::IValue(torch::matmul(scores.masked_fill(in[2], -INFINITY).softmax(-1), in[1]));
  }), {q, k, hide});
  const auto compiled = fxx::compile(*gm, {q, k, hide}, {.tolerance = infinite, .cache_folder = cache()});
  int attention = 0;
  for (const KernelStep& step : compiled->kernel_plan().steps)
    if (const auto* kernel = std::get_if<plans::Attention>(&step.kernel)) {
      ++attention;
      CHECK(kernel->softmax);
    }
  CHECK(attention == 1);
}

TEST_CASE("activations that were written by hand keep nan, infinities and what overflows") {
  const Forward f = [](const Tensors& in) {
    const Tensor& x = in[0];
    const double root = std::sqrt(2.), pi = std::sqrt(2 / M_PI);
    return all_of({x * 0.5 * (torch::erf(x / root) + 1),
                   x * (torch::erf(x / root) + 1) * 0.5,
                   x * ((torch::erf(x / root) + 1) * 0.5),
                   x * 0.5 * (torch::tanh((x + x.pow(3) * 0.044715) * pi) + 1),
                   x * 0.5 * (torch::tanh((x + x * x * x * 0.044715) * pi) + 1),
                   x * 0.5 * (torch::tanh((x + x * 0.044715 * x * x) * pi) + 1),
                   x * 0.5 * (torch::tanh(x * pi * (x * 0.044715 * x + 1)) + 1),
                   x * (torch::tanh((x + x.pow(3) * 0.044715) * pi) + 1) * 0.5,
                   x * torch::sigmoid(x),
                   x / (torch::exp(-x) + 1),
                   1 / (torch::exp(-x) + 1),
                   (torch::tanh(x / 2) + 1) / 2,
                   torch::sigmoid(x * 2) * 2 - 1,
                   x.clamp_min(0),
                   x.clamp(0, 6),
                   (x + 3).clamp(0, 6) / 6,
                   x * (x + 3).clamp(0, 6) / 6,
                   x * torch::tanh(torch::log(torch::exp(x) + 1)),
                   torch::log(torch::exp(x) + 1),
                   torch::log1p(torch::exp(x)),
                   torch::log1p(torch::exp(x * 2)) / 2,
                   torch::relu(x) + torch::log1p(torch::exp(-torch::abs(x))),
                   torch::log(torch::sigmoid(x)),
                   -F::softplus(-x),
                   torch::where(x > 0, x, torch::expm1(x)),
                   torch::where(x > 0, x, x * 0.1),
                   torch::maximum(x, x * 0.1),
                   torch::relu(x) - torch::relu(-x) * 0.1,
                   torch::exp(x) - 1,
                   torch::log(x + 1)});
  };
  const Tensor x = torch::tensor(every_kind()).clone();
  check_class(f, {torch::randn({x.numel()})}, {{x}});
}

TEST_CASE("numbers one after the other, quotients and roots overflow where the graph does") {
  const Forward f = [](const Tensors& in) {
    const Tensor &x = in[0], &y = in[1];
    return all_of({x * 1e30 * 1e-30, x / 1e30 * 1e30, x * 1e-30 * 1e30, x * 1e20 / 1e20, x * 2 * 3, x / 2 / 3, x * 2 / 4,
                   x / 2 * 4, x * 0.5 * 0.25, x + 3 + 4, 3 - (x - 4), x * (1 / y), x / (1 / y), x / torch::sqrt(y),
                   1 / torch::sqrt(y), x.pow(2), x.pow(0.5), x.pow(-0.5), x.pow(-1), x + (y - x) * 0.25,
                   torch::sin(x) / torch::cos(x), -(x - y), x - (-y), (-x) * (-y), (-x) / (-y), torch::abs(-x)});
  };
  const std::vector<float>& kinds = every_kind();
  std::vector<float> left, right;
  for (const float a : kinds)
    for (const float b : kinds)
      if (std::abs(a) < 1e6f || !std::isfinite(a)) left.push_back(a), right.push_back(b);
  // LibTorch's own sine of large numbers is another one; their class is the same.
  const auto n = static_cast<int64_t>(left.size());
  check_class(f, {torch::randn({n}), torch::rand({n})}, {{torch::tensor(left), torch::tensor(right)},
                                                         {torch::tensor(right).clamp(-1e37, 1e37), torch::rand({n}) + 1}});
}

TEST_CASE("softmaxes, norms and means that were written by hand keep nan, infinities and gaps that saturate") {
  const Forward f = [](const Tensors& in) {
    const Tensor& x = in[0];
    const Tensor top = x.amax({-1}, true), e = torch::exp(x), mean = x.mean({-1}, true);
    const Tensor shifted = torch::exp(x - top), square = (x * x).mean({-1}, true);
    return all_of({torch::log(torch::softmax(x, -1)), torch::log_softmax(x, -1), torch::softmax(x, -1),
                   e / e.sum({-1}, true), shifted / shifted.sum({-1}, true), x - torch::logsumexp(x, {-1}, true),
                   x - torch::log(e.sum({-1}, true)), torch::log(e.sum({-1})), torch::logsumexp(x, {-1}),
                   torch::log(torch::exp(x - top).sum({-1}, true)) + top, torch::logsumexp(x - top, {-1}, true) + top,
                   torch::exp(torch::log_softmax(x, -1)), torch::softmax(x - top, -1), x.sum({-1}) / 6,
                   (x - mean) / torch::sqrt(x.var({-1}, false, true) + 1e-5), x * torch::rsqrt(square + 1e-6),
                   x / torch::sqrt(square + 1e-6), (x - mean).pow(2).mean({-1}), x.var({-1}, false)});
  };
  torch::manual_seed(12);
  Tensor x = torch::randn({24, 6});
  const float rows[][6] = {{0, 200, 1, 2, 3, 4},         {0, -200, 1, 2, 3, 4},         {0, 100, 1, 2, 3, 4},
                           {-INFINITY, 1, 2, 3, 4, 5},   {INFINITY, 1, 2, 3, 4, 5},     {NAN, 1, 2, 3, 4, 5},
                           {-INFINITY, INFINITY, 1, 2, 3, 4}, {INFINITY, INFINITY, 1, 2, 3, 4},
                           {1e20f, 1, 2, 3, 4, 5},       {1e20f, -1e10f, 2, 3, 4, 5},   {1e30f, 1e30f, 1, 1, 1, 1},
                           {100, 100, 100, 100, 100, 100}, {-300, -300, -300, -300, -301, -302},
                           {1e-30f, 2e-30f, 0, 0, 0, 0}, {3e38f, -1e20f, 1, 2, 3, 4},
                           {-INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY}};
  for (int i = 0; i < 16; ++i)
    for (int k = 0; k < 6; ++k) x[i][k] = rows[i][k];
  check_class(f, {torch::randn({24, 6})}, {{x}});
}

TEST_CASE("layers with batch norms keep nan and infinities, also of their weights") {
  torch::manual_seed(13);
  std::mt19937 random(13);
  auto net = net_of({});
  auto conv = net->module(torch::nn::Conv2d(torch::nn::Conv2dOptions(4, 6, 3).padding(1)));
  auto norm = net->module(torch::nn::BatchNorm2d(6));
  auto next = net->module(torch::nn::Conv2d(torch::nn::Conv2dOptions(6, 5, 1)));
  norm->running_mean.uniform_(-1, 1), norm->running_var.uniform_(0.5, 2);
  net->function = [=](const Tensors& in) mutable {
    return all_of({next(torch::relu(norm(conv(in[0])))), conv(in[0] * 3), next(conv(in[0]) * 0.25 + 1)});
  };
  std::vector<Tensors> more;
  for (int i = 0; i < 6; ++i) {
    Tensor x = torch::randn({1, 4, 9, 11});
    x[0][i % 4][i][i] = i % 3 == 0 ? NAN : i % 3 == 1 ? INFINITY : -INFINITY;
    if (i > 3) x[0][1][2][7] = 1e30;
    more.push_back({x});
  }
  check_class(*net, {torch::randn({1, 4, 9, 11})}, more);
  {
    const torch::NoGradGuard no_grad;
    conv->weight[1][0][1][1] = INFINITY, norm->running_mean[2] = NAN;
  }
  check_class(*net, {torch::randn({1, 4, 9, 11})}, {{torch::randn({1, 4, 9, 11})}});
}

TEST_CASE("3 x 3 convolutions of larger images give nan and infinities to the pixels that see them, and no others") {
  torch::manual_seed(14);
  auto net = net_of({});
  auto first = net->module(torch::nn::Conv2d(torch::nn::Conv2dOptions(32, 32, 3).padding(1)));
  auto second = net->module(torch::nn::Conv2d(torch::nn::Conv2dOptions(32, 32, 3).padding(1)));
  net->function = [=](const Tensors& in) mutable { return all_of({first(in[0]), second(torch::relu(first(in[0])))}); };
  std::vector<Tensors> more;
  for (const float value : {NAN, INFINITY, -INFINITY, 1e37f, 1e30f, 3e38f}) {
    Tensor x = torch::randn({1, 32, 30, 29});
    x[0][3][7][9] = value;
    x[0][30][29][28] = value;
    more.push_back({x});
  }
  check_class(*net, {torch::randn({1, 32, 30, 29})}, more);
}

TEST_CASE("drawn graphs over drawn numbers, among them nan, infinities and large ones, agree in class with eager") {
  SpecialCounts counts;
  for (const unsigned seed : {1u, 2u, 3u, 4u, 5u}) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    torch::manual_seed(seed);
    const torch::NoGradGuard no_grad;
    const auto net = net_of({});
    std::vector<SpecialProgram> programs;  // in one library
    for (int i = 0; i < 40; ++i) programs.emplace_back(*net, random);
    net->function = [&](const Tensors& in) {
      Tensors results;
      for (SpecialProgram& program : programs) results.push_back(program.run(in));
      return all_of(results);
    };
    std::vector<Tensors> sets;
    std::vector<SpecialExpectation> expected;
    for (int i = 0; i < 6; ++i) {
      sets.push_back(SpecialInputs::drawn(random, 8 * i));
      expected.push_back(special_expectation(programs, sets.back()));
    }
    const Tensors examples = SpecialInputs::ordinary();
    const auto gm = traced_net(*net, examples);
    const auto agrees = [&](const char* what, auto& module) {
      CAPTURE(what);
      for (std::size_t i = 0; i < sets.size(); ++i)
        CHECK(special_difference(module.run(boxed(cloned(sets[i]))), expected[i], programs, counts) == "");
    };
    agrees("interpreted", *gm);
    for (const Accuracy accuracy : {Accuracy::exact, Accuracy::standard}) {
      const auto compiled = fxx::compile(
          *gm, examples, {.accuracy = accuracy, .threads = 1, .tolerance = infinite, .cache_folder = cache()});
      agrees(accuracy == Accuracy::exact ? "exact" : "standard", *compiled);
    }
    // gelu of what is written by hand would be oneDNN's (law::formula).
    const Law assume = law::sums | law::finite_weights;
    const Law of_these = std::ranges::all_of(net->parameters(), [](const Tensor& t) { return t.isfinite().all().item<bool>(); })
                             ? assume
                             : law::sums;
    const auto exact = traced_net(*net, examples);
    rules::apply_exact(*exact, {.assume = of_these});
    agrees("exact rules", *exact);
    const auto all = traced_net(*net, examples);
    rules::apply_all(*all, {.assume = of_these});
    agrees("all rules", *all);
    const auto ready = traced_net(*net, examples);
    optimize_for_inference(*ready, of_these);
    agrees("optimised for inference", *ready);
  }
  CHECK(counts.compared > 3 * counts.left_out / 2);
  CHECK(counts.special > counts.compared / 5);
}

TEST_CASE("functions of an element and of two end where LibTorch's do, in whole vectors and in what is left") {
  std::mt19937 random(18);
  torch::manual_seed(18);
  const torch::NoGradGuard no_grad;
  const auto net = net_of({});
  SpecialProgram functions(*net, random);
  net->function = [&](const Tensors& in) { return all_of(functions.functions(in[0], in[1])); };
  std::vector<float> left, right;
  std::vector<float> kinds = every_kind();
  for (const float v : {88.7228f, -88.7228f, 88.73f, -88.73f, 89.4f, -89.4f, 95.f, -95.f, 5.4f, -5.4f, -5.7f, 0.1f, 2.5f, 1e19f, 2e19f})
    kinds.push_back(v);
  for (const float a : kinds)
    for (const float b : kinds) left.push_back(a), right.push_back(b);
  while (left.size() % 32 != 29) {
    // A number of any bits, but a nan that signals, which no operator gives.
    const auto any = [&] {
      const float v = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
      return std::isnan(v) ? NAN : v;
    };
    for (int i = 0; i < 91; ++i) left.push_back(any()), right.push_back(any());
  }
  const auto n = static_cast<std::int64_t>(left.size());
  const Tensor x = torch::tensor(left), y = torch::tensor(right);
  struct Case {
    Tensor x, y;
  };
  const auto strided = [](const Tensor& t) {
    const Tensor wide = torch::zeros({t.numel(), 2}).select(1, 0);
    return wide.copy_(t);
  };
  for (const Case& c : {Case{x, y}, Case{x.slice(0, 40, 47), y.slice(0, 40, 47)}, Case{x.view({-1, 1}).expand({n, 2}).t().contiguous().t(), y.view({-1, 1}).expand({n, 2}).t().contiguous().t()},
                        Case{strided(x), strided(y)}}) {
    CAPTURE(c.x.sizes());
    const Tensors examples = {c.x, c.y};
    const auto gm = traced_net(*net, examples);
    for (const Accuracy accuracy : {Accuracy::exact, Accuracy::standard}) {
      const auto compiled = fxx::compile(
          *gm, examples, {.accuracy = accuracy, .threads = 1, .tolerance = infinite, .cache_folder = cache()});
      const Tensors given = tensors_of(compiled->run(boxed({c.x, c.y}))), wanted = tensors_of(net->function({c.x, c.y}));
      for (std::size_t i = 0; i < given.size(); ++i) {
        const std::string& name = functions.names()[i];
        CAPTURE(name);
        // Of two zeros LibTorch's vectors take one, its single elements the other.
        const bool signs = name != "maximum" && name != "minimum" && name != "clamp" &&
                           name != "relu" && name != "relu6" && name != "hardtanh";
        const Tensor a = given[i].to(torch::kDouble).contiguous().view({-1}), b = wanted[i].to(torch::kDouble).contiguous().view({-1});
        const Tensor of = c.x.to(torch::kDouble).contiguous().view({-1}), with = c.y.to(torch::kDouble).contiguous().view({-1});
        std::string difference;
        for (std::int64_t k = 0; k < b.numel() && difference.empty(); ++k) {
          const double u = a.data_ptr<double>()[k], v = b.data_ptr<double>()[k], from = of.data_ptr<double>()[k];
          // Some units of the result, or where that cancels (gelu, 1 + erf, sums) of what goes in. LibTorch rounds the
          // exponent of pow in vectors, and not in single elements.
          const double off = std::max({5e-6 * std::abs(v), std::isfinite(from) ? 1e-6 * std::min(std::abs(from), 100.) : 0, 1e-7});
          const bool near = std::isfinite(u) && std::isfinite(v) && std::abs(u - v) <= off;
          const bool cancels = near && std::abs(u) < 5e-6 && std::abs(v) < 5e-6 && std::abs(from) > 1e-3 && u != 0;
          const bool same = same_class(u, v, signs) || cancels || (near && v != 0 && std::abs(v) < 1e-6 && std::abs(from) > 1e-3);
          if (!same || (std::isfinite(v) && !(std::abs(u - v) <= off)))
            difference = repr(u) + " instead of " + repr(v) + " of " + repr(from) + " and " + repr(with.data_ptr<double>()[k]);
        }
        CHECK(difference == "");
      }
    }
  }
}

TEST_CASE("attention gives nan, zeros and infinities where LibTorch's kernel and its operators do") {
  torch::manual_seed(19);
  std::mt19937 random(19);
  const torch::NoGradGuard no_grad;
  struct Sizes {
    std::int64_t queries, keys;
  };
  for (const auto& [queries, keys] : {Sizes{3, 5}, Sizes{1, 7}, Sizes{2, 16}, Sizes{9, 17}, Sizes{40, 40}, Sizes{5, 530}, Sizes{530, 530}, Sizes{3, 1100}}) {
    CAPTURE(queries);
    CAPTURE(keys);
    const Forward f = [](const Tensors& in) {
      const auto &q = in[0], &k = in[1], &v = in[2], &hide = in[3], &added = in[4];
      Tensors all = {torch::scaled_dot_product_attention(q, k, v),
                     torch::scaled_dot_product_attention(q, k, v, {}, 0, true),
                     torch::scaled_dot_product_attention(q, k, v, hide.logical_not()),
                     torch::scaled_dot_product_attention(q, k, v, added),
                     torch::scaled_dot_product_attention(q, k, v.slice(-1, 0, 2)),
                     torch::scaled_dot_product_attention(q.squeeze(0), k.squeeze(0), v.squeeze(0), {}, 0, true),
                     torch::scaled_dot_product_attention(q, k, v, {}, 0, true, -0.5),
                     torch::matmul((torch::matmul(q, k.transpose(-2, -1)) * 0.5 + added).softmax(-1), v)};
      return all_of(all);
    };
    const auto inputs = [&](int how) {
      Tensors in = {torch::randn({1, 2, queries, 4}), torch::randn({1, 2, keys, 4}), torch::randn({1, 2, keys, 4}),
                    torch::rand({queries, keys}) < 0.3, torch::randn({queries, keys})};
      const float special[] = {NAN, INFINITY, -INFINITY, 1e10f, -300.f};
      const auto put = [&](const Tensor& t, float v) {
        t.view({-1})[static_cast<std::int64_t>(random() % static_cast<std::size_t>(t.numel()))] = v;
      };
      for (int i = 0; i < 2; ++i) {
        if (how % 2) put(in[0], special[random() % 5]);
        if (how % 3 == 0) put(in[1], special[random() % 5]);
        // Of more keys than LibTorch takes at once, an infinite value shows which weights its blocks round to 0.
        if (how % 4 == 0) put(in[2], special[keys > 512 ? 0 : random() % 3]);
        if (how % 5 == 0) put(in[4], special[random() % 5]);
      }
      if (how % 3 == 1) in[0].select(2, static_cast<std::int64_t>(random() % static_cast<std::size_t>(queries))).fill_(NAN);
      if (how % 4 == 1) in[1].select(2, keys - 1).fill_(special[random() % 3]);
      const auto row = static_cast<std::int64_t>(random() % static_cast<std::size_t>(queries));
      if (how % 2) in[3].select(0, row).fill_(true), in[4].select(0, row).fill_(-INFINITY);
      return in;
    };
    const Tensors examples = inputs(2);
    const auto gm = traced_net(*net_of(f), examples);
    for (const Accuracy accuracy : {Accuracy::exact, Accuracy::standard}) {
      const auto compiled = fxx::compile(
          *gm, examples, {.accuracy = accuracy, .threads = 1, .tolerance = infinite, .cache_folder = cache()});
      for (int how = 0; how < 14; ++how) {
        CAPTURE(how);
        const Tensors in = inputs(how);
        const Tensors given = tensors_of(compiled->run(boxed(in))), wanted = tensors_of(f(in));
        for (std::size_t i = 0; i < given.size(); ++i) {
          CAPTURE(i);
          CHECK(difference_in_class(given[i], wanted[i]) == "");
        }
      }
    }
  }
}

TEST_CASE("numbers that are -0 are no zeros, and weights that are not finite meet no zeros around images") {
  const Forward f = [](const Tensors& in) {
    const Tensor& x = in[0];
    return all_of({1 / (x - -0.), 1 / (x + -0.), 1 / torch::clamp_min(x, -0.), 1 / (x * 1 - -0.)});
  };
  const Tensor x = torch::tensor({0.f, -0.f, 1.f, -1.f, 0.f, -0.f, 2.f});
  check_class(f, {torch::rand({7})}, {{x}});
  torch::manual_seed(20);
  auto net = net_of({});
  const Tensor weight = net->parameter({3, 2, 3, 3}), transposed = net->parameter({2, 3, 3, 3}), line = net->parameter({3, 2, 3});
  {
    const torch::NoGradGuard no_grad;
    weight[1][0][0][2] = INFINITY, transposed[0][1][2][0] = NAN, line[2][1][0] = -INFINITY;
  }
  net->function = [=](const Tensors& in) {
    return all_of({torch::conv2d(in[0], weight, {}, 1, 1), torch::conv2d(in[0], weight, {}, 2), torch::relu(torch::conv2d(in[0], weight, {}, 1, 2)),
                   torch::conv_transpose2d(in[0], transposed, {}, 2, 1), torch::conv1d(in[0].select(2, 0), line, {}, 1, 1)});
  };
  check_class(*net, {torch::randn({2, 2, 6, 7})}, {{torch::randn({2, 2, 6, 7})}});
}

TEST_CASE("results lie in memory as those of the module, whatever is merged, recognised and folded") {
  std::mt19937 random(16);
  torch::manual_seed(16);
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int graph = 0; graph < 60; ++graph) {
    CAPTURE(graph);
    auto net = net_of({});
    std::vector<torch::nn::Linear> heads;
    for (int i = 0; i < 3; ++i) heads.push_back(net->module(torch::nn::Linear(6, 2 + 2 * pick(3))));
    std::vector<torch::nn::Conv2d> convolutions;
    for (int i = 0; i < 2; ++i)
      convolutions.push_back(net->module(torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 4 + i, 1))));
    auto norm = net->module(torch::nn::BatchNorm2d(4));
    std::vector<int> kinds;
    for (int i = 0; i < 5; ++i) kinds.push_back(pick(6));
    const bool last = pick(2), silu = pick(2);
    net->function = [=](const Tensors& in) mutable {
      Tensors results;
      const auto shown = [&](Tensor t, int kind) {
        switch (kind) {
          case 1: return t.transpose(0, -1);
          case 2: return t.unsqueeze(0);
          case 3: return torch::relu(t);
          case 4: return t.reshape({t.size(0), -1});
          case 5: return t.permute({1, 0}).unsqueeze(1) * 2;
          default: return t;
        }
      };
      const Tensor x = silu ? torch::silu(in[0]) : in[0];
      for (int i = 0; i < 3; ++i) results.push_back(shown(heads[i](x), kinds[i]));
      results.push_back(norm(convolutions[0](in[1])));
      results.push_back(convolutions[1](in[1]));
      const Tensor q = in[2], scores = torch::matmul(q, q.transpose(-2, -1)) / 2;
      const Tensor y = torch::matmul(scores.softmax(-1), q);
      results.push_back(kinds[3] == 0 ? y : kinds[3] == 1 ? y.transpose(1, 2) : torch::relu(y));
      results.push_back(kinds[4] < 3 ? in[0].t() + 0 : (in[0].t() * 1).unsqueeze(0));
      return all_of(results);
    };
    Tensor image = torch::randn({2, 3, 4, 5});
    if (last) image = image.contiguous(torch::MemoryFormat::ChannelsLast);
    const Tensors inputs = {torch::randn({4, 6}), image, torch::randn({2, 3, 5, 4})};
    const torch::NoGradGuard no_grad;
    const auto gm = traced_net(*net, inputs);
    const c10::IValue wanted = net->function(cloned(inputs));
    expect_class(gm->run(boxed(inputs)), wanted);
    if (graph % 6 == 0) {
      const auto compiled = fxx::compile(*gm, inputs, {.threads = 1, .cache_folder = cache()});
      expect_class(compiled->run(boxed(inputs)), wanted);
    }
    const OptimizeReport report = optimize_for_inference(*gm);
    CAPTURE(gm->code());
    expect_class(gm->run(boxed(inputs)), wanted);
    CHECK((report.needs & ~(law::ordinary | law::visible)) == law::exact);
  }
}

TEST_CASE("what is small beside 1 rounds to zero where the graph rounds it, and zeros keep their signs") {
  const Forward f = [](const Tensors& in) {
    const Tensor& x = in[0];
    const auto y = [&] { return in[1] * 1.5; };
    const Tensor zero = torch::zeros_like(x);
    return all_of({1 / torch::log(x + 1),
                   torch::log(torch::abs(torch::log(x + 1))),
                   x / (torch::exp(x) - 1),
                   torch::log((torch::tanh(x / 2) + 1) / 2),
                   torch::log((torch::tanh(x * 0.5) + 1) * 0.5),
                   1 / (torch::sigmoid(x * 2) * 2 - 1),
                   1 / torch::where(x > 0, x, torch::exp(x) - 1),
                   1 / torch::where(x <= 0, (torch::exp(x) - 1) * 2, x),
                   1 / (torch::relu(x) + (torch::exp(x) - 1).clamp_max(0)),
                   1 / (torch::relu(x) + ((torch::exp(x / 2) - 1) * 2).clamp_max(0)),
                   torch::log(torch::relu(x) + torch::log(torch::exp(-torch::abs(x)) + 1)),
                   1 / (x * torch::tanh(torch::log(torch::exp(x) + 1))),
                   1 / (x + 0),
                   1 / (x + 0 + 0),
                   1 / (0 - x),
                   1 / -(x - y()),
                   1 / -(2 - x),
                   1 / torch::threshold(x, 0, 0),
                   torch::atan2(x + 0, zero - 1),
                   torch::copysign(zero + 1, x + 0),
                   torch::signbit(x + 0).to(torch::kFloat)});
  };
  // nan has no sign that counts.
  const std::vector<float> values = {0.f,  -0.f,  1e-20f, -1e-20f, 1e-3f, -1e-3f, 1.5f,      -1.5f,    2.f,
                                     40.f, -40.f, 80.f,   -80.f,   3.f,   -3.f,   -INFINITY, INFINITY, 0.5f};
  const Tensor x = torch::tensor(values), y = x / 1.5;
  check_class(f, {torch::randn({x.numel()}), torch::randn({x.numel()})}, {{x, y}, {x, torch::full_like(x, 2)}});
}
