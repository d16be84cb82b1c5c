// Bodies of passes/stable_order.hpp.
#pragma once

#include <algorithm>
#include <vector>

#include "fxx/ops/operation.hpp"
#include "fxx/ops/registry.hpp"
#include "fxx/passes/stable_order.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {
FXX_INLINE void replace_by(Graph& graph, Node* node, Node* with) {
  with->set_location(node->location());
  with->set_module_stack(node->module_stack());
  if (node->tensor_meta()) with->set_tensor_meta(*node->tensor_meta());
  node->replace_all_uses_with(with);
  with->swap_names(*node);
  graph.erase_node(node);
}
}  // namespace detail

FXX_INLINE std::size_t keep_order_of_equals(Graph& graph, Orders which) {
  return keep_order_of_equals(graph, which, graph.nodes().snapshot());
}
FXX_INLINE std::size_t keep_order_of_equals(Graph& graph, Orders which, const std::vector<Node*>& nodes) {
  std::size_t replaced = 0;
  for (Node* node : nodes) {
    if (node->is_erased()) continue;
    const Operator* op = operator_of(*node);
    if (!op) continue;
    const bool sorts = op->name == "aten::sort", places = op->name == "aten::argsort", tops = op->name == "aten::topk";
    if (!sorts && !places && !(tops && which == Orders::sorts_and_tops)) continue;
    const Argument self = argument_or_default(*node, *op, 0);
    const TensorMeta* meta = self.is_node() ? self.node()->tensor_meta() : nullptr;
    if (!meta || (meta->dtype != Dtype::float32 && meta->dtype > Dtype::int64)) continue;
    const auto get = [&](std::string_view name) { return argument_or_default(*node, *op, op->index_of(name)); };
    const InsertPoint point = graph.inserting_before(node);
    const KeywordArgument stable{"stable", true};
    if (!tops) {
      const std::vector<KeywordArgument> all = {stable, {"dim", get("dim")}, {"descending", get("descending")}};
      detail::replace_by(graph, node, graph.call_function(sorts ? ops::sort_stable : ops::argsort_stable, {self}, all));
      ++replaced;
      continue;
    }
    const Argument dim = get("dim"), k = get("k");
    const auto users = node->users().snapshot();
    if (dim.kind() != Argument::Kind::integer || k.kind() != Argument::Kind::integer || meta->dim() == 0) continue;
    if (!std::ranges::all_of(users, [](const Node* user) { return item_taken(*user).has_value(); })) continue;
    const std::vector<KeywordArgument> all = {stable, {"dim", dim}, {"descending", get("largest")}};
    Node* const sorted = graph.call_function(ops::sort_stable, {self}, all);
    // Each result once, in memory of its own without gaps, as topk gives it: what follows may view it or write to it.
    Node* made[2] = {};
    for (Node* user : users) {
      Node*& first = made[*item_taken(*user) == 0 || *item_taken(*user) == -2 ? 0 : 1];
      if (first) {
        user->replace_all_uses_with(first);
        graph.erase_node(user);
        continue;
      }
      Node* const item = graph.call_function(ops::operator_getitem, {sorted, user->arg(1)});
      Node* const part = graph.call_function(ops::slice_Tensor, {item, dim, 0, k});
      first = graph.call_function(ops::contiguous, {part});
      detail::replace_by(graph, user, first);
    }
    graph.erase_node(node);
    ++replaced;
  }
  return replaced;
}

}  // namespace fxx::inline FXX_ABI
