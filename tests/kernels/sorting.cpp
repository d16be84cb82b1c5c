// Rows in order beside std::stable_sort: lengths for each way of sorting, equal elements, nan, infinities, zeros of both
// signs, integers of each width.
#include "fxx/kernels/sorting.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>

#include "kernels/native.hpp"

using namespace fxx::kernels;

namespace {

template <class T>
bool is_nan(T v) {
  return v != v;
}
template <class T>
bool less(T a, T b) {
  return (!is_nan(a) && is_nan(b)) || a < b;
}
template <class T>
bool same(T a, T b) {
  return a == b || (is_nan(a) && is_nan(b));
}
template <class T>
std::vector<T> some(std::size_t count, unsigned seed, bool few) {
  std::mt19937_64 engine(seed);
  std::vector<T> result(count);
  for (T& v : result) {
    if constexpr (std::is_same_v<T, float>)
      v = few ? static_cast<float>(static_cast<int>(engine() % 7) - 3) : std::normal_distribution<float>()(engine);
    else v = few ? static_cast<T>(engine() % 5) : static_cast<T>(engine());
  }
  if constexpr (std::is_same_v<T, float>)
    for (std::size_t i = 0; i < count; ++i) {
      if (i % 31 == 7) result[i] = std::numeric_limits<float>::quiet_NaN();
      if (i % 31 == 8) result[i] = -std::numeric_limits<float>::quiet_NaN();
      if (i % 37 == 5) result[i] = std::numeric_limits<float>::infinity();
      if (i % 37 == 6) result[i] = -std::numeric_limits<float>::infinity();
      if (i % 11 == 3) result[i] = -0.f;
      if (i % 11 == 4) result[i] = 0.f;
    }
  return result;
}

template <class T, int Rows, int Length, int Count, bool Descending>
__attribute__((noinline)) void check(bool few) {
  CAPTURE(Length);
  CAPTURE(Count);
  CAPTURE(Descending);
  static constexpr SortShape shape{.rows = Rows, .length = Length, .count = Count, .descending = Descending};
  constexpr int wanted = shape.wanted(), stride = Length + 3;
  const std::vector<T> in = some<T>((Rows - 1) * stride + Length, Length + Count, few);
  std::vector<T> expected(Rows * wanted);
  std::vector<std::int64_t> expected_places(Rows * wanted);
  for (int row = 0; row < Rows; ++row) {
    std::vector<std::int64_t> order(Length);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
      const T x = in[row * stride + a], y = in[row * stride + b];
      return Descending ? less(y, x) : less(x, y);
    });
    for (int i = 0; i < wanted; ++i) {
      expected_places[row * wanted + i] = order[i];
      expected[row * wanted + i] = in[row * stride + order[i]];
    }
  }
  const std::unique_ptr<float[]> workspace(new float[sort_workspace<T>(Length)]);
  for (const int threads : {1, 3}) {
    for (const int which : {3, 1, 2}) {
      for (const bool top : {false, true}) {
        if (top && wanted > longest_top) continue;
        std::vector<T> values(Rows * wanted);
        std::vector<std::int64_t> places(Rows * wanted);
        T* const to = which & 1 ? values.data() : nullptr;
        std::int64_t* const at = which & 2 ? places.data() : nullptr;
        for (int t = 0; t < threads; ++t) {
          if constexpr (wanted <= longest_top) {
            if (top) top_rows<shape>(Part{t, threads}, in.data(), stride, to, at);
          }
          if (!top) sort_rows<shape>(Part{t, threads}, in.data(), stride, workspace.get(), to, at);
        }
        bool all = true;
        for (int i = 0; i < Rows * wanted; ++i) {
          all = all && (!to || same(values[i], expected[i]));
          all = all && (!at || places[i] == expected_places[i]);
        }
        CHECK(all);
      }
    }
  }
}
template <class T, int Rows, int Length, int Count>
void check_both() {
  for (const bool few : {false, true}) {
    check<T, Rows, Length, Count, false>(few);
    check<T, Rows, Length, Count, true>(few);
  }
}

}  // namespace

TEST_CASE("rows of floats in order, whole and the first of them") {
  check_both<float, 1, 1, 0>();
  check_both<float, 3, 2, 1>();
  check_both<float, 5, 17, 0>();
  check_both<float, 2, 33, 5>();
  check_both<float, 1, 100, 100>();
  check_both<float, 1, 511, 0>();
  check_both<float, 2, 512, 128>();
  check_both<float, 4, 1003, 0>();
  check_both<float, 1, 20011, 50>();
  check_both<float, 2, 5000, 700>();
}

TEST_CASE("rows of integers of each width in order") {
  check_both<std::int64_t, 2, 40, 0>();
  check_both<std::int64_t, 2, 1500, 0>();
  check_both<std::int64_t, 1, 3000, 9>();
  check_both<std::int32_t, 2, 700, 0>();
  check_both<std::int32_t, 2, 90, 20>();
  check_both<std::int16_t, 1, 600, 7>();
  check_both<std::int8_t, 2, 600, 0>();
  check_both<std::uint8_t, 2, 300, 11>();
}

TEST_CASE("rows that are all equal, in order already, and the other way round") {
  static constexpr SortShape all{.rows = 1, .length = 1000}, down{.rows = 1, .length = 1000, .descending = true};
  const std::unique_ptr<float[]> workspace(new float[sort_workspace<float>(1000)]);
  std::vector<float> equal(1000, 3.f), up(1000), sorted(1000);
  std::iota(up.begin(), up.end(), 0.f);
  std::vector<std::int64_t> places(1000), first(1000);
  std::iota(first.begin(), first.end(), 0);
  sort_rows<all>(Part{}, equal.data(), 1000, workspace.get(), sorted.data(), places.data());
  CHECK(places == first);
  sort_rows<down>(Part{}, equal.data(), 1000, workspace.get(), sorted.data(), places.data());
  CHECK(places == first);
  sort_rows<all>(Part{}, up.data(), 1000, workspace.get(), sorted.data(), places.data());
  CHECK(places == first);
  CHECK(sorted == up);
  sort_rows<down>(Part{}, up.data(), 1000, workspace.get(), sorted.data(), places.data());
  std::reverse(first.begin(), first.end());
  CHECK(places == first);
}
