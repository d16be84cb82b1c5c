// Layers of LSTM and GRU cells of sizes that are known: all steps of some sequences, in one direction or both.
//
// What the inputs add to the gates is a matrix product for some steps at once (kernels/gemm.hpp); then the state is
// multiplied step by step, that of all sequences with each part of its weights. Gates of the same units stand beside each
// other, a vector of each in turn (`gate_column`), so that all gates of some units are one tile and the new state is
// computed before anything is written.
//
//   constexpr RecurrentShape layer = {.steps = 64, .batch = 4, .in_size = 100, .in_stride = 100, .size = 128,
//                                     .backward = true};
//   const RecurrentDirection directions[] = {{w, b, w_state}, {w_back, b_back, w_state_back}};
//   lstm<layer>(part, barrier, in, directions, workspace,
//               [&](int direction, int step, int row, int column, real value, auto width) { ... });
//
// A part (kernels/parallel.hpp) is a direction, or some of its units. Where parts share a direction they wait for each
// other once a step, so all must run at once; all must call, and wait for each other behind it. Part{} never waits.
// Error of a step: that of a sum over `in_size` and `size`, of sigmoid and tanh; what a state is off goes on into the next
// step, where gates forget it. Of normally distributed inputs, states and biases, and weights of 1 / sqrt(size) times
// such, states of an LSTM, cells divided by two, are within 5e-7, those of a GRU within 8e-7, after up to 70 steps.
// Main names: RecurrentShape, RecurrentDirection, lstm, gru, gate_column, pack_recurrent. Cost: light; a layer takes the
// compiler 0.3 s.
#pragma once

#include "fxx/kernels/gemm.hpp"

#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

namespace fxx::kernels::inline FXX_KERNEL_ISA {

/// Sizes of a layer: inputs are [step][sequence][in_size], states [sequence][size].
struct RecurrentShape {
  int steps = 1, batch = 1;
  int in_size = 1,
      in_stride = 1;  // floats of an input; from one sequence's to the next one's, and then the next step's
  int size = 1, state_stride = 1;         // floats of a state before and after; from one sequence's to the next one's
  bool forward = true, backward = false;  // from the first step to the last, from the last to the first

  // Found by the compiler, never while the program runs.
  consteval int directions() const { return forward && backward ? 2 : 1; }
  consteval int padded() const { return vectors_of(size) * lanes; }
  /// Steps whose inputs are multiplied at once: the gates stay in the second cache.
  consteval int together() const {
    const int most = batch < 64 ? 64 / batch : 1, times = (steps + most - 1) / most;
    return (steps + times - 1) / times;
  }
  /// Sequences whose state is multiplied at once.
  consteval int rows(int gates) const {
    int rows = 1;
    while (rows < batch && (rows + 1) * gates + gates + registers_of_elements(rows + 1) <= FXX_KERNEL_REGISTERS) ++rows;
    return rows;
  }
  /// Floats for each direction: gates, the states of two steps, and of an LSTM the cells.
  consteval std::size_t own_workspace(int gates) const {
    return static_cast<std::size_t>(batch) * padded() * (together() * gates + 2 + (gates == 4 ? 1 : 0));
  }
  consteval std::size_t workspace(int gates) const { return directions() * own_workspace(gates); }
};

/// What one direction of a layer has: packed weights, and states, `size` floats a sequence.
struct RecurrentDirection {
  const float* input;          // packed for gemm, columns in the order of gate_column
  const float* bias;           // of all gates, in that order
  const float* state;          // by pack_recurrent
  const float* new_bias = {};  // GRU: of the new gate, what the state adds; null: nothing
  const float* h = {};         // before the first step; null: zeros
  const float* c = {};
  float* h_after = {};  // behind the last step; null: not wanted
  float* c_after = {};
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
        for (int unit = first; unit < first + lanes; ++unit) *packed++ = unit < size ? weights(gate, unit, k) : 0.f;
}

namespace detail_of_recurrent {
/// One direction. `cell(products, given, h, c, new_bias)` makes of a vector of units their next state: of the products
/// of the state with the weights of each gate, the inputs' part, the state and cell before.
template <RecurrentShape Shape, int Gates, class Cell, class Put>
FXX_KERNEL void run(Part part, Barrier& barrier, bool shared, const float* __restrict in, const RecurrentDirection& own,
                    bool backward, float* __restrict workspace, const Cell& cell, const Put& put) {
  constexpr int padded = Shape.padded(), all = Shape.batch * padded, row_size = Gates * padded;
  constexpr int together = Shape.together(), rows = Shape.rows(Gates);
  float* const gates = workspace;
  float* const states = gates + static_cast<std::ptrdiff_t>(together) * Shape.batch * row_size;
  float* const c = states + 2 * all;  // of an LSTM
  const Range mine = part.of(Shape.size, lanes);
  const auto begin = [&](float* to, const float* from) __attribute__((always_inline)) {
    for (int row = 0; row < Shape.batch; ++row)
      for (int i = mine.begin; i < mine.begin + vectors_of(mine.end - mine.begin) * lanes; ++i)
        to[row * padded + i] = from && i < Shape.size ? from[row * Shape.state_stride + i] : 0.f;
  };
  begin(states, own.h);
  if constexpr (Gates == 4) begin(c, own.c);

  float* h = states;
  float* next = states + all;
  for (int done = 0; done < Shape.steps; done += together) {
    // The last ones may be fewer: some are computed once more.
    const int in_time = done + together <= Shape.steps ? done : Shape.steps - together;
    const int first = backward ? Shape.steps - together - in_time : in_time;
    gemm<together * Shape.batch, row_size, Shape.in_size, Shape.in_stride>(
        part, in + static_cast<std::ptrdiff_t>(first) * Shape.batch * Shape.in_stride,
        own.input, [&](int row, int column, real sum, auto width) __attribute__((always_inline)) {
          store_some<width>(gates + static_cast<std::ptrdiff_t>(row) * row_size + column,
                            sum + load_some<width>(own.bias + column));
        });
    if (shared) barrier.wait();
    for (int i = done; i < in_time + together; ++i) {
      const int step = backward ? Shape.steps - 1 - i : i;
      const float* const given = gates + static_cast<std::ptrdiff_t>(step - first) * Shape.batch * row_size;
      const auto some_rows = [&]<int Rows>(Width<Rows>, int row, int column) __attribute__((always_inline)) {
        using Sums = TileOfDepth<Rows, Gates, Shape.size>;
        typename Sums::Totals totals;
        Sums products(totals);
        products.template add<padded>(h + row * padded,
                                          own.state + static_cast<std::ptrdiff_t>(column) * Gates * Shape.size,
                                          Width<Shape.size>{});
        products.complete();
#pragma GCC unroll 8
        for (int r = 0; r < Rows; ++r) {
          const int at = (row + r) * padded + column;
          const real state = cell(products.sums[r], given + static_cast<std::ptrdiff_t>(at) * Gates, h + at, c + at,
                                  own.new_bias ? own.new_bias + column : nullptr);
          store(next + at, state);
          constexpr int last = Shape.size % lanes;
          if (last == 0 || column + lanes <= Shape.size) put(step, row + r, column, state, Width<lanes>{});
          else if constexpr (last != 0) put(step, row + r, column, state, Width<last>{});
        }
      };
      // To and fro, so that each step begins with weights which the one before read last.
      const int vectors = vectors_of(mine.end - mine.begin);
      for (int v = 0; v < vectors; ++v) {
        const int column = mine.begin + (i % 2 == 0 ? v : vectors - 1 - v) * lanes;
        int row = 0;
        for (; row + rows <= Shape.batch; row += rows) some_rows(Width<rows>{}, row, column);
        if constexpr (Shape.batch % rows != 0) some_rows(Width<Shape.batch % rows>{}, row, column);
      }
      if (shared) barrier.wait();
      float* const before = h;
      h = next;
      next = before;
    }
  }
  const auto end = [&](float* to, const float* from) __attribute__((always_inline)) {
    if (!to) return;
    for (int row = 0; row < Shape.batch; ++row)
      for (int i = mine.begin; i < mine.end; ++i)
        to[static_cast<std::ptrdiff_t>(row) * Shape.size + i] = from[row * padded + i];
  };
  end(own.h_after, h);
  if constexpr (Gates == 4) end(own.c_after, c);
}
/// All directions: each has parts of its own where there are enough.
template <RecurrentShape Shape, int Gates, class Cell, class Put>
FXX_KERNEL void layer(Part part, Barrier& barrier, const float* in, const RecurrentDirection* own, float* workspace,
                      const Cell& cell, const Put& put) {
  constexpr int directions = Shape.directions();
  static_assert(Shape.forward || Shape.backward, "fxx::kernels: a recurrent layer has a direction");
  Range mine{0, directions};
  Part of_direction = part;
  if (directions == 2 && part.count > 1) {
    const int half = (part.count + 1) / 2, number = part.index / half;
    mine = {number, number + 1};
    of_direction = {part.index - number * half, number == 0 ? half : part.count - half};
  }
  for (int d = mine.begin; d < mine.end; ++d)
    run<Shape, Gates>(
        of_direction, barrier, part.count > directions, in, own[d], d == 1 || !Shape.forward,
        workspace + d * Shape.own_workspace(Gates),
        cell, [&](int step, int row, int column, real value, auto width) __attribute__((always_inline)) {
          put(d, step, row, column, value, width);
        });
}
}  // namespace detail_of_recurrent

/// Gates in LibTorch's order: input, forget, cell, output; the bias has both biases. `own`: Shape.directions() of them,
/// forward first. `workspace` has Shape.workspace(4) floats, which all parts share. `put(direction, step, sequence, unit,
/// value, width)` gets every state. Errors as above.
template <RecurrentShape Shape, class Put>
FXX_KERNEL void lstm(Part part, Barrier& barrier, const float* __restrict in, const RecurrentDirection* own,
                     float* __restrict workspace, const Put& put) {
  const auto cell = [](const real* products, const float* given, const float*, float* c, const float*)
      __attribute__((always_inline)) {
    const auto gate = [&](int number) __attribute__((always_inline)) {
      return products[number] + load(given + number * lanes);
    };
    const real next = multiply_add(sigmoid(gate(1)), load(c), sigmoid(gate(0)) * hyperbolic_tangent(gate(2)));
    store(c, next);
    return sigmoid(gate(3)) * hyperbolic_tangent(next);
  };
  detail_of_recurrent::layer<Shape, 4>(part, barrier, in, own, workspace, cell, put);
}

/// Gates in LibTorch's order: reset, update, new; the bias has both biases of reset and update and the input's of new.
/// `workspace` has Shape.workspace(3) floats, which all parts share. `put` and errors as lstm's.
template <RecurrentShape Shape, class Put>
FXX_KERNEL void gru(Part part, Barrier& barrier, const float* __restrict in, const RecurrentDirection* own,
                    float* __restrict workspace, const Put& put) {
  const auto cell = [](const real* products, const float* given, const float* h, float*, const float* new_bias)
      __attribute__((always_inline)) {
    const auto from_input = [&](int number) __attribute__((always_inline)) { return load(given + number * lanes); };
    const real reset = sigmoid(products[0] + from_input(0)), update = sigmoid(products[1] + from_input(1));
    const real own_part = new_bias ? products[2] + load(new_bias) : products[2];
    const real fresh = hyperbolic_tangent(multiply_add(reset, own_part, from_input(2)));
    return multiply_add(update, load(h) - fresh, fresh);
  };
  detail_of_recurrent::layer<Shape, 3>(part, barrier, in, own, workspace, cell, put);
}

}  // namespace fxx::kernels::inline FXX_KERNEL_ISA

#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif
