// Bags of rows beside sums in double precision: sizes of bags and rows, offsets, weights, rows that are left out.
#include "fxx/kernels/bags.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "kernels/native.hpp"

using namespace fxx::kernels;

namespace {

constexpr int table_rows = 23;

template <Bag How, int Columns, int Stride, class Index, bool Weighted = false, long LeftOut = -1,
          bool LastOffset = false>
__attribute__((noinline)) void check_bags() {
  CAPTURE(Columns);
  CAPTURE(Weighted);
  CAPTURE(LeftOut);
  // Empty ones at the beginning, in the middle and at the end, a long one, one of a single row.
  const std::vector<Index> offsets = {0, 0, 3, 4, 4, 41, 50, 50};
  constexpr int bags = LastOffset ? 7 : 8;
  static constexpr BagShape shape{.bags = bags, .columns = Columns, .count = LastOffset ? 50 : 57, .row_stride = Stride,
                                  .left_out = LeftOut, .last_offset = LastOffset};
  const std::vector<float> table = fxx::test::random_floats((table_rows - 1) * Stride + Columns, Columns);
  const std::vector<float> weights = fxx::test::random_floats(shape.count, 3);
  const std::unique_ptr<Index[]> indices(new Index[shape.count]);
  for (int i = 0; i < shape.count; ++i) indices[i] = static_cast<Index>(i * 7 % table_rows);
  std::vector<float> first;
  for (const int threads : {1, 3, 20}) {
    std::vector<float> out(bags * Columns, -77);
    int fault = 0;
    for (int t = 0; t < threads; ++t) {
      const auto put = [&](int bag, int c, real v, auto width)
                           __attribute__((always_inline)) { store_some<width>(out.data() + bag * Columns + c, v); };
      if constexpr (Weighted)
        combine_bags<How, shape>(Part{t, threads}, indices.get(), offsets.data(), weights.data(), table.data(),
                                 table_rows, fault, put);
      else
        combine_bags<How, shape>(Part{t, threads}, indices.get(), offsets.data(), Unweighted{}, table.data(),
                                 table_rows, fault, put);
    }
    CHECK(fault == no_fault);
    for (int bag = 0; bag < bags; ++bag)
      for (int c = 0; c < Columns; ++c) {
        const long end = bag + 1 < 8 ? offsets[bag + 1] : shape.count;
        double sum = 0, magnitude = 0, most = -std::numeric_limits<double>::infinity();
        int count = 0;
        for (long i = offsets[bag]; i < end; ++i) {
          if (indices[i] == LeftOut) continue;
          const double x = table[indices[i] * Stride + c], w = Weighted ? weights[i] : 1;
          sum += x * w;
          magnitude += std::abs(x * w);
          most = std::max(most, x);
          ++count;
        }
        double wanted = How == Bag::sum ? sum : How == Bag::mean ? sum / std::max(count, 1) : most;
        if (count == 0) wanted = 0;
        const double error = std::abs(out[bag * Columns + c] - wanted), unit = std::ldexp(magnitude, -23);
        if (How == Bag::largest || magnitude == 0) {
          CHECK(error == 0);
        } else {
          const double of = How == Bag::mean ? unit / count : unit;
          CHECK(fxx::test::within("a bag: rows / 2 units", error, count / 2. * of));
          CHECK(fxx::test::within("a bag of normal numbers", error, 1.5 * of));
        }
      }
    if (first.empty()) first = out;
    CHECK(out == first);
  }
}

}  // namespace

TEST_CASE("sums, means and largest elements of bags") {
  check_bags<Bag::sum, 16, 16, std::int64_t>();
  check_bags<Bag::sum, 1, 1, std::int64_t>();
  check_bags<Bag::sum, 7, 9, std::int32_t>();
  check_bags<Bag::sum, 64, 64, std::int64_t>();
  check_bags<Bag::sum, 131, 140, std::int64_t>();
  check_bags<Bag::sum, 33, 33, std::int64_t, true>();
  check_bags<Bag::sum, 16, 16, std::int32_t, true, 7>();
  check_bags<Bag::sum, 70, 70, std::int64_t, false, 0, true>();
  check_bags<Bag::mean, 16, 16, std::int64_t>();
  check_bags<Bag::mean, 5, 5, std::int64_t, false, 14>();
  check_bags<Bag::mean, 67, 67, std::int64_t, false, -1, true>();
  check_bags<Bag::largest, 16, 16, std::int64_t>();
  check_bags<Bag::largest, 3, 3, std::int64_t, false, 7>();
  check_bags<Bag::largest, 80, 90, std::int32_t>();
}

TEST_CASE("nan and infinity are in the bags that they belong to") {
  static constexpr BagShape shape{.bags = 2, .columns = 3, .count = 3, .row_stride = 3};
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const float table[9] = {nan, infinity, 1, 2, 3, -infinity, infinity, 5, 6};
  const std::int64_t indices[3] = {0, 1, 2}, offsets[2] = {0, 2};
  int fault = 0;
  for (const bool largest : {false, true}) {
    float out[6];
    const auto put = [&](int bag, int c, real v, auto width)
                         __attribute__((always_inline)) { store_some<width>(out + bag * 3 + c, v); };
    if (largest) combine_bags<Bag::largest, shape>(Part{}, indices, offsets, Unweighted{}, table, 3, fault, put);
    else combine_bags<Bag::sum, shape>(Part{}, indices, offsets, Unweighted{}, table, 3, fault, put);
    CHECK(std::isnan(out[0]));
    CHECK(out[1] == infinity);
    CHECK(out[2] == (largest ? 1 : -infinity));
    CHECK(out[3] == infinity);
    CHECK(out[4] == 5);
    CHECK(out[5] == 6);
  }
  CHECK(fault == no_fault);
}

TEST_CASE("indices that name no row, and offsets that are none, are noted; no other memory is read") {
  static constexpr BagShape shape{.bags = 3, .columns = 20, .count = 6, .row_stride = 20};
  const std::unique_ptr<float[]> table(new float[60]());
  const auto run = [&](std::vector<std::int64_t> indices, std::vector<std::int64_t> offsets) {
    int fault = 0;
    float out[60];
    combine_bags<Bag::sum, shape>(Part{}, indices.data(), offsets.data(), Unweighted{}, table.get(), 3, fault,
                                  [&](int bag, int c, real v, auto width)
                                      __attribute__((always_inline)) { store_some<width>(out + bag * 20 + c, v); });
    return fault;
  };
  CHECK(run({0, 1, 2, 0, 1, 2}, {0, 2, 5}) == no_fault);
  for (const std::int64_t wrong : {std::int64_t{3}, std::int64_t{-1}, std::int64_t{1} << 40})
    CHECK(run({0, 1, 2, 0, wrong, 2}, {0, 2, 5}) == fault_of_index);
  CHECK(run({0, 1, 2, 0, 1, 2}, {0, 7, 5}) == fault_of_index);
  CHECK(run({0, 1, 2, 0, 1, 2}, {0, 4, 3}) == fault_of_index);
  CHECK(run({0, 1, 2, 0, 1, 2}, {-1, 2, 3}) == fault_of_index);
}
