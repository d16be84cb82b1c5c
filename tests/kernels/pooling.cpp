// Pooling beside double precision, with padding and windows that reach beyond it.
#include "fxx/kernels/pooling.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/native.hpp"

using namespace fxx::kernels;

namespace {

constexpr float untouched = -12345.f;

template <PoolShape Shape>
std::vector<float> input() {
  return fxx::test::random_floats(
      static_cast<std::size_t>(((Shape.in_height - 1) * Shape.in_row + Shape.in_width) * Shape.channels), 1);
}
/// Elements of channel `c` in the window at (y, x).
template <PoolShape Shape>
std::vector<double> window(const std::vector<float>& in, int y, int x, int c) {
  std::vector<double> elements;
  for (int r = 0; r < Shape.kernel_height; ++r)
    for (int s = 0; s < Shape.kernel_width; ++s) {
      const int row = y * Shape.stride - Shape.padding + r * Shape.dilation;
      const int column = x * Shape.stride - Shape.padding + s * Shape.dilation;
      if (row >= 0 && row < Shape.in_height && column >= 0 && column < Shape.in_width)
        elements.push_back(in[(row * Shape.in_row + column) * Shape.channels + c]);
    }
  return elements;
}
/// Runs `pool` and compares with `exact(y, x, c)`.
template <PoolShape Shape, class Pool, class Exact>
void check(const Pool& pool, const Exact& exact) {
  constexpr int C = Shape.channels;
  std::vector<float> out(Shape.out_height * Shape.out_width * (C + 1), untouched);
  pool([&](int y, int x, int channel, real value, auto width) __attribute__((always_inline)) {
    store_some<width>(out.data() + (y * Shape.out_width + x) * (C + 1) + channel, value);
  });
  double worst = 0;
  bool beside = false;
  for (int y = 0; y < Shape.out_height; ++y)
    for (int x = 0; x < Shape.out_width; ++x) {
      for (int c = 0; c < C; ++c)
        worst = std::max(worst, std::abs(out[(y * Shape.out_width + x) * (C + 1) + c] - exact(y, x, c)));
      beside = beside || out[(y * Shape.out_width + x) * (C + 1) + C] != untouched;
    }
  CHECK(worst < 1e-6);
  CHECK_FALSE(beside);
}
double mean(const std::vector<double>& elements, int of) {
  double total = 0;
  for (const double e : elements) total += e;
  return total / of;
}
template <PoolShape Shape>
void check_pools() {
  INFO("channels ", Shape.channels, ", ", Shape.in_height, " x ", Shape.in_width, ", kernel ", Shape.kernel_height, " x ",
       Shape.kernel_width, ", stride ", Shape.stride, ", padding ", Shape.padding, ", dilation ", Shape.dilation);
  const std::vector<float> in = input<Shape>();
  check<Shape>([&](const auto& finish) { max_pool<Shape>(in.data(), finish); },
               [&](int y, int x, int c) {
                 const std::vector<double> elements = window<Shape>(in, y, x, c);
                 return *std::max_element(elements.begin(), elements.end());
               });
  if constexpr (Shape.dilation == 1) {
    check<Shape>([&](const auto& finish) { average_pool<Shape, false>(in.data(), finish); },
                 [&](int y, int x, int c) {
                   const std::vector<double> elements = window<Shape>(in, y, x, c);
                   return mean(elements, static_cast<int>(elements.size()));
                 });
    check<Shape>([&](const auto& finish) { average_pool<Shape, true>(in.data(), finish); },
                 [&](int y, int x, int c) {
                   const auto size = [](int at, int kernel, int in_size) {
                     const int first = at * Shape.stride - Shape.padding;
                     return std::min(first + kernel, in_size + Shape.padding) - first;
                   };
                   return mean(window<Shape>(in, y, x, c), size(y, Shape.kernel_height, Shape.in_height) *
                                                               size(x, Shape.kernel_width, Shape.in_width));
                 });
  }
}

}  // namespace

TEST_CASE("pooling with padding, strides and windows beyond the input is that of double precision") {
  FXX_ONLY_WHERE_IT_RUNS();
  check_pools<PoolShape{}>();
  check_pools<PoolShape{.channels = 5, .in_height = 7, .in_width = 6, .out_height = 4, .out_width = 3,
                        .kernel_height = 3, .kernel_width = 3, .stride = 2, .padding = 1, .in_row = 9}>();
  // ceil_mode: the last window reaches beyond the padding.
  check_pools<PoolShape{.channels = 33, .in_height = 6, .in_width = 6, .out_height = 4, .out_width = 4,
                        .kernel_height = 3, .kernel_width = 3, .stride = 2, .padding = 1, .in_row = 6}>();
  check_pools<PoolShape{.channels = 16, .in_height = 9, .in_width = 11, .out_height = 5, .out_width = 7,
                        .kernel_height = 3, .kernel_width = 3, .dilation = 2, .in_row = 11}>();
}

TEST_CASE("the mean of all pixels") {
  FXX_ONLY_WHERE_IT_RUNS();
  constexpr PoolShape shape{.channels = 19, .in_height = 7, .in_width = 7, .in_row = 10};
  const std::vector<float> in = input<shape>();
  std::vector<float> out(20, untouched);
  average_of_all<shape>(in.data(), [&](int channel, real value, auto width) __attribute__((always_inline)) {
    store_some<width>(out.data() + channel, value);
  });
  for (int c = 0; c < 19; ++c) {
    double total = 0;
    for (int y = 0; y < 7; ++y)
      for (int x = 0; x < 7; ++x) total += in[(y * 10 + x) * 19 + c];
    CHECK(std::abs(out[c] - total / 49) < 1e-6);
  }
  CHECK(out[19] == untouched);
}

TEST_CASE("nan in a window is its largest") {
  FXX_ONLY_WHERE_IT_RUNS();
  constexpr PoolShape shape{.channels = 3, .in_height = 4, .in_width = 4, .out_height = 2, .out_width = 2,
                            .kernel_height = 2, .kernel_width = 2, .stride = 2, .in_row = 4};
  for (int at = 0; at < 4; ++at) {
    std::vector<float> in(48, 1.f);
    in[((at / 2) * 4 + at % 2) * 3 + 1] = std::numeric_limits<float>::quiet_NaN();
    int nans = 0;
    float found = 0;
    max_pool<shape>(in.data(), [&](int y, int x, int channel, real value, auto width) {
      for (int i = 0; i < width; ++i)
        if (std::isnan(value[i])) ++nans, found = static_cast<float>(y * 2 + x) + (channel + i == 1 ? 0.f : 100.f);
    });
    CHECK(nans == 1);
    CHECK(found == 0.f);
  }
}
