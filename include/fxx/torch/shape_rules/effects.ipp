// Operators that give nothing: steps of optimizers, and questions that are not answered.
#pragma once

#include "fxx/torch/shape_rules/shared.ipp"

namespace fxx::inline FXX_ABI::detail::shapes {

// clang-format off
inline constexpr ShapeRuleOf effect_rules[] = {
    {"_fused_adam_", nothing},                      {"_fused_adam_.tensor_lr", nothing},
    {"_fused_adamw_", nothing},                     {"_fused_adamw_.tensor_lr", nothing},
    {"_fused_sgd_", nothing},                       {"_fused_sgd_.tensor_lr", nothing},
    {"_fused_adagrad_", nothing},                   {"_fused_adagrad_.tensor_lr", nothing},
    {"_amp_foreach_non_finite_check_and_unscale_", nothing},
    {"_assert_async", nothing},                     {"_assert_async.msg", nothing},
};
// clang-format on

}  // namespace fxx::inline FXX_ABI::detail::shapes
