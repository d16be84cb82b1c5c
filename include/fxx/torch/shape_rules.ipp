// Bodies of torch/shape_rules.hpp: tensors on the meta device, and the rules of all families, found by name.
//
// The rules are in shape_rules/, a file for each family of operators, which ends with the list of them. Strides are
// those that the kernels for the CPU give. Where a rule calls operators, it does so on the meta device.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "fxx/runtime/backtrace.hpp"
#include "fxx/torch/shape_rules.hpp"
#include "fxx/torch/shape_rules/attention.ipp"
#include "fxx/torch/shape_rules/convolution.ipp"
#include "fxx/torch/shape_rules/effects.ipp"
#include "fxx/torch/shape_rules/fourier.ipp"
#include "fxx/torch/shape_rules/indexing.ipp"
#include "fxx/torch/shape_rules/linear_algebra.ipp"
#include "fxx/torch/shape_rules/losses.ipp"
#include "fxx/torch/shape_rules/norms.ipp"
#include "fxx/torch/shape_rules/pointwise.ipp"
#include "fxx/torch/shape_rules/random.ipp"
#include "fxx/torch/shape_rules/reductions.ipp"
#include "fxx/torch/shape_rules/spatial.ipp"

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

// --- all rules ---------------------------------------------------------------------------------------------------

FXX_INLINE const std::unordered_map<std::string_view, ShapeRule>& shape_rules() {
  static const std::unordered_map<std::string_view, ShapeRule> rules = [] {
    using namespace shapes;
    const std::span<const ShapeRuleOf> families[] = {
        pointwise_rules, random_rules,    convolution_rules, norm_rules,           spatial_rules, attention_rules,
        indexing_rules,  reduction_rules, loss_rules,        linear_algebra_rules, fourier_rules, effect_rules};
    std::unordered_map<std::string_view, ShapeRule> all;
    for (const auto& family : families)
      for (const ShapeRuleOf& of : family) all.emplace(of.name, of.rule);
    return all;
  }();
  return rules;
}

FXX_INLINE ShapeRule shape_rule_named(std::string_view base, std::string_view overload) {
  constexpr std::string_view space = "aten::";
  if (!base.starts_with(space) && !base.starts_with("mkldnn::")) return nullptr;
  std::string name(base.starts_with(space) ? base.substr(space.size()) : base);
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
