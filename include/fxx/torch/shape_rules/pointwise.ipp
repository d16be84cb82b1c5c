// Shape rules of operators over elements: arithmetic, comparisons, activations and their gradients, dropout, complex
// numbers, and quantisation that stays in floating point.
#pragma once

#include <ATen/core/Tensor.h>

// after the tensor's own header
#include <ATen/ops/result_type_ops.h>

#include "fxx/torch/shape_rules/shared.ipp"

namespace fxx::inline FXX_ABI::detail::shapes {

/// A number as a tensor that takes no part in deciding the dtype but by its kind.
FXX_INLINE Tensor as_tensor(const at::Scalar& number) {
  Tensor tensor = meta_tensor({}, number.type());
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}
FXX_INLINE Tensor operand(const ShapeCall& c, std::size_t i) {
  return c[i].isTensor() ? c.tensor(i) : as_tensor(c.number(i));
}
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
  refuse_dtype(c.tensor(0), is_bool_or_complex(c.tensor(0)), "relu");
  unary(c);
}
/// self, min, max.
FXX_INLINE void hardtanh(ShapeCall& c) {
  const Tensor x = c.tensor(0);
  refuse_dtype(x, is_bool_or_complex(x), "hardtanh");
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
/// A complex number's absolute value and the like are real.
FXX_INLINE void absolute(ShapeCall& c) {
  const Tensor x = c.tensor(0);
  refuse_dtype(x, is_bool(x), "abs_cpu");
  if (!x.is_complex()) return unary(c);
  elementwise(c, 1, Promotion::common, real_type(x));
}
FXX_INLINE void angle(ShapeCall& c) {
  const Tensor x = c.tensor(0);
  if (x.is_complex()) c.give(contiguous_like(x, real_type(x)));
  else elementwise(c, 1, Promotion::to_float);
}
FXX_INLINE void masked(ShapeCall& c) { c.give(pointwise({c.tensor(0), c.tensor(1)}, Promotion::to_float)); }
/// condition, self, other.
FXX_INLINE void where(ShapeCall& c) {
  const Tensor condition = c.tensor(0), a = c.tensor(1), b = c.tensor(2);
  TORCH_CHECK(condition.scalar_type() == at::kBool || condition.scalar_type() == at::kByte,
              "where expected condition to be a boolean tensor, but got a tensor with dtype ", condition.scalar_type());
  c.give(pointwise({condition, a, b}, Promotion::common, at::_ops::result_type_Tensor::call(a, b)));
}
/// Two real tensors as one complex one.
FXX_INLINE void as_complex(ShapeCall& c) {
  const Tensor a = c.tensor(0), b = c.tensor(1);
  TORCH_CHECK(
      at::isFloatingType(a.scalar_type()) && at::isFloatingType(b.scalar_type()) && a.scalar_type() != at::kBFloat16,
      "Expected both inputs to be Half, Float or Double tensors but got ", a.scalar_type(), " and ", b.scalar_type());
  check_same_dtype(a, b, "complex");
  c.give(pointwise({a, b}, Promotion::none, complex_type(a)));
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
  contiguous_like_argument<0, 0>(c);
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
  TORCH_CHECK(is_bool(c.tensor(1)), "Mask should be a boolean tensor");
  contiguous_like_argument<0>(c);
}
FXX_INLINE void fake_quantized(ShapeCall& c) {
  c.give(like(c.tensor(0)));
  c.give(like(c.tensor(0), at::kBool));
}

// clang-format off
inline constexpr ShapeRuleOf pointwise_rules[] = {
    {"abs.out", absolute},                          {"angle", angle},
    {"conj_physical.out", unary},                   {"isnan", unary_boolean},
    {"relu", relu},                                 {"hardswish", unary_of_floats},
    {"hardswish_backward", binary_same},            {"hardtanh", hardtanh},
    {"hardtanh_backward", binary_same},             {"logit", unary_float},
    {"mvlgamma.out", unary_float},                  {"nan_to_num.out", unary},
    {"logical_not.out", unary_boolean},             {"logical_and.out", binary_boolean},
    {"logical_or.out", binary_boolean},             {"logical_xor.out", binary_boolean},
    {"floor_divide", binary_ordered},               {"remainder.Scalar_Tensor", binary_ordered},
    {"rsub.Tensor", reversed_difference},           {"_add_relu.Tensor", binary},
    {"__lshift__.Tensor", shift},                   {"__lshift__.Scalar", shift},
    {"__rshift__.Tensor", shift},                   {"__rshift__.Scalar", shift},
    {"_prelu_kernel", binary_same},                 {"_prelu_kernel_backward", prelu_backward},
    {"log_sigmoid_forward", log_sigmoid},           {"log_sigmoid_backward", like_argument<1>},
    {"glu_backward", glu_backward},                 {"rrelu_with_noise", noisy_relu},
    {"native_dropout", dropout},                    {"native_dropout_backward", masked},
    {"complex.out", as_complex},                    {"polar.out", as_complex},
    {"frexp.Tensor_out", frexp},                    {"where.self", where},
    {"_masked_softmax", masked_softmax},            {"_masked_softmax_backward", contiguous_like_argument<0>},
    {"fake_quantize_per_tensor_affine_cachemask", fake_quantized},
    {"fake_quantize_per_channel_affine_cachemask", fake_quantized},
    {"_fake_quantize_per_tensor_affine_cachemask_tensor_qparams", fake_quantized},
    {"_fused_moving_avg_obs_fq_helper", fake_quantized},
    {"_fake_quantize_learnable_per_tensor_affine", like_argument<0>},
    {"_fake_quantize_learnable_per_channel_affine", like_argument<0>},
    {"_fake_quantize_learnable_per_tensor_affine_backward", contiguous_like_argument<1, 2, 3>},
    {"_fake_quantize_learnable_per_channel_affine_backward", contiguous_like_argument<1, 2, 3>},
};
// clang-format on

}  // namespace fxx::inline FXX_ABI::detail::shapes
