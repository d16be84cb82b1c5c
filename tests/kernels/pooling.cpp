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
      static_cast<std::size_t>((Shape.images - 1) * Shape.image() +
                               ((Shape.in_height - 1) * Shape.in_row + Shape.in_width - 1) * Shape.pixel() +
                               Shape.channels),
      1);
}
/// Elements of channel `c` in the window at (y, x).
template <PoolShape Shape>
std::vector<double> window(const std::vector<float>& in, int image, int y, int x, int c) {
  std::vector<double> elements;
  for (int r = 0; r < Shape.kernel_height; ++r)
    for (int s = 0; s < Shape.kernel_width; ++s) {
      const int row = y * Shape.stride_height - Shape.padding_height + r * Shape.dilation_height;
      const int column = x * Shape.stride_width - Shape.padding_width + s * Shape.dilation_width;
      if (row >= 0 && row < Shape.in_height && column >= 0 && column < Shape.in_width)
        elements.push_back(in[image * Shape.image() + (row * Shape.in_row + column) * Shape.pixel() + c]);
    }
  return elements;
}
/// Runs `pool(part, finish)`, whole and in parts, and compares with `exact(image, y, x, c)`.
template <PoolShape Shape, class Pool, class Exact>
void check(const Pool& pool, const Exact& exact) {
  constexpr int C = Shape.channels;
  const auto in_parts = [&](int parts) {
    std::vector<float> out(Shape.images * Shape.out_height * Shape.out_width * (C + 1), untouched);
    for (int index = 0; index < parts; ++index)
      pool(Part{index, parts}, [&](int image, int y, int x, int channel, real value, auto width)
                                   __attribute__((always_inline)) {
        store_some<width>(out.data() + ((image * Shape.out_height + y) * Shape.out_width + x) * (C + 1) + channel, value);
      });
    return out;
  };
  const std::vector<float> out = in_parts(1);
  double worst = 0;
  bool beside = false;
  for (int image = 0; image < Shape.images; ++image)
    for (int y = 0; y < Shape.out_height; ++y)
      for (int x = 0; x < Shape.out_width; ++x) {
        const float* given = out.data() + ((image * Shape.out_height + y) * Shape.out_width + x) * (C + 1);
        for (int c = 0; c < C; ++c) worst = std::max(worst, std::abs(given[c] - exact(image, y, x, c)));
        beside = beside || given[C] != untouched;
      }
  CHECK(worst < 1e-6);
  CHECK_FALSE(beside);
  for (int parts = 2; parts <= 4; ++parts) CHECK(in_parts(parts) == out);
}
double mean(const std::vector<double>& elements, int of) {
  double total = 0;
  for (const double e : elements) total += e;
  return total / of;
}
template <PoolShape Shape>
void check_pools() {
  INFO("channels ", Shape.channels, ", ", Shape.in_height, " x ", Shape.in_width, ", kernel ", Shape.kernel_height, " x ",
       Shape.kernel_width, ", stride ", Shape.stride_height, " x ", Shape.stride_width, ", images ", Shape.images);
  const std::vector<float> in = input<Shape>();
  check<Shape>([&](Part part, const auto& finish) { max_pool<Shape>(part, in.data(), finish); },
               [&](int image, int y, int x, int c) {
                 const std::vector<double> elements = window<Shape>(in, image, y, x, c);
                 return *std::max_element(elements.begin(), elements.end());
               });
  if constexpr (Shape.dilation_height == 1 && Shape.dilation_width == 1) {
    check<Shape>([&](Part part, const auto& finish) { average_pool<Shape, false>(part, in.data(), finish); },
                 [&](int image, int y, int x, int c) {
                   const std::vector<double> elements = window<Shape>(in, image, y, x, c);
                   return mean(elements, static_cast<int>(elements.size()));
                 });
    check<Shape>([&](Part part, const auto& finish) { average_pool<Shape, true>(part, in.data(), finish); },
                 [&](int image, int y, int x, int c) {
                   const auto size = [](int at, int stride, int padding, int kernel, int in_size) {
                     const int first = at * stride - padding;
                     return std::min(first + kernel, in_size + padding) - first;
                   };
                   const int rows =
                       size(y, Shape.stride_height, Shape.padding_height, Shape.kernel_height, Shape.in_height);
                   return mean(window<Shape>(in, image, y, x, c),
                               rows * size(x, Shape.stride_width, Shape.padding_width, Shape.kernel_width, Shape.in_width));
                 });
  }
}

}  // namespace

TEST_CASE("pooling with padding, strides and windows beyond the input is that of double precision") {
  check_pools<PoolShape{}>();
  check_pools<PoolShape{.channels = 5, .in_height = 7, .in_width = 6, .out_height = 4, .out_width = 3,
                        .kernel_height = 3, .kernel_width = 3, .stride_height = 2,
                        .stride_width = 2, .padding_height = 1, .padding_width = 1, .in_row = 9}>();
  // ceil_mode: the last window reaches beyond the padding.
  check_pools<PoolShape{.channels = 33, .in_height = 6, .in_width = 6, .out_height = 4, .out_width = 4,
                        .kernel_height = 3, .kernel_width = 3, .stride_height = 2,
                        .stride_width = 2, .padding_height = 1, .padding_width = 1, .in_row = 6}>();
  check_pools<PoolShape{.channels = 16, .in_height = 9, .in_width = 11, .out_height = 5, .out_width = 7,
                        .kernel_height = 3, .kernel_width = 3, .dilation_height = 2,
                        .dilation_width = 2, .in_row = 11}>();
  // One dimension.
  check_pools<PoolShape{.channels = 20, .in_width = 21, .out_width = 11, .kernel_width = 3, .stride_width = 2,
                        .padding_width = 1, .in_row = 21}>();
}

TEST_CASE("pooling of several images, wherever they lie, is as if each came alone") {
  check_pools<PoolShape{.channels = 18, .in_height = 9, .in_width = 6, .out_height = 9, .out_width = 3,
                        .kernel_height = 3, .kernel_width = 2, .stride_width = 2, .padding_height = 1, .in_row = 7,
                        .in_pixel = 20, .images = 3, .in_image = 1300}>();
  check_pools<PoolShape{.channels = 40, .in_height = 4, .in_width = 4, .out_height = 2, .out_width = 2,
                        .kernel_height = 2, .kernel_width = 2, .stride_height = 2, .stride_width = 2, .in_row = 4,
                        .images = 2}>();
}

template <PoolShape Shape>
void check_average_of_all() {
  const std::vector<float> in = input<Shape>();
  check<Shape>([&](Part part, const auto& finish) { average_of_all<Shape>(part, in.data(), finish); },
               [&](int image, int, int, int c) {
                 double total = 0;
                 for (int y = 0; y < Shape.in_height; ++y)
                   for (int x = 0; x < Shape.in_width; ++x)
                     total += in[image * Shape.image() + (y * Shape.in_row + x) * Shape.pixel() + c];
                 return total / (Shape.in_height * Shape.in_width);
               });
}
TEST_CASE("the mean of all pixels") {
  check_average_of_all<PoolShape{.channels = 19, .in_height = 7, .in_width = 7, .in_row = 10}>();
  check_average_of_all<PoolShape{.channels = 40, .in_height = 2, .in_width = 3, .in_row = 3, .images = 18}>();
}

TEST_CASE("nan in a window is its largest") {
  constexpr PoolShape shape{.channels = 3, .in_height = 4, .in_width = 4, .out_height = 2, .out_width = 2,
                            .kernel_height = 2, .kernel_width = 2, .stride_height = 2,
                            .stride_width = 2, .in_row = 4};
  for (int at = 0; at < 4; ++at) {
    std::vector<float> in(48, 1.f);
    in[((at / 2) * 4 + at % 2) * 3 + 1] = std::numeric_limits<float>::quiet_NaN();
    int nans = 0;
    float found = 0;
    max_pool<shape>(Part{}, in.data(), [&](int, int y, int x, int channel, real value, auto width) {
      for (int i = 0; i < width; ++i)
        if (std::isnan(value[i])) ++nans, found = static_cast<float>(y * 2 + x) + (channel + i == 1 ? 0.f : 100.f);
    });
    CHECK(nans == 1);
    CHECK(found == 0.f);
  }
}
