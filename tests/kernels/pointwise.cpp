// The functions of kernels against double precision, on every instruction set that this processor has, and the loop.
#include "fxx/kernels/pointwise.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "kernels/errors.hpp"

using namespace fxx::kernels;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity(), no_number = std::numeric_limits<float>::quiet_NaN();
constexpr float smallest = std::numeric_limits<float>::denorm_min(), largest = std::numeric_limits<float>::max();

std::vector<InstructionSet> instruction_sets() {
  std::vector<InstructionSet> sets;
  for (int i = 0; i <= static_cast<int>(instruction_set()); ++i) sets.push_back(static_cast<InstructionSet>(i));
  return sets;
}

template <class E>
std::vector<float> computed(const std::vector<std::vector<float>>& inputs, InstructionSet set,
                            const std::vector<float>& numbers = {}) {
  std::vector<float> out(inputs[0].size(), -7.f);
  PointwiseLoop loop{.out = out.data(), .count = out.size()};
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    loop.inputs[k] = inputs[k].data();
    loop.steps[k] = inputs[k].size() == 1 && out.size() != 1 ? 0 : 1;
  }
  for (std::size_t k = 0; k < numbers.size(); ++k) loop.numbers[k] = numbers[k];
  run_pointwise(kernel<E>, loop, set);
  return out;
}

std::vector<float> positive(std::vector<float> x) {
  for (float& v : x) v = std::abs(v);
  return x;
}
/// Numbers of both signs over all magnitudes up to `most`, and evenly between -`most` and `most`.
std::vector<float> range(float most) {
  std::vector<float> x;
  for (double v = smallest; v <= most; v *= 1.0078125)
    x.push_back(static_cast<float>(v)), x.push_back(static_cast<float>(-v));
  for (int i = -20000; i <= 20000; ++i) x.push_back(most * static_cast<float>(i) / 20000);
  return x;
}

/// The signature names the expression.
template <class E>
const char* name_of() {
  return __PRETTY_FUNCTION__;
}

struct Distance {
  double units = 0;  // the largest
  float at = 0;
};
/// In units of the last place of the exact value, one of the smallest normal number where it is smaller.
/// `of_x`: in units of the argument, or of 1, where these are larger.
template <class E, class Exact>
Distance distance(const std::vector<float>& inputs, InstructionSet set, Exact exact, double of_x = 0, double of_1 = 0) {
  const std::vector<float> given = computed<E>({inputs}, set);
  Distance found;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const double wanted = exact(static_cast<double>(inputs[i])), difference = std::abs(given[i] - wanted);
    if (given[i] == static_cast<float>(wanted)) continue;
    const double size =
        std::max({std::abs(wanted), 1.1754943508222875e-38, of_x * std::abs(static_cast<double>(inputs[i])), of_1});
    const double unit = std::ldexp(1.0, std::ilogb(size) - 23);
    if (!(difference / unit <= found.units)) found = {difference / unit, inputs[i]};
  }
  return found;
}
template <class E, class Exact>
void check_within(double units, const std::vector<float>& inputs, Exact exact, double of_x = 0, double of_1 = 0) {
  for (const InstructionSet set : instruction_sets()) {
    const Distance found = distance<E>(inputs, set, exact, of_x, of_1);
    CAPTURE(static_cast<int>(set));
    CAPTURE(found.at);
    CHECK(fxx::test::within(name_of<E>(), found.units, units));
  }
}
/// And arguments at which a function was found to be farthest from the exact value.
std::vector<float> with(std::vector<float> inputs, std::initializer_list<float> more) {
  inputs.insert(inputs.end(), more);
  return inputs;
}
template <Function F, class Exact>
void check_within(double units, const std::vector<float>& inputs, Exact exact, double of_x = 0, double of_1 = 0) {
  CAPTURE(static_cast<int>(F));
  check_within<Apply<F, Input<0>>>(units, inputs, exact, of_x, of_1);
}
/// The value of a function, on every instruction set; also that they agree.
template <Function F, class... A>
float at(A... x) {
  const std::vector<std::vector<float>> inputs{std::vector<float>(1, x)...};
  const auto value = [&]<int... I>(std::integer_sequence<int, I...>, InstructionSet set) {
    return computed<Apply<F, Input<I>...>>(inputs, set)[0];
  };
  const auto indices = std::make_integer_sequence<int, int(sizeof...(A))>();
  const float first = value(indices, InstructionSet::plain);
  for (const InstructionSet set : instruction_sets()) {
    const float other = value(indices, set);
    CAPTURE(static_cast<int>(F));
    CAPTURE(static_cast<int>(set));
    CHECK((first == other || (std::isnan(first) && std::isnan(other))));
  }
  return first;
}

}  // namespace

TEST_CASE("functions are as near to the exact value as they say") {
  using F = Function;
  check_within<F::exponential>(1.5, range(90), [](double v) { return std::exp(v); });
  check_within<F::exponential_minus_1>(2.5, range(90), [](double v) { return std::expm1(v); });
  check_within<F::logarithm>(1, positive(range(largest)), [](double v) { return std::log(v); });
  check_within<F::hyperbolic_tangent>(3, with(range(20), {0.0624158792f}), [](double v) { return std::tanh(v); });
  check_within<F::sigmoid>(2.5, range(86), [](double v) { return 1 / (1 + std::exp(-v)); });
  check_within<F::error>(2, range(6), [](double v) { return std::erf(v); });
  check_within<F::silu>(3, range(88), [](double v) { return v / (1 + std::exp(-v)); });
  check_within<F::mish>(4, range(86), [](double v) { return v * std::tanh(std::log1p(std::exp(v))); });
  check_within<F::log_sigmoid>(
      3, range(86), [](double v) { return v < 0 ? v - std::log1p(std::exp(v)) : -std::log1p(std::exp(-v)); });
  check_within<F::square_root>(0.51, positive(range(largest)), [](double v) { return std::sqrt(v); });
  check_within<F::reciprocal_root>(1.5, positive(range(largest)), [](double v) { return 1 / std::sqrt(v); });
  check_within<F::reciprocal>(0.51, range(1e37f), [](double v) { return 1 / v; });
}

TEST_CASE("angles and logarithms are as near to the exact value as they say") {
  using F = Function;
  for (const float most : {8.f, 8000.f, 1e6f, 1e34f}) {
    check_within<F::sine>(2.5, with(range(most), {4505.16895f}), [](double v) { return std::sin(v); });
    check_within<F::cosine>(2.5, with(range(most), {2228.89746f}), [](double v) { return std::cos(v); });
    check_within<F::tangent>(4.5, with(range(most), {5817.4502f}), [](double v) { return std::tan(v); });
  }
  // Beside multiples of pi / 2, where all but the last bits cancel.
  std::vector<float> multiples;
  for (int i = -5200; i < 5200; ++i)
    for (const float to : {-infinity, 0.f, infinity}) {
      const float near = static_cast<float>(i * std::acos(0.0));
      multiples.push_back(to == 0 ? near : std::nextafter(near, to));
    }
  check_within<F::sine>(2, multiples, [](double v) { return std::sin(v); });
  check_within<F::cosine>(2, multiples, [](double v) { return std::cos(v); });
  check_within<F::tangent>(4, multiples, [](double v) { return std::tan(v); });
  check_within<F::arc_sine>(2.5, range(1), [](double v) { return std::asin(v); });
  check_within<F::arc_cosine>(2, range(1), [](double v) { return std::acos(v); });
  for (const float most : {1.f, 10.f, 1e34f}) {
    check_within<F::arc_tangent>(2.5, range(most), [](double v) { return std::atan(v); });
    check_within<F::inverse_hyperbolic_sine>(3, range(most), [](double v) { return std::asinh(v); });
    check_within<F::logarithm_2>(2, positive(range(most)), [](double v) { return std::log2(v); });
    check_within<F::logarithm_10>(2, positive(range(most)), [](double v) { return std::log10(v); });
  }
  check_within<F::hyperbolic_sine>(2.5, range(89.4f), [](double v) { return std::sinh(v); });
  check_within<F::hyperbolic_cosine>(2, range(89.4f), [](double v) { return std::cosh(v); });
  check_within<F::inverse_hyperbolic_tangent>(4, range(0.99999f), [](double v) { return std::atanh(v); });
  check_within<F::exponential_2>(1.5, range(127.9f), [](double v) { return std::exp2(v); });
  check_within<F::complementary_error>(7, with(range(10), {0.0246734396f}), [](double v) { return std::erfc(v); });
  std::vector<float> above_1 = positive(range(1e6f)), above_minus_1 = range(0.99999f);
  for (float& v : above_1) v += 1;
  for (float v = 1; v < 1e37f; v *= 1.01f) above_minus_1.push_back(v);
  check_within<F::inverse_hyperbolic_cosine>(4, above_1, [](double v) { return std::acosh(v); });
  check_within<F::logarithm_1_plus>(2, above_minus_1, [](double v) { return std::log1p(v); });
  check_within<F::selu>(4, range(86), [](double v) {
    return 1.0507009873554804934 * (v > 0 ? v : 1.6732632423543772848 * std::expm1(v));
  });
}

TEST_CASE("functions of two arguments are as near to the exact value as they say") {
  using F = Function;
  std::vector<float> x = range(30), y;
  const std::vector<float> more = range(1e30f);
  x.insert(x.end(), more.begin(), more.end());
  for (std::size_t i = 0; i < x.size(); ++i) y.push_back(x[i * 7919 % x.size()] * (i % 3 ? 1.f : 1e-3f));
  std::vector<float> base = positive(x), exponent;
  for (std::size_t i = 0; i < x.size(); ++i)
    exponent.push_back(base[i] == 0 ? 1 : static_cast<float>((i * 7919 % 1001 / 500. - 1) * 88 / std::log(base[i])));
  const auto check = [](auto expression, double units, const auto& a, const auto& b, auto exact) {
    for (const InstructionSet set : instruction_sets()) {
      const std::vector<float> given = computed<decltype(expression)>({a, b}, set);
      double worst = 0;
      float worst_a = 0, worst_b = 0;
      for (std::size_t i = 0; i < a.size(); ++i) {
        const double wanted = exact(static_cast<double>(a[i]), static_cast<double>(b[i]));
        if (given[i] == static_cast<float>(wanted)) continue;
        if (std::isnan(given[i]) && std::isnan(wanted)) continue;
        const double unit = std::ldexp(1.0, std::ilogb(std::max(std::abs(wanted), 1.1754943508222875e-38)) - 23);
        if (!(std::abs(given[i] - wanted) / unit <= worst))
          worst = std::abs(given[i] - wanted) / unit, worst_a = a[i], worst_b = b[i];
      }
      CAPTURE(static_cast<int>(set));
      CAPTURE(worst_a);
      CAPTURE(worst_b);
      CHECK(fxx::test::within(name_of<decltype(expression)>(), worst, units));
    }
  };
  const auto power = [](double a, double b) { return std::pow(a, b); };
  const auto rest = [](double a, double b) { return std::fmod(a, b); };
  check(Apply<F::power, Input<0>, Input<1>>(), 1.5, base, exponent, power);
  check(Apply<F::power, Input<0>, Input<1>>(), 1.5, std::vector<float>{3, -3, -2, 1.5f, 10, 2, -2},
        std::vector<float>{40, 15, -3, -0.3f, -38, 100.5f, 3.5f}, power);
  check(Apply<F::arc_tangent_2, Input<0>, Input<1>>(), 2.5, x, y, [](double a, double b) { return std::atan2(a, b); });
  check(Apply<F::rest_of_division, Input<0>, Input<1>>(), 0, x, y, rest);
  check(Apply<F::remainder, Input<0>, Input<1>>(), 0.51, x, y, [](double a, double b) {
    const double r = std::fmod(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
  });
  check(Apply<F::elu, Input<0>, Input<1>>(), 3, range(30), positive(range(30)),
        [](double a, double b) { return a > 0 ? a : b * std::expm1(a); });
  // What is divided is not denormal.
  std::vector<float> divided = range(30), alphas = positive(divided);
  for (std::size_t i = 0; i < alphas.size(); ++i) alphas[i] = std::abs(divided[i * 7919 % alphas.size()]) + 1e-20f;
  for (float& v : divided) v += v < 0 ? -1e-30f : 1e-30f;
  check(Apply<F::celu, Input<0>, Input<1>>(), 4, divided, alphas,
        [](double a, double b) { return a > 0 ? a : b * std::expm1(a / b); });
  check(Apply<F::leaky_relu, Input<0>, Input<1>>(), 0.51, range(30), range(30),
        [](double a, double b) { return a > 0 ? a : a * b; });
}

TEST_CASE("roundings are exact, and even where two integers are as near") {
  using F = Function;
  std::vector<float> x = range(100);
  for (const float most : {1e6f, 16777216.f, 1e34f})
    for (const float v : range(most)) x.push_back(v);
  for (int i = -40; i <= 40; ++i) x.push_back(static_cast<float>(i) / 2);
  const auto exactly = [&]<F Which>(auto exact) {
    CAPTURE(static_cast<int>(Which));
    for (const InstructionSet set : instruction_sets()) {
      const std::vector<float> given = computed<Apply<Which, Input<0>>>({x}, set);
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < x.size(); ++i)
        wrong += given[i] != exact(x[i]) || std::signbit(given[i]) != std::signbit(x[i] == 0 ? given[i] : exact(x[i]));
      CHECK(wrong == 0);
    }
  };
  exactly.operator()<F::rounded>([](float v) { return std::nearbyint(v); });
  exactly.operator()<F::floor>([](float v) { return std::floor(v); });
  exactly.operator()<F::ceiling>([](float v) { return std::ceil(v); });
  exactly.operator()<F::truncated>([](float v) { return std::trunc(v); });
  for (const float v : {infinity, -infinity}) {
    CHECK(at<F::rounded>(v) == v);
    CHECK(at<F::floor>(v) == v);
    CHECK(at<F::ceiling>(v) == v);
    CHECK(at<F::truncated>(v) == v);
  }
}

TEST_CASE("expressions of several functions keep to what is said of them") {
  using F = Function;
  using Square = Apply<F::square, Input<0>>;
  check_within<Apply<F::softplus, Input<0>, Constant<0x3f800000>, Constant<0x41a00000>>>(
      3, range(86), [](double v) { return v > 20 ? v : std::log1p(std::exp(v)); });
  check_within<Apply<F::multiply, Square, Input<0>>>(1.5, range(1e12f), [](double v) { return v * v * v; });
  check_within<Apply<F::square, Square>>(2, range(1e9f), [](double v) { return v * v * v * v; });
}

TEST_CASE("functions that cancel are near in units of their argument, or of one") {
  using F = Function;
  check_within<F::gelu>(
      4, range(10), [](double v) { return v / 2 * std::erfc(-v / std::sqrt(2.)); }, 1);
  check_within<F::gelu_of_onednn>(
      4, range(10), [](double v) { return v / 2 * std::erfc(-v / std::sqrt(2.)); }, 1);
  check_within<F::gelu_by_tanh>(
      2.5, range(10),
      [](double v) { return v / 2 * (1 + std::tanh(std::sqrt(2 / std::acos(-1.)) * (v + 0.044715 * v * v * v))); }, 1);
  check_within<F::hard_sigmoid>(
      1, range(5), [](double v) { return std::min(std::max(v + 3, 0.), 6.) / 6; }, 0, 1);
  check_within<F::hard_swish>(
      2, range(5), [](double v) { return v * std::min(std::max(v + 3, 0.), 6.) / 6; }, 1);
}

TEST_CASE("beyond the range of numbers functions end as the exact ones do") {
  using F = Function;
  CHECK(at<F::exponential>(89.f) == infinity);
  CHECK(at<F::exponential>(88.7f) == doctest::Approx(std::exp(88.7)));
  CHECK(at<F::exponential>(infinity) == infinity);
  CHECK(at<F::exponential>(-infinity) == 0);
  CHECK(at<F::exponential>(-100.f) > 0);
  CHECK(at<F::exponential>(-1000.f) == 0);
  CHECK(at<F::exponential_minus_1>(infinity) == infinity);
  CHECK(at<F::exponential_minus_1>(-infinity) == -1);
  CHECK(at<F::logarithm>(0.f) == -infinity);
  CHECK(at<F::logarithm>(-0.f) == -infinity);
  CHECK(at<F::logarithm>(infinity) == infinity);
  CHECK(std::isnan(at<F::logarithm>(-1.f)));
  CHECK(std::isnan(at<F::logarithm>(-infinity)));
  CHECK(at<F::sigmoid>(infinity) == 1);
  CHECK(at<F::sigmoid>(-infinity) == 0);
  CHECK(at<F::hyperbolic_tangent>(infinity) == 1);
  CHECK(at<F::hyperbolic_tangent>(-infinity) == -1);
  CHECK(std::signbit(at<F::hyperbolic_tangent>(-0.f)));
  for (const float zero : {0.f, -0.f}) {
    for (const float y : {at<F::sine>(zero), at<F::tangent>(zero), at<F::exponential_minus_1>(zero)}) {
      CHECK(y == 0);
      CHECK(std::signbit(y) == std::signbit(zero));
    }
    CHECK(at<F::cosine>(zero) == 1);
  }
  CHECK(at<F::hyperbolic_tangent>(smallest) == smallest);
  CHECK(at<F::error>(infinity) == 1);
  CHECK(at<F::error>(-infinity) == -1);
  CHECK(std::isnan(at<F::square_root>(-1.f)));
  CHECK(at<F::square_root>(infinity) == infinity);
  CHECK(at<F::reciprocal>(0.f) == infinity);
  CHECK(at<F::mish>(infinity) == infinity);
  CHECK(at<F::log_sigmoid>(-1000.f) == -1000);
  CHECK(at<F::softplus>(1000.f, 1.f, 20.f) == 1000);
  CHECK(at<F::softplus>(-1000.f, 1.f, 20.f) == 0);
  CHECK(at<F::relu>(-infinity) == 0);
  CHECK(at<F::relu>(infinity) == infinity);
  CHECK(at<F::softplus>(infinity, 1.f, 20.f) == infinity);
  CHECK(at<F::softplus>(-infinity, 1.f, 20.f) == 0);
  CHECK(at<F::log_sigmoid>(infinity) == 0);
  CHECK(at<F::log_sigmoid>(-infinity) == -infinity);
  CHECK(at<F::hard_sigmoid>(infinity) == 1);
  CHECK(at<F::hard_sigmoid>(-infinity) == 0);
  // Endless times nothing, as in LibTorch.
  CHECK(std::isnan(at<F::gelu>(-infinity)));
  CHECK(std::isnan(at<F::gelu_by_tanh>(-infinity)));
  CHECK(std::isnan(at<F::silu>(-infinity)));
  CHECK(std::isnan(at<F::mish>(-infinity)));
  CHECK(std::isnan(at<F::hard_swish>(-infinity)));
  CHECK(at<F::gelu>(infinity) == infinity);
  CHECK(at<F::gelu>(3e38f) == 3e38f);
  // As oneDNN's.
  for (const float endless : {infinity, -infinity}) CHECK(std::isnan(at<F::gelu_of_onednn>(endless)));
  CHECK(at<F::gelu_of_onednn>(3e38f) == infinity);
  CHECK(at<F::gelu_of_onednn>(1e38f) == 1e38f);
  CHECK(at<F::gelu_of_onednn>(-10.f) == 0);
  CHECK(std::signbit(at<F::gelu_of_onednn>(-10.f)));
  CHECK_FALSE(std::signbit(at<F::log_sigmoid>(200.f)));
  CHECK(at<F::multiply_add>(3.f, 2.f, -5.f) == 1);
  CHECK(at<F::gelu_by_tanh>(infinity) == infinity);
  CHECK(at<F::silu>(infinity) == infinity);
  CHECK(at<F::hard_swish>(infinity) == infinity);
  CHECK(at<F::selu>(infinity) == infinity);
  CHECK(at<F::elu>(infinity, 2.f) == infinity);
  CHECK(at<F::celu>(infinity, 2.f) == infinity);
  CHECK(at<F::leaky_relu>(infinity, 0.1f) == infinity);
  CHECK(at<F::leaky_relu>(-infinity, 0.1f) == -infinity);
  CHECK(at<F::square>(-infinity) == infinity);
  CHECK(at<F::reciprocal>(-infinity) == 0);
  CHECK(at<F::reciprocal>(-0.f) == -infinity);
  CHECK(at<F::reciprocal_root>(0.f) == infinity);
  CHECK(at<F::reciprocal_root>(infinity) == 0);
  CHECK(std::isnan(at<F::reciprocal_root>(-1.f)));
  CHECK(at<F::sign>(-infinity) == -1);
  for (const float v : {infinity, -infinity}) {
    CHECK(std::isnan(at<F::sine>(v)));
    CHECK(std::isnan(at<F::cosine>(v)));
    CHECK(std::isnan(at<F::tangent>(v)));
    CHECK(std::isnan(at<F::arc_sine>(v)));
    CHECK(std::isnan(at<F::arc_cosine>(v)));
    CHECK(at<F::arc_tangent>(v) == std::atan(v));
    CHECK(at<F::hyperbolic_sine>(v) == v);
    CHECK(at<F::hyperbolic_cosine>(v) == infinity);
    CHECK(at<F::inverse_hyperbolic_sine>(v) == v);
  }
  CHECK(std::isnan(at<F::arc_sine>(1.0001f)));
  CHECK(std::isnan(at<F::arc_cosine>(-2.f)));
  CHECK(at<F::hyperbolic_sine>(90.f) == infinity);
  CHECK(at<F::hyperbolic_cosine>(-1000.f) == infinity);
  CHECK(std::isnan(at<F::inverse_hyperbolic_cosine>(0.5f)));
  CHECK(at<F::inverse_hyperbolic_cosine>(infinity) == infinity);
  CHECK(at<F::inverse_hyperbolic_tangent>(1.f) == infinity);
  CHECK(at<F::inverse_hyperbolic_tangent>(-1.f) == -infinity);
  CHECK(std::isnan(at<F::inverse_hyperbolic_tangent>(1.5f)));
  CHECK(at<F::exponential_2>(128.f) == infinity);
  CHECK(at<F::exponential_2>(infinity) == infinity);
  CHECK(at<F::exponential_2>(-infinity) == 0);
  CHECK(at<F::exponential_2>(-149.f) == smallest);
  for (int i = -126; i < 128; ++i) {
    CHECK(at<F::exponential_2>(float(i)) == std::ldexp(1.f, i));
    CHECK(at<F::logarithm_2>(std::ldexp(1.f, i)) == i);
  }
  for (const float v : {0.f, -1.f, -infinity, infinity, smallest}) {
    const auto same = [](float a, double b) {
      return std::isnan(b) ? std::isnan(a) : a == float(b) || a == doctest::Approx(b);
    };
    CHECK(same(at<F::logarithm_2>(v), std::log2(double(v))));
    CHECK(same(at<F::logarithm_10>(v), std::log10(double(v))));
    CHECK(same(at<F::logarithm_1_plus>(v), std::log1p(double(v))));
  }
  CHECK(at<F::complementary_error>(infinity) == 0);
  CHECK(at<F::complementary_error>(-infinity) == 2);
  CHECK(at<F::complementary_error>(10.f) == doctest::Approx(std::erfc(10.0)).epsilon(1e-3));
  CHECK(at<F::selu>(-infinity) == doctest::Approx(-1.7580993408473766));
  CHECK(at<F::elu>(-infinity, 2.f) == -2);
  CHECK(at<F::celu>(-infinity, 2.f) == -2);
  CHECK(at<F::sign>(no_number) == 0);
  CHECK(at<F::sign>(-smallest) == -1);
  CHECK(at<F::sign>(3.f) == 1);
}

TEST_CASE("powers, angles and rests of special numbers are those of C, and of Python") {
  using F = Function;
  const std::vector<float> some = {0.f,   -0.f,  1.f,   -1.f,     0.5f,     -0.5f,    2.f,       -2.f,     3.f,
                                   -3.f,  2.5f,  1e30f, -1e30f,   1e-40f,   smallest, -smallest, infinity, -infinity,
                                   1e38f, 3e38f, 16777217.f, largest, -largest, no_number, 7.f, -7.f, 1e-10f};
  const auto same = [](float a, double b, float units) {
    if (std::isnan(b)) return std::isnan(a);
    const float rounded = static_cast<float>(b);
    if (a == rounded) return a != 0 || std::signbit(a) == std::signbit(rounded);
    return std::abs(a - b) <= units * std::max(std::abs(b) * 1.2e-7, 1.5e-45);
  };
  for (const float x : some)
    for (const float y : some) {
      CAPTURE(x);
      CAPTURE(y);
      CHECK(same(at<F::power>(x, y), std::pow(double(x), double(y)), 2));
      CHECK(same(at<F::arc_tangent_2>(x, y), std::atan2(double(x), double(y)), 3));
      CHECK(same(at<F::rest_of_division>(x, y), std::fmod(x, y), 0));
      const float rest = std::fmod(x, y), wanted = rest != 0 && (y < 0) != (rest < 0) ? rest + y : rest;
      CHECK(same(at<F::remainder>(x, y), wanted, 0));
    }
  // As LibTorch has them.
  CHECK(at<F::floor_divide>(5.f, -3.f) == -2);
  CHECK(at<F::floor_divide>(-5.f, 3.f) == -2);
  CHECK(at<F::floor_divide>(-5.f, -3.f) == 1);
  CHECK(at<F::floor_divide>(-5.f, infinity) == -1);
  CHECK(at<F::floor_divide>(-6.f, 0.f) == -infinity);
  CHECK(at<F::floor_divide>(-1e-8f, 3.f) == -1);
  CHECK(std::isnan(at<F::floor_divide>(infinity, 3.f)));
}

TEST_CASE("what numbers are can be asked, and comparisons be combined") {
  using F = Function;
  const std::vector<float> x = {1, 0, no_number, infinity, -infinity, largest};
  const auto ones = [&]<class Mask>(Mask, const std::vector<float>& wanted) {
    for (const InstructionSet set : instruction_sets())
      CHECK(computed<Apply<F::select, Mask, Constant<0x3f800000>, Constant<0>>>({x}, set) == wanted);
  };
  using Nan = Apply<F::is_nan, Input<0>>;
  using Infinite = Apply<F::is_infinite, Input<0>>;
  ones(Nan(), {0, 0, 1, 0, 0, 0});
  ones(Infinite(), {0, 0, 0, 1, 1, 0});
  ones(Apply<F::is_finite, Input<0>>(), {1, 1, 0, 0, 0, 1});
  ones(Apply<F::logical_or, Nan, Infinite>(), {0, 0, 1, 1, 1, 0});
  ones(Apply<F::logical_and, Infinite, Apply<F::less, Input<0>, Constant<0>>>(), {0, 0, 0, 0, 1, 0});
  ones(Apply<F::logical_xor, Infinite, Apply<F::less, Input<0>, Constant<0>>>(), {0, 0, 0, 1, 0, 0});
  ones(Apply<F::logical_not, Nan>(), {1, 1, 0, 1, 1, 1});
}

TEST_CASE("nan stays nan, and is neither less nor greater") {
  using F = Function;
  for (const float value : {at<F::negate>(no_number),
                            at<F::absolute>(no_number),
                            at<F::square_root>(no_number),
                            at<F::square>(no_number),
                            at<F::reciprocal>(no_number),
                            at<F::reciprocal_root>(no_number),
                            at<F::add>(no_number, 1.f),
                            at<F::subtract>(1.f, no_number),
                            at<F::multiply>(no_number, 0.f),
                            at<F::divide>(0.f, no_number),
                            at<F::arc_tangent_2>(no_number, 1.f),
                            at<F::rest_of_division>(1.f, no_number),
                            at<F::remainder>(no_number, 1.f),
                            at<F::floor_divide>(no_number, 1.f),
                            at<F::power>(no_number, 2.f),
                            at<F::exponential>(no_number),
                            at<F::exponential_minus_1>(no_number),
                            at<F::logarithm>(no_number),
                            at<F::error>(no_number),
                            at<F::hyperbolic_tangent>(no_number),
                            at<F::sigmoid>(no_number),
                            at<F::relu>(no_number),
                            at<F::silu>(no_number),
                            at<F::gelu>(no_number),
                            at<F::gelu_by_tanh>(no_number),
                            at<F::hard_sigmoid>(no_number),
                            at<F::hard_swish>(no_number),
                            at<F::mish>(no_number),
                            at<F::log_sigmoid>(no_number),
                            at<F::sine>(no_number),
                            at<F::cosine>(no_number),
                            at<F::tangent>(no_number),
                            at<F::arc_sine>(no_number),
                            at<F::arc_cosine>(no_number),
                            at<F::arc_tangent>(no_number),
                            at<F::hyperbolic_sine>(no_number),
                            at<F::hyperbolic_cosine>(no_number),
                            at<F::inverse_hyperbolic_sine>(no_number),
                            at<F::inverse_hyperbolic_cosine>(no_number),
                            at<F::inverse_hyperbolic_tangent>(no_number),
                            at<F::exponential_2>(no_number),
                            at<F::logarithm_2>(no_number),
                            at<F::logarithm_10>(no_number),
                            at<F::logarithm_1_plus>(no_number),
                            at<F::complementary_error>(no_number),
                            at<F::rounded>(no_number),
                            at<F::floor>(no_number),
                            at<F::ceiling>(no_number),
                            at<F::truncated>(no_number),
                            at<F::selu>(no_number),
                            at<F::elu>(no_number, 1.f),
                            at<F::celu>(no_number, 1.f),
                            at<F::maximum>(no_number, 1.f),
                            at<F::maximum>(1.f, no_number),
                            at<F::minimum>(no_number, 1.f),
                            at<F::minimum>(1.f, no_number),
                            at<F::leaky_relu>(no_number, 0.1f),
                            at<F::softplus>(no_number, 1.f, 20.f)})
    CHECK(std::isnan(value));
  using Less = Apply<F::select, Apply<F::less, Input<0>, Input<1>>, Constant<0x3f800000>, Constant<0>>;
  using Equal = Apply<F::select, Apply<F::not_equal, Input<0>, Input<1>>, Constant<0x3f800000>, Constant<0>>;
  for (const InstructionSet set : instruction_sets()) {
    CHECK(computed<Less>({{1, 2, no_number, 1}, {2, 1, 1, no_number}}, set) == std::vector<float>{1, 0, 0, 0});
    CHECK(computed<Equal>({{1, 2, no_number, -0.f}, {1, 1, no_number, 0.f}}, set) == std::vector<float>{0, 1, 1, 0});
  }
}

TEST_CASE("arithmetic is that of single numbers") {
  using F = Function;
  const std::vector<float> some = {0.f, -0.f, 1.f, -2.5f, 3e38f, smallest, infinity, -infinity};
  for (const float x : some)
    for (const float y : some) {
      CAPTURE(x);
      CAPTURE(y);
      const auto same = [](float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); };
      CHECK(same(at<F::add>(x, y), x + y));
      CHECK(same(at<F::subtract>(x, y), x - y));
      CHECK(same(at<F::multiply>(x, y), x * y));
      CHECK(same(at<F::divide>(x, y), x / y));
      CHECK(same(at<F::maximum>(x, y), std::max(x, y)));
      CHECK(same(at<F::minimum>(x, y), std::min(x, y)));
    }
}

TEST_CASE("a loop writes all elements and no others, whatever their number") {
  using Sum = Apply<Function::add, Apply<Function::multiply, Input<0>, Number<0>>, Input<1>>;
  for (const InstructionSet set : instruction_sets())
    for (const std::size_t n : {0, 1, 2, 3, 5, 7, 8, 9, 13, 15, 16, 17, 31, 32, 33, 101, 257, 1009}) {
      CAPTURE(static_cast<int>(set));
      CAPTURE(n);
      std::vector<float> x(n), out(n + 2, -1), wanted(n + 2, -1);
      for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<float>(i);
      const float one = 0.5f;
      for (std::size_t i = 0; i < n; ++i) wanted[i + 1] = x[i] * 3 + one;
      run_pointwise(kernel<Sum>,
                    {.out = out.data() + 1, .inputs = {x.data(), &one}, .steps = {1, 0}, .numbers = {3}, .count = n},
                    set);
      CHECK(out == wanted);
    }
}

TEST_CASE("elements that lie apart, or backwards, are gathered, and the result is spread") {
  using Difference = Apply<Function::subtract, Input<0>, Input<1>>;
  for (const InstructionSet set : instruction_sets())
    for (const std::size_t n : {1, 7, 256, 257, 600}) {
      std::vector<float> x(3 * n), y(n), out(2 * n, -1), wanted(2 * n, -1);
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * i % 97);
      for (std::size_t i = 0; i < n; ++i) y[i] = static_cast<float>(i);
      for (std::size_t i = 0; i < n; ++i) wanted[2 * i] = x[3 * i] - y[n - 1 - i];
      run_pointwise(
          kernel<Difference>,
          {.out = out.data(), .inputs = {x.data(), y.data() + n - 1}, .steps = {3, -1}, .count = n, .out_step = 2},
          set);
      CHECK(out == wanted);
    }
}
