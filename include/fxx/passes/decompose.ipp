// Bodies of passes/decompose.hpp: which operators, and putting others in their place. What each is made of is in the
// folder passes/decompose/, a file for each family.
#pragma once

#include <unordered_map>

#include "fxx/ops/registry.hpp"
#include "fxx/passes/decompose.hpp"
#include "fxx/passes/decompose/composite.ipp"
#include "fxx/passes/decompose/einsum.ipp"
#include "fxx/passes/decompose/images.ipp"
#include "fxx/passes/decompose/matrices.ipp"
#include "fxx/passes/decompose/networks.ipp"
#include "fxx/passes/decompose/onednn.ipp"
#include "fxx/passes/decompose/recurrent.ipp"
#include "fxx/passes/decompose/shapes.ipp"

namespace fxx::inline FXX_ABI {

namespace detail {

/// What a call of the operator becomes, and of which dtypes: who computes with few of them is better asked as a whole for
/// the others.
struct KnownDecomposition {
  Decomposition of = nullptr;
  bool any_dtype = false;
};
FXX_INLINE const std::unordered_map<std::string_view, KnownDecomposition>& decompositions() {
  static const auto known = [] {
    std::unordered_map<std::string_view, KnownDecomposition> result;
    for (const auto& [name, of] : einsum::all) result[name] = {of};
    for (const auto& [name, of] : images::all) result[name] = {of};
    for (const auto& [name, of] : matrices::all) result[name] = {of};
    for (const auto& [name, of] : networks::all) result[name] = {of};
    for (const auto& [name, of] : onednn::all) result[name] = {of};
    for (const auto& [name, of] : recurrent::all) result[name] = {of};
    for (const auto& [name, of] : shapes::all) result[name] = {of, true};
    return result;
  }();
  return known;
}
FXX_INLINE bool fits(const KnownDecomposition& known, const Node& node) {
  for (const Node* input : node.all_input_nodes()) {
    const TensorMeta* meta = input->tensor_meta();
    if (!meta || meta->is_dynamic() || is_complex(meta->dtype)) return false;
    if (!known.any_dtype && is_floating_point(meta->dtype) && meta->dtype != Dtype::float32) return false;
  }
  return true;
}

/// The users of a result that is several tensors, by which they take; nothing where one takes them otherwise.
FXX_INLINE std::optional<std::vector<std::pair<Node*, std::size_t>>> takers(Node& node, std::size_t count) {
  std::vector<std::pair<Node*, std::size_t>> result;
  for (Node* user : node.users()) {
    const std::optional<std::int64_t> i = item_taken(*user);
    if (!i || *i < 0 || *i >= static_cast<std::int64_t>(count)) return {};
    result.emplace_back(user, static_cast<std::size_t>(*i));
  }
  return result;
}

}  // namespace detail

FXX_INLINE std::size_t decompose(Graph& graph) {
  std::size_t replaced = 0;
  for (Node* node : graph.nodes().snapshot()) {
    const Operator* op = operator_of(*node);
    if (!op) continue;
    const auto known = detail::decompositions().find(op->name);
    if (known == detail::decompositions().end() || !detail::fits(known->second, *node)) continue;
    const std::uint32_t first_fresh = graph.index_bound();
    detail::Parts parts;
    {
      const InsertPoint point = graph.inserting_before(node);
      parts = known->second.of(detail::Composite(graph, *node, *op));
    }
    const bool one = op->returns.size() == 1 && op->returns[0].type == Type{.base = ValueType::tensor};
    const auto taken = one ? std::nullopt : detail::takers(*node, parts.size());
    std::vector<Node*> fresh;
    for (Node* n = node->prev(); n && n->index() >= first_fresh; n = n->prev()) fresh.push_back(n);
    if (parts.empty() || (one ? parts.size() != 1 : !taken)) {
      for (Node* n : fresh) graph.erase_node(n);  // the last first
      continue;
    }
    for (Node* n : fresh) {
      n->set_location(node->location());
      n->set_module_stack(node->module_stack());
    }
    const auto replace = [&](Node& old, const Argument& with) {
      Node* const result = with.node();
      old.replace_all_uses_with(result);
      if (result->index() >= first_fresh) {
        if (old.tensor_meta()) result->set_tensor_meta(*old.tensor_meta());
        if (!old.type().empty()) result->set_type(old.type());
        if (old.has_meta()) result->meta() = old.meta();
        result->swap_names(old);
      }
      graph.erase_node(&old);
    };
    if (one) {
      replace(*node, parts[0]);
    } else {
      for (const auto& [user, i] : *taken) replace(*user, parts[i]);
      graph.erase_node(node);
    }
    ++replaced;
  }
  return replaced;
}

}  // namespace fxx::inline FXX_ABI
