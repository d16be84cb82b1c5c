// Bodies of codegen/lower.hpp; a file for each family of operators is in codegen/lower/.
#pragma once

#include "fxx/codegen/arena.hpp"
#include "fxx/codegen/lower/attention.ipp"
#include "fxx/codegen/lower/images.ipp"
#include "fxx/codegen/lower/lowering.ipp"
#include "fxx/codegen/lower/pointwise.ipp"
#include "fxx/codegen/lower/products.ipp"
#include "fxx/codegen/lower/recurrent.ipp"
#include "fxx/codegen/lower/rows.ipp"
#include "fxx/codegen/lower/views.ipp"

namespace fxx::inline FXX_ABI {

namespace plans {

FXX_INLINE const std::unordered_map<std::string_view, Lowering::Handler>& Lowering::handlers() {
  static const std::unordered_map<std::string_view, Handler> all = {
      {"aten::contiguous", &Lowering::same},
      {"aten::clone", &Lowering::same},
      {"aten::detach", &Lowering::same},
      {"aten::alias", &Lowering::same},
      {"aten::lift_fresh", &Lowering::same},
      {"aten::dropout", &Lowering::same},
      {"aten::feature_dropout", &Lowering::same},
      {"aten::to.dtype", &Lowering::same},
      {"aten::to.dtype_layout", &Lowering::same},
      {"aten::to.device", &Lowering::same},
      {"aten::view", &Lowering::reshape},
      {"aten::reshape", &Lowering::reshape},
      {"aten::_unsafe_view", &Lowering::reshape},
      {"aten::view_as", &Lowering::reshape},
      {"aten::reshape_as", &Lowering::reshape},
      {"aten::flatten.using_ints", &Lowering::reshape},
      {"aten::unflatten.int", &Lowering::reshape},
      {"aten::unsqueeze", &Lowering::unsqueeze},
      {"aten::squeeze", &Lowering::unsqueeze},
      {"aten::squeeze.dim", &Lowering::unsqueeze},
      {"aten::squeeze.dims", &Lowering::unsqueeze},
      {"aten::permute", &Lowering::permute},
      {"aten::transpose.int", &Lowering::transpose},
      {"aten::t", &Lowering::transpose},
      {"aten::expand", &Lowering::expand},
      {"aten::expand_as", &Lowering::expand},
      {"aten::slice.Tensor", &Lowering::slice},
      {"aten::narrow", &Lowering::narrow},
      {"aten::select.int", &Lowering::select},
      {"aten::split.Tensor", &Lowering::split},
      {"aten::split.sizes", &Lowering::split},
      {"aten::split_with_sizes", &Lowering::split},
      {"aten::chunk", &Lowering::split},
      {"aten::unbind.int", &Lowering::unbind},
      {"aten::cat", &Lowering::concatenate},
      {"aten::concat", &Lowering::concatenate},
      {"aten::stack", &Lowering::concatenate},
      {"aten::masked_fill.Scalar", &Lowering::masked_fill},
      {"aten::embedding", &Lowering::embedding},
      {"aten::linear", &Lowering::linear},
      {"aten::addmm", &Lowering::addmm},
      {"aten::mm", &Lowering::addmm},
      {"aten::bmm", &Lowering::matmul},
      {"aten::matmul", &Lowering::matmul},
      {"aten::conv2d", &Lowering::convolution},
      {"aten::convolution", &Lowering::convolution},
      {"aten::max_pool2d", &Lowering::pool},
      {"aten::avg_pool2d", &Lowering::pool},
      {"aten::adaptive_avg_pool2d", &Lowering::adaptive_pool},
      {"aten::softmax.int", &Lowering::softmax},
      {"aten::_softmax", &Lowering::softmax},
      {"aten::log_softmax.int", &Lowering::softmax},
      {"aten::_log_softmax", &Lowering::softmax},
      {"aten::layer_norm", &Lowering::layer_norm},
      {"aten::rms_norm", &Lowering::layer_norm},
      {"aten::sum", &Lowering::reduce},
      {"aten::sum.dim_IntList", &Lowering::reduce},
      {"aten::mean", &Lowering::reduce},
      {"aten::mean.dim", &Lowering::reduce},
      {"aten::amax", &Lowering::reduce},
      {"aten::amin", &Lowering::reduce},
      {"aten::norm.Scalar", &Lowering::norm},
      {"aten::norm.ScalarOpt_dim", &Lowering::norm},
      {"aten::linalg_vector_norm", &Lowering::norm},
      {"aten::slice_scatter", &Lowering::scatter_slice},
      {"aten::select_scatter", &Lowering::scatter_slice},
      {"aten::pad", &Lowering::pad},
      {"aten::constant_pad_nd", &Lowering::pad},
      {"aten::roll", &Lowering::roll},
      {"aten::zeros", &Lowering::constant},
      {"aten::ones", &Lowering::constant},
      {"aten::full", &Lowering::constant},
      {"aten::zeros_like", &Lowering::constant},
      {"aten::ones_like", &Lowering::constant},
      {"aten::full_like", &Lowering::constant},
      {"aten::new_zeros", &Lowering::constant},
      {"aten::new_ones", &Lowering::constant},
      {"aten::new_full", &Lowering::constant},
      {"aten::empty.memory_format", &Lowering::constant},
      {"aten::empty_like", &Lowering::constant},
      {"aten::new_empty", &Lowering::constant},
      {"aten::fill.Scalar", &Lowering::fill},
      {"aten::fill.Tensor", &Lowering::fill},
      {"aten::logical_and", &Lowering::logic},
      {"aten::logical_or", &Lowering::logic},
      {"aten::logical_xor", &Lowering::logic},
      {"aten::logical_not", &Lowering::logic},
      {"aten::bitwise_and.Tensor", &Lowering::logic},
      {"aten::bitwise_or.Tensor", &Lowering::logic},
      {"aten::bitwise_xor.Tensor", &Lowering::logic},
      {"aten::bitwise_not", &Lowering::logic},
      {"aten::elu", &Lowering::elu},
      {"aten::conv_transpose2d.input", &Lowering::transposed_convolution},
      {"aten::upsample_nearest2d", &Lowering::resize},
      {"aten::upsample_nearest2d.vec", &Lowering::resize},
      {"aten::_upsample_nearest_exact2d", &Lowering::resize},
      {"aten::upsample_bilinear2d", &Lowering::resize},
      {"aten::upsample_bilinear2d.vec", &Lowering::resize},
      {"aten::batch_norm", &Lowering::batch_norm},
      {"aten::group_norm", &Lowering::group_norm},
      {"aten::lstm.input", &Lowering::recurrent},
      {"aten::gru.input", &Lowering::recurrent},
      {"aten::scaled_dot_product_attention", &Lowering::attention},
  };
  return all;
}

}  // namespace plans

FXX_INLINE KernelPlan lower(const Graph& graph, const Owner& owner, const LowerOptions& options) {
  KernelPlan plan = plans::Lowering(graph, owner, options).lower();
  place_buffers(plan);
  return plan;
}

}  // namespace fxx::inline FXX_ABI
