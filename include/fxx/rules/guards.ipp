// Bodies of rules/guards.hpp.
#pragma once

#include <algorithm>

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

FXX_INLINE std::vector<Node*> sharing_memory(Node& value) {
  std::vector<Node*> sharing = {&value};
  for (std::size_t i = 0; i < sharing.size() && sharing.size() < 64; ++i)
    for (Node* user : sharing[i]->users())
      if (passes_on_memory(*user, *sharing[i]) && std::find(sharing.begin(), sharing.end(), user) == sharing.end())
        sharing.push_back(user);
  return sharing;
}

FXX_INLINE bool layout_is_free(Node& value) {
  const std::vector<Node*> sharing = sharing_memory(value);
  if (sharing.size() >= 64) return false;
  for (Node* node : sharing)
    for (Node* user : node->users()) {
      const Operator* op = operator_of(*user);
      if (user->opcode() == Opcode::output) continue;
      if (!op || op->mutates || op->base_name() == "as_strided") return false;
      if (op->base_name() == "view" && op->name != "aten::view") return false;  // as another dtype
    }
  return true;
}

FXX_INLINE void views_become_reshapes(Node& value) {
  for (Node* node : sharing_memory(value)) {
    const Operator* op = operator_of(*node);
    if (node == &value || !op) continue;
    const bool view = op->name == "aten::view";
    if (!view && op->name != "aten::view_as") continue;
    const std::vector<Argument> args(node->args().begin(), node->args().end());
    const std::vector<KeywordArgument> kwargs(node->kwargs().begin(), node->kwargs().end());
    if (view && !kwargs.empty()) continue;
    node->set_op(CallFunction{&table_operator(view ? OperatorIndex::reshape : OperatorIndex::reshape_as)});
    node->set_args_kwargs(args, kwargs);
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

FXX_INLINE bool nobody_sees_layout(Node& value) {
  if (!layout_is_free(value)) return false;
  for (Node* node : sharing_memory(value)) {
    const Operator* op = operator_of(*node);
    if (node != &value && op && (op->base_name() == "view" || op->base_name() == "view_as")) return false;
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
      const std::string_view name = op->base_name();
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
