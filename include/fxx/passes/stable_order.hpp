// What LibTorch leaves open about equal elements, decided: those that stand first come first.
//
// LibTorch's sort, argsort and topk give equal elements in any order, and another one in another version. Compiled modules
// have kernels that keep it; so has a graph after this pass, which is what they are compared with.
// Main names: keep_order_of_equals. O(nodes). Cost: light.
#pragma once

#include <vector>

#include "fxx/ir/graph.hpp"

namespace fxx::inline FXX_ABI {

enum class Orders : std::uint8_t {
  sorts,           // sort and argsort
  sorts_and_tops,  // and topk, as the first of all that are sorted: right, and slower
};
/// Puts stable operators in their place, where the dtype (tensor_meta) is float32 or an integer, which kernels have. Returns
/// how many calls were replaced.
std::size_t keep_order_of_equals(Graph& graph, Orders which);
/// Of these nodes of the graph alone.
std::size_t keep_order_of_equals(Graph& graph, Orders which, const std::vector<Node*>& nodes);

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/passes/stable_order.ipp"
#endif
