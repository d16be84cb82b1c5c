// Operators that LibTorch has by several names, `multiply` and `mul`: the same parameters in the same places.
//
// Rules, matchers and lowering know each by one name. In ops/table.inc the others have the trait `synonym`.
// Main names: meaning_of. Cost: light.
#pragma once

#include <string_view>

#include "fxx/config.hpp"

namespace fxx::inline FXX_ABI {

struct Synonym {
  std::string_view name, meaning;
};
inline constexpr Synonym synonyms[] = {
    {"aten::absolute", "aten::abs"},
    {"aten::negative", "aten::neg"},
    {"aten::fix", "aten::trunc"},
    {"aten::arccos", "aten::acos"},
    {"aten::arccosh", "aten::acosh"},
    {"aten::arcsin", "aten::asin"},
    {"aten::arcsinh", "aten::asinh"},
    {"aten::arctan", "aten::atan"},
    {"aten::arctanh", "aten::atanh"},
    {"aten::arctan2", "aten::atan2"},
    {"aten::special_erf", "aten::erf"},
    {"aten::special_expit", "aten::sigmoid"},
    {"aten::special_i0", "aten::i0"},
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
    {"aten::swapaxes", "aten::transpose.int"},
    {"aten::moveaxis.int", "aten::movedim.int"},
    {"aten::moveaxis.intlist", "aten::movedim.intlist"},
    {"aten::linalg_matmul", "aten::matmul"},
    {"aten::inverse", "aten::linalg_inv"},
    {"aten::ger", "aten::outer"},
    {"aten::row_stack", "aten::vstack"},
};
/// The one name of the operator of this name; the name itself where it is no synonym.
constexpr std::string_view meaning_of(std::string_view name) {
  for (const Synonym& s : synonyms)
    if (s.name == name) return s.meaning;
  return name;
}

}  // namespace fxx::inline FXX_ABI
