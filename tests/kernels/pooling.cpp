// Pooling beside double precision, with padding and windows that reach beyond it.
#include "fxx/kernels/pooling.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/native.hpp"

using namespace fxx::kernels;

namespace {

constexpr float untouched = -12345.f, infinity = std::numeric_limits<float>::infinity();
constexpr double epsilon = std::numeric_limits<float>::epsilon();

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
  if (Shape.adaptive) {
    const auto begin = [](int at, int parts, int of) { return static_cast<int>(std::floor(double(at) * of / parts)); };
    const auto end = [](int at, int parts, int of) { return static_cast<int>(std::ceil(double(at + 1) * of / parts)); };
    for (int row = begin(y, Shape.out_height, Shape.in_height); row < end(y, Shape.out_height, Shape.in_height); ++row)
      for (int column = begin(x, Shape.out_width, Shape.in_width); column < end(x, Shape.out_width, Shape.in_width);
           ++column)
        elements.push_back(in[image * Shape.image() + (row * Shape.in_row + column) * Shape.pixel() + c]);
    return elements;
  }
  for (int r = 0; r < Shape.kernel_height; ++r)
    for (int s = 0; s < Shape.kernel_width; ++s) {
      const int row = y * Shape.stride_height - Shape.padding_height + r * Shape.dilation_height;
      const int column = x * Shape.stride_width - Shape.padding_width + s * Shape.dilation_width;
      if (row >= 0 && row < Shape.in_height && column >= 0 && column < Shape.in_width)
        elements.push_back(in[image * Shape.image() + (row * Shape.in_row + column) * Shape.pixel() + c]);
    }
  return elements;
}
struct Wanted {
  double value;
  double magnitude = 0;  // mean of the magnitudes
  double additions = 0;  // half a unit each, with what divides
};
/// Runs `pool(part, finish)`, whole and in parts, and compares with `exact(image, y, x, c)`.
template <PoolShape Shape, class Pool, class Exact>
void check(const char* what, const Pool& pool, const Exact& exact) {
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
  bool near = true, beside = false;
  for (int image = 0; image < Shape.images; ++image)
    for (int y = 0; y < Shape.out_height; ++y)
      for (int x = 0; x < Shape.out_width; ++x) {
        const float* given = out.data() + ((image * Shape.out_height + y) * Shape.out_width + x) * (C + 1);
        for (int c = 0; c < C; ++c) {
          const Wanted wanted = exact(image, y, x, c);
          const double error = std::abs(given[c] - wanted.value), unit = epsilon * wanted.magnitude;
          if (wanted.magnitude == 0) near = near && error == 0;
          near = near && fxx::test::within(what, error, wanted.additions / 2 * unit);
          near = near && fxx::test::within("a mean of normal numbers", error, 2 * unit);
        }
        beside = beside || given[C] != untouched;
      }
  CHECK(near);
  CHECK_FALSE(beside);
  for (int parts = 2; parts <= 4; ++parts) CHECK(in_parts(parts) == out);
}
Wanted mean(const std::vector<double>& elements, int of) {
  Wanted wanted{0, 0, static_cast<double>(elements.size())};
  for (const double e : elements) wanted.value += e / of, wanted.magnitude += std::abs(e) / of;
  return wanted;
}
template <PoolShape Shape>
void check_pools() {
  INFO("channels ", Shape.channels, ", ", Shape.in_height, " x ", Shape.in_width, ", kernel ", Shape.kernel_height, " x ",
       Shape.kernel_width, ", stride ", Shape.stride_height, " x ", Shape.stride_width, ", images ", Shape.images);
  const std::vector<float> in = input<Shape>();
  check<Shape>("a largest element",
               [&](Part part, const auto& finish) { max_pool<Shape>(part, in.data(), finish); },
               [&](int image, int y, int x, int c) {
                 const std::vector<double> elements = window<Shape>(in, image, y, x, c);
                 return Wanted{*std::max_element(elements.begin(), elements.end())};
               });
  if constexpr (Shape.dilation_height == 1 && Shape.dilation_width == 1) {
    check<Shape>("a mean of a window: elements / 2 units",
                 [&](Part part, const auto& finish) { average_pool<Shape, false>(part, in.data(), finish); },
                 [&](int image, int y, int x, int c) {
                   const std::vector<double> elements = window<Shape>(in, image, y, x, c);
                   return mean(elements, Shape.divisor ? Shape.divisor : static_cast<int>(elements.size()));
                 });
    if (Shape.adaptive || Shape.divisor) return;
    check<Shape>("a mean of a window: elements / 2 units",
                 [&](Part part, const auto& finish) { average_pool<Shape, true>(part, in.data(), finish); },
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

TEST_CASE("pooling to a size that does not divide the input's, and sums divided by a number of its own") {
  check_pools<PoolShape{.channels = 19, .in_height = 7, .in_width = 11, .out_height = 3, .out_width = 4, .in_row = 12,
                        .images = 2, .adaptive = true}>();
  check_pools<PoolShape{.channels = 3, .in_height = 5, .in_width = 1, .out_height = 8, .out_width = 3, .in_row = 1,
                        .adaptive = true}>();
  check_pools<PoolShape{.channels = 17, .in_height = 1, .in_width = 70001, .out_height = 1, .out_width = 70001,
                        .in_row = 70001, .adaptive = true}>();
  check_pools<PoolShape{.channels = 6, .in_height = 7, .in_width = 6, .out_height = 4, .out_width = 3,
                        .kernel_height = 3, .kernel_width = 3, .stride_height = 2, .stride_width = 2,
                        .padding_height = 1, .padding_width = 1, .in_row = 6, .divisor = -4}>();
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
  check<Shape>("a mean of all: (height + width) / 2 units",
               [&](Part part, const auto& finish) { average_of_all<Shape>(part, in.data(), finish); },
               [&](int image, int, int, int c) {
                 std::vector<double> all;
                 for (int y = 0; y < Shape.in_height; ++y)
                   for (int x = 0; x < Shape.in_width; ++x)
                     all.push_back(in[image * Shape.image() + (y * Shape.in_row + x) * Shape.pixel() + c]);
                 Wanted wanted = mean(all, Shape.in_height * Shape.in_width);
                 wanted.additions = Shape.in_height + Shape.in_width;
                 return wanted;
               });
}
TEST_CASE("the mean of all pixels") {
  check_average_of_all<PoolShape{.channels = 19, .in_height = 7, .in_width = 7, .in_row = 10}>();
  check_average_of_all<PoolShape{.channels = 40, .in_height = 2, .in_width = 3, .in_row = 3, .images = 18}>();
  check_average_of_all<PoolShape{}>();
  check_average_of_all<PoolShape{.channels = 33, .in_height = 31, .in_width = 29, .in_row = 29, .images = 2}>();
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

TEST_CASE("infinities are the largest where they are, a window of minus infinity is that, and means are endless or nan") {
  constexpr PoolShape shape{.channels = 19, .in_height = 4, .in_width = 6, .out_height = 2, .out_width = 3,
                            .kernel_height = 2, .kernel_width = 2, .stride_height = 2, .stride_width = 2, .in_row = 6};
  std::vector<float> in(4 * 6 * 19, 1.f);
  const auto at = [&](int y, int x, int c) -> float& { return in[(y * 6 + x) * 19 + c]; };
  at(0, 0, 3) = infinity;
  at(1, 3, 18) = -infinity;
  for (int i = 0; i < 4; ++i) at(2 + i / 2, 4 + i % 2, 7) = -infinity;
  at(2, 0, 0) = infinity, at(3, 1, 0) = -infinity;
  at(2, 2, 17) = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> most(6 * 19), mean(6 * 19);
  const auto to = [](std::vector<float>& out) {
    return [&out](int, int y, int x, int c, real v, auto width)
               __attribute__((always_inline)) { store_some<width>(out.data() + (y * 3 + x) * 19 + c, v); };
  };
  max_pool<shape>(Part{}, in.data(), to(most));
  average_pool<shape>(Part{}, in.data(), to(mean));
  for (int window = 0; window < 6; ++window)
    for (int c = 0; c < 19; ++c) {
      CAPTURE(window);
      CAPTURE(c);
      const float largest = most[window * 19 + c], middle = mean[window * 19 + c];
      if (window == 0 && c == 3) CHECK((largest == infinity && middle == infinity));
      else if (window == 1 && c == 18) CHECK((largest == 1 && middle == -infinity));
      else if (window == 5 && c == 7) CHECK((largest == -infinity && middle == -infinity));
      else if (window == 3 && c == 0) CHECK((largest == infinity && std::isnan(middle)));
      else if (window == 4 && c == 17) CHECK((std::isnan(largest) && std::isnan(middle)));
      else CHECK((largest == 1 && middle == 1));
    }
}

TEST_CASE("nan among all pixels is in the mean of its channel") {
  constexpr PoolShape shape{.channels = 19, .in_height = 3, .in_width = 5, .in_row = 5};
  std::vector<float> in(15 * 19, 1.f);
  in[7 * 19 + 18] = std::numeric_limits<float>::quiet_NaN();
  in[7 * 19 + 2] = infinity;
  average_of_all<shape>(Part{}, in.data(), [&](int, int, int, int channel, real value, auto width) {
    for (int i = 0; i < width; ++i) {
      const float mean = value[i];
      if (channel + i == 18) CHECK(std::isnan(mean));
      else if (channel + i == 2) CHECK(mean == infinity);
      else CHECK(mean == doctest::Approx(1));
    }
  });
}
