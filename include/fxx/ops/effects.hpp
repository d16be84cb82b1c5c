// What running a node does that others can see: to memory, and to the generator of random numbers.
//
// Main names: is_barrier, may_write_memory, mutates_own_temporary, Memory, memory_of, memory_written_by. Cost: light.
#pragma once

#include <vector>

#include "fxx/ops/registry.hpp"

namespace fxx::inline FXX_ABI {

/// Whether the node writes only to a value that was made for it: the written argument comes from an operator that
/// returns fresh memory, and no other node uses it. Then nobody can tell the call from its functional twin.
bool mutates_own_temporary(const Node& node);

/// Whether the operator gives booleans whatever it is given: `eq`, `logical_and`. In place it gives what it wrote to.
bool gives_booleans(const Operator& op);

/// Whether reads before the node and reads after it may see different memory: it mutates something visible, or calls
/// something that might (an unknown method ending in `_`, an unknown module, a user function marked impure, a batch
/// norm that trains). Rewrites do not look across a barrier.
inline bool is_barrier(const Node& node) {
  const Opcode opcode = node.opcode();
  return has_effect(node) && opcode != Opcode::placeholder && opcode != Opcode::output && !mutates_own_temporary(node);
}

/// Whether running the node changes memory, or may: it has an effect that is not known to lie elsewhere.
bool may_write_memory(const Node& node);

/// The memory that a value may lie in, as far as the operators' schemas tell.
struct Memory {
  std::vector<const Node*> makers;  // the nodes whose results it is or may be
  bool shared = false;              // some of it came from outside: inputs, attributes, results of unknown calls
  bool anywhere = false;            // too many views and in-place calls lie between: it could be any memory
  bool certain = true;              // the value lies there for certain; false: it may also be a copy
};
/// O(views and in-place calls between the node and its memory), and no more than 64 of them.
Memory memory_of(const Node& node);
/// Memory that running the node changes, or may change; without makers when it changes none.
Memory memory_written_by(const Node& node);
/// Could the two be the same memory? Two values from outside could.
bool may_overlap(const Memory& a, const Memory& b);
/// Does, or may, the user's result lie in the memory of its argument `value`?
bool passes_on_memory(const Node& user, const Node& value);

namespace detail {

/// May the result of the operator lie in the memory of what is given for parameter `i`? Where a schema says nothing of
/// an operator that may return its input, it is the first that takes tensors.
bool may_return(const Operator& op, int i);

}  // namespace detail

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/ops/effects.ipp"
#endif
