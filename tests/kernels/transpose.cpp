// Transposes of all sizes, and sums of the rows of a square.
#include "fxx/kernels/transpose.hpp"

#include <cmath>

#include "kernels/native.hpp"

using namespace fxx::kernels;

namespace {
template <int Rows, int Columns, int RowStride = Columns, int OutStride = Rows>
void check_transpose() {
  INFO("rows ", Rows, ", columns ", Columns);
  // Both end where the last element does.
  const std::vector<float> in = fxx::test::random_floats((Rows - 1) * RowStride + Columns, 1);
  std::vector<float> out((Columns - 1) * OutStride + Rows, -1), wanted(out);
  transpose<Rows, Columns, RowStride, OutStride>(in.data(), out.data());
  for (int r = 0; r < Rows; ++r)
    for (int c = 0; c < Columns; ++c) wanted[c * OutStride + r] = in[r * RowStride + c];
  CHECK(out == wanted);
}
/// The same by several, each some of the columns.
template <int Rows, int Columns>
void check_parts() {
  INFO("rows ", Rows, ", columns ", Columns);
  const std::vector<float> in = fxx::test::random_floats(Rows * Columns, 3);
  std::vector<float> wanted(in.size());
  transpose<Rows, Columns>(in.data(), wanted.data());
  for (int count = 1; count < 6; ++count) {
    std::vector<float> out(in.size(), -1);
    for (int index = 0; index < count; ++index)
      transpose<Rows, Columns>(
          Part{index, count}.of(Columns, lanes),
          [&](int row, int column, auto width) { return load_some<width>(in.data() + row * Columns + column); },
          [&](int column, int row, real value, auto width) {
            for (int i = 0; i < width; ++i) {
              CHECK(out[column * Rows + row + i] == -1);  // nobody else has written it
              out[column * Rows + row + i] = value[i];
            }
          });
    CHECK(out == wanted);
  }
}
/// Short rows, by several, each some of them.
template <int Rows, int Length>
void check_short() {
  INFO("rows ", Rows, ", length ", Length);
  const std::vector<float> in = fxx::test::random_floats(Rows * Length, 4);
  for (int count = 1; count < 4; ++count) {
    std::vector<float> out(in.size(), -1);
    for (int index = 0; index < count; ++index)
      rows_as_columns<Rows, Length>(
          Part{index, count}.of(Rows, lanes),
          [&](int row, int k, auto width) __attribute__((always_inline)) {
            return load_some<width>(in.data() + row * Length + k);
          },
          [&](const real* elements, int row, auto width) {
            for (int k = 0; k < Length; ++k)
              for (int i = 0; i < width; ++i) {
                CHECK(out[(row + i) * Length + k] == -1);  // nobody else has written it
                out[(row + i) * Length + k] = elements[k][i];
              }
          });
    CHECK(out == in);
  }
}
}  // namespace

TEST_CASE("vectors of short rows have each of their elements, and nothing beside them is read") {
  check_short<1, 1>();
  check_short<5, 3>();
  check_short<64, 16>();
  check_short<70, 9>();
  check_short<33, 5>();
  check_short<17, 23>();
}

TEST_CASE("rows become columns, and nothing beside them is written") {
  check_transpose<1, 1>();
  check_transpose<1, 5>();
  check_transpose<7, 1>();
  check_transpose<16, 16>();
  check_transpose<33, 18, 20, 37>();
  check_transpose<3, 49>();
  check_transpose<64, 31>();
  check_parts<5, 3>();
  check_parts<16, 64>();
  check_parts<9, 70>();
  check_parts<33, 47>();
}

TEST_CASE("a square gives the sums of its rows") {
  const std::vector<float> x = fxx::test::random_floats(lanes * lanes, 2);
  Square square;
  for (int i = 0; i < lanes; ++i) square.rows[i] = load(x.data() + i * lanes);
  const real sums = square.sums_of_each();
  for (int i = 0; i < lanes; ++i) {
    double exact = 0;
    for (int c = 0; c < lanes; ++c) exact += x[i * lanes + c];
    CHECK(std::abs(sums[i] - exact) < 1e-5);
  }
}
