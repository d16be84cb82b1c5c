// Operators that LibTorch has by several names.
#pragma once

#include <string_view>
#include <utility>

#include "fxx/ops/registry.hpp"

namespace fxx::inline FXX_ABI::plans {

/// Operators that are another by another name, with the same parameters.
inline constexpr std::pair<std::string_view, std::string_view> aliases[] = {
    {"aten::absolute", "aten::abs"},
    {"aten::negative", "aten::neg"},
    {"aten::fix", "aten::trunc"},
    {"aten::sgn", "aten::sign"},
    {"aten::arccos", "aten::acos"},
    {"aten::arccosh", "aten::acosh"},
    {"aten::arcsin", "aten::asin"},
    {"aten::arcsinh", "aten::asinh"},
    {"aten::arctan", "aten::atan"},
    {"aten::arctanh", "aten::atanh"},
    {"aten::arctan2", "aten::atan2"},
    {"aten::special_erf", "aten::erf"},
    {"aten::special_expit", "aten::sigmoid"},
    {"aten::multiply.Tensor", "aten::mul.Tensor"},
    {"aten::multiply.Scalar", "aten::mul.Scalar"},
    {"aten::subtract.Tensor", "aten::sub.Tensor"},
    {"aten::subtract.Scalar", "aten::sub.Scalar"},
    {"aten::divide.Tensor", "aten::div.Tensor"},
    {"aten::divide.Scalar", "aten::div.Scalar"},
    {"aten::divide.Tensor_mode", "aten::div.Tensor_mode"},
    {"aten::divide.Scalar_mode", "aten::div.Scalar_mode"},
    {"aten::true_divide.Tensor", "aten::div.Tensor"},
    {"aten::true_divide.Scalar", "aten::div.Scalar"},
    {"aten::less.Tensor", "aten::lt.Tensor"},
    {"aten::less.Scalar", "aten::lt.Scalar"},
    {"aten::less_equal.Tensor", "aten::le.Tensor"},
    {"aten::less_equal.Scalar", "aten::le.Scalar"},
    {"aten::greater.Tensor", "aten::gt.Tensor"},
    {"aten::greater.Scalar", "aten::gt.Scalar"},
    {"aten::greater_equal.Tensor", "aten::ge.Tensor"},
    {"aten::greater_equal.Scalar", "aten::ge.Scalar"},
    {"aten::not_equal.Tensor", "aten::ne.Tensor"},
    {"aten::not_equal.Scalar", "aten::ne.Scalar"},
    {"aten::clip", "aten::clamp"},
    {"aten::clip.Tensor", "aten::clamp.Tensor"},
    {"aten::concat", "aten::cat"},
    {"aten::concatenate", "aten::cat"},
    {"aten::swapdims", "aten::transpose.int"},
    {"aten::unsafe_chunk", "aten::chunk"},
    {"aten::unsafe_split.Tensor", "aten::split.Tensor"},
    {"aten::unsafe_split_with_sizes", "aten::split_with_sizes"},
    {"aten::linalg_matmul", "aten::matmul"},
};
/// The operator that the node calls, by the one name that lowering knows it by.
FXX_INLINE const Operator* known_operator(const Node& node) {
  const Operator* op = operator_of(node);
  if (!op) return nullptr;
  for (const auto& [other, known] : aliases)
    if (other == op->name) return find_operator(known);
  return op;
}

}  // namespace fxx::inline FXX_ABI::plans
