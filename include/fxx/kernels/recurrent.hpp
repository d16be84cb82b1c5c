// Layers of LSTM and GRU cells of sizes that are known, one sequence, step by step.
//
// What the inputs add to the gates is one matrix product for all steps, which comes before (kernels/gemm.hpp); here only
// the state is multiplied. Gates of the same units stand beside each other, a vector of each in turn (`gate_column`), so
// that all gates of some units are one tile and the new state is computed before anything is written.
//
//   constexpr RecurrentShape layer = {.steps = 64, .size = 128};
//   lstm<layer>(gates, packed, h, c, [&](int step, int column, real value, auto width) { ... });
//
// States `h` and `c` have room for whole vectors; they are those before the first step and become those after the last.
// Error of a step: that of a sum over `size`, of sigmoid and tanh.
// Main names: RecurrentShape, lstm, gru, gate_column, pack_recurrent. Cost: light; a layer takes the compiler 0.1 s.
#pragma once

#include "fxx/kernels/rows.hpp"

#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

namespace fxx::kernels::inline FXX_KERNEL_ISA {

struct RecurrentShape {
  int steps = 1, size = 1;
  bool backward = false;  // from the last step to the first

  // Found by the compiler, never while the program runs.
  consteval int padded() const { return vectors_of(size) * lanes; }
};

/// Where the gate of a unit stands among all `gates` of a step.
constexpr int gate_column(int gate, int unit, int gates) {
  return unit / lanes * lanes * gates + gate * lanes + unit % lanes;
}
/// Weights of the state: `gates` * padded size * size floats. `weights(gate, unit, k)` gives an element.
template <class Weights>
void pack_recurrent(float* packed, int size, int gates, const Weights& weights) {
  for (int first = 0; first < size; first += lanes)
    for (int k = 0; k < size; ++k)
      for (int gate = 0; gate < gates; ++gate)
        for (int unit = first; unit < first + lanes; ++unit)
          *packed++ = unit < size ? weights(gate, unit, k) : 0.f;
}

namespace detail_of_recurrent {
/// Calls `units(column, products of the state, width)` for the units of a step, whose gates are `Gates` vectors.
template <RecurrentShape Shape, int Gates, class Units>
FXX_KERNEL void step(const float* __restrict state, const float* __restrict packed, const Units& units) {
  detail_of_rows::for_each_vector<Shape.size>([&](int column, auto width) __attribute__((always_inline)) {
    Tile<1, Gates> products;
    products.template add<Shape.size>(state, packed + static_cast<std::ptrdiff_t>(column) * Gates * Shape.size,
                                      Shape.size);
    units(column, products.sums[0], width);
  });
}
}  // namespace detail_of_recurrent

/// Gates in LibTorch's order: input, forget, cell, output. `gates` are those of all steps without the state's part, 4 *
/// padded size a step, with both biases.
template <RecurrentShape Shape, class Put>
FXX_KERNEL void lstm(const float* __restrict gates, const float* __restrict packed, float* __restrict h,
                     float* __restrict c, const Put& put) {
  alignas(64) float next[Shape.padded()];
  for (int i = 0; i < Shape.steps; ++i) {
    const int step = Shape.backward ? Shape.steps - 1 - i : i;
    const float* given = gates + static_cast<std::ptrdiff_t>(step) * 4 * Shape.padded();
    detail_of_recurrent::step<Shape, 4>(h, packed, [&](int column, const real* products, auto width)
                                                       __attribute__((always_inline)) {
      const auto gate = [&](int number) __attribute__((always_inline)) {
        return products[number] + load(given + 4 * column + number * lanes);
      };
      const real cell = multiply_add(sigmoid(gate(1)), load(c + column), sigmoid(gate(0)) * hyperbolic_tangent(gate(2)));
      const real state = sigmoid(gate(3)) * hyperbolic_tangent(cell);
      store(c + column, cell);
      store(next + column, state);
      put(step, column, state, width);
    });
    for (int k = 0; k < Shape.padded(); k += lanes) store(h + k, load(next + k));
  }
}

/// Gates in LibTorch's order: reset, update, new. `gates` are those of all steps without the state's part, 3 * padded
/// size a step, with both biases of reset and update and the input's of new; `new_bias` is the state's.
template <RecurrentShape Shape, class Put>
FXX_KERNEL void gru(const float* __restrict gates, const float* __restrict packed, const float* __restrict new_bias,
                    float* __restrict h, const Put& put) {
  alignas(64) float next[Shape.padded()];
  for (int i = 0; i < Shape.steps; ++i) {
    const int step = Shape.backward ? Shape.steps - 1 - i : i;
    const float* given = gates + static_cast<std::ptrdiff_t>(step) * 3 * Shape.padded();
    detail_of_recurrent::step<Shape, 3>(h, packed, [&](int column, const real* products, auto width)
                                                       __attribute__((always_inline)) {
      const auto from_input = [&](int number) __attribute__((always_inline)) {
        return load(given + 3 * column + number * lanes);
      };
      const real reset = sigmoid(products[0] + from_input(0)), update = sigmoid(products[1] + from_input(1));
      const real own = products[2] + load_some<width>(new_bias + column);
      const real fresh = hyperbolic_tangent(multiply_add(reset, own, from_input(2)));
      const real state = multiply_add(update, load(h + column) - fresh, fresh);
      store(next + column, state);
      put(step, column, state, width);
    });
    for (int k = 0; k < Shape.padded(); k += lanes) store(h + k, load(next + k));
  }
}

}  // namespace fxx::kernels::inline FXX_KERNEL_ISA

#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif
