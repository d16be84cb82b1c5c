// Shape rules of convolutions, and their backward pass.
#pragma once

#include <ATen/Context.h>
#include <ATen/Parallel.h>

#include <algorithm>

#include "fxx/torch/shape_rules/shared.ipp"

namespace fxx::inline FXX_ABI::detail::shapes {

struct Convolution {
  Tensor input, weight, bias;
  Sizes stride, padding, dilation, output_padding;
  bool transposed = false;
  std::int64_t groups = 1;
  bool may_be_empty = false;
  std::int64_t out_channels() const { return transposed ? weight.size(1) * groups : weight.size(0); }
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
  TORCH_CHECK(!v.bias.defined() || (v.bias.dim() == 1 && v.bias.size(0) == v.out_channels()), "Given weight of size ",
              v.weight.sizes(), ", expected bias to be 1-dimensional with ", v.out_channels(), " elements");
}

/// Whether oneDNN knows the dtype on this machine: half precision takes instructions that not every CPU has.
FXX_INLINE bool is_supported_by_onednn(const char* question) {
  const auto op = c10::Dispatcher::singleton().findSchema({question, ""});
  return op && op->typed<bool()>().redispatch(c10::DispatchKeySet(c10::DispatchKey::CPU));
}
/// Whether oneDNN convolves; the other kernels are slower for large tensors and faster for small ones.
FXX_INLINE bool uses_onednn(const Convolution& v) {
  static const bool has = at::globalContext().hasMKLDNN();
  static const bool has_bfloat16 = is_supported_by_onednn("mkldnn::_is_mkldnn_bf16_supported");
  static const bool has_half = is_supported_by_onednn("mkldnn::_is_mkldnn_fp16_supported");
  if (!has || !at::globalContext().userEnabledMkldnn() || v.input.numel() == 0) return false;
  if (v.input.scalar_type() == at::kBFloat16) return has_bfloat16;
  if (v.input.scalar_type() == at::kHalf) return has_half;
  if (v.input.scalar_type() != at::kFloat) return false;
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
  Sizes sizes = {v.input.size(0), v.out_channels()};
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

// --- oneDNN's, with what follows them -------------------------------------------------------------------------------

FXX_INLINE void check_onednn_dtype(const Tensor& x) {
  TORCH_CHECK(x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16 || x.scalar_type() == at::kHalf,
              "oneDNN's layers take floats of 32 or 16 bits, not ", x.scalar_type());
}
/// These ask nobody whether oneDNN should: channels last when either operand is.
FXX_INLINE void give_pointwise_convolution(ShapeCall& c, Convolution v, const Tensor& other = {}) {
  using at::MemoryFormat;
  check_onednn_dtype(v.input);
  check_convolution(v);
  for (std::size_t i = 0; v.transposed && i < v.output_padding.size(); ++i)
    TORCH_CHECK(v.output_padding[i] < v.stride[i], "oneDNN's transposed convolutions take an output_padding below the ",
                "stride, not ", v.output_padding[i], " of ", v.stride[i]);
  const Sizes sizes = convolution_sizes(v);
  TORCH_CHECK(!other.defined() || at::is_expandable_to(other.sizes(), sizes), "a convolution of sizes ",
              at::IntArrayRef(sizes), " cannot be joined with a value of sizes ", other.sizes());
  const MemoryFormat last = v.input.dim() == 5 ? MemoryFormat::ChannelsLast3d : MemoryFormat::ChannelsLast;
  const bool is_last =
      v.input.dim() > 3 && (v.input.suggest_memory_format() == last || v.weight.suggest_memory_format() == last);
  c.give(meta_tensor(sizes, v.input.scalar_type(), is_last ? last : MemoryFormat::Contiguous));
}
/// X, W, B, padding, stride, dilation, groups, attr, scalars, algorithm.
FXX_INLINE void pointwise_convolution(ShapeCall& c) {
  give_pointwise_convolution(
      c, {c.tensor(0), c.tensor(1), c.tensor(2), c.integers(4), c.integers(3), c.integers(5), {}, false, c.integer(6)});
}
/// X, other, W, B, padding, stride, dilation, groups, binary_attr, alpha, unary_attr, unary_scalars, unary_algorithm.
FXX_INLINE void pointwise_convolution_binary(ShapeCall& c) {
  TORCH_CHECK(c.tensor(0).dim() == 4 || c.tensor(0).dim() == 5,
              "mkldnn_convolution_pointwise_binary: currently only support 2d and 3d");
  give_pointwise_convolution(
      c, {c.tensor(0), c.tensor(2), c.tensor(3), c.integers(5), c.integers(4), c.integers(6), {}, false, c.integer(7)},
      c.tensor(1));
}
/// X, W, B, padding, output_padding, stride, dilation, groups, attr, scalars, algorithm.
FXX_INLINE void pointwise_transposed_convolution(ShapeCall& c) {
  give_pointwise_convolution(c, {c.tensor(0), c.tensor(1), c.tensor(2), c.integers(5), c.integers(3), c.integers(6),
                                 c.integers(4), true, c.integer(7)});
}
/// Of rows times the transposed weight.
FXX_INLINE void give_pointwise_linear(ShapeCall& c, const Tensor& x, const Tensor& weight, const Tensor& bias,
                                      const Tensor& other = {}) {
  check_onednn_dtype(x);
  TORCH_CHECK(x.dim() > 0 && weight.dim() == 2 && x.size(-1) == weight.size(1), "a linear of a weight ",
              weight.sizes(), " takes no input of sizes ", x.sizes());
  check_same_dtype(x, weight, "linear");
  TORCH_CHECK(!bias.defined() || (bias.dim() == 1 && bias.size(0) == weight.size(0)), "a linear of a weight ",
              weight.sizes(), " takes no bias of sizes ", bias.sizes());
  const Sizes sizes = joined(without_last(x, 1), {weight.size(0)});
  // Rows of one size may be all alike, else nothing is expanded.
  TORCH_CHECK(!other.defined() || other.sizes() == at::IntArrayRef(sizes) ||
                  (other.dim() == 2 && sizes.size() == 2 && at::is_expandable_to(other.sizes(), sizes)),
              "a linear of sizes ", at::IntArrayRef(sizes), " cannot be joined with a value of sizes ", other.sizes());
  c.give(meta_tensor(sizes, x.scalar_type()));
}
FXX_INLINE void pointwise_linear(ShapeCall& c) { give_pointwise_linear(c, c.tensor(0), c.tensor(1), c.tensor(2)); }
FXX_INLINE void pointwise_linear_binary(ShapeCall& c) {
  give_pointwise_linear(c, c.tensor(0), c.tensor(2), c.tensor(3), c.tensor(1));
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
  const Sizes sizes = convolution_sizes(v);
  TORCH_CHECK(c.tensor(0).sizes() == at::IntArrayRef(sizes), "convolution_backward: grad_output has sizes ",
              c.tensor(0).sizes(), ", expected ", at::IntArrayRef(sizes));
  const auto mask = c[10].toBoolList();
  const at::MemoryFormat format = convolution_format(v);
  c.give(mask[0] ? meta_tensor(v.input.sizes(), v.input.scalar_type(), format) : Tensor());
  c.give(mask[1] ? meta_tensor(v.weight.sizes(), v.weight.scalar_type(), format) : Tensor());
  c.give(mask[2] ? meta_tensor({v.out_channels()}, v.weight.scalar_type()) : Tensor());
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

// clang-format off
inline constexpr ShapeRuleOf convolution_rules[] = {
    {"convolution", convolution},                   {"convolution_overrideable", convolution},
    {"_convolution", convolution},                  {"convolution_backward", convolution_backward},
    {"convolution_backward_overrideable", nothing},
    {"mkldnn_convolution", mkldnn_convolution},     {"conv_tbc", conv_tbc},
    {"_slow_conv2d_forward", slow_convolution},     {"slow_conv3d_forward", slow_convolution},
    {"slow_conv_dilated2d", dilated_convolution},   {"slow_conv_dilated3d", dilated_convolution},
    {"slow_conv_transpose3d", slow_transposed_convolution},
    {"mkldnn::_convolution_pointwise", pointwise_convolution},
    {"mkldnn::_convolution_pointwise.binary", pointwise_convolution_binary},
    {"mkldnn::_convolution_transpose_pointwise", pointwise_transposed_convolution},
    {"mkldnn::_linear_pointwise", pointwise_linear},
    {"mkldnn::_linear_pointwise.binary", pointwise_linear_binary},
};
// clang-format on

}  // namespace fxx::inline FXX_ABI::detail::shapes
