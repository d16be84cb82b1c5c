// Gaps between packed constants, which AddressSanitizer watches, in modules that are compiled with it.
// Main names: guarded, guard. Cost: light.
#pragma once

#include "fxx/kernels/weights.hpp"

extern "C" void __asan_poison_memory_region(const volatile void* begin, std::size_t bytes);

namespace fxx::kernels::inline FXX_KERNEL_ISA {

/// Floats that a constant takes with the gap behind it.
constexpr std::size_t guarded(std::size_t floats) { return whole(floats) + 32; }
/// Forbids reading and writing the gap behind a constant.
inline void guard(const float* constant, std::size_t floats) {
  __asan_poison_memory_region(constant + floats, (guarded(floats) - floats) * sizeof(float));
}

}  // namespace fxx::kernels::inline FXX_KERNEL_ISA
