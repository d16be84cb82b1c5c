// Which operators are functions of one element of each input, and how: what fused kernels and lowered graphs are made of.
//
// Main names: KernelForm, kernel_form, has_power. Cost: light.
#pragma once

#include <cstdint>
#include <string_view>

#include "fxx/ir/operator.hpp"
#include "fxx/kernels/expression.hpp"

namespace fxx::inline FXX_ABI::detail {

/// How an operator becomes functions of kernels/expression.hpp.
struct KernelForm {
  enum class Form : std::uint8_t {
    none,
    plain,        // of all its arguments
    alpha,        // x and alpha times y
    alpha_first,  // y and alpha times x
    power,        // of a constant
    clamp,        // between numbers or tensors, of which one may be None
    gelu,
    relu6,
  };
  std::string_view name;
  Form form = Form::none;
  kernels::Function function = kernels::Function::negate;
};
inline constexpr KernelForm kernel_forms[] = {
    {"aten::neg", KernelForm::Form::plain, kernels::Function::negate},
    {"aten::abs", KernelForm::Form::plain, kernels::Function::absolute},
    {"aten::square", KernelForm::Form::plain, kernels::Function::square},
    {"aten::sqrt", KernelForm::Form::plain, kernels::Function::square_root},
    {"aten::reciprocal", KernelForm::Form::plain, kernels::Function::reciprocal},
    {"aten::rsqrt", KernelForm::Form::plain, kernels::Function::reciprocal_root},
    {"aten::exp", KernelForm::Form::plain, kernels::Function::exponential},
    {"aten::expm1", KernelForm::Form::plain, kernels::Function::exponential_minus_1},
    {"aten::log", KernelForm::Form::plain, kernels::Function::logarithm},
    {"aten::erf", KernelForm::Form::plain, kernels::Function::error},
    {"aten::tanh", KernelForm::Form::plain, kernels::Function::hyperbolic_tangent},
    {"aten::sigmoid", KernelForm::Form::plain, kernels::Function::sigmoid},
    {"aten::relu", KernelForm::Form::plain, kernels::Function::relu},
    {"aten::silu", KernelForm::Form::plain, kernels::Function::silu},
    {"aten::hardsigmoid", KernelForm::Form::plain, kernels::Function::hard_sigmoid},
    {"aten::hardswish", KernelForm::Form::plain, kernels::Function::hard_swish},
    {"aten::mish", KernelForm::Form::plain, kernels::Function::mish},
    {"aten::log_sigmoid", KernelForm::Form::plain, kernels::Function::log_sigmoid},
    {"aten::leaky_relu", KernelForm::Form::plain, kernels::Function::leaky_relu},
    {"aten::softplus", KernelForm::Form::plain, kernels::Function::softplus},
    {"aten::mul.Tensor", KernelForm::Form::plain, kernels::Function::multiply},
    {"aten::mul.Scalar", KernelForm::Form::plain, kernels::Function::multiply},
    {"aten::div.Tensor", KernelForm::Form::plain, kernels::Function::divide},
    {"aten::div.Scalar", KernelForm::Form::plain, kernels::Function::divide},
    {"aten::maximum", KernelForm::Form::plain, kernels::Function::maximum},
    {"aten::minimum", KernelForm::Form::plain, kernels::Function::minimum},
    {"aten::clamp_min", KernelForm::Form::plain, kernels::Function::maximum},
    {"aten::clamp_max", KernelForm::Form::plain, kernels::Function::minimum},
    {"aten::clamp_min.Tensor", KernelForm::Form::plain, kernels::Function::maximum},
    {"aten::clamp_max.Tensor", KernelForm::Form::plain, kernels::Function::minimum},
    {"aten::where.self", KernelForm::Form::plain, kernels::Function::select},
    {"aten::where.ScalarOther", KernelForm::Form::plain, kernels::Function::select},
    {"aten::where.ScalarSelf", KernelForm::Form::plain, kernels::Function::select},
    {"aten::lt.Tensor", KernelForm::Form::plain, kernels::Function::less},
    {"aten::lt.Scalar", KernelForm::Form::plain, kernels::Function::less},
    {"aten::le.Tensor", KernelForm::Form::plain, kernels::Function::less_or_equal},
    {"aten::le.Scalar", KernelForm::Form::plain, kernels::Function::less_or_equal},
    {"aten::gt.Tensor", KernelForm::Form::plain, kernels::Function::greater},
    {"aten::gt.Scalar", KernelForm::Form::plain, kernels::Function::greater},
    {"aten::ge.Tensor", KernelForm::Form::plain, kernels::Function::greater_or_equal},
    {"aten::ge.Scalar", KernelForm::Form::plain, kernels::Function::greater_or_equal},
    {"aten::eq.Tensor", KernelForm::Form::plain, kernels::Function::equal},
    {"aten::eq.Scalar", KernelForm::Form::plain, kernels::Function::equal},
    {"aten::ne.Tensor", KernelForm::Form::plain, kernels::Function::not_equal},
    {"aten::ne.Scalar", KernelForm::Form::plain, kernels::Function::not_equal},
    {"aten::add.Tensor", KernelForm::Form::alpha, kernels::Function::add},
    {"aten::add.Scalar", KernelForm::Form::alpha, kernels::Function::add},
    {"aten::sub.Tensor", KernelForm::Form::alpha, kernels::Function::subtract},
    {"aten::sub.Scalar", KernelForm::Form::alpha, kernels::Function::subtract},
    {"aten::rsub.Tensor", KernelForm::Form::alpha_first, kernels::Function::subtract},
    {"aten::rsub.Scalar", KernelForm::Form::alpha_first, kernels::Function::subtract},
    {"aten::pow.Tensor_Scalar", KernelForm::Form::power},
    {"aten::clamp", KernelForm::Form::clamp},
    {"aten::clamp.Tensor", KernelForm::Form::clamp},
    {"aten::hardtanh", KernelForm::Form::clamp},
    {"aten::relu6", KernelForm::Form::relu6},
    {"aten::gelu", KernelForm::Form::gelu},
};
constexpr KernelForm kernel_form(const Operator& op) {
  for (const KernelForm& form : kernel_forms)
    if (form.name == op.name) return form;
  return {};
}
/// Is a power with this exponent a product of roots, squares and reciprocals?
constexpr bool has_power(double exponent) {
  for (const double known : {-2., -1., -0.5, 0.5, 1., 2., 3., 4.})
    if (known == exponent) return true;
  return false;
}

}  // namespace fxx::inline FXX_ABI::detail
