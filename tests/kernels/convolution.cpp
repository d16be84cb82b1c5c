// Convolutions beside double precision, over sizes that are no multiple of anything.
#include "fxx/kernels/convolution.hpp"

#include <cmath>
#include <limits>

#include "kernels/native.hpp"

using namespace fxx::kernels;

namespace {

constexpr float untouched = -12345.f;

/// Floats of an input that ends with the last pixel that is read.
constexpr std::size_t input_size(const ConvolutionShape& s) {
  const int rows = (s.out_height - 1) * s.stride + (s.kernel_height - 1) * s.dilation;
  const int last = (s.out_width - 1) * s.stride + (s.kernel_width - 1) * s.dilation;
  return static_cast<std::size_t>((rows * s.in_row + last) * s.pixel() + s.channels);
}
/// How far the output is from double precision, in what rounding may make of it; infinite when something beside it was
/// written. Element `n` of a pixel sums over `first(n)` and as many channels as `depth`.
template <class Weights, class First>
double distance(const ConvolutionShape& s, int channels, int depth, const std::vector<float>& in,
                const std::vector<float>& bias, const std::vector<float>& out, const Weights& weights, First first) {
  double worst = 0;
  const int pixel = channels + 2;
  for (int y = 0; y < s.out_height; ++y)
    for (int x = 0; x < s.out_width; ++x) {
      const float* given = out.data() + (y * s.out_width + x) * pixel;
      for (int n = 0; n < channels; ++n) {
        double exact = bias[n], magnitude = std::abs(exact);
        for (int r = 0; r < s.kernel_height; ++r)
          for (int k = 0; k < s.kernel_width; ++k)
            for (int c = 0; c < depth; ++c) {
              const int row = y * s.stride + r * s.dilation, column = x * s.stride + k * s.dilation;
              const double term = double(in[(row * s.in_row + column) * s.pixel() + first(n) + c]) * weights(n, r, k, c);
              exact += term, magnitude += std::abs(term);
            }
        const int products = s.kernel_height * s.kernel_width * depth;
        worst = std::max(worst, std::abs(given[n] - exact) /
                                    ((products + 1) * double(std::numeric_limits<float>::epsilon()) * magnitude));
      }
      if (given[channels] != untouched || given[channels + 1] != untouched) worst = INFINITY;
    }
  return worst;
}

template <ConvolutionShape Shape>
void check_convolution() {
  INFO("channels ", Shape.channels, " -> ", Shape.out_channels, ", output ", Shape.out_height, " x ", Shape.out_width,
       ", kernel ", Shape.kernel_height, " x ", Shape.kernel_width, ", stride ", Shape.stride, ", dilation ",
       Shape.dilation, ", pixel ", Shape.pixel());
  constexpr int N = Shape.out_channels, pixel = N + 2;
  const std::vector<float> in = fxx::test::random_floats(input_size(Shape), 1);
  const std::vector<float> weights = fxx::test::random_floats(static_cast<std::size_t>(N * Shape.depth()), 2);
  const std::vector<float> bias = fxx::test::random_floats(N, 3);
  const auto weight = [&](int n, int r, int s, int c) {  // as LibTorch has them: n, c, r, s
    return weights[((n * Shape.channels + c) * Shape.kernel_height + r) * Shape.kernel_width + s];
  };
  std::vector<float> packed(packed_size(N, Shape.depth()), untouched);
  pack_convolution(packed.data(), Shape, weight);
  std::vector<float> out(Shape.out_height * Shape.out_width * pixel, untouched);
  convolution<Shape>(in.data(), packed.data(),
                     [&](int y, int x, int channel, real sum, auto width) __attribute__((always_inline)) {
                       store_some<width>(out.data() + (y * Shape.out_width + x) * pixel + channel,
                                         sum + load_some<width>(bias.data() + channel));
                     });
  CHECK(distance(Shape, N, Shape.channels, in, bias, out, weight, [](int) { return 0; }) <= 1);
}

template <ConvolutionShape Shape>
void check_depthwise() {
  INFO("channels ", Shape.channels, ", output ", Shape.out_height, " x ", Shape.out_width, ", kernel ",
       Shape.kernel_height, " x ", Shape.kernel_width, ", stride ", Shape.stride, ", dilation ", Shape.dilation);
  constexpr int N = Shape.channels, pixel = N + 2, size = Shape.kernel_height * Shape.kernel_width;
  const std::vector<float> in = fxx::test::random_floats(input_size(Shape), 1);
  const std::vector<float> weights = fxx::test::random_floats(static_cast<std::size_t>(N * size), 2);
  const std::vector<float> bias = fxx::test::random_floats(N, 3);
  const auto weight = [&](int n, int r, int s, int) { return weights[n * size + r * Shape.kernel_width + s]; };
  std::vector<float> packed(packed_size(N, size), untouched);
  pack_depthwise(packed.data(), Shape, [&](int c, int r, int s) { return weight(c, r, s, 0); });
  std::vector<float> out(Shape.out_height * Shape.out_width * pixel, untouched);
  depthwise_convolution<Shape>(in.data(), packed.data(),
                               [&](int y, int x, int channel, real sum, auto width) __attribute__((always_inline)) {
                                 store_some<width>(out.data() + (y * Shape.out_width + x) * pixel + channel,
                                                   sum + load_some<width>(bias.data() + channel));
                               });
  CHECK(distance(Shape, N, 1, in, bias, out, weight, [](int n) { return n; }) <= 1);
}

}  // namespace

TEST_CASE("convolutions of awkward sizes are those of double precision, and nothing beside them is written") {
  FXX_ONLY_WHERE_IT_RUNS();
  check_convolution<ConvolutionShape{.in_row = 1}>();
  check_convolution<ConvolutionShape{.channels = 3, .out_channels = 7, .out_height = 2, .out_width = 5, .in_row = 5}>();
  check_convolution<ConvolutionShape{.channels = 5, .out_channels = 33, .out_height = 3, .out_width = 13, .kernel_height = 3,
                     .kernel_width = 3, .in_row = 15}>();
  check_convolution<ConvolutionShape{.channels = 3, .out_channels = 64, .out_height = 5, .out_width = 9, .kernel_height = 7,
                     .kernel_width = 7, .stride = 2, .in_row = 23}>();
  check_convolution<ConvolutionShape{.channels = 4, .out_channels = 17, .out_height = 3, .out_width = 4, .kernel_height = 1,
                     .kernel_width = 5, .stride = 3, .in_row = 16}>();
  check_convolution<ConvolutionShape{.channels = 6, .out_channels = 100, .out_height = 2, .out_width = 29, .kernel_height = 3,
                     .kernel_width = 2, .dilation = 2, .in_row = 31}>();
}

TEST_CASE("a group of channels is a convolution whose pixels lie apart") {
  FXX_ONLY_WHERE_IT_RUNS();
  check_convolution<ConvolutionShape{.channels = 4, .out_channels = 12, .out_height = 3, .out_width = 7, .kernel_height = 3,
                     .kernel_width = 3, .in_row = 9, .in_pixel = 12}>();
}

TEST_CASE("convolutions of single channels are those of double precision") {
  FXX_ONLY_WHERE_IT_RUNS();
  check_depthwise<ConvolutionShape{.channels = 1, .in_row = 1}>();
  check_depthwise<ConvolutionShape{.channels = 19, .out_height = 4, .out_width = 11, .kernel_height = 3, .kernel_width = 3,
                   .in_row = 13}>();
  check_depthwise<ConvolutionShape{.channels = 32, .out_height = 3, .out_width = 5, .kernel_height = 5, .kernel_width = 5, .stride = 2,
                   .in_row = 13}>();
  check_depthwise<ConvolutionShape{.channels = 7, .out_height = 2, .out_width = 17, .kernel_height = 3, .kernel_width = 2,
                   .dilation = 3, .in_row = 20}>();
}
