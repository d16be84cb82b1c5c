// LSTM and GRU layers beside double precision.
#include "fxx/kernels/recurrent.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/native.hpp"

using namespace fxx::kernels;

namespace {

constexpr float untouched = -12345.f;
double exact_sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// Random gates, weights and states of a layer, as LibTorch has them and as the kernel wants them.
template <RecurrentShape Shape, int Gates>
struct Layer {
  static constexpr int size = Shape.size, padded = vectors_of(Shape.size) * lanes;
  std::vector<float> gates = fxx::test::random_floats(static_cast<std::size_t>(Shape.steps * Gates * size), 1);
  std::vector<float> weights = fxx::test::random_floats(static_cast<std::size_t>(Gates * size * size), 2);
  std::vector<float> h = fxx::test::random_floats(size, 3), c = fxx::test::random_floats(size, 4);
  std::vector<float> new_bias = fxx::test::random_floats(size, 5);
  std::vector<float> packed, packed_gates, packed_h, packed_c, out;

  Layer() {
    for (float& w : weights) w /= std::sqrt(float(size));
    packed.assign(static_cast<std::size_t>(Gates * padded * size), untouched);
    pack_recurrent(packed.data(), size, Gates,
                   [&](int gate, int unit, int k) { return weights[(gate * size + unit) * size + k]; });
    packed_gates.assign(static_cast<std::size_t>(Shape.steps * Gates * padded), 0.f);
    for (int t = 0; t < Shape.steps; ++t)
      for (int gate = 0; gate < Gates; ++gate)
        for (int unit = 0; unit < size; ++unit)
          packed_gates[t * Gates * padded + gate_column(gate, unit, Gates)] = gates[(t * Gates + gate) * size + unit];
    packed_h.assign(padded, 0.f);
    packed_c.assign(padded, 0.f);
    std::copy(h.begin(), h.end(), packed_h.begin());
    std::copy(c.begin(), c.end(), packed_c.begin());
    out.assign(Shape.steps * (size + 1), untouched);
  }
  auto put() {
    return [this](int step, int column, real value, auto width) __attribute__((always_inline)) {
      store_some<width>(out.data() + step * (size + 1) + column, value);
    };
  }
  /// What gate of a unit the state adds.
  double product(const std::vector<double>& state, int gate, int unit) const {
    double sum = 0;
    for (int k = 0; k < size; ++k) sum += state[k] * double(weights[(gate * size + unit) * size + k]);
    return sum;
  }
  double given(int step, int gate, int unit) const { return gates[(step * Gates + gate) * size + unit]; }
  void compare(const std::vector<std::vector<double>>& states) const {
    double worst = 0;
    for (int t = 0; t < Shape.steps; ++t) {
      for (int unit = 0; unit < size; ++unit)
        worst = std::max(worst, std::abs(out[t * (size + 1) + unit] - states[t][unit]));
      CHECK(out[t * (size + 1) + size] == untouched);
    }
    const std::vector<double>& last = states[Shape.backward ? 0 : Shape.steps - 1];
    for (int unit = 0; unit < size; ++unit) worst = std::max(worst, std::abs(packed_h[unit] - last[unit]));
    CHECK(worst < 2e-6);  // states are less than one
  }
};

template <RecurrentShape Shape>
void check_lstm() {
  INFO("size ", Shape.size, ", steps ", Shape.steps, Shape.backward ? ", backward" : "");
  const auto run = [](int threads) {
    Layer<Shape, 4> layer;
    Team team(threads);
    team.run([&](Part part) {
      lstm<Shape>(part, team.barrier, layer.packed_gates.data(), layer.packed.data(), layer.packed_h.data(),
                  layer.packed_c.data(), layer.put());
    });
    return layer;
  };
  const Layer<Shape, 4> layer = run(1);
  for (const int threads : {2, 3}) {
    const Layer<Shape, 4> parts = run(threads);
    CHECK(parts.out == layer.out);
    CHECK(parts.packed_c == layer.packed_c);
  }
  std::vector<double> h(layer.h.begin(), layer.h.end()), c(layer.c.begin(), layer.c.end());
  std::vector<std::vector<double>> states(Shape.steps);
  for (int i = 0; i < Shape.steps; ++i) {
    const int t = Shape.backward ? Shape.steps - 1 - i : i;
    std::vector<double> next(Shape.size);
    for (int unit = 0; unit < Shape.size; ++unit) {
      const auto gate = [&](int number) { return layer.given(t, number, unit) + layer.product(h, number, unit); };
      c[unit] = exact_sigmoid(gate(1)) * c[unit] + exact_sigmoid(gate(0)) * std::tanh(gate(2));
      next[unit] = exact_sigmoid(gate(3)) * std::tanh(c[unit]);
    }
    states[t] = h = next;
  }
  layer.compare(states);
  for (int unit = 0; unit < Shape.size; ++unit) CHECK(std::abs(layer.packed_c[unit] - c[unit]) < 4e-6);
}
template <RecurrentShape Shape>
void check_gru() {
  INFO("size ", Shape.size, ", steps ", Shape.steps, Shape.backward ? ", backward" : "");
  const auto run = [](int threads) {
    Layer<Shape, 3> layer;
    Team team(threads);
    team.run([&](Part part) {
      gru<Shape>(part, team.barrier, layer.packed_gates.data(), layer.packed.data(), layer.new_bias.data(),
                 layer.packed_h.data(), layer.put());
    });
    return layer;
  };
  const Layer<Shape, 3> layer = run(1);
  for (const int threads : {2, 3}) CHECK(run(threads).out == layer.out);
  std::vector<double> h(layer.h.begin(), layer.h.end());
  std::vector<std::vector<double>> states(Shape.steps);
  for (int i = 0; i < Shape.steps; ++i) {
    const int t = Shape.backward ? Shape.steps - 1 - i : i;
    std::vector<double> next(Shape.size);
    for (int unit = 0; unit < Shape.size; ++unit) {
      const double reset = exact_sigmoid(layer.given(t, 0, unit) + layer.product(h, 0, unit));
      const double update = exact_sigmoid(layer.given(t, 1, unit) + layer.product(h, 1, unit));
      const double fresh =
          std::tanh(layer.given(t, 2, unit) + reset * (layer.product(h, 2, unit) + layer.new_bias[unit]));
      next[unit] = (1 - update) * fresh + update * h[unit];
    }
    states[t] = h = next;
  }
  layer.compare(states);
}

}  // namespace

TEST_CASE("LSTM layers are those of double precision, forward and backward") {
  check_lstm<RecurrentShape{}>();
  check_lstm<RecurrentShape{.steps = 3, .size = 5}>();
  check_lstm<RecurrentShape{.steps = 7, .size = 33}>();
  check_lstm<RecurrentShape{.steps = 20, .size = 64}>();
  check_lstm<RecurrentShape{.steps = 6, .size = 17, .backward = true}>();
}

TEST_CASE("GRU layers are those of double precision, forward and backward") {
  check_gru<RecurrentShape{}>();
  check_gru<RecurrentShape{.steps = 3, .size = 5}>();
  check_gru<RecurrentShape{.steps = 7, .size = 33}>();
  check_gru<RecurrentShape{.steps = 20, .size = 64}>();
  check_gru<RecurrentShape{.steps = 6, .size = 17, .backward = true}>();
}

TEST_CASE("gates of the same units stand beside each other") {
  CHECK(gate_column(0, 0, 4) == 0);
  CHECK(gate_column(1, 0, 4) == lanes);
  CHECK(gate_column(3, lanes - 1, 4) == 4 * lanes - 1);
  CHECK(gate_column(0, lanes, 4) == 4 * lanes);
  CHECK(gate_column(2, lanes + 1, 3) == 5 * lanes + 1);
}
