// Convolutions beside double precision, of floats and of fewer bits.
#pragma once

#include "fxx/kernels/convolution.hpp"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

#include "kernels/images.hpp"

namespace fxx::test {
using namespace fxx::kernels;

/// Of floats, or of Bfloat16, whose products and sums are the same.
template <ConvolutionShape Shape, class Element = float, bool Signs = true>
void check_convolution() {
  INFO("channels ", Shape.channels, " -> ", Shape.out_channels, ", output ", Shape.out_height, " x ", Shape.out_width,
       ", kernel ", Shape.kernel_height, " x ", Shape.kernel_width, ", stride ", Shape.stride_height, " x ",
       Shape.stride_width, ", dilation ", Shape.dilation_height, " x ", Shape.dilation_width, ", pixel ", Shape.pixel(),
       ", images ", Shape.images, ", groups ", Shape.groups);
  constexpr int N = Shape.out_channels * Shape.groups;
  std::vector<float> in = fxx::test::random_floats(input_size(Shape), 1);
  std::vector<float> weights = fxx::test::random_floats(static_cast<std::size_t>(N * Shape.depth()), 2);
  constexpr bool floats = std::is_same_v<Element, float>;
  if (!Signs)
    for (auto* numbers : {&in, &weights})
      for (float& v : *numbers) v = std::abs(v);
  if (!floats)
    for (auto* numbers : {&in, &weights})
      for (float& v : *numbers) v = to_float(to_bfloat16(v));
  const auto weight = [&](int n, int r, int s, int c) {  // as LibTorch has them: n, c, r, s
    return weights[((n * Shape.channels + c) * Shape.kernel_height + r) * Shape.kernel_width + s];
  };
  const auto as_element = [](float v) {
    if constexpr (floats) return v;
    else return to_bfloat16(v);
  };
  std::vector<Element> elements(in.size()), packed(Shape.template packed<Element>(), as_element(untouched));
  std::transform(in.begin(), in.end(), elements.begin(), as_element);
  pack_convolution(packed.data(), Shape, weight);
  CHECK(std::find(packed.begin(), packed.end(), as_element(untouched)) == packed.end());
  const Output out = in_parts({Shape.images, Shape.out_height, Shape.out_width, N}, [&](Part part, Output& to) {
    convolution<Shape>(part, elements.data(), packed.data(), to.finish());
  });
  const char* const what = Signs ? "a convolution" : "a convolution of numbers of one sign";
  CHECK(out.near(what, [&](int image, int y, int x, int n, const auto& add) {
    for (int r = 0; r < Shape.kernel_height; ++r)
      for (int k = 0; k < Shape.kernel_width; ++k)
        for (int c = 0; c < Shape.channels; ++c) {
          const int row = y * Shape.stride_height + r * Shape.dilation_height;
          const int column = x * Shape.stride_width + k * Shape.dilation_width;
          add(in[image * Shape.image() + (row * Shape.in_row + column) * Shape.pixel() +
                 n / Shape.out_channels * Shape.channels + c],
              weight(n, r, k, c));
        }
  }, Signs));
}

}  // namespace fxx::test
