// Graphs of float operators that are drawn, over numbers that are drawn, among them nan, infinities and what overflows,
// underflows or saturates; and whether two runs of one agree in class.
//
// Where rounding decides what class an element has (a zero beside 1e-8, before a logarithm), nobody can ask for the
// same: each graph runs several times with results that are off by some units, and elements whose class changes are left
// out. So are results of sums that overflow before all is added, whose order decides.
#pragma once

#include <cmath>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "torch/compile/compiled.hpp"

namespace fxx::test {

/// nan, the infinities, the zeros by their signs, and numbers by theirs. Numbers of less than 2^-126 are zeros of any sign.
enum class Class : int { nan, below, negative, minus_zero, zero, tiny, positive, above };
inline Class class_of(double v) {
  if (std::isnan(v)) return Class::nan;
  if (std::isinf(v)) return v < 0 ? Class::below : Class::above;
  if (v == 0) return std::signbit(v) ? Class::minus_zero : Class::zero;
  if (std::abs(v) < 0x1p-126) return Class::tiny;
  return v < 0 ? Class::negative : Class::positive;
}
inline bool same_class(double a, double b, bool signs_of_zeros) {
  const Class x = class_of(a), y = class_of(b);
  if (x == y) return true;
  const auto is_zero = [](Class c) { return c == Class::minus_zero || c == Class::zero || c == Class::tiny; };
  const auto is_tiny = [](double v) { return std::abs(v) < 0x1.1p-126; };
  if (is_zero(x) && is_zero(y)) return !signs_of_zeros || x == Class::tiny || y == Class::tiny;
  return is_tiny(a) && is_tiny(b) && (!signs_of_zeros || x == Class::tiny || y == Class::tiny);
}

/// How the graphs run at the moment; null while they are traced.
struct SpecialRun {
  bool shaken = false;    // each result is off by some units
  bool in_order = false;  // a sum overflowed that another order might not
};
inline SpecialRun*& special_run() {
  static SpecialRun* run = nullptr;
  return run;
}
/// What an operator gave, where results are shaken off by some units.
inline Tensor shaken(const Tensor& t) {
  const SpecialRun* run = special_run();
  if (!run || !run->shaken || t.scalar_type() != torch::kFloat) return t;
  const Tensor off = t * (1 + torch::empty_like(t).uniform_(-4e-6, 4e-6));
  const Tensor few_bits = (t.abs() < 1.2e-38) & (t != 0);  // where a unit is much of the number
  return torch::where(few_bits, t + torch::empty_like(t).uniform_(-2, 2).round() * 1.5e-45, off);
}
/// What a function gave whose error is one of 1, or of its argument where that is larger, not of its result.
inline Tensor shaken_beside(const Tensor& t, const Tensor& x) {
  const SpecialRun* run = special_run();
  if (!run || !run->shaken) return t;
  return t + torch::empty_like(t).uniform_(-5e-7, 5e-7) * x.nan_to_num(0, 0, 0).abs().clamp(1, 1e30).max();
}
/// The operand of a sum.
inline Tensor summed(const Tensor& t) {
  if (SpecialRun* run = special_run()) {
    const Tensor huge = (t.abs() > 1e17) & t.isfinite();
    if (huge.any().item<bool>()) run->in_order = true;
  }
  return t;
}

/// Inputs: two matrices, an image, queries, keys and values, and what is hidden.
struct SpecialInputs {
  static constexpr std::int64_t rows = 7, columns = 10;
  static Tensors ordinary() {
    return {torch::randn({rows, columns}), torch::randn({rows, columns}), torch::randn({2, 4, 6, 7}),
            torch::randn({1, 2, 6, 8}),    torch::randn({1, 2, 9, 8}),    torch::randn({1, 2, 9, 8}),
            torch::rand({6, 9}) < 0.5};
  }
  /// Of each matrix so many elements in a hundred are special, of the others so many in a thousand.
  static Tensors drawn(std::mt19937& random, int often) {
    Tensors all = ordinary();
    static const float special[] = {NAN,    INFINITY, -INFINITY, 0.f,   -0.f,  1e20f, -1e20f, 1e30f,  -3e38f, 100.f, -200.f,
                                    1e-40f, 1e-20f,   89.f,      -89.f, 95.f,  -95.f, 17.f,   -17.f,  1e10f,  -1e5f, 1.f,
                                    -1.f,   2e38f,    3.f,       -3.f,  1e19f, 60.f,  -1e-8f, 0.5f,   6.f,    -101.f};
    for (std::size_t k = 0; k < 6; ++k) {
      float* const p = all[k].data_ptr<float>();
      for (std::int64_t i = 0; i < all[k].numel(); ++i)
        if (static_cast<int>(random() % 1000) < (k < 2 ? 10 * often : often)) p[i] = special[random() % std::size(special)];
    }
    all[6] = torch::rand({6, 9}) < (random() % 3) * 0.5;
    if (random() % 2) all[6][random() % 6].fill_(true);
    return all;
  }
};

/// One graph: a chain of operators.
class SpecialProgram {
 public:
  SpecialProgram(Net& net, std::mt19937& random) : net_(net) {
    const auto pick = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
    kind_ = pick(10) < 6 ? Kind::matrix : pick(2) ? Kind::image : Kind::attention;
    for (std::size_t n = 2 + pick(7); n > 0; --n) steps_.push_back(static_cast<unsigned>(random()));
    const auto weight = [&](at::IntArrayRef sizes, double scale) {
      Tensor w = net_.parameter(sizes, scale);
      if (pick(6) == 0) {
        const torch::NoGradGuard no_grad;
        const float special[] = {NAN, INFINITY, -INFINITY, 0.f, -0.f};
        w.view({-1})[static_cast<std::int64_t>(pick(static_cast<std::size_t>(w.numel())))] = special[pick(5)];
      }
      return w;
    };
    if (kind_ == Kind::matrix) {
      square_ = weight({SpecialInputs::columns, SpecialInputs::columns}, 0.3), bias_ = weight({SpecialInputs::columns}, 1);
    } else if (kind_ == Kind::image) {
      kernel_ = weight({4, 4, 3, 3}, 0.2), point_ = weight({4, 4, 1, 1}, 0.5), bias_ = weight({4}, 1);
      mean_ = weight({4}, 1), variance_ = net_.constant(torch::rand({4}) + 0.5);
    }
  }

  std::string text() const {
    std::string all = kind_ == Kind::matrix ? "matrix" : kind_ == Kind::image ? "image" : "attention";
    for (const std::string& name : names_) all += " " + name;
    return all;
  }
  /// Whether the signs of zeros are the graph's: LibTorch has one sign in vectors and another in single elements, or
  /// kernels begin sums with another zero.
  bool signs_of_zeros() const { return signs_; }

  Tensor run(const Tensors& in) {
    names_.clear();
    signs_ = true;
    Tensor x = kind_ == Kind::matrix ? in[0] : kind_ == Kind::image ? in[2] : attended(steps_[0], in);
    Tensor y = kind_ == Kind::matrix ? in[1] : x * 0.5 + 0.25;
    x = shaken(x), y = shaken(y);
    for (std::size_t i = kind_ == Kind::attention ? 1 : 0; i < steps_.size(); ++i) {
      const Tensor before = x;
      x = shaken(next(steps_[i], x, y));
      if (x.sizes() == before.sizes()) y = before;
      else y = x * 0.5;
    }
    return x;
  }

  /// How many functions there are of an element, of two, of an element and a number.
  static constexpr unsigned of_one_count = 66, of_two_count = 30, of_numbers_count = 14;
  /// All of them.
  Tensors functions(const Tensor& x, const Tensor& y) {
    Tensors results;
    names_.clear();
    for (unsigned i = 0; i < of_one_count; ++i) results.push_back(of_one(i, x));
    for (unsigned i = 0; i < of_two_count; ++i) results.push_back(of_two(i, x, y));
    for (unsigned i = 0; i < of_numbers_count; ++i) results.push_back(of_numbers(i, x));
    return results;
  }
  const std::vector<std::string>& names() const { return names_; }

 private:
  enum class Kind { matrix, image, attention };

  Tensor named(const char* name, Tensor t) {
    names_.emplace_back(name);
    return t;
  }
  Tensor unsigned_zeros(Tensor t) {
    signs_ = false;
    return t;
  }
  Tensor attended(unsigned draw, const Tensors& in) {
    signs_ = false;
    const Tensor q = summed(shaken(in[3])), k = summed(shaken(in[4])), v = summed(shaken(in[5]));
    const Tensor &hide = in[6], added = torch::zeros_like(hide, torch::kFloat).masked_fill(hide, -INFINITY);
    const auto scores = [&] { return shaken(torch::matmul(q, k.transpose(-2, -1))); };
    switch (draw % 9) {
      case 0: return named("softmax by hand", torch::matmul((scores() / 2).softmax(-1), v));
      case 1: return named("masked by hand", torch::matmul((scores() / 2).masked_fill(hide, -INFINITY).softmax(-1), v));
      case 2: return named("hidden by hand", torch::matmul((scores() * 0.3).masked_fill(hide, -1e9).softmax(-1), v));
      case 3: return named("added by hand", torch::matmul((scores() * 0.4 + added).softmax(-1), v));
      case 4: return named("attention", torch::scaled_dot_product_attention(q, k, v));
      case 5: return named("attention, booleans", torch::scaled_dot_product_attention(q, k, v, hide.logical_not()));
      case 6: return named("attention, added", torch::scaled_dot_product_attention(q, k, v, added));
      case 7: return named("attention, causal", torch::scaled_dot_product_attention(q, k, v, {}, 0, true));
      default:
        return named("attention of three dimensions",
                     torch::scaled_dot_product_attention(q.squeeze(0), k.squeeze(0), v.squeeze(0), {}, 0, draw % 2 == 0));
    }
  }
  Tensor next(unsigned draw, const Tensor& x, const Tensor& y) {
    const unsigned which = draw / 16;
    switch (draw % 16) {
      case 0:
      case 1:
      case 2:
      case 3:
      case 4:
      case 5: return of_one(which, x);
      case 6:
      case 7:
      case 8: return of_two(which, x, y);
      case 9: return of_numbers(which, x);
      case 10:
      case 11:
      case 12: return of_rows(which, x);
      default: return kind_ == Kind::matrix ? of_matrices(which, x, y) : kind_ == Kind::image ? of_images(which, x) : of_rows(which, x);
    }
  }
  Tensor of_one(unsigned which, const Tensor& x) {
    namespace F = torch::nn::functional;
    switch (which % of_one_count) {
      case 0: return named("exp", torch::exp(x));
      case 1: return named("log", torch::log(x));
      case 2: return named("sqrt", torch::sqrt(x));
      case 3: return named("rsqrt", torch::rsqrt(x));
      case 4: return named("reciprocal", torch::reciprocal(x));
      case 5: return named("sigmoid", torch::sigmoid(x));
      case 6: return named("tanh", torch::tanh(x));
      case 7: return named("silu", torch::silu(x));
      case 8: return named("gelu", shaken_beside(torch::gelu(x), x));
      case 9: return named("gelu tanh", shaken_beside(torch::gelu(x, "tanh"), x));
      case 10: return named("mish", shaken_beside(torch::mish(x), x));
      case 11: return named("softplus", F::softplus(x));
      case 12: return named("elu", torch::elu(x));
      case 13: return named("selu", torch::selu(x));
      case 14: return named("celu", torch::celu(x, 1.5));
      case 15: return named("hardswish", torch::hardswish(x));
      case 16: return named("hardsigmoid", torch::hardsigmoid(x));
      case 17: return named("hardtanh", unsigned_zeros(torch::hardtanh(x, -0.5, 0.75)));
      case 18: return named("relu", unsigned_zeros(torch::relu(x)));
      case 19: return named("relu6", unsigned_zeros(torch::relu6(x)));
      case 20: return named("leaky_relu", torch::leaky_relu(x, 0.2));
      case 21: return named("log_sigmoid", torch::log_sigmoid(x));
      case 22: return named("softshrink", torch::softshrink(x));
      case 23: return named("hardshrink", torch::hardshrink(x));
      case 24: return named("threshold", torch::threshold(x, 0.1, -7));
      case 25: return named("erf", torch::erf(x));
      case 26: return named("erfc", torch::erfc(x));
      case 27: return named("expm1", torch::expm1(x));
      case 28: return named("log1p", torch::log1p(x));
      case 29: return named("log2", torch::log2(x));
      case 30: return named("log10", torch::log10(x));
      case 31: return named("exp2", torch::exp2(x));
      case 32: return named("sin", torch::sin(x));
      case 33: return named("cos", torch::cos(x));
      case 34: return named("atan", torch::atan(x));
      case 35: return named("asinh", torch::asinh(x));
      case 36: return named("acosh", torch::acosh(x));
      case 37: return named("atanh", torch::atanh(x));
      case 38: return named("sinh", torch::sinh(x));
      case 39: return named("cosh", torch::cosh(x));
      case 40: return named("tan", torch::tan(x));
      case 41: return named("floor", torch::floor(x));
      case 42: return named("round", torch::round(x));
      case 43: return named("frac", torch::frac(x));
      case 44: return named("sign", torch::sign(x));
      case 45: return named("abs", torch::abs(x));
      case 46: return named("neg", -x);
      case 47: return named("square", torch::square(x));
      case 48: return named("pow 3", x.pow(3));
      case 49: return named("pow -2", x.pow(-2));
      case 50: return named("pow 0.5", x.pow(0.5));
      case 51: return named("pow 1.7", x.pow(1.7));
      case 52: return named("nan_to_num", x.nan_to_num(1, 2, -3));
      case 53: return named("clamp", unsigned_zeros(x.clamp(-2, 3)));
      case 54: return named("ndtr", shaken_beside(torch::special::ndtr(x), x));
      case 55: return named("entr", torch::special::entr(x));
      case 56: return named("sinc", shaken_beside(torch::sinc(x), x));
      case 57: return named("logit", torch::logit(x));
      case 58: return named("silu by hand", x * torch::sigmoid(x));
      case 59: return named("gelu by hand", shaken_beside(x * 0.5 * (torch::erf(x / std::sqrt(2.)) + 1), x));
      case 60: return named("mish by hand", shaken_beside(x * torch::tanh(torch::log1p(torch::exp(x))), x));
      case 61: return named("elu by hand", torch::where(x > 0, x, torch::expm1(x)));
      case 62: return named("log of sigmoid", torch::log(shaken(torch::sigmoid(x))));
      case 63: return named("softplus by hand", shaken_beside(torch::log(torch::exp(x) + 1), x));
      case 64: return named("asin", torch::asin(x));
      default: return named("acos", torch::acos(x));
    }
  }
  Tensor of_two(unsigned which, const Tensor& x, const Tensor& y) {
    switch (which % of_two_count) {
      case 0: return named("+", x + y);
      case 1: return named("-", x - y);
      case 2: return named("*", x * y);
      case 3: return named("/", x / y);
      case 4: return named("maximum", unsigned_zeros(torch::maximum(x, y)));
      case 5: return named("minimum", unsigned_zeros(torch::minimum(x, y)));
      case 6: return named("fmax", unsigned_zeros(torch::fmax(x, y)));
      case 7: return named("fmin", unsigned_zeros(torch::fmin(x, y)));
      case 8: return named("pow", torch::pow(x, y));
      case 9: return named("atan2", torch::atan2(x, y));
      case 10: return named("hypot", torch::hypot(x, y));
      case 11: return named("logaddexp", shaken_beside(torch::logaddexp(x, y), x));
      case 12: return named("fmod", torch::fmod(x, y));
      case 13: return named("remainder", torch::remainder(x, y));
      case 14: return named("copysign", torch::copysign(x, y));
      case 15: return named("xlogy", torch::xlogy(x, y));
      case 16: return named("lerp 0.3", torch::lerp(x, y, 0.3));
      case 17: return named("lerp 0.8", torch::lerp(x, y, 0.8));
      case 18: return named("add 2", torch::add(x, y, 2));
      case 19: return named("sub 0.5", torch::sub(x, y, 0.5));
      case 20: return named("addcmul", torch::addcmul(x, y, x, 0.5));
      case 21: return named("addcdiv", torch::addcdiv(x, y, x, 2));
      case 22: return named("where", torch::where(x > y, x, y));
      case 23: return named("where inf", torch::where(y > 0, x, torch::full({}, -INFINITY)));
      case 24: return named("masked_fill", x.masked_fill(y > 0.5, -INFINITY));
      case 25: return named("masked_fill inf", x.masked_fill(y < -0.5, INFINITY));
      case 26: return named("heaviside", torch::heaviside(x, y));
      case 27: return named("times reciprocal", x * (1 / y));
      case 28: return named("by root", x / torch::sqrt(torch::abs(y)));
      default: return named("rsub 3", torch::rsub(x, y, 3));
    }
  }
  Tensor of_numbers(unsigned which, const Tensor& x) {
    switch (which % of_numbers_count) {
      case 0: return named("* 1e25 * 1e-25", x * 1e25 * 1e-25);
      case 1: return named("* 1e-25 * 1e25", x * 1e-25 * 1e25);
      case 2: return named("/ 3 * 7", x / 3 * 7);
      case 3: return named("1 /", 1 / x);
      case 4: return named("- 3", x - 3);
      case 5: return named("3 -", 3 - x);
      case 6: return named("0 -", 0 - x);
      case 7: return named("+ 0", x + 0);
      case 8: return named("* 0", x * 0);
      case 9: return named("/ 0", x / 0);
      case 10: return named("+ inf", x + INFINITY);
      case 11: return named("* -1", x * -1);
      case 12: return named("* 2 / 4", x * 2 / 4);
      default: return named("fmod 3", torch::fmod(x, 3));
    }
  }
  Tensor of_rows(unsigned which, const Tensor& x) {
    const std::int64_t n = x.size(-1);
    switch (which % 26) {
      case 0: return named("softmax", torch::softmax(x, -1));
      case 1: return named("softmax of columns", torch::softmax(x, x.dim() - 2));
      case 2: return named("log_softmax", shaken_beside(torch::log_softmax(x, -1), x));
      case 3: return named("log_softmax of columns", shaken_beside(torch::log_softmax(x, x.dim() - 2), x));
      case 4: return named("log of softmax", shaken_beside(torch::log(shaken(torch::softmax(x, -1))), x));
      case 5: return named("exp of log_softmax", torch::exp(shaken_beside(torch::log_softmax(x, -1), x)));
      case 6: return named("less logsumexp", shaken_beside(x - shaken(torch::logsumexp(x, {-1}, true)), x));
      case 7: return named("logsumexp", shaken_beside(x + torch::logsumexp(x, {x.dim() - 2}, true), x));
      case 8: return named("less amax", x - x.amax({-1}, true));
      case 9: return named("by sum", unsigned_zeros(x / shaken(summed(x).sum({-1}, true))));
      case 10: return named("less mean", x - shaken(summed(x).mean({-1}, true)));
      case 11: return named("amin", x * x.amin({x.dim() - 2}, true));
      case 12: return named("by deviation", x / torch::sqrt(shaken(summed(x).var({-1}, false, true)) + 1e-3));
      case 13: return named("by norm", x / shaken(torch::norm(summed(x), 2, {-1}, true)));
      case 14: return named("cumsum", unsigned_zeros(summed(x).cumsum(-1)));
      case 15: return named("layer_norm", torch::layer_norm(summed(x), {n}, {}, {}, 1e-3));
      case 16: return named("rms by hand", x * torch::rsqrt(shaken((summed(x) * x).mean({-1}, true)) + 1e-3));
      case 17: return named("norm by hand", (x - shaken(summed(x).mean({-1}, true))) / torch::sqrt(shaken(x.var({-1}, false, true)) + 1e-3));
      case 18: return named("softmax by hand", torch::exp(x) / shaken(summed(torch::exp(x)).sum({-1}, true)));
      case 19: {
        const Tensor e = torch::exp(x - x.amax({-1}, true));
        return named("softmax by hand, shifted", e / shaken(e.sum({-1}, true)));
      }
      case 20: return named("argmax", x * x.argmax(-1, true).to(torch::kFloat));
      case 21: return named("any", torch::where((x > 1).any(-1, true), x, -x));
      case 22: return named("sort", unsigned_zeros(std::get<0>(x.sort(-1))));
      case 23: return named("max", x + std::get<0>(x.max(-1, true)));
      case 24: return named("rms_norm", torch::rms_norm(summed(x), {n}, {}, 1e-3));
      default: return named("less log of sum", shaken_beside(x - torch::log(shaken(summed(torch::exp(x)).sum({-1}, true))), x));
    }
  }
  Tensor of_matrices(unsigned which, const Tensor& x, const Tensor& y) {
    signs_ = false;
    switch (which % 5) {
      case 0: return named("linear", torch::linear(summed(x), square_, bias_));
      case 1: return named("linear without bias", torch::linear(summed(x), square_));
      case 2: return named("matmul", torch::matmul(summed(x), square_));
      case 3: return named("product of two", torch::matmul(torch::matmul(summed(x), shaken(summed(y.t()))), x));
      default: return named("addmm", torch::addmm(bias_, summed(x), square_, 0.5, 2));
    }
  }
  Tensor of_images(unsigned which, const Tensor& x) {
    if (x.dim() != 4 || x.size(1) != 4 || x.size(2) < 4 || x.size(3) < 4) return of_one(which, x);
    signs_ = false;
    switch (which % 9) {
      case 0: return named("convolution", torch::conv2d(summed(x), kernel_, bias_, 1, 1));
      case 1: return named("convolution 1 x 1", torch::conv2d(summed(x), point_));
      case 2: return named("batch norm", torch::batch_norm(summed(x), {}, bias_, mean_, variance_, false, 0.1, 1e-3, false));
      case 3:
        return named("convolution, batch norm",
                     torch::batch_norm(shaken(torch::conv2d(summed(x), kernel_, {}, 1, 1)), {}, bias_, mean_, variance_, false,
                                       0.1, 1e-3, false));
      case 4: return named("max_pool2d", torch::max_pool2d(x, 3, 1, 1));
      case 5: return named("avg_pool2d", torch::avg_pool2d(summed(x), 3, 1, 1));
      case 6: return named("group_norm", torch::group_norm(summed(x), 2, {}, {}, 1e-3));
      case 7: return named("mean of pixels", x * shaken(summed(x).mean({2, 3}, true)));
      default: return named("upsampled", torch::upsample_nearest2d(x, {8, 7}).slice(2, 1, 7));
    }
  }

  Net& net_;
  Kind kind_ = Kind::matrix;
  std::vector<unsigned> steps_;
  Tensor square_, bias_, kernel_, point_, mean_, variance_;
  std::vector<std::string> names_;
  bool signs_ = true;
};

/// What an element of a graph's result is to be.
struct SpecialExpectation {
  Tensors results;              // as doubles
  std::vector<Tensor> allowed;  // how far off each may be; nan: anything may come
};
/// Runs the programs as they are, and shaken.
inline SpecialExpectation special_expectation(std::vector<SpecialProgram>& programs, const Tensors& inputs) {
  const torch::NoGradGuard no_grad;
  SpecialExpectation expected;
  SpecialRun run;
  special_run() = &run;
  for (SpecialProgram& program : programs) {
    run = {};
    const Tensor result = program.run(cloned(inputs)).to(torch::kDouble);
    Tensor allowed = result.abs() * 1e-5;
    const bool lost = run.in_order;
    const Tensor flat = result.contiguous().view({-1});
    for (int i = 0; i < 4; ++i) {
      run = {.shaken = true};
      const Tensor other = program.run(cloned(inputs)).to(torch::kDouble);
      const Tensor otherwise = other.contiguous().view({-1});
      Tensor off = (other - result).abs() * 8;
      off = off.contiguous();
      double* const p = off.data_ptr<double>();
      for (std::int64_t k = 0; k < flat.numel(); ++k)
        if (!same_class(flat.data_ptr<double>()[k], otherwise.data_ptr<double>()[k], true)) p[k] = NAN;
        else if (!std::isfinite(p[k])) p[k] = 0;
      allowed = torch::maximum(allowed.nan_to_num(0, 0, 0) + allowed * 0, off);
      for (std::int64_t k = 0; k < flat.numel(); ++k)
        if (!std::isfinite(flat.data_ptr<double>()[k]) && !std::isnan(p[k])) allowed.view({-1})[k] = 0;
    }
    if (lost) allowed.fill_(NAN);
    expected.results.push_back(result);
    expected.allowed.push_back(allowed);
  }
  special_run() = nullptr;
  return expected;
}

struct SpecialCounts {
  std::size_t compared = 0, special = 0, left_out = 0;
};
/// Where a result is of another class, or further off than rounding explains; empty when nowhere.
inline std::string special_difference(const c10::IValue& given, const SpecialExpectation& expected,
                                      const std::vector<SpecialProgram>& programs, SpecialCounts& counts) {
  const Tensors results = tensors_of(given);
  if (results.size() != expected.results.size()) return "number of results";
  for (std::size_t r = 0; r < results.size(); ++r) {
    if (results[r].sizes() != expected.results[r].sizes()) return "sizes of " + programs[r].text();
    const auto flat = [](const Tensor& t) { return t.to(torch::kDouble).contiguous().view({-1}); };
    const Tensor a = flat(results[r]), b = flat(expected.results[r]), off = flat(expected.allowed[r]);
    for (std::int64_t i = 0; i < b.numel(); ++i) {
      const double x = a.data_ptr<double>()[i], y = b.data_ptr<double>()[i], allowed = off.data_ptr<double>()[i];
      if (std::isnan(allowed)) {
        ++counts.left_out;
        continue;
      }
      ++counts.compared;
      counts.special += !std::isfinite(y);
      if (!same_class(x, y, programs[r].signs_of_zeros()) || (std::isfinite(y) && !(std::abs(x - y) <= allowed + 1e-37)))
        return "element " + std::to_string(i) + " is " + repr(x) + " instead of " + repr(y) + " within " + repr(allowed) +
               ": " + programs[r].text();
    }
  }
  return {};
}

}  // namespace fxx::test
