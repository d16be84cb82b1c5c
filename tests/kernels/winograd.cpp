// Winograd's convolutions beside double precision, over sizes that are no multiple of anything.
#include "fxx/kernels/winograd.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/native.hpp"

using namespace fxx::kernels;

namespace {

constexpr float untouched = -12345.f;

/// The largest error relative to the largest output; of few, which may all be small, relative to what sums of so many
/// products deviate by.
template <WinogradShape Shape>
void check_winograd(unsigned seed) {
  INFO("tiles of ", Shape.outputs, ", channels ", Shape.channels, " -> ", Shape.out_channels, ", output ",
       Shape.out_height, " x ", Shape.out_width);
  constexpr int N = Shape.out_channels, C = Shape.channels, pixel = N + 2;
  const std::vector<float> in = fxx::test::random_floats(static_cast<std::size_t>(Shape.images * Shape.image()), seed);
  const std::vector<float> weights = fxx::test::random_floats(static_cast<std::size_t>(N * C * 9), seed + 1);
  const auto weight = [&](int n, int r, int s, int c) { return weights[((n * C + c) * 3 + r) * 3 + s]; };
  std::vector<float> packed(Shape.packed(), untouched);
  pack_winograd<Shape>(packed.data(), weight);
  CHECK(std::find(packed.begin(), packed.end(), untouched) == packed.end());
  const auto in_parts = [&](int parts) {
    std::vector<float> workspace(parts * Shape.workspace(), untouched);
    std::vector<float> out(Shape.images * Shape.out_height * Shape.out_width * pixel, untouched);
    for (int index = 0; index < parts; ++index)
      winograd<Shape>(Part{index, parts}, in.data(), packed.data(), workspace.data(),
                      [&](int image, int y, int x, int channel, real sum, auto width) __attribute__((always_inline)) {
                        store_some<width>(
                            out.data() + ((image * Shape.out_height + y) * Shape.out_width + x) * pixel + channel, sum);
                      });
    return out;
  };
  const std::vector<float> out = in_parts(1);
  double worst = 0, most = std::sqrt(9. * C);
  bool beside = false;
  for (int image = 0; image < Shape.images; ++image)
    for (int y = 0; y < Shape.out_height; ++y)
      for (int x = 0; x < Shape.out_width; ++x) {
        const float* given = out.data() + ((image * Shape.out_height + y) * Shape.out_width + x) * pixel;
        for (int n = 0; n < N; ++n) {
          double exact = 0;
          for (int r = 0; r < 3; ++r)
            for (int s = 0; s < 3; ++s)
              for (int c = 0; c < C; ++c)
                exact += double(in[image * Shape.image() + ((y + r) * Shape.in_row + x + s) * Shape.pixel() + c]) *
                         weight(n, r, s, c);
          worst = std::max(worst, std::abs(given[n] - exact));
          most = std::max(most, std::abs(exact));
        }
        beside = beside || given[N] != untouched || given[N + 1] != untouched;
      }
  CHECK(fxx::test::within(Shape.outputs == 2 ? "winograd, tiles of 2" : "winograd, tiles of 4", worst / most,
                          Shape.outputs == 2 ? 8e-7 : 2e-6));
  CHECK_FALSE(beside);
  for (int parts = 2; parts <= 4; ++parts) CHECK(in_parts(parts) == out);
}
template <WinogradShape Shape>
void check_winograd() {
  for (const unsigned seed : {1u, 3u, 5u}) check_winograd<Shape>(seed);
}

}  // namespace

TEST_CASE("tiles of two by two are within 8e-7 of double precision, and nothing beside them is written") {
  check_winograd<WinogradShape{.outputs = 2, .in_row = 4}>();
  check_winograd<WinogradShape{.outputs = 2, .channels = 3, .out_channels = 5, .out_height = 3, .out_width = 7,
                               .in_row = 10}>();
  check_winograd<WinogradShape{.outputs = 2, .channels = 37, .out_channels = 50, .out_height = 7, .out_width = 7,
                               .in_row = 10}>();
  check_winograd<WinogradShape{.outputs = 2, .channels = 128, .out_channels = 64, .out_height = 4, .out_width = 6,
                               .in_row = 9}>();
  check_winograd<WinogradShape{.outputs = 2, .channels = 256, .out_channels = 19, .out_height = 7, .out_width = 5,
                               .in_row = 8}>();
}

TEST_CASE("tiles of four by four are within 2e-6 of double precision") {
  check_winograd<WinogradShape{.outputs = 4, .in_row = 6}>();
  check_winograd<WinogradShape{.outputs = 4, .channels = 5, .out_channels = 19, .out_height = 5, .out_width = 9,
                               .in_row = 14}>();
  check_winograd<WinogradShape{.outputs = 4, .channels = 64, .out_channels = 33, .out_height = 14, .out_width = 14,
                               .in_row = 18}>();
  check_winograd<WinogradShape{.outputs = 4, .channels = 130, .out_channels = 16, .out_height = 21, .out_width = 6,
                               .in_row = 11}>();
}

TEST_CASE("many tiles are computed in blocks, the last of which is smaller") {
  constexpr WinogradShape shape{.outputs = 4, .channels = 256, .out_channels = 32, .out_height = 30, .out_width = 30,
                                .in_row = 34};
  static_assert(shape.block() < shape.tiles());
  check_winograd<shape>();
}

TEST_CASE("any tile of sums that fits, and any number of tiles at once") {
  constexpr WinogradShape shape{.outputs = 4, .channels = 20, .out_channels = 50, .out_height = 22, .out_width = 18,
                                .in_row = 22, .sums = {5, 2}, .at_once = 12};
  static_assert(shape.block() == 10);  // in whole rows of the tile
  check_winograd<shape>();
  check_winograd<WinogradShape{.outputs = 4, .channels = 20, .out_channels = 50, .out_height = 22, .out_width = 18,
                               .in_row = 22, .sums = {7, 1}, .at_once = 3}>();
  // More rows than there are tiles.
  check_winograd<WinogradShape{
      .outputs = 2, .channels = 20, .out_channels = 50, .out_height = 3, .out_width = 5, .in_row = 8, .sums = {9, 1}}>();
  check_winograd<WinogradShape{
      .outputs = 2, .channels = 20, .out_channels = 50, .out_height = 3, .out_width = 5, .in_row = 8, .at_once = 1000}>();
}

TEST_CASE("tiles of several images are computed together, wherever the images lie") {
  check_winograd<WinogradShape{.outputs = 4, .channels = 20, .out_channels = 40, .out_height = 7, .out_width = 7,
                               .in_row = 10, .images = 5}>();
  check_winograd<WinogradShape{.outputs = 2, .channels = 33, .out_channels = 100, .out_height = 3, .out_width = 4,
                               .in_row = 6, .in_pixel = 35, .images = 3, .in_image = 1300}>();
}
