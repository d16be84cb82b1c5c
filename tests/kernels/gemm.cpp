// Matrix products beside double precision, over sizes that are no multiple of anything.
#include "fxx/kernels/gemm.hpp"

#include <cmath>
#include <limits>

#include "kernels/native.hpp"

using namespace fxx::kernels;

namespace {

struct Product {
  std::vector<float> a, weights, packed, bias, out;
};
constexpr float untouched = -12345.f;

/// out = relu(a w + bias), where rows of `a` lie `Stride` floats apart and those of `out` N + 3.
template <int M, int N, int K, int Stride>
Product computed(std::vector<float> a, std::vector<float> weights) {
  Product p{std::move(a), std::move(weights), {}, fxx::test::random_floats(N, 3), {}};
  p.packed.assign(packed_size(N, K), untouched);
  pack_weights(p.packed.data(), N, K, gemm_tile(M, N, Stride),
               [&](int column, int k) { return p.weights[static_cast<std::size_t>(column * K + k)]; });
  p.out.assign(M * (N + 3), untouched);
  gemm<M, N, K, Stride>(p.a.data(), p.packed.data(),
                        [&](int row, int column, real sum, auto width) __attribute__((always_inline)) {
                          const real shifted = sum + load_some<width>(p.bias.data() + column);
                          store_some<width>(p.out.data() + row * (N + 3) + column, no_less(shifted, 0.f));
                        });
  return p;
}

template <int M, int N, int K, int Stride = K>
void check_product() {
  CAPTURE(M);
  CAPTURE(N);
  CAPTURE(K);
  CAPTURE(Stride);
  // The last row ends where its elements do.
  const Product p = computed<M, N, K, Stride>(fxx::test::random_floats((M - 1) * Stride + K, 1),
                                              fxx::test::random_floats(N * K, 2));
  double worst = 0;  // beside what rounding may make of it
  bool beside = false;
  for (int m = 0; m < M; ++m) {
    for (int n = 0; n < N; ++n) {
      double exact = p.bias[n], magnitude = std::abs(exact);
      for (int k = 0; k < K; ++k) {
        const double term = double(p.a[m * Stride + k]) * p.weights[n * K + k];
        exact += term, magnitude += std::abs(term);
      }
      const double bound = (K + 1) * double(std::numeric_limits<float>::epsilon()) * magnitude;
      worst = std::max(worst, std::abs(p.out[m * (N + 3) + n] - std::max(exact, 0.)) / bound);
    }
    for (int n = N; n < N + 3; ++n) beside = beside || p.out[m * (N + 3) + n] != untouched;
  }
  CHECK(worst <= 1);
  CHECK_FALSE(beside);
}

}  // namespace

TEST_CASE("products of awkward sizes are those of double precision, and nothing beside them is written") {
  FXX_ONLY_WHERE_IT_RUNS();
  check_product<1, 1, 1>();
  check_product<1, 7, 3>();
  check_product<2, 16, 5>();
  check_product<3, 17, 31>();
  check_product<7, 33, 13>();
  check_product<14, 32, 64>();
  check_product<15, 31, 1>();
  check_product<29, 100, 37>();
  check_product<5, 250, 128>();
  check_product<1, 1000, 512>();
}

TEST_CASE("rows may lie apart, also so that they share sets of the cache") {
  FXX_ONLY_WHERE_IT_RUNS();
  check_product<9, 20, 12, 19>();
  check_product<17, 61, 1024>();
  check_product<11, 49, 24, 2048>();
  static_assert(gemm_tile(128, 256, 1024).rows <= 8);
}

TEST_CASE("nan and infinities reach the sums that they belong to, and no others") {
  FXX_ONLY_WHERE_IT_RUNS();
  constexpr int M = 5, N = 21, K = 9;
  constexpr float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> a(M * K, 1.f), weights(N * K, 1.f);
  a[2 * K + 4] = infinity;
  weights[20 * K + 1] = std::numeric_limits<float>::quiet_NaN();
  const Product p = computed<M, N, K, K>(a, weights);
  for (int m = 0; m < M; ++m)
    for (int n = 0; n < N; ++n) {
      CAPTURE(m);
      CAPTURE(n);
      const float value = p.out[m * (N + 3) + n];
      if (n == 20) CHECK(std::isnan(value));
      else if (m == 2) CHECK(value == infinity);
      else CHECK(std::isfinite(value));
    }
}

TEST_CASE("packed weights stand panel by panel, the last filled up with zeros") {
  const TileShape shape = {4, 2};
  constexpr int N = 3 * lanes + 1, K = 2;
  std::vector<float> packed(packed_size(N, K), untouched);
  pack_weights(packed.data(), N, K, shape, [](int column, int k) { return static_cast<float>(100 * k + column + 1); });
  CHECK(packed.size() == std::size_t(4 * lanes * K));
  CHECK(packed[0] == 1.f);
  CHECK(packed[2 * lanes] == 101.f);                       // the second row of the first panel
  CHECK(packed[2 * lanes * K] == float(2 * lanes + 1));    // the first row of the second
  CHECK(packed[2 * lanes * K + lanes] == float(3 * lanes + 1));
  CHECK(packed[2 * lanes * K + lanes + 1] == 0.f);
  CHECK(packed.back() == 0.f);
}

TEST_CASE("tiles fit into the registers and into the product, and the usual ones are the fastest known") {
  for (int m = 1; m < 60; ++m)
    for (int n = 1; n < 300; n += 5) {
      const TileShape shape = gemm_tile(m, n, 100);
      CHECK(shape.rows * shape.vectors + shape.vectors + 1 <= (lanes == 16 ? 32 : 16));
      CHECK(shape.rows >= 1);
      CHECK(shape.vectors >= 1);
      CHECK(shape.rows <= m);
      CHECK(shape.vectors <= vectors_of(n));
    }
  if constexpr (lanes == 16) {
    CHECK(gemm_tile(56, 64, 100).rows == 14);
    CHECK(gemm_tile(7, 512, 100).rows == 7);
  }
}
