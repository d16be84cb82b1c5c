// Convolutions and linears with the activation or the sum behind them, as one call of oneDNN: for graphs that LibTorch
// runs.
// Main names: rules::onednn. Cost: light. After Inductor's mkldnn_fusion.py, 2.13.
#pragma once

#include "fxx/rewrite/functions.hpp"
#include "fxx/rules/guards.hpp"

namespace fxx::inline FXX_ABI::rules {

namespace onednn_rules {
using namespace pattern;
inline constexpr auto weight = constant<"weight">;
inline constexpr auto bias = optional<"bias">;
inline constexpr auto stride = value<"stride">;
inline constexpr auto padding = value<"padding">;
inline constexpr auto output_padding = value<"output_padding">;
inline constexpr auto dilation = value<"dilation">;
inline constexpr auto groups = value<"groups">;
inline constexpr auto other = tensor<"other">;
inline constexpr auto joined_by = value<"joined by">;
inline constexpr auto activation = value<"activation">;
inline constexpr auto slope = scalar<"slope">;
inline constexpr auto low = scalar<"low">;
inline constexpr auto high = scalar<"high">;
inline constexpr auto algorithm = value<"algorithm">;

/// What oneDNN computes behind a layer, under its names.
template <rewrite::Pattern P>
consteval auto activated(P p) {
  return with<"activation">(text<"relu">, relu(p)) | with<"activation">(text<"sigmoid">, sigmoid(p)) |
         with<"activation">(text<"tanh">, tanh(p)) | with<"activation">(text<"hardswish">, hardswish(p)) |
         with<"activation">(text<"hardsigmoid">, hardsigmoid(p)) | with<"activation">(text<"swish">, silu(p)) |
         with<"activation">(text<"leaky_relu">, leaky_relu(p, slope)) |
         with<"activation">(text<"hardtanh">, hardtanh(p, low, high) | clamp(p, low, high) |
                                                  with<"low">(0_c, with<"high">(6_c, relu6(p)))) |
         with<"activation">(text<"gelu">, gelu(p, arg<"approximate">(algorithm)));
}
template <rewrite::Pattern P>
consteval auto joined(P p) {
  return with<"joined by">(text<"add">, add(p, other)) | with<"joined by">(text<"sub">, sub(p, other)) |
         with<"joined by">(text<"mul">, mul(p, other));
}

bool convolution_fits(const Match& m);
bool transposed_fits(const Match& m);
bool linear_fits(const Match& m);
Argument fused_convolution(const Match& m);
Argument joined_convolution(const Match& m);
Argument activated_sum(const Match& m);
Argument fused_transposed(const Match& m);
Argument fused_linear(const Match& m);
Argument joined_linear(const Match& m);
}  // namespace onednn_rules

/// For graphs that the interpreter or readable C++ runs; `compile` takes the calls apart again. No part of rules::all:
/// gradients do not pass through oneDNN's operators, so it is for models that only infer; and it pays where layers are
/// large, since oneDNN lays out weights anew at every call, and LibTorch leaves small layers to other kernels.
/// Law: oneDNN's layer with f and g behind it is f(g(layer)), up to rounding, where the layer is a convolution of
/// images, a transposed one or a linear, g the sum or difference with a value or the product, and f an activation; of
/// numbers that are finite: behind the layer oneDNN's relu, hardtanh, hardsigmoid and sigmoid may make a number of nan,
/// its relu nan of minus infinity, and its gelu nan of infinity. Needs: a constant weight; float32 on the CPU, of known
/// sizes, with a batch and not empty; the call that goes used once; for g a value of just the result's shape, and
/// alpha 1; strides that say that all lies in order, or nobody who sees the layout.
inline constexpr auto onednn = [] {
  using namespace pattern;
  using namespace onednn_rules;
  constexpr auto convolution = conv2d(x, weight, bias, stride, padding, dilation, groups).once();
  constexpr auto transposed =
      conv_transpose2d(x, weight, bias, stride, padding, output_padding, groups, dilation).once();
  return ruleset(
      rule<"convolution, joined, relu", law::no_overflow | law::finite>(relu(joined(convolution).once()) >> activated_sum, convolution_fits),
      rule<"convolution, joined", law::no_overflow | law::finite>(joined(convolution) >> joined_convolution, convolution_fits),
      rule<"convolution, activated", law::no_overflow | law::finite>(activated(convolution) >> fused_convolution, convolution_fits),
      rule<"transposed convolution, activated", law::no_overflow | law::finite>(activated(transposed) >> fused_transposed, transposed_fits),
      rule<"linear, joined", law::no_overflow | law::finite>(joined(linear(x, weight, bias).once()) >> joined_linear, linear_fits),
      rule<"linear, activated", law::no_overflow | law::finite>(activated(linear(x, weight, bias).once()) >> fused_linear, linear_fits));
}();

}  // namespace fxx::inline FXX_ABI::rules

#if defined(FXX_HEADER_ONLY)
#include "fxx/rules/onednn.ipp"
#endif
