// Softmax and normalisation of rows beside double precision.
#include "fxx/kernels/rows.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/native.hpp"

using namespace fxx::kernels;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity(), no_number = std::numeric_limits<float>::quiet_NaN();
constexpr float untouched = -12345.f;
constexpr double epsilon = std::numeric_limits<float>::epsilon();

struct Soft {
  template <int N, class Get, class Put>
  static void run(const Get& get, const Put& put) { softmax<N>(get, put); }
  static std::vector<double> exact(const std::vector<float>& x) {
    const double most = *std::max_element(x.begin(), x.end());
    double total = 0;
    std::vector<double> result;
    for (const float v : x) total += std::exp(v - most);
    for (const float v : x) result.push_back(std::exp(v - most) / total);
    return result;
  }
  // x - largest is rounded, which the exponential shows as a part of the result.
  static double bound(double largest, double exact) { return (8 + largest) * epsilon * exact + 1e-37; }
};
struct LogSoft {
  template <int N, class Get, class Put>
  static void run(const Get& get, const Put& put) { log_softmax<N>(get, put); }
  static std::vector<double> exact(const std::vector<float>& x) {
    const double most = *std::max_element(x.begin(), x.end());
    double total = 0;
    std::vector<double> result;
    for (const float v : x) total += std::exp(v - most);
    for (const float v : x) result.push_back(v - most - std::log(total));
    return result;
  }
  static double bound(double largest, double exact) { return 4 * epsilon * (std::abs(exact) + largest + 1); }
};
struct Layer {
  template <int N, class Get, class Put>
  static void run(const Get& get, const Put& put) { layer_norm<N>(1e-5f, get, put); }
  static std::vector<double> exact(const std::vector<float>& x) {
    const double mean = std::accumulate(x.begin(), x.end(), 0.0) / double(x.size());
    double squares = 0;
    std::vector<double> result;
    for (const float v : x) squares += (v - mean) * (v - mean);
    for (const float v : x) result.push_back((v - mean) / std::sqrt(squares / double(x.size()) + double(1e-5f)));
    return result;
  }
  // What is left of the mean's rounding is divided by a deviation of about one, or by sqrt(eps).
  static double bound(double largest, double exact) { return 16 * epsilon * (std::abs(exact) + largest); }
};
struct Rms {
  template <int N, class Get, class Put>
  static void run(const Get& get, const Put& put) { rms_norm<N>(1e-5f, get, put); }
  static std::vector<double> exact(const std::vector<float>& x) {
    double squares = 0;
    std::vector<double> result;
    for (const float v : x) squares += double(v) * v;
    for (const float v : x) result.push_back(v / std::sqrt(squares / double(x.size()) + double(1e-5f)));
    return result;
  }
  static double bound(double, double exact) { return 16 * epsilon * std::abs(exact) + 1e-37; }
};

/// The row is exactly as large as what is read, and what is beside the results stays.
template <class Case, int N>
std::vector<float> computed(const std::vector<float>& x) {
  std::vector<float> out(N + 1, untouched);
  Case::template run<N>(
      [&](int c, auto width) __attribute__((always_inline)) { return load_some<width>(x.data() + c); },
      [&](int c, real v, auto width) __attribute__((always_inline)) { store_some<width>(out.data() + c, v); });
  CHECK(out[N] == untouched);
  out.pop_back();
  return out;
}
template <class Case, int N>
void check_row(float spread) {
  CAPTURE(N);
  CAPTURE(spread);
  std::vector<float> x = fxx::test::random_floats(N, N);
  for (float& v : x) v *= spread;
  double largest = 0, worst = 0;
  for (const float v : x) largest = std::max(largest, double(std::abs(v)));
  const std::vector<float> given = computed<Case, N>(x);
  const std::vector<double> exact = Case::exact(x);
  for (int i = 0; i < N; ++i)
    worst = std::max(worst, std::abs(given[i] - exact[i]) / Case::bound(largest, exact[i]));
  CHECK(worst <= 1);
}
template <class Case>
void check_rows() {
  for (const float spread : {1.f, 30.f}) {
    check_row<Case, 1>(spread);
    check_row<Case, 2>(spread);
    check_row<Case, 7>(spread);
    check_row<Case, 16>(spread);
    check_row<Case, 33>(spread);
    check_row<Case, 128>(spread);
    check_row<Case, 1000>(spread);
    check_row<Case, 5003>(spread);  // too long to be kept
  }
}

}  // namespace

TEST_CASE("softmax of rows is that of double precision") {
  check_rows<Soft>();
}
TEST_CASE("logarithms of softmax are those of double precision") {
  check_rows<LogSoft>();
}
TEST_CASE("layer norms of rows are those of double precision") {
  check_rows<Layer>();
}
TEST_CASE("rms norms of rows are those of double precision") {
  check_rows<Rms>();
}

TEST_CASE("what is masked with minus infinity gets nothing, and a row of nothing else is nan") {
  constexpr int N = 21;
  std::vector<float> x(N, -infinity);
  for (const float v : computed<Soft, N>(x)) CHECK(std::isnan(v));
  x[20] = 3;
  x[4] = -200;
  const std::vector<float> one = computed<Soft, N>(x);
  for (int i = 0; i < N; ++i) CHECK(one[i] == (i == 20 ? 1.f : 0.f));
}

TEST_CASE("nan and plus infinity make the row nan, as in LibTorch") {
  constexpr int N = 19;
  for (const float special : {no_number, infinity})
    for (const int at : {0, 7, 18}) {
      std::vector<float> x = fxx::test::random_floats(N, 1);
      x[at] = special;
      CHECK(std::isnan(computed<Soft, N>(x)[at]));
      CHECK(std::isnan(computed<Layer, N>(x)[3]));
      CHECK(std::isnan(computed<LogSoft, N>(x)[at]));
    }
}

TEST_CASE("logarithms of sums of exponentials, also of endless elements") {
  const auto of = []<int N>(const std::vector<float>& x, Width<N>) {
    return row_log_sum_exp<N>(
        [&](int c, auto width) __attribute__((always_inline)) { return load_some<width>(x.data() + c); });
  };
  const std::vector<float> x = fxx::test::random_floats(5003, 3);
  double total = 0;
  for (const float v : x) total += std::exp(double(v));
  CHECK(of(x, Width<5003>()) == doctest::Approx(std::log(total)).epsilon(1e-6));
  CHECK(of({1000, 1000}, Width<2>()) == doctest::Approx(1000 + std::log(2.0)));
  CHECK(of({1, infinity, 2}, Width<3>()) == infinity);
  CHECK(of({-infinity, -infinity}, Width<2>()) == -infinity);
  CHECK(std::isnan(of({1, no_number, 2}, Width<3>())));
}

namespace {
template <GroupShape Shape>
void check_groups() {
  INFO("pixels ", Shape.pixels, ", channels ", Shape.channels, ", groups ", Shape.groups);
  constexpr int size = Shape.channels / Shape.groups;
  std::vector<float> x = fxx::test::random_floats(Shape.pixels * Shape.channels, 7);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] += static_cast<float>(i % Shape.channels / size) * 3;
  std::vector<float> out(x.size() + 1, untouched);
  group_norm<Shape>(
      1e-5f,
      [&](int pixel, int c, auto width) __attribute__((always_inline)) {
        return load_some<width>(x.data() + pixel * Shape.channels + c);
      },
      [&](int pixel, int c, real v, auto width) __attribute__((always_inline)) {
        store_some<width>(out.data() + pixel * Shape.channels + c, v);
      });
  CHECK(out.back() == untouched);
  double worst = 0;
  for (int group = 0; group < Shape.groups; ++group) {
    double mean = 0, squares = 0;
    const auto each = [&](auto f) {
      for (int pixel = 0; pixel < Shape.pixels; ++pixel)
        for (int c = group * size; c < (group + 1) * size; ++c) f(pixel * Shape.channels + c);
    };
    each([&](int i) { mean += x[i]; });
    mean /= Shape.pixels * size;
    each([&](int i) { squares += (x[i] - mean) * (x[i] - mean); });
    const double factor = 1 / std::sqrt(squares / (Shape.pixels * size) + double(1e-5f));
    each([&](int i) { worst = std::max(worst, std::abs(out[i] - (x[i] - mean) * factor)); });
  }
  CHECK(worst <= 16 * epsilon * 3 * Shape.groups);
}
}  // namespace

TEST_CASE("norms of groups of channels are those of double precision") {
  check_groups<GroupShape{.pixels = 5, .channels = 1, .groups = 1}>();
  check_groups<GroupShape{.pixels = 49, .channels = 12, .groups = 4}>();
  check_groups<GroupShape{.pixels = 300, .channels = 66, .groups = 3}>();
  check_groups<GroupShape{.pixels = 17, .channels = 19, .groups = 19}>();
}
