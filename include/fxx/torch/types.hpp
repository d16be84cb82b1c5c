// LibTorch's plain types and ours: dtype, layout, device, memory format, numbers, lists, tensors.
//
// Main names: to_dtype, to_scalar_type and the like; tensor_meta_of; argument_traits of LibTorch's types, so that they
// can be passed where proxies are. Cost: tensor (ATen/core/Tensor.h).
#pragma once

#include <ATen/core/Tensor.h>

#include "fxx/trace/proxy.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {
#define FXX_SAME_NUMBER(name, c10_name, number, ...) \
  static_assert(static_cast<int>(at::ScalarType::c10_name) == number);
FXX_DTYPES(FXX_SAME_NUMBER)
#undef FXX_SAME_NUMBER
#define FXX_SAME_NUMBER(name, c10_name, number, ...) static_assert(static_cast<int>(at::Layout::c10_name) == number);
FXX_LAYOUTS(FXX_SAME_NUMBER)
#undef FXX_SAME_NUMBER
#define FXX_SAME_NUMBER(name, c10_name, number, ...) \
  static_assert(static_cast<int>(at::MemoryFormat::c10_name) == number);
FXX_MEMORY_FORMATS(FXX_SAME_NUMBER)
#undef FXX_SAME_NUMBER
#define FXX_SAME_NUMBER(name, c10_name, number, ...) \
  static_assert(static_cast<int>(at::DeviceType::c10_name) == number);
FXX_DEVICE_TYPES(FXX_SAME_NUMBER)
#undef FXX_SAME_NUMBER
}  // namespace detail

inline Dtype to_dtype(at::ScalarType type) { return static_cast<Dtype>(type); }
inline at::ScalarType to_scalar_type(Dtype dtype) { return static_cast<at::ScalarType>(dtype); }
inline Layout to_layout(at::Layout layout) { return static_cast<Layout>(layout); }
inline MemoryFormat to_memory_format(at::MemoryFormat format) { return static_cast<MemoryFormat>(format); }
inline Device to_device(at::Device device) {
  return {static_cast<DeviceType>(device.type()), static_cast<std::int8_t>(device.index())};
}
inline at::Device to_torch(Device device) { return {static_cast<at::DeviceType>(device.type), device.index}; }

/// A number that is known. Symbolic ones have no place here: they throw from within LibTorch.
inline Argument to_argument(const at::Scalar& value) {
  if (value.isBoolean()) return value.toBool();
  if (value.isIntegral(false)) return value.toLong();
  if (value.isComplex()) return Complex{value.toComplexDouble().real(), value.toComplexDouble().imag()};
  return value.toDouble();
}
/// Throws GraphError (E112) when the argument is no number.
inline at::Scalar to_scalar(const Argument& value) {
  switch (value.kind()) {
    case Argument::Kind::boolean: return value.boolean();
    case Argument::Kind::integer: return value.integer();
    case Argument::Kind::complex: return c10::complex<double>(value.complex().real, value.complex().imag);
    default: return value.real();
  }
}

/// What a graph remembers of a tensor. Strides are left out for tensors without them.
inline TensorMeta tensor_meta_of(const at::Tensor& tensor) {
  TensorMeta meta;
  meta.shape = tensor.sizes().vec();
  if (tensor.layout() == at::kStrided) meta.stride = tensor.strides().vec();
  meta.dtype = to_dtype(tensor.scalar_type());
  meta.device = to_device(tensor.device());
  meta.requires_grad = tensor.requires_grad();
  return meta;
}

template <>
struct argument_traits<at::Tensor> {
  static constexpr ValueType type = ValueType::tensor;
  static constexpr bool list = false;
  static bool defined(const at::Tensor& tensor) { return tensor.defined(); }
};
template <>
struct argument_traits<at::Scalar> {
  static constexpr ValueType type = ValueType::scalar;
  static constexpr bool list = false;
  static Argument convert(const at::Scalar& value) { return to_argument(value); }
};
template <>
struct argument_traits<at::ScalarType> {
  static constexpr ValueType type = ValueType::dtype;
  static constexpr bool list = false;
  static Argument convert(at::ScalarType value) { return to_dtype(value); }
};
template <>
struct argument_traits<at::Layout> {
  static constexpr ValueType type = ValueType::layout;
  static constexpr bool list = false;
  static Argument convert(at::Layout value) { return to_layout(value); }
};
template <>
struct argument_traits<at::MemoryFormat> {
  static constexpr ValueType type = ValueType::memory_format;
  static constexpr bool list = false;
  static Argument convert(at::MemoryFormat value) { return to_memory_format(value); }
};
template <>
struct argument_traits<at::Device> {
  static constexpr ValueType type = ValueType::device;
  static constexpr bool list = false;
  static Argument convert(at::Device value) { return to_device(value); }
};
template <>
struct argument_traits<at::DeviceType> {
  static constexpr ValueType type = ValueType::device;
  static constexpr bool list = false;
  static Argument convert(at::DeviceType value) { return to_device(at::Device(value)); }
};
/// dtype, layout, device and pinned memory, as far as they are given.
template <>
struct argument_traits<at::TensorOptions> {
  static void fill(functional::DeviceOrOptionsArg& to, const at::TensorOptions& options, std::source_location where) {
    if (options.has_dtype()) to.dtype = {to_dtype(at::typeMetaToScalarType(options.dtype())), where};
    if (options.has_layout()) to.layout = {to_layout(options.layout()), where};
    if (options.has_device()) to.device = {to_device(options.device()), where};
    if (options.has_pinned_memory()) to.pin_memory = {options.pinned_memory(), where};
    if (options.has_requires_grad()) to.requires_grad = options.requires_grad();
  }
};
template <class T>
struct argument_traits<c10::complex<T>> {
  static constexpr ValueType type = ValueType::scalar;
  static constexpr bool list = false;
  static Argument convert(const c10::complex<T>& value) {
    return Complex{static_cast<double>(value.real()), static_cast<double>(value.imag())};
  }
};
template <>
struct argument_traits<at::IntArrayRef> {
  static constexpr ValueType type = ValueType::integer;
  static constexpr bool list = true;
  static Argument convert(at::IntArrayRef values) { return Argument::list({values.begin(), values.end()}); }
};
template <>
struct argument_traits<at::TensorList> {
  static constexpr ValueType type = ValueType::tensor;
  static constexpr bool list = true;
};

}  // namespace fxx::inline FXX_ABI
