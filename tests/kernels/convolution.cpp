// Convolutions beside double precision, over sizes that are no multiple of anything.
#include "fxx/kernels/convolution.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "kernels/convolutions.hpp"

using namespace fxx::kernels;
using fxx::test::check_convolution;
using fxx::test::in_parts;
using fxx::test::input_size;
using fxx::test::Output;
using fxx::test::untouched;

namespace {

/// An element that is nan is in the outputs of its group whose windows have it, and in no others.
template <ConvolutionShape Shape>
void check_nan() {
  INFO("channels ", Shape.channels, " -> ", Shape.out_channels, ", groups ", Shape.groups);
  constexpr int N = Shape.out_channels * Shape.groups;
  std::vector<float> in = fxx::test::random_floats(input_size(Shape), 1), packed(Shape.packed());
  pack_convolution(packed.data(), Shape, [](int n, int r, int s, int c) { return float(n + r - s - c) + 0.5f; });
  const int pixels = static_cast<int>(in.size()) / Shape.pixel();
  for (const int pixel : {0, pixels / 2, pixels - 1})
    for (const int channel : {0, Shape.channels * Shape.groups - 1}) {
      CAPTURE(pixel);
      CAPTURE(channel);
      std::vector<float> odd = in;
      const int at = pixel * Shape.pixel() + channel;
      odd[static_cast<std::size_t>(at)] = std::numeric_limits<float>::quiet_NaN();
      Output out{Shape.images, Shape.out_height, Shape.out_width, N};
      convolution<Shape>(Part{}, odd.data(), packed.data(), out.finish());
      int wrong = 0;
      for (int image = 0; image < Shape.images; ++image)
        for (int y = 0; y < Shape.out_height; ++y)
          for (int x = 0; x < Shape.out_width; ++x)
            for (int n = 0; n < N; ++n) {
              bool has = false;
              for (int r = 0; r < Shape.kernel_height; ++r)
                for (int k = 0; k < Shape.kernel_width; ++k) {
                  const int row = y * Shape.stride_height + r * Shape.dilation_height;
                  const int column = x * Shape.stride_width + k * Shape.dilation_width;
                  const int first = static_cast<int>(image * Shape.image()) +
                                    (row * Shape.in_row + column) * Shape.pixel() +
                                    n / Shape.out_channels * Shape.channels;
                  has = has || (at >= first && at < first + Shape.channels);
                }
              wrong += std::isnan(out.at(image, y, x)[n]) != has;
            }
      CHECK(wrong == 0);
    }
}

template <TransposedShape Shape, bool Signs = true>
void check_transposed() {
  INFO("channels ", Shape.channels, " -> ", Shape.out_channels, ", output ", Shape.out_height, " x ", Shape.out_width,
       ", kernel ", Shape.kernel_height, " x ", Shape.kernel_width, ", stride ", Shape.stride_height, " x ",
       Shape.stride_width, ", dilation ", Shape.dilation_height, " x ", Shape.dilation_width);
  constexpr int N = Shape.out_channels, size = Shape.kernel_height * Shape.kernel_width;
  std::vector<float> in = fxx::test::random_floats(static_cast<std::size_t>(Shape.images * Shape.image()), 1);
  std::vector<float> weights = fxx::test::random_floats(static_cast<std::size_t>(N * Shape.depth()), 2);
  if (!Signs)
    for (auto* numbers : {&in, &weights})
      for (float& v : *numbers) v = std::abs(v);
  const auto element = [&](int image, int i, int j, int c) -> float& {
    return in[image * Shape.image() + (i * Shape.in_row + Shape.before_width() + j) * Shape.pixel() + c];
  };
  for (int image = 0; image < Shape.images; ++image)
    for (int i = 0; i < Shape.in_height; ++i)
      for (int j = -Shape.before_width(); j < Shape.in_row - Shape.before_width(); ++j)
        if (j < 0 || j >= Shape.in_width)
          for (int c = 0; c < Shape.channels; ++c) element(image, i, j, c) = 0;
  const auto weight = [&](int n, int r, int s, int c) {  // as LibTorch has them: c, n, r, s
    return weights[(c * N + n) * size + r * Shape.kernel_width + s];
  };
  std::vector<float> packed(Shape.packed(), untouched);
  pack_transposed(packed.data(), Shape, weight);
  const Output out = in_parts({Shape.images, Shape.out_height, Shape.out_width, N}, [&](Part part, Output& to) {
    transposed_convolution<Shape>(part, in.data(), packed.data(), to.finish());
  });
  const char* const what = Signs ? "a transposed convolution" : "a transposed convolution of numbers of one sign";
  CHECK(out.near(what, [&](int image, int y, int x, int n, const auto& add) {
    for (int i = 0; i < Shape.in_height; ++i)
      for (int j = 0; j < Shape.in_width; ++j)
        for (int r = 0; r < Shape.kernel_height; ++r)
          for (int s = 0; s < Shape.kernel_width; ++s)
            if (y + Shape.padding_height == i * Shape.stride_height + r * Shape.dilation_height &&
                x + Shape.padding_width == j * Shape.stride_width + s * Shape.dilation_width)
              for (int c = 0; c < Shape.channels; ++c) add(element(image, i, j, c), weight(n, r, s, c));
  }, Signs));
}

}  // namespace

TEST_CASE("convolutions of awkward sizes are those of double precision, and nothing beside them is written") {
  check_convolution<ConvolutionShape{.in_row = 1}>();
  check_convolution<ConvolutionShape{.channels = 3, .out_channels = 7, .out_height = 2, .out_width = 5,
                                     .in_row = 5}>();
  check_convolution<ConvolutionShape{.channels = 5, .out_channels = 33, .out_height = 3, .out_width = 13,
                                     .kernel_height = 3, .kernel_width = 3, .in_row = 15}>();
  check_convolution<ConvolutionShape{.channels = 3, .out_channels = 64, .out_height = 5, .out_width = 9,
                                     .kernel_height = 7, .kernel_width = 7, .stride_height = 2, .stride_width = 2,
                                     .in_row = 23}>();
  check_convolution<ConvolutionShape{.channels = 4, .out_channels = 17, .out_height = 3, .out_width = 4,
                                     .kernel_height = 1, .kernel_width = 5, .stride_height = 3, .stride_width = 3,
                                     .in_row = 16}>();
  check_convolution<ConvolutionShape{.channels = 6, .out_channels = 100, .out_height = 2, .out_width = 29,
                                     .kernel_height = 3, .kernel_width = 2, .dilation_height = 2, .dilation_width = 2,
                                     .in_row = 31}>();
}

TEST_CASE("any tile that fits, weights that are near, and rows as the outer loop") {
  check_convolution<ConvolutionShape{.channels = 5,
                                     .out_channels = 70,
                                     .out_height = 5,
                                     .out_width = 13,
                                     .kernel_height = 3,
                                     .kernel_width = 3,
                                     .in_row = 15,
                                     .sums = {5, 2}}>();
  check_convolution<ConvolutionShape{.channels = 5,
                                     .out_channels = 70,
                                     .out_height = 5,
                                     .out_width = 13,
                                     .kernel_height = 3,
                                     .kernel_width = 3,
                                     .in_row = 15,
                                     .images = 2,
                                     .order = Order::rows}>();
  check_convolution<ConvolutionShape{.channels = 3,
                                     .out_channels = 20,
                                     .out_height = 2,
                                     .out_width = 4,
                                     .kernel_height = 2,
                                     .kernel_width = 2,
                                     .in_row = 5,
                                     .groups = 4,
                                     .sums = {6, 1},
                                     .weights = Distance::near,
                                     .order = Order::rows}>();
}

TEST_CASE("a group of channels is a convolution whose pixels lie apart") {
  check_convolution<ConvolutionShape{.channels = 4, .out_channels = 12, .out_height = 3, .out_width = 7,
                                     .kernel_height = 3, .kernel_width = 3, .in_row = 9, .in_pixel = 12}>();
}

TEST_CASE("strides and dilations may differ, and one dimension is a height of one") {
  check_convolution<ConvolutionShape{.channels = 5, .out_channels = 20, .out_height = 3, .out_width = 6,
                                     .kernel_height = 3, .kernel_width = 2, .stride_height = 1, .stride_width = 2,
                                     .dilation_height = 2, .dilation_width = 3, .in_row = 17}>();
  check_convolution<ConvolutionShape{.channels = 16, .out_channels = 33, .out_width = 50, .kernel_width = 3,
                                     .stride_width = 2, .in_row = 101}>();
}

TEST_CASE("several images lie anywhere, and are as if each came alone") {
  check_convolution<ConvolutionShape{.channels = 5, .out_channels = 33, .out_height = 3, .out_width = 7,
                                     .kernel_height = 3, .kernel_width = 3, .in_row = 9, .images = 3}>();
  check_convolution<ConvolutionShape{.channels = 4, .out_channels = 70, .out_height = 2, .out_width = 3,
                                     .kernel_height = 2, .kernel_width = 2, .in_row = 5, .in_pixel = 6, .images = 10,
                                     .in_image = 100}>();
}

TEST_CASE("groups of few channels share a vector, others come one after the other") {
  constexpr ConvolutionShape fours{.channels = 4, .out_channels = 4, .out_height = 3, .out_width = 9,
                                   .kernel_height = 3, .kernel_width = 3, .in_row = 11, .groups = 9};
  static_assert(fours.groups_in_vector() == (lanes > 4));
  check_convolution<fours>();
  check_convolution<ConvolutionShape{.channels = 1, .out_channels = 2, .out_height = 17, .out_width = 5,
                                     .kernel_height = 3, .kernel_width = 1, .in_row = 5, .images = 2,
                                     .groups = 20}>();
  check_convolution<ConvolutionShape{.channels = 3, .out_channels = 5, .out_height = 3, .out_width = 4,
                                     .kernel_height = 2, .kernel_width = 2, .in_row = 5, .groups = 4}>();
  check_convolution<ConvolutionShape{.channels = 20, .out_channels = 36, .out_height = 2, .out_width = 4,
                                     .kernel_height = 2, .kernel_width = 2, .in_row = 6, .in_pixel = 43,
                                     .groups = 2}>();
  check_convolution<ConvolutionShape{.channels = 8, .out_channels = 2, .out_height = 2, .out_width = 4,
                                     .kernel_height = 1, .kernel_width = 3, .in_row = 6, .groups = 3}>();
}

TEST_CASE("few outputs of many channels are those of double precision") {
  constexpr ConvolutionShape head{.channels = 64, .out_channels = lanes / 4, .out_height = 3, .out_width = 19,
                                  .in_row = 19};
  static_assert(head.few_outputs());
  check_convolution<head>();
  check_convolution<ConvolutionShape{.channels = 21, .out_channels = 1, .out_height = 5, .out_width = 5,
                                     .kernel_height = 3, .kernel_width = 3, .in_row = 7, .images = 2}>();
  check_convolution<ConvolutionShape{.channels = 16, .out_channels = 2, .out_height = 3, .out_width = 17,
                                     .kernel_height = 2, .kernel_width = 2, .stride_width = 2, .dilation_width = 3,
                                     .in_row = 36, .in_pixel = 18}>();
}

TEST_CASE("nan is in the outputs whose windows have it, and in their group") {
  check_nan<ConvolutionShape{.channels = 5, .out_channels = 33, .out_height = 3, .out_width = 13, .kernel_height = 3,
                             .kernel_width = 3, .in_row = 15}>();
  check_nan<ConvolutionShape{.channels = 3, .out_channels = 20, .out_height = 2, .out_width = 4, .kernel_height = 2,
                             .kernel_width = 2, .stride_width = 2, .in_row = 9, .images = 2}>();
  check_nan<ConvolutionShape{.channels = 4, .out_channels = 4, .out_height = 3, .out_width = 9, .kernel_height = 3,
                             .kernel_width = 3, .in_row = 11, .groups = 9}>();
  check_nan<ConvolutionShape{.channels = 3, .out_channels = 5, .out_height = 3, .out_width = 4, .kernel_height = 2,
                             .kernel_width = 2, .in_row = 5, .groups = 4}>();
  check_nan<ConvolutionShape{.channels = 21, .out_channels = 1, .out_height = 5, .out_width = 5, .kernel_height = 3,
                             .kernel_width = 3, .in_row = 7, .images = 2}>();
}

TEST_CASE("transposed convolutions are those of double precision") {
  check_transposed<TransposedShape{}>();
  check_transposed<TransposedShape{.channels = 8, .out_channels = 20, .in_height = 5, .in_width = 7, .out_height = 10,
                                   .out_width = 14, .kernel_height = 2, .kernel_width = 2, .stride_height = 2,
                                   .stride_width = 2, .in_row = 7}>();
  check_transposed<TransposedShape{.channels = 5, .out_channels = 33, .in_height = 4, .in_width = 6, .out_height = 8,
                                   .out_width = 13, .kernel_height = 4, .kernel_width = 3, .stride_height = 2,
                                   .stride_width = 2, .padding_height = 1, .in_row = 8, .images = 2}>();
  check_transposed<TransposedShape{.channels = 3, .out_channels = 7, .in_height = 3, .in_width = 5, .out_height = 11,
                                   .out_width = 12, .kernel_height = 3, .kernel_width = 2, .stride_height = 3,
                                   .stride_width = 2, .dilation_height = 2, .dilation_width = 3, .in_row = 9,
                                   .in_pixel = 4, .images = 2, .in_image = 130}>();
  check_transposed<TransposedShape{.channels = 6, .out_channels = 4, .in_width = 1, .out_width = 2, .kernel_width = 5,
                                   .stride_width = 3, .padding_width = 2, .in_row = 3}>();
  check_transposed<TransposedShape{.channels = 7, .out_channels = 50, .in_height = 3, .in_width = 5, .out_height = 6,
                                   .out_width = 10, .kernel_height = 2, .kernel_width = 2, .stride_height = 2,
                                   .stride_width = 2, .in_row = 5, .sums = {3, 2}, .order = Order::rows}>();
}

namespace {
template <ConvolutionShape Shape>
void check_deep() {
  check_convolution<Shape>();
  check_convolution<Shape, float, false>();
}
}  // namespace

TEST_CASE("sums of very many products are made of chains, however these come: the error is a chain's") {
  // A row of the kernel is more than a chain, several pixels of it are one, and one pixel.
  check_deep<ConvolutionShape{.channels = 300, .out_channels = 40, .out_height = 2, .out_width = 3, .kernel_height = 3,
                              .kernel_width = 3, .stride_height = 2, .stride_width = 2, .in_row = 7}>();
  check_deep<ConvolutionShape{.channels = 50, .out_channels = 35, .out_height = 2, .out_width = 5, .kernel_height = 3,
                              .kernel_width = 3, .dilation_height = 2, .dilation_width = 2, .in_row = 9}>();
  check_deep<ConvolutionShape{.channels = 130, .out_channels = 2 * lanes, .out_width = 5, .kernel_width = 5,
                              .in_row = 9, .in_pixel = 133}>();
  check_deep<ConvolutionShape{.channels = 1100, .out_channels = 33, .out_width = 20, .in_row = 20}>();
  check_deep<ConvolutionShape{
      .channels = 270, .out_channels = 18, .out_width = 9, .kernel_width = 2, .in_row = 10, .groups = 2}>();
  // Panels of more than caches hold, in pieces: of one long row of the kernel, and of many short ones.
  check_deep<ConvolutionShape{
      .channels = 600, .out_channels = 50, .out_width = 29, .kernel_width = 30, .stride_width = 2, .in_row = 90}>();
  check_deep<ConvolutionShape{.channels = 520,
                              .out_channels = 40,
                              .out_height = 2,
                              .out_width = 13,
                              .kernel_height = 5,
                              .kernel_width = 7,
                              .dilation_width = 2,
                              .in_row = 27,
                              .in_pixel = 525,
                              .images = 2}>();
  check_deep<ConvolutionShape{
      .channels = 1024, .out_channels = 35, .out_width = 19, .kernel_width = 9, .in_row = 27}>();
  // Few outputs, and groups in a vector.
  check_deep<ConvolutionShape{.channels = 257 * lanes + 3, .out_channels = 1, .out_width = 3, .kernel_width = 2,
                              .in_row = 4}>();
  check_deep<ConvolutionShape{.channels = lanes / 2, .out_channels = lanes / 2, .out_height = 2, .out_width = 9,
                              .kernel_height = 13, .kernel_width = 13, .in_row = 21, .groups = 4}>();
  check_transposed<TransposedShape{.channels = 200, .out_channels = 20, .in_height = 3, .in_width = 4, .out_height = 6,
                                   .out_width = 8, .kernel_height = 4, .kernel_width = 4, .stride_height = 2,
                                   .stride_width = 2, .padding_height = 1, .padding_width = 1, .in_row = 6}, false>();
  check_transposed<TransposedShape{.channels = 600, .out_channels = 7, .in_width = 4, .out_width = 8, .kernel_width = 2,
                                   .stride_width = 2, .in_row = 4}>();
}
