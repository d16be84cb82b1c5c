// Bodies of codegen/processor.hpp.
#pragma once

#include "fxx/codegen/processor.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace fxx::inline FXX_ABI {

#if defined(__x86_64__)
namespace detail {
// AVX_VNNI, by the processor's own word: clang knows its name from version 17 on.
FXX_INLINE bool has_avx_vnni() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __builtin_cpu_supports("avx2") && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a >> 4 & 1) != 0;
}
}  // namespace detail
#endif

FXX_INLINE Processor this_processor() {
  Processor processor;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) {
    const bool intel = __builtin_cpu_is("intel");
    processor.flops_per_second = intel ? 1.78e11 : 1.18e11;
    if (intel) processor.flops_per_byte = 14;
  }
  processor.byte_products = __builtin_cpu_supports("avx512vnni") || detail::has_avx_vnni();
  processor.reads_ahead = __builtin_cpu_is("amd");
  processor.bfloat16_products = __builtin_cpu_is("amd") && __builtin_cpu_supports("avx512bf16");
#endif
  return processor;
}

FXX_INLINE bool has_vectors_of(int floats) {
#if defined(__x86_64__)
  if (floats == 16)
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  if (floats == 8) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
  return floats == 4;
}

}  // namespace fxx::inline FXX_ABI
