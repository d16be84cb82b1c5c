// One loop over the elements of some arrays for a whole expression of pointwise functions:
//
//   using Gate = Apply<Function::multiply, Apply<Function::hyperbolic_tangent, Input<0>>,
//                      Apply<Function::sigmoid, Input<1>>>;
//   run_pointwise(kernel<Gate>, {.out = o, .inputs = {a, b}, .steps = {1, 1}, .count = n});
//
// The expression is inlined into the loop, its values stay in registers. There is a loop for each instruction set that
// the processor may turn out to have, whatever the program is compiled for: AVX-512, AVX2 with FMA, and the least that
// every processor of its kind has.
// Main names: Kernel, kernel, PointwiseLoop, run_pointwise, InstructionSet. Cost: light; a kernel takes the compiler a
// tenth of a second.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fxx/kernels/expression.hpp"

#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"  // nothing that takes vectors is called, all is inlined
#endif

namespace fxx::kernels {

namespace detail {
#define FXX_KERNEL_SET plain
#define FXX_KERNEL_LANES 4
#define FXX_KERNEL_TARGET
#include "fxx/kernels/functions.inc"
#if defined(__x86_64__)
#define FXX_KERNEL_SET avx2
#define FXX_KERNEL_LANES 8
#define FXX_KERNEL_TARGET __attribute__((target("avx2,fma")))
#include "fxx/kernels/functions.inc"
#define FXX_KERNEL_SET avx512
#define FXX_KERNEL_LANES 16
#define FXX_KERNEL_TARGET __attribute__((target("avx512f,avx2,fma")))
#include "fxx/kernels/functions.inc"
#endif
}  // namespace detail

#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif

/// What loops are compiled for.
enum class InstructionSet : std::uint8_t { plain, avx2, avx512 };
/// The best that this processor has.
inline InstructionSet instruction_set() {
#if defined(__x86_64__)
  static const InstructionSet best = __builtin_cpu_supports("avx512f") ? InstructionSet::avx512
                                     : __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")
                                         ? InstructionSet::avx2
                                         : InstructionSet::plain;
  return best;
#else
  return InstructionSet::plain;
#endif
}

/// The loops of one expression, by instruction set.
struct Kernel {
  using Run = void (*)(float* out, const float* const* inputs, const std::ptrdiff_t* steps, const float* numbers,
                       std::size_t count);
  Run loops[3];
  int inputs, numbers;
};
template <class E>
inline constexpr Kernel kernel = {
#if defined(__x86_64__)
    {&detail::plain::Loop<E>::run, &detail::avx2::Loop<E>::run, &detail::avx512::Loop<E>::run},
#else
    {&detail::plain::Loop<E>::run, &detail::plain::Loop<E>::run, &detail::plain::Loop<E>::run},
#endif
    detail::inputs_of<E>,
    detail::numbers_of<E>};

/// Of a loop.
inline constexpr int max_inputs = 8, max_numbers = 8;

/// Steps are in elements, from one to the next; 0: one stands for all. The output shares no memory with inputs.
struct PointwiseLoop {
  float* out = nullptr;
  const float* inputs[max_inputs] = {};
  std::ptrdiff_t steps[max_inputs] = {};
  float numbers[max_numbers] = {};
  std::size_t count = 0;
  std::ptrdiff_t out_step = 1;
};

/// Writes the expression's value for every element. Elements that lie apart are gathered first.
inline void run_pointwise(const Kernel& kernel, const PointwiseLoop& l, InstructionSet set = instruction_set()) {
  if (l.count == 0) return;
  const Kernel::Run run = kernel.loops[static_cast<int>(set)];
  bool apart = l.out_step != 1;
  for (int k = 0; k < kernel.inputs; ++k) apart = apart || (l.steps[k] != 0 && l.steps[k] != 1);
  if (!apart) return run(l.out, l.inputs, l.steps, l.numbers, l.count);
  constexpr std::size_t most = 256;
  float gathered[max_inputs][most], result[most];
  const float* inputs[max_inputs];
  std::ptrdiff_t steps[max_inputs];
  for (std::size_t at = 0; at < l.count; at += most) {
    const std::size_t count = l.count - at < most ? l.count - at : most;
    const auto from = static_cast<std::ptrdiff_t>(at);
    for (int k = 0; k < kernel.inputs; ++k) {
      inputs[k] = l.inputs[k] + from * l.steps[k];
      steps[k] = l.steps[k];
      if (steps[k] == 0 || steps[k] == 1) continue;
      for (std::size_t i = 0; i < count; ++i) gathered[k][i] = inputs[k][static_cast<std::ptrdiff_t>(i) * steps[k]];
      inputs[k] = gathered[k];
      steps[k] = 1;
    }
    if (l.out_step == 1) {
      run(l.out + at, inputs, steps, l.numbers, count);
    } else {
      run(result, inputs, steps, l.numbers, count);
      for (std::size_t i = 0; i < count; ++i) l.out[(from + static_cast<std::ptrdiff_t>(i)) * l.out_step] = result[i];
    }
  }
}

}  // namespace fxx::kernels
