// Rows, elements and images that move, beside loops over single elements; resizing beside what LibTorch gives.
#include "fxx/kernels/copies.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/native.hpp"

using namespace fxx::kernels;

namespace {

std::vector<float> ramp(int count) {
  std::vector<float> x(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) x[i] = static_cast<float>(i);
  return x;
}

template <int Rows, int Size, int InStride, int OutStride>
void check_rows() {
  const std::vector<float> in = ramp((Rows - 1) * InStride + Size);
  std::vector<float> out((Rows - 1) * OutStride + Size, -1), wanted(out);
  for (int r = 0; r < Rows; ++r)
    for (int c = 0; c < Size; ++c) wanted[r * OutStride + c] = in[r * InStride + c];
  copy_rows<Rows, Size, InStride, OutStride>(in.data(), out.data());
  CHECK(out == wanted);
}
template <int Rows, int Size, int Shift>
void check_roll() {
  const std::vector<float> in = ramp(Rows * Size);
  std::vector<float> out(in.size(), -1);
  roll<Rows, Size, Shift>(in.data(), out.data());
  bool same = true;
  for (int r = 0; r < Rows; ++r)
    for (int c = 0; c < Size; ++c)
      same = same && out[((r + Shift) % Rows + Rows) % Rows * Size + c] == in[r * Size + c];
  CHECK(same);
}
/// Half a unit of the sum, and what is lost in double precision.
double running_bound(double sum, double magnitude, int additions) {
  return std::ldexp(std::abs(sum), -24) + std::ldexp(magnitude * (additions + 1), -52);
}
template <int N>
void check_running_sum() {
  CAPTURE(N);
  const std::vector<float> x = fxx::test::random_floats(N, N);
  std::vector<float> out(N);
  running_sum<N>([&](int c, auto width) __attribute__((always_inline)) { return load_some<width>(x.data() + c); },
                 [&](int c, real v, auto width) __attribute__((always_inline)) {
                   store_some<width>(out.data() + c, v);
                 });
  double exact = 0, magnitude = 0;
  bool near = true;
  for (int i = 0; i < N; ++i) {
    exact += x[i], magnitude += std::abs(x[i]);
    near = near && fxx::test::within("running_sum", std::abs(out[i] - exact), running_bound(exact, magnitude, i));
  }
  CHECK(near);
}
template <int Rows, int Columns>
void check_column_running_sums() {
  const std::vector<float> x = fxx::test::random_floats(Rows * Columns, 4);
  std::vector<float> out(x.size());
  column_running_sums<Rows, Columns>(
      [&](int r, int c, auto width) __attribute__((always_inline)) {
        return load_some<width>(x.data() + r * Columns + c);
      },
      [&](int r, int c, real v, auto width) __attribute__((always_inline)) {
        store_some<width>(out.data() + r * Columns + c, v);
      });
  bool near = true;
  for (int c = 0; c < Columns; ++c) {
    double exact = 0, magnitude = 0;
    for (int r = 0; r < Rows; ++r) {
      exact += x[r * Columns + c], magnitude += std::abs(x[r * Columns + c]);
      near = near && fxx::test::within("column_running_sums", std::abs(out[r * Columns + c] - exact),
                                       running_bound(exact, magnitude, r));
    }
  }
  CHECK(near);
}
template <int N>
void check_running_product() {
  CAPTURE(N);
  std::vector<float> x = fxx::test::random_floats(N, N), out(N);
  for (float& v : x) v = v < 0 ? v - 0.5f : v + 0.5f;
  running_product<N>(
      [&](int c, auto width) __attribute__((always_inline)) { return load_some<width>(x.data() + c); },
      [&](int c, real v, auto width) __attribute__((always_inline)) { store_some<width>(out.data() + c, v); });
  double exact = 1;
  for (int i = 0; i < N; ++i) {
    exact *= x[i];
    CHECK(fxx::test::within("running_product", std::abs(out[i] - exact),
                            std::abs(exact) * (std::ldexp(1., -24) + std::ldexp(N, -52)) + 1e-45));
  }
}
/// Of a ramp of 10 y + x, with two channels more, of twice that and of one.
template <ResizeShape Shape, bool Nearest>
std::vector<float> resized() {
  static_assert(Shape.channels == 3 && Shape.in_height == 3 && Shape.in_width == 5);
  constexpr int pixel = Shape.pixel();
  std::vector<float> in(15 * pixel, -99.f), out(Shape.out_height * Shape.out_width);
  for (int y = 0; y < 3; ++y)
    for (int x = 0; x < 5; ++x)
      for (int c = 0; c < 3; ++c)
        in[(y * 5 + x) * pixel + c] = c == 2 ? 1.f : static_cast<float>((y * 10 + x) * (c + 1));
  const auto put = [&](int y, int x, int c, const real v, auto width) {
    CHECK(c == 0);
    CHECK(width == 3);
    out[y * Shape.out_width + x] = v[0];
    CHECK(v[1] == doctest::Approx(2 * v[0]));
    CHECK(v[2] == doctest::Approx(1));
  };
  if constexpr (Nearest) resize_nearest<Shape>(in.data(), put);
  else resize_bilinear<Shape>(in.data(), put);
  return out;
}
void check_near(const std::vector<float>& given, const std::vector<float>& wanted) {
  REQUIRE(given.size() == wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) CHECK(std::abs(given[i] - wanted[i]) < 1e-5f);
}
template <PadShape Shape, class Source>
void check_pad(const Source& source) {
  const std::vector<float> in = ramp(Shape.height * Shape.width * Shape.channels);
  const int rows = Shape.out_height(), columns = Shape.out_width();
  std::vector<float> out(rows * columns * Shape.channels), wanted(out);
  for (int y = 0; y < rows; ++y)
    for (int x = 0; x < columns; ++x)
      for (int c = 0; c < Shape.channels; ++c) {
        const int from_y = source(y - Shape.top, Shape.height), from_x = source(x - Shape.left, Shape.width);
        wanted[(y * columns + x) * Shape.channels + c] =
            from_y < 0 || from_x < 0 ? -7.f : in[(from_y * Shape.width + from_x) * Shape.channels + c];
      }
  pad<Shape>(
      -7.f,
      [&](int y, int x, int c, auto width) __attribute__((always_inline)) {
        return load_some<width>(in.data() + (y * Shape.width + x) * Shape.channels + c);
      },
      [&](int y, int x, int c, real v, auto width) __attribute__((always_inline)) {
        store_some<width>(out.data() + (y * columns + x) * Shape.channels + c, v);
      });
  CHECK(out == wanted);
}

}  // namespace

TEST_CASE("rows are copied, however far apart they lie") {
  check_rows<1, 1, 1, 1>();
  check_rows<5, 7, 7, 7>();
  check_rows<5, 37, 41, 50>();
  check_rows<3, 16, 16, 30>();
}

TEST_CASE("rows that are rolled beyond an end come back at the other") {
  check_roll<7, 3, 2>();
  check_roll<7, 3, -2>();
  check_roll<7, 1, 0>();
  check_roll<5, 2, 13>();
}

TEST_CASE("elements that lie apart are read and written alone") {
  const std::vector<float> in = ramp(lanes * 3 - 2);
  std::vector<float> out(static_cast<std::size_t>(lanes * 2 - 1), -1);
  const real v = load_strided(in.data(), 3, Width<lanes>());
  for (int i = 0; i < lanes; ++i) CHECK(v[i] == static_cast<float>(3 * i));
  const real back = load_strided(in.data() + in.size() - 1, -3, Width<3>());
  for (int i = 0; i < lanes; ++i) CHECK(back[i] == (i < 3 ? in[in.size() - 1 - 3 * i] : 0.f));
  store_strided(out.data(), 2, v, Width<lanes>());
  for (int i = 0; i < 2 * lanes - 1; ++i) CHECK(out[i] == (i % 2 ? -1.f : static_cast<float>(3 * i / 2)));
}

TEST_CASE("interleaved parts stand beside each other, and nothing behind them is written") {
  const auto check = []<int Parts, int Count>(Width<Parts>, Width<Count> width) {
    CAPTURE(Parts);
    CAPTURE(Count);
    const std::vector<float> in = fxx::test::random_floats(4 * lanes, 5);
    std::vector<float> out(4 * lanes + 1, -1.f);
    store_interleaved<Parts>(out.data(), [&](int k) { return load(in.data() + k * lanes); }, width);
    for (int i = 0; i < Count; ++i)
      for (int k = 0; k < Parts; ++k) CHECK(out[i * Parts + k] == in[k * lanes + i]);
    for (int i = Count * Parts; i < 4 * lanes + 1; ++i) CHECK(out[i] == -1.f);
    std::vector<Bfloat16> narrow(4 * lanes + 1, to_bfloat16(-1.f));
    store_interleaved<Parts>(narrow.data(), [&](int k) { return load(in.data() + k * lanes); }, width);
    for (int i = 0; i < 4 * lanes + 1; ++i) CHECK(narrow[i] == to_bfloat16(out[i]));
  };
  const auto check_counts = [&](auto parts) {
    check(parts, Width<1>{});
    check(parts, Width<lanes - 1>{});
    check(parts, Width<lanes / 2>{});
    check(parts, Width<lanes>{});
  };
  check_counts(Width<2>{});
  check_counts(Width<3>{});
  check_counts(Width<4>{});
}

TEST_CASE("rows of a table are found by index, and a wrong index is told") {
  constexpr int size = 19, stride = 21;
  const std::vector<float> table = ramp(4 * stride + size);
  const auto check = [&]<bool FromEnd, class Index>(std::vector<Index> indices, std::ptrdiff_t bad) {
    std::vector<float> out(indices.size() * size, -1);
    const std::ptrdiff_t found = gather_rows<size, stride, FromEnd>(
        indices.data(), static_cast<std::ptrdiff_t>(indices.size()), table.data(), 5,
        [&](std::ptrdiff_t i, int c, real v, auto width) __attribute__((always_inline)) {
          store_some<width>(out.data() + i * size + c, v);
        });
    CHECK(found == bad);
    const std::size_t count = bad < 0 ? indices.size() : static_cast<std::size_t>(bad);
    for (std::size_t i = 0; i < count; ++i)
      for (int c = 0; c < size; ++c)
        CHECK(out[i * size + c] == table[(indices[i] < 0 ? indices[i] + 5 : indices[i]) * stride + c]);
  };
  check.operator()<false, std::int64_t>({4, 0, 2, 2}, -1);
  check.operator()<false, std::int32_t>({4, 0, 2, 3}, -1);
  check.operator()<false, std::int64_t>({4, 0, 5, 2}, 2);
  check.operator()<false, std::int64_t>({-1}, 0);
  check.operator()<true, std::int64_t>({-1, -5, 4}, -1);
  check.operator()<true, std::int64_t>({0, -6}, 1);
  check.operator()<false, std::int64_t>({std::numeric_limits<std::int64_t>::min()}, 0);
}

TEST_CASE("elements are gathered by index, and a wrong index is told") {
  constexpr int N = 21;
  const std::vector<float> row = ramp(31);
  std::vector<std::int64_t> indices(N);
  for (int i = 0; i < N; ++i) indices[i] = i * 7 % 11;
  std::vector<float> out(N, -1);
  const auto put = [&](int c, real v, auto width) { store_some<width>(out.data() + c, v); };
  CHECK(gather<N>(indices.data(), row.data(), 11, 3, put) == -1);
  for (int i = 0; i < N; ++i) CHECK(out[i] == static_cast<float>(indices[i] * 3));
  indices[18] = 11;
  CHECK(gather<N>(indices.data(), row.data(), 11, 3, put) == 18);
  indices[18] = -1;
  CHECK(gather<N>(indices.data(), row.data(), 11, 3, put) == 18);
  CHECK(gather<N, true>(indices.data(), row.data(), 11, 3, put) == -1);
  CHECK(out[18] == 30);
}

TEST_CASE("running sums are those of double precision") {
  check_running_sum<1>();
  check_running_sum<7>();
  check_running_sum<16>();
  check_running_sum<1003>();
  check_column_running_sums<1, 1>();
  check_column_running_sums<37, 19>();
  check_column_running_sums<1003, 5>();
}

TEST_CASE("running products are those of double precision, and keep nan and 0 from where they stand on") {
  check_running_product<1>();
  check_running_product<7>();
  check_running_product<16>();
  check_running_product<83>();
  for (const float odd : {0.f, std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> x(37, 2.f), out(37);
    x[19] = odd;
    running_product<37>([&](int c, auto width) { return load_some<width>(x.data() + c); },
                        [&](int c, real v, auto width) { store_some<width>(out.data() + c, v); });
    for (int i = 0; i < 37; ++i) {
      if (i < 19) CHECK(out[i] == std::ldexp(1.f, i + 1));
      else CHECK((odd == 0 ? out[i] == 0 : std::isnan(out[i])));
    }
  }
}

TEST_CASE("a running product that is endless stays so, and is nan from a 0 on") {
  std::vector<float> x(37, 2.f), out(37);
  x[5] = -std::numeric_limits<float>::infinity();
  x[30] = 0;
  running_product<37>([&](int c, auto width) { return load_some<width>(x.data() + c); },
                      [&](int c, real v, auto width) { store_some<width>(out.data() + c, v); });
  for (int i = 0; i < 37; ++i) {
    if (i < 5) CHECK(out[i] == std::ldexp(1.f, i + 1));
    else if (i < 30) CHECK(out[i] == -std::numeric_limits<float>::infinity());
    else CHECK(std::isnan(out[i]));
  }
}

TEST_CASE("running sums keep nan and infinity from where they stand on") {
  constexpr int N = 40;
  for (const int at : {0, 5, 17, 39}) {
    std::vector<float> x(N, 1.f), out(N);
    x[at] = std::numeric_limits<float>::infinity();
    if (at == 5) x[30] = -x[5];
    running_sum<N>([&](int c, auto width) { return load_some<width>(x.data() + c); },
                   [&](int c, real v, auto width) { store_some<width>(out.data() + c, v); });
    for (int i = 0; i < N; ++i) {
      if (i < at) CHECK(out[i] == static_cast<float>(i + 1));
      else if (at == 5 && i >= 30) CHECK(std::isnan(out[i]));
      else CHECK(out[i] == std::numeric_limits<float>::infinity());
    }
  }
}

TEST_CASE("running sums of columns keep nan and infinity from where they stand on, and in their column") {
  constexpr int rows = 11, columns = 19;
  std::vector<float> x(rows * columns, 1.f), out(x.size());
  x[4 * columns] = std::numeric_limits<float>::quiet_NaN();
  x[5 * columns + 18] = std::numeric_limits<float>::infinity();
  x[7 * columns + 18] = -std::numeric_limits<float>::infinity();
  column_running_sums<rows, columns>([&](int r, int c, auto width) { return load_some<width>(&x[r * columns + c]); },
                                     [&](int r, int c, real v, auto width) {
                                       store_some<width>(&out[r * columns + c], v);
                                     });
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < columns; ++c) {
      const float v = out[r * columns + c];
      if ((c == 0 && r >= 4) || (c == 18 && r >= 7)) CHECK(std::isnan(v));
      else if (c == 18 && r >= 5) CHECK(v == std::numeric_limits<float>::infinity());
      else CHECK(v == static_cast<float>(r + 1));
    }
}

namespace {
/// Of random pixels, from places that are found in single precision: within so many units of the largest of four pixels.
template <ResizeShape Shape>
void check_bilinear() {
  INFO(Shape.in_height, " x ", Shape.in_width, " to ", Shape.out_height, " x ", Shape.out_width);
  constexpr int C = Shape.channels;
  const std::vector<float> in = fxx::test::random_floats(Shape.in_height * Shape.in_width * C, 3);
  constexpr bool corners = Shape.align_corners;
  constexpr float down = corners ? Shape.step_between_corners(Shape.in_height, Shape.out_height)
                                 : Shape.step(Shape.in_height, Shape.out_height, 0);
  constexpr float along = corners ? Shape.step_between_corners(Shape.in_width, Shape.out_width)
                                  : Shape.step(Shape.in_width, Shape.out_width, 0);
  bool near = true;
  resize_bilinear<Shape>(in.data(), [&](int y, int x, int c, real v, auto width) {
    const auto rows = detail_of_copies::between<Shape.in_height, Shape.out_height, corners>(y, down);
    const auto columns = detail_of_copies::between<Shape.in_width, Shape.out_width, corners>(x, along);
    const int top = rows.first, bottom = rows.second, left = columns.first, right = columns.second;
    const double below = rows.share, behind = columns.share;
    for (int i = 0; i < width; ++i) {
      const auto pixel = [&](int r, int s) { return double(in[(r * Shape.in_width + s) * C + c + i]); };
      const double exact = (pixel(top, left) * (1 - behind) + pixel(top, right) * behind) * (1 - below) +
                           (pixel(bottom, left) * (1 - behind) + pixel(bottom, right) * behind) * below;
      const double most = std::max({std::abs(pixel(top, left)), std::abs(pixel(top, right)),
                                    std::abs(pixel(bottom, left)), std::abs(pixel(bottom, right))});
      near = near && fxx::test::within("resize_bilinear", std::abs(v[i] - exact), std::ldexp(2 * most, -23));
    }
  });
  CHECK(near);
}
}  // namespace

TEST_CASE("bilinear resizing of awkward sizes is that of double precision") {
  check_bilinear<ResizeShape{.channels = 1, .in_height = 1, .in_width = 1, .out_height = 3, .out_width = 2}>();
  check_bilinear<ResizeShape{.channels = 19, .in_height = 7, .in_width = 5, .out_height = 13, .out_width = 11}>();
  check_bilinear<ResizeShape{.channels = 3, .in_height = 13, .in_width = 17, .out_height = 5, .out_width = 7}>();
  check_bilinear<ResizeShape{
      .channels = 33, .in_height = 7, .in_width = 5, .out_height = 31, .out_width = 4, .align_corners = true}>();
  check_bilinear<ResizeShape{.channels = 2, .in_height = 4, .in_width = 4, .out_height = 8, .out_width = 8}>();
}

TEST_CASE("resized images are LibTorch's") {
  constexpr ResizeShape up{.channels = 3, .in_height = 3, .in_width = 5, .out_height = 4, .out_width = 7};
  constexpr ResizeShape exact{.channels = 3, .in_height = 3, .in_width = 5, .out_height = 4, .out_width = 7,
                              .exact = true};
  constexpr ResizeShape corners{.channels = 3, .in_height = 3, .in_width = 5, .out_height = 4, .out_width = 7,
                                .align_corners = true};
  constexpr ResizeShape down{.channels = 3, .in_height = 3, .in_width = 5, .out_height = 2, .out_width = 2};
  constexpr ResizeShape scaled{.channels = 3, .in_height = 3, .in_width = 5, .out_height = 4, .out_width = 6,
                               .scale_height = 1.4, .scale_width = 1.3};
  CHECK(resized<up, true>() == std::vector<float>{0,  0,  1,  2,  2,  3,  4,  0,  0,  1,  2,  2,  3,  4,
                                                  10, 10, 11, 12, 12, 13, 14, 20, 20, 21, 22, 22, 23, 24});
  CHECK(resized<exact, true>() == std::vector<float>{0,  1,  1,  2,  3,  3,  4,  10, 11, 11, 12, 13, 13, 14,
                                                     10, 11, 11, 12, 13, 13, 14, 20, 21, 21, 22, 23, 23, 24});
  CHECK(resized<scaled, true>() == std::vector<float>{0,  0,  1,  2,  3,  3,  0,  0,  1,  2,  3,  3,
                                                      10, 10, 11, 12, 13, 13, 20, 20, 21, 22, 23, 23});
  // Beside channels of others.
  constexpr ResizeShape beside{.channels = 3, .in_height = 3, .in_width = 5, .out_height = 4, .out_width = 7,
                               .in_pixel = 5};
  CHECK(resized<beside, true>() == resized<up, true>());
  CHECK(resized<beside, false>() == resized<up, false>());
  // By a factor that does not change their number: rows 0, 1, 1, columns 0, 1, 2, 3, 3.
  constexpr ResizeShape same{.channels = 3, .in_height = 3, .in_width = 5, .out_height = 3, .out_width = 5,
                             .exact = true, .scale_height = 1.3, .scale_width = 1.15};
  CHECK(resized<same, true>() == std::vector<float>{0, 1, 2, 3, 3, 10, 11, 12, 13, 13, 10, 11, 12, 13, 13});
  check_near(resized<up, false>(),
             {0.f,        0.571429f,  1.285714f,  2.f,  2.714286f,  3.428571f,  4.f,    6.25f, 6.821429f,  7.535715f,
              8.25f,      8.964286f,  9.678572f,  10.25f, 13.75f,   14.321428f, 15.035714f, 15.75f, 16.464287f,
              17.178572f, 17.75f,     20.f,       20.571428f, 21.285715f, 22.f, 22.714285f, 23.428572f, 24.f});
  check_near(resized<corners, false>(),
             {0.f,        0.666667f,  1.333333f,  2.f,        2.666667f,  3.333333f,  4.f,
              6.666667f,  7.333333f,  8.f,        8.666667f,  9.333334f,  10.f,       10.666667f,
              13.333334f, 14.f,       14.666667f, 15.333334f, 16.f,       16.666668f, 17.333334f,
              20.f,       20.666666f, 21.333334f, 22.f,       22.666666f, 23.333334f, 24.f});
  check_near(resized<down, false>(), {3.25f, 5.75f, 18.25f, 20.75f});
  check_near(resized<scaled, false>(),
             {0.f,        0.653846f,  1.423077f,  2.192308f,  2.961539f,  3.730769f,  5.714286f,  6.368132f,
              7.137362f,  7.906594f,  8.675825f,  9.445055f,  12.857143f, 13.51099f,  14.280221f, 15.049451f,
              15.818684f, 16.587914f, 20.f,       20.653847f, 21.423077f, 22.192308f, 22.961538f, 23.73077f});
}

TEST_CASE("padding is constant, reflects, repeats the border or goes around") {
  const auto within = [](int i, int size) { return i >= 0 && i < size ? i : -1; };
  check_pad<PadShape{.channels = 19, .height = 3, .width = 4, .top = 1, .bottom = 2, .left = 3, .right = 1}>(within);
  check_pad<PadShape{.channels = 2, .height = 5, .width = 4, .top = -1, .bottom = -2, .left = 3, .right = -1}>(within);
  check_pad<PadShape{.channels = 33, .height = 4, .width = 5, .top = 3, .bottom = 2, .left = 4, .right = 1,
                     .padding = Padding::reflect}>(
      [](int i, int size) { return i < 0 ? -i : i >= size ? 2 * size - 2 - i : i; });
  check_pad<PadShape{.channels = 3, .height = 2, .width = 5, .top = 3, .bottom = 4, .left = 7, .right = 1,
                     .padding = Padding::replicate}>(
      [](int i, int size) { return i < 0 ? 0 : i >= size ? size - 1 : i; });
  check_pad<PadShape{.channels = 1, .height = 1, .width = 5, .left = 5, .right = 3, .padding = Padding::circular}>(
      [](int i, int size) { return (i + size) % size; });
}
