// Searches in rows that are in order, beside std::lower_bound and std::upper_bound.
#include "fxx/kernels/searching.hpp"

#include <algorithm>
#include <limits>
#include <memory>

#include "kernels/native.hpp"

using namespace fxx::kernels;

namespace {

template <int N, class T, class Load>
void check(const std::vector<T>& row, const std::vector<T>& wanted, const Load& load_at) {
  CAPTURE(N);
  // Every third is an element of the row.
  const std::unique_ptr<T[]> apart(new T[3 * (N - 1) + 1]);
  for (int i = 0; i < N; ++i) apart[3 * i] = row[i];
  for (std::size_t first = 0; first < wanted.size(); first += lanes) {
    const auto x = load_at(wanted.data() + first, wanted.size() - first);
    const integer_64 left = places_among<N, false>(row.data(), 1, x, [](int) { return 0; }, Width<lanes>{});
    const integer_64 right = places_among<N, true>(apart.get(), 3, x, [](int) { return 0; }, Width<lanes>{});
    for (int i = 0; i < lanes && first + i < wanted.size(); ++i) {
      const T v = wanted[first + i];
      const bool nan = v != v;
      CHECK(left[i] == (nan ? N : std::lower_bound(row.begin(), row.end(), v) - row.begin()));
      CHECK(right[i] == (nan ? N : std::upper_bound(row.begin(), row.end(), v) - row.begin()));
    }
  }
}
template <int N>
void check_floats() {
  std::vector<float> row = fxx::test::random_floats(N, N), wanted = fxx::test::random_floats(67, 3);
  for (int i = 0; i + 1 < N; i += 3) row[i + 1] = row[i];  // some are equal
  std::sort(row.begin(), row.end());
  wanted.insert(wanted.end(), row.begin(), row.end());
  const float infinity = std::numeric_limits<float>::infinity();
  wanted.insert(wanted.end(), {infinity, -infinity, std::numeric_limits<float>::quiet_NaN(), 0.f, -0.f});
  wanted.resize(vectors_of(static_cast<int>(wanted.size())) * lanes);
  check<N>(row, wanted, [](const float* from, std::size_t) { return load(from); });
}
template <int N>
void check_integers() {
  std::vector<std::int64_t> row(N), wanted;
  for (int i = 0; i < N; ++i) row[i] = (i / 2) * 5 - 7;
  for (std::int64_t v = -20; v < 100; ++v) wanted.push_back(v);
  wanted.insert(wanted.end(), {std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()});
  wanted.resize(vectors_of(static_cast<int>(wanted.size())) * lanes);
  check<N>(row, wanted, [](const std::int64_t* from, std::size_t) { return load_64(from, Width<lanes>{}); });
}

}  // namespace

TEST_CASE("floats and integers find their place in rows of any length") {
  check_floats<1>();
  check_floats<2>();
  check_floats<7>();
  check_floats<32>();
  check_floats<1001>();
  check_integers<1>();
  check_integers<6>();
  check_integers<33>();
}

TEST_CASE("each element has a row of its own, and no more are read than count") {
  const std::unique_ptr<float[]> rows(new float[3]);
  rows[0] = 1, rows[1] = 2, rows[2] = 3;
  const integer_64 found = places_among<1, true>(rows.get(), 1, splat(2.f), [](int e) { return e; }, Width<3>{});
  CHECK(found[0] == 1);
  CHECK(found[1] == 1);
  CHECK(found[2] == 0);
}
