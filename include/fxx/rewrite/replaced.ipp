// Bodies of rewrite/replaced.hpp.
#pragma once

#include "fxx/rewrite/replaced.hpp"

namespace fxx::inline FXX_ABI::rewrite::detail {

FXX_INLINE void carry_over(const Node& old, Node& fresh, std::string_view rule) {
  if (old.tensor_meta() && !fresh.tensor_meta()) fresh.set_tensor_meta(*old.tensor_meta());
  if (!old.type().empty()) fresh.set_type(old.type());
  fresh.set_location(old.location());
  fresh.set_module_stack(old.module_stack());
  NodeMeta& meta = fresh.meta();
  if (old.has_meta()) meta = old.meta();
  meta.rule = rule;
  if (meta.from.empty() && old.has_name()) meta.from = old.name();
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
  std::vector<const Node*> sharing = {&value};
  std::unordered_set<const Node*> seen = {&value};
  const Node* last = &value;
  for (std::size_t i = 0; i < sharing.size(); ++i)
    for (const Node* user : sharing[i]->users()) {
      if (last->is_before(*user)) last = user;
      if (passes_on_memory(*user, *sharing[i]) && seen.insert(user).second) sharing.push_back(user);
    }
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
