// Products of fewer bits: weights of sixteen and eight, rows of sixteen, bytes with integers.
#include "fxx/kernels/gemm.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "fxx/kernels/weights.hpp"
#include "kernels/native.hpp"

using namespace fxx::kernels;

namespace {
constexpr float untouched = -12345.f;

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
