// What tests of kernels for images share: what such a kernel wrote, beside double precision, whole and in parts.
#pragma once

#include <cmath>
#include <limits>

#include "fxx/kernels/convolution.hpp"
#include "kernels/native.hpp"

namespace fxx::test {

inline constexpr float untouched = -12345.f;

/// Floats of an input that ends with the last pixel that is read.
constexpr std::size_t input_size(const kernels::ConvolutionShape& s) {
  const int rows = (s.out_height - 1) * s.stride_height + (s.kernel_height - 1) * s.dilation_height;
  const int last = (s.out_width - 1) * s.stride_width + (s.kernel_width - 1) * s.dilation_width;
  return static_cast<std::size_t>((s.images - 1) * s.image() + (rows * s.in_row + last) * s.pixel() +
                                  s.channels * s.groups);
}
/// What a convolution of so many images, rows, pixels and channels wrote, two floats between pixels.
struct Output {
  int images, height, width, channels;
  std::vector<float> bias = random_floats(static_cast<std::size_t>(channels), 3);
  std::vector<float> floats =
      std::vector<float>(static_cast<std::size_t>(images * height * width * (channels + 2)), untouched);

  const float* at(int image, int y, int x) const {
    return floats.data() + ((image * height + y) * width + x) * (channels + 2);
  }
  auto finish() {
    return [this](int image, int y, int x, int channel, kernels::real sum, auto width) __attribute__((always_inline)) {
      kernels::store_some<width>(const_cast<float*>(at(image, y, x)) + channel,
                                 sum + kernels::load_some<width>(bias.data() + channel));
    };
  }
  /// Is it near to double precision: within what a sum and the bias may be off by whatever the numbers are, in units of
  /// 2^-23 of the sum of magnitudes, and within two, as `what` of normal numbers is, or what such without signs may be?
  /// And is nothing beside it written?
  /// `each(image, y, x, n, add)` adds the products of an element.
  template <class Each>
  bool near(const char* what, const Each& each, bool signs = true) const {
    bool near = true;
    for (int image = 0; image < images; ++image)
      for (int y = 0; y < height; ++y)
        for (int x = 0; x < width; ++x) {
          const float* given = at(image, y, x);
          for (int n = 0; n < channels; ++n) {
            double exact = bias[n], magnitude = std::abs(exact);
            int products = 0;
            each(image, y, x, n, [&](double a, double b) { exact += a * b, magnitude += std::abs(a * b), ++products; });
            const double units =
                std::abs(given[n] - exact) / (double(std::numeric_limits<float>::epsilon()) * magnitude);
            near = near && within("an image, whatever the numbers", units, kernels::units_of_sum(products) + 0.5);
            near = near && within(what, units, signs ? 2 : units_without_signs(products));
          }
          near = near && given[channels] == untouched && given[channels + 1] == untouched;
        }
    return near;
  }
};
/// Runs `run(part, output)` whole and in parts, which give the same.
template <class Run>
Output in_parts(Output out, const Run& run) {
  Output whole = out;
  run(kernels::Part{}, whole);
  for (int parts = 2; parts <= 4; ++parts) {
    Output pieces = out;
    for (int index = 0; index < parts; ++index) run(kernels::Part{index, parts}, pieces);
    CHECK(pieces.floats == whole.floats);
  }
  return whole;
}

}  // namespace fxx::test
