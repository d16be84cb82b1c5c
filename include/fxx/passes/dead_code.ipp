// Bodies of passes/dead_code.hpp.
#pragma once

#include <algorithm>
#include <unordered_set>

#include "fxx/ops/effects.hpp"
#include "fxx/ops/registry.hpp"
#include "fxx/passes/dead_code.hpp"

namespace fxx::inline FXX_ABI {

/// A mutation of a temporary that nobody else can see is as dead as its unused result.
FXX_INLINE bool detail::may_be_dropped(const Node& node, bool impure_random) {
  return (!has_effect(node) || mutates_own_temporary(node)) && !(impure_random && draws_numbers(node));
}

FXX_INLINE std::size_t eliminate_dead_code(Graph& graph, bool impure_random) {
  return eliminate_dead_code(graph, [](const Node&) { return false; }, impure_random);
}

namespace detail {
/// Does running it matter to nobody but the users of its result? What draws random numbers matters to the next that
/// does.
FXX_INLINE bool is_plain(const Node& node) {
  const Operator* op = operator_of(node);
  return op && !has_effect(node) && !has(op->traits, Trait::random);
}
}  // namespace detail

FXX_INLINE std::size_t erase_unread_memory(Graph& graph) {
  std::size_t erased = 0;
  for (Node* fresh : graph.nodes()) {
    if (!fresh->operation() || !detail::is_plain(*fresh) || fresh->num_users() == 0) continue;
    const Memory memory = memory_of(*fresh);
    if (memory.shared || memory.anywhere || memory.makers != std::vector<const Node*>{fresh}) continue;
    // Everything that the memory reaches: what aliases it or writes to it, and pure reads that nobody uses.
    std::vector<Node*> reached = {fresh};
    std::unordered_set<const Node*> in = {fresh};
    bool unread = true;
    for (std::size_t i = 0; i < reached.size() && unread; ++i)
      for (Node* user : reached[i]->users()) {
        if (in.contains(user)) continue;
        const Operator* op = operator_of(*user);
        const bool writes = op && op->mutates && !has(op->traits, Trait::random);
        unread = op && (writes || (passes_on_memory(*user, *reached[i]) && !has(op->traits, Trait::random)) ||
                        (detail::is_plain(*user) && user->num_users() == 0));
        if (unread && op->mutates)
          for (int k = 0; k < op->arity() && unread; ++k) {
            const Argument* written =
                op->parameters[static_cast<std::size_t>(k)].written ? argument_of(*user, *op, k) : nullptr;
            if (written) unread = written->is_node() && in.contains(written->node());
          }
        if (!unread) break;
        in.insert(user);
        reached.push_back(user);
      }
    if (!unread) continue;
    std::sort(reached.begin(), reached.end(), [](const Node* a, const Node* b) { return b->is_before(*a); });
    for (Node* node : reached) graph.erase_node(node);
    erased += reached.size();
  }
  return erased;
}

}  // namespace fxx::inline FXX_ABI
