// Weights as they lie in a model's tensors, with any strides, for the functions that pack them.
// Main names: MatrixWeights, QuantisedWeights, ImageWeights, QuantisedImageWeights, GateWeights, StateWeights, whole.
// Cost: light.
#pragma once

#include "fxx/kernels/vector.hpp"

namespace fxx::kernels::inline FXX_KERNEL_ISA {

/// Floats that a constant takes, so that the next begins at a multiple of 64 bytes.
constexpr std::size_t whole(std::size_t floats) { return (floats + 15) / 16 * 16; }
/// The larger.
constexpr std::size_t most_of(std::size_t a, std::size_t b) { return a > b ? a : b; }

/// Of a matrix product.
struct MatrixWeights {
  const float* from;
  std::ptrdiff_t column, row;  // strides
  float operator()(int n, int k) const { return from[n * column + k * row]; }
};
/// The same as integers: columns divided by their scales, and rounded.
struct QuantisedWeights {
  const float* from;
  std::ptrdiff_t column, row;
  const float* scales;
  float operator()(int n, int k) const { return __builtin_rintf(from[n * column + k * row] / scales[n]); }
};
/// What sums of products of bytes have too much, column by column, where each byte is `zero` more than what it stands for.
inline void pack_excess(std::int32_t* excess, int n, int k, std::int32_t zero, const QuantisedWeights& weights) {
  for (int column = 0; column < n; ++column) {
    std::int32_t sum = 0;
    for (int i = 0; i < k; ++i) sum += static_cast<std::int32_t>(weights(column, i));
    excess[column] = zero * sum;
  }
}
/// The scales of products, those of the rows being all `of_rows`.
inline void pack_scales(float* packed, int n, float of_rows, const float* scales) {
  for (int column = 0; column < n; ++column) packed[column] = of_rows * scales[column];
}
/// Of a convolution: outputs, channels, rows, pixels.
struct ImageWeights {
  const float* from;
  std::ptrdiff_t n, c, r, s;  // strides
  float operator()(int output, int y, int x, int channel) const {
    return from[output * n + y * r + x * s + channel * c];
  }
  float operator()(int channel, int y, int x) const { return from[channel * n + y * r + x * s]; }
};
/// The same as integers: outputs divided by their scales, and rounded.
struct QuantisedImageWeights {
  ImageWeights weights;
  const float* scales;
  float operator()(int output, int y, int x, int channel) const {
    return __builtin_rintf(weights(output, y, x, channel) / scales[output]);
  }
};
/// What an input adds to the gates of a recurrent layer, in the order of its kernel (gate_column): column by column.
struct GateWeights {
  const float* from;
  int size, gates;
  std::ptrdiff_t column, row;  // strides
  float operator()(int at, int k) const {
    const int unit = at / (lanes * gates) * lanes + at % lanes, gate = at / lanes % gates;
    return unit < size ? from[(static_cast<std::ptrdiff_t>(gate) * size + unit) * column + k * row] : 0.f;
  }
};
/// What its state adds.
struct StateWeights {
  const float* from;
  int size;
  std::ptrdiff_t column, row;
  float operator()(int gate, int unit, int k) const {
    return from[(static_cast<std::ptrdiff_t>(gate) * size + unit) * column + k * row];
  }
};
/// The biases of both, in the same order. Those of the state are left out from gate `own` on. Null: there are none.
inline void pack_gates(float* packed, const float* input, const float* state, int size, int gates, int own) {
  const int padded = (size + lanes - 1) / lanes * lanes;
  for (int at = 0; at < padded * gates; ++at) {
    const int unit = at / (lanes * gates) * lanes + at % lanes, gate = at / lanes % gates;
    float sum = 0;
    if (unit < size && input) sum += input[gate * size + unit];
    if (unit < size && state && gate < own) sum += state[gate * size + unit];
    packed[at] = sum;
  }
}

}  // namespace fxx::kernels::inline FXX_KERNEL_ISA
