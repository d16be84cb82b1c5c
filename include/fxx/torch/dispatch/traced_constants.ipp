// Bodies of torch/dispatch/traced_constants.hpp.
#pragma once

#include <ATen/core/Tensor.h>

// after the tensor's own header
#include <ATen/ops/empty_ops.h>
#include <ATen/ops/fill_ops.h>
#include <ATen/ops/select_ops.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "fxx/ops/effects.hpp"
#include "fxx/ops/registry.hpp"
#include "fxx/torch/dispatch/traced_constants.hpp"
#include "fxx/torch/dispatch/traced_tensor.hpp"
#include "fxx/torch/fake.hpp"
#include "fxx/torch/types.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {

/// What LibTorch made of a list of numbers: the values, and the nodes that do the same, of which `result` is the
/// tensor.
struct FilledList {
  at::Tensor value;  // undefined when it is something else
  Node* result = nullptr;
  std::vector<Node*> nodes;
};

/// The list that starts with the node, if one does: after `empty` at once a select for each part and a fill_ for each
/// element, and a `to` that changes nothing.
FXX_INLINE FilledList filled_list(Node& made) {
  const auto is = [](const Node& node, OperatorIndex op) { return node.operation() == &table_operator(op); };
  const TensorMeta* meta = made.tensor_meta();
  const auto has_keyword = [](const Node& node, std::string_view key) {
    return std::any_of(node.kwargs().begin(), node.kwargs().end(),
                       [&](const KeywordArgument& k) { return k.key == key; });
  };
  if (!is(made, OperatorIndex::empty_memory_format) || !meta || meta->device.type != DeviceType::cpu ||
      meta->numel() <= 0 || has_keyword(made, "memory_format"))
    return {};
  FilledList list{{}, &made, {&made}};
  // The operators are run again, for what they leave.
  std::unordered_map<const Node*, at::Tensor> views;
  std::unordered_set<std::int64_t> filled;  // offsets
  for (Node* node = made.next(); filled.size() < static_cast<std::size_t>(meta->numel()); node = node->next()) {
    if (!node || node->args().empty() || !node->arg(0).is_node() || !node->kwargs().empty()) return {};
    if (views.empty())
      views.emplace(&made, at::_ops::empty_memory_format::call(c10::fromIntArrayRefSlow(meta->shape),
                                                               to_scalar_type(meta->dtype), {}, {}, {}, {}));
    const auto view = views.find(node->arg(0).node());
    if (view == views.end()) return {};
    if (is(*node, OperatorIndex::select_int) && view->second.dim() > 0 && node->arg(1) == Argument(0) &&
        node->arg(2).kind() == Argument::Kind::integer) {
      views.emplace(node, at::_ops::select_int::call(view->second, 0, node->arg(2).integer()));
    } else if (is(*node, OperatorIndex::fill__Scalar) && view->second.dim() == 0 && node->arg(1).is_number() &&
               node->num_users() == 0) {
      at::_ops::fill__Scalar::call(view->second, to_scalar(node->arg(1)));
      filled.insert(view->second.storage_offset());
    } else {
      return {};
    }
    list.nodes.push_back(node);
  }
  const std::unordered_set<const Node*> inside(list.nodes.begin(), list.nodes.end());
  for (const Node* node : list.nodes)
    for (const Node* user : node->users())
      if (node != &made && !inside.contains(user)) return {};
  if (Node* to = list.nodes.back()->next();
      to && is(*to, OperatorIndex::to_dtype_layout) && to->arg(0) == Argument(&made) && to->tensor_meta() &&
      to->tensor_meta()->dtype == meta->dtype && to->tensor_meta()->device == meta->device &&
      to->kwargs().size() == 1 && !has_keyword(*to, "copy")) {
    list.result = to;
    list.nodes.push_back(to);
  }
  list.value = views.at(&made);
  return list;
}

FXX_INLINE void fold_filled_lists(Graph& graph, const ModuleOwner& owner, TracedConstants& constants) {
  const at::NoGradGuard no_grad;
  const FakeScope real(false);                                    // the program's numbers are known
  const c10::impl::ExcludeDispatchKeyGuard unwatched(trace_key);  // by a trace around this one
  std::vector<FilledList> lists;
  for (Node* node : graph.nodes())
    if (FilledList list = filled_list(*node); list.value.defined()) lists.push_back(std::move(list));
  std::size_t next = 0;
  for (const FilledList& list : lists) {
    Node* made = list.nodes[0];
    std::string name;
    do name = owner.fresh_name(constant_prefix, next);
    while (constants.contains(name));
    constants.emplace(name, list.value);
    const InsertPoint point = graph.inserting_before(made);
    Node* constant = graph.get_attr(name);
    constant->set_tensor_meta(*made->tensor_meta());
    constant->set_module_stack(made->module_stack());
    constant->meta().stack_trace = made->meta().stack_trace;
    for (Node* node : {made, list.result}) node->replace_all_uses_with(constant);
    for (auto node = list.nodes.rbegin(); node != list.nodes.rend(); ++node) graph.erase_node(*node);
  }
}

FXX_INLINE bool is_held_by_graph_alone(const GraphModule::Attribute& constant) {
  const auto* tensor = std::get_if<at::Tensor>(&constant);
  if (!tensor || tensor->use_count() > 1) return false;
  const at::Tensor& inside = bare(*tensor);
  return !inside.has_storage() || inside.storage().use_count() == 1;
}

FXX_INLINE void copy_made_constants(Graph& graph, const TracedConstants& constants,
                                    const std::map<std::string, at::Tensor>& held) {
  std::unordered_set<const Node*> written, returned;
  for (const Node* node : graph.nodes())
    for (const Node* maker : memory_written_by(*node).makers) written.insert(maker);
  if (const Node* output = graph.output_node())
    for (const Node* result : output->all_input_nodes())
      for (const Node* maker : memory_of(*result).makers) returned.insert(maker);
  for (Node* node : graph.nodes()) {
    const auto* attribute = std::get_if<GetAttr>(&node->op());
    const auto constant = attribute ? constants.find(attribute->target) : constants.end();
    if (constant == constants.end() || held.contains(constant->first)) continue;
    if (!written.contains(node) && !(returned.contains(node) && is_held_by_graph_alone(constant->second))) continue;
    const InsertPoint point = graph.inserting_after(node);
    Node* copy = graph.call_function(table_operator(OperatorIndex::clone), {node});
    if (node->tensor_meta()) copy->set_tensor_meta(*node->tensor_meta());
    node->replace_all_uses_with(copy, [&](Node* user) { return user != copy; });
  }
}

}  // namespace detail

}  // namespace fxx::inline FXX_ABI
