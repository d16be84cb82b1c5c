// What running a node does to memory that other nodes can see.
//
// Main names: is_barrier, mutates_own_temporary. Cost: light.
#pragma once

#include "fxx/ir/graph.hpp"

namespace fxx::inline FXX_ABI {

/// Whether the node writes only to a value that was made for it: the written argument comes from an operator that returns
/// fresh memory, and no other node uses it. Then nobody can tell the call from its functional twin.
bool mutates_own_temporary(const Node& node);

/// Whether reads before the node and reads after it may see different memory: it mutates something visible, or calls
/// something that might (an unknown method ending in `_`, an unknown module, a user function marked impure, a batch norm
/// that trains). Rewrites do not look across a barrier.
bool is_barrier(const Node& node);

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/ops/effects.ipp"
#endif
