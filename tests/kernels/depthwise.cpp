// Convolutions of single channels beside double precision, over sizes that are no multiple of anything; by rows the same
// to the bit.
#include "fxx/kernels/depthwise.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/images.hpp"

using namespace fxx::kernels;
using fxx::test::in_parts;
using fxx::test::input_size;
using fxx::test::Output;
using fxx::test::untouched;

namespace {

template <ConvolutionShape Shape>
void check_depthwise() {
  INFO("channels ", Shape.channels, ", output ", Shape.out_height, " x ", Shape.out_width, ", kernel ",
       Shape.kernel_height, " x ", Shape.kernel_width, ", stride ", Shape.stride_height, " x ", Shape.stride_width);
  constexpr int N = Shape.channels, size = Shape.kernel_height * Shape.kernel_width;
  const std::vector<float> in = fxx::test::random_floats(input_size(Shape), 1);
  const std::vector<float> weights = fxx::test::random_floats(static_cast<std::size_t>(N * size), 2);
  const auto weight = [&](int n, int r, int s) { return weights[n * size + r * Shape.kernel_width + s]; };
  std::vector<float> packed(packed_size(N, size), untouched);
  pack_depthwise(packed.data(), Shape, weight);
  const Output out = in_parts({Shape.images, Shape.out_height, Shape.out_width, N}, [&](Part part, Output& to) {
    depthwise_convolution<Shape>(part, in.data(), packed.data(), to.finish());
  });
  CHECK(out.near("a convolution of single channels", [&](int image, int y, int x, int n, const auto& add) {
    for (int r = 0; r < Shape.kernel_height; ++r)
      for (int k = 0; k < Shape.kernel_width; ++k) {
        const int row = y * Shape.stride_height + r * Shape.dilation_height;
        const int column = x * Shape.stride_width + k * Shape.dilation_width;
        add(in[image * Shape.image() + (row * Shape.in_row + column) * Shape.pixel() + n], weight(n, r, k));
      }
  }));
}

/// An image with zeros around it, and the same from rows that are made: every result is the same, no row is made that
/// no window reaches, and none twice.
template <ConvolutionShape Shape, MadeRows In>
void check_by_rows() {
  INFO("channels ", Shape.channels, ", input ", In.height, " x ", In.width, ", output ", Shape.out_height, " x ",
       Shape.out_width, ", above ", In.above, ", before ", In.before, ", images ", Shape.images);
  constexpr int N = Shape.channels, size = Shape.kernel_height * Shape.kernel_width, row = In.width * N;
  const std::vector<float> pixels =
      fxx::test::random_floats(static_cast<std::size_t>(Shape.images * In.height * row), 1);
  const std::vector<float> weights = fxx::test::random_floats(static_cast<std::size_t>(N * size), 2);
  std::vector<float> packed(packed_size(N, size), untouched);
  pack_depthwise(packed.data(), Shape,
                 [&](int n, int r, int s) { return weights[n * size + r * Shape.kernel_width + s]; });
  std::vector<float> image(input_size(Shape) + static_cast<std::size_t>(row), 0.f);
  for (int i = 0; i < Shape.images; ++i)
    for (int y = 0; y < In.height; ++y)
      for (int x = 0; x < row; ++x) {
        const auto at =
            static_cast<std::size_t>(i * Shape.image() + ((y + In.above) * Shape.in_row + In.before) * Shape.pixel() +
                                     x / N * Shape.pixel() + x % N);
        if (at < image.size()) image[at] = pixels[static_cast<std::size_t>((i * In.height + y) * row + x)];
      }
  const Output empty{Shape.images, Shape.out_height, Shape.out_width, N};
  const Output whole = in_parts(empty, [&](Part part, Output& to) {
    depthwise_convolution<Shape>(part, image.data(), packed.data(), to.finish());
  });
  int last = -1, ended = 0;
  const auto done = [&](int i, int y) {
    CHECK(i * Shape.out_height + y > last);
    last = i * Shape.out_height + y;
    ++ended;
  };
  const Output in_memory = in_parts(empty, [&](Part part, Output& to) {
    last = -1;
    depthwise_by_rows<Shape>(part, image.data(), packed.data(), to.finish(), done);
  });
  CHECK(in_memory.floats == whole.floats);
  CHECK(ended == 4 * Shape.rows());
  std::vector<float> workspace(made_rows(Shape) + 2);
  const Output made = in_parts(empty, [&](Part part, Output& to) {
    std::fill(workspace.begin(), workspace.end(), untouched);
    std::vector<int> times(static_cast<std::size_t>(Shape.images * In.height));
    last = -1;
    depthwise_by_rows<Shape, In>(
        part, packed.data(), workspace.data() + 1,
        [&](int i, int y, float* to_row) {
          const int number = i * In.height + y;
          ++times[static_cast<std::size_t>(number)];
          for (int x = 0; x < In.width; ++x)
            std::copy_n(pixels.begin() + number * row + x * N, N, to_row + x * Shape.pixel());
        },
        to.finish(), done);
    CHECK(*std::max_element(times.begin(), times.end()) <= 1);
    CHECK(workspace.front() == untouched);
    CHECK(workspace.back() == untouched);
  });
  CHECK(made.floats == whole.floats);
}

}  // namespace

TEST_CASE("convolutions of single channels are those of double precision") {
  check_depthwise<ConvolutionShape{.channels = 1, .in_row = 1}>();
  check_depthwise<ConvolutionShape{
      .channels = 19, .out_height = 4, .out_width = 11, .kernel_height = 3, .kernel_width = 3, .in_row = 13}>();
  check_depthwise<ConvolutionShape{.channels = 32,
                                   .out_height = 3,
                                   .out_width = 5,
                                   .kernel_height = 5,
                                   .kernel_width = 5,
                                   .stride_height = 2,
                                   .stride_width = 2,
                                   .in_row = 13}>();
  check_depthwise<ConvolutionShape{.channels = 7,
                                   .out_height = 2,
                                   .out_width = 17,
                                   .kernel_height = 3,
                                   .kernel_width = 2,
                                   .dilation_height = 3,
                                   .dilation_width = 3,
                                   .in_row = 20}>();
  check_depthwise<ConvolutionShape{.channels = 40,
                                   .out_width = 21,
                                   .kernel_width = 4,
                                   .stride_height = 2,
                                   .dilation_height = 5,
                                   .dilation_width = 2,
                                   .in_row = 27}>();
  check_depthwise<ConvolutionShape{.channels = 19,
                                   .out_height = 9,
                                   .out_width = 4,
                                   .kernel_height = 3,
                                   .kernel_width = 3,
                                   .in_row = 6,
                                   .images = 2,
                                   .in_image = 1300}>();
}

TEST_CASE("by rows, in memory or made when a window reaches them, every result is the same to the bit") {
  check_by_rows<ConvolutionShape{.channels = 1, .in_row = 1}, MadeRows{}>();
  check_by_rows<
      ConvolutionShape{
          .channels = 19, .out_height = 7, .out_width = 11, .kernel_height = 3, .kernel_width = 3, .in_row = 13},
      MadeRows{.height = 7, .width = 11, .above = 1, .before = 1}>();
  check_by_rows<ConvolutionShape{.channels = 32,
                                 .out_height = 5,
                                 .out_width = 6,
                                 .kernel_height = 5,
                                 .kernel_width = 5,
                                 .stride_height = 2,
                                 .stride_width = 2,
                                 .in_row = 15},
                MadeRows{.height = 9, .width = 11, .above = 2, .before = 2}>();
  // A row of zeros has been above a row that comes behind it; rows between windows are not made.
  check_by_rows<ConvolutionShape{.channels = 7,
                                 .out_height = 6,
                                 .out_width = 8,
                                 .kernel_height = 3,
                                 .kernel_width = 2,
                                 .dilation_height = 3,
                                 .dilation_width = 3,
                                 .in_row = 11,
                                 .images = 3},
                MadeRows{.height = 6, .width = 8, .above = 3, .before = 2}>();
  check_by_rows<ConvolutionShape{.channels = 33,
                                 .out_height = 3,
                                 .out_width = 3,
                                 .kernel_height = 2,
                                 .kernel_width = 1,
                                 .stride_height = 4,
                                 .stride_width = 3,
                                 .in_row = 7},
                MadeRows{.height = 10, .width = 7}>();
  // More zeros than pixels, and pixels further apart than they have channels.
  check_by_rows<ConvolutionShape{.channels = 5,
                                 .out_height = 8,
                                 .out_width = 9,
                                 .kernel_height = 7,
                                 .kernel_width = 7,
                                 .in_row = 15,
                                 .in_pixel = 6,
                                 .images = 2},
                MadeRows{.height = 2, .width = 3, .above = 6, .before = 6}>();
}

namespace {
/// Beside double precision, by several parts, from memory that ends where the last sequence does.
template <SequenceShape Shape>
void check_sequences() {
  INFO("channels ", Shape.channels, ", length ", Shape.length, " -> ", Shape.out_length, ", kernel ", Shape.kernel,
       ", stride ", Shape.stride, ", dilation ", Shape.dilation, ", before ", Shape.before);
  constexpr int channels = Shape.channels, apart = Shape.in_channel;
  constexpr std::size_t reach = (Shape.images - 1) * Shape.in_image + (channels - 1) * apart + Shape.length;
  const std::vector<float> in = fxx::test::random_floats(reach, 1);
  const std::vector<float> weights = fxx::test::random_floats(channels * Shape.kernel, 2);
  for (const int parts : {1, 2, 5}) {
    CAPTURE(parts);
    std::vector<float> out(Shape.images * channels * Shape.out_length, untouched), workspace(Shape.workspace(), untouched);
    for (int index = 0; index < parts; ++index)
      depthwise_sequences<Shape>(Part{index, parts}, in.data(), weights.data(), workspace.data(),
                                 [&](int image, int channel, int x, real sum, auto width) {
                                   const int at = (image * channels + channel) * Shape.out_length + x;
                                   for (int i = 0; i < width; ++i) {
                                     CHECK(x + i < Shape.out_length);
                                     CHECK(out[at + i] == untouched);
                                     out[at + i] = sum[i];
                                   }
                                 });
    bool good = true;
    for (int image = 0; image < Shape.images; ++image)
      for (int channel = 0; channel < channels; ++channel)
        for (int x = 0; x < Shape.out_length; ++x) {
          double sum = 0, size = 0;
          for (int k = 0; k < Shape.kernel; ++k) {
            const int at = x * Shape.stride + k * Shape.dilation - Shape.before;
            if (at < 0 || at >= Shape.length) continue;
            const double product = double(in[image * Shape.in_image + channel * apart + at]) *
                                   weights[channel * Shape.kernel + k];
            sum += product, size += std::abs(product);
          }
          const float given = out[(image * channels + channel) * Shape.out_length + x];
          good = good && std::abs(given - sum) <= std::ldexp(size, -23) * (Shape.kernel + 1) / 2;
        }
    CHECK(good);
  }
}
}  // namespace

TEST_CASE("filters along sequences are those of double precision, whatever zeros are around them") {
  check_sequences<SequenceShape{.channels = 3, .length = 5, .out_length = 5, .in_channel = 5}>();
  check_sequences<SequenceShape{.channels = 2, .length = 300, .out_length = 300, .kernel = 3, .before = 1,
                                .images = 2, .in_channel = 303, .in_image = 700}>();
  check_sequences<SequenceShape{.channels = 3, .length = 1000, .out_length = 250, .kernel = 9, .stride = 4, .before = 4,
                                .in_channel = 1000}>();
  check_sequences<SequenceShape{.channels = 1, .length = 701, .out_length = 349, .kernel = 4, .stride = 2,
                                .in_channel = 701}>();
  // Causal; with more zeros than there are elements; behind the end as well.
  check_sequences<SequenceShape{.channels = 2, .length = 500, .out_length = 500, .kernel = 31, .dilation = 2,
                                .before = 60, .in_channel = 500}>();
  check_sequences<SequenceShape{.channels = 2, .length = 7, .out_length = 120, .kernel = 3, .dilation = 5, .before = 60,
                                .in_channel = 7}>();
  check_sequences<SequenceShape{.channels = 2, .length = 9, .out_length = 40, .kernel = 5, .stride = 4, .dilation = 3,
                                .before = 80, .in_channel = 9}>();
  check_sequences<SequenceShape{.channels = 1, .length = 4000, .out_length = 2003, .kernel = 7, .stride = 2,
                                .dilation = 3, .before = 11, .in_channel = 4000}>();
}
