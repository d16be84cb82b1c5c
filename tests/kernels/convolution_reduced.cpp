// Convolutions of fewer bits: of sixteen, of bytes with integers.
#include <algorithm>
#include <random>

#include "kernels/convolutions.hpp"

using namespace fxx::kernels;
using fxx::test::check_convolution;
using fxx::test::in_parts;
using fxx::test::input_size;
using fxx::test::Output;
using fxx::test::untouched;

namespace {
/// Of bytes: sums are those of integers, to the last one.
template <ConvolutionShape Shape>
void check_bytes() {
  CAPTURE(Shape.channels);
  CAPTURE(Shape.out_channels);
  constexpr int N = Shape.out_channels * Shape.groups, zero = 117;
  std::mt19937 engine(7);
  const auto number = [&] { return static_cast<int>(engine() % 256); };
  std::vector<std::uint8_t> in(input_size(Shape));
  std::vector<int> weights(static_cast<std::size_t>(N * Shape.depth()));
  // Largest and smallest ones too: sixteen bits hold no sum of two such products.
  for (auto& byte : in) byte = static_cast<std::uint8_t>(engine() % 4 == 0 ? 255 : number());
  for (int& w : weights) w = engine() % 4 == 0 ? (engine() % 2 == 0 ? -128 : 127) : number() - 128;
  const auto weight = [&](int n, int r, int s, int c) {
    return static_cast<float>(weights[((n * Shape.channels + c) * Shape.kernel_height + r) * Shape.kernel_width + s]);
  };
  std::vector<std::int8_t> packed(Shape.template packed<std::int8_t>());
  pack_convolution(packed.data(), Shape, weight);
  std::vector<std::int32_t> excess(N);
  pack_excess(excess.data(), Shape, zero, weight);
  const int pixel = N + 1;
  for (int parts = 1; parts <= 3; ++parts) {
    std::vector<int> out(static_cast<std::size_t>(Shape.rows() * Shape.out_width * pixel), -7);
    for (int index = 0; index < parts; ++index)
      convolution<Shape>(Part{index, parts}, in.data(), packed.data(),
                         [&](int image, int y, int x, int channel, integer sum, auto width)
                             __attribute__((always_inline)) {
                               const int at = (image * Shape.out_height + y) * Shape.out_width + x;
                               for (int i = 0; i < width; ++i) out[at * pixel + channel + i] = sum[i];
                             });
    int wrong = 0;
    for (int at = 0; at < Shape.rows() * Shape.out_width; ++at) {
      const int x = at % Shape.out_width, y = at / Shape.out_width % Shape.out_height;
      const int image = at / Shape.out_width / Shape.out_height;
      for (int n = 0; n < N; ++n) {
        int exact = 0, shifted = 0;
        for (int r = 0; r < Shape.kernel_height; ++r)
          for (int k = 0; k < Shape.kernel_width; ++k)
            for (int c = 0; c < Shape.channels; ++c) {
              const int row = y * Shape.stride_height + r * Shape.dilation_height;
              const int column = x * Shape.stride_width + k * Shape.dilation_width;
              const int byte = in[image * Shape.image() + (row * Shape.in_row + column) * Shape.pixel() +
                                  n / Shape.out_channels * Shape.channels + c];
              exact += byte * static_cast<int>(weight(n, r, k, c));
              shifted += (byte - zero) * static_cast<int>(weight(n, r, k, c));
            }
        wrong += out[at * pixel + n] != exact || exact - excess[n] != shifted;
      }
      wrong += out[at * pixel + N] != -7;
    }
    CHECK(wrong == 0);
  }
}
}  // namespace

TEST_CASE("convolutions of sixteen bits are those of the numbers that these are") {
  check_convolution<ConvolutionShape{.channels = 3, .out_channels = 64, .out_height = 5, .out_width = 9,
                                     .kernel_height = 7, .kernel_width = 7, .stride_height = 2, .stride_width = 2,
                                     .in_row = 23}, Bfloat16>();
  check_convolution<ConvolutionShape{.channels = 5, .out_channels = 33, .out_height = 3, .out_width = 7,
                                     .kernel_height = 3, .kernel_width = 3, .in_row = 9, .in_pixel = 6, .images = 3},
                    Bfloat16>();
  check_convolution<ConvolutionShape{.channels = 64, .out_channels = 1, .out_width = 19, .in_row = 19}, Bfloat16>();
  check_convolution<ConvolutionShape{.channels = 8, .out_channels = 17, .out_height = 2, .out_width = 4,
                                     .kernel_height = 1, .kernel_width = 3, .in_row = 6, .groups = 3}, Bfloat16>();
}

TEST_CASE("convolutions of bytes are those of integers, whatever they are") {
  check_bytes<ConvolutionShape{.in_row = 1}>();
  check_bytes<ConvolutionShape{.channels = 3, .out_channels = 64, .out_height = 3, .out_width = 9, .kernel_height = 7,
                               .kernel_width = 7, .stride_height = 2, .stride_width = 2, .in_row = 23}>();
  check_bytes<ConvolutionShape{.channels = 5, .out_channels = 33, .out_height = 3, .out_width = 13, .kernel_height = 3,
                               .kernel_width = 3, .in_row = 15, .images = 2}>();
  check_bytes<ConvolutionShape{.channels = 6, .out_channels = 100, .out_height = 2, .out_width = 29,
                               .kernel_height = 3, .kernel_width = 2, .dilation_height = 2, .dilation_width = 2,
                               .in_row = 31, .in_pixel = 7}>();
  check_bytes<ConvolutionShape{.channels = 21, .out_channels = 1, .out_height = 5, .out_width = 5, .kernel_height = 3,
                               .kernel_width = 3, .in_row = 7}>();
  check_bytes<ConvolutionShape{.channels = 4, .out_channels = 4, .out_height = 3, .out_width = 9, .kernel_height = 3,
                               .kernel_width = 3, .in_row = 11, .groups = 9}>();
  check_bytes<ConvolutionShape{.channels = 10, .out_channels = 36, .out_height = 2, .out_width = 4,
                               .kernel_height = 2, .kernel_width = 2, .in_row = 6, .in_pixel = 23, .groups = 2}>();
  check_bytes<ConvolutionShape{.channels = 17, .out_channels = 40, .out_width = 50, .kernel_width = 3,
                               .stride_width = 2, .in_row = 101}>();
}
