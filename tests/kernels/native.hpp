// What the tests of kernels for one processor share: is this one of that kind, and numbers to compute with.
#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <random>
#include <vector>

#include "fxx/kernels/vector.hpp"

namespace fxx::test {

/// Can this processor run what the file was compiled for? Says so when it cannot: then nothing is tested.
inline bool processor_has_it() {
#if defined(__x86_64__) && defined(__AVX512F__)
  const bool has = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                   __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")
#if defined(__AVX512BF16__)
                   && __builtin_cpu_supports("avx512bf16")
#endif
      ;
#elif defined(__x86_64__) && defined(__AVX2__)
  const bool has = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  const bool has = true;
#endif
  if (!has) MESSAGE("not run: this processor has no vectors of ", kernels::lanes, " floats");
  return has;
}
/// Stands first in every case.
#define FXX_ONLY_WHERE_IT_RUNS() \
  if (!fxx::test::processor_has_it()) return

inline std::vector<float> random_floats(std::size_t count, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  std::vector<float> numbers(count);
  for (float& x : numbers) x = normal(engine);
  return numbers;
}

}  // namespace fxx::test
