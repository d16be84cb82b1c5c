// Loops around expressions, what reads and writes elements anywhere, zeros around images, and packed gates, beside loops
// over single elements.
#include "fxx/kernels/loops.hpp"

#include <cmath>

#include "fxx/kernels/gemm.hpp"
#include "fxx/kernels/recurrent.hpp"
#include "fxx/kernels/weights.hpp"
#include "kernels/native.hpp"

using namespace fxx::kernels;

namespace {

constexpr float untouched = -12345.f;

/// relu(a + b) of N elements in so many parts: each element once, and none behind.
template <int N>
void check_pointwise(int parts) {
  CAPTURE(N);
  CAPTURE(parts);
  const std::vector<float> a = fxx::test::random_floats(N + 1, 1), b = fxx::test::random_floats(N + 1, 2);
  std::vector<float> out(N + 1, untouched);
  std::vector<int> written(N + 1, 0);
  for (int index = 0; index < parts; ++index)
    pointwise<N>(Part{index, parts}, [&](int i, auto width) FXX_KERNEL_LAMBDA {
      for (int e = 0; e < width; ++e) ++written[i + e];
      store_some<width>(out.data() + i,
                        apply<Function::relu>(load_some<width>(a.data() + i) + load_some<width>(b.data() + i)));
    });
  for (int i = 0; i < N; ++i) {
    CHECK(written[i] == 1);
    CHECK(out[i] == std::max(a[i] + b[i], 0.f));
  }
  CHECK(out[N] == untouched);
}

template <BorderShape Shape>
void check_border(int parts) {
  CAPTURE(parts);
  const std::size_t size = static_cast<std::size_t>(Shape.images) * Shape.rows * Shape.pixels * Shape.channels;
  using Element = std::conditional_t<Shape.zero == 0, float, std::uint8_t>;
  constexpr Element before = 77;
  std::vector<Element> image(size + 1, before);
  for (int index = 0; index < parts; ++index) clear_border<Shape>(Part{index, parts}, image.data());
  bool right = image[size] == before;
  for (int n = 0; n < Shape.images; ++n)
    for (int y = 0; y < Shape.rows; ++y)
      for (int x = 0; x < Shape.pixels; ++x)
        for (int c = 0; c < Shape.channels; ++c) {
          const bool inside =
              y >= Shape.top && y < Shape.rows - Shape.bottom && x >= Shape.left && x < Shape.pixels - Shape.right;
          right = right &&
                  image[((n * Shape.rows + y) * Shape.pixels + x) * Shape.channels + c] ==
                      (inside ? before : static_cast<Element>(Shape.zero));
        }
  CHECK(right);
}

}  // namespace

TEST_CASE("a loop over elements does each once, in however many parts") {
  for (int parts : {1, 2, 3, 7}) {
    check_pointwise<1>(parts);
    check_pointwise<15>(parts);
    check_pointwise<16>(parts);
    check_pointwise<64>(parts);
    check_pointwise<1003>(parts);
  }
  pointwise<0>(Part{}, [&](int, auto) { FAIL("there are no elements"); });
}

TEST_CASE("elements are read from anywhere and written there, and none besides") {
  const std::vector<float> in = fxx::test::random_floats(1000, 3);
  const auto at = [](int i) { return (i * 37 + 5) % 211; };
  const real v = gathered<lanes>(in.data(), at);
  const real some = gathered<3>(in.data(), at);
  std::vector<float> out(211, untouched);
  scattered<lanes>(out.data(), at, v);
  int changed = 0;
  for (int i = 0; i < 211; ++i) changed += out[i] != untouched;
  CHECK(changed == lanes);
  for (int i = 0; i < lanes; ++i) {
    CHECK(v[i] == in[at(i)]);
    CHECK(some[i] == (i < 3 ? in[at(i)] : 0.f));
    CHECK(out[at(i)] == v[i]);
  }
  out.assign(211, untouched);
  scattered<2>(out.data(), at, v);
  CHECK(out[at(0)] == v[0]);
  CHECK(out[at(1)] == v[1]);
  CHECK(out[at(2)] == untouched);
}

TEST_CASE("numbers of other types are read as floats, with strides and from anywhere") {
  std::vector<std::int64_t> whole(64);
  std::vector<double> doubles(64);
  for (int i = 0; i < 64; ++i) {
    whole[i] = (std::int64_t{1} << 33) + i * 1024 - 7;
    doubles[i] = i / 3.;
  }
  const real a = load_strided(whole.data(), 3, Width<lanes>());
  const real b = load_strided(doubles.data() + 63, -2, Width<lanes - 1>());
  const real c = gathered<lanes>(whole.data(), [](int i) { return 63 - i; });
  for (int i = 0; i < lanes; ++i) {
    CHECK(a[i] == static_cast<float>(whole[3 * i]));
    CHECK(b[i] == (i < lanes - 1 ? static_cast<float>(doubles[63 - 2 * i]) : 0.f));
    CHECK(c[i] == static_cast<float>(whole[63 - i]));
  }
}

TEST_CASE("masks: one byte for all, bytes anywhere, and written as 0 and 1") {
  std::vector<unsigned char> in(200, 0);
  for (int i = 0; i < 200; i += 3) in[i] = static_cast<unsigned char>(i % 2 ? 255 : 1);
  const auto at = [](int i) { return i * 5; };
  const integer one = splat_mask(in.data() + 3), none = splat_mask(in.data() + 4);
  const integer v = mask_gathered<lanes>(in.data(), at), some = mask_gathered<2>(in.data(), at);
  std::vector<unsigned char> out(200, 7);
  mask_scattered<lanes>(out.data(), at, v);
  for (int i = 0; i < lanes; ++i) {
    CHECK(one[i] == -1);
    CHECK(none[i] == 0);
    CHECK(v[i] == (in[at(i)] ? -1 : 0));
    CHECK(some[i] == (i < 2 && in[at(i)] ? -1 : 0));
    CHECK(out[at(i)] == (in[at(i)] ? 1 : 0));
    CHECK(out[at(i) + 1] == 7);
  }
}

TEST_CASE("elements of any type are copied as they are") {
  std::vector<std::int64_t> in(64), out(64, -1);
  for (int i = 0; i < 64; ++i) in[i] = (std::int64_t{1} << 60) + i;
  copy_strided<5>(in.data() + 1, 7, out.data(), 3);
  for (int i = 0; i < 64; ++i) CHECK(out[i] == (i % 3 == 0 && i < 15 ? in[1 + 7 * (i / 3)] : -1));
  copy_strided<4>(in.data() + 9, 0, out.data(), 1);
  for (int i = 0; i < 4; ++i) CHECK(out[i] == in[9]);
}

TEST_CASE("a row that a table has not is noted") {
  int fault = 0;
  CHECK(row_of<5>(0, fault) == 0);
  CHECK(row_of<5>(4, fault) == 4);
  CHECK(fault == 0);
  CHECK(row_of<5>(5, fault) == 0);
  CHECK(fault == 1);
  fault = 0;
  CHECK(row_of<5>(-1, fault) == 0);
  CHECK(fault == 1);
  fault = 0;
  CHECK(row_of<5>((std::int64_t{1} << 32) + 1, fault) == 0);
  CHECK(fault == 1);
}

TEST_CASE("around an image there are zeros, within it nothing changes") {
  for (int parts : {1, 2, 5}) {
    check_border<BorderShape{2, 7, 9, 3, 1, 1, 1, 1}>(parts);
    check_border<BorderShape{1, 6, 5, 17, 0, 2, 3, 0}>(parts);
    check_border<BorderShape{3, 4, 4, 1, 2, 0, 0, 1}>(parts);
    check_border<BorderShape{1, 3, 2, 5, 0, 0, 0, 0}>(parts);
    check_border<BorderShape{1, 3, 2, 5, 3, 0, 0, 0}>(parts);
    check_border<BorderShape{2, 7, 9, 3, 1, 1, 1, 1, 131}>(parts);  // of bytes
  }
}

TEST_CASE("weights are found by their strides, whichever way they lie") {
  const std::vector<float> w = fxx::test::random_floats(2 * 3 * 5 * 7, 4);
  const MatrixWeights matrix{w.data(), 7, 1}, turned{w.data(), 1, 7};
  CHECK(matrix(2, 3) == w[2 * 7 + 3]);
  CHECK(turned(3, 2) == matrix(2, 3));
  const ImageWeights image{w.data(), 105, 35, 7, 1};
  CHECK(image(1, 4, 6, 2) == w[105 + 2 * 35 + 4 * 7 + 6]);
  CHECK(image(1, 4, 6) == w[105 + 4 * 7 + 6]);
  CHECK(whole(0) == 0);
  CHECK(whole(1) == 16);
  CHECK(whole(16) == 16);
  CHECK(whole(17) == 32);
  CHECK(most_of(3, 5) == 5);
}

TEST_CASE("weights and biases of gates lie in the order of the recurrent kernels, zeros in the last vector") {
  for (int gates : {3, 4})
    for (int size : {1, lanes, lanes + 3, 3 * lanes - 1}) {
      CAPTURE(gates);
      CAPTURE(size);
      constexpr int depth = 5;
      const std::vector<float> w = fxx::test::random_floats(static_cast<std::size_t>(gates * size * depth), 5);
      const GateWeights weights{w.data(), size, gates, depth, 1};
      const StateWeights state{w.data(), size, depth, 1};
      const int padded = vectors_of(size) * lanes;
      const std::vector<float> input = fxx::test::random_floats(static_cast<std::size_t>(gates * size), 6),
                               own = fxx::test::random_floats(static_cast<std::size_t>(gates * size), 7);
      const auto packed = [&](const float* of_input, const float* of_state, int until) {
        std::vector<float> result(static_cast<std::size_t>(padded * gates) + 1, untouched);
        pack_gates(result.data(), of_input, of_state, size, gates, until);
        CHECK(result.back() == untouched);
        return result;
      };
      const std::vector<float> both = packed(input.data(), own.data(), gates),
                               less = packed(input.data(), own.data(), 2), none = packed(nullptr, nullptr, gates);
      bool right = true;
      for (int gate = 0; gate < gates; ++gate)
        for (int unit = 0; unit < padded; ++unit) {
          const int at = gate_column(gate, unit, gates), from = gate * size + unit;
          for (int k = 0; k < depth; ++k) {
            right = right && weights(at, k) == (unit < size ? w[from * depth + k] : 0.f);
            if (unit < size) right = right && state(gate, unit, k) == w[from * depth + k];
          }
          right = right && both[at] == (unit < size ? input[from] + own[from] : 0.f);
          right = right && less[at] == (unit < size ? input[from] + (gate < 2 ? own[from] : 0.f) : 0.f);
          right = right && none[at] == 0;
        }
      CHECK(right);
    }
}
