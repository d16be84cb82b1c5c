// Bodies of torch/shape_rules.hpp: helpers, rules, and the table of them.
//
// Strides are those that the kernels for the CPU give. Where a rule calls operators, it does so on the meta device.
#pragma once

#include <ATen/Context.h>
#include <ATen/ExpandUtils.h>
#include <ATen/Parallel.h>
#include <ATen/TensorIterator.h>
#include <ATen/WrapDimUtils.h>

// after the tensor's own header
#include <ATen/ops/_fused_sdp_choice_ops.h>
#include <ATen/ops/cat_ops.h>
#include <ATen/ops/result_type_ops.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "fxx/runtime/backtrace.hpp"
#include "fxx/torch/shape_rules.hpp"

namespace fxx::inline FXX_ABI::detail {

// --- tensors on the meta device ----------------------------------------------------------------------------------

FXX_INLINE c10::Storage meta_storage(std::size_t bytes) {
  return c10::Storage(c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), static_cast<std::int64_t>(bytes), c10::DataPtr(nullptr, c10::kMeta),
      c10::GetAllocator(c10::kMeta), /*resizable=*/true));
}

FXX_INLINE at::Tensor meta_tensor(c10::Storage storage, at::IntArrayRef sizes, at::IntArrayRef strides,
                                  std::int64_t offset, caffe2::TypeMeta dtype) {
  at::Tensor tensor =
      at::detail::make_tensor<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(c10::DispatchKey::Meta), dtype);
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, offset);
  return tensor;
}

FXX_INLINE at::Tensor meta_tensor(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType dtype) {
  std::int64_t last = 0;
  bool empty = false;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    TORCH_CHECK(sizes[d] >= 0, "Trying to create tensor with negative dimension ", sizes[d], ": ", sizes);
    empty = empty || sizes[d] == 0;
    last += (sizes[d] - 1) * strides[d];
  }
  const std::size_t bytes = empty ? 0 : static_cast<std::size_t>(last + 1) * c10::elementSize(dtype);
  return meta_tensor(meta_storage(bytes), sizes, strides, 0, c10::scalarTypeToTypeMeta(dtype));
}

FXX_INLINE at::Tensor meta_tensor(at::IntArrayRef sizes, at::ScalarType dtype) {
  return meta_tensor(sizes, c10::contiguous_strides(sizes), dtype);
}

FXX_INLINE at::Tensor meta_tensor(at::IntArrayRef sizes, at::ScalarType dtype, at::MemoryFormat format) {
  if (format == at::MemoryFormat::ChannelsLast && sizes.size() == 4)
    return meta_tensor(sizes, c10::get_channels_last_strides_2d(sizes), dtype);
  if (format == at::MemoryFormat::ChannelsLast3d && sizes.size() == 5)
    return meta_tensor(sizes, c10::get_channels_last_strides_3d(sizes), dtype);
  return meta_tensor(sizes, dtype);
}

// --- helpers of rules --------------------------------------------------------------------------------------------

namespace shapes {

using at::ScalarType;
using at::Tensor;

/// As empty_like: of the same strides where these leave no holes.
FXX_INLINE Tensor like(const Tensor& tensor, std::optional<ScalarType> dtype = {}) {
  const ScalarType type = dtype.value_or(tensor.scalar_type());
  if (tensor.is_non_overlapping_and_dense()) return meta_tensor(tensor.sizes(), tensor.strides(), type);
  return meta_tensor(tensor.sizes(), at::infer_dense_strides(tensor.sizes(), tensor.strides()), type);
}
FXX_INLINE Tensor contiguous_like(const Tensor& tensor, std::optional<ScalarType> dtype = {}) {
  return meta_tensor(tensor.sizes(), dtype.value_or(tensor.scalar_type()));
}
/// Contiguous in the memory format that the tensor's strides suggest.
FXX_INLINE Tensor formatted_like(const Tensor& tensor, std::optional<ScalarType> dtype = {}) {
  return meta_tensor(tensor.sizes(), dtype.value_or(tensor.scalar_type()), tensor.suggest_memory_format());
}
/// Batches of matrices whose columns are contiguous, as LAPACK wants them.
FXX_INLINE Tensor columns(at::IntArrayRef sizes, ScalarType dtype) {
  const c10::DimVector rows = c10::contiguous_strides(sizes);
  Sizes strides(rows.begin(), rows.end());
  const std::size_t n = sizes.size();
  strides[n - 2] = 1;
  strides[n - 1] = std::max<std::int64_t>(sizes[n - 2], 1);
  return meta_tensor(sizes, strides, dtype);
}

enum class Promotion {
  none,      // all inputs have one dtype, and so has the result
  common,    // the inputs' common dtype
  to_float,  // the same, and a floating one for integers
  boolean,   // a boolean
};
/// What an elementwise operator gives: sizes are broadcast, strides follow the inputs'.
FXX_INLINE Tensor pointwise(std::initializer_list<Tensor> inputs, Promotion promotion = Promotion::none,
                            std::optional<ScalarType> dtype = {}) {
  at::TensorIteratorConfig config;
  config.set_check_mem_overlap(false).add_owned_output(Tensor());
  for (const Tensor& input : inputs)
    if (input.defined()) config.add_owned_const_input(input);
  if (promotion != Promotion::none) config.allow_cpu_scalars(true).promote_inputs_to_common_dtype(true);
  if (promotion == Promotion::to_float) config.promote_integer_inputs_to_float(true);
  if (promotion == Promotion::boolean) dtype = at::kBool;
  if (dtype) config.check_all_same_dtype(false).declare_static_dtype(*dtype);
  else if (promotion != Promotion::none) config.cast_common_dtype_to_outputs(true).enforce_safe_casting_to_output(true);
  return config.build().output();
}
/// A number as a tensor that takes no part in deciding the dtype but by its kind.
FXX_INLINE Tensor as_tensor(const at::Scalar& number) {
  Tensor tensor = meta_tensor({}, number.type());
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}
FXX_INLINE Tensor operand(const ShapeCall& c, std::size_t i) {
  return c[i].isTensor() ? c.tensor(i) : as_tensor(c.number(i));
}

FXX_INLINE Sizes joined(at::IntArrayRef front, at::IntArrayRef back) {
  Sizes sizes(front.begin(), front.end());
  sizes.insert(sizes.end(), back.begin(), back.end());
  return sizes;
}
/// The list, or its only item as often as is asked for.
FXX_INLINE Sizes expanded(Sizes list, std::size_t count, const char* name) {
  if (list.size() == 1) list.resize(count, list[0]);
  TORCH_CHECK(list.size() == count, "expected ", name, " to be a single integer value or a list of ", count,
              " values, but got ", at::IntArrayRef(list));
  return list;
}
FXX_INLINE std::int64_t product(at::IntArrayRef sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
}
FXX_INLINE std::int64_t wrapped(std::int64_t dim, std::int64_t dims) { return c10::maybe_wrap_dim(dim, dims); }

FXX_INLINE Sizes reduced(const Tensor& t, Sizes dims, bool keep) {
  std::vector<bool> gone(static_cast<std::size_t>(t.dim()), dims.empty());
  if (t.dim() == 0) gone.resize(1);  // as of one dimension
  for (std::int64_t d : dims) {
    const std::int64_t at = wrapped(d, t.dim());
    TORCH_CHECK(!gone[static_cast<std::size_t>(at)], "dim ", at, " appears multiple times in the list of dims");
    gone[static_cast<std::size_t>(at)] = true;
  }
  Sizes sizes;
  for (std::int64_t d = 0; d < t.dim(); ++d) {
    if (!gone[static_cast<std::size_t>(d)]) sizes.push_back(t.size(d));
    else if (keep) sizes.push_back(1);
  }
  return sizes;
}
FXX_INLINE Sizes optional_dims(const ShapeCall& c, std::size_t i) { return c.has(i) ? c.integers(i) : Sizes{}; }

/// Refuses the dtypes that the operator's kernel does not know. Some operators call it for tensors that have elements.
FXX_INLINE void refuse_dtype(const Tensor& t, bool refused, const char* op) {
  TORCH_CHECK_NOT_IMPLEMENTED(!refused, "\"", op, "\" not implemented for '", c10::toString(t.scalar_type()), "'");
}
FXX_INLINE bool is_bool(const Tensor& t) { return t.scalar_type() == at::kBool; }
FXX_INLINE void check_floating(const Tensor& t, const char* op) {
  refuse_dtype(t, !at::isFloatingType(t.scalar_type()), op);
}
FXX_INLINE void check_floating_or_complex(const Tensor& t, const char* op) {
  refuse_dtype(t, !at::isFloatingType(t.scalar_type()) && !t.is_complex(), op);
}
FXX_INLINE void check_ordered(const Tensor& t, const char* op) { refuse_dtype(t, t.is_complex(), op); }
FXX_INLINE void check_same_dtype(const Tensor& a, const Tensor& b, const char* op) {
  TORCH_CHECK(a.scalar_type() == b.scalar_type(), op, ": expected tensors of one dtype, but got ", a.scalar_type(),
              " and ", b.scalar_type());
}
FXX_INLINE ScalarType sum_dtype(ScalarType type) { return at::isIntegralType(type, true) ? at::kLong : type; }
/// Of statistics: float for parameters of float beside inputs of half precision.
FXX_INLINE ScalarType parameter_dtype(const Tensor& input, const Tensor& weight, const Tensor& bias = {}) {
  const Tensor& parameter = weight.defined() ? weight : bias;
  return parameter.defined() ? parameter.scalar_type() : input.scalar_type();
}

// --- rules by kind -----------------------------------------------------------------------------------------------

FXX_INLINE void like_first(ShapeCall& c) { c.give(like(c.tensor(0))); }
/// Random numbers, of the size of the first tensor.
FXX_INLINE void drawn(ShapeCall& c) {
  check_floating(c.tensor(0), "random numbers");
  c.give(contiguous_like(c.tensor(0)));
}
FXX_INLINE void drawn_bits(ShapeCall& c) {
  if (c.tensor(0).numel() > 0) check_floating(c.tensor(0), "bernoulli_tensor_cpu_p_");
  c.give(contiguous_like(c.tensor(0)));
}
FXX_INLINE void contiguous_like_first(ShapeCall& c) { c.give(contiguous_like(c.tensor(0))); }
/// An operator over elements, whose result casts to the dtype of `out`.
FXX_INLINE void elementwise(ShapeCall& c, std::size_t operands, Promotion promotion,
                            std::optional<ScalarType> dtype = {}) {
  if (promotion != Promotion::none) c.allow_cast();
  if (operands == 1) c.give(pointwise({operand(c, 0)}, promotion, dtype));
  else c.give(pointwise({operand(c, 0), operand(c, 1)}, promotion, dtype));
}
FXX_INLINE void unary(ShapeCall& c) { elementwise(c, 1, Promotion::none); }
FXX_INLINE void unary_of_floats(ShapeCall& c) {
  check_floating(c.tensor(0), "the operator");
  unary(c);
}
FXX_INLINE void unary_float(ShapeCall& c) {
  check_ordered(c.tensor(0), "the operator");
  elementwise(c, 1, Promotion::to_float);
}
FXX_INLINE void unary_boolean(ShapeCall& c) { elementwise(c, 1, Promotion::boolean); }
FXX_INLINE void relu(ShapeCall& c) {
  refuse_dtype(c.tensor(0), is_bool(c.tensor(0)) || c.tensor(0).is_complex(), "relu");
  unary(c);
}
/// self, min, max.
FXX_INLINE void hardtanh(ShapeCall& c) {
  const Tensor x = c.tensor(0);
  refuse_dtype(x, is_bool(x) || x.is_complex(), "hardtanh");
  TORCH_CHECK(x.scalar_type() != at::kByte || (c.number(1).toDouble() >= 0 && c.number(2).toDouble() >= 0),
              "cannot do hardtanh on an unsigned type with negative limits");
  unary(c);
}
FXX_INLINE void binary(ShapeCall& c) { elementwise(c, 2, Promotion::common); }
FXX_INLINE void binary_ordered(ShapeCall& c) {
  binary(c);
  check_ordered(c.results()[0].toTensor(), "the operator");
}
FXX_INLINE void shift(ShapeCall& c) {
  binary(c);
  const Tensor out = c.results()[0].toTensor();
  refuse_dtype(out, !at::isIntegralType(out.scalar_type(), false), "shift");
}
/// other - self.
FXX_INLINE void reversed_difference(ShapeCall& c) {
  const Tensor a = c.tensor(0), b = c.tensor(1);
  TORCH_CHECK(!is_bool(a) && !is_bool(b), "Subtraction, the `-` operator, with a bool tensor is not supported.");
  c.allow_cast();
  c.give(pointwise({b, a}, Promotion::common));
}
FXX_INLINE void binary_boolean(ShapeCall& c) { elementwise(c, 2, Promotion::boolean); }
FXX_INLINE void binary_same(ShapeCall& c) { c.give(pointwise({c.tensor(0), c.tensor(1)})); }
/// A complex number's absolute value and the like are real.
FXX_INLINE void absolute(ShapeCall& c) {
  const Tensor x = c.tensor(0);
  refuse_dtype(x, is_bool(x), "abs_cpu");
  if (!x.is_complex()) return unary(c);
  elementwise(c, 1, Promotion::common, c10::toRealValueType(x.scalar_type()));
}
FXX_INLINE void angle(ShapeCall& c) {
  const Tensor x = c.tensor(0);
  if (x.is_complex()) c.give(contiguous_like(x, c10::toRealValueType(x.scalar_type())));
  else elementwise(c, 1, Promotion::to_float);
}
FXX_INLINE void masked(ShapeCall& c) { c.give(pointwise({c.tensor(0), c.tensor(1)}, Promotion::to_float)); }
FXX_INLINE void nothing(ShapeCall&) {}
FXX_INLINE void itself(ShapeCall& c) { c.give(c.tensor(0)); }
/// Sums, and elements of a loss, by reduction: 0 none, 1 mean, 2 sum.
FXX_INLINE void loss(ShapeCall& c, const Tensor& elements, std::int64_t reduction) {
  c.give(reduction == 0 ? elements : meta_tensor({}, elements.scalar_type()));
}
/// A gradient of the size of argument `I`.
template <std::size_t I>
void like_argument(ShapeCall& c) {
  c.give(like(c.tensor(I)));
}
template <std::size_t I>
void contiguous_like_argument(ShapeCall& c) {
  c.give(contiguous_like(c.tensor(I)));
}

// --- convolutions ------------------------------------------------------------------------------------------------

struct Convolution {
  Tensor input, weight, bias;
  Sizes stride, padding, dilation, output_padding;
  bool transposed = false;
  std::int64_t groups = 1;
  bool may_be_empty = false;
};

FXX_INLINE void check_convolution(Convolution& v) {
  const std::int64_t k = v.weight.dim();
  TORCH_CHECK(k > 2, "weight should have at least three dimensions");
  const auto dims = static_cast<std::size_t>(k - 2);
  v.stride = expanded(std::move(v.stride), dims, "stride");
  v.padding = expanded(std::move(v.padding), dims, "padding");
  v.dilation = expanded(std::move(v.dilation), dims, "dilation");
  if (v.output_padding.empty()) v.output_padding = {0};
  v.output_padding = expanded(std::move(v.output_padding), dims, "output_padding");
  TORCH_CHECK(v.groups > 0, "expected groups to be greater than 0, but got groups=", v.groups);
  for (std::size_t d = 0; d < dims; ++d) {
    TORCH_CHECK(v.padding[d] >= 0, "negative padding is not supported");
    TORCH_CHECK(v.stride[d] > 0, "non-positive stride is not supported");
    TORCH_CHECK(v.dilation[d] > 0, "dilation should be greater than zero");
    TORCH_CHECK(v.output_padding[d] >= 0, "negative output_padding is not supported");
  }
  TORCH_CHECK(v.input.dim() == k, "Expected ", k, "-dimensional input for ", k, "-dimensional weight ",
              v.weight.sizes(), ", but got ", v.input.dim(), "-dimensional input of size ", v.input.sizes(),
              " instead");
  check_same_dtype(v.input, v.weight, "convolution");
  const std::int64_t channels = v.weight.size(v.transposed ? 0 : 1) * (v.transposed ? 1 : v.groups);
  TORCH_CHECK(v.weight.size(0) >= v.groups && v.weight.size(0) % v.groups == 0, "Given groups=", v.groups,
              ", expected weight to be divisible by ", v.groups, " at dimension 0, but got weight of size ",
              v.weight.sizes(), " instead");
  TORCH_CHECK(v.input.size(1) == channels, "Given groups=", v.groups, ", weight of size ", v.weight.sizes(),
              ", expected input", v.input.sizes(), " to have ", channels, " channels, but got ", v.input.size(1),
              " channels instead");
  const std::int64_t out = v.transposed ? v.weight.size(1) * v.groups : v.weight.size(0);
  TORCH_CHECK(!v.bias.defined() || (v.bias.dim() == 1 && v.bias.size(0) == out), "Given weight of size ",
              v.weight.sizes(), ", expected bias to be 1-dimensional with ", out, " elements");
}

/// Whether oneDNN convolves; the other kernels are slower for large tensors and faster for small ones.
FXX_INLINE bool uses_onednn(const Convolution& v) {
  static const bool has = at::globalContext().hasMKLDNN();
  const ScalarType type = v.input.scalar_type();
  if (!has || !at::globalContext().userEnabledMkldnn() || v.input.numel() == 0) return false;
  if (type == at::kBFloat16 || type == at::kHalf) return true;
  if (type != at::kFloat) return false;
  const auto any_above_one = [](const Sizes& list) {
    return std::any_of(list.begin(), list.end(), [](std::int64_t i) { return i > 1; });
  };
  for (std::size_t d = 0; d < v.stride.size(); ++d)
    if (v.transposed && v.output_padding[d] >= v.stride[d]) return false;
  const auto k = [&](std::int64_t d) { return v.weight.size(d); };
  const std::int64_t n = v.input.size(0);
  const bool threads_help = any_above_one(v.stride) || any_above_one(v.dilation) || n >= 16 || k(-1) != 1 ||
                            k(-2) != 1 || at::get_num_threads() > 1;
  const bool large = v.groups > 1 || (k(-1) > 3 && k(-2) > 3) || n > 1 ||
                     (v.input.dim() > 3 && product(v.input.sizes().slice(0, 4)) > 20480);
  return threads_help && large;
}
/// Channels last when either operand is and the kernel knows it.
FXX_INLINE at::MemoryFormat convolution_format(const Convolution& v) {
  using at::MemoryFormat;
  const auto either = [&](MemoryFormat format) {
    return v.input.suggest_memory_format() == format || v.weight.suggest_memory_format() == format;
  };
  if (v.input.dim() == 4 && either(MemoryFormat::ChannelsLast)) return MemoryFormat::ChannelsLast;
  if (v.input.dim() == 5 && either(MemoryFormat::ChannelsLast3d) && uses_onednn(v)) return MemoryFormat::ChannelsLast3d;
  return MemoryFormat::Contiguous;
}

FXX_INLINE Sizes convolution_sizes(const Convolution& v) {
  Sizes sizes = {v.input.size(0), v.transposed ? v.weight.size(1) * v.groups : v.weight.size(0)};
  for (std::size_t d = 0; d < v.stride.size(); ++d) {
    const auto at = static_cast<std::int64_t>(d) + 2;
    const std::int64_t in = v.input.size(at), span = v.dilation[d] * (v.weight.size(at) - 1) + 1;
    if (v.transposed) {
      TORCH_CHECK(v.output_padding[d] < v.stride[d] || v.output_padding[d] < v.dilation[d],
                  "output padding must be smaller than either stride or dilation, but got output_padding ",
                  v.output_padding[d]);
      sizes.push_back((in - 1) * v.stride[d] - 2 * v.padding[d] + span + v.output_padding[d]);
      TORCH_CHECK(sizes.back() >= !uses_onednn(v) || in == 0, "Given input size ", v.input.sizes(),
                  ". Calculated output size is too small");
    } else {
      TORCH_CHECK(in + 2 * v.padding[d] >= span - v.may_be_empty, "Calculated padded input size per channel: (",
                  in + 2 * v.padding[d], "). Kernel size: (", span,
                  "). Kernel size can't be greater than actual input size");
      sizes.push_back(in + 2 * v.padding[d] < span ? 0 : (in + 2 * v.padding[d] - span) / v.stride[d] + 1);
    }
  }
  return sizes;
}

FXX_INLINE void give_convolution(ShapeCall& c, Convolution v) {
  check_convolution(v);
  const Sizes sizes = convolution_sizes(v);
  const bool empty = v.input.numel() == 0 || v.weight.numel() == 0;
  c.give(meta_tensor(sizes, v.input.scalar_type(), empty ? at::MemoryFormat::Contiguous : convolution_format(v)));
}
/// convolution, _convolution: input, weight, bias, stride, padding, dilation, transposed, output_padding, groups.
FXX_INLINE void convolution(ShapeCall& c) {
  give_convolution(c, {c.tensor(0), c.tensor(1), c.tensor(2), c.integers(3), c.integers(4), c.integers(5),
                       c.integers(7), c.flag(6), c.integer(8)});
}
/// mkldnn_convolution: input, weight, bias, padding, stride, dilation, groups.
FXX_INLINE void mkldnn_convolution(ShapeCall& c) {
  give_convolution(
      c, {c.tensor(0), c.tensor(1), c.tensor(2), c.integers(4), c.integers(3), c.integers(5), {}, false, c.integer(6)});
}
/// The slow ones: input, weight, kernel_size, bias, stride, padding, [output_padding,] dilation.
FXX_INLINE void give_slow_convolution(ShapeCall& c, std::size_t dilation, std::size_t output_padding = 0) {
  Convolution v{c.tensor(0),
                c.tensor(1),
                c.tensor(3),
                c.integers(4),
                c.integers(5),
                dilation ? c.integers(dilation) : Sizes{1},
                output_padding ? c.integers(output_padding) : Sizes{},
                output_padding > 0};
  const auto dims = static_cast<std::size_t>(v.weight.dim() - 2);
  TORCH_CHECK(v.stride.size() == dims && v.padding.size() == dims && (!dilation || v.dilation.size() == dims),
              "expected stride, padding and dilation of ", dims, " numbers");
  v.may_be_empty = dilation > 0;
  const bool single = dilation > 0 && v.input.dim() + 1 == v.weight.dim();
  if (single) v.input = v.input.unsqueeze(0);
  check_convolution(v);
  const Sizes sizes = convolution_sizes(v);
  Tensor out = meta_tensor(sizes, v.input.scalar_type(), convolution_format(v));
  c.give(single ? out.squeeze(0) : out);
}
FXX_INLINE void slow_convolution(ShapeCall& c) { give_slow_convolution(c, 0); }
FXX_INLINE void dilated_convolution(ShapeCall& c) { give_slow_convolution(c, 6); }
FXX_INLINE void slow_transposed_convolution(ShapeCall& c) { give_slow_convolution(c, 7, 6); }

/// grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, mask.
FXX_INLINE void convolution_backward(ShapeCall& c) {
  Convolution v{c.tensor(1),   c.tensor(2),   {},        c.integers(4), c.integers(5),
                c.integers(6), c.integers(8), c.flag(7), c.integer(9)};
  check_convolution(v);
  TORCH_CHECK(c.tensor(0).sizes() == at::IntArrayRef(convolution_sizes(v)),
              "convolution_backward: grad_output has sizes ", c.tensor(0).sizes(), ", expected ",
              at::IntArrayRef(convolution_sizes(v)));
  const auto mask = c[10].toBoolList();
  const at::MemoryFormat format = convolution_format(v);
  c.give(mask[0] ? meta_tensor(v.input.sizes(), v.input.scalar_type(), format) : Tensor());
  c.give(mask[1] ? meta_tensor(v.weight.sizes(), v.weight.scalar_type(), format) : Tensor());
  const Sizes bias = {v.transposed ? v.weight.size(1) * v.groups : v.weight.size(0)};
  c.give(mask[2] ? meta_tensor(bias, v.weight.scalar_type()) : Tensor());
}

/// (time, batch, in), (kernel, in, out), (out).
FXX_INLINE void conv_tbc(ShapeCall& c) {
  const Tensor x = c.tensor(0), weight = c.tensor(1), bias = c.tensor(2);
  TORCH_CHECK(x.dim() == 3 && weight.dim() == 3 && bias.dim() == 1,
              "conv_tbc: expected 3-dimensional input and weight, and 1-dimensional bias");
  TORCH_CHECK(x.size(2) == weight.size(1) && weight.size(2) == bias.size(0), "conv_tbc: channels do not match");
  const std::int64_t length = x.size(0) + 2 * c.integer(3) - weight.size(0) + 1;
  TORCH_CHECK(length >= 0, "conv_tbc: the kernel is longer than the padded input");
  c.give(meta_tensor({length, x.size(1), weight.size(2)}, x.scalar_type()));
}

// --- normalisation -----------------------------------------------------------------------------------------------

FXX_INLINE void check_channels(const Tensor& t, std::int64_t channels, const char* name) {
  TORCH_CHECK(!t.defined() || t.numel() == channels, "batch_norm: ", name, " should contain ", channels,
              " elements not ", t.defined() ? t.numel() : 0);
}
struct BatchNorm {
  Tensor input, weight, bias, mean, variance;
  bool training = true;
};
/// The result and the statistics that are kept for the backward pass: none outside of training.
FXX_INLINE void give_batch_norm(ShapeCall& c, const BatchNorm& n) {
  TORCH_CHECK(n.input.dim() >= 2, "batch_norm: expected at least 2 dimensions, but got ", n.input.dim());
  check_floating(n.input, "batch_norm");
  const std::int64_t channels = n.input.size(1);
  check_channels(n.weight, channels, "weight");
  check_channels(n.bias, channels, "bias");
  check_channels(n.mean, channels, "running_mean");
  check_channels(n.variance, channels, "running_var");
  TORCH_CHECK(n.training || (n.mean.defined() && n.variance.defined()),
              "running_mean and running_var must be defined in evaluation mode");
  c.give(formatted_like(n.input));
  const Sizes kept = {n.training ? channels : 0};
  const ScalarType dtype = parameter_dtype(n.input, n.weight, n.bias.defined() ? n.bias : n.mean);
  c.give(meta_tensor(kept, dtype));
  c.give(meta_tensor(kept, dtype));
}
/// input, weight, bias, running_mean, running_var, training, momentum, eps.
FXX_INLINE void batch_norm(ShapeCall& c) {
  give_batch_norm(c, {c.tensor(0), c.tensor(1), c.tensor(2), c.tensor(3), c.tensor(4), c.flag(5)});
}
FXX_INLINE void batch_norm_without_stats(ShapeCall& c) {
  give_batch_norm(c, {c.tensor(0), c.tensor(1), c.tensor(2), {}, {}, c.flag(3)});
}
FXX_INLINE void batch_norm_with_update(ShapeCall& c) {
  give_batch_norm(c, {c.tensor(0), c.tensor(1), c.tensor(2), c.tensor(3), c.tensor(4), true});
  c.give(meta_tensor({0}, at::kByte));
}
FXX_INLINE void batch_norm_update_stats(ShapeCall& c) {
  const Tensor x = c.tensor(0);
  TORCH_CHECK(x.dim() >= 2, "batch_norm: expected at least 2 dimensions, but got ", x.dim());
  check_channels(c.tensor(1), x.size(1), "running_mean");
  check_channels(c.tensor(2), x.size(1), "running_var");
  for (int i = 0; i < 2; ++i) c.give(meta_tensor({x.size(1)}, parameter_dtype(x, c.tensor(1))));
}
/// Gradients of input, weight and bias by mask.
FXX_INLINE void give_norm_gradients(ShapeCall& c, Tensor of_input, const Tensor& weight, at::IntArrayRef sizes,
                                    const c10::List<bool>& mask) {
  const ScalarType dtype = weight.defined() ? weight.scalar_type() : of_input.scalar_type();
  c.give(mask[0] ? of_input : Tensor());
  c.give(mask[1] ? meta_tensor(sizes, dtype) : Tensor());
  c.give(mask[2] ? meta_tensor(sizes, dtype) : Tensor());
}
/// grad_out, input, weight, running_mean, running_var, save_mean, save_invstd, train, eps, mask.
FXX_INLINE void batch_norm_backward(ShapeCall& c) {
  const Tensor x = c.tensor(1);
  give_norm_gradients(c, formatted_like(x), c.tensor(2), Sizes{x.size(1)}, c[9].toBoolList());
}

/// input, normalized_shape, weight, bias, eps.
FXX_INLINE void layer_norm(ShapeCall& c) {
  const Tensor x = c.tensor(0), weight = c.tensor(2), bias = c.tensor(3);
  const Sizes shape = c.integers(1);
  const auto kept = x.dim() - static_cast<std::int64_t>(shape.size());
  TORCH_CHECK(!shape.empty() && kept >= 0 &&
                  x.sizes().slice(static_cast<std::size_t>(std::max<std::int64_t>(kept, 0))) == at::IntArrayRef(shape),
              "Given normalized_shape=", at::IntArrayRef(shape), ", expected input with shape [*, ",
              at::IntArrayRef(shape), "], but got input of size", x.sizes());
  for (const Tensor& t : {weight, bias})
    TORCH_CHECK(!t.defined() || t.sizes() == at::IntArrayRef(shape),
                "Expected weight and bias to be of the same shape as "
                "normalized_shape, but got ",
                t.sizes(), " and normalized_shape = ", at::IntArrayRef(shape));
  check_floating(x, "LayerNormKernelImpl");
  Sizes statistics(x.sizes().begin(), x.sizes().end());
  std::fill(statistics.begin() + kept, statistics.end(), 1);
  c.give(contiguous_like(x));
  const ScalarType dtype = parameter_dtype(x, weight, bias);
  c.give(meta_tensor(statistics, dtype));
  c.give(meta_tensor(statistics, dtype));
}
/// grad_out, input, normalized_shape, mean, rstd, weight, bias, mask.
FXX_INLINE void layer_norm_backward(ShapeCall& c) {
  give_norm_gradients(c, contiguous_like(c.tensor(1)), c.tensor(5), c.integers(2), c[7].toBoolList());
}

/// input, weight, bias, N, C, HxW, group, eps.
FXX_INLINE void group_norm(ShapeCall& c) {
  const Tensor x = c.tensor(0), weight = c.tensor(1), bias = c.tensor(2);
  const std::int64_t n = c.integer(3), channels = c.integer(4), groups = c.integer(6);
  TORCH_CHECK(groups > 0 && channels % groups == 0, "Expected number of channels in input to be divisible by ",
              "num_groups, but got input of shape ", x.sizes(), " and num_groups=", groups);
  TORCH_CHECK(x.numel() == n * channels * c.integer(5), "native_group_norm: N, C and HxW do not fit the input");
  for (const Tensor& t : {weight, bias})
    TORCH_CHECK(!t.defined() || (t.dim() == 1 && t.numel() == channels),
                "Expected weight to be a vector of size equal to the number of channels in input");
  check_floating(x, "GroupNormKernelImpl");
  c.give(formatted_like(x));
  const ScalarType dtype = parameter_dtype(x, weight, bias);
  c.give(meta_tensor({n, groups}, dtype));
  c.give(meta_tensor({n, groups}, dtype));
}
/// grad_out, input, mean, rstd, weight, N, C, HxW, group, mask.
FXX_INLINE void group_norm_backward(ShapeCall& c) {
  give_norm_gradients(c, formatted_like(c.tensor(1)), c.tensor(4), Sizes{c.integer(6)}, c[9].toBoolList());
}

/// v, g, dim: the norms have g's shape.
FXX_INLINE void weight_norm(ShapeCall& c) {
  const Tensor v = c.tensor(0), g = c.tensor(1);
  TORCH_CHECK(c.integer(2) == 0 || c.integer(2) == v.dim() - 1,
              "fused kernels can only be applied for first or last dim");
  check_same_dtype(v, g, "_weight_norm");
  c.give(contiguous_like(v));
  c.give(contiguous_like(
      g, g.scalar_type() == at::kBFloat16 || g.scalar_type() == at::kHalf ? at::kFloat : g.scalar_type()));
}
FXX_INLINE void weight_norm_backward(ShapeCall& c) {
  c.give(contiguous_like(c.tensor(1)));
  c.give(contiguous_like(c.tensor(2)));
}

// --- pooling, padding, sampling ----------------------------------------------------------------------------------

/// Sizes of all but the last `count` dimensions, then `sizes`.
FXX_INLINE Sizes with_last(const Tensor& t, at::IntArrayRef sizes) {
  return joined(t.sizes().slice(0, static_cast<std::size_t>(t.dim()) - sizes.size()), sizes);
}
FXX_INLINE void check_spatial(const Tensor& t, std::int64_t dims, const char* op, bool channels = true) {
  TORCH_CHECK(t.dim() == dims + 1 || t.dim() == dims + 2, op, "(): Expected ", dims + 1, "D or ", dims + 2,
              "D tensor, but got ", t.sizes());
  for (std::int64_t d = t.dim() - dims - channels; d < t.dim(); ++d)
    TORCH_CHECK(t.size(d) > 0, op, "(): Expected input to have non-zero size for non-batch dimensions, but input has ",
                "sizes ", t.sizes(), " with dimension ", d, " being empty");
}
template <std::int64_t Dims>
void adaptive_average_pool(ShapeCall& c) {
  const Tensor x = c.tensor(0);
  const Sizes out = c.integers(1);
  TORCH_CHECK(out.size() == Dims, "adaptive_avg_pool: output_size must be ", Dims, " integers");
  for (std::int64_t size : out) TORCH_CHECK(size >= 0, "adaptive_avg_pool: output_size must be non-negative");
  check_spatial(x, Dims, "adaptive_avg_pool", false);
  if (x.numel() > 0 && product(out) > 0) check_floating(x, "adaptive_avg_pool");
  if (x.dim() == Dims + 2) c.restride();
  c.give(meta_tensor(with_last(x, out), x.scalar_type(),
                     Dims == 2 ? x.suggest_memory_format() : at::MemoryFormat::Contiguous));
}
FXX_INLINE void formatted_like_second(ShapeCall& c) { c.give(formatted_like(c.tensor(1))); }

FXX_INLINE std::int64_t pooled(std::int64_t in, std::int64_t kernel, std::int64_t padding, std::int64_t stride,
                               std::int64_t dilation, bool ceil) {
  TORCH_CHECK(kernel > 0 && stride > 0 && dilation > 0, "kernel size, stride and dilation should be greater than zero");
  TORCH_CHECK(padding >= 0 && padding <= ((kernel - 1) * dilation + 1) / 2,
              "pad should be at most half of effective kernel size, but got pad=", padding, ", kernel_size=", kernel);
  const std::int64_t space = in + 2 * padding - dilation * (kernel - 1) - 1;
  std::int64_t out = (space + (ceil ? stride - 1 : 0)) / stride + 1;
  if (space + (ceil ? stride - 1 : 0) < 0) out = 0;  // rounded down
  if (ceil && (out - 1) * stride >= in + padding) --out;
  TORCH_CHECK(out >= 1, "Output size is too small for input size ", in);
  return out;
}
/// self, kernel_size, stride, padding, dilation, ceil_mode.
FXX_INLINE void max_pool3d(ShapeCall& c) {
  const Tensor x = c.tensor(0);
  check_spatial(x, 3, "max_pool3d");
  const Sizes kernel = expanded(c.integers(1), 3, "kernel_size");
  const Sizes stride = c.integers(2).empty() ? kernel : expanded(c.integers(2), 3, "stride");
  const Sizes padding = expanded(c.integers(3), 3, "padding"), dilation = expanded(c.integers(4), 3, "dilation");
  Sizes out;
  for (std::size_t d = 0; d < 3; ++d)
    out.push_back(pooled(x.size(x.dim() - 3 + static_cast<std::int64_t>(d)), kernel[d], padding[d], stride[d],
                         dilation[d], c.flag(5)));
  const Sizes sizes = with_last(x, out);
  c.give(meta_tensor(sizes, x.scalar_type(), x.suggest_memory_format()));
  c.give(meta_tensor(sizes, at::kLong, x.suggest_memory_format()));
}
template <std::int64_t Dims>
void max_unpool(ShapeCall& c) {
  const Tensor x = c.tensor(0), indices = c.tensor(1);
  const Sizes out = c.integers(2);
  TORCH_CHECK(out.size() == Dims, "There should be exactly ", Dims, " elements in output_size, but got ", out.size());
  TORCH_CHECK(indices.scalar_type() == at::kLong,
              "elements in indices should be type int64 but got: ", indices.scalar_type());
  TORCH_CHECK(x.sizes() == indices.sizes(), "Expected shape of indices to be same as that of the input tensor (",
              x.sizes(), ") but got indices tensor with shape: ", indices.sizes());
  check_spatial(x, Dims, "max_unpool");
  c.give(meta_tensor(with_last(x, out), x.scalar_type(),
                     Dims == 2 ? x.suggest_memory_format() : at::MemoryFormat::Contiguous));
}

/// self, padding: (left, right, top, bottom).
FXX_INLINE void reflection_pad2d(ShapeCall& c) {
  const Tensor x = c.tensor(0);
  const Sizes pad = c.integers(1);
  if (x.dim() == 4) c.restride();
  TORCH_CHECK(pad.size() == 4, "padding size is expected to be 4, but got ", pad.size());
  check_spatial(x, 2, "reflection_pad2d");
  const std::int64_t height = x.size(-2), width = x.size(-1);
  TORCH_CHECK(pad[0] < width && pad[1] < width && pad[2] < height && pad[3] < height,
              "Padding size should be less than the corresponding input dimension, but got: padding ",
              at::IntArrayRef(pad), " of input ", x.sizes());
  const Sizes out = {height + pad[2] + pad[3], width + pad[0] + pad[1]};
  TORCH_CHECK(out[0] >= 1 || out[1] >= 1, "input ", x.sizes(), " is too small for padding ", at::IntArrayRef(pad));
  c.give(meta_tensor(with_last(x, out), x.scalar_type(), x.suggest_memory_format()));
}

template <std::size_t Dims>
void replication_pad(ShapeCall& c) {
  const Tensor x = c.tensor(0);
  const Sizes pad = c.integers(1);
  TORCH_CHECK(pad.size() == 2 * Dims, "padding size is expected to be ", 2 * Dims, ", but got ", pad.size());
  check_spatial(x, Dims, "replication_pad");
  Sizes out;
  for (std::size_t d = 0; d < Dims; ++d) {
    const std::size_t at = 2 * (Dims - 1 - d);
    out.push_back(x.size(x.dim() - static_cast<std::int64_t>(Dims - d)) + pad[at] + pad[at + 1]);
  }
  TORCH_CHECK(std::any_of(out.begin(), out.end(), [](std::int64_t size) { return size >= 1; }), "input ", x.sizes(),
              " is too small for padding ", at::IntArrayRef(pad));
  c.give(meta_tensor(with_last(x, out), x.scalar_type(), x.suggest_memory_format()));
}
/// self, factor: channels become pixels, or back.
FXX_INLINE void give_shuffled_pixels(ShapeCall& c, bool back) {
  const Tensor x = c.tensor(0);
  const std::int64_t r = c.integer(1);
  TORCH_CHECK(x.dim() >= 3 && r > 0,
              "pixel_shuffle expects input to have at least 3 dimensions and a positive factor, but"
              " got input with ",
              x.dim(), " dimension(s) and ", r);
  TORCH_CHECK(x.suggest_memory_format() != at::MemoryFormat::ChannelsLast3d,
              "Unsupported memory format. Supports only ChannelsLast, Contiguous");
  const std::int64_t channels = x.size(-3), height = x.size(-2), width = x.size(-1);
  TORCH_CHECK(back ? height % r == 0 && width % r == 0 : channels % (r * r) == 0,
              "pixel_shuffle expects its input to be divisible by the factor ", r, ", but got ", x.sizes());
  const Sizes out =
      back ? Sizes{channels * r * r, height / r, width / r} : Sizes{channels / r / r, height * r, width * r};
  c.give(meta_tensor(with_last(x, out), x.scalar_type(), x.suggest_memory_format()));
}
FXX_INLINE void pixel_shuffle(ShapeCall& c) { give_shuffled_pixels(c, false); }
FXX_INLINE void pixel_unshuffle(ShapeCall& c) { give_shuffled_pixels(c, true); }

/// input, grid: (N, C, [D,] H, W), (N, [D,] H, W, dims).
template <std::int64_t Dims>
void grid_sampler(ShapeCall& c) {
  const Tensor x = c.tensor(0), grid = c.tensor(1);
  TORCH_CHECK(x.dim() == Dims + 2 && grid.dim() == x.dim(), "grid_sampler(): expected ", Dims + 2,
              "D input and grid with same number of dimensions, but got input with sizes ", x.sizes(),
              " and grid with sizes ", grid.sizes());
  TORCH_CHECK(x.size(0) == grid.size(0) && grid.size(-1) == Dims,
              "grid_sampler(): expected grid and input to have same batch size, and grid to have size ", Dims,
              " in last dimension, but got input with sizes ", x.sizes(), " and grid with sizes ", grid.sizes());
  Sizes sizes = {x.size(0), x.size(1)};
  for (std::int64_t d = 1; d <= Dims; ++d) sizes.push_back(grid.size(d));
  c.give(meta_tensor(sizes, x.scalar_type()));
}
/// grad_output, input, grid, ..., mask.
FXX_INLINE void grid_sampler_backward(ShapeCall& c) {
  c.give(c[6].toBoolList()[0] ? contiguous_like(c.tensor(1)) : Tensor());
  c.give(contiguous_like(c.tensor(2)));
}

/// The number of places where a window fits.
FXX_INLINE std::int64_t windows(std::int64_t in, std::int64_t kernel, std::int64_t dilation, std::int64_t padding,
                                std::int64_t stride) {
  TORCH_CHECK(kernel > 0 && dilation > 0 && stride > 0 && padding >= 0,
              "kernel size, dilation and stride should be greater than zero, padding non-negative");
  const std::int64_t space = in + 2 * padding - (dilation * (kernel - 1) + 1);
  TORCH_CHECK(space >= 0, "the sliding blocks do not fit an input of size ", in);
  return space / stride + 1;
}
/// self, kernel_size, dilation, padding, stride.
FXX_INLINE void im2col(ShapeCall& c) {
  const Tensor x = c.tensor(0);
  TORCH_CHECK(x.dim() == 3 || x.dim() == 4, "Expected 3D or 4D (batch mode) tensor for input, but got: ", x.sizes());
  for (std::int64_t d = x.dim() == 4; d < x.dim(); ++d)
    TORCH_CHECK(x.size(d) > 0, "Expected non-zero dimensions for input, but got: ", x.sizes());
  const Sizes k = c.integers(1), dilation = c.integers(2), padding = c.integers(3), stride = c.integers(4);
  TORCH_CHECK(k.size() == 2 && dilation.size() == 2 && padding.size() == 2 && stride.size() == 2,
              "im2col: expected two numbers of each kind");
  Sizes sizes = {x.size(-3) * product(k), windows(x.size(-2), k[0], dilation[0], padding[0], stride[0]) *
                                              windows(x.size(-1), k[1], dilation[1], padding[1], stride[1])};
  if (x.dim() == 4) sizes.insert(sizes.begin(), x.size(0));
  else c.restride();
  c.give(meta_tensor(sizes, x.scalar_type()));
}
/// self, output_size, kernel_size, dilation, padding, stride.
FXX_INLINE void col2im(ShapeCall& c) {
  const Tensor x = c.tensor(0);
  TORCH_CHECK(x.dim() == 2 || x.dim() == 3, "Expected 2D or 3D (batch mode) tensor for input, but got: ", x.sizes());
  const Sizes out = c.integers(1), k = c.integers(2), dilation = c.integers(3), padding = c.integers(4),
              stride = c.integers(5);
  TORCH_CHECK(out.size() == 2 && k.size() == 2 && dilation.size() == 2 && padding.size() == 2 && stride.size() == 2,
              "col2im: expected two numbers of each kind");
  const std::int64_t blocks = windows(out[0], k[0], dilation[0], padding[0], stride[0]) *
                              windows(out[1], k[1], dilation[1], padding[1], stride[1]);
  TORCH_CHECK(x.size(-2) % product(k) == 0, "Expected size of input's dimension 1 to be divisible by the product of ",
              "kernel_size, but got input.size(1)=", x.size(-2));
  TORCH_CHECK(x.size(-1) == blocks, "Given output_size=", at::IntArrayRef(out), ", expected size of input's last ",
              "dimension to match the calculated number of sliding blocks ", blocks, ", but got ", x.size(-1));
  Sizes sizes = {x.size(-2) / product(k), out[0], out[1]};
  if (x.dim() == 3) sizes.insert(sizes.begin(), x.size(0));
  c.give(meta_tensor(sizes, x.scalar_type()));
}

// --- attention, recurrence ---------------------------------------------------------------------------------------

/// (batch, heads, length, width), laid out as (batch, length, heads, width).
FXX_INLINE Tensor heads_inside(at::IntArrayRef s, ScalarType dtype) {
  return meta_tensor(s, Sizes{s[2] * s[1] * s[3], s[3], s[1] * s[3], 1}, dtype);
}
FXX_INLINE void flash_attention(ShapeCall& c) {
  const Tensor q = c.tensor(0), k = c.tensor(1), v = c.tensor(2);
  TORCH_CHECK(q.dim() == 4 && k.dim() == 4 && v.dim() == 4, "Accept only 4 dims inputs shape of {B, H, T, K}");
  TORCH_CHECK(q.size(3) == k.size(3) && q.size(3) == v.size(3), "Q/K/V should have the same head size");
  check_floating(q, "flash_attention");
  c.give(like(q));
  const ScalarType sums = q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const Sizes rows = {q.size(0), q.size(1), q.size(2)};
  c.give(meta_tensor(rows, Sizes{rows[2] * rows[1], 1, rows[1]}, sums));
}
FXX_INLINE void flash_attention_backward(ShapeCall& c) {
  for (std::size_t i = 1; i <= 3; ++i) c.give(heads_inside(c.tensor(i).sizes(), c.tensor(i).scalar_type()));
}
/// What the CPU would take decides, by sizes alone.
FXX_INLINE void attention_choice(ShapeCall& c) {
  torch::jit::Stack stack;
  for (std::size_t i = 0; i < c.op().schema().arguments().size(); ++i) stack.push_back(c[i]);
  c.op().redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack);
  c.give(std::move(stack.back()));
}

/// CUDA's cells: gates of the input, gates of the hidden state, the state before; the last result is for the gradient.
FXX_INLINE void fused_lstm_cell(ShapeCall& c) {
  c.give(contiguous_like(c.tensor(2)));
  c.give(contiguous_like(c.tensor(2)));
  c.give(contiguous_like(c.tensor(0)));
}
FXX_INLINE void fused_gru_cell(ShapeCall& c) {
  const Tensor state = c.tensor(2);
  c.give(contiguous_like(state));
  c.give(meta_tensor({state.size(0), 5 * state.size(1)}, state.scalar_type()));
}

/// input (time, batch, in), four weights, hx, cx, ...: one layer in one direction.
FXX_INLINE void mkldnn_rnn_layer(ShapeCall& c) {
  const Tensor x = c.tensor(0), h = c.tensor(5), state = c.tensor(6);
  TORCH_CHECK(x.dim() == 3, "mkldnn_rnn_layer: expected a 3-dimensional input, but got ", x.sizes());
  c.give(meta_tensor({x.size(0), x.size(1), c.integer(10)}, x.scalar_type()));
  c.give(contiguous_like(h));
  c.give(contiguous_like(state));
  c.give(c.flag(15) ? meta_tensor({0}, at::kByte) : Tensor());
}
FXX_INLINE void mkldnn_rnn_layer_backward(ShapeCall& c) {
  c.give(contiguous_like(c.tensor(0)));
  for (std::size_t i = 1; i <= 4; ++i) c.give(contiguous_like(c.tensor(i)));
  c.give(contiguous_like(c.tensor(5)));
  c.give(contiguous_like(c.tensor(6)));
}

// --- embeddings and indices --------------------------------------------------------------------------------------

FXX_INLINE void check_index(const Tensor& index, const char* op) {
  TORCH_CHECK(index.scalar_type() == at::kLong || index.scalar_type() == at::kInt, op,
              ": Expected dtype int32 or int64 for index, but got ", index.scalar_type());
}
/// self, dim, index.
FXX_INLINE void index_select(ShapeCall& c) {
  const Tensor x = c.tensor(0), index = c.tensor(2);
  check_index(index, "index_select()");
  TORCH_CHECK_INDEX(index.dim() <= 1, "index_select(): Index is supposed to be a vector");
  const std::int64_t dim = wrapped(c.integer(1), x.dim());
  TORCH_CHECK(x.dim() > 0 || index.numel() == 1, "index_select(): Index to scalar can have only 1 value, got ",
              index.numel(), " value(s)");
  TORCH_CHECK_INDEX(x.dim() == 0 || x.size(dim) > 0 || index.numel() == 0, "index out of range in self");
  Sizes sizes = x.sizes().vec();
  if (x.dim() > 0) sizes[static_cast<std::size_t>(dim)] = index.numel();
  c.give(meta_tensor(sizes, x.scalar_type()));
}
FXX_INLINE void take(ShapeCall& c) {
  const Tensor x = c.tensor(0), index = c.tensor(1);
  TORCH_CHECK(index.scalar_type() == at::kLong, "take(): Expected a long tensor for index, but got ",
              index.scalar_type());
  TORCH_CHECK_INDEX(x.numel() > 0 || index.numel() == 0, "take(): tried to take from an empty tensor");
  c.give(contiguous_like(index, x.scalar_type()));
}
/// self, dim, index, value.
FXX_INLINE void index_fill(ShapeCall& c) {
  const Tensor x = c.tensor(0), index = c.tensor(2);
  TORCH_CHECK_INDEX(index.scalar_type() == at::kLong, "index_fill_(): Expected dtype int64 for index.");
  TORCH_CHECK_INDEX(index.dim() <= 1, "Index has to be a vector/scalar");
  const std::int64_t dim = wrapped(c.integer(1), x.dim());
  TORCH_CHECK_INDEX(x.dim() == 0 || x.size(dim) > 0 || index.numel() == 0, "index is out of bounds for dimension ", dim,
                    " with size 0");
  if (c[3].isTensor())
    TORCH_CHECK(c.tensor(3).dim() == 0, "index_fill_ only supports a 0-dimensional value tensor, but got tensor with ",
                c.tensor(3).dim(), " dimension(s).");
  c.give(like(x));
}
/// grad_output, indices, num_weights, ...
FXX_INLINE void embedding_backward(ShapeCall& c) {
  const Tensor grad = c.tensor(0);
  check_index(c.tensor(1), "embedding_backward");
  c.give(meta_tensor({c.integer(2), grad.size(-1)}, grad.scalar_type()));
}
/// weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset, padding_idx.
FXX_INLINE void embedding_bag(ShapeCall& c) {
  const Tensor weight = c.tensor(0), indices = c.tensor(1), offsets = c.tensor(2), scales = c.tensor(6);
  const std::int64_t mode = c.integer(4);  // 0 sum, 1 mean, 2 max
  TORCH_CHECK(weight.dim() == 2, "weight has to be a 2D Tensor, but got Tensor of dimension ", weight.dim());
  check_index(indices, "embedding_bag");
  check_index(offsets, "embedding_bag");
  TORCH_CHECK(indices.dim() == 1 || indices.dim() == 2, "input has to be a 1D or 2D Tensor");
  TORCH_CHECK(offsets.dim() == 1, "offsets has to be a 1D Tensor");
  const bool last = c.flag(7);
  TORCH_CHECK(!last || offsets.size(0) >= 1, "include_last_offset: number of offset should be at least 1");
  TORCH_CHECK(!scales.defined() || (mode == 0 && scales.dim() == 1 && scales.numel() == indices.numel()),
              "embedding_bag: per_sample_weights goes with mode 'sum' and has one weight for each index");
  const std::int64_t bags = offsets.size(0) - last;
  const ScalarType type = weight.scalar_type(), index = indices.scalar_type();
  const bool fast = mode == 0 && (type == at::kFloat || type == at::kHalf || type == at::kBFloat16) &&
                    weight.stride(1) == 1 && c.integer(8) < 0 && (!scales.defined() || scales.stride(0) == 1);
  const std::int64_t counted = mode == 0 ? offsets.size(0) : bags;
  c.give(meta_tensor({bags, weight.size(1)}, type));
  c.give(meta_tensor({fast ? 0 : indices.size(0)}, index));
  c.give(meta_tensor({counted}, index));
  if (mode == 2) c.give(meta_tensor({bags, weight.size(1)}, index));
  else c.give(meta_tensor({counted}, index));
}
/// grad, indices, offset2bag, bag_size, maximum_indices, num_weights, ...
FXX_INLINE void embedding_bag_dense_backward(ShapeCall& c) {
  c.give(meta_tensor({c.integer(5), c.tensor(0).size(1)}, c.tensor(0).scalar_type()));
}
/// grad, indices, offsets, offset2bag, bag_size, maximum_indices, num_weights, scale_grad_by_freq, mode, sparse, ...
FXX_INLINE void embedding_bag_backward(ShapeCall& c) {
  TORCH_CHECK(!c.flag(9), "embedding_bag: a sparse gradient cannot be fake");
  c.give(meta_tensor({c.integer(6), c.tensor(0).size(1)}, c.tensor(0).scalar_type()));
}
FXX_INLINE void embedding_bag_weights_backward(ShapeCall& c) {
  c.give(meta_tensor({c.tensor(2).numel()}, c.tensor(0).scalar_type()));
}
/// repeats, output_size.
FXX_INLINE void repeat_interleave(ShapeCall& c) {
  if (!c.has(1)) refuse_elements(c.op().operator_name());
  TORCH_CHECK(c.tensor(0).dim() == 1, "repeat_interleave only accept 1D vector as repeat");
  c.give(meta_tensor({c.integer(1)}, c.tensor(0).scalar_type()));
}
/// self, size, fill_value.
FXX_INLINE void nonzero_static(ShapeCall& c) {
  TORCH_CHECK(c.integer(1) >= 0, "nonzero_static: 'size' must be an non-negative integer");
  c.give(meta_tensor({c.integer(1), c.tensor(0).dim()}, at::kLong));
}
FXX_INLINE void unfold_backward(ShapeCall& c) { c.give(meta_tensor(c.integers(1), c.tensor(0).scalar_type())); }

// --- reductions and order ----------------------------------------------------------------------------------------

FXX_INLINE void give_values_and_indices(ShapeCall& c, const Sizes& sizes) {
  c.give(meta_tensor(sizes, c.tensor(0).scalar_type()));
  c.give(meta_tensor(sizes, at::kLong));
}
FXX_INLINE void check_reduced(const Tensor& t, std::int64_t dim, const char* op) {
  TORCH_CHECK_INDEX(t.dim() == 0 || t.size(wrapped(dim, t.dim())) > 0, op, "(): Expected reduction dim ", dim,
                    " to have non-zero size.");
}
/// self, dim, keepdim: values and indices.
FXX_INLINE void select_over_dim(ShapeCall& c) {
  const Tensor x = c.tensor(0);
  check_reduced(x, c.integer(1), "median or mode");
  refuse_dtype(x, x.is_complex() && x.dim() > 0 && x.numel() > 0, "median or mode");
  give_values_and_indices(c, reduced(c.tensor(0), {c.integer(1)}, c.flag(2)));
}
FXX_INLINE void median_over_dim(ShapeCall& c) {
  refuse_dtype(c.tensor(0), is_bool(c.tensor(0)) || c.tensor(0).is_complex(), "median_out");
  select_over_dim(c);
}
/// self, k, dim, keepdim.
FXX_INLINE void kthvalue(ShapeCall& c) {
  const Tensor x = c.tensor(0);
  refuse_dtype(x, (is_bool(x) || x.is_complex()) && x.dim() > 0, "kthvalue_cpu");
  const std::int64_t dim = wrapped(c.integer(2), x.dim()), size = x.dim() ? x.size(dim) : 1;
  TORCH_CHECK(c.integer(1) >= 1 && c.integer(1) <= size, "kthvalue(): selected number k out of range for dimension ",
              dim);
  give_values_and_indices(c, reduced(x, {dim}, c.flag(3)));
}
/// One element: a median, the largest.
FXX_INLINE void one_element(ShapeCall& c) { c.give(meta_tensor({}, c.tensor(0).scalar_type())); }
FXX_INLINE void median(ShapeCall& c) {
  refuse_dtype(c.tensor(0), (is_bool(c.tensor(0)) || c.tensor(0).is_complex()) && c.tensor(0).numel() > 0,
               "median_cpu");
  one_element(c);
}
FXX_INLINE void largest(ShapeCall& c) {
  c.allow_cast();
  check_ordered(c.tensor(0), "max_all");
  TORCH_CHECK(c.tensor(0).numel() > 0,
              "max(): Expected reduction dim to be specified for input.numel() == 0. Specify "
              "the reduction dim with the 'dim' argument.");
  one_element(c);
}
FXX_INLINE void smallest_and_largest(ShapeCall& c) {
  largest(c);
  one_element(c);
}
FXX_INLINE void smallest_and_largest_over_dim(ShapeCall& c) {
  const Sizes sizes = reduced(c.tensor(0), {c.integer(1)}, c.flag(2));
  for (int i = 0; i < 2; ++i) c.give(meta_tensor(sizes, c.tensor(0).scalar_type()));
}
/// self, dtype.
FXX_INLINE void product_of_all(ShapeCall& c) {
  c.give(meta_tensor({}, c.dtype(1, sum_dtype(c.tensor(0).scalar_type()))));
}
/// self, dim, keepdim, dtype.
FXX_INLINE void nansum(ShapeCall& c) {
  const Tensor x = c.tensor(0);
  c.allow_cast();
  TORCH_CHECK(!x.is_complex(), "nansum does not support complex inputs");
  c.give(meta_tensor(reduced(x, optional_dims(c, 1), c.flag(2)), c.dtype(3, sum_dtype(x.scalar_type()))));
}
FXX_INLINE void give_deviation(ShapeCall& c, bool mean) {
  const Tensor x = c.tensor(0);
  TORCH_CHECK(at::isFloatingType(x.scalar_type()) || x.is_complex(),
              "std and var only support floating point and complex dtypes");
  c.allow_cast();
  const Sizes sizes = reduced(x, optional_dims(c, 1), c.flag(3));
  c.give(meta_tensor(sizes, c10::toRealValueType(x.scalar_type())));
  if (mean) c.give(meta_tensor(sizes, x.scalar_type()));
}
/// self, dim, correction, keepdim.
FXX_INLINE void deviation(ShapeCall& c) { give_deviation(c, false); }
FXX_INLINE void deviation_and_mean(ShapeCall& c) { give_deviation(c, true); }
/// self, dim.
FXX_INLINE void cumulative(ShapeCall& c) {
  check_floating_or_complex(c.tensor(0), "logcumsumexp_out_cpu");
  wrapped(c.integer(1), c.tensor(0).dim());
  contiguous_like_first(c);
}
FXX_INLINE void count_nonzero(ShapeCall& c) {
  c.give(meta_tensor(reduced(c.tensor(0), c.integers(1), false), at::kLong));
}
/// data, reduce, lengths, indices, offsets, axis.
FXX_INLINE void segment_reduce(ShapeCall& c) {
  const Tensor x = c.tensor(0), lengths = c.tensor(2), offsets = c.tensor(4);
  const std::int64_t axis = wrapped(c.integer(5), x.dim());
  TORCH_CHECK(lengths.defined() || offsets.defined(), "segment_reduce(): Either lengths or offsets must be defined.");
  const Tensor& segments = lengths.defined() ? lengths : offsets;
  TORCH_CHECK(axis == segments.dim() - 1,
              "segment_reduce(): Expected axis to be the last dimension of lengths or "
              "offsets but got ",
              axis);
  Sizes sizes = x.sizes().vec();
  sizes[static_cast<std::size_t>(axis)] = segments.size(axis) - !lengths.defined();
  c.give(meta_tensor(sizes, x.scalar_type()));
}
FXX_INLINE void trace_of_matrix(ShapeCall& c) {
  refuse_dtype(c.tensor(0), is_bool(c.tensor(0)), "trace");
  TORCH_CHECK(c.tensor(0).dim() == 2, "trace: expected a matrix, but got tensor with dim ", c.tensor(0).dim());
  c.give(meta_tensor({}, sum_dtype(c.tensor(0).scalar_type())));
}
/// self, bins, min, max.
FXX_INLINE void histc(ShapeCall& c) {
  check_floating(c.tensor(0), "histc");
  TORCH_CHECK(c.integer(1) > 0, "histc(): bins must be > 0");
  c.give(meta_tensor({c.integer(1)}, c.tensor(0).scalar_type()));
}
FXX_INLINE void histogram(ShapeCall& c) {
  const Tensor x = c.tensor(0);
  const bool half = x.scalar_type() == at::kHalf || x.scalar_type() == at::kBFloat16;
  refuse_dtype(x, half ? x.numel() > 0 : !at::isFloatingType(x.scalar_type()), "histogramdd");
  TORCH_CHECK(!c[1].isTensor() || c.tensor(1).dim() == 1, "torch.histogram: bins tensor should have one dimension");
  const ScalarType type = c.tensor(0).scalar_type();
  const std::int64_t bins = c[1].isTensor() ? c.tensor(1).numel() - 1 : c.integer(1);
  TORCH_CHECK(bins > 0, "histogram(): expected at least one bin");
  c.give(meta_tensor({bins}, type));
  c.give(meta_tensor({bins + 1}, type));
}
/// (Tensor or number, boundaries, out_int32, ...): an index for each.
FXX_INLINE void bucketize(ShapeCall& c) {
  for (std::size_t i = 0; i < 2; ++i)
    if (c[i].isTensor() && c.tensor(i).numel() > 0) check_ordered(c.tensor(i), "searchsorted_out_cpu");
  const Tensor boundaries = c.tensor(1);
  TORCH_CHECK(boundaries.dim() == 1, "bucketize(): boundaries tensor must be 1 dimension, but got dim(",
              boundaries.dim(), ")");
  const ScalarType type = c.flag(2) ? at::kInt : at::kLong;
  c.give(c[0].isTensor() ? contiguous_like(c.tensor(0), type) : meta_tensor({}, type));
}
/// sorted_sequence, self, out_int32, right, side, sorter.
FXX_INLINE void searchsorted(ShapeCall& c) {
  for (std::size_t i = 0; i < 2; ++i)
    if (c[i].isTensor() && c.tensor(i).numel() > 0) check_ordered(c.tensor(i), "searchsorted_out_cpu");
  const Tensor sorted = c.tensor(0);
  const ScalarType type = c.flag(2) ? at::kInt : at::kLong;
  if (!c[1].isTensor()) {
    TORCH_CHECK(sorted.dim() == 1,
                "searchsorted(): input value can be a scalar only when boundaries tensor dimension is 1");
    c.give(meta_tensor({}, type));
    return;
  }
  const Tensor x = c.tensor(1);
  TORCH_CHECK(
      sorted.dim() == 1 || (sorted.dim() == x.dim() && sorted.dim() > 0 &&
                            sorted.sizes().slice(0, static_cast<std::size_t>(sorted.dim() - 1)) ==
                                x.sizes().slice(0, static_cast<std::size_t>(x.dim() - 1))),
      "searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor "
      "and input value tensor must match, but we got boundaries tensor ",
      sorted.sizes(), " and input value tensor ", x.sizes());
  c.give(contiguous_like(x, type));
}
FXX_INLINE void multinomial(ShapeCall& c) {
  const Tensor x = c.tensor(0);
  const std::int64_t samples = c.integer(1);
  TORCH_CHECK(x.dim() == 1 || x.dim() == 2, "prob_dist must be 1 or 2 dim");
  check_floating(x, "multinomial");
  TORCH_CHECK(x.size(-1) <= (1 << 24), "number of categories cannot exceed 2^24");
  TORCH_CHECK(x.size(-1) > 0, "invalid multinomial distribution (sum of probabilities <= 0)");
  TORCH_CHECK(samples > 0, "cannot sample n_sample <= 0 samples");
  TORCH_CHECK(c.flag(2) || samples <= x.size(-1),
              "cannot sample n_sample > prob_dist.size(-1) samples without replacement");
  c.give(x.dim() == 1 ? meta_tensor({samples}, at::kLong) : meta_tensor({x.size(0), samples}, at::kLong));
}

// --- moving elements ---------------------------------------------------------------------------------------------

FXX_INLINE Tensor rolled(const Tensor& x, const Sizes& shifts, const Sizes& dims) {
  if (dims.empty() && shifts.size() == 1) return rolled(x.flatten(), shifts, {0}).view(x.sizes());
  TORCH_CHECK(!shifts.empty(), "`shifts` required");
  TORCH_CHECK(shifts.size() == dims.size(), "shifts and dimensions must align. shifts: ", shifts.size(),
              ", dims:", dims.size());
  if (x.numel() == 0) return like(x);
  Tensor out = x;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    // Where the tensor is cut; the parts change places.
    const std::int64_t dim = wrapped(dims[i], x.dim()), size = x.size(dim);
    const std::int64_t start = ((size - shifts[i]) % size + size) % size;
    out = at::_ops::cat::call({{out.narrow(dim, start, size - start), out.narrow(dim, 0, start)}}, dim);
  }
  return out;
}
FXX_INLINE void roll(ShapeCall& c) { c.give(rolled(c.tensor(0), c.integers(1), c.integers(2))); }
FXX_INLINE void flip(ShapeCall& c) {
  reduced(c.tensor(0), c.integers(1), false);  // checks the dims
  c.give(like(c.tensor(0)));
}
FXX_INLINE void channel_shuffle(ShapeCall& c) {
  const Tensor x = c.tensor(0);
  TORCH_CHECK(x.dim() > 2, "channel_shuffle expects input with > 2 dims, but got input with sizes ", x.sizes());
  TORCH_CHECK(c.integer(1) > 0 && x.size(1) % c.integer(1) == 0,
              "Number of groups to divide channels in must be positive"
              " and divide the channels. Value of groups:",
              c.integer(1));
  c.give(formatted_like(x));
}
/// self, dim, start, length.
FXX_INLINE void narrow_copy(ShapeCall& c) {
  const Tensor x = c.tensor(0);
  Sizes sizes = x.sizes().vec();
  const std::int64_t dim = wrapped(c.integer(1), x.dim());
  std::int64_t start = c.integer(2), length = c.integer(3);
  TORCH_CHECK(x.dim() > 0 && length >= 0,
              "narrow() cannot be applied to a 0-dim tensor, and length must be non-negative.");
  if (start != x.size(dim)) start = c10::maybe_wrap_dim(start, x.size(dim));
  TORCH_CHECK(start + length <= x.size(dim), "start (", start, ") + length (", length, ") exceeds dimension size (",
              x.size(dim), ").");
  sizes[static_cast<std::size_t>(dim)] = length;
  c.give(meta_tensor(sizes, x.scalar_type()));
}
/// condition, self, other.
FXX_INLINE void where(ShapeCall& c) {
  const Tensor condition = c.tensor(0), a = c.tensor(1), b = c.tensor(2);
  TORCH_CHECK(condition.scalar_type() == at::kBool || condition.scalar_type() == at::kByte,
              "where expected condition to be a boolean tensor, but got a tensor with dtype ", condition.scalar_type());
  c.give(pointwise({condition, a, b}, Promotion::common, at::_ops::result_type_Tensor::call(a, b)));
}
/// n, generator, out.
FXX_INLINE void randperm(ShapeCall& c) {
  TORCH_CHECK(c.integer(0) >= 0, "n must be non-negative, got", c.integer(0));
  c.give(meta_tensor({c.integer(0)}, c.tensor(2).scalar_type()));
}
/// row, col, offset, dtype.
FXX_INLINE void give_triangle(ShapeCall& c, bool lower) {
  const std::int64_t rows = c.integer(0), columns = c.integer(1), offset = c.integer(2);
  TORCH_CHECK(rows >= 0 && columns >= 0, "row and col must be non-negative, got ", rows, " and ", columns);
  std::int64_t below = 0;  // pairs with column <= row + bound
  const std::int64_t bound = lower ? offset : offset - 1;
  for (std::int64_t r = 0; r < rows; ++r) below += std::clamp<std::int64_t>(r + bound + 1, 0, columns);
  c.give(meta_tensor({2, lower ? below : rows * columns - below}, c.dtype(3, at::kLong)));
}
FXX_INLINE void lower_triangle(ShapeCall& c) { give_triangle(c, true); }
FXX_INLINE void upper_triangle(ShapeCall& c) { give_triangle(c, false); }

// --- numbers -----------------------------------------------------------------------------------------------------

/// Two real tensors as one complex one.
FXX_INLINE void as_complex(ShapeCall& c) {
  const Tensor a = c.tensor(0), b = c.tensor(1);
  TORCH_CHECK(
      at::isFloatingType(a.scalar_type()) && at::isFloatingType(b.scalar_type()) && a.scalar_type() != at::kBFloat16,
      "Expected both inputs to be Half, Float or Double tensors but got ", a.scalar_type(), " and ", b.scalar_type());
  check_same_dtype(a, b, "complex");
  c.give(pointwise({a, b}, Promotion::none, c10::toComplexType(a.scalar_type())));
}
FXX_INLINE void frexp(ShapeCall& c) {
  check_floating(c.tensor(0), "frexp");
  c.give(pointwise({c.tensor(0)}));
  c.give(pointwise({c.tensor(0)}, Promotion::none, at::kInt));
}
FXX_INLINE void prelu_backward(ShapeCall& c) {
  for (int i = 0; i < 2; ++i) c.give(pointwise({c.tensor(1), c.tensor(2), c.tensor(0)}));
}
FXX_INLINE void log_sigmoid(ShapeCall& c) {
  check_floating(c.tensor(0), "log_sigmoid_cpu");
  for (int i = 0; i < 2; ++i) c.give(contiguous_like(c.tensor(0)));
}
FXX_INLINE void noisy_relu(ShapeCall& c) {
  const Tensor x = c.tensor(0);
  refuse_dtype(x, !at::isFloatingType(x.scalar_type()) || x.scalar_type() == at::kHalf, "rrelu_with_noise_out_cpu");
  c.give(contiguous_like(x));
}
FXX_INLINE void glu_backward(ShapeCall& c) {
  const Tensor x = c.tensor(1);
  TORCH_CHECK(x.dim() > 0, "glu does not support 0-dimensional tensors");
  const std::int64_t dim = wrapped(c.integer(2), x.dim());
  TORCH_CHECK(x.size(dim) % 2 == 0, "Halving dimension must be even, but dimension ", dim, " is size ", x.size(dim));
  c.give(contiguous_like(x));
}
FXX_INLINE void dropout(ShapeCall& c) {
  const Tensor x = c.tensor(0);
  if (x.numel() == 0) {
    c.give(x);
    c.give(like(x));
    return;
  }
  refuse_dtype(x, at::isIntegralType(x.scalar_type(), true), "native_dropout");
  c.give(like(x));
  c.give(like(x, at::kBool));
}
FXX_INLINE void masked_softmax(ShapeCall& c) {
  TORCH_CHECK(c.tensor(1).scalar_type() == at::kBool, "Mask should be a boolean tensor");
  c.give(contiguous_like(c.tensor(0)));
}
FXX_INLINE void fake_quantized(ShapeCall& c) {
  c.give(like(c.tensor(0)));
  c.give(like(c.tensor(0), at::kBool));
}
FXX_INLINE void learnable_quantized_backward(ShapeCall& c) {
  for (std::size_t i = 1; i <= 3; ++i) c.give(contiguous_like(c.tensor(i)));
}

// --- losses ------------------------------------------------------------------------------------------------------

/// self, target, weight, reduction.
FXX_INLINE void cross_entropy_of_bits(ShapeCall& c) {
  const Tensor x = c.tensor(0), target = c.tensor(1);
  check_floating(x, "binary_cross_entropy");
  check_same_dtype(x, target, "binary_cross_entropy");
  at::infer_size(x.squeeze().sizes(), target.squeeze().sizes());  // throws where they do not broadcast
  loss(c, like(x), c.integer(3));
}
/// self, target, reduction, delta.
FXX_INLINE void huber_loss(ShapeCall& c) {
  const Tensor x = c.tensor(0), target = c.tensor(1);
  TORCH_CHECK(c.number(3).toDouble() > 0, "huber_loss does not support non-positive values for delta.");
  const Tensor elements = pointwise({x, target}, Promotion::common);
  check_floating(elements, "huber_cpu");
  TORCH_CHECK(c10::canCast(elements.scalar_type(), x.scalar_type()), "result type ", elements.scalar_type(),
              " can't be cast to the desired output type ", x.scalar_type());
  const bool fits = elements.sizes() == x.sizes();
  loss(c, fits ? like(x) : meta_tensor(elements.sizes(), elements.strides(), x.scalar_type()), c.integer(2));
}
/// grad_output, self, target, all of one dtype.
FXX_INLINE void loss_backward(ShapeCall& c) {
  pointwise({c.tensor(0), c.tensor(1), c.tensor(2)});  // throws where they do not broadcast
  c.give(contiguous_like(c.tensor(1)));
}
/// self (N, C) or (C), target, p, margin, weight, reduction.
FXX_INLINE void multi_margin_loss(ShapeCall& c) {
  const Tensor x = c.tensor(0), target = c.tensor(1);
  TORCH_CHECK(x.dim() <= 2 && (x.dim() == 0 || x.size(-1) > 0),
              "Expected non-empty vector or matrix with optional 0-dim"
              " batch size, but got: ",
              x.sizes());
  const std::int64_t n = x.dim() == 2 ? x.size(0) : 1;
  TORCH_CHECK(target.dim() <= 1 && target.numel() == n, "inconsistent target size, expected ", n, " but got ",
              target.sizes());
  TORCH_CHECK(target.scalar_type() == at::kLong, "expected scalar type Long but found ", target.scalar_type());
  TORCH_CHECK(!c.has(4) || c.tensor(4).numel() == (x.dim() == 0 ? 1 : x.size(-1)),
              "inconsistent weight size, expected ", x.dim() == 0 ? 1 : x.size(-1));
  c.give(c.integer(5) == 0 && target.dim() > 0 ? meta_tensor({n}, x.scalar_type()) : meta_tensor({}, x.scalar_type()));
}
/// self (N, C) or (C), target of the same sizes, reduction.
FXX_INLINE void multilabel_margin_loss(ShapeCall& c) {
  const Tensor x = c.tensor(0), target = c.tensor(1);
  TORCH_CHECK(x.dim() == 0 || x.size(-1) > 0,
              "Expected non-empty vector or matrix with optional 0-dim batch size, but "
              "got: ",
              x.sizes());
  TORCH_CHECK(target.scalar_type() == at::kLong, "expected scalar type Long but found ", target.scalar_type());
  TORCH_CHECK(x.dim() <= 2 && x.sizes() == target.sizes(), "inconsistent target size: ", target.sizes(),
              " for input of size: ", x.sizes());
  c.give(c.integer(2) == 0 && x.dim() == 2 ? meta_tensor({x.size(0)}, x.scalar_type())
                                           : meta_tensor({}, x.scalar_type()));
  c.give(contiguous_like(target, x.scalar_type()));
}
/// self (N, C, H, W), target (N, H, W), weight, reduction, ignore_index.
FXX_INLINE void nll_loss2d(ShapeCall& c) {
  const Tensor x = c.tensor(0), target = c.tensor(1), weight = c.tensor(2);
  TORCH_CHECK(target.dim() == 3,
              "only batches of spatial targets supported (3D tensors) but got targets of dimension: ", target.dim());
  TORCH_CHECK(x.dim() == 4,
              "only batches of spatial inputs supported (4D tensors), but got input of dimension: ", x.dim());
  TORCH_CHECK(!weight.defined() || weight.numel() == x.size(1),
              "weight tensor should be defined either for all or no classes");
  TORCH_CHECK(x.size(0) == target.size(0) && x.size(2) == target.size(1) && x.size(3) == target.size(2),
              "size mismatch (got input: ", x.sizes(), " , target: ", target.sizes());
  c.give(c.integer(3) == 0 ? meta_tensor(target.sizes(), x.scalar_type()) : meta_tensor({}, x.scalar_type()));
  c.give(meta_tensor({}, x.scalar_type()));
}
/// log_probs (T, N, C), targets, input_lengths, target_lengths, ...
FXX_INLINE void ctc_loss(ShapeCall& c) {
  const Tensor x = c.tensor(0), targets = c.tensor(1);
  TORCH_CHECK(x.dim() == 3, "ctc_loss: expected log_probs of 3 dimensions, but got ", x.sizes());
  TORCH_CHECK(at::isFloatingType(x.scalar_type()) && at::isIntegralType(targets.scalar_type(), false),
              "ctc_loss: log_probs must be floating, targets integers");
  std::int64_t longest = targets.dim() == 2 ? targets.size(1) : targets.numel();
  if (c[3].isIntList()) {
    const Sizes in = c.integers(2), out = c.integers(3);
    TORCH_CHECK(static_cast<std::int64_t>(in.size()) == x.size(1) && in.size() == out.size(),
                "input_lengths and target_lengths must be of size batch_size ", x.size(1));
    for (std::int64_t length : in)
      TORCH_CHECK(length <= x.size(0), "Expected input_lengths to have value at most ", x.size(0), ", but got value ",
                  length);
    longest = out.empty() ? 0 : *std::max_element(out.begin(), out.end());
  }
  c.give(meta_tensor({x.size(1)}, x.scalar_type()));
  c.give(meta_tensor({x.size(1), x.size(0), 2 * longest + 1}, x.scalar_type()));
}

// --- products, distances, factorisations -------------------------------------------------------------------------

FXX_INLINE void check_square(const Tensor& t, const char* op) {
  TORCH_CHECK(t.dim() >= 2 && t.size(-1) == t.size(-2), op, ": A must be batches of square matrices, but they are ",
              t.sizes());
}
FXX_INLINE void dot(ShapeCall& c) {
  const Tensor a = c.tensor(0), b = c.tensor(1);
  TORCH_CHECK(a.dim() == 1 && b.dim() == 1, "1D tensors expected, but got ", a.dim(), "D and ", b.dim(), "D tensors");
  TORCH_CHECK(a.scalar_type() == b.scalar_type(), "dot : expected both vectors to have same dtype, but found ",
              a.scalar_type(), " and ", b.scalar_type());
  TORCH_CHECK(a.numel() == b.numel(), "inconsistent tensor size, expected tensor [", a.numel(), "] and src [",
              b.numel(), "] to have the same number of elements, but got ", a.numel(), " and ", b.numel(),
              " elements respectively");
  one_element(c);
}
/// self, batch1, batch2.
FXX_INLINE void addbmm(ShapeCall& c) {
  const Tensor self = c.tensor(0), a = c.tensor(1), b = c.tensor(2);
  TORCH_CHECK(a.dim() == 3 && b.dim() == 3, "batch1 and batch2 must be 3D tensors");
  TORCH_CHECK(a.size(0) == b.size(0) && a.size(2) == b.size(1), "addbmm: incompatible batches ", a.sizes(), " and ",
              b.sizes());
  check_same_dtype(a, b, "addbmm");
  const Sizes sizes = {a.size(1), b.size(2)};
  TORCH_CHECK(at::is_expandable_to(self.sizes(), sizes), "addbmm: ", self.sizes(), " does not broadcast to ",
              at::IntArrayRef(sizes));
  c.give(meta_tensor(sizes, self.scalar_type()));
}
FXX_INLINE void give_matrix_product(ShapeCall& c, std::int64_t columns, ScalarType dtype) {
  c.give(meta_tensor({c.tensor(0).size(0), columns}, dtype));
}
FXX_INLINE void int_mm(ShapeCall& c) {
  const Tensor a = c.tensor(0), b = c.tensor(1);
  TORCH_CHECK(a.dim() == 2 && b.dim() == 2 && a.size(1) == b.size(0), "_int_mm: expected matrices that fit, but got ",
              a.sizes(), " and ", b.sizes());
  TORCH_CHECK(a.scalar_type() == at::kChar && b.scalar_type() == at::kChar, "_int_mm: expected int8 matrices");
  give_matrix_product(c, b.size(1), at::kInt);
}
FXX_INLINE void int8_weights_mm(ShapeCall& c) {
  const Tensor a = c.tensor(0), b = c.tensor(1);
  TORCH_CHECK(a.dim() == 2 && b.dim() == 2 && a.size(1) == b.size(1),
              "_weight_int8pack_mm: expected matrices that fit");
  give_matrix_product(c, b.size(0), a.scalar_type());
}
/// x1 (..., P, M), x2 (..., R, M).
FXX_INLINE void cdist(ShapeCall& c) {
  const Tensor a = c.tensor(0), b = c.tensor(1);
  TORCH_CHECK(a.dim() >= 2 && b.dim() >= 2, "cdist only supports at least 2D tensors, got: ", a.dim(), "D and ",
              b.dim(), "D");
  TORCH_CHECK(a.size(-1) == b.size(-1), "X1 and X2 must have the same number of columns. X1: ", a.size(-1),
              " X2: ", b.size(-1));
  TORCH_CHECK(c.number(2).toDouble() >= 0, "cdist only supports non-negative p values");
  check_same_dtype(a, b, "cdist");
  check_floating(a, "cdist");
  Sizes sizes = at::infer_size(a.sizes().slice(0, static_cast<std::size_t>(a.dim() - 2)),
                               b.sizes().slice(0, static_cast<std::size_t>(b.dim() - 2)));
  sizes.push_back(a.size(-2));
  sizes.push_back(b.size(-2));
  c.give(meta_tensor(sizes, a.scalar_type()));
}
FXX_INLINE void pdist(ShapeCall& c) {
  const Tensor x = c.tensor(0);
  TORCH_CHECK(x.dim() == 2, "pdist only supports 2D tensors, got: ", x.dim(), "D");
  const std::int64_t n = x.size(0);
  c.give(meta_tensor({n > 1 ? n * (n - 1) / 2 : 0}, x.scalar_type()));
}

FXX_INLINE ScalarType complex_type(const Tensor& t) { return c10::toComplexType(t.scalar_type()); }
FXX_INLINE void eigenvalues(ShapeCall& c) {
  const Tensor x = c.tensor(0);
  check_square(x, "linalg.eigvals");
  c.give(meta_tensor(x.sizes().slice(0, static_cast<std::size_t>(x.dim() - 1)), complex_type(x)));
}
FXX_INLINE void eigen(ShapeCall& c) {
  eigenvalues(c);
  c.give(columns(c.tensor(0).sizes(), complex_type(c.tensor(0))));
}
FXX_INLINE void cholesky(ShapeCall& c) {
  check_square(c.tensor(0), "cholesky");
  check_floating_or_complex(c.tensor(0), "cholesky");
  if (c.has_out()) contiguous_like_first(c);
  else c.give(columns(c.tensor(0).sizes(), c.tensor(0).scalar_type()));
}
FXX_INLINE void columns_like_first(ShapeCall& c) {
  check_floating_or_complex(c.tensor(0), "the factorisation");
  TORCH_CHECK(c.tensor(0).dim() >= 2, "expected matrices, but got ", c.tensor(0).sizes());
  c.give(columns(c.tensor(0).sizes(), c.tensor(0).scalar_type()));
}
FXX_INLINE void square_columns(ShapeCall& c) {
  check_square(c.tensor(0), "cholesky_inverse");
  columns_like_first(c);
}
FXX_INLINE void matrix_exponential(ShapeCall& c) {
  check_square(c.tensor(0), "linalg.matrix_exp");
  check_floating_or_complex(c.tensor(0), "linalg.matrix_exp");
  c.give(contiguous_like(c.tensor(0)));
}
FXX_INLINE void geqrf(ShapeCall& c) {
  const Tensor x = c.tensor(0);
  columns_like_first(c);
  Sizes tau = x.sizes().slice(0, static_cast<std::size_t>(x.dim() - 1)).vec();
  tau.back() = std::min(x.size(-1), x.size(-2));
  c.give(meta_tensor(tau, x.scalar_type()));
}
FXX_INLINE void householder_product(ShapeCall& c) {
  const Tensor x = c.tensor(0), tau = c.tensor(1);
  TORCH_CHECK(x.dim() >= 2 && x.size(-2) >= x.size(-1) && tau.dim() == x.dim() - 1 && tau.size(-1) <= x.size(-1),
              "torch.linalg.householder_product: expected matrices with at least as many rows as columns, and as many "
              "factors at most, but got ",
              x.sizes(), " and ", tau.sizes());
  check_same_dtype(x, tau, "linalg.householder_product");
  columns_like_first(c);
}
/// self, input2, input3.
FXX_INLINE void ormqr(ShapeCall& c) {
  const Tensor x = c.tensor(0), tau = c.tensor(1), other = c.tensor(2);
  TORCH_CHECK(x.dim() >= 2 && other.dim() == x.dim() && tau.dim() == x.dim() - 1,
              "torch.ormqr: expected matrices, but got ", x.sizes(), ", ", tau.sizes(), ", ", other.sizes());
  const std::int64_t side = other.size(c.flag(3) ? -2 : -1);
  TORCH_CHECK(x.size(-2) == side, "torch.ormqr: other.shape[", c.flag(3) ? -2 : -1,
              "] must be equal to input.shape[-2]");
  TORCH_CHECK(tau.size(-1) == std::min(side, x.size(-1)),
              "torch.ormqr: tau.shape[-1] must be equal to "
              "min(other.shape[",
              c.flag(3) ? -2 : -1, "], input.shape[-1])");
  check_floating_or_complex(x, "ormqr_cpu");
  check_same_dtype(x, tau, "torch.ormqr");
  check_same_dtype(x, other, "torch.ormqr");
  c.give(columns(other.sizes(), other.scalar_type()));
}
/// A, B, upper, left, unitriangular.
FXX_INLINE void solve_triangular(ShapeCall& c) {
  const Tensor a = c.tensor(0), b = c.tensor(1);
  check_square(a, "linalg.solve_triangular");
  check_floating_or_complex(a, "triangular_solve_cpu");
  check_same_dtype(a, b, "linalg.solve_triangular");
  TORCH_CHECK(b.dim() >= 2 && a.size(-2) == (c.flag(3) ? b.size(-2) : b.size(-1)),
              "linalg.solve_triangular: Incompatible shapes of A and B for the equation ", a.sizes(), " ", b.sizes());
  const auto batch = [](const Tensor& t) { return t.sizes().slice(0, static_cast<std::size_t>(t.dim() - 2)); };
  Sizes sizes = joined(at::infer_size(batch(a), batch(b)), b.sizes().slice(static_cast<std::size_t>(b.dim() - 2)));
  c.give(columns(sizes, b.scalar_type()));
}

/// self (..., m, n), b (..., m[, k]), rcond, driver: solution, residuals, rank, singular values.
FXX_INLINE void least_squares(ShapeCall& c) {
  const Tensor a = c.tensor(0), b = c.tensor(1);
  const std::string driver = c.has(3) ? c[3].toStringRef() : "gelsy";
  TORCH_CHECK(a.dim() >= 2 && b.dim() >= 1, "torch.linalg.lstsq: expected matrices, but got ", a.sizes(), " and ",
              b.sizes());
  check_floating_or_complex(a, "torch.linalg.lstsq");
  check_same_dtype(a, b, "torch.linalg.lstsq");
  const auto batch = [](const Tensor& t, std::int64_t less) {
    return t.sizes().slice(0, static_cast<std::size_t>(t.dim() - less));
  };
  const bool vector = b.dim() == 1 || (a.dim() - 1 == b.dim() && b.sizes() == batch(a, 1));
  const std::int64_t m = a.size(-2), n = a.size(-1), k = vector ? 1 : b.size(-1);
  TORCH_CHECK(m == b.size(vector ? -1 : -2), "torch.linalg.lstsq: input.size(-2) should match other.size(",
              vector ? -1 : -2, ")");
  const Sizes batches = at::infer_size(batch(a, 2), batch(b, vector ? 1 : 2));
  // Residuals of these depend on the rank.
  if (m > n && (driver == "gelss" || driver == "gelsd")) refuse_elements(c.op().operator_name());
  // It lies where the right-hand sides were.
  const Tensor solution = columns(joined(batches, Sizes{std::max(m, n), k}), a.scalar_type()).narrow(-2, 0, n);
  const ScalarType real = c10::toRealValueType(a.scalar_type());
  c.give(vector ? solution.squeeze(-1) : solution);
  c.give(meta_tensor(m > n && driver == "gels" ? joined(batches, Sizes{k}) : Sizes{0}, real));
  c.give(meta_tensor(driver == "gels" ? Sizes{0} : batches, at::kLong));
  c.give(meta_tensor(driver == "gelss" || driver == "gelsd" ? joined(batches, Sizes{std::min(m, n)}) : Sizes{0}, real));
}

// --- Fourier transforms ------------------------------------------------------------------------------------------

/// Whether MKL transforms, which leaves its own order of dimensions in memory. What is written to `out` is in order.
FXX_INLINE bool is_reordered(const ShapeCall& c) {
  static const bool has_mkl = at::globalContext().hasMKL();
  return has_mkl && !c.has_out();
}
/// A result whose batch dimensions lie outside, in the order of the input's strides, and transformed ones inside.
FXX_INLINE Tensor transformed(const Tensor& in, at::IntArrayRef sizes, const Sizes& dims, ScalarType dtype) {
  const std::int64_t n = in.dim();
  Sizes order;
  for (std::int64_t d = 0; d < n; ++d)
    if (std::find(dims.begin(), dims.end(), d) == dims.end()) order.push_back(d);
  std::sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) { return in.stride(a) > in.stride(b); });
  order.insert(order.end(), dims.begin(), dims.end());
  Sizes strides(static_cast<std::size_t>(n));
  std::int64_t step = 1;
  for (std::size_t i = order.size(); i-- > 0;) {
    const auto d = static_cast<std::size_t>(order[i]);
    strides[d] = step;
    step *= sizes[d];
  }
  return meta_tensor(sizes, strides, dtype);
}
FXX_INLINE Sizes wrapped_dims(const Tensor& t, Sizes dims) {
  for (std::int64_t& d : dims) d = wrapped(d, t.dim());
  return dims;
}
/// Dimensions to transform, the one of the largest stride first, but for the last of them.
FXX_INLINE Sizes sorted_dims(const Tensor& t, Sizes dims, bool but_last) {
  std::sort(dims.begin(), dims.end() - but_last,
            [&](std::int64_t a, std::int64_t b) { return t.stride(a) > t.stride(b); });
  return dims;
}
/// self, dim, normalization, forward.
FXX_INLINE void fft_c2c(ShapeCall& c) {
  const Tensor x = c.tensor(0);
  TORCH_CHECK(x.is_complex(), "_fft_c2c: expected a complex tensor");
  const Sizes dims = wrapped_dims(x, c.integers(1));
  c.give(dims.empty()       ? like(x)
         : !is_reordered(c) ? contiguous_like(x)
                            : transformed(x, x.sizes(), sorted_dims(x, dims, false), x.scalar_type()));
}
/// self, dim, normalization, onesided.
FXX_INLINE void fft_r2c(ShapeCall& c) {
  const Tensor x = c.tensor(0);
  TORCH_CHECK(at::isFloatingType(x.scalar_type()), "_fft_r2c: expected a floating tensor");
  const Sizes dims = wrapped_dims(x, c.integers(1));
  TORCH_CHECK(!dims.empty(), "_fft_r2c: expected a dimension to transform");
  Sizes sizes = x.sizes().vec();
  auto& last = sizes[static_cast<std::size_t>(dims.back())];
  if (c.flag(3)) last = last / 2 + 1;
  c.give(is_reordered(c) ? transformed(x, sizes, sorted_dims(x, dims, true), complex_type(x))
                         : meta_tensor(sizes, complex_type(x)));
}
/// self, dim, normalization, last_dim_size.
FXX_INLINE void fft_c2r(ShapeCall& c) {
  const Tensor x = c.tensor(0);
  TORCH_CHECK(x.is_complex(), "_fft_c2r: expected a complex tensor");
  const Sizes dims = wrapped_dims(x, c.integers(1));
  TORCH_CHECK(!dims.empty() && c.integer(3) >= 1, "Invalid number of data points (", c.integer(3), ") specified");
  Sizes sizes = x.sizes().vec();
  sizes[static_cast<std::size_t>(dims.back())] = c.integer(3);
  const ScalarType type = c10::toRealValueType(x.scalar_type());
  if (!is_reordered(c)) return c.give(meta_tensor(sizes, type));
  // All dimensions but the last are transformed first.
  const Sizes others(dims.begin(), dims.end() - 1);
  const Tensor before = others.empty() ? x : transformed(x, x.sizes(), sorted_dims(x, others, false), x.scalar_type());
  c.give(transformed(before, sizes, {dims.back()}, type));
}

}  // namespace shapes

// --- the table ---------------------------------------------------------------------------------------------------

struct ShapeRuleOf {
  std::string_view name;
  ShapeRule rule;
};

FXX_INLINE const std::unordered_map<std::string_view, ShapeRule>& shape_rules() {
  using namespace shapes;
  // An operator, or one overload of it. An overload that writes to `out` follows the one that does not.
  // clang-format off
  static const std::unordered_map<std::string_view, ShapeRule> rules = {
      // elementwise
      {"abs.out", absolute},                       {"angle", angle},
      {"conj_physical.out", unary},                  {"isnan", unary_boolean},
      {"relu", relu},                                {"hardswish", unary_of_floats},
      {"hardswish_backward", binary_same},           {"hardtanh", hardtanh},
      {"hardtanh_backward", binary_same},            {"logit", unary_float},
      {"mvlgamma.out", unary_float},                 {"nan_to_num.out", unary},
      {"logical_not.out", unary_boolean},            {"logical_and.out", binary_boolean},
      {"logical_or.out", binary_boolean},            {"logical_xor.out", binary_boolean},
      {"floor_divide", binary_ordered},              {"remainder.Scalar_Tensor", binary_ordered},
      {"rsub.Tensor", reversed_difference},                       {"_add_relu.Tensor", binary},
      {"__lshift__.Tensor", shift},                 {"__lshift__.Scalar", shift},
      {"__rshift__.Tensor", shift},                 {"__rshift__.Scalar", shift},
      {"_prelu_kernel", binary_same},                {"_prelu_kernel_backward", prelu_backward},
      {"log_sigmoid_forward", log_sigmoid},          {"log_sigmoid_backward", like_argument<1>},
      {"glu_backward", glu_backward},                {"rrelu_with_noise", noisy_relu},
      {"native_dropout", dropout},                   {"native_dropout_backward", masked},
      {"complex.out", as_complex},                   {"polar.out", as_complex},
      {"frexp.Tensor_out", frexp},                   {"where.self", where},
      {"_masked_softmax", masked_softmax},           {"_masked_softmax_backward", contiguous_like_first},
      // random numbers
      {"bernoulli", drawn_bits},                     {"bernoulli.out", drawn_bits},
      {"poisson", drawn},
      {"binomial", drawn},                           {"_standard_gamma", drawn},
      {"_standard_gamma_grad", binary_same},         {"_sample_dirichlet", drawn},
      {"_dirichlet_grad", drawn},                    {"multinomial", multinomial},
      {"randperm.generator_out", randperm},
      // convolutions
      {"convolution", convolution},                  {"convolution_overrideable", convolution},
      {"_convolution", convolution},                 {"convolution_backward", convolution_backward},
      {"convolution_backward_overrideable", nothing},
      {"mkldnn_convolution", mkldnn_convolution},    {"conv_tbc", conv_tbc},
      {"_slow_conv2d_forward", slow_convolution},    {"slow_conv3d_forward", slow_convolution},
      {"slow_conv_dilated2d", dilated_convolution},  {"slow_conv_dilated3d", dilated_convolution},
      {"slow_conv_transpose3d", slow_transposed_convolution},
      // normalisation
      {"native_batch_norm", batch_norm},             {"_native_batch_norm_legit", batch_norm},
      {"_native_batch_norm_legit.no_stats", batch_norm_without_stats},
      {"_batch_norm_with_update", batch_norm_with_update},
      {"batch_norm_update_stats", batch_norm_update_stats},
      {"native_batch_norm_backward", batch_norm_backward},
      {"batch_norm_backward", batch_norm_backward},
      {"native_layer_norm", layer_norm},             {"native_layer_norm_backward", layer_norm_backward},
      {"native_group_norm", group_norm},             {"native_group_norm_backward", group_norm_backward},
      {"_weight_norm_interface", weight_norm},       {"_weight_norm_interface_backward", weight_norm_backward},
      // pooling, padding, sampling
      {"_adaptive_avg_pool2d", adaptive_average_pool<2>},
      {"adaptive_avg_pool2d.out", adaptive_average_pool<2>},
      {"_adaptive_avg_pool3d", adaptive_average_pool<3>},
      {"adaptive_avg_pool3d.out", adaptive_average_pool<3>},
      {"_adaptive_avg_pool2d_backward", formatted_like_second},
      {"_adaptive_avg_pool3d_backward", contiguous_like_argument<1>},
      {"adaptive_avg_pool3d_backward.grad_input", contiguous_like_argument<1>},
      {"max_pool3d_with_indices", max_pool3d},       {"max_pool3d_with_indices_backward", formatted_like_second},
      {"fractional_max_pool3d_backward", contiguous_like_argument<1>},
      {"max_unpool2d", max_unpool<2>},               {"max_unpool3d", max_unpool<3>},
      {"reflection_pad2d", reflection_pad2d},        {"reflection_pad2d_backward", formatted_like_second},
      {"replication_pad2d", replication_pad<2>},     {"replication_pad3d", replication_pad<3>},
      {"pixel_shuffle", pixel_shuffle},              {"pixel_unshuffle", pixel_unshuffle},
      {"replication_pad2d_backward", formatted_like_second},
      {"replication_pad3d_backward", formatted_like_second},
      {"grid_sampler_2d", grid_sampler<2>},          {"grid_sampler_2d_backward", grid_sampler_backward},
      {"grid_sampler_3d", grid_sampler<3>},          {"grid_sampler_3d_backward", grid_sampler_backward},
      {"im2col", im2col},                            {"col2im", col2im},
      // attention, recurrence
      {"_fused_sdp_choice", attention_choice},
      {"_scaled_dot_product_flash_attention_for_cpu", flash_attention},
      {"_scaled_dot_product_flash_attention_for_cpu_backward", flash_attention_backward},
      {"_thnn_fused_lstm_cell", fused_lstm_cell},    {"_thnn_fused_gru_cell", fused_gru_cell},
      {"mkldnn_rnn_layer", mkldnn_rnn_layer},        {"mkldnn_rnn_layer_backward", mkldnn_rnn_layer_backward},
      // embeddings and indices
      {"index_select", index_select},                {"take", take},
      {"index_fill.int_Scalar", index_fill},         {"index_fill.int_Tensor", index_fill},
      {"index_fill_.int_Scalar", index_fill},        {"index_fill_.int_Tensor", index_fill},
      {"embedding_renorm_", itself},                 {"embedding_dense_backward", embedding_backward},
      {"_embedding_bag", embedding_bag},             {"_embedding_bag_forward_only", embedding_bag},
      {"_embedding_bag_backward", embedding_bag_backward},
      {"_embedding_bag_dense_backward", embedding_bag_dense_backward},
      {"_embedding_bag_per_sample_weights_backward", embedding_bag_weights_backward},
      {"repeat_interleave.Tensor", repeat_interleave},
      {"nonzero_static", nonzero_static},            {"unfold_backward", unfold_backward},
      // reductions and order
      {"max", largest},                              {"min", largest},
      {"max.unary_out", largest},                    {"min.unary_out", largest},
      {"_aminmax", smallest_and_largest},            {"_aminmax.dim", smallest_and_largest_over_dim},
      {"median", median},                            {"nanmedian", median},
      {"median.dim_values", median_over_dim},        {"nanmedian.dim_values", median_over_dim},
      {"mode", select_over_dim},                     {"mode.values", select_over_dim},
      {"kthvalue.values", kthvalue},
      {"prod", product_of_all},                      {"nansum", nansum},
      {"std.correction", deviation},                 {"var.correction", deviation},
      {"std_mean.correction", deviation_and_mean},   {"var_mean.correction", deviation_and_mean},
      {"count_nonzero.dim_IntList", count_nonzero},  {"trace", trace_of_matrix},
      {"histc", histc},                              {"histogram.bin_ct", histogram},
      {"histogram.bins_tensor", histogram},          {"bucketize.Tensor", bucketize},
      {"bucketize.Scalar", bucketize},               {"searchsorted.Tensor", searchsorted},
      {"searchsorted.Scalar", searchsorted},         {"_logcumsumexp", cumulative},
      {"segment_reduce", segment_reduce},            {"_segment_reduce_backward", contiguous_like_argument<2>},
      {"_cummax_helper", nothing},                   {"_cummin_helper", nothing},
      // moving elements
      {"roll", roll},                                {"flip", flip},
      {"channel_shuffle", channel_shuffle},          {"narrow_copy.out", narrow_copy},
      {"tril_indices", lower_triangle},              {"triu_indices", upper_triangle},
      // losses
      {"binary_cross_entropy", cross_entropy_of_bits},
      {"binary_cross_entropy_backward", like_argument<1>},
      {"huber_loss", huber_loss},                    {"huber_loss_backward.out", loss_backward},
      {"mse_loss_backward", contiguous_like_argument<1>},
      {"smooth_l1_loss_backward.grad_input", contiguous_like_argument<1>},
      {"multi_margin_loss", multi_margin_loss},      {"multi_margin_loss_backward", contiguous_like_argument<1>},
      {"multilabel_margin_loss_forward", multilabel_margin_loss},
      {"multilabel_margin_loss_backward", contiguous_like_argument<1>},
      {"nll_loss2d_forward", nll_loss2d},            {"nll_loss2d_backward", contiguous_like_argument<1>},
      {"_ctc_loss", ctc_loss},                       {"_ctc_loss.Tensor", ctc_loss},
      {"_ctc_loss_backward", contiguous_like_argument<1>},
      {"_ctc_loss_backward.Tensor", contiguous_like_argument<1>},
      // products, distances, factorisations
      {"dot", dot},                                  {"vdot", dot},
      {"addbmm", addbmm},                            {"_int_mm", int_mm},
      {"_weight_int8pack_mm", int8_weights_mm},
      {"_cdist_forward", cdist},                     {"_cdist_backward", contiguous_like_argument<1>},
      {"_pdist_forward", pdist},                     {"_pdist_backward", contiguous_like_argument<1>},
      {"linalg_eig", eigen},                         {"_linalg_eigvals", eigenvalues},
      {"linalg_eigvals.out", eigenvalues},           {"cholesky", cholesky},
      {"cholesky_inverse", square_columns},                {"_cholesky_solve_helper", columns_like_first},
      {"geqrf", geqrf},                              {"linalg_householder_product", householder_product},
      {"ormqr", ormqr},                              {"linalg_solve_triangular", solve_triangular},
      {"linalg_matrix_exp", matrix_exponential},     {"linalg_lstsq.out", least_squares},
      // Fourier transforms
      {"_fft_c2c", fft_c2c},                         {"_fft_r2c", fft_r2c},
      {"_fft_c2r", fft_c2r},
      // quantisation that stays in floating point
      {"fake_quantize_per_tensor_affine_cachemask", fake_quantized},
      {"fake_quantize_per_channel_affine_cachemask", fake_quantized},
      {"_fake_quantize_per_tensor_affine_cachemask_tensor_qparams", fake_quantized},
      {"_fused_moving_avg_obs_fq_helper", fake_quantized},
      {"_fake_quantize_learnable_per_tensor_affine", like_first},
      {"_fake_quantize_learnable_per_channel_affine", like_first},
      {"_fake_quantize_learnable_per_tensor_affine_backward", learnable_quantized_backward},
      {"_fake_quantize_learnable_per_channel_affine_backward", learnable_quantized_backward},
      // steps of optimizers, and questions that are not answered
      {"_fused_adam_", nothing},                     {"_fused_adam_.tensor_lr", nothing},
      {"_fused_adamw_", nothing},                    {"_fused_adamw_.tensor_lr", nothing},
      {"_fused_sgd_", nothing},                      {"_fused_sgd_.tensor_lr", nothing},
      {"_fused_adagrad_", nothing},                  {"_fused_adagrad_.tensor_lr", nothing},
      {"_amp_foreach_non_finite_check_and_unscale_", nothing},
      {"_assert_async", nothing},                    {"_assert_async.msg", nothing},
  };
  // clang-format on
  return rules;
}

FXX_INLINE ShapeRule shape_rule_named(std::string_view base, std::string_view overload) {
  constexpr std::string_view space = "aten::";
  if (!base.starts_with(space)) return nullptr;
  std::string name(base.substr(space.size()));
  if (!overload.empty()) name.append(".").append(overload);
  const auto found = shape_rules().find(name);
  return found == shape_rules().end() ? nullptr : found->second;
}
FXX_INLINE ShapeRule find_shape_rule(const c10::OperatorName& name) {
  return shape_rule_named(name.name, name.overload_name);
}
FXX_INLINE ShapeRule find_shape_rule_without_out(const c10::OperatorName& name) {
  // "out", "Tensor_out", and some by the name of a result.
  static const std::unordered_set<std::string_view> names = {"out", "output", "grad_input", "values", "a"};
  std::string_view overload = name.overload_name;
  if (names.contains(overload)) return shape_rule_named(name.name, {});
  constexpr std::string_view suffix = "_out";
  if (!overload.ends_with(suffix)) return nullptr;
  overload.remove_suffix(suffix.size());
  return shape_rule_named(name.name, overload);
}

FXX_INLINE bool is_data_dependent(const c10::OperatorName& name) {
  static const std::unordered_set<std::string_view> names = {"aten::_local_scalar_dense",
                                                             "aten::item",
                                                             "aten::is_nonzero",
                                                             "aten::equal",
                                                             "aten::allclose",
                                                             "aten::nonzero",
                                                             "aten::masked_select",
                                                             "aten::_unique",
                                                             "aten::_unique2",
                                                             "aten::unique_dim",
                                                             "aten::unique_consecutive",
                                                             "aten::unique_dim_consecutive",
                                                             "aten::bincount",
                                                             "aten::_is_all_true",
                                                             "aten::_is_any_true",
                                                             "aten::nonzero_numpy",
                                                             "aten::argwhere",
                                                             "aten::_assert_scalar",
                                                             "aten::_to_sparse",
                                                             "aten::_nested_from_padded"};
  return names.contains(name.name);
}

FXX_INLINE std::string text_of(const c10::OperatorName& name) {
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

FXX_INLINE ErrorContext user_context() {
  const std::vector<Frame> frames = user_frames(Backtrace::capture(1));
  ErrorContext context;
  if (!frames.empty()) context.source = format_frame(frames.front());
  return context;
}

}  // namespace fxx::inline FXX_ABI::detail
