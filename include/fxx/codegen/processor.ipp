// Bodies of codegen/processor.hpp.
#pragma once

#include "fxx/codegen/processor.hpp"

namespace fxx::inline FXX_ABI {

FXX_INLINE Processor this_processor() {
  Processor processor;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) {
    const bool intel = __builtin_cpu_is("intel");
    processor.flops_per_second = intel ? 1.78e11 : 1.18e11;
    if (intel) processor.flops_per_byte = 14;
  }
  processor.byte_products = __builtin_cpu_supports("avx512vnni") || __builtin_cpu_supports("avxvnni");
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
