// Layers of LSTM and GRU cells of sizes that are known, one sequence, step by step.
//
// What the inputs add to the gates is one matrix product for all steps, which comes before (kernels/gemm.hpp); here only
// the state is multiplied. Gates of the same units stand beside each other, a vector of each in turn (`gate_column`), so
// that all gates of some units are one tile and the new state is computed before anything is written.
//
//   constexpr RecurrentShape layer = {.steps = 64, .size = 128};
//   lstm<layer>(part, barrier, gates, packed, h, c, [&](int step, int column, real value, auto width) { ... });
//
// A part (kernels/parallel.hpp) is some of the units; parts wait for each other at the barrier twice a step, so all must
// run at once, and behind the last step. Part{} never waits.
// States `h` and `c` have room for whole vectors; they are those before the first step and become those after the last.
// Error of a step: that of a sum over `size`, of sigmoid and tanh.
// Main names: RecurrentShape, lstm, gru, gate_column, pack_recurrent. Cost: light; a layer takes the compiler 0.1 s.
#pragma once

#include "fxx/kernels/gemm.hpp"

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
/// For each step calls `units(step, column, products of the state, width)` for some units, whose gates are `Gates`
/// vectors and whose next state it gives.
template <RecurrentShape Shape, int Gates, class Units>
FXX_KERNEL void steps(Part part, Barrier& barrier, float* h, const float* __restrict packed, const Units& units) {
  const Range mine = part.of(Shape.size, lanes);
  alignas(64) float next[Shape.padded()];
  for (int i = 0; i < Shape.steps; ++i) {
    const int step = Shape.backward ? Shape.steps - 1 - i : i;
    const auto vector = [&](int column, auto width) __attribute__((always_inline)) {
      Tile<1, Gates> products;
      products.template add<Shape.size>(h, packed + static_cast<std::ptrdiff_t>(column) * Gates * Shape.size, Shape.size);
      store(next + column, units(step, column, products.sums[0], width));
    };
    // To and fro, so that each step begins with weights which the one before read last.
    const int whole = (mine.end - mine.begin) / lanes * lanes;
    for (int k = 0; k < whole; k += lanes)
      vector(mine.begin + (i % 2 == 0 ? k : whole - lanes - k), Width<lanes>{});
    if constexpr (constexpr int last = Shape.size % lanes; last != 0)
      if (mine.begin + whole < mine.end) vector(mine.begin + whole, Width<last>{});
    if (part.count != 1) barrier.wait();  // until nobody needs the state before
    for (int k = mine.begin; k < mine.end; k += lanes) store(h + k, load(next + k));
    if (part.count != 1) barrier.wait();
  }
}
}  // namespace detail_of_recurrent

/// Gates in LibTorch's order: input, forget, cell, output. `gates` are those of all steps without the state's part, 4 *
/// padded size a step, with both biases.
template <RecurrentShape Shape, class Put>
FXX_KERNEL void lstm(Part part, Barrier& barrier, const float* __restrict gates, const float* __restrict packed,
                     float* h, float* __restrict c, const Put& put) {
  const auto units = [&](int step, int column, const real* products, auto width) __attribute__((always_inline)) {
    const float* given = gates + (static_cast<std::ptrdiff_t>(step) * Shape.padded() + column) * 4;
    const auto gate = [&](int number) __attribute__((always_inline)) {
      return products[number] + load(given + number * lanes);
    };
    const real cell = multiply_add(sigmoid(gate(1)), load(c + column), sigmoid(gate(0)) * hyperbolic_tangent(gate(2)));
    const real state = sigmoid(gate(3)) * hyperbolic_tangent(cell);
    store(c + column, cell);
    put(step, column, state, width);
    return state;
  };
  detail_of_recurrent::steps<Shape, 4>(part, barrier, h, packed, units);
}

/// Gates in LibTorch's order: reset, update, new. `gates` are those of all steps without the state's part, 3 * padded
/// size a step, with both biases of reset and update and the input's of new; `new_bias` is the state's.
template <RecurrentShape Shape, class Put>
FXX_KERNEL void gru(Part part, Barrier& barrier, const float* __restrict gates, const float* __restrict packed,
                    const float* __restrict new_bias, float* h, const Put& put) {
  const auto units = [&](int step, int column, const real* products, auto width) __attribute__((always_inline)) {
    const float* given = gates + (static_cast<std::ptrdiff_t>(step) * Shape.padded() + column) * 3;
    const auto from_input = [&](int number) __attribute__((always_inline)) { return load(given + number * lanes); };
    const real reset = sigmoid(products[0] + from_input(0)), update = sigmoid(products[1] + from_input(1));
    const real own = products[2] + load_some<width>(new_bias + column);
    const real fresh = hyperbolic_tangent(multiply_add(reset, own, from_input(2)));
    const real state = multiply_add(update, load(h + column) - fresh, fresh);
    put(step, column, state, width);
    return state;
  };
  detail_of_recurrent::steps<Shape, 3>(part, barrier, h, packed, units);
}

}  // namespace fxx::kernels::inline FXX_KERNEL_ISA

#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif
