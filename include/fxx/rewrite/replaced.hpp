// What a node leaves to the one that takes its place, and whether that one may take it.
//
// Shared by rule sets and by patterns made at run time.
// Main names: carry_over, carry_place_over, forget_strides, take_name, keeps_memory, add_what_moves, find_place.
// Cost: light.
#pragma once

#include <algorithm>
#include <span>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "fxx/ops/effects.hpp"
#include "fxx/ops/registry.hpp"
#include "fxx/ops/sharing.hpp"
#include "fxx/rewrite/matcher.hpp"

namespace fxx::inline FXX_ABI::rewrite::detail {

/// What is known of the value of `old` is known of `fresh`, which stands for it: shape, type, source, modules, meta. It
/// also remembers the rule that made it, whose name lives as long as the program, and what the user wrote.
void carry_over(const Node& old, Node& fresh, std::string_view rule = {});

/// What was built on the way to the node that stands for `old` comes from the same place: source, modules, meta, rule.
/// Not for what brings its own.
void carry_place_over(const Node& old, Node& inner, std::string_view rule = {});

/// Before something else takes the place of `old`, which may lie in memory otherwise: nothing is known any more of the
/// strides of `old` and of all that lies as it does. O(what had strides there).
void forget_strides(Node& old);

/// Does `fresh` lie in memory as `old`, as far as that is known?
bool has_strides_of(const Node& old, const Node& fresh);

/// What does the same as a node that went goes on under its name: a folded convolution is still conv1. Gives that node,
/// or null.
Node* take_name(Node& fresh, std::span<Node* const> gone);

/// Is there a write to memory of either value while the users of `old` read it?
bool written_while_read(const Node& old, const Memory& before, const Memory& after, const Regions& regions);

/// Whether the users of `old` see the same values in `result`: neither has memory that is written to while they read
/// it, unless nobody else can see that memory or both have the same. Nodes from index `first_fresh` on were made for the
/// replacement; `used_up(const Node&)` says that nobody uses a node but what is replaced and what replaces it;
/// `one_of_many`: the result takes its place together with others, whose memory it could share.
template <class F>
bool keeps_memory(const Node& old, const Node& result, std::uint32_t first_fresh, bool one_of_many,
                  const Regions& regions, F&& used_up) {
  const Memory before = memory_of(old), after = memory_of(result);
  const auto is_own = [&](const Memory& memory) {
    return !memory.shared && !memory.anywhere &&
           std::all_of(memory.makers.begin(), memory.makers.end(), [&](const Node* maker) {
             return maker == &old || maker->index() >= first_fresh || used_up(*maker);
           });
  };
  const bool apart = !one_of_many || (after.makers.size() == 1 && after.makers[0] == &result);
  // What a module returns, the rule that names it speaks for.
  if (apart && (is_own(before) || old.opcode() == Opcode::call_module) && is_own(after)) return true;
  if (before.certain && after.certain && before.makers.size() == 1 && before.makers == after.makers) return true;
  return !written_while_read(old, before, after, regions);
}

/// What has to go before `place` so that `moved`, some nodes behind it, stand before it: these, and what of their inputs
/// does not stand there yet, is added, and all put in the order of the graph. False when one of them has to stay: it has
/// an effect, is random, lies beyond a write that others can see, or is or uses what is replaced, of which
/// `replaced(const Node&)` tells. O(what moves).
template <class F>
bool add_what_moves(std::vector<Node*>& moved, const Node& place, const Regions& regions, F&& replaced) {
  std::unordered_set<const Node*> known(moved.begin(), moved.end());
  for (std::size_t i = 0; i < moved.size(); ++i) {
    const Node& node = *moved[i];
    const Operator* op = operator_of(node);
    if (replaced(node) || has_effect(node) || (op && has(op->traits, Trait::random))) return false;
    if (!regions.none() && regions.of(node) != regions.of(place)) return false;
    for (Node* input : node.all_input_nodes()) {
      if (replaced(*input)) return false;
      if (!input->is_before(place) && known.insert(input).second) moved.push_back(input);
    }
  }
  std::sort(moved.begin(), moved.end(), Regions::IsBefore());
  return true;
}

/// Where the replacement of some nodes goes, and what has to be moved there first.
struct ReplacementPlace {
  Node* before = nullptr;
  std::vector<Node*> hoisted;  // in the order of the graph
};
/// The place before every user of the values in `returning` and behind everything in `inputs`, after what can be moved
/// was. False when there is none: something in between depends on the values, or cannot be moved. `matched` is not 0 at
/// the indices of the nodes that are replaced, of which `last` is the last. O(1) where nothing has to be moved.
bool find_place(Node* last, std::span<Node* const> returning, std::span<const Argument> inputs,
                std::span<const std::uint32_t> matched, const Regions& regions, ReplacementPlace& place);

/// What the compute nodes of a match, in the order of the graph, do to memory: can they be taken away, all at once, and
/// what stands for them be put before `place`?
bool can_be_taken_out(std::span<Node* const> nodes, const Node& place, std::span<const std::uint32_t> matched,
                      const Regions& regions);

}  // namespace fxx::inline FXX_ABI::rewrite::detail

#if defined(FXX_HEADER_ONLY)
#include "fxx/rewrite/replaced.ipp"
#endif
