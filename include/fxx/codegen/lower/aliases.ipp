// Operators that LibTorch has by several names.
#pragma once

#include <string_view>
#include <utility>

#include "fxx/ops/registry.hpp"
#include "fxx/ops/synonyms.hpp"

namespace fxx::inline FXX_ABI::plans {

/// What computes the same for the tensors that lowering takes, beside the synonyms of ops/synonyms.hpp.
inline constexpr std::pair<std::string_view, std::string_view> aliases[] = {
    {"aten::sgn", "aten::sign"},
    {"aten::unsafe_chunk", "aten::chunk"},
    {"aten::unsafe_split.Tensor", "aten::split.Tensor"},
    {"aten::unsafe_split_with_sizes", "aten::split_with_sizes"},
};
/// The operator that the node calls, by the one name that lowering knows it by.
FXX_INLINE const Operator* known_operator(const Node& node) {
  const Operator* op = operator_of(node);
  if (!op) return nullptr;
  if (has(op->traits, Trait::synonym)) return find_operator(meaning_of(op->name));
  for (const auto& [other, known] : aliases)
    if (other == op->name) return find_operator(known);
  return op;
}

}  // namespace fxx::inline FXX_ABI::plans
