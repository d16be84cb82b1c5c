// Bodies of rules/guards.hpp.
#pragma once

#include <algorithm>

#include "fxx/ops/rotary_embedding.hpp"
#include "fxx/ops/synonyms.hpp"
#include "fxx/rewrite/replaced.hpp"
#include "fxx/rules/guards.hpp"

namespace fxx::inline FXX_ABI::rules {

FXX_INLINE const TensorMeta* meta_of(const Argument& value) {
  return value.is_node() ? value.node()->tensor_meta() : nullptr;
}

FXX_INLINE std::int64_t rank_of(const Argument& value) {
  const TensorMeta* meta = meta_of(value);
  return meta ? meta->dim() : -1;
}

FXX_INLINE bool are_last_two(const Argument& a, const Argument& b, const Argument& value) {
  if (a.kind() != Argument::Kind::integer || b.kind() != Argument::Kind::integer) return false;
  const std::int64_t rank = rank_of(value);
  const auto from_end = [&](std::int64_t dim) { return dim < 0 ? dim : rank < 0 ? 0 : dim - rank; };
  const std::int64_t first = from_end(a.integer()), second = from_end(b.integer());
  return (first == -1 && second == -2) || (first == -2 && second == -1);
}

FXX_INLINE bool may_be_floating(const Argument& value) {
  const TensorMeta* meta = meta_of(value);
  return !meta || is_floating_point(meta->dtype);
}

FXX_INLINE bool may_be_of_one_type(std::initializer_list<Argument> values) {
  const TensorMeta* known = nullptr;
  for (const Argument& value : values) {
    const TensorMeta* meta = meta_of(value);
    if (meta && known && known->dtype != meta->dtype) return false;
    if (meta) known = meta;
  }
  return true;
}

FXX_INLINE bool is_other_than_vector(const Argument& value, std::int64_t size) {
  const TensorMeta* meta = meta_of(value);
  return meta && (meta->dim() != 1 || meta->shape[0] != size);
}

inline constexpr std::size_t most_alike = 64;

/// May not reach over gaps, where a reshape copies.
FXX_INLINE bool is_view(const Operator& op) {
  return op.name == "aten::view" || op.name == "aten::view_as" || op.name == "aten::_unsafe_view";
}
/// Does what the operator gives depend on the strides themselves?
FXX_INLINE bool sees_strides(const Operator& op) {
  if (op.base_name() == "view") return !is_view(op);  // as another dtype
  for (const std::string_view name :
       {"as_strided", "as_strided_", "as_strided_scatter", "as_strided_copy", "view_as_complex", "stride",
        "storage_offset", "is_contiguous", "is_non_overlapping_and_dense", "sym_stride", "sym_storage_offset"})
    if (op.base_name() == name) return true;
  return false;
}

/// The operator that the node calls, or that the module it calls amounts to.
FXX_INLINE const Operator* operator_run_by(const Node& node) {
  if (node.opcode() != Opcode::call_module) return operator_of(node);
  const Owner* owner = node.graph().owning_module();
  const ModuleInfo* module = owner ? owner->find_module(node.target()) : nullptr;
  return module ? module->operation : nullptr;
}

/// Does somebody get it? Of a graph that belongs to a module; others are not run.
FXX_INLINE bool is_result(const Node& node) {
  if (!node.graph().owning_module()) return false;
  if (node.opcode() == Opcode::call_module)  // what it gives may lie otherwise than what it takes
    if (const Operator* op = operator_run_by(node); op && !has(op->traits, Trait::pointwise)) return false;
  const auto users = node.users();
  return std::any_of(users.begin(), users.end(), [](const Node* user) { return user->opcode() == Opcode::output; });
}

/// How the value lies in memory: its dimensions from the one with the largest stride on. Nothing where that is not known,
/// or there are gaps.
FXX_INLINE std::optional<std::vector<std::int64_t>> order_in_memory(const Node& value) {
  const TensorMeta* meta = value.tensor_meta();
  const bool known = meta && meta->stride.size() == meta->shape.size() && !meta->is_dynamic();
  std::vector<std::int64_t> order(known ? meta->shape.size() : 0);
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int64_t>(i);
  if (known) {
    if (!is_dense(*meta)) return std::nullopt;
    if (!rewrite::conditions::lies_in_order(*meta, nullptr))
      std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
        return meta->stride[static_cast<std::size_t>(a)] > meta->stride[static_cast<std::size_t>(b)];
      });
    return order;
  }
  // Products lie in order, whatever their operands do.
  const Operator* op = operator_of(value);
  for (const std::string_view name : {"matmul", "bmm", "mm", "linear", "addmm", "baddbmm"})
    if (op && op->base_name() == name) return order;
  return std::nullopt;
}

FXX_INLINE bool layout_is_free(Node& value) {
  const std::vector<Node*> alike = lying_alike(value, most_alike);
  const std::vector<const Node*> sharing = sharing_memory(value, most_alike);
  if (alike.size() >= most_alike) return false;
  if (std::any_of(alike.begin(), alike.end(), [](const Node* node) { return is_result(*node); }) &&
      !order_in_memory(value))
    return false;
  bool written = false, viewed = false;  // values that only lie as this one does
  for (Node* node : alike)
    for (Node* user : node->users()) {
      if (user->opcode() == Opcode::output || is_rotary_embedding(*user)) continue;
      const Operator* op = operator_run_by(*user);
      if (!op || sees_strides(*op)) return false;
      const bool own = std::find(sharing.begin(), sharing.end(), node) != sharing.end();
      if (own && op->mutates) return false;
      written = written || op->mutates;
      viewed = viewed || (!own && is_view(*op));
    }
  return !written || !viewed;
}

/// Puts the value into the order in memory that it has now, for those who use it behind the node that takes its place.
FXX_INLINE void keep_order_in_memory(Node& value) {
  const auto order = order_in_memory(value);
  if (!order) return;
  Graph& graph = value.graph();
  const InsertPoint point = graph.inserting_after(&value);
  const std::vector<Node*> users = value.users().snapshot();
  // A copy, since what has one size of 1 is contiguous with any stride there.
  const auto copied = [&](Node* from) {
    return graph.call_function(ops::clone, {from}, {{"memory_format", MemoryFormat::contiguous_format}});
  };
  Node* last = &value;
  if (std::is_sorted(order->begin(), order->end())) {
    last = copied(last);
  } else {
    std::vector<Argument> there(order->begin(), order->end()), back(order->size());
    for (std::size_t i = 0; i < order->size(); ++i)
      back[static_cast<std::size_t>((*order)[i])] = static_cast<std::int64_t>(i);
    last = copied(graph.call_function(ops::permute, {last, Argument::list(there)}));
    last = graph.call_function(ops::permute, {last, Argument::list(back)});
  }
  last->set_location(value.location());
  if (const TensorMeta* meta = value.tensor_meta()) last->set_tensor_meta(*meta);
  for (Node* user : users) user->replace_input_with(&value, last);
}

FXX_INLINE void views_become_reshapes(Node& value, bool in_order) {
  const std::vector<Node*> all = lying_alike(value, most_alike);
  const auto order = in_order ? order_in_memory(value) : std::nullopt;
  const bool stays = order && std::is_sorted(order->begin(), order->end());
  if (!stays && std::any_of(all.begin(), all.end(), [](const Node* node) { return is_result(*node); }))
    keep_order_in_memory(value);
  for (Node* node : lying_alike(value, most_alike)) {
    const Operator* op = operator_of(*node);
    if (node == &value || !op || !is_view(*op)) continue;
    const bool as = op->name == "aten::view_as";
    const Argument to = argument_or_default(*node, *op, 1);
    const std::vector<Argument> args = {argument_or_default(*node, *op, 0), to};
    node->set_op(CallFunction{&table_operator(as ? OperatorIndex::reshape_as : OperatorIndex::reshape)});
    node->set_args_kwargs(args, {});
  }
}

FXX_INLINE bool is_floating_value(const Argument& value) {
  const TensorMeta* meta = meta_of(value);
  return meta && is_floating_point(meta->dtype);
}

FXX_INLINE std::int64_t dimension_of(const Argument& dim, std::int64_t rank) {
  if (dim.kind() != Argument::Kind::integer || rank < 0) return -1;
  const std::int64_t at = dim.integer() < 0 ? dim.integer() + rank : dim.integer();
  return at < rank ? at : -1;
}

FXX_INLINE std::optional<std::vector<std::int64_t>> integers_of(const Argument& value) {
  if (value.kind() == Argument::Kind::integer) return std::vector{value.integer()};
  if (!value.is_sequence()) return std::nullopt;
  std::vector<std::int64_t> integers;
  for (const Argument& item : value.items()) {
    if (item.kind() != Argument::Kind::integer) return std::nullopt;
    integers.push_back(item.integer());
  }
  return integers;
}

FXX_INLINE std::optional<std::vector<std::int64_t>> dimensions_of(const Argument& value, std::int64_t rank) {
  auto dims = integers_of(value);
  if (!dims || rank < 0) return std::nullopt;
  std::vector<bool> seen(static_cast<std::size_t>(rank));
  for (std::int64_t& dim : *dims) {
    dim = dimension_of(dim, rank);
    if (dim < 0 || seen[static_cast<std::size_t>(dim)]) return std::nullopt;
    seen[static_cast<std::size_t>(dim)] = true;
  }
  return dims;
}

FXX_INLINE bool broadcasts_into(const TensorMeta& small, const TensorMeta& large) {
  if (small.dim() > large.dim()) return false;
  for (std::size_t i = 1; i <= small.shape.size(); ++i) {
    const std::int64_t size = small.shape[small.shape.size() - i];
    if (size != 1 && size != large.shape[large.shape.size() - i]) return false;
  }
  return true;
}

FXX_INLINE bool may_follow_default_dtype(const Argument& value) {
  constexpr std::size_t most = 256;
  const auto may_be_real = [](const Node& node) {
    const TensorMeta* meta = node.tensor_meta();
    return !meta || is_floating_point(meta->dtype) || is_complex(meta->dtype);
  };
  std::vector<const Node*> seen;
  const auto look_at = [&](const Node* node) {
    if (may_be_real(*node) && std::find(seen.begin(), seen.end(), node) == seen.end()) seen.push_back(node);
  };
  for_each_node(value, look_at);
  for (std::size_t i = 0; i < seen.size() && i < most; ++i) {
    const Node& node = *seen[i];
    if (node.opcode() == Opcode::placeholder || node.opcode() == Opcode::get_attr) continue;
    const Operator* op = operator_of(node);
    const int dtype = op ? op->index_of("dtype") : -1;
    if (dtype >= 0 && !argument_or_default(node, *op, dtype).is_none()) continue;
    const auto inputs = node.all_input_nodes();
    // It makes real numbers of none.
    if (op && std::none_of(inputs.begin(), inputs.end(), [&](const Node* input) { return may_be_real(*input); }))
      return true;
    for (const Node* input : inputs) look_at(input);
  }
  return false;
}

FXX_INLINE bool is_dense(const TensorMeta& meta) {
  if (rewrite::conditions::lies_in_order(meta, nullptr)) return true;
  if (meta.stride.size() != meta.shape.size() || meta.is_dynamic()) return false;
  std::vector<std::size_t> order(meta.shape.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return meta.stride[a] < meta.stride[b]; });
  std::int64_t step = 1;
  for (const std::size_t i : order) {
    if (meta.shape[i] == 1) continue;
    if (meta.stride[i] != step) return false;
    step *= meta.shape[i];
  }
  return true;
}

FXX_INLINE bool lies_in_order(const Argument& value) {
  const TensorMeta* meta = meta_of(value);
  return meta && rewrite::conditions::lies_in_order(*meta, nullptr);
}

FXX_INLINE bool lie_alike(const Argument& a, const Argument& b) {
  const TensorMeta *first = meta_of(a), *second = meta_of(b);
  if (!first || !second) return false;
  if (first->dim() == 0 || second->dim() == 0) return true;  // a number has no order
  if (lies_in_order(a) && lies_in_order(b)) return true;
  return first->stride.size() == first->shape.size() && first->shape == second->shape &&
         first->stride == second->stride;
}

FXX_INLINE bool nobody_sees_layout(Node& value) {
  if (!layout_is_free(value)) return false;
  for (Node* node : lying_alike(value, most_alike)) {
    const Operator* op = operator_of(*node);
    if ((node != &value && op && is_view(*op)) || is_result(*node)) return false;
  }
  return true;
}

FXX_INLINE bool is_single_or_double(const Argument& value) {
  const TensorMeta* meta = meta_of(value);
  return meta && (meta->dtype == Dtype::float32 || meta->dtype == Dtype::float64);
}

FXX_INLINE const Node* softmax_behind(const Node& product) {
  const Node* value = &product;
  for (int steps = 0; value && steps < 6; ++steps) {
    const Node* next = nullptr;
    for (const Node* user : value->users()) {
      const Operator* op = operator_of(*user);
      if (!op) continue;
      const std::string_view name = Operator{.name = meaning_of(op->name)}.base_name();
      if (name == "softmax" || name == "_softmax" || name == "exp") return user;
      for (const std::string_view passed :
           {"mul", "mul_", "div", "div_", "add", "add_", "sub", "masked_fill", "masked_fill_", "where"})
        if (name == passed) next = user;
    }
    value = next;
  }
  return nullptr;
}

FXX_INLINE bool is_constant_or_none(const Argument& value) {
  return value.is_none() || (value.is_node() && rewrite::is_constant_value(*value.node()));
}

}  // namespace fxx::inline FXX_ABI::rules
