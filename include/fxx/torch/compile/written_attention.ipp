// Attention that rules made of softmax, as calls that are lowered to kernels; for torch/compile.ipp.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "fxx/codegen/lower.hpp"
#include "fxx/ops/operation.hpp"
#include "fxx/ops/registry.hpp"
#include "fxx/ops/softmax_attention.hpp"

namespace fxx::inline FXX_ABI::detail {

/// Is there a kernel for this call of fxx::softmax_attention? As Lowering::attention has them: else it would be called
/// back, and LibTorch's operator gives another value to queries that see nothing.
FXX_INLINE bool has_attention_kernel(const Node& call) {
  const auto meta = [](const Argument& value) { return value.is_node() ? value.node()->tensor_meta() : nullptr; };
  const TensorMeta *query = meta(call.arg(0)), *key = meta(call.arg(1)), *value = meta(call.arg(2)),
                   *result = call.tensor_meta();
  for (const TensorMeta* one : {query, key, value, result})
    if (!one || one->is_dynamic() || one->dtype != Dtype::float32 || one->numel() == 0) return false;
  const std::int64_t rank = result->dim();
  if (rank < 2 || query->dim() != rank || key->dim() != rank || value->dim() != rank) return false;
  for (std::size_t d = 0; d + 2 < static_cast<std::size_t>(rank); ++d)
    for (const TensorMeta* one : {query, key, value})
      if (one->shape[d] != 1 && one->shape[d] != result->shape[d]) return false;
  if (call.arg(3).is_none()) return true;
  const TensorMeta* mask = meta(call.arg(3));
  return mask && !mask->is_dynamic() && mask->dim() <= rank &&
         mask->dtype == (call.arg(4).is_none() ? Dtype::float32 : Dtype::boolean);
}

FXX_INLINE void stand_for(Node& old, Node& fresh) {
  if (old.tensor_meta()) fresh.set_tensor_meta(*old.tensor_meta());
  fresh.set_location(old.location());
  fresh.set_module_stack(old.module_stack());
  old.replace_all_uses_with(&fresh);
  fresh.swap_names(old);
  old.graph().erase_node(&old);
}

/// Calls of fxx::softmax_attention that have a kernel become calls of LibTorch's operator, which the plan takes for what
/// they are.
FXX_INLINE std::vector<WrittenAttention> written_attention(Graph& graph) {
  std::vector<WrittenAttention> all;
  for (Node* node : graph.nodes()) {
    if (!is_softmax_attention(*node) || !has_attention_kernel(*node)) continue;
    const InsertPoint point = graph.inserting_before(node);
    const Argument fill = node->arg(4);
    std::vector<Argument> args;
    args.reserve(4);
    for (std::size_t i = 0; i < 3; ++i) args.push_back(node->arg(i));
    if (!fill.is_none()) args.emplace_back(graph.call_function(ops::logical_not, {node->arg(3)}));
    else if (!node->arg(3).is_none()) args.push_back(node->arg(3));
    Node* call = graph.call_function(ops::scaled_dot_product_attention, args, {{"scale", node->arg(5)}});
    stand_for(*node, *call);
    all.push_back({std::string(call->name()), fill.is_none() ? -INFINITY : fill.number()});
  }
  return all;
}

/// The calls that stand for them by now.
FXX_INLINE void follow(const Graph& graph, std::vector<WrittenAttention>& all) {
  for (const Node* node : graph.nodes()) {
    if (!node->calls(ops::scaled_dot_product_attention) || !node->has_meta()) continue;
    const auto found = std::ranges::find(all, node->meta().from, &WrittenAttention::node);
    if (found != all.end()) found->node = node->name();
  }
}

/// Those among `nodes` are written out again. True when there were any.
FXX_INLINE bool write_out(Graph& graph, std::vector<WrittenAttention>& all, const auto& is_among) {
  const std::size_t before = all.size();
  for (Node* node : graph.nodes()) {
    const auto found = std::ranges::find(all, node->name(), &WrittenAttention::node);
    if (found == all.end() || !is_among(node)) continue;
    const InsertPoint point = graph.inserting_before(node);
    Argument mask = node->args().size() > 3 ? node->arg(3) : Argument(), fill;
    const TensorMeta* meta = mask.is_node() ? mask.node()->tensor_meta() : nullptr;
    if (meta && meta->dtype == Dtype::boolean)
      mask = graph.call_function(ops::logical_not, {mask}), fill = found->fill;
    Argument key = node->arg(1), value = node->arg(2);
    if (node->kwarg("enable_gqa")) {
      const std::int64_t copies =
          node->arg(0).node()->tensor_meta()->shape[1] / key.node()->tensor_meta()->shape[1];
      for (Argument* one : {&key, &value})
        *one = graph.call_function(ops::repeat_interleave_self_int, {*one, copies, 1});
    }
    const std::vector<Argument> args = {node->arg(0), key, value, mask, fill, *node->kwarg("scale")};
    Node* written = softmax_attention_function().expansion->write(graph, args).node();
    all.erase(found);
    stand_for(*node, *written);
  }
  return all.size() != before;
}

}  // namespace fxx::inline FXX_ABI::detail
