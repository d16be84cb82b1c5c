// What a tensor is made of: dtype, layout, memory format, device, as plain enums with c10's own numbers.
//
// The LibTorch wing converts by a cast and asserts the numbers there, so nothing here needs LibTorch.
// Main names: Dtype, Layout, MemoryFormat, DeviceType, Device. Cost: light. Source: c10/core of torch 2.13.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "fxx/config.hpp"

namespace fxx::inline FXX_ABI {

// dtype, c10's enumerator, number, bytes an element
#define FXX_DTYPES(X)                        \
  X(uint8, Byte, 0, 1)                       \
  X(int8, Char, 1, 1)                        \
  X(int16, Short, 2, 2)                      \
  X(int32, Int, 3, 4)                        \
  X(int64, Long, 4, 8)                       \
  X(float16, Half, 5, 2)                     \
  X(float32, Float, 6, 4)                    \
  X(float64, Double, 7, 8)                   \
  X(complex32, ComplexHalf, 8, 4)            \
  X(complex64, ComplexFloat, 9, 8)           \
  X(complex128, ComplexDouble, 10, 16)       \
  X(boolean, Bool, 11, 1)                    \
  X(qint8, QInt8, 12, 1)                     \
  X(quint8, QUInt8, 13, 1)                   \
  X(qint32, QInt32, 14, 4)                   \
  X(bfloat16, BFloat16, 15, 2)               \
  X(float8_e5m2, Float8_e5m2, 23, 1)         \
  X(float8_e4m3fn, Float8_e4m3fn, 24, 1)     \
  X(float8_e5m2fnuz, Float8_e5m2fnuz, 25, 1) \
  X(float8_e4m3fnuz, Float8_e4m3fnuz, 26, 1) \
  X(uint16, UInt16, 27, 2)                   \
  X(uint32, UInt32, 28, 4)                   \
  X(uint64, UInt64, 29, 8)

#define FXX_LAYOUTS(X)        \
  X(strided, Strided, 0)      \
  X(sparse_coo, Sparse, 1)    \
  X(sparse_csr, SparseCsr, 2) \
  X(mkldnn, Mkldnn, 3)        \
  X(sparse_csc, SparseCsc, 4) \
  X(sparse_bsr, SparseBsr, 5) \
  X(sparse_bsc, SparseBsc, 6) \
  X(jagged, Jagged, 7)

#define FXX_MEMORY_FORMATS(X)         \
  X(contiguous_format, Contiguous, 0) \
  X(preserve_format, Preserve, 1)     \
  X(channels_last, ChannelsLast, 2)   \
  X(channels_last_3d, ChannelsLast3d, 3)

#define FXX_DEVICE_TYPES(X) \
  X(cpu, CPU, 0)            \
  X(cuda, CUDA, 1)          \
  X(mkldnn, MKLDNN, 2)      \
  X(opengl, OPENGL, 3)      \
  X(opencl, OPENCL, 4)      \
  X(ideep, IDEEP, 5)        \
  X(hip, HIP, 6)            \
  X(fpga, FPGA, 7)          \
  X(maia, MAIA, 8)          \
  X(xla, XLA, 9)            \
  X(vulkan, Vulkan, 10)     \
  X(metal, Metal, 11)       \
  X(xpu, XPU, 12)           \
  X(mps, MPS, 13)           \
  X(meta, Meta, 14)         \
  X(hpu, HPU, 15)           \
  X(ve, VE, 16)             \
  X(lazy, Lazy, 17)         \
  X(ipu, IPU, 18)           \
  X(mtia, MTIA, 19)         \
  X(privateuseone, PrivateUse1, 20)

#define FXX_ENUMERATOR(name, c10_name, number, ...) name = number,
enum class Dtype : std::int8_t { FXX_DTYPES(FXX_ENUMERATOR) };
enum class Layout : std::int8_t { FXX_LAYOUTS(FXX_ENUMERATOR) };
enum class MemoryFormat : std::int8_t { FXX_MEMORY_FORMATS(FXX_ENUMERATOR) };
enum class DeviceType : std::int8_t { FXX_DEVICE_TYPES(FXX_ENUMERATOR) };
#undef FXX_ENUMERATOR

/// A place for tensors. `index` is -1 for "the current one".
struct Device {
  DeviceType type = DeviceType::cpu;
  std::int8_t index = -1;
  constexpr bool operator==(const Device&) const = default;
};

// The name as Python spells it without "torch.": "float32", "channels_last", "cuda". Numbers that have no name give "".
#define FXX_NAME_OF(name, c10_name, number, ...) \
  case number: return #name;
constexpr std::string_view name_of(Dtype value) {
  if (value == Dtype::boolean) return "bool";
  switch (static_cast<int>(value)) {
    FXX_DTYPES(FXX_NAME_OF)
    default: return "";
  }
}
constexpr std::string_view name_of(Layout value) {
  switch (static_cast<int>(value)) {
    FXX_LAYOUTS(FXX_NAME_OF)
    default: return "";
  }
}
constexpr std::string_view name_of(MemoryFormat value) {
  switch (static_cast<int>(value)) {
    FXX_MEMORY_FORMATS(FXX_NAME_OF)
    default: return "";
  }
}
constexpr std::string_view name_of(DeviceType value) {
  switch (static_cast<int>(value)) {
    FXX_DEVICE_TYPES(FXX_NAME_OF)
    default: return "";
  }
}
#undef FXX_NAME_OF

// c10's spelling of the enumerator, for generated C++: at::ScalarType::Float.
#define FXX_C10_NAME_OF(name, c10_name, number, ...) \
  case number: return #c10_name;
constexpr std::string_view c10_name_of(Dtype value) {
  switch (static_cast<int>(value)) {
    FXX_DTYPES(FXX_C10_NAME_OF)
    default: return "";
  }
}
constexpr std::string_view c10_name_of(Layout value) {
  switch (static_cast<int>(value)) {
    FXX_LAYOUTS(FXX_C10_NAME_OF)
    default: return "";
  }
}
constexpr std::string_view c10_name_of(MemoryFormat value) {
  switch (static_cast<int>(value)) {
    FXX_MEMORY_FORMATS(FXX_C10_NAME_OF)
    default: return "";
  }
}
constexpr std::string_view c10_name_of(DeviceType value) {
  switch (static_cast<int>(value)) {
    FXX_DEVICE_TYPES(FXX_C10_NAME_OF)
    default: return "";
  }
}
#undef FXX_C10_NAME_OF

/// Bytes of one element; 0 for a dtype that has no name here.
constexpr int element_size(Dtype value) {
#define FXX_SIZE_OF(name, c10_name, number, bytes) \
  case number: return bytes;
  switch (static_cast<int>(value)) {
    FXX_DTYPES(FXX_SIZE_OF)
    default: return 0;
  }
#undef FXX_SIZE_OF
}

constexpr bool is_floating_point(Dtype d) {
  return d == Dtype::float16 || d == Dtype::float32 || d == Dtype::float64 || d == Dtype::bfloat16 ||
         (d >= Dtype::float8_e5m2 && d <= Dtype::float8_e4m3fnuz);
}
constexpr bool is_complex(Dtype d) { return d >= Dtype::complex32 && d <= Dtype::complex128; }
/// Does every value of the first dtype exist in the second?
constexpr bool holds_all(Dtype small, Dtype large) {
  using D = Dtype;
  if (small == large) return true;
  switch (small) {
    case D::boolean: return true;
    case D::uint8:
      return large == D::int16 || large == D::int32 || large == D::int64 || large == D::float16 ||
             large == D::bfloat16 || large == D::float32 || large == D::float64;
    case D::int8:
      return large == D::int16 || large == D::int32 || large == D::int64 || large == D::float16 ||
             large == D::bfloat16 || large == D::float32 || large == D::float64;
    case D::int16: return large == D::int32 || large == D::int64 || large == D::float32 || large == D::float64;
    case D::int32: return large == D::int64 || large == D::float64;
    case D::float16:
    case D::bfloat16: return large == D::float32 || large == D::float64;
    case D::float32: return large == D::float64;
    default: return false;
  }
}

/// "cpu", "cuda:1".
inline std::string to_string(Device device) {
  std::string text(name_of(device.type));
  if (device.index >= 0) text += ":" + std::to_string(static_cast<int>(device.index));
  return text;
}

}  // namespace fxx::inline FXX_ABI
