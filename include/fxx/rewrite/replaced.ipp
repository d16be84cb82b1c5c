// Bodies of rewrite/replaced.hpp.
#pragma once

#include <algorithm>

#include "fxx/ops/sharing.hpp"
#include "fxx/rewrite/conditions.hpp"
#include "fxx/rewrite/replaced.hpp"

namespace fxx::inline FXX_ABI::rewrite::detail {

FXX_INLINE void carry_place_over(const Node& old, Node& inner, std::string_view rule) {
  inner.set_location(old.location());
  inner.set_module_stack(old.module_stack());
  NodeMeta& meta = inner.meta();
  if (old.has_meta()) meta = old.meta();
  meta.rule = rule;
  if (meta.from.empty() && old.has_name()) meta.from = old.name();
}

FXX_INLINE void carry_over(const Node& old, Node& fresh, std::string_view rule) {
  if (old.tensor_meta() && !fresh.tensor_meta()) fresh.set_tensor_meta(*old.tensor_meta());
  if (!old.type().empty()) fresh.set_type(old.type());
  carry_place_over(old, fresh, rule);
}

/// Several tensors have no meta data of their own; those who take them have.
FXX_INLINE bool gives_several(const Node& node) {
  const Operator* op = node.operation();
  return op && (op->returns.size() != 1 || op->returns[0].type.list);
}

FXX_INLINE void forget_strides(Node& old) {
  std::vector<Node*> pending = {&old};
  while (!pending.empty()) {
    Node* node = pending.back();
    pending.pop_back();
    const TensorMeta* meta = node->tensor_meta();
    // What has no strides was met before, or nobody knows how it lies.
    if (meta ? meta->stride.empty() : !gives_several(*node)) continue;
    if (meta) {
      TensorMeta known = *meta;
      known.stride.clear();
      node->set_tensor_meta(known);
    }
    for (Node* user : node->users())
      if (keeps_layout(*user, *node)) pending.push_back(user);
  }
}

/// Is the value contiguous, as its strides say, or the operators that make it of values whose strides are known?
FXX_INLINE bool comes_in_order(const Node& value, int most_steps) {
  const TensorMeta* meta = value.tensor_meta();
  if (meta && !meta->stride.empty()) return !meta->is_dynamic() && conditions::lies_in_order(*meta, nullptr);
  const Operator* op = operator_of(value);
  if (!op || most_steps == 0) return false;
  if (gives_order(*op)) return true;
  if (!keeps_order(*op)) return false;
  const auto inputs = value.all_input_nodes();
  return std::all_of(inputs.begin(), inputs.end(),
                     [&](const Node* input) { return comes_in_order(*input, most_steps - 1); });
}

FXX_INLINE bool has_strides_of(const Node& old, const Node& fresh) {
  const TensorMeta *was = old.tensor_meta(), *is = fresh.tensor_meta();
  if (!was) return !gives_several(old);
  if (was->stride.empty()) return true;
  if (is && !is->stride.empty()) return is->shape == was->shape && is->stride == was->stride;
  constexpr int most_steps = 4;  // what a replacement is made of
  return !was->is_dynamic() && conditions::lies_in_order(*was, nullptr) && comes_in_order(fresh, most_steps);
}

FXX_INLINE Node* take_name(Node& fresh, std::span<Node* const> gone) {
  for (Node* old : gone)
    if (old->is_erased() && old->operation() && fresh.operation() && *old->operation() == *fresh.operation()) {
      fresh.swap_names(*old);
      return old;
    }
  return nullptr;
}

/// The last node that reads the memory of `value`, itself when there is none.
FXX_INLINE const Node* last_reader(const Node& value) {
  const Node* last = &value;
  for (const Node* node : sharing_memory(value))
    for (const Node* user : node->users())
      if (last->is_before(*user)) last = user;
  return last;
}

FXX_INLINE bool written_while_read(const Node& old, const Memory& before, const Memory& after, const Regions& regions) {
  const Node* last = last_reader(old);
  const auto& effects = regions.effects();
  for (auto at = effects.upper_bound(&old); at != effects.end(); ++at) {
    if (last->is_before(**at)) break;
    const Memory written = memory_written_by(**at);
    if (may_overlap(written, before) || may_overlap(written, after)) return true;
  }
  return false;
}

FXX_INLINE bool find_place(Node* last, std::span<Node* const> returning, std::span<const Argument> inputs,
                           std::span<const std::uint32_t> matched, const Regions& regions, ReplacementPlace& place) {
  place = {last, {}};
  const auto is_matched = [&](const Node& node) { return node.index() < matched.size() && matched[node.index()] != 0; };
  if (returning.size() < 2) return true;  // that node is the last one, and all its inputs stand before it
  for (const Node* node : returning)
    for (Node* user : node->users())
      if (!is_matched(*user) && user->is_before(*place.before)) place.before = user;
  if (place.before == last) return true;
  // What does not stand before the first user has to come there.
  std::vector<Node*>& moved = place.hoisted;
  const auto add = [&](Node* node) {
    if (!node->is_before(*place.before) && std::find(moved.begin(), moved.end(), node) == moved.end())
      moved.push_back(node);
  };
  for (const Argument& input : inputs) for_each_node(input, add);
  return add_what_moves(moved, *place.before, regions, is_matched);
}

FXX_INLINE bool can_be_taken_out(std::span<Node* const> nodes, const Node& place,
                                 std::span<const std::uint32_t> matched, const Regions& regions) {
  if (regions.none()) return true;
  const Node* opaque = nullptr;
  for (const Node* node : nodes) {
    if (!is_barrier(*node)) continue;
    // A write that others can see cannot be taken away.
    const Operator* op = operator_of(*node);
    if (op && op->mutates) return false;
    if (!opaque) opaque = node;
  }
  if (!opaque) {
    return std::all_of(nodes.begin(), nodes.end(),
                       [&](const Node* n) { return regions.of(*n) == regions.of(*nodes[0]); });
  }
  // A call that nobody knows may write to what it is given. It can be replaced as long as nobody looks at that between
  // it and what stands for it, and nothing else of the kind lies between the nodes.
  const auto is_matched = [&](const Node& node) { return node.index() < matched.size() && matched[node.index()] != 0; };
  std::vector<Memory> written;
  for (const Node* node = nodes[0]; node && node != &place; node = node->next()) {
    if (is_matched(*node)) {
      if (is_barrier(*node)) written.push_back(memory_written_by(*node));
      continue;
    }
    if (is_barrier(*node)) return false;
    for (const Node* input : node->all_input_nodes()) {
      const Memory read = memory_of(*input);
      for (const Memory& w : written)
        if (may_overlap(w, read)) return false;
    }
  }
  return true;
}

}  // namespace fxx::inline FXX_ABI::rewrite::detail

namespace fxx::inline FXX_ABI::rewrite {

FXX_INLINE bool can_move_before(const Node& value, const Node& place, std::span<Node* const> nodes,
                                const Regions& regions) {
  if (value.is_before(place)) return true;
  std::vector<Node*> moved = {const_cast<Node*>(&value)};
  return detail::add_what_moves(moved, place, regions, [&](const Node& node) {
    return !node.is_before(place) && std::find(nodes.begin(), nodes.end(), &node) != nodes.end();
  });
}

}  // namespace fxx::inline FXX_ABI::rewrite
