// LSTM and GRU layers beside double precision.
#include "fxx/kernels/recurrent.hpp"

#include <algorithm>
#include <cmath>

#include "fxx/kernels/weights.hpp"
#include "kernels/native.hpp"

using namespace fxx::kernels;

namespace {

using Numbers = std::vector<float>;
constexpr float untouched = -12345.f;
double exact_sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
std::size_t count(int n) { return static_cast<std::size_t>(n); }

/// What a layer is given, as LibTorch has it.
template <RecurrentShape Shape, int Gates>
struct Given {
  static constexpr int size = Shape.size, directions = Shape.directions(), states = Shape.batch * Shape.state_stride;
  Numbers in = fxx::test::random_floats(count(Shape.steps * Shape.batch * Shape.in_stride), 1);
  struct Direction {
    Numbers input, state, input_bias, state_bias, h, c;
  } own[directions];
  bool zeros;

  explicit Given(bool from_zeros) : zeros(from_zeros) {
    unsigned seed = 2;
    for (Direction& d : own) {
      const auto draw = [&](int n) { return fxx::test::random_floats(count(n), seed++); };
      d = {draw(Gates * size * Shape.in_size),
           draw(Gates * size * size),
           draw(Gates * size),
           draw(Gates * size),
           draw(states),
           draw(states)};
      for (float& w : d.input) w /= std::sqrt(float(Shape.in_size));
      for (float& w : d.state) w /= std::sqrt(float(size));
    }
  }
};

/// What it makes of that, over all steps and sequences.
template <RecurrentShape Shape>
struct Made {
  static constexpr int row = Shape.directions() * Shape.size + 1;  // and one that nobody writes
  Numbers out = Numbers(count(Shape.steps * Shape.batch * row), untouched);
  Numbers h[2], c[2];
  bool operator==(const Made&) const = default;
};

template <RecurrentShape Shape, int Gates>
Made<Shape> run(const Given<Shape, Gates>& given, int threads) {
  constexpr int size = Shape.size, padded = vectors_of(size) * lanes, all = Gates * padded;
  Made<Shape> made;
  Numbers packed[2][4];
  RecurrentDirection own[2];
  for (int d = 0; d < Shape.directions(); ++d) {
    const auto& from = given.own[d];
    auto& [input, bias, state, new_bias] = packed[d];
    input.assign(packed_size(all, Shape.in_size), untouched);
    pack_weights(input.data(), all, Shape.in_size, gemm_tile(Shape.together() * Shape.batch, all, Shape.in_stride),
                 GateWeights{from.input.data(), size, Gates, Shape.in_size, 1});
    bias.assign(count(all), untouched);
    pack_gates(bias.data(), from.input_bias.data(), from.state_bias.data(), size, Gates, Gates == 4 ? 4 : 2);
    state.assign(count(all * size), untouched);
    pack_recurrent(state.data(), size, Gates, StateWeights{from.state.data(), size, size, 1});
    new_bias.assign(count(padded), 0.f);
    if (Gates == 3) std::copy(from.state_bias.begin() + 2 * size, from.state_bias.end(), new_bias.begin());
    made.h[d].assign(count(Shape.batch * size), untouched);
    made.c[d].assign(count(Shape.batch * size), untouched);
    own[d] = {input.data(),
              bias.data(),
              state.data(),
              Gates == 3 ? new_bias.data() : nullptr,
              given.zeros ? nullptr : from.h.data(),
              given.zeros ? nullptr : from.c.data(),
              made.h[d].data(),
              Gates == 4 ? made.c[d].data() : nullptr};
  }
  Numbers workspace(Shape.workspace(Gates) + lanes, untouched);
  Team team(threads);
  team.run([&](Part part) {
    const auto put = [&](int direction, int step, int row, int column, real value, auto width)
        __attribute__((always_inline)) {
      store_some<width>(made.out.data() + (step * Shape.batch + row) * made.row + direction * size + column, value);
    };
    if constexpr (Gates == 4) lstm<Shape>(part, team.barrier, given.in.data(), own, workspace.data(), put);
    else gru<Shape>(part, team.barrier, given.in.data(), own, workspace.data(), put);
  });
  for (std::size_t i = Shape.workspace(Gates); i < workspace.size(); ++i) REQUIRE(workspace[i] == untouched);
  return made;
}

/// One cell's step in double precision: `gate(number)` is what input and state add to it, `new_state` what the state does.
template <int Gates, class Gate>
double next_state(const Gate& gate, double from_input, double from_state, double h, double& c) {
  if constexpr (Gates == 4) {
    c = exact_sigmoid(gate(1)) * c + exact_sigmoid(gate(0)) * std::tanh(gate(2));
    return exact_sigmoid(gate(3)) * std::tanh(c);
  } else {
    const double update = exact_sigmoid(gate(1));
    return (1 - update) * std::tanh(from_input + exact_sigmoid(gate(0)) * from_state) + update * h;
  }
}

template <int Gates, RecurrentShape Shape>
void check(bool from_zeros = false) {
  INFO((Gates == 4 ? "LSTM of " : "GRU of "), Shape.size, ", inputs of ", Shape.in_size, ", steps ", Shape.steps,
       ", batch ", Shape.batch, ", directions ", Shape.directions());
  constexpr int size = Shape.size;
  const Given<Shape, Gates> given(from_zeros);
  const Made<Shape> made = run(given, 1);
  for (const int threads : {2, 3, 5}) CHECK(run(given, threads) == made);
  double worst = 0;
  const auto see = [&](double got, double exact) {
    const double error = std::abs(got - exact);
    worst = error <= worst ? worst : error;  // also nan
  };
  for (int d = 0; d < Shape.directions(); ++d) {
    const auto& own = given.own[d];
    const bool backward = d == 1 || !Shape.forward;
    for (int row = 0; row < Shape.batch; ++row) {
      std::vector<double> h(size, 0.), c(size, 0.);
      for (int k = 0; k < size && !from_zeros; ++k) {
        h[k] = own.h[row * Shape.state_stride + k];
        c[k] = own.c[row * Shape.state_stride + k];
      }
      for (int i = 0; i < Shape.steps; ++i) {
        const int step = backward ? Shape.steps - 1 - i : i;
        const float* const x = given.in.data() + (step * Shape.batch + row) * Shape.in_stride;
        std::vector<double> next(size);
        for (int unit = 0; unit < size; ++unit) {
          const auto from_input = [&](int gate) {
            double sum = own.input_bias[gate * size + unit];
            for (int k = 0; k < Shape.in_size; ++k)
              sum += double(x[k]) * double(own.input[(gate * size + unit) * Shape.in_size + k]);
            return sum;
          };
          const auto from_state = [&](int gate) {
            double sum = own.state_bias[gate * size + unit];
            for (int k = 0; k < size; ++k) sum += h[k] * double(own.state[(gate * size + unit) * size + k]);
            return sum;
          };
          const auto gate = [&](int number) { return from_input(number) + from_state(number); };
          next[unit] = next_state<Gates>(gate, from_input(2), from_state(2), h[unit], c[unit]);
        }
        h = next;
        const float* const out = made.out.data() + (step * Shape.batch + row) * made.row;
        for (int unit = 0; unit < size; ++unit) see(out[d * size + unit], h[unit]);
        CHECK(out[made.row - 1] == untouched);
      }
      for (int unit = 0; unit < size; ++unit) {
        see(made.h[d][row * size + unit], h[unit]);
        if (Gates == 4) see(made.c[d][row * size + unit] / 2., c[unit] / 2.);  // of which states are less than one
      }
    }
  }
  // Of numbers that are normally distributed, weights of about 1 / sqrt(size). States are less than one.
  CHECK(fxx::test::within(Gates == 4 ? "lstm" : "gru", worst, Gates == 4 ? 5e-7 : 8e-7));
}

template <int Gates>
void check_all() {
  check<Gates, RecurrentShape{}>();
  check<Gates, RecurrentShape{.steps = 3, .in_size = 2, .in_stride = 3, .size = 5, .state_stride = 5}>();
  check<Gates, RecurrentShape{.steps = 7, .in_size = 20, .in_stride = 20, .size = 33}>(true);
  check<Gates,
        RecurrentShape{.steps = 20, .batch = 2, .in_size = 31, .in_stride = 40, .size = 64, .state_stride = 70}>();
  check<Gates, RecurrentShape{.steps = 6,
                              .in_size = 4,
                              .in_stride = 4,
                              .size = 17,
                              .state_stride = 17,
                              .forward = false,
                              .backward = true}>();
  // More than are computed at once, of steps and of sequences.
  check<Gates,
        RecurrentShape{
            .steps = 70, .batch = 3, .in_size = 5, .in_stride = 5, .size = 18, .state_stride = 18, .backward = true}>();
  check<Gates,
        RecurrentShape{
            .steps = 3, .batch = 17, .in_size = 9, .in_stride = 9, .size = 24, .state_stride = 24, .backward = true}>();
  check<Gates, RecurrentShape{.steps = 2, .batch = 65, .in_size = 3, .in_stride = 3, .size = 1, .state_stride = 2}>();
}

}  // namespace

TEST_CASE("LSTM layers are those of double precision, in both directions and of many sequences") { check_all<4>(); }

TEST_CASE("GRU layers are those of double precision, in both directions and of many sequences") { check_all<3>(); }

TEST_CASE("gates of the same units stand beside each other") {
  CHECK(gate_column(0, 0, 4) == 0);
  CHECK(gate_column(1, 0, 4) == lanes);
  CHECK(gate_column(3, lanes - 1, 4) == 4 * lanes - 1);
  CHECK(gate_column(0, lanes, 4) == 4 * lanes);
  CHECK(gate_column(2, lanes + 1, 3) == 5 * lanes + 1);
}
