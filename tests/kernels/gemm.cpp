// Matrix products beside double precision, over sizes that are no multiple of anything.
#include "fxx/kernels/gemm.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "fxx/kernels/weights.hpp"
#include "kernels/native.hpp"

using namespace fxx::kernels;

namespace {

struct Product {
  std::vector<float> a, weights, packed, bias, out;
};
constexpr float untouched = -12345.f;

/// out = relu(a w + bias), where rows of `a` lie `Stride` floats apart and those of `out` N + 3.
template <int M, int N, int K, int Stride, TileShape Given, Distance From, Order By>
Product computed(std::vector<float> a, std::vector<float> weights, int parts = 1) {
  Product p{std::move(a), std::move(weights), {}, fxx::test::random_floats(N, 3), {}};
  p.packed.assign(packed_size(N, K), untouched);
  pack_weights(p.packed.data(), N, K, Given.rows ? Given : gemm_tile(M, N, Stride, From),
               [&](int column, int k) { return p.weights[static_cast<std::size_t>(column * K + k)]; });
  p.out.assign(M * (N + 3), untouched);
  for (int index = 0; index < parts; ++index)
    gemm<M, N, K, Stride, Given, From, By>(
        Part{index, parts}, p.a.data(), p.packed.data(),
        [&](int row, int column, real sum, auto width) __attribute__((always_inline)) {
          const real shifted = sum + load_some<width>(p.bias.data() + column);
          store_some<width>(p.out.data() + row * (N + 3) + column, no_less(shifted, 0.f));
        });
  return p;
}

/// In units of 2^-23 of the sum of magnitudes: half a one for each addition, whatever the numbers are; the bias is one.
template <int M, int N, int K, int Stride>
void check_errors(const Product& p, const char* what, double units) {
  constexpr double epsilon = std::numeric_limits<float>::epsilon();
  bool near = true, beside = false;
  for (int m = 0; m < M; ++m) {
    for (int n = 0; n < N; ++n) {
      double exact = p.bias[n], magnitude = std::abs(exact);
      for (int k = 0; k < K; ++k) {
        const double term = double(p.a[m * Stride + k]) * p.weights[n * K + k];
        exact += term, magnitude += std::abs(term);
      }
      const double error = std::abs(p.out[m * (N + 3) + n] - std::max(exact, 0.)) / (epsilon * magnitude);
      near = near && fxx::test::within("a product, whatever the numbers", error, units_of_sum(K) + 0.5);
      near = near && fxx::test::within(what, error, units);
    }
    for (int n = N; n < N + 3; ++n) beside = beside || p.out[m * (N + 3) + n] != untouched;
  }
  CHECK(near);
  CHECK_FALSE(beside);
}

template <int M, int N, int K, int Stride = K, TileShape Given = TileShape{}, Distance From = Distance::far,
          Order By = Order::panels>
void check_product() {
  CAPTURE(M);
  CAPTURE(N);
  CAPTURE(K);
  CAPTURE(Stride);
  // The last row ends where its elements do.
  const std::size_t size = (M - 1) * Stride + K;
  const Product p = computed<M, N, K, Stride, Given, From, By>(fxx::test::random_floats(size, 1),
                                                               fxx::test::random_floats(N * K, 2));
  check_errors<M, N, K, Stride>(p, "a product of normal numbers", 3);
  check_errors<M, N, K, Stride>(computed<M, N, K, Stride, Given, From, By>(fxx::test::positive_floats(size, 3),
                                                                           fxx::test::positive_floats(N * K, 4)),
                                "a product of numbers of one sign", fxx::test::units_without_signs(K));
  for (int parts = 2; parts <= 4; ++parts)
    CHECK((computed<M, N, K, Stride, Given, From, By>(p.a, p.weights, parts).out == p.out));
  // Neither tile nor order changes a bit.
  CHECK((computed<M, N, K, Stride, TileShape{}, Distance::far, Order::panels>(p.a, p.weights).out == p.out));
}

}  // namespace

TEST_CASE("products of awkward sizes are those of double precision, and nothing beside them is written") {
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

TEST_CASE("sums of very many products are made of chains: their error is that of a chain and not of the depth") {
  check_product<1, 70, 512>();
  check_product<1, 5, 25088>();
  check_product<3, 4 * lanes + 3, 257>();
  check_product<15, 50, 1000, 1003>();
  check_product<9, 2 * lanes, 4096>();
  check_product<14, 33, 771>();
}

TEST_CASE("any tile that fits, weights that are near, and rows as the outer loop") {
  check_product<29, 100, 37, 37, TileShape{5, 2}>();
  check_product<3, 100, 37, 37, TileShape{7, 1}>();  // more rows than there are
  check_product<8, 200, 20, 20, TileShape{8, 1}, Distance::near>();
  check_product<1, 300, 20, 20, TileShape{1, 8}>();
  check_product<1, 300, 20, 20, TileShape{}, Distance::near>();
  check_product<1, 300, 20, 20, TileShape{}, Distance::streamed>();
  check_product<33, 70, 12, 15, TileShape{}, Distance::far, Order::rows>();
  check_product<61, 130, 7, 7, TileShape{4, 2}, Distance::near, Order::rows>();
  check_product<2, 33, 7, 7, TileShape{4, 1}, Distance::near, Order::rows>();
}

TEST_CASE("rows may lie apart, also so that they share sets of the cache") {
  check_product<9, 20, 12, 19>();
  check_product<17, 61, 1024>();
  check_product<11, 49, 24, 2048>();
  static_assert(gemm_tile(128, 256, 1024).rows <= 8);
}

TEST_CASE("nan and infinities reach the sums that they belong to, and no others") {
  constexpr int M = 5, N = 21, K = 9;
  constexpr float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> a(M * K, 1.f), weights(N * K, 1.f);
  a[2 * K + 4] = infinity;
  weights[20 * K + 1] = std::numeric_limits<float>::quiet_NaN();
  const Product p = computed<M, N, K, K, TileShape{}, Distance::far, Order::panels>(a, weights);
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
      CHECK(fits_registers(shape, FXX_KERNEL_REGISTERS));
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

TEST_CASE("parts that are panels give what parts of rows do, in any number") {
  constexpr int M = 37, N = 3 * lanes + 5, K = 300;
  const Product p = computed<M, N, K, K, TileShape{}, Distance::far, Order::panels>(fxx::test::random_floats(M * K, 1),
                                                                                    fxx::test::random_floats(N * K, 2));
  std::vector<float> wanted(N, -INFINITY);
  gemm<M, N, K, K>(
      Part{}, p.a.data(), p.packed.data(), [&](int, int column, real sum, auto width) __attribute__((always_inline)) {
        for (int i = 0; i < width; ++i) wanted[column + i] = std::max(wanted[column + i], sum[i]);
      });
  for (int parts = 1; parts <= 5; ++parts) {
    std::vector<float> found(N, -INFINITY);
    for (int index = 0; index < parts; ++index)
      gemm_by_panels<M, N, K, K>(
          Part{index, parts}, p.a.data(),
          p.packed.data(), [&](int, int column, real sum, auto width) __attribute__((always_inline)) {
            for (int i = 0; i < width; ++i) found[column + i] = std::max(found[column + i], sum[i]);
          });
    CHECK(found == wanted);
  }
}
