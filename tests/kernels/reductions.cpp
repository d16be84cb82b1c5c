// Reductions of rows and columns beside double precision.
#include "fxx/kernels/reductions.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/native.hpp"

using namespace fxx::kernels;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity(), no_number = std::numeric_limits<float>::quiet_NaN();
constexpr double epsilon = std::numeric_limits<float>::epsilon();

/// A row that ends where its elements do.
auto from(const std::vector<float>& x) {
  return [&x](int c, auto width) __attribute__((always_inline)) { return load_some<width>(x.data() + c); };
}
struct Exact {
  double sum = 0, magnitude = 0, squares = 0, mean = 0, variance = 0, cubes = 0;
};
Exact exact_of(const std::vector<float>& x, double correction) {
  Exact e;
  for (const float v : x) {
    const double size = std::abs(double(v));
    e.sum += v, e.magnitude += size, e.squares += size * size, e.cubes += size * size * size;
  }
  e.mean = e.sum / double(x.size());
  for (const float v : x) e.variance += (v - e.mean) * (v - e.mean);
  e.variance /= std::max(0.0, double(x.size()) - correction);
  return e;
}
bool near(double given, double wanted, double bound) {
  return given == wanted || (std::isnan(given) && std::isnan(wanted)) || std::abs(given - wanted) <= bound;
}

// What is asked several times is compiled once.
template <int N>
__attribute__((noinline)) int place_of_largest(const std::vector<float>& x) { return row_arg_largest<N>(from(x)); }
template <int N>
__attribute__((noinline)) int place_of_smallest(const std::vector<float>& x) { return row_arg_smallest<N>(from(x)); }
template <int N>
__attribute__((noinline)) float largest_of(const std::vector<float>& x) { return row_largest<N>(from(x)); }
template <int N>
__attribute__((noinline)) float smallest_of(const std::vector<float>& x) { return row_smallest<N>(from(x)); }
template <int N>
__attribute__((noinline)) float sum_of(const std::vector<float>& x) { return row_sum<N>(from(x)); }
template <int N>
__attribute__((noinline)) bool any_of(const std::vector<float>& x) { return row_any<N>(from(x)); }
template <int N>
__attribute__((noinline)) bool all_of(const std::vector<float>& x) { return row_all<N>(from(x)); }

template <int N>
void check_row() {
  CAPTURE(N);
  const std::vector<float> x = fxx::test::random_floats(N, N);
  const Exact exact = exact_of(x, 1);
  const auto get = from(x);
  const double units = 8 + 8 * std::max(0.0, std::log(double(N) / lanes) / std::log(16.0));
  CHECK(near(sum_of<N>(x), exact.sum, units * epsilon * exact.magnitude));
  CHECK(near(row_mean<N>(get), exact.mean, (units + 1) * epsilon * exact.magnitude / N));
  CHECK(largest_of<N>(x) == *std::max_element(x.begin(), x.end()));
  CHECK(smallest_of<N>(x) == *std::min_element(x.begin(), x.end()));
  CHECK(place_of_largest<N>(x) == std::max_element(x.begin(), x.end()) - x.begin());
  CHECK(place_of_smallest<N>(x) == std::min_element(x.begin(), x.end()) - x.begin());
  const Moments moments = row_moments<N>(get);
  CHECK(near(moments.mean, exact.mean, (units + 1) * epsilon * exact.magnitude / N));
  CHECK(near(moments.variance, exact.variance, (units + 4) * epsilon * exact.variance));
  CHECK(near(row_variance<N>(get, 0.f), exact_of(x, 0).variance, (units + 4) * epsilon * exact.squares / N + 1e-30));
  CHECK(near(row_norm<N>(2.f, get), std::sqrt(exact.squares), units * epsilon * std::sqrt(exact.squares)));
  CHECK(near(row_norm<N>(1.f, get), exact.magnitude, units * epsilon * exact.magnitude));
  CHECK(near(row_norm<N>(3.f, get), std::cbrt(exact.cubes), units * epsilon * std::cbrt(exact.cubes)));
  CHECK(row_norm<N>(0.f, get) == N);
  CHECK(row_norm<N>(infinity, get) == std::max(largest_of<N>(x), -smallest_of<N>(x)));
  CHECK(any_of<N>(x));
  CHECK(all_of<N>(x));
  double product = 1;
  std::vector<float> factors(x);
  for (float& v : factors) v = 1 + v * 0.01f, product *= double(v);
  CHECK(near(row_product<N>(from(factors)), product, N * epsilon * product));
  for (const int at : {0, N / 2, N - 1}) {
    std::vector<float> one(N, 0.f);
    CHECK_FALSE(any_of<N>(one));
    one[at] = no_number;
    CHECK(any_of<N>(one));
    CHECK(all_of<N>(one) == (N == 1));
    CHECK(place_of_largest<N>(one) == at);
    CHECK(place_of_smallest<N>(one) == at);
    CHECK(std::isnan(largest_of<N>(one)));
    CHECK(std::isnan(smallest_of<N>(one)));
    CHECK(std::isnan(sum_of<N>(one)));
    std::vector<float> low(N, -infinity);
    CHECK(place_of_largest<N>(low) == 0);
    CHECK(largest_of<N>(low) == -infinity);
    low[at] = -1;
    CHECK(place_of_largest<N>(low) == at);
    std::vector<float> all(N, 1.f);
    CHECK(place_of_largest<N>(all) == 0);
    CHECK(all_of<N>(all));
    all[at] = 0;
    CHECK_FALSE(all_of<N>(all));
    all[at] = 2;
    all[N - 1] = 2;
    CHECK(place_of_largest<N>(all) == at);
  }
}

template <int Rows, int Columns>
void check_columns() {
  INFO("rows ", Rows, ", columns ", Columns);
  const std::vector<float> x = fxx::test::random_floats(Rows * Columns, Rows);
  const auto get = [&](int r, int c, auto width) __attribute__((always_inline)) {
    return load_some<width>(x.data() + r * Columns + c);
  };
  const auto results = [&](auto&& run) {
    std::vector<float> out(Columns);
    run([&](int c, real v, auto width) __attribute__((always_inline)) { store_some<width>(out.data() + c, v); });
    return out;
  };
  std::vector<float> variances(Columns);
  const auto sums = results([&](const auto& put) { column_sums<Rows, Columns>(get, put); });
  const auto means = results([&](const auto& put) { column_means<Rows, Columns>(get, put); });
  const auto most = results([&](const auto& put) { column_largest<Rows, Columns>(get, put); });
  const auto least = results([&](const auto& put) { column_smallest<Rows, Columns>(get, put); });
  const auto products = results([&](const auto& put) { column_products<Rows, Columns>(get, put); });
  const auto norms = results([&](const auto& put) { column_norms<Rows, Columns>(2.f, get, put); });
  const auto norms_1 = results([&](const auto& put) { column_norms<Rows, Columns>(1.f, get, put); });
  const auto norms_3 = results([&](const auto& put) { column_norms<Rows, Columns>(3.f, get, put); });
  const auto places = results([&](const auto& put) {
    column_arg_largest<Rows, Columns>(get, [&](int c, integer row, auto width) __attribute__((always_inline)) {
      put(c, __builtin_convertvector(row, real), width);
    });
  });
  const auto low_places = results([&](const auto& put) {
    column_arg_smallest<Rows, Columns>(get, [&](int c, integer row, auto width) __attribute__((always_inline)) {
      put(c, __builtin_convertvector(row, real), width);
    });
  });
  const auto moments = results([&](const auto& put) {
    column_moments<Rows, Columns>(get, 1.f, [&](int c, real mean, real variance, auto width)
                                                __attribute__((always_inline)) {
      put(c, mean, width);
      store_some<width>(variances.data() + c, variance);
    });
  });
  // Odd columns have a zero, columns that are divided by three have nothing else.
  const auto zeros = [&](int r, int c, auto width) __attribute__((always_inline)) {
    real v{};
    for (int i = 0; i < width; ++i) v[i] = (c + i) % 3 == 0 || ((c + i) % 2 == 1 && r == Rows / 2) ? 0.f : 1.f;
    return v;
  };
  const auto any_of = results([&](const auto& put) {
    column_any<Rows, Columns>(zeros, [&](int c, integer mask, auto width) __attribute__((always_inline)) {
      put(c, ones(mask), width);
    });
  });
  const auto all_of = results([&](const auto& put) {
    column_all<Rows, Columns>(zeros, [&](int c, integer mask, auto width) __attribute__((always_inline)) {
      put(c, ones(mask), width);
    });
  });
  const double units = 8 + 8 * std::max(0.0, std::log(double(Rows)) / std::log(16.0));
  for (int c = 0; c < Columns; ++c) {
    CAPTURE(c);
    std::vector<float> column;
    for (int r = 0; r < Rows; ++r) column.push_back(x[r * Columns + c]);
    const Exact exact = exact_of(column, 1);
    double product = 1;
    for (const float v : column) product *= double(v);
    CHECK(near(sums[c], exact.sum, units * epsilon * exact.magnitude));
    CHECK(near(means[c], exact.mean, units * epsilon * exact.magnitude / Rows));
    CHECK(near(moments[c], exact.mean, units * epsilon * exact.magnitude / Rows));
    CHECK(near(variances[c], exact.variance, (units + 4) * epsilon * exact.variance));
    CHECK(near(norms[c], std::sqrt(exact.squares), units * epsilon * std::sqrt(exact.squares)));
    CHECK(near(norms_1[c], exact.magnitude, units * epsilon * exact.magnitude));
    CHECK(near(norms_3[c], std::cbrt(exact.cubes), units * epsilon * std::cbrt(exact.cubes)));
    CHECK(near(products[c], product, Rows * epsilon * std::abs(product) + 1e-37));
    CHECK(most[c] == *std::max_element(column.begin(), column.end()));
    CHECK(least[c] == *std::min_element(column.begin(), column.end()));
    CHECK(places[c] == float(std::max_element(column.begin(), column.end()) - column.begin()));
    CHECK(low_places[c] == float(std::min_element(column.begin(), column.end()) - column.begin()));
    CHECK(any_of[c] == (c % 3 != 0 && !(Rows == 1 && c % 2 == 1) ? 1.f : 0.f));
    CHECK(all_of[c] == (c % 3 != 0 && c % 2 == 0 ? 1.f : 0.f));
  }
}

}  // namespace

TEST_CASE("reductions of rows are those of double precision") {
  check_row<1>();
  check_row<7>();
  check_row<37>();
  check_row<131>();
  check_row<4999>();
}

TEST_CASE("a million elements lose no more than a thousand") {
  constexpr int N = 1000003;
  std::vector<float> x(N);
  double exact = 0;
  for (int i = 0; i < N; ++i) exact += double(x[i] = 1 + static_cast<float>(i % 1000) * 1e-3f);
  CHECK(std::abs(row_sum<N>(from(x)) - exact) <= 4 * epsilon * exact);
  CHECK(std::abs(row_moments<N>(from(x)).variance - 0.0833332) <= 1e-6);
}

TEST_CASE("reductions of columns are those of double precision") {
  check_columns<1, 1>();
  check_columns<3, 17>();
  check_columns<37, 53>();
  check_columns<300, 71>();
  check_columns<4200, 5>();
}
