// Runs a program of tests that was compiled for a processor, where this is such a one; says so where it is not. The
// program could not tell: what runs before its main needs those instructions too.
//
// usage: where_it_runs avx2|avx512|bfloat16|vnni|vnni512 PROGRAM
#include <cpuid.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

int main(int, char** arguments) {
  const char* const wanted = arguments[1];
  const auto is = [&](const char* name) { return std::strcmp(wanted, name) == 0; };
  bool has = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (!is("avx2") && !is("vnni"))
    has = has && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
          __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
          __builtin_cpu_supports("avx512cd");
  if (is("bfloat16")) has = has && __builtin_cpu_supports("avx512bf16");
  if (is("vnni")) {  // clang 16 has no name for it
    unsigned a = 0, b = 0, c = 0, d = 0;
    has = has && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a >> 4 & 1) != 0;
  }
  if (is("vnni512")) has = has && __builtin_cpu_supports("avx512vnni");
  if (!has) {
    std::printf("note: this processor has no %s: kernels were not run on it\n0 passed, 0 failed\n", wanted);
    return 0;
  }
  execv(arguments[2], arguments + 2);
  std::perror(arguments[2]);
  return 1;
}
