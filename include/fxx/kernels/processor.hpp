// The processor that the file is compiled for: how wide its vectors are, how many it has, and the name of the namespace
// of all that depends on it.
// Main names: FXX_KERNEL_ISA, FXX_KERNEL_LANES, FXX_KERNEL_REGISTERS, FXX_KERNEL. Cost: none.
#pragma once

#if defined(__AVX512F__)
#define FXX_KERNEL_ISA avx512
#define FXX_KERNEL_LANES 16
#elif defined(__AVX2__) && defined(__FMA__)
#define FXX_KERNEL_ISA avx2
#define FXX_KERNEL_LANES 8
#else
#define FXX_KERNEL_ISA plain
#define FXX_KERNEL_LANES 4
#endif

/// Vectors that fit into registers.
#if defined(__AVX512F__) || defined(__aarch64__)
#define FXX_KERNEL_REGISTERS 32
#else
#define FXX_KERNEL_REGISTERS 16
#endif

/// Everything that a loop calls is inlined: vectors stay in registers.
#define FXX_KERNEL __attribute__((always_inline)) inline
