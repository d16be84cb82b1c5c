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

/// How far products of these numbers are from double precision, in what rounding may make of it, infinite when more than
/// of normal numbers; `scales` are the columns'.
template <int M, int N, int K, int Stride, class Element, class Weight, class Exact>
double distance(const char* what, double most, const std::vector<Element>& a, const std::vector<Weight>& packed,
                const std::vector<float>& scales, const Exact& exact_weight) {
  std::vector<float> out(M * N, untouched);
  for (int index = 0; index < 2; ++index)
    gemm<M, N, K, Stride>(Part{index, 2}, a.data(), packed.data(),
                          [&](int row, int column, real sum, auto width) __attribute__((always_inline)) {
                            store_some<width>(out.data() + row * N + column,
                                              sum * load_some<width>(scales.data() + column));
                          });
  double worst = 0;
  for (int m = 0; m < M; ++m)
    for (int n = 0; n < N; ++n) {
      double exact = 0, magnitude = 0;
      for (int k = 0; k < K; ++k) {
        const double term = double(detail_of_weights::number(a[m * Stride + k])) * exact_weight(n, k);
        exact += term, magnitude += std::abs(term);
      }
      const double units = std::abs(out[m * N + n] - exact) / (double(std::numeric_limits<float>::epsilon()) * magnitude);
      const bool near = fxx::test::within(what, units, most);
      worst = std::max(worst, near ? units / ((K + 1) / 2.) : INFINITY);
    }
  return worst;
}
template <int M, int N, int K, int Stride = K>
void check_weight_types() {
  CAPTURE(M);
  CAPTURE(N);
  CAPTURE(K);
  const std::vector<float> a = fxx::test::random_floats((M - 1) * Stride + K, 1);
  const std::vector<float> weights = fxx::test::random_floats(N * K, 2), ones(N, 1.f);
  const auto weight = [&](int n, int k) { return weights[static_cast<std::size_t>(n * K + k)]; };
  constexpr TileShape shape = gemm_tile<Bfloat16>(M, N, Stride);

  std::vector<Bfloat16> upper(packed_size<Bfloat16>(N, K));
  pack_weights(upper.data(), N, K, shape, weight);
  const auto rounded = [&](int n, int k) { return double(to_float(to_bfloat16(weight(n, k)))); };
  CHECK(distance<M, N, K, Stride>("a product with weights of 16 bits", 3, a, upper, ones, rounded) <= 1);
  std::vector<Bfloat16> upper_a;
  for (const float x : a) upper_a.push_back(to_bfloat16(x));
  CHECK(distance<M, N, K, Stride>("a product of 16 bits", 1, upper_a, upper, ones, rounded) <= 1);

  std::vector<std::int8_t> bytes(packed_size<std::int8_t>(N, K));
  std::vector<float> scales(N);
  pack_weights(bytes.data(), scales.data(), N, K, gemm_tile<std::int8_t>(M, N, Stride), weight);
  double worst = 0;
  const auto integer_weight = [&](int n, int k) {
    const double whole = std::round(double(weight(n, k) / scales[n]));
    worst = std::max(worst, std::abs(whole * double(scales[n]) - double(weight(n, k))) / double(scales[n]));
    return whole * double(scales[n]);
  };
  CHECK(distance<M, N, K, Stride>("a product with weights of 8 bits", 2, a, bytes, scales, integer_weight) <= 1);
  CHECK(worst <= 0.5001);
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

TEST_CASE("weights of sixteen and eight bits are those that were rounded, and summed up as floats") {
  check_weight_types<1, 1, 1>();
  check_weight_types<1, 70, 65>();
  check_weight_types<3, 17, 30>();
  check_weight_types<9, 100, 31, 40>();
  check_weight_types<20, 33, 128>();
}

TEST_CASE("bytes and 8-bit integers are multiplied and added up as integers, whatever they are") {
  const auto check = []<int M, int N, int K, int Stride>() {
    CAPTURE(M);
    CAPTURE(N);
    CAPTURE(K);
    std::mt19937 engine(7);
    std::vector<std::uint8_t> a((M - 1) * Stride + K);
    std::vector<int> weights(N * K);
    // Largest and smallest ones too: sixteen bits hold no sum of two such products.
    for (auto& byte : a) byte = engine() % 4 == 0 ? 255 : static_cast<std::uint8_t>(engine() % 256);
    for (int& w : weights) w = engine() % 4 == 0 ? (engine() % 2 == 0 ? -128 : 127) : static_cast<int>(engine() % 256) - 128;
    std::vector<std::int8_t> packed(packed_size<std::int8_t>(N, K));
    pack_weights(packed.data(), N, K, gemm_tile<std::int8_t>(M, N, Stride),
                 [&](int column, int k) { return static_cast<float>(weights[column * K + k]); });
    std::vector<int> out(M * (N + 1), -7);
    for (int index = 0; index < 2; ++index)
      gemm<M, N, K, Stride>(Part{index, 2}, a.data(), packed.data(),
                            [&](int row, int column, integer sum, auto width) __attribute__((always_inline)) {
                              for (int i = 0; i < width; ++i) out[row * (N + 1) + column + i] = sum[i];
                            });
    int wrong = 0;
    for (int m = 0; m < M; ++m) {
      for (int n = 0; n < N; ++n) {
        int exact = 0;
        for (int k = 0; k < K; ++k) exact += a[m * Stride + k] * weights[n * K + k];
        wrong += out[m * (N + 1) + n] != exact;
      }
      wrong += out[m * (N + 1) + N] != -7;
    }
    CHECK(wrong == 0);
  };
  check.operator()<1, 1, 1, 1>();
  check.operator()<1, 37, 130, 130>();
  check.operator()<3, 16, 7, 9>();
  check.operator()<17, 33, 66, 68>();
  check.operator()<29, 70, 255, 256>();
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

TEST_CASE("numbers of sixteen bits are the nearest, nan stays, and vectors of them are the same") {
  static_assert(to_float(to_bfloat16(1.f)) == 1.f);
  static_assert(static_cast<int>(to_bfloat16(-0.f)) == 0x8000);
  std::vector<float> numbers = fxx::test::random_floats(64, 1);
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const float special[] = {1 + 1.f / 256,     1 + 3.f / 256, 1 + 1.f / 256 + 1.f / 65536, infinity, -infinity,
                           std::numeric_limits<float>::max(), std::numeric_limits<float>::quiet_NaN(),
                           __builtin_bit_cast(float, 0x7f800001u), std::numeric_limits<float>::denorm_min(), 0.f, -0.f};
  numbers.insert(numbers.begin(), special, special + 11);
  CHECK(to_float(to_bfloat16(special[0])) == 1.f);
  CHECK(to_float(to_bfloat16(special[1])) == 1 + 4.f / 256);
  CHECK(to_float(to_bfloat16(special[2])) == 1 + 2.f / 256);
  CHECK(to_float(to_bfloat16(special[3])) == infinity);
  CHECK(to_float(to_bfloat16(special[5])) == infinity);
  CHECK(std::isnan(to_float(to_bfloat16(special[6]))));
  CHECK(std::isnan(to_float(to_bfloat16(special[7]))));
  for (std::size_t i = 0; i + lanes <= numbers.size(); ++i) {
    Bfloat16 to[lanes];
    store_bfloat16<lanes>(to, load(numbers.data() + i));
    for (int lane = 0; lane < lanes; ++lane) CHECK(to[lane] == to_bfloat16(numbers[i + lane]));
  }
}
