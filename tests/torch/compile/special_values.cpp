// Compiled modules give what the graph gives for every float input: nan and infinities in the same places, also where
// rules recognise what was written by hand, and results lie in memory as they do in eager.
#include <random>

#include "fxx/torch/fold_constants.hpp"
#include "torch/compile/compiled.hpp"

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

/// Numbers among which are nan, infinities, large and small ones, in other places each time.
Tensor drawn(at::IntArrayRef sizes, std::mt19937& random, int percent) {
  Tensor x = torch::randn(sizes);
  const float special[] = {NAN, INFINITY, -INFINITY, 0.f, -0.f, 1e20f, -1e20f, 1e30f, -3e38f, 100.f, -200.f, 1e-40f, 1e-20f};
  float* const p = x.data_ptr<float>();
  for (int64_t i = 0; i < x.numel(); ++i)
    if (static_cast<int>(random() % 100) < percent) p[i] = special[random() % std::size(special)];
  return x;
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
  std::mt19937 random(15);
  torch::manual_seed(15);
  const auto pick = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  int agreed = 0;
  for (int graph = 0; graph < 10; ++graph) {
    CAPTURE(graph);
    // Several expressions in one library, each of some steps.
    std::vector<std::vector<std::size_t>> programs;
    for (int i = 0; i < 25; ++i) {
      std::vector<std::size_t> steps;
      for (std::size_t n = 2 + pick(4); n > 0; --n) steps.push_back(random());
      programs.push_back(steps);
    }
    const Forward f = [programs](const Tensors& in) {
      Tensors results;
      for (const auto& steps : programs) {
        Tensor x = in[0], y = in[1];
        for (const std::size_t step : steps) {
          const Tensor before = x;
          switch (step % 27) {
            case 0: x = x * y; break;
            case 1: x = x + y; break;
            case 2: x = torch::log(torch::softmax(x, -1)); break;
            case 3: x = x * torch::sigmoid(x); break;
            case 4: x = torch::softmax(x, -1); break;
            case 5: x = torch::log(torch::exp(x) + 1); break;
            case 6: x = x * 0.5 * (torch::erf(x / std::sqrt(2.)) + 1); break;
            case 7: x = x * 1e25 * 1e-25; break;
            case 8: x = x / 3 * 7; break;
            case 9: x = x - x.amax({-1}, true); break;
            case 10: x = torch::exp(x); break;
            case 11: x = x - torch::logsumexp(x, {-1}, true); break;
            case 12: x = torch::relu(x); break;
            case 13: x = torch::where(x > 0, x, torch::expm1(x)); break;
            case 14: x = (x - x.mean({-1}, true)) / torch::sqrt(x.var({-1}, false, true) + 1e-3); break;
            case 15: x = x * torch::rsqrt((x * x).mean({-1}, true) + 1e-3); break;
            case 16: x = x.clamp(-5, 6); break;
            case 17: x = torch::maximum(x, y); break;
            case 18: x = x / torch::sqrt(torch::abs(y)); break;
            case 19: x = torch::tanh(x); break;
            case 20: x = x * (1 / y); break;
            case 21: x = torch::exp(x) / torch::exp(x).sum({-1}, true); break;
            case 22: x = torch::log(torch::sigmoid(x)); break;
            case 23: x = x.masked_fill(y > 0.5, -INFINITY); break;
            case 24: x = x + x.cumsum(-1); break;
            case 25: x = torch::layer_norm(x.clamp(-1e15, 1e15), {5}); break;  // LibTorch's own overflows in its squares
            default: x = -x; break;
          }
          y = before;
        }
        results.push_back(x);
      }
      return all_of(results);
    };
    std::vector<Tensors> more;
    for (int i = 0; i < 8; ++i) more.push_back({drawn({7, 5}, random, 4 * i), drawn({7, 5}, random, 4 * i)});
    const Tensors inputs = {torch::randn({7, 5}), torch::randn({7, 5})};
    const torch::NoGradGuard no_grad;
    const auto gm = traced_net(*net_of(f), inputs);
    const auto compiled = fxx::compile(
        *gm, inputs,
        {.accuracy = graph % 2 ? Accuracy::exact : Accuracy::standard, .threads = 1, .tolerance = infinite, .cache_folder = cache()});
    for (const Tensors& in : more) {
      const Tensors given = tensors_of(compiled->run(boxed(in))), wanted = tensors_of(f(cloned(in)));
      // What large numbers cancel to is rounding; class counts.
      for (std::size_t i = 0; i < given.size(); ++i) {
        std::string text;
        for (const std::size_t s : programs[i]) text += std::to_string(s % 27) + " ";
        CAPTURE(text);
        CAPTURE(in[0]);
        CAPTURE(in[1]);
        CHECK(torch::equal(given[i].isnan(), wanted[i].isnan()));
        CHECK(torch::equal(given[i].isposinf(), wanted[i].isposinf()));
        CHECK(torch::equal(given[i].isneginf(), wanted[i].isneginf()));
        agreed += given[i].isfinite().all().item<bool>() ? 0 : 1;
      }
    }
  }
  CHECK(agreed > 300);  // results with something that is no number
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
