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
  processor.bfloat16_products = __builtin_cpu_is("amd") && __builtin_cpu_supports("avx512bf16");
#endif
  return processor;
}

}  // namespace fxx::inline FXX_ABI
