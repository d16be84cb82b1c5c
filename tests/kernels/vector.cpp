// Parts of vectors, and what is made of all their elements.
#include "fxx/kernels/vector.hpp"

#include <cmath>
#include <limits>
#include <utility>

#include "kernels/native.hpp"

using namespace fxx::kernels;

namespace {
template <int Count>
void check_part(const std::vector<float>& numbers) {
  CAPTURE(Count);
  const std::vector<float> from(numbers.begin(), numbers.begin() + Count);  // the sanitizers watch its end
  const real v = load_some<Count>(from.data());
  std::vector<float> all(lanes, -1), to(Count, -1);
  store(all.data(), v);
  store_some<Count>(to.data(), v);
  CHECK(to == from);
  for (int i = 0; i < lanes; ++i) CHECK(all[i] == (i < Count ? from[i] : 0.f));
}
}  // namespace

TEST_CASE("parts of a vector are read and written, and nothing beside them") {
  const std::vector<float> numbers = fxx::test::random_floats(lanes, 1);
  [&]<int... I>(std::integer_sequence<int, I...>) {
    (check_part<I + 1>(numbers), ...);
  }(std::make_integer_sequence<int, lanes>());
}

TEST_CASE("vectors that hold some elements") {
  CHECK(vectors_of(1) == 1);
  CHECK(vectors_of(lanes) == 1);
  CHECK(vectors_of(lanes + 1) == 2);
}

TEST_CASE("the sum of a vector is that of its elements, within rounding") {
  for (unsigned seed = 0; seed < 2000; ++seed) {
    const std::vector<float> numbers = fxx::test::random_floats(lanes, seed);
    double exact = 0, magnitude = 0;
    for (const float x : numbers) exact += x, magnitude += std::abs(x);
    const double unit = std::numeric_limits<float>::epsilon() * magnitude;
    CHECK(fxx::test::within("the sum of a vector: log2(lanes) / 2 units", std::abs(sum(load(numbers.data())) - exact),
                            std::log2(double(lanes)) / 2 * unit));
  }
}

TEST_CASE("the largest of a vector, wherever it stands, and nan when there is one") {
  for (int at = 0; at < lanes; ++at) {
    CAPTURE(at);
    std::vector<float> numbers = fxx::test::random_floats(lanes, 3);
    numbers[at] = 100;
    CHECK(largest(load(numbers.data())) == 100.f);
    numbers[at] = std::numeric_limits<float>::infinity();
    CHECK(largest(load(numbers.data())) == std::numeric_limits<float>::infinity());
    numbers[at] = std::numeric_limits<float>::quiet_NaN();
    CHECK(std::isnan(largest(load(numbers.data()))));
  }
  const std::vector<float> low(lanes, -std::numeric_limits<float>::infinity());
  CHECK(largest(load(low.data())) == -std::numeric_limits<float>::infinity());
}
