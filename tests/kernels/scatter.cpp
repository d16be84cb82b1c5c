// Elements that go to places which tensors tell, beside loops over single elements: numbers of threads change nothing.
#include "fxx/kernels/scatter.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "fxx/kernels/loops.hpp"
#include "kernels/native.hpp"

using namespace fxx::kernels;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();

template <Combine How, class T>
T wanted_of(T before, T v) {
  if (How == Combine::replace) return v;
  if (How == Combine::add) return static_cast<T>(before + v);
  if (How == Combine::multiply) return static_cast<T>(before * v);
  if (v != v || before != before) return v != v ? v : before;
  return How == Combine::largest ? std::max(before, v) : std::min(before, v);
}
bool same(float a, float b) { return a == b || (a != a && b != b); }
template <class T>
bool same(T a, T b) {
  return a == b;
}
std::vector<std::int64_t> some_places(std::size_t count, std::int64_t places, unsigned seed) {
  std::mt19937 engine(seed);
  std::uniform_int_distribution<std::int64_t> any(0, places - 1);
  std::vector<std::int64_t> result(count);
  for (std::int64_t& place : result) place = any(engine);
  return result;
}
/// Small numbers, so that sums and products of them are exact in any dtype, and nothing hides behind rounding.
template <class T>
std::vector<T> some_values(std::size_t count, unsigned seed) {
  std::mt19937 engine(seed);
  std::vector<T> result(count);
  for (T& v : result) v = static_cast<T>(static_cast<int>(engine() % 5) - 2);
  if constexpr (std::is_same_v<T, float>) {
    for (std::size_t i = 0; i < count; i += 37) result[i] = i % 3 == 0 ? nan : infinity;
  }
  return result;
}
template <class T>
auto vector_at(const T* from, auto width) {
  if constexpr (std::is_same_v<T, float>) return load_some<width>(from);
  else return load_64(from, width);
}

/// Calls `run(part, out, fault)` for each part of several numbers of threads; `out` begins as `before`.
template <class T, class Run>
void check_parts(const std::vector<T>& before, const std::vector<T>& wanted, const Run& run) {
  for (const int threads : {1, 2, 3, 8, 33}) {
    CAPTURE(threads);
    // As large as it has to be, so that a sanitizer sees what is beyond.
    const std::unique_ptr<T[]> out(new T[before.size()]);
    std::copy(before.begin(), before.end(), out.get());
    int fault = 0;
    for (int t = 0; t < threads; ++t) run(Part{t, threads}, out.get(), fault);
    CHECK(fault == no_fault);
    bool all = true;
    for (std::size_t i = 0; i < before.size(); ++i) all = all && same(out[i], wanted[i]);
    CHECK(all);
  }
}
/// Each row goes to a row of the result as a whole.
template <Combine How, class T, int Groups, int Rows, int Columns, int Places>
__attribute__((noinline)) void check_rows() {
  CAPTURE(Groups);
  CAPTURE(Rows);
  CAPTURE(Columns);
  static constexpr ScatterShape shape{.groups = Groups, .rows = Rows, .columns = Columns, .places = Places};
  const std::vector<std::int64_t> index = some_places(Rows, Places, Rows + Columns);
  const std::vector<T> values = some_values<T>(std::size_t{Groups} * Rows * Columns, Rows);
  const std::vector<T> before = some_values<T>(std::size_t{Groups} * Places * Columns, Columns + 9);
  std::vector<T> wanted = before;
  for (int g = 0; g < Groups; ++g)
    for (int r = 0; r < Rows; ++r)
      for (int c = 0; c < Columns; ++c) {
        T& to = wanted[(g * Places + index[r]) * Columns + c];
        to = wanted_of<How>(to, values[(g * Rows + r) * Columns + c]);
      }
  check_parts(before, wanted, [&](Part part, T* out, int& fault) {
    scatter_rows<How, shape>(
        part, out,
        [&](int g, int r) {
          const std::ptrdiff_t place = row_of<Places>(index[r], fault);
          return Destination{place, (g * Places + place) * Columns};
        },
        [&](int g, int r, int c, auto width) __attribute__((always_inline)) {
          return vector_at(values.data() + (g * Rows + r) * Columns + c, width);
        });
  });
}
/// Each element goes to a place of its own along the rows of the result.
template <Combine How, class T, int Groups, int Rows, int Columns, int Places>
__attribute__((noinline)) void check_elements() {
  CAPTURE(Groups);
  CAPTURE(Rows);
  CAPTURE(Columns);
  static constexpr ScatterShape shape{.groups = Groups, .rows = Rows, .columns = Columns, .places = Places};
  const std::vector<std::int64_t> index = some_places(std::size_t{Groups} * Rows * Columns, Places, Rows + Columns);
  const std::vector<T> values = some_values<T>(index.size(), Rows);
  const std::vector<T> before = some_values<T>(std::size_t{Groups} * Places * Columns, Columns + 9);
  std::vector<T> wanted = before;
  for (int g = 0; g < Groups; ++g)
    for (int r = 0; r < Rows; ++r)
      for (int c = 0; c < Columns; ++c) {
        const std::size_t at = (g * Rows + r) * Columns + c;
        T& to = wanted[(g * Places + index[at]) * Columns + c];
        to = wanted_of<How>(to, values[at]);
      }
  check_parts(before, wanted, [&](Part part, T* out, int& fault) {
    scatter_elements<How, shape>(
        part, out,
        [&](int g, int r, int c) {
          const std::ptrdiff_t place = row_of<Places>(index[(g * Rows + r) * Columns + c], fault);
          return Destination{place, (g * Places + place) * Columns + c};
        },
        [&](int g, int r, int c, auto width) __attribute__((always_inline)) {
          return vector_at(values.data() + (g * Rows + r) * Columns + c, width);
        });
  });
}
/// Every way through the loops once: whole vectors and what is left of them, several groups, parts without rows.
template <Combine How, class T>
void check_some_shapes() {
  check_rows<How, T, 1, 300, 16, 7>();
  check_rows<How, T, 3, 17, 5, 4>();
  check_elements<How, T, 40, 19, 1, 5>();
  check_elements<How, T, 2, 7, 70, 3>();
}
template <Combine How, class T>
void check_shapes() {
  check_rows<How, T, 1, 1, 1, 1>();
  check_rows<How, T, 1, 300, 16, 7>();
  check_rows<How, T, 1, 523, 7, 40>();
  check_rows<How, T, 1, 31, 64, 3>();
  check_rows<How, T, 1, 5, 83, 2>();
  check_rows<How, T, 3, 17, 5, 4>();
  check_rows<How, T, 40, 3, 2, 4>();
  check_elements<How, T, 1, 1, 1, 1>();
  check_elements<How, T, 1, 523, 1, 40>();
  check_elements<How, T, 3, 37, 1, 11>();
  check_elements<How, T, 40, 19, 1, 5>();
  check_elements<How, T, 1, 41, 19, 6>();
  check_elements<How, T, 2, 7, 70, 3>();
}

}  // namespace

TEST_CASE("rows and elements go to their places, in the order of the rows, whatever the number of threads") {
  check_shapes<Combine::replace, float>();
  check_shapes<Combine::add, float>();
  check_some_shapes<Combine::multiply, float>();
  check_shapes<Combine::largest, float>();
  check_some_shapes<Combine::smallest, float>();
}

TEST_CASE("integers of 64, 32 and 8 bits wrap around") {
  check_some_shapes<Combine::replace, std::int64_t>();
  check_shapes<Combine::add, std::int64_t>();
  check_some_shapes<Combine::multiply, std::int64_t>();
  check_some_shapes<Combine::largest, std::int64_t>();
  check_some_shapes<Combine::add, std::int32_t>();
  check_some_shapes<Combine::smallest, std::int32_t>();
  check_some_shapes<Combine::replace, std::uint8_t>();
  check_some_shapes<Combine::add, std::uint8_t>();
  check_some_shapes<Combine::multiply, std::int8_t>();
}

TEST_CASE("masks") {
  static constexpr ScatterShape shape{.rows = 21, .columns = 5, .places = 8};
  const std::vector<std::int64_t> index = some_places(21, 8, 3);
  unsigned char wanted[40] = {}, out[40] = {}, elements[40] = {}, values[105];
  for (int i = 0; i < 105; ++i) values[i] = i % 3 == 0;
  for (int r = 0; r < 21; ++r)
    for (int c = 0; c < 5; ++c) wanted[index[r] * 5 + c] = values[r * 5 + c];
  const auto get = [&](int, int r, int c, auto width)
                       __attribute__((always_inline)) { return load_mask(values + r * 5 + c, width); };
  scatter_rows<Combine::replace, shape>(
      Part{}, out, [&](int, int r) { return Destination{index[r], index[r] * 5}; }, get);
  scatter_elements<Combine::replace, shape>(
      Part{}, elements, [&](int, int r, int c) { return Destination{index[r], index[r] * 5 + c}; }, get);
  CHECK(std::equal(wanted, wanted + 40, out));
  CHECK(std::equal(wanted, wanted + 40, elements));
}

namespace {
template <int Rows, int Columns>
void check_order(bool positive, unsigned seed) {
  CAPTURE(Rows);
  CAPTURE(positive);
  static constexpr ScatterShape shape{.rows = Rows, .columns = Columns, .places = 2};
  constexpr std::size_t count = std::size_t{Rows} * Columns;
  const std::vector<float> values =
      positive ? fxx::test::positive_floats(count, seed) : fxx::test::random_floats(count, seed);
  std::vector<float> ordered(2 * Columns);
  std::vector<double> exact(2 * Columns), magnitude(2 * Columns);
  for (int r = 0; r < Rows; ++r)
    for (int c = 0; c < Columns; ++c) {
      const int at = (r * 7 % 2) * Columns + c;
      const float v = values[r * Columns + c];
      ordered[at] += v, exact[at] += v, magnitude[at] += std::abs(v);
    }
  for (const int threads : {1, 2, 5}) {
    std::vector<float> out(2 * Columns);
    for (int t = 0; t < threads; ++t)
      scatter_rows<Combine::add, shape>(
          Part{t, threads}, out.data(), [&](int, int r) { return Destination{r * 7 % 2, r * 7 % 2 * Columns}; },
          [&](int, int r, int c, auto width)
              __attribute__((always_inline)) { return load_some<width>(values.data() + r * Columns + c); });
    CHECK(out == ordered);
    for (int i = 0; i < 2 * Columns; ++i) {
      const double error = std::abs(out[i] - exact[i]), unit = std::ldexp(magnitude[i], -23), rows = (Rows + 1) / 2;
      CHECK(fxx::test::within("scatter: rows / 2 units", error, rows / 2 * unit));
      if (positive)
        CHECK(fxx::test::within("scatter of one sign: 1 + sqrt(rows) / 2 units", error,
                                (1 + std::sqrt(rows) / 2) * unit));
      else CHECK(fxx::test::within("scatter of normal numbers", error, 1.5 * unit));
    }
  }
}
template <int Rows, int Columns>
void check_order() {
  for (unsigned seed = 1; seed < 6; ++seed)
    for (const bool positive : {false, true}) check_order<Rows, Columns>(positive, seed);
}
}  // namespace

TEST_CASE("sums are added in the order of the rows: the same bits as one after the other, and near to the exact sum") {
  check_order<2, lanes + 1>();
  check_order<5, 19>();
  check_order<61, 33>();
  check_order<4001, lanes + 3>();
}

TEST_CASE("a place that is none is noted, and no other memory is touched") {
  static constexpr ScatterShape shape{.rows = 20, .columns = 4, .places = 3};
  for (const std::int64_t wrong : {std::int64_t{3}, std::int64_t{-1}, std::int64_t{1} << 40})
    for (const int threads : {1, 2}) {
      std::vector<std::int64_t> index = some_places(20, 3, 1);
      index[11] = wrong;
      const std::unique_ptr<float[]> out(new float[12]());
      int fault = 0;
      for (int t = 0; t < threads; ++t)
        scatter_rows<Combine::add, shape>(
            Part{t, threads}, out.get(),
            [&](int, int r) {
              const std::ptrdiff_t place = row_of<3>(index[r], fault);
              return Destination{place, place * 4};
            },
            [&](int, int, int, auto) __attribute__((always_inline)) { return splat(1.f); });
      CHECK(fault == fault_of_index);
    }
}
