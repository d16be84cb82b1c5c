// Instructions that not every processor has: those that the compiler may use in this file, and those that the processor
// which runs this lacks.
//
// Main names: compiled_features, missing_feature. Cost: none.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace fxx::kernels {

/// Name; the macro that compilers define as 1 where they may use it; where CPUID tells of it: leaf, subleaf, register
/// (0 to 3: eax to edx), bit. Only at the end more may be added.
#define FXX_KERNEL_FEATURES(FEATURE)                           \
  FEATURE("SSE3", __SSE3__, 1, 0, 2, 0)                        \
  FEATURE("SSSE3", __SSSE3__, 1, 0, 2, 9)                      \
  FEATURE("FMA", __FMA__, 1, 0, 2, 12)                         \
  FEATURE("SSE4.1", __SSE4_1__, 1, 0, 2, 19)                   \
  FEATURE("SSE4.2", __SSE4_2__, 1, 0, 2, 20)                   \
  FEATURE("MOVBE", __MOVBE__, 1, 0, 2, 22)                     \
  FEATURE("POPCNT", __POPCNT__, 1, 0, 2, 23)                   \
  FEATURE("AVX", __AVX__, 1, 0, 2, 28)                         \
  FEATURE("F16C", __F16C__, 1, 0, 2, 29)                       \
  FEATURE("BMI", __BMI__, 7, 0, 1, 3)                          \
  FEATURE("AVX2", __AVX2__, 7, 0, 1, 5)                        \
  FEATURE("BMI2", __BMI2__, 7, 0, 1, 8)                        \
  FEATURE("AVX512F", __AVX512F__, 7, 0, 1, 16)                 \
  FEATURE("AVX512DQ", __AVX512DQ__, 7, 0, 1, 17)               \
  FEATURE("ADX", __ADX__, 7, 0, 1, 19)                         \
  FEATURE("AVX512IFMA", __AVX512IFMA__, 7, 0, 1, 21)           \
  FEATURE("AVX512CD", __AVX512CD__, 7, 0, 1, 28)               \
  FEATURE("AVX512BW", __AVX512BW__, 7, 0, 1, 30)               \
  FEATURE("AVX512VL", __AVX512VL__, 7, 0, 1, 31)               \
  FEATURE("AVX512VBMI", __AVX512VBMI__, 7, 0, 2, 1)            \
  FEATURE("AVX512VBMI2", __AVX512VBMI2__, 7, 0, 2, 6)          \
  FEATURE("GFNI", __GFNI__, 7, 0, 2, 8)                        \
  FEATURE("AVX512VNNI", __AVX512VNNI__, 7, 0, 2, 11)           \
  FEATURE("AVX512BITALG", __AVX512BITALG__, 7, 0, 2, 12)       \
  FEATURE("AVX512VPOPCNTDQ", __AVX512VPOPCNTDQ__, 7, 0, 2, 14) \
  FEATURE("AMX-BF16", __AMX_BF16__, 7, 0, 3, 22)               \
  FEATURE("AVX512FP16", __AVX512FP16__, 7, 0, 3, 23)           \
  FEATURE("AMX-TILE", __AMX_TILE__, 7, 0, 3, 24)               \
  FEATURE("AMX-INT8", __AMX_INT8__, 7, 0, 3, 25)               \
  FEATURE("AVXVNNI", __AVXVNNI__, 7, 1, 0, 4)                  \
  FEATURE("AVX512BF16", __AVX512BF16__, 7, 1, 0, 5)            \
  FEATURE("LZCNT", __LZCNT__, 0x80000001, 0, 2, 5)             \
  FEATURE("SSE4A", __SSE4A__, 0x80000001, 0, 2, 6)             \
  FEATURE("XOP", __XOP__, 0x80000001, 0, 2, 11)                \
  FEATURE("FMA4", __FMA4__, 0x80000001, 0, 2, 16)              \
  FEATURE("TBM", __TBM__, 0x80000001, 0, 2, 21)

// Is a macro defined as 1? What it stands for is pasted to a name that is a macro for 1 alone.
#define FXX_FEATURE_ONE_1 0, 1
#define FXX_FEATURE_SECOND(first, second, ...) second
#define FXX_FEATURE_PICK(...) FXX_FEATURE_SECOND(__VA_ARGS__)
#define FXX_FEATURE_PASTE(value) FXX_FEATURE_PICK(FXX_FEATURE_ONE_##value, 0, 0)
#define FXX_FEATURE_BIT(name, macro, ...) FXX_FEATURE_PASTE(macro),

/// A bit for each of the list, of this file.
constexpr std::uint64_t compiled_features = [] {
  const int given[] = {FXX_KERNEL_FEATURES(FXX_FEATURE_BIT)};
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < sizeof given / sizeof *given; ++i) bits |= static_cast<std::uint64_t>(given[i]) << i;
  return bits;
}();

#undef FXX_FEATURE_BIT
#undef FXX_FEATURE_PASTE
#undef FXX_FEATURE_PICK
#undef FXX_FEATURE_SECOND
#undef FXX_FEATURE_ONE_1

/// The name of one that is in `features` and that this processor has not; null when it has them all. Other processors
/// than x86-64 are not asked.
inline const char* missing_feature([[maybe_unused]] std::uint64_t features) {
#if defined(__x86_64__)
  struct Feature {
    const char* name;
    unsigned leaf, subleaf;
    int word, bit;
  };
#define FXX_FEATURE_ROW(name, macro, ...) {name, __VA_ARGS__},
  static constexpr Feature all[] = {FXX_KERNEL_FEATURES(FXX_FEATURE_ROW)};
#undef FXX_FEATURE_ROW
  for (std::size_t i = 0; i < 64; ++i) {
    if ((features >> i & 1) == 0) continue;
    if (i >= sizeof all / sizeof *all) return "one that is not known";
    unsigned words[4] = {};
    if (!__get_cpuid_count(all[i].leaf, all[i].subleaf, &words[0], &words[1], &words[2], &words[3]) ||
        (words[all[i].word] >> all[i].bit & 1) == 0)
      return all[i].name;
  }
#endif
  return nullptr;
}

}  // namespace fxx::kernels
