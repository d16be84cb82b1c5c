// Which convolutions stand nearly alone in their graph, so that their error is nearly all that its results have.
#pragma once

#include <algorithm>
#include <iterator>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "fxx/ir/node.hpp"
#include "fxx/ops/registry.hpp"

namespace fxx::inline FXX_ABI::plans {

FXX_INLINE bool is_transposed(const Node& node) {
  const Operator* op = operator_of(node);
  return op && (op->name == "aten::conv_transpose2d.input" || op->name == "aten::conv_transpose1d");
}
FXX_INLINE bool is_convolution(const Node& node) {
  static constexpr std::string_view names[] = {"aten::conv1d", "aten::conv1d.padding", "aten::conv2d",
                                               "aten::conv2d.padding", "aten::convolution"};
  const Operator* op = operator_of(node);
  return is_transposed(node) || (op && std::find(std::begin(names), std::end(names), op->name) != std::end(names));
}

/// Does it add up 64 products and more for each element? That leaves errors which LibTorch has too.
FXX_INLINE bool is_deep_product(const Node& node) {
  constexpr std::int64_t deep = 64;
  const auto meta_at = [&](std::size_t i) -> const TensorMeta* {
    return i < node.args().size() && node.args()[i].is_node() ? node.args()[i].node()->tensor_meta() : nullptr;
  };
  if (is_convolution(node)) {
    const TensorMeta* weight = meta_at(1);
    return weight && !weight->is_dynamic() && weight->dim() > 2 &&
           weight->numel() / weight->shape[is_transposed(node) ? 1 : 0] >= deep;
  }
  const Operator* op = operator_of(node);
  if (!op) return false;
  static constexpr std::string_view names[] = {"aten::linear", "aten::mm", "aten::bmm", "aten::matmul",
                                               "aten::scaled_dot_product_attention"};
  const bool of_first = std::find(std::begin(names), std::end(names), op->name) != std::end(names);
  if (!of_first && op->name != "aten::addmm") return false;
  const TensorMeta* rows = meta_at(of_first ? 0 : 1);
  return rows && rows->dim() > 0 && rows->shape.back() >= deep;
}

/// Are there fewer than five deep products besides the convolution on some way through it, from the inputs of the
/// graph to a result or to memory that is written?
///
/// Beside the errors of five others, that of Winograd's tiles of 4 stays below five times LibTorch's. With fewer it
/// comes to more for one input in some hundreds, if numbers have signs; that of tiles of 2 is about LibTorch's own.
/// O(nodes before it, and behind it up to the fifth product).
FXX_INLINE bool stands_alone(const Node& convolution) {
  constexpr int enough = 5;
  int others = 0;
  std::unordered_set<const Node*> seen = {&convolution};
  std::vector<const Node*> pending = {&convolution};
  while (!pending.empty()) {
    const Node& node = *pending.back();
    pending.pop_back();
    if (&node != &convolution && is_deep_product(node) && ++others == enough) return false;
    for (const Node* input : node.all_input_nodes())
      if (seen.insert(input).second) pending.push_back(input);
  }
  pending = {&convolution};
  for (; others < enough; ++others) {
    std::vector<const Node*> behind_product;
    while (!pending.empty()) {
      const Node& node = *pending.back();
      pending.pop_back();
      for (const Node* user : node.users()) {
        const Operator* op = operator_of(*user);
        if (user->opcode() == Opcode::output || (op && op->mutates)) return true;
        if (seen.insert(user).second) (is_deep_product(*user) ? behind_product : pending).push_back(user);
      }
    }
    pending = std::move(behind_product);
  }
  return false;
}

}  // namespace fxx::inline FXX_ABI::plans
