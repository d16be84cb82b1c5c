// Questions that guards of shipped rules ask of the values they matched.
// Cost: light.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <vector>

#include "fxx/ops/effects.hpp"
#include "fxx/ops/registry.hpp"
#include "fxx/rewrite/matcher.hpp"

namespace fxx::inline FXX_ABI::rules {

/// Number of dimensions where it is known, else -1.
inline std::int64_t rank_of(const Argument& value) {
  const TensorMeta* meta = value.is_node() ? value.node()->tensor_meta() : nullptr;
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
  const TensorMeta* meta = value.is_node() ? value.node()->tensor_meta() : nullptr;
  return !meta || is_floating_point(meta->dtype);
}

/// Of one dtype, as far as is known; what is no tensor does not count.
inline bool may_be_of_one_type(std::initializer_list<Argument> values) {
  const TensorMeta* known = nullptr;
  for (const Argument& value : values) {
    const TensorMeta* meta = value.is_node() ? value.node()->tensor_meta() : nullptr;
    if (meta && known && known->dtype != meta->dtype) return false;
    if (meta) known = meta;
  }
  return true;
}
/// Known to be no vector of so many elements.
inline bool is_other_than_vector(const Argument& value, std::int64_t size) {
  const TensorMeta* meta = value.is_node() ? value.node()->tensor_meta() : nullptr;
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

/// None, or a value that the inputs do not reach.
inline bool is_constant_or_none(const Argument& value) {
  return value.is_none() || (value.is_node() && rewrite::is_constant_value(*value.node()));
}

}  // namespace fxx::inline FXX_ABI::rules
