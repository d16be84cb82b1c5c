// Softmax and normalisation of rows beside double precision.
#include "fxx/kernels/rows.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "kernels/native.hpp"

using namespace fxx::kernels;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity(), no_number = std::numeric_limits<float>::quiet_NaN();
constexpr float untouched = -12345.f;
constexpr double epsilon = std::numeric_limits<float>::epsilon();

// `exact` are the results; `bound` says how far one may be from that, of an element and what `scale` says of its row.
struct Soft {
  static constexpr const char* name = "softmax";
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
  static double scale(const std::vector<float>& x) { return *std::max_element(x.begin(), x.end()); }
  static double bound(double largest, double x, double exact) {
    return (4 + (largest - x) / 2) * epsilon * exact + 3e-45;
  }
};
struct LogSoft {
  static constexpr const char* name = "log_softmax";
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
  static double scale(const std::vector<float>&) { return 0; }
  static double bound(double, double, double exact) { return 1.5 * epsilon * (std::abs(exact) + 1); }
};
struct Layer {
  static constexpr const char* name = "layer_norm";
  template <int N, class Get, class Put>
  static void run(const Get& get, const Put& put) { layer_norm<N>(1e-5f, get, put); }
  static double deviation(const std::vector<float>& x) {
    const double mean = std::accumulate(x.begin(), x.end(), 0.0) / double(x.size());
    double squares = 0;
    for (const float v : x) squares += (v - mean) * (v - mean);
    return std::sqrt(squares / double(x.size()) + double(1e-5f));
  }
  static std::vector<double> exact(const std::vector<float>& x) {
    const double mean = std::accumulate(x.begin(), x.end(), 0.0) / double(x.size()), own = deviation(x);
    std::vector<double> result;
    for (const float v : x) result.push_back((v - mean) / own);
    return result;
  }
  /// What rounding the mean leaves, in units of 2^-23.
  static double scale(const std::vector<float>& x) {
    double magnitude = 0;
    for (const float v : x) magnitude += std::abs(double(v));
    return magnitude / double(x.size()) / deviation(x);
  }
  static double bound(double lost, double, double exact) { return 2 * epsilon * (std::abs(exact) + lost); }
};
struct Rms {
  static constexpr const char* name = "rms_norm";
  template <int N, class Get, class Put>
  static void run(const Get& get, const Put& put) { rms_norm<N>(1e-5f, get, put); }
  static std::vector<double> exact(const std::vector<float>& x) {
    double squares = 0;
    std::vector<double> result;
    for (const float v : x) squares += double(v) * v;
    for (const float v : x) result.push_back(v / std::sqrt(squares / double(x.size()) + double(1e-5f)));
    return result;
  }
  static double scale(const std::vector<float>&) { return 0; }
  static double bound(double, double, double exact) { return 2 * epsilon * std::abs(exact) + 1e-37; }
};
/// Columns of three copies of the row, the second upside down and the third in another order.
template <bool Log>
struct Columns {
  static constexpr const char* name = Log ? "column_log_softmax" : "column_softmax";
  template <int N, class Get, class Put>
  static void run(const Get& get, const Put& put) {
    float rows[N * 3], out[N * 3];
    const auto place = [](int i, int c) { return c == 0 ? i : c == 1 ? N - 1 - i : (i + N / 2) % N; };
    for (int i = 0; i < N; ++i)
      for (int c = 0; c < 3; ++c) rows[place(i, c) * 3 + c] = get(i, Width<1>{})[0];
    const auto from = [&](int r, int c, auto width)
                          __attribute__((always_inline)) { return load_some<width>(rows + r * 3 + c); };
    const auto to = [&](int r, int c, real v, auto width)
                        __attribute__((always_inline)) { store_some<width>(out + r * 3 + c, v); };
    if constexpr (Log) column_log_softmax<N, 3>(from, to);
    else column_softmax<N, 3>(from, to);
    bool same = true;
    for (int i = 0; i < N; ++i) {
      // The order of the sum tells them apart by little.
      const float first = out[i * 3];
      for (int c = 1; c < 3; ++c) {
        const float other = out[place(i, c) * 3 + c];
        same = same && (std::isnan(first) ? std::isnan(other)
                                          : other == first || std::abs(other - first) <=
                                                                  8e-7f * std::max(1.f, std::abs(first)));
      }
      put(i, splat(first), Width<1>{});
    }
    CHECK(same);
  }
  static std::vector<double> exact(const std::vector<float>& x) { return Log ? LogSoft::exact(x) : Soft::exact(x); }
  static double scale(const std::vector<float>& x) { return Soft::scale(x); }
  static double bound(double largest, double x, double exact) {
    return Log ? LogSoft::bound(largest, x, exact) : Soft::bound(largest, x, exact);
  }
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
void check_row(float spread, float mean, unsigned seed) {
  CAPTURE(N);
  CAPTURE(spread);
  CAPTURE(mean);
  std::vector<float> x = fxx::test::random_floats(N, N + seed);
  for (float& v : x) v = v * spread + mean;
  const std::vector<float> given = computed<Case, N>(x);
  const std::vector<double> exact = Case::exact(x);
  const double scale = Case::scale(x);
  bool near = true;
  for (std::size_t i = 0; i < N; ++i)
    near = near && fxx::test::within(Case::name, std::abs(given[i] - exact[i]), Case::bound(scale, x[i], exact[i]));
  CHECK(near);
}
template <class Case, int... N>
void check_rows_of(std::integer_sequence<int, N...>) {
  for (unsigned seed = 0; seed < 5; ++seed)
    for (const float spread : {0.1f, 1.f, 30.f})
      for (const float mean : {0.f, 5.f}) (check_row<Case, N>(spread, mean, seed), ...);
}
template <class Case>
void check_rows() {  // the last is too long to be kept
  check_rows_of<Case>(std::integer_sequence<int, 1, 2, 7, 16, 33, 128, 1000, 5003>());
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

TEST_CASE("softmax of columns, of those that are kept and of longer ones") {
  using Lengths = std::integer_sequence<int, 1, 2, 7, 128, 131, 1000>;
  check_rows_of<Columns<false>>(Lengths());
  check_rows_of<Columns<true>>(Lengths());
}

TEST_CASE("softmax of columns, vectors of them and parts") {
  constexpr int rows = 5, columns = 4 * lanes + 3;
  const std::vector<float> x = fxx::test::random_floats(rows * columns, 3);
  std::vector<float> whole;
  for (int parts = 1; parts <= 3; ++parts) {
    std::vector<float> out(rows * columns, untouched);
    for (int index = 0; index < parts; ++index)
      column_softmax<rows, columns>(
          [&](int r, int c, auto width)
              __attribute__((always_inline)) { return load_some<width>(x.data() + r * columns + c); },
          [&](int r, int c, real v, auto width)
              __attribute__((always_inline)) { store_some<width>(out.data() + r * columns + c, v); },
          Part{index, parts});
    if (parts == 1) whole = out;
    CHECK(out == whole);
  }
  for (int c = 0; c < columns; ++c) {
    std::vector<float> column;
    for (int r = 0; r < rows; ++r) column.push_back(x[r * columns + c]);
    const std::vector<double> exact = Soft::exact(column);
    for (std::size_t r = 0; r < rows; ++r)
      CHECK(fxx::test::within("column_softmax", std::abs(whole[r * columns + c] - exact[r]),
                              Soft::bound(Soft::scale(column), column[r], exact[r])));
  }
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

namespace {
template <class Case, int N>
void check_all_nan() {
  CAPTURE(Case::name);
  CAPTURE(N);
  for (const float special : {no_number, infinity})
    for (const int at : {0, 7 % N, N - 1}) {
      std::vector<float> x = fxx::test::random_floats(N, 1);
      x[at] = special;
      const std::vector<float> out = computed<Case, N>(x);
      CHECK(std::all_of(out.begin(), out.end(), [](float v) { return std::isnan(v); }));
    }
}
}  // namespace

TEST_CASE("nan and plus infinity make the row nan, as in LibTorch") {
  check_all_nan<Soft, 1>();
  check_all_nan<Soft, 19>();
  check_all_nan<Soft, 5003>();
  check_all_nan<LogSoft, 1>();
  check_all_nan<LogSoft, 19>();
  check_all_nan<LogSoft, 5003>();
  check_all_nan<Layer, 1>();
  check_all_nan<Layer, 19>();
  check_all_nan<Layer, 5003>();
  check_all_nan<Columns<false>, 19>();
  check_all_nan<Columns<false>, 131>();
  check_all_nan<Columns<true>, 19>();
  check_all_nan<Columns<true>, 131>();
}

TEST_CASE("minus infinity is e^x = 0 among others, nan where there are no others, and no number of a norm") {
  constexpr int N = 21;
  std::vector<float> x = fxx::test::random_floats(N, 1);
  x[5] = -infinity;
  CHECK(computed<Soft, N>(x)[5] == 0);
  CHECK(computed<LogSoft, N>(x)[5] == -infinity);
  CHECK(computed<Columns<false>, N>(x)[5] == 0);
  CHECK(computed<Columns<true>, N>(x)[5] == -infinity);
  CHECK(std::isfinite(computed<LogSoft, N>(x)[4]));
  CHECK(std::isnan(computed<Layer, N>(x)[4]));
  const std::vector<float> none(N, -infinity);
  CHECK(std::isnan(computed<LogSoft, N>(none)[3]));
  CHECK(std::isnan(computed<Columns<false>, N>(none)[3]));
  CHECK(std::isnan(computed<Columns<true>, N>(none)[3]));
}

TEST_CASE("an infinite element of an rms norm is nan, and leaves 0 of the others, as in LibTorch") {
  constexpr int N = 19;
  for (const float special : {infinity, -infinity}) {
    std::vector<float> x = fxx::test::random_floats(N, 1);
    x[7] = special;
    const std::vector<float> out = computed<Rms, N>(x);
    for (int i = 0; i < N; ++i) CHECK((i == 7 ? std::isnan(out[i]) : out[i] == 0));
  }
  std::vector<float> x = fxx::test::random_floats(N, 1);
  x[18] = no_number;
  for (const float v : computed<Rms, N>(x)) CHECK(std::isnan(v));
}

TEST_CASE("logarithms of sums of exponentials, also of endless elements") {
  const auto of = []<int N>(const std::vector<float>& x, Width<N>) {
    return row_log_sum_exp<N>(
        [&](int c, auto width) __attribute__((always_inline)) { return load_some<width>(x.data() + c); });
  };
  const auto check = [&]<int N>(Width<N> n) {
    CAPTURE(N);
    for (unsigned seed = 0; seed < 5; ++seed)
      for (const float spread : {0.1f, 1.f, 30.f})
        for (const float mean : {0.f, -7.f, 90.f}) {
          std::vector<float> x = fxx::test::random_floats(N, N + seed);
          for (float& v : x) v = v * spread + mean;
          const double most = *std::max_element(x.begin(), x.end());
          double total = 0;
          for (const float v : x) total += std::exp(v - most);
          const double exact = most + std::log(total);
          CHECK(fxx::test::within("row_log_sum_exp", std::abs(of(x, n) - exact),
                                  epsilon * (std::abs(exact) + std::abs(most) + 1)));
        }
  };
  check(Width<1>());
  check(Width<2>());
  check(Width<7>());
  check(Width<33>());
  check(Width<1000>());
  check(Width<5003>());
  CHECK(of({1000, 1000}, Width<2>()) == doctest::Approx(1000 + std::log(2.0)));
  CHECK(of({1, infinity, 2}, Width<3>()) == infinity);
  CHECK(of({-infinity, -infinity}, Width<2>()) == -infinity);
  CHECK(of({-infinity, 3}, Width<2>()) == 3);
  CHECK(std::isnan(of({1, no_number, 2}, Width<3>())));
  CHECK(std::isnan(of({infinity, no_number, 2}, Width<3>())));
}

namespace {
/// The norms, and behind them what nobody is to touch.
template <GroupShape Shape>
std::vector<float> group_normed(const std::vector<float>& x) {
  std::vector<float> out(x.size() + 1, untouched), workspace(Shape.workspace() + 1, untouched);
  group_norm<Shape>(
      1e-5f, workspace.data(),
      [&](int pixel, int c, auto width) __attribute__((always_inline)) {
        return load_some<width>(x.data() + pixel * Shape.channels + c);
      },
      [&](int pixel, int c, real v, auto width) __attribute__((always_inline)) {
        store_some<width>(out.data() + pixel * Shape.channels + c, v);
      });
  CHECK(out.back() == untouched);
  CHECK(workspace.back() == untouched);
  return out;
}
/// `odd`: what stands in the first group, which becomes nan, and leaves the others as they are.
template <GroupShape Shape>
void check_groups(float mean, unsigned seed, float odd = 0) {
  INFO("pixels ", Shape.pixels, ", channels ", Shape.channels, ", groups ", Shape.groups);
  constexpr int size = Shape.channels / Shape.groups;
  std::vector<float> x = fxx::test::random_floats(Shape.pixels * Shape.channels, seed);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] += mean + static_cast<float>(i % Shape.channels / size) * 3;
  if (odd != 0) x[Shape.pixels / 2 * Shape.channels] = odd;
  const std::vector<float> out = group_normed<Shape>(x);
  bool near = true;
  for (int group = 0; group < Shape.groups; ++group) {
    double sum = 0, squares = 0, magnitude = 0;
    const auto each = [&](auto f) {
      for (int pixel = 0; pixel < Shape.pixels; ++pixel)
        for (int c = group * size; c < (group + 1) * size; ++c) f(pixel * Shape.channels + c);
    };
    each([&](int i) { sum += x[i], magnitude += std::abs(x[i]); });
    const double own_mean = sum / (Shape.pixels * size);
    each([&](int i) { squares += (x[i] - own_mean) * (x[i] - own_mean); });
    const double deviation = std::sqrt(squares / (Shape.pixels * size) + double(1e-5f));
    const double lost = magnitude / (Shape.pixels * size) / deviation;
    each([&](int i) {
      if (group == 0 && odd != 0) {
        near = near && std::isnan(out[i]);
      } else {
        const double exact = (x[i] - own_mean) / deviation;
        near = near && fxx::test::within("group_norm", std::abs(out[i] - exact), 3 * epsilon * (std::abs(exact) + lost));
      }
    });
  }
  CHECK(near);
}
template <GroupShape Shape>
void check_groups() {
  for (unsigned seed = 0; seed < 5; ++seed)
    for (const float mean : {0.f, 50.f}) check_groups<Shape>(mean, seed);
  for (const float odd : {no_number, infinity, -infinity}) check_groups<Shape>(0, 7, odd);
}
}  // namespace

TEST_CASE("norms of groups of channels are those of double precision") {
  check_groups<GroupShape{.pixels = 5, .channels = 1, .groups = 1}>();
  check_groups<GroupShape{.pixels = 49, .channels = 12, .groups = 4}>();
  check_groups<GroupShape{.pixels = 300, .channels = 66, .groups = 3}>();
  check_groups<GroupShape{.pixels = 17, .channels = 19, .groups = 19}>();
}

namespace {
template <int N>
void check_even_row(float value) {
  INFO("elements ", N, ", each ", value);
  const std::vector<float> x(N, value);
  std::vector<float> out(N, untouched);
  layer_norm<N>(
      1e-5f, [&](int c, auto width) __attribute__((always_inline)) { return load_some<width>(x.data() + c); },
      [&](int c, real v, auto width) __attribute__((always_inline)) { store_some<width>(out.data() + c, v); });
  CHECK(out == std::vector<float>(N, 0.f));
}
/// Each group of one value.
template <GroupShape Shape>
void check_even_groups() {
  INFO("pixels ", Shape.pixels, ", channels ", Shape.channels, ", groups ", Shape.groups);
  std::vector<float> x(Shape.pixels * Shape.channels);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = 1000.3f + 7.7f * static_cast<float>(i % Shape.channels / Shape.size());
  std::vector<float> out = group_normed<Shape>(x);
  out.pop_back();
  CHECK(out == std::vector<float>(x.size(), 0.f));
}
}  // namespace

TEST_CASE("what differs in long rows and groups of almost one value is normed") {
  constexpr int N = 65536;
  std::vector<float> x(N, 1722379392.f), out(N, untouched);
  x[1000] += 128;
  layer_norm<N>(
      1e-5f, [&](int c, auto width) __attribute__((always_inline)) { return load_some<width>(x.data() + c); },
      [&](int c, real v, auto width) __attribute__((always_inline)) { store_some<width>(out.data() + c, v); });
  CHECK(out[1000] == doctest::Approx(256).epsilon(1e-3));  // 128 and a deviation of 1 / 2
  CHECK(std::abs(out[0]) < 0.01);
  CHECK(std::abs(out[N - 1]) < 0.01);
  // Each channel a group, that between of one value.
  constexpr GroupShape shape{.pixels = 16384, .channels = 3, .groups = 3};
  x.assign(shape.pixels * 3, 1722379392.f);
  x[1000 * 3] += 128;
  x[1000 * 3 + 2] += 128;
  out = group_normed<shape>(x);
  CHECK(out[1000 * 3] == doctest::Approx(128).epsilon(1e-3));
  CHECK(out[1000 * 3 + 1] == 0);
  CHECK(out[1000 * 3 + 2] == doctest::Approx(128).epsilon(1e-3));
  CHECK(std::abs(out[0]) < 0.01);
}

TEST_CASE("rows and groups of one value are normed to zero") {
  for (const float value : {0.1f, 1000.3f, -4e6f, 1e18f}) {
    check_even_row<1>(value);
    check_even_row<33>(value);
    check_even_row<768>(value);
    check_even_row<5000>(value);
  }
  check_even_groups<GroupShape{.pixels = 1, .channels = 8, .groups = 2}>();
  check_even_groups<GroupShape{.pixels = 49, .channels = 12, .groups = 4}>();
  check_even_groups<GroupShape{.pixels = 300, .channels = 66, .groups = 3}>();
  check_even_groups<GroupShape{.pixels = 1024, .channels = 19, .groups = 19}>();
}
