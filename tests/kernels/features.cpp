// What the compiler may use is what the processor has, where it was told so; what it lacks has a name.
#include "fxx/kernels/features.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace fxx::kernels;

TEST_CASE("features that this file is compiled for are those of the processor it runs on") {
  CHECK(missing_feature(0) == nullptr);
  CHECK(missing_feature(compiled_features) == nullptr);
#if defined(__AVX2__)
  CHECK((compiled_features >> 10 & 1) == 1);
#else
  CHECK((compiled_features >> 10 & 1) == 0);
#endif
#if defined(__AVX512BF16__)
  CHECK((compiled_features >> 30 & 1) == 1);
#else
  CHECK((compiled_features >> 30 & 1) == 0);
#endif
}

#if defined(__x86_64__)
TEST_CASE("a feature that the processor lacks is named") {
  // No processor has all: XOP and AVX512 are of different makers and times.
  const char* missing = missing_feature((std::uint64_t{1} << 36) - 1);
  REQUIRE(missing != nullptr);
  CHECK(std::string(missing).size() >= 3);
  CHECK(std::string(missing_feature(std::uint64_t{1} << 63)) == "one that is not known");
  // The compiler's own question has the same answer.
  const auto has = [](int bit) { return missing_feature(std::uint64_t{1} << bit) == nullptr; };
  CHECK(has(2) == static_cast<bool>(__builtin_cpu_supports("fma")));
  CHECK(has(9) == static_cast<bool>(__builtin_cpu_supports("bmi")));
  CHECK(has(10) == static_cast<bool>(__builtin_cpu_supports("avx2")));
  CHECK(has(12) == static_cast<bool>(__builtin_cpu_supports("avx512f")));
  CHECK(has(18) == static_cast<bool>(__builtin_cpu_supports("avx512vl")));
  CHECK(has(22) == static_cast<bool>(__builtin_cpu_supports("avx512vnni")));
  CHECK(has(32) == static_cast<bool>(__builtin_cpu_supports("sse4a")));
}
#endif
