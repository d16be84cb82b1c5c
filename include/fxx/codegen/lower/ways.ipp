// What tells steps apart that may be computed in several ways, and which way was said for it.
#pragma once

#include "fxx/codegen/kernel_plan.ipp"
#include "fxx/codegen/lower/lowering.ipp"

namespace fxx::inline FXX_ABI::plans {

/// Of a convolution all that does not follow from the way, nor from where its image lies.
FXX_INLINE std::string shape_of_convolution(const Convolution& k) {
  std::string text = detail::by({k.kernel_height, k.kernel_width}) + ", " + std::to_string(k.channels) + " -> " +
                     detail::by({k.out_height, k.out_width, k.out_channels});
  if (k.images > 1) text += ", " + std::to_string(k.images) + " images";
  if (k.groups > 1) text += ", " + std::to_string(k.groups) + " groups";
  if (k.stride_height > 1 || k.stride_width > 1) text += ", stride " + detail::by({k.stride_height, k.stride_width});
  if (k.dilation_height > 1 || k.dilation_width > 1)
    text += ", dilation " + detail::by({k.dilation_height, k.dilation_width});
  if (k.quantised) text += ", of bytes";
  if (k.alone) text += ", alone";
  return text;
}
/// Empty where there is one way.
FXX_INLINE std::string shape_of(const Kernel& kernel) {
  if (const auto* k = std::get_if<MatrixProduct>(&kernel))
    return (k->batch > 1 ? std::to_string(k->batch) + " products " : "product ") + detail::by({k->rows, k->depth}) +
           " -> " + std::to_string(k->columns) + (k->weights.constant ? "" : ", both computed") +
           (k->quantised ? ", of bytes" : "");
  if (const auto* k = std::get_if<Convolution>(&kernel)) {
    if (k->is_depthwise()) return {};
    return (k->method == Convolution::Method::transposed ? "transposed convolution " : "convolution ") +
           shape_of_convolution(*k);
  }
  if (const auto* k = std::get_if<DepthwiseBlock>(&kernel))
    return "depthwise " + shape_of_convolution(k->filter) +
           (k->expand     ? ", behind a product of " + std::to_string(k->expand->depth)
            : k->expanded ? ", of computed rows"
                          : "") +
           (k->project ? ", before a product to " + std::to_string(k->project->columns) : "");
  if (const auto* k = std::get_if<Attention>(&kernel))
    return "attention " + std::to_string(k->heads) + " of " + detail::by({k->queries, k->keys, k->size}) +
           (k->value_size != k->size ? ", values of " + std::to_string(k->value_size) : "") +
           (k->causal ? ", causal" : "") + (k->mask ? ", masked" : "") + (k->softmax ? ", as softmax" : "");
  return {};
}

FXX_INLINE std::string Lowering::shape_of(const Kernel& kernel) const {
  std::string shape = plans::shape_of(kernel);
  if (shape.empty()) return shape;
  if (options_.accuracy != Accuracy::standard) shape += options_.accuracy == Accuracy::exact ? ", exact" : ", fast";
  return shape + (weights_stay_ ? ", few weights" : "");
}

FXX_INLINE const Way& Lowering::way_of(const std::string& shape) const {
  static const Way estimated;
  const auto said = options_.ways.find(shape);
  return said == options_.ways.end() ? estimated : said->second;
}

FXX_INLINE void Lowering::require_no_library(const Kernel& kernel) const {
  if (is_left_to_library(kernel)) throw NoKernel{std::string(left_to_library)};
}

}  // namespace fxx::inline FXX_ABI::plans
