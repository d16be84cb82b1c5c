// Products with matrices that are made while running beside double precision: packed, and where they lie.
#include "fxx/kernels/matmul.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "fxx/kernels/weights.hpp"
#include "kernels/native.hpp"

using namespace fxx::kernels;

namespace {

constexpr float untouched = -12345.f;

/// What pack_rows and pack_columns make of a matrix is what pack_weights makes of its elements.
template <int N, int K, int Vectors>
void check_packing() {
  CAPTURE(N);
  CAPTURE(K);
  constexpr TileShape shape = {2, Vectors};
  constexpr int row = N + 3, column = K + 5;
  std::vector<float> rows = fxx::test::random_floats((K - 1) * row + N, 1);
  std::vector<float> columns((N - 1) * column + K, untouched);
  for (int n = 0; n < N; ++n)
    for (int k = 0; k < K; ++k) columns[n * column + k] = rows[k * row + n];
  std::vector<float> expected(packed_size(N, K));
  pack_weights(expected.data(), N, K, shape, [&](int n, int k) { return rows[k * row + n]; });
  for (int parts = 1; parts <= 3; ++parts) {
    std::vector<float> from_rows(packed_size(N, K), untouched), from_columns = from_rows;
    for (int index = 0; index < parts; ++index) {
      pack_rows<N, K, row, shape>(Part{index, parts}, from_rows.data(), rows.data());
      pack_columns<N, K, column, shape>(Part{index, parts}, from_columns.data(), columns.data());
    }
    CHECK(from_rows == expected);
    CHECK(from_columns == expected);
  }
}

/// How what is multiplied with is read: packed element by element, by vectors, or where it lies.
enum class How { packed, packed_by_vectors, in_place };

/// As generated code has torch::bmm: matrix by matrix, a part is some of them. What is multiplied with lies row by row or
/// column by column.
template <int Batch, int M, int N, int K, bool Turned = false>
struct Batches {
  static constexpr int a_row = K + 2, w_row = (Turned ? K : N) + 1, out_row = N + 1;
  static constexpr int a_matrix = M * a_row + 5, w_matrix = (Turned ? N : K) * w_row + 7, out_matrix = M * out_row + 3;
  std::vector<float> a = fxx::test::random_floats(Batch * a_matrix, 1);
  std::vector<float> w = fxx::test::random_floats(Batch * w_matrix, 2);

  float left(int b, int m, int k) const { return a[b * a_matrix + m * a_row + k]; }
  float right(int b, int k, int n) const { return w[b * w_matrix + (Turned ? n * w_row + k : k * w_row + n)]; }
  std::vector<float> product(int parts, How how) const {
    constexpr TileShape shape = gemm_tile(M, N, a_row, Distance::near);
    std::vector<float> out(Batch * out_matrix, untouched), packed(packed_size(N, K));
    for (int index = 0; index < parts; ++index) {
      const Range matrices = Part{index, parts}.of(Batch);
      for (int b = matrices.begin; b < matrices.end; ++b) {
        const float* const from = w.data() + b * w_matrix;
        const auto put = [&](int row, int column, real sum, auto width) __attribute__((always_inline)) {
          store_some<width>(out.data() + b * out_matrix + row * out_row + column, sum);
        };
        if (how == How::in_place) {
          if constexpr (Turned) matmul_by_columns<M, N, K, a_row, w_row>(Part{}, a.data() + b * a_matrix, from, put);
          else matmul_by_rows<M, N, K, a_row, w_row>(Part{}, a.data() + b * a_matrix, from, put);
          continue;
        }
        std::fill(packed.begin(), packed.end(), untouched);
        const bool by_vectors = how == How::packed_by_vectors;
        if (by_vectors && Turned) pack_columns<N, K, w_row, shape>(Part{}, packed.data(), from);
        else if (by_vectors) pack_rows<N, K, w_row, shape>(Part{}, packed.data(), from);
        else pack_weights(packed.data(), N, K, shape, MatrixWeights{from, Turned ? w_row : 1, Turned ? 1 : w_row});
        gemm<M, N, K, a_row, TileShape{}, Distance::near>(Part{}, a.data() + b * a_matrix, packed.data(), put);
      }
    }
    return out;
  }
};
template <int Batch, int M, int N, int K, bool Turned = false>
void check_batches() {
  INFO("batch ", Batch, ", ", M, " x ", K, " x ", N, Turned ? ", turned" : "");
  using Given = Batches<Batch, M, N, K, Turned>;
  constexpr double epsilon = std::numeric_limits<float>::epsilon();
  const Given given;
  bool near = true, beside = false;
  const auto check = [&](const std::vector<float>& out) {
    for (int b = 0; b < Batch; ++b) {
      for (int m = 0; m < M; ++m)
        for (int n = 0; n <= N; ++n) {
          const float got = out[b * Given::out_matrix + m * Given::out_row + n];
          if (n == N) {
            beside = beside || got != untouched;
            continue;
          }
          double exact = 0, magnitude = 0;
          for (int k = 0; k < K; ++k) {
            const double term = double(given.left(b, m, k)) * given.right(b, k, n);
            exact += term, magnitude += std::abs(term);
          }
          const double error = std::abs(got - exact) / (epsilon * magnitude);
          near = near && fxx::test::within("a product, whatever the numbers", error, units_of_sum(K));
          near = near && fxx::test::within("a product of normal numbers", error, 3);
        }
      for (int i = 1; i <= 3; ++i) beside = beside || out[(b + 1) * Given::out_matrix - i] != untouched;
    }
  };
  const std::vector<float> out = given.product(1, How::packed), in_place = given.product(1, How::in_place);
  check(out);
  check(in_place);
  CHECK(near);
  CHECK_FALSE(beside);
  CHECK((given.product(1, How::packed_by_vectors) == out));
  if (!Turned) CHECK((in_place == out));  // in the same order
  for (int parts = 2; parts <= 4; ++parts) {
    CHECK((given.product(parts, How::packed) == out));
    CHECK((given.product(parts, How::in_place) == in_place));
  }
}
/// A row of the first factor and a column of the second are not finite, in matrix 1: nothing else is touched.
template <int M, int N, int K, bool Turned>
void check_batches_apart() {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  using Given = Batches<3, M, N, K, Turned>;
  Given given;
  const Given whole = given;
  given.a[Given::a_matrix + (M - 1) * Given::a_row + K / 2] = std::numeric_limits<float>::quiet_NaN();
  given.w[Given::w_matrix + (Turned ? (N - 1) * Given::w_row + K - 1 : (K - 1) * Given::w_row + N - 1)] = infinity;
  // What is between rows and matrices is of none of them.
  for (int b = 0; b < 3; ++b) {
    for (int m = 0; m < M; ++m) given.a[b * Given::a_matrix + m * Given::a_row + K] = infinity;
    for (int i = 0; i < (Turned ? N : K); ++i) given.w[b * Given::w_matrix + (i + 1) * Given::w_row - 1] = infinity;
  }
  for (const How how : {How::packed, How::packed_by_vectors, How::in_place}) {
    const std::vector<float> out = given.product(1, how), clean = whole.product(1, how);
    int wrong = 0;
    for (int b = 0; b < 3; ++b)
      for (int m = 0; m < M; ++m)
        for (int n = 0; n < N; ++n) {
          const int at = b * Given::out_matrix + m * Given::out_row + n;
          if (b == 1 && m == M - 1) wrong += !std::isnan(out[at]);
          else if (b == 1 && n == N - 1) wrong += !std::isinf(out[at]);
          else wrong += out[at] != clean[at];
        }
    CHECK(wrong == 0);
  }
}

/// One product, whose columns parts share out: no sum changes, and none is computed twice or left out.
template <int M, int N, int K, bool Turned>
void check_parts() {
  INFO(M, " x ", K, " x ", N, Turned ? ", turned" : "");
  constexpr int apart = (Turned ? K : N) + 3;
  const std::vector<float> a = fxx::test::random_floats(M * K, 1),
                           w = fxx::test::random_floats((Turned ? N : K) * apart, 2);
  const auto product = [&](int parts) {
    std::vector<float> out(M * N, 0);
    for (int index = 0; index < parts; ++index) {
      const auto put = [&](int row, int column, real sum, auto width) __attribute__((always_inline)) {
        float* const to = out.data() + row * N + column;
        store_some<width>(to, load_some<width>(to) + sum);  // twice would be twice as much
      };
      if constexpr (Turned) matmul_by_columns<M, N, K, K, apart>(Part{index, parts}, a.data(), w.data(), put);
      else matmul_by_rows<M, N, K, K, apart>(Part{index, parts}, a.data(), w.data(), put);
    }
    return out;
  };
  const std::vector<float> whole = product(1);
  for (int parts = 2; parts <= 5; ++parts) CHECK((product(parts) == whole));
}

}  // namespace

TEST_CASE("matrices are packed as they lie, row by row or column by column") {
  check_packing<1, 1, 1>();
  check_packing<lanes, lanes, 1>();
  check_packing<5, 40, 2>();
  check_packing<4 * lanes + 3, 2 * lanes + 1, 3>();
  check_packing<6 * lanes, 7, 2>();
}

TEST_CASE("batches of products are those of double precision, however far apart the matrices lie") {
  check_batches<1, 1, 1, 1>();
  check_batches<7, 1, 1, 257>();
  check_batches<3, 2, 5, 3>();
  check_batches<1, 13, 17, 64>();
  check_batches<7, 31, 33, 3>();
  check_batches<3, 13, 97, 257>();
  check_batches<7, 1, 97, 64>();
  check_batches<3, 31, 1, 64>();
  check_batches<7, 2, 17, 1>();
  check_batches<1, 31, 5, 257>();
  check_batches<2, 32, 2 * lanes, 9>();
}

TEST_CASE("batches whose second factor lies column by column") {
  check_batches<1, 1, 1, 1, true>();
  check_batches<3, 13, 97, 257, true>();
  check_batches<7, 2, 33, 64, true>();
  check_batches<7, 1, 17, 3, true>();
  check_batches<3, 31, 5, 1, true>();
  check_batches<2, 4, 3 * lanes, lanes, true>();
  check_batches<1, 3, lanes + 1, 2 * lanes + 1, true>();
}

TEST_CASE("products of very deep matrices are sums of chains") {
  check_batches<1, 3, 2 * lanes + 1, 1030>();
  check_batches<2, 1, 5, 4099>();
  check_batches<1, 2, lanes + 3, 257 * lanes + 5, true>();
}

TEST_CASE("what is not finite in one matrix of a batch reaches its row and column, and no other matrix") {
  check_batches_apart<1, 1, 3, false>();
  check_batches_apart<2, 17, 64, false>();
  check_batches_apart<13, 33, 3, true>();
  check_batches_apart<31, 97, 64, true>();
}

TEST_CASE("parts of a product with a matrix where it lies") {
  check_parts<1, 1, 3, false>();
  check_parts<1, 1, 3, true>();
  check_parts<1, 5 * lanes + 3, 40, false>();
  check_parts<3, 5 * lanes + 3, 2 * lanes + 1, true>();
  check_parts<2, 2 * lanes, lanes, true>();
  check_parts<30, 130, 7, false>();
}
