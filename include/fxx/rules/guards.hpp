// Questions that guards of shipped rules ask of the values they matched.
// Cost: light.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <vector>

#include "fxx/ops/effects.hpp"
#include "fxx/ops/registry.hpp"
#include "fxx/rewrite/matcher.hpp"

namespace fxx::inline FXX_ABI::rules {

/// What is known of a value's shape and dtype; null when nothing is.
inline const TensorMeta* meta_of(const Argument& value) {
  return value.is_node() ? value.node()->tensor_meta() : nullptr;
}
/// Number of dimensions where it is known, else -1.
inline std::int64_t rank_of(const Argument& value) {
  const TensorMeta* meta = meta_of(value);
  return meta ? meta->dim() : -1;
}

/// Do `a` and `b` name the last two dimensions of `value`, in either order?
inline bool are_last_two(const Argument& a, const Argument& b, const Argument& value) {
  if (a.kind() != Argument::Kind::integer || b.kind() != Argument::Kind::integer) return false;
  const std::int64_t rank = rank_of(value);
  const auto from_end = [&](std::int64_t dim) { return dim < 0 ? dim : rank < 0 ? 0 : dim - rank; };
  const std::int64_t first = from_end(a.integer()), second = from_end(b.integer());
  return (first == -1 && second == -2) || (first == -2 && second == -1);
}

/// Of floating-point values, as far as is known.
inline bool may_be_floating(const Argument& value) {
  const TensorMeta* meta = meta_of(value);
  return !meta || is_floating_point(meta->dtype);
}

/// Of one dtype, as far as is known; what is no tensor does not count.
inline bool may_be_of_one_type(std::initializer_list<Argument> values) {
  const TensorMeta* known = nullptr;
  for (const Argument& value : values) {
    const TensorMeta* meta = meta_of(value);
    if (meta && known && known->dtype != meta->dtype) return false;
    if (meta) known = meta;
  }
  return true;
}
/// Known to be no vector of so many elements.
inline bool is_other_than_vector(const Argument& value, std::int64_t size) {
  const TensorMeta* meta = meta_of(value);
  return meta && (meta->dim() != 1 || meta->shape[0] != size);
}

/// The nodes that have, or may have, the memory of `value`, itself first; no more than 64.
inline std::vector<Node*> sharing_memory(Node& value) {
  std::vector<Node*> sharing = {&value};
  for (std::size_t i = 0; i < sharing.size() && sharing.size() < 64; ++i)
    for (Node* user : sharing[i]->users())
      if (passes_on_memory(*user, *sharing[i]) && std::find(sharing.begin(), sharing.end(), user) == sharing.end())
        sharing.push_back(user);
  return sharing;
}
/// May the value lie in memory in another order, or with gaps? Not where somebody takes it apart by strides, or writes
/// to it or to what may be a copy of it or itself. Views may, when they become reshapes.
inline bool layout_is_free(Node& value) {
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
/// `view` may not reach over gaps; `reshape` does the same and copies where it must.
inline void views_become_reshapes(Node& value) {
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

/// Of floating-point values for certain.
inline bool is_floating_value(const Argument& value) {
  const TensorMeta* meta = meta_of(value);
  return meta && is_floating_point(meta->dtype);
}
/// Does every value of the first dtype exist in the second?
constexpr bool holds_all(Dtype small, Dtype large) {
  using D = Dtype;
  if (small == large) return true;
  switch (small) {
    case D::boolean: return true;
    case D::uint8:
      return large == D::int16 || large == D::int32 || large == D::int64 || large == D::float16 ||
             large == D::bfloat16 || large == D::float32 || large == D::float64;
    case D::int8:
      return large == D::int16 || large == D::int32 || large == D::int64 || large == D::float16 ||
             large == D::bfloat16 || large == D::float32 || large == D::float64;
    case D::int16: return large == D::int32 || large == D::int64 || large == D::float32 || large == D::float64;
    case D::int32: return large == D::int64 || large == D::float64;
    case D::float16:
    case D::bfloat16: return large == D::float32 || large == D::float64;
    case D::float32: return large == D::float64;
    default: return false;
  }
}
/// Dimension `dim` of a value of that rank, counted from the front; -1 when it is none, or not known.
inline std::int64_t dimension_of(const Argument& dim, std::int64_t rank) {
  if (dim.kind() != Argument::Kind::integer || rank < 0) return -1;
  const std::int64_t at = dim.integer() < 0 ? dim.integer() + rank : dim.integer();
  return at < rank ? at : -1;
}
/// A list of integers, or one integer; nothing when something else is in it.
inline std::optional<std::vector<std::int64_t>> integers_of(const Argument& value) {
  if (value.kind() == Argument::Kind::integer) return std::vector{value.integer()};
  if (!value.is_sequence()) return std::nullopt;
  std::vector<std::int64_t> integers;
  for (const Argument& item : value.items()) {
    if (item.kind() != Argument::Kind::integer) return std::nullopt;
    integers.push_back(item.integer());
  }
  return integers;
}
/// Its dimensions, all different and counted from the front; nothing when they are not known.
inline std::optional<std::vector<std::int64_t>> dimensions_of(const Argument& value, std::int64_t rank) {
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
/// Does a value of shape `small` broadcast to `large` without making it larger?
inline bool broadcasts_into(const TensorMeta& small, const TensorMeta& large) {
  if (small.dim() > large.dim()) return false;
  for (std::size_t i = 1; i <= small.shape.size(); ++i) {
    const std::int64_t size = small.shape[small.shape.size() - i];
    if (size != 1 && size != large.shape[large.shape.size() - i]) return false;
  }
  return true;
}
/// Do the elements lie one after the other, in whatever order of the dimensions?
inline bool is_dense(const TensorMeta& meta) {
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
/// Does nobody look at how the value lies in memory? `view` does, which may not reach over gaps.
inline bool nobody_sees_layout(Node& value) {
  if (!layout_is_free(value)) return false;
  for (Node* node : sharing_memory(value)) {
    const Operator* op = operator_of(*node);
    if (node != &value && op && (op->base_name() == "view" || op->base_name() == "view_as")) return false;
  }
  return true;
}

/// Of 32 or 64 bits: fewer round a value on the way where one operator does not.
inline bool is_single_or_double(const Argument& value) {
  const TensorMeta* meta = meta_of(value);
  return meta && (meta->dtype == Dtype::float32 || meta->dtype == Dtype::float64);
}

/// The softmax, or the exponentials of one, that the product goes into behind what may scale and mask it; null when
/// there is none.
inline const Node* softmax_behind(const Node& product) {
  const Node* value = &product;
  for (int steps = 0; value && steps < 6; ++steps) {
    const Node* next = nullptr;
    for (const Node* user : value->users()) {
      const Operator* op = operator_of(*user);
      if (!op) continue;
      const std::string_view name = op->base_name();
      if (name == "softmax" || name == "_softmax" || name == "exp") return user;
      for (const std::string_view passed : {"mul", "mul_", "div", "div_", "add", "add_", "sub", "masked_fill",
                                            "masked_fill_", "where"})
        if (name == passed) next = user;
    }
    value = next;
  }
  return nullptr;
}

/// None, or a value that the inputs do not reach.
inline bool is_constant_or_none(const Argument& value) {
  return value.is_none() || (value.is_node() && rewrite::is_constant_value(*value.node()));
}

}  // namespace fxx::inline FXX_ABI::rules
