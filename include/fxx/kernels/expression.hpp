// An expression of pointwise functions as a type:
//
//   tanh(x) * sigmoid(y) + 0.5:
//   Apply<Function::add,
//         Apply<Function::multiply, Apply<Function::hyperbolic_tangent, Input<0>>, Apply<Function::sigmoid, Input<1>>>,
//         Constant<0x3f000000>>
//
// Main names: Function, Input, Number, Constant, Apply. Cost: light.
#pragma once

#include <cstdint>

namespace fxx::kernels {

/// How far a result may be from the exact value, in units of the last place of results that are not denormal, stands
/// with each in kernels/functions.inc.
enum class Function : std::uint8_t {
  negate,
  absolute,
  square,
  square_root,
  reciprocal,
  reciprocal_root,
  exponential,
  exponential_minus_1,
  logarithm,
  error,
  hyperbolic_tangent,
  sigmoid,
  relu,
  silu,
  gelu,
  gelu_of_onednn,  // nan of infinity, and infinity where twice x is
  gelu_by_tanh,
  hard_sigmoid,
  hard_swish,
  mish,
  log_sigmoid,
  sine,
  cosine,
  tangent,
  arc_sine,
  arc_cosine,
  arc_tangent,
  hyperbolic_sine,
  hyperbolic_cosine,
  inverse_hyperbolic_sine,
  inverse_hyperbolic_cosine,
  inverse_hyperbolic_tangent,
  exponential_2,
  logarithm_2,
  logarithm_10,
  logarithm_1_plus,
  complementary_error,
  rounded,  // to even where two integers are as near
  floor,
  ceiling,
  truncated,
  sign,
  selu,
  add,
  subtract,
  multiply,
  divide,
  maximum,  // nan where one of them is
  minimum,
  leaky_relu,  // of x and the slope
  elu,         // of x and alpha
  celu,
  power,
  arc_tangent_2,     // of y and x
  rest_of_division,  // C's fmod, with the sign of x
  remainder,         // with the sign of y
  floor_divide,
  less,  // comparisons stand only in what `select` chooses by, and in those of logic
  less_or_equal,
  greater,
  greater_or_equal,
  equal,
  not_equal,
  is_nan,
  is_infinite,
  is_finite,
  logical_and,  // of comparisons
  logical_or,
  logical_xor,
  logical_not,
  select,    // of a comparison, what it is where it holds, and where not
  softplus,  // of x, beta and the threshold
  multiply_add,  // x * y + z, of one rounding where the processor has it
  quantised,  // of x, what it is multiplied with, the zero point, the lowest and the highest of the integers
  copy_sign,    // of x and what has its sign
  bitwise_and,  // from here on of integers alone
  bitwise_or,
  bitwise_xor,
  bitwise_not,
  shift_left,
  shift_right,
  checked_divisor,  // that is not 0; else it is a fault of the module, as in the next
  checked_place,    // of x and how many places there are
};

/// The element of an input.
template <int I>
struct Input {};
/// A number that is given when the loop runs.
template <int I>
struct Number {};
/// A number that the expression fixes, by its bits.
template <std::uint32_t Bits>
struct Constant {};
/// A function of expressions.
template <Function F, class... Arguments>
struct Apply {};

namespace detail {
template <class E>
inline constexpr int inputs_of = 0;
template <int I>
inline constexpr int inputs_of<Input<I>> = I + 1;
template <class E>
inline constexpr int numbers_of = 0;
template <int I>
inline constexpr int numbers_of<Number<I>> = I + 1;
constexpr int largest_of(int a, int b) { return a > b ? a : b; }
template <class... A>
constexpr int most_inputs() {
  int most = 0;
  ((most = largest_of(most, inputs_of<A>)), ...);
  return most;
}
template <class... A>
constexpr int most_numbers() {
  int most = 0;
  ((most = largest_of(most, numbers_of<A>)), ...);
  return most;
}
template <Function F, class... A>
inline constexpr int inputs_of<Apply<F, A...>> = most_inputs<A...>();
template <Function F, class... A>
inline constexpr int numbers_of<Apply<F, A...>> = most_numbers<A...>();

/// 0, 1, ..., N - 1 as arguments, without <utility>.
template <int... I>
struct Indices {};
template <int N, int... I>
constexpr auto indices() {
  if constexpr (sizeof...(I) == N) return Indices<I...>{};
  else return indices<N, I..., int(sizeof...(I))>();
}
}  // namespace detail

}  // namespace fxx::kernels
