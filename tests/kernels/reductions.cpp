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
/// Is it within so many units, each 2^-23 of `of`?
bool near(const char* what, double given, double wanted, double units, double of) {
  return given == wanted || (std::isnan(given) && std::isnan(wanted)) ||
         fxx::test::within(what, std::abs(given - wanted), units * epsilon * of);
}
double units_of_norm(double total, double p) { return 1 + (1.5 + std::abs(std::log(total)) / 4) / p; }
/// What an order like this one may lose at most.
double most_units(double additions) { return 8 + 8 * std::max(0.0, std::log(additions) / std::log(16.0)); }

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

/// Sums and what is made of them.
template <int N>
void check_sums(const std::vector<float>& x) {
  const Exact exact = exact_of(x, 1);
  const auto get = from(x);
  const double sum = sum_of<N>(x), most = most_units(double(N) / lanes), mean_size = exact.magnitude / N;
  CHECK(near("a sum: 8 + 8 log16 units", sum, exact.sum, most, exact.magnitude));
  CHECK(near("a sum", sum, exact.sum, 1, exact.magnitude));
  CHECK(near("a mean", row_mean<N>(get), exact.mean, 1, mean_size));
  // What the mean is off, squared, is added to the variance.
  const Moments moments = row_moments<N>(get);
  const double lost = 2 * epsilon * mean_size * mean_size, population = exact_of(x, 0).variance;
  CHECK(near("a mean", moments.mean, exact.mean, 1, mean_size));
  CHECK(near("a variance", moments.variance, exact.variance, 2, exact.variance + lost));
  CHECK(near("a variance", row_variance<N>(get, 0.f), population, 2, population + lost));
  const double norm_2 = std::sqrt(exact.squares);
  CHECK(near("a norm", row_norm<N>(2.f, get), norm_2, 1, norm_2));
  CHECK(near("a norm", row_norm<N>(1.f, get), exact.magnitude, 1, exact.magnitude));
  for (const float p : {0.5f, 0.7f, 1.5f, 3.f}) {
    CAPTURE(p);
    double total = 0;
    for (const float v : x) total += std::pow(std::abs(double(v)), double(p));
    const double norm = std::pow(total, 1 / double(p));
    CHECK(near("a norm with another exponent", row_norm<N>(p, get), norm, units_of_norm(total, p), norm));
  }
}

template <int N>
void check_row() {
  CAPTURE(N);
  const std::vector<float> x = fxx::test::random_floats(N, N);
  const auto get = from(x);
  check_sums<N>(x);
  check_sums<N>(fxx::test::positive_floats(N, N + 1));
  for (unsigned seed = 0; seed < 8; ++seed) {
    std::vector<float> far = fxx::test::random_floats(N, seed);
    for (float& v : far) v += seed % 2 ? 100.f : -3.f;
    check_sums<N>(far);
  }
  CHECK(largest_of<N>(x) == *std::max_element(x.begin(), x.end()));
  CHECK(smallest_of<N>(x) == *std::min_element(x.begin(), x.end()));
  CHECK(place_of_largest<N>(x) == std::max_element(x.begin(), x.end()) - x.begin());
  CHECK(place_of_smallest<N>(x) == std::min_element(x.begin(), x.end()) - x.begin());
  CHECK(row_norm<N>(0.f, get) == N);
  CHECK(row_norm<N>(infinity, get) == std::max(largest_of<N>(x), -smallest_of<N>(x)));
  CHECK(any_of<N>(x));
  CHECK(all_of<N>(x));
  double product = 1;
  std::vector<float> factors(x);
  for (float& v : factors) v = 1 + v * 0.01f, product *= double(v);
  CHECK(near("a product: N / 2 units", row_product<N>(from(factors)), product, N / 2., product));
  CHECK(near("a product: sqrt(N) units", row_product<N>(from(factors)), product, std::sqrt(double(N)), product));
  CHECK(row_norm<N>(-infinity, get) == std::abs(*std::min_element(x.begin(), x.end(), [](float a, float b) {
          return std::abs(a) < std::abs(b);
        })));
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
void check_columns(float mean = 0) {
  INFO("rows ", Rows, ", columns ", Columns);
  std::vector<float> x = fxx::test::random_floats(Rows * Columns, Rows);
  for (float& v : x) v += mean;
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
  for (int c = 0; c < Columns; ++c) {
    CAPTURE(c);
    std::vector<float> column;
    for (int r = 0; r < Rows; ++r) column.push_back(x[r * Columns + c]);
    const Exact exact = exact_of(column, 1);
    double product = 1;
    for (const float v : column) product *= double(v);
    const double norm_2 = std::sqrt(exact.squares), norm_3 = std::cbrt(exact.cubes), mean_size = exact.magnitude / Rows;
    const double lost = 2 * epsilon * mean_size * mean_size;
    CHECK(near("a sum: 8 + 8 log16 units", sums[c], exact.sum, most_units(Rows), exact.magnitude));
    CHECK(near("sums of columns", sums[c], exact.sum, 2, exact.magnitude));
    CHECK(near("means of columns", means[c], exact.mean, 2, mean_size));
    CHECK(near("means of columns", moments[c], exact.mean, 2, mean_size));
    CHECK(near("variances of columns", variances[c], exact.variance, 2, exact.variance + lost));
    CHECK(near("norms of columns", norms[c], norm_2, 2, norm_2));
    CHECK(near("norms of columns", norms_1[c], exact.magnitude, 2, exact.magnitude));
    CHECK(near("a norm with another exponent", norms_3[c], norm_3,
               units_of_norm(exact.cubes, 3), norm_3));
    if (std::abs(product) > 1e-30)
      CHECK(near("a product: sqrt(N) units", products[c], product, std::sqrt(double(Rows)),
                 std::abs(product)));
    else CHECK(std::abs(products[c] - product) <= 1e-30);
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

namespace {
/// Rows of runs that lie apart, beside the same elements behind each other.
template <int Count, int Length>
void check_runs() {
  CAPTURE(Count);
  CAPTURE(Length);
  constexpr int n = Count * Length, apart = Length + 3;
  for (const int special : {-1, 0, n / 2, n - 1}) {
    std::vector<float> x = fxx::test::random_floats(n, 5);
    if (special >= 0) x[special] = special % 2 ? no_number : infinity;
    std::vector<float> lies(Count * apart - 3, 1e30f);  // what lies between is not read
    for (int i = 0; i < n; ++i) lies[i / Length * apart + i % Length] = x[i];
    const auto get = in_runs<Length>([&](int run, int column, auto width) __attribute__((always_inline)) {
      return load_some<width>(lies.data() + run * apart + column);
    });
    const Exact exact = exact_of(x, 1);
    CHECK(near("a sum", row_sum<n>(get), exact.sum, 1, exact.magnitude));
    CHECK(near("a mean", row_mean<n>(get), exact.mean, 1, exact.magnitude / n));
    if (special < 0) {
      CHECK(near("a variance", row_variance<n>(get), exact.variance, 2, exact.variance + 1e-6));
      CHECK(near("a deviation", row_deviation<n>(get), std::sqrt(exact.variance), 2, std::sqrt(exact.variance)));
      const double cubes = std::cbrt(exact.cubes);
      CHECK(near("a norm", row_norm<n>(3.f, get), cubes, units_of_norm(exact.cubes, 3), cubes));
      CHECK(near("a norm", row_norm<n>(2.f, get), std::sqrt(exact.squares), 1, std::sqrt(exact.squares)));
    }
    CHECK(near("the largest", row_largest<n>(get), largest_of<n>(x), 0, 1));
    CHECK(near("the smallest", row_smallest<n>(get), smallest_of<n>(x), 0, 1));
    CHECK(near("the largest size", row_norm<n>(infinity, get), row_norm<n>(infinity, from(x)), 0, 1));
    CHECK(row_norm<n>(0.f, get) == n);
    CHECK(row_any<n>(get) == any_of<n>(x));
    CHECK(row_all<n>(get) == all_of<n>(x));
    const std::vector<float> zeros(lies.size());
    CHECK_FALSE(row_any<n>(in_runs<Length>([&](int run, int column, auto width) __attribute__((always_inline)) {
      return load_some<width>(zeros.data() + run * apart + column);
    })));
  }
}
}  // namespace

TEST_CASE("rows that are runs of memory are reduced as those that are one") {
  check_runs<2, 8>();
  check_runs<3, 49>();
  check_runs<40, 17>();
  check_runs<300, 9>();
  check_runs<5, 130>();
}

namespace {
/// Few columns whose rows lie behind each other, beside the same columns read row by row.
template <int Rows, int Columns>
void check_behind() {
  INFO("rows ", Rows, ", columns ", Columns);
  for (const int special : {-1, 0, Rows * Columns / 2, Rows * Columns - 1}) {
    std::vector<float> x = fxx::test::random_floats(Rows * Columns, 7);
    for (int i = 0; i < Rows * Columns; i += 5) x[i] = i % Columns == 0 ? 0.f : x[i];
    if (special >= 0) x[special] = special % 2 ? no_number : infinity;
    const auto behind = rows_behind<Columns>(
        [&](int at, auto width) __attribute__((always_inline)) { return load_some<width>(x.data() + at); });
    const auto apart = [&](int r, int c, auto width) __attribute__((always_inline)) {
      return load_some<width>(x.data() + r * Columns + c);
    };
    std::vector<float> one(Columns), other(Columns);
    const auto to = [](std::vector<float>& out) {
      return [&out](int c, real v, auto width) __attribute__((always_inline)) { store_some<width>(out.data() + c, v); };
    };
    const auto mask_to = [](std::vector<float>& out) {
      return [&out](int c, integer v, auto width)
                 __attribute__((always_inline)) { store_some<width>(out.data() + c, ones(v)); };
    };
    const auto check = [&](const char* what, double units, auto magnitude) {
      for (int c = 0; c < Columns; ++c) CHECK(near(what, one[c], other[c], units, magnitude(c)));
    };
    const auto magnitude = [&](int c) {
      double all = 0;
      for (int r = 0; r < Rows; ++r) all += std::abs(double(x[r * Columns + c]));
      return all;
    };
    const auto itself = [&](int c) { return std::abs(double(other[c])); };
    column_sums<Rows, Columns>(behind, to(one)), column_sums<Rows, Columns>(apart, to(other));
    check("sums of rows behind each other", 3, magnitude);
    column_largest<Rows, Columns>(behind, to(one)), column_largest<Rows, Columns>(apart, to(other));
    check("the largest", 0, itself);
    column_norms<Rows, Columns>(2.f, behind, to(one)), column_norms<Rows, Columns>(2.f, apart, to(other));
    check("norms of rows behind each other", 3, itself);
    column_all<Rows, Columns>(behind, mask_to(one)), column_all<Rows, Columns>(apart, mask_to(other));
    check("all", 0, itself);
  }
}
}  // namespace

TEST_CASE("few columns whose rows lie behind each other are reduced as others") {
  check_behind<1, 3>();
  check_behind<64, 1>();
  check_behind<6, 5>();
  check_behind<1000, 8>();
  check_behind<4096, 3>();
  check_behind<48, 32>();
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
  check_columns<37, 53>(5);
  check_columns<300, 71>(-100);
  check_columns<4200, 5>(100);
}

TEST_CASE("nan and infinities in columns reach what is made of these, as in LibTorch") {
  constexpr int rows = 21, columns = 19;
  const std::vector<float> some = fxx::test::random_floats(rows * columns, 1);
  for (const int at : {0, 7, rows - 1})
    for (const float odd : {no_number, infinity, -infinity}) {
      CAPTURE(at);
      CAPTURE(odd);
      std::vector<float> x = some;
      x[at * columns + 3] = odd;
      x[(rows - 1 - at) * columns + 18] = odd;
      const auto get = [&](int r, int c, auto width) __attribute__((always_inline)) {
        return load_some<width>(x.data() + r * columns + c);
      };
      const auto check = [&](int column, bool clean, float sum, float most, float least, float norm, float place,
                             float low_place) {
        const bool odd_column = column == 3 || column == 18;
        CHECK(clean == !odd_column);
        if (!odd_column) return;
        const float row = static_cast<float>(column == 3 ? at : rows - 1 - at);
        if (odd != odd) {
          CHECK(std::isnan(sum));
          CHECK(std::isnan(most));
          CHECK(std::isnan(least));
          CHECK(std::isnan(norm));
          CHECK(place == row);
          CHECK(low_place == row);
        } else {
          CHECK(sum == odd);
          CHECK(norm == infinity);
          CHECK((odd > 0 ? most : least) == odd);
          CHECK(std::isfinite(odd > 0 ? least : most));
          CHECK((odd > 0 ? place : low_place) == row);
          CHECK((odd > 0 ? low_place : place) != row);
        }
      };
      std::vector<float> sum(columns), most(columns), least(columns), norm(columns), place(columns), low(columns);
      std::vector<float> clean(columns), squares(columns);
      const auto to = [](std::vector<float>& out) {
        return [&out](int c, real v, auto width)
                   __attribute__((always_inline)) { store_some<width>(out.data() + c, v); };
      };
      const auto as_floats = [&](std::vector<float>& out) {
        return [&out](int c, integer row, auto width) __attribute__((always_inline)) {
          store_some<width>(out.data() + c, __builtin_convertvector(row, real));
        };
      };
      column_sums<rows, columns>(get, to(sum));
      column_largest<rows, columns>(get, to(most));
      column_smallest<rows, columns>(get, to(least));
      column_norms<rows, columns>(2.f, get, to(norm));
      column_arg_largest<rows, columns>(get, as_floats(place));
      column_arg_smallest<rows, columns>(get, as_floats(low));
      column_moments<rows, columns>(get, 1.f, [&](int c, real mean, real variance, auto width)
                                                  __attribute__((always_inline)) {
        store_some<width>(clean.data() + c, mean);
        store_some<width>(squares.data() + c, variance);
      });
      for (int c = 0; c < columns; ++c) {
        CHECK(std::isnan(squares[c]) == (c == 3 || c == 18));
        check(c, std::isfinite(clean[c]) && std::isfinite(sum[c]), sum[c], most[c], least[c], norm[c], place[c], low[c]);
      }
    }
}

TEST_CASE("nan and infinities in rows reach sums, norms and variances") {
  constexpr int N = 37;
  for (const int at : {0, 16, 36}) {
    std::vector<float> x = fxx::test::random_floats(N, 2);
    x[at] = no_number;
    const auto get = from(x);
    for (const float p : {0.5f, 1.f, 2.f, 3.f, infinity, -infinity}) CHECK(std::isnan(row_norm<N>(p, get)));
    CHECK(row_norm<N>(0.f, get) == N);
    CHECK(std::isnan(row_mean<N>(get)));
    CHECK(std::isnan(row_product<N>(get)));
    CHECK(std::isnan(row_variance<N>(get)));
    for (const float odd : {infinity, -infinity}) {
      x = fxx::test::random_floats(N, 2);
      x[at] = odd;
      for (const float p : {0.5f, 1.f, 2.f, 3.f, infinity}) CHECK(row_norm<N>(p, get) == infinity);
      CHECK(std::isfinite(row_norm<N>(-infinity, get)));
      CHECK(row_mean<N>(get) == odd);
      CHECK(std::isnan(row_variance<N>(get)));
      CHECK(place_of_largest<N>(x) == (odd > 0 ? at : std::max_element(x.begin(), x.end()) - x.begin()));
      CHECK(place_of_smallest<N>(x) == (odd < 0 ? at : std::min_element(x.begin(), x.end()) - x.begin()));
      x[(at + 1) % N] = -odd;
      CHECK(std::isnan(sum_of<N>(x)));
    }
  }
}

namespace {
/// A value throughout has itself as its mean, and no variance; with infinities among them a row has none either.
template <int N>
void check_even() {
  INFO("elements ", N);
  for (const float value : {0.1f, -1000.3f, 16777.216f, 3e-20f, 1e18f}) {
    const std::vector<float> x(N * 5, value);
    const Moments row = row_moments<N>(from(x), 0.f);
    CHECK(row.mean == value);
    CHECK(row.variance == 0.f);
    column_moments<N, 5>(
        [&](int r, int c, auto width) __attribute__((always_inline)) { return load_some<width>(x.data() + r * 5 + c); },
        0.f,
        [&](int, real mean, real variance, auto width) __attribute__((always_inline)) {
          float means[lanes], variances[lanes];
          store_some<width>(means, mean);
          store_some<width>(variances, variance);
          for (int i = 0; i < static_cast<int>(width); ++i) {
            CHECK(means[i] == value);
            CHECK(variances[i] == 0.f);
          }
        });
  }
  // One element that differs by the least is no rounding.
  std::vector<float> x(N, 1000.f);
  x[N / 2] = std::nextafter(1000.f, 2000.f);
  const double step = exact_of(x, 1).variance;
  if (N > 1) CHECK(near("variance of one step", row_moments<N>(from(x)).variance, step, 1e5, step));
  // Squares that overflow give an infinite variance.
  for (int i = 0; i < N; ++i) x[static_cast<std::size_t>(i)] = i % 2 ? -1e25f : 1e25f;
  if (N > 1) CHECK(row_moments<N>(from(x)).variance == infinity);
}
}  // namespace

namespace {
/// Squares in double precision are numbers whatever floats they are of, and their roots are.
template <int N>
void check_deviations() {
  INFO("elements ", N);
  for (const float scale : {1e-30f, 1e-25f, 1e-19f, 1e-15f, 1.f, 1e15f, 1e19f, 1e25f, 1e36f}) {
    CAPTURE(scale);
    std::vector<float> x = fxx::test::random_floats(N * 5, 2), first(N);
    for (float& v : x) v *= scale;
    for (int i = 0; i < N; ++i) first[static_cast<std::size_t>(i)] = x[static_cast<std::size_t>(i * 5)];
    for (const float correction : {0.f, 1.f}) {
      const Exact row = exact_of(std::vector<float>(x.begin(), x.begin() + N), correction);
      const double wanted = std::sqrt(row.variance), size = wanted + row.magnitude / N;
      CHECK(near("a deviation", row_deviation<N>(from(x), correction), wanted, 4, size));
      if (row.variance > 1e-35 && row.variance < 1e38)
        CHECK(near("a variance", row_variance<N>(from(x), correction), row.variance, 4, size * size));
      const Exact column = exact_of(first, correction);
      const double of_column = std::sqrt(column.variance), size_of_column = of_column + column.magnitude / N;
      column_deviations<N, 5>(
          [&](int r, int c, auto width) __attribute__((always_inline)) { return load_some<width>(x.data() + r * 5 + c); },
          correction, [&](int c, real deviation, auto) __attribute__((always_inline)) {
            if (c == 0)
              CHECK(near("a deviation of a column", deviation[0], of_column, 4, size_of_column));
          });
    }
  }
}
}  // namespace

TEST_CASE("deviations of very small and very large numbers") {
  check_deviations<2>();
  check_deviations<37>();
  check_deviations<300>();
  // Near the largest float, as long as the sums are floats.
  CHECK(row_deviation<4>(from({2e38f, 2e38f, -2e38f, -2e38f})) == doctest::Approx(2.3094011e38));
  column_deviations<4, 1>(
      [](int r, int, auto) __attribute__((always_inline)) { return splat(r % 2 ? -2e38f : 2e38f); }, 1.f,
      [](int, real deviation, auto) __attribute__((always_inline)) {
        const float first = deviation[0];
        CHECK(first == doctest::Approx(2.3094011e38));
      });
}

namespace {
/// One of so many elements differs from the others by a step, which is little beside what the sum may be off.
template <int N>
void check_almost_even(float value, float step, int every) {
  INFO("elements ", N, ", each ", value);
  std::vector<float> x(N, value);
  for (int i = 1000; i < N; i += every) x[static_cast<std::size_t>(i)] += step;
  const double variance = exact_of(x, 1).variance, deviation = std::sqrt(variance);
  CHECK(near("variance of few steps", row_moments<N>(from(x)).variance, variance, 1e5, variance));
  CHECK(near("deviation of few steps", row_deviation<N>(from(x)), deviation, 1e5, deviation));
}
/// One step in the first column and the last; that between is even.
template <int Rows>
void check_almost_even_columns(float value, float step) {
  INFO("rows ", Rows, ", each ", value);
  std::vector<float> x(Rows * 3, value);
  x[1000 * 3] += step;
  x[1000 * 3 + 2] += step;
  const auto get = [&](int r, int c, auto width) __attribute__((always_inline)) {
    return load_some<width>(x.data() + r * 3 + c);
  };
  std::vector<float> variances(3), deviations(3);
  column_moments<Rows, 3>(get, 1.f, [&](int c, real, real variance, auto width) __attribute__((always_inline)) {
    store_some<width>(variances.data() + c, variance);
  });
  column_deviations<Rows, 3>(get, 1.f, [&](int c, real deviation, auto width) __attribute__((always_inline)) {
    store_some<width>(deviations.data() + c, deviation);
  });
  const double variance = double(step) * step / Rows;
  for (const std::size_t c : {0, 1, 2}) {
    CAPTURE(c);
    const double wanted = c == 1 ? 0 : variance;
    CHECK(near("variance of few steps", variances[c], wanted, 1e5, wanted));
    CHECK(near("deviation of few steps", deviations[c], std::sqrt(wanted), 1e5, std::sqrt(wanted)));
  }
}
}  // namespace

TEST_CASE("what differs in long rows and columns of almost one value is not lost") {
  check_almost_even<65536>(1722379392.f, 128, 65536);
  check_almost_even<1 << 20>(20000004.f, 2, 1 << 14);
  check_almost_even_columns<16384>(1722379392.f, 128);
  check_almost_even_columns<70001>(20000004.f, 2);
}

TEST_CASE("rows and columns of one value have it as their mean and no variance") {
  check_even<1>();
  check_even<2>();
  check_even<17>();
  check_even<333>();
  check_even<1000>();
  check_even<70001>();
}
