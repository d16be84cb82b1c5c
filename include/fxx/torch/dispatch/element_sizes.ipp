// Bodies of torch/dispatch/element_sizes.hpp.
#pragma once

#include <algorithm>

#include "fxx/torch/dispatch/element_sizes.hpp"
#include "fxx/torch/dispatch/traced_tensor.hpp"
#include "fxx/torch/shape_rules.hpp"

namespace fxx::inline FXX_ABI::detail {

FXX_INLINE std::optional<ElementSizes::Decided> ElementSizes::dim_decided(const c10::OperatorHandle& op,
                                                                          const torch::jit::Stack& stack) {
  const auto& arguments = op.schema().arguments();
  const auto [known, fresh] = known_.try_emplace(&op.schema(), DecidedBy::none);
  if (fresh) {
    const c10::OperatorName& name = op.operator_name();
    if (name.name == "aten::index") known->second = DecidedBy::mask;
    else if (name.name == "aten::repeat_interleave" && name.overload_name != "self_int")
      known->second = DecidedBy::repeats;
    else if (name.name == "aten::one_hot") known->second = DecidedBy::classes;
    else if (name.name == "aten::masked_select") known->second = DecidedBy::selected;
    else if (name.name == "aten::tensor_split" && name.overload_name == "tensor_indices_or_sections")
      known->second = DecidedBy::sections;
    else if (name.name == "aten::_pack_padded_sequence") known->second = DecidedBy::lengths;
    // Their first results are as large as their arguments say.
    else if (name.name == "aten::linalg_lstsq" || name.name == "aten::_ctc_loss") known->second = DecidedBy::none;
    // Operators composed of those that have the tag do not have it.
    else if (op.hasTag(at::Tag::dynamic_output_shape) || is_data_dependent(name) ||
             (name.name == "aten::where" && arguments.size() == 1))
      known->second = DecidedBy::values;
  }
  if (known->second == DecidedBy::none) return std::nullopt;
  const std::size_t first = stack.size() - arguments.size();
  std::int64_t dim = 0;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const c10::IValue& value = stack[first + i];
    if (arguments[i].name() == "dim" && value.isInt()) dim = value.toInt();
    if (arguments[i].name() == "output_size" && !value.isNone()) return std::nullopt;
    if (arguments[i].name() == "num_classes" && value.isInt() && value.toInt() >= 0) return std::nullopt;
  }
  const int last = static_cast<int>(arguments.size()) - 1;
  switch (known->second) {
    case DecidedBy::classes: return Decided{-1, 0};
    case DecidedBy::repeats: return Decided{dim, arguments[0].name() == "self" ? std::min(1, last) : 0};
    case DecidedBy::selected:
    case DecidedBy::sections: return Decided{dim, 1};
    case DecidedBy::lengths: return Decided{0, 1};
    case DecidedBy::mask: break;
    default: return Decided{dim, -1};
  }
  const auto indices = stack[first + 1].toListRef();
  const auto is_given = [](const c10::IValue& index) { return index.isTensor() && index.toTensor().defined(); };
  const auto is_mask = [&](const c10::IValue& index) {
    return is_given(index) &&
           (index.toTensor().scalar_type() == at::kBool || index.toTensor().scalar_type() == at::kByte);
  };
  if (std::none_of(indices.begin(), indices.end(), is_mask)) return std::nullopt;
  return Decided{std::find_if(indices.begin(), indices.end(), is_given) - indices.begin(), 1};
}

FXX_INLINE std::int64_t ElementSizes::size_of(const c10::IValue& result, std::int64_t dim) {
  const at::Tensor tensor = result.isTensor()                                           ? result.toTensor()
                            : result.isTensorList() && !result.toTensorVector().empty() ? result.toTensorVector()[0]
                                                                                        : at::Tensor();
  if (!tensor.defined()) return -1;
  const at::Tensor& inside = bare(tensor);
  if (dim < 0) dim += inside.dim();
  return dim >= 0 && dim < inside.dim() ? inside.size(dim) : -1;
}

}  // namespace fxx::inline FXX_ABI::detail
