// oneDNN's layers with what follows them, as LibTorch registers them for its own compiler: no operators of ATen, so
// ops/table.inc does not list them, but they are registered from the start.
//
// They run on the CPU alone, and gradients do not pass through them. LibTorch has them where it was built with oneDNN.
// Main names: ops::onednn_convolution, ops::onednn_convolution_binary, ops::onednn_convolution_transpose,
// ops::onednn_linear, ops::onednn_linear_binary. Cost: light.
#pragma once

#include "fxx/ops/operation.hpp"

namespace fxx::inline FXX_ABI::ops {

/// attr(convolution(X)), where `attr` is "none" or the name of a pointwise operator: "relu", "sigmoid", "tanh",
/// "hardswish", "hardsigmoid", "swish" (silu), "leaky_relu" of scalars [slope], "hardtanh" of [min, max], "gelu" with
/// the algorithm "none" or "tanh". Of 1, 2 or 3 dimensions.
inline constexpr auto onednn_convolution =
    op<"mkldnn::_convolution_pointwise(Tensor X, Tensor W, Tensor? B, int[] padding, int[] stride, int[] dilation, "
       "int groups, str attr, Scalar?[] scalars, str? algorithm) -> Tensor Y">;
/// unary_attr(convolution(X) binary_attr other), where `binary_attr` is "add", "sub", "mul" or "div", `alpha` None or
/// 1, and `unary_attr` None or as above. Of 2 or 3 dimensions.
inline constexpr auto onednn_convolution_binary =
    op<"mkldnn::_convolution_pointwise.binary(Tensor X, Tensor other, Tensor W, Tensor? B, int[] padding, "
       "int[] stride, int[] dilation, int groups, str binary_attr, Scalar? alpha, str? unary_attr, "
       "Scalar?[] unary_scalars, str? unary_algorithm) -> Tensor Y">;
inline constexpr auto onednn_convolution_transpose =
    op<"mkldnn::_convolution_transpose_pointwise(Tensor X, Tensor W, Tensor? B, int[] padding, int[] output_padding, "
       "int[] stride, int[] dilation, int groups, str attr, Scalar?[] scalars, str? algorithm) -> Tensor Y">;
inline constexpr auto onednn_linear =
    op<"mkldnn::_linear_pointwise(Tensor X, Tensor W, Tensor? B, str attr, Scalar?[] scalars, str? algorithm) -> "
       "Tensor Y">;
inline constexpr auto onednn_linear_binary =
    op<"mkldnn::_linear_pointwise.binary(Tensor X, Tensor other, Tensor W, Tensor? B, str attr) -> Tensor Y">;

}  // namespace fxx::inline FXX_ABI::ops
