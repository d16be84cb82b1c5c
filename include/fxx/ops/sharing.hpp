// Which values lie in the memory of another one, and which lie in theirs as it does.
//
// Main names: sharing_memory, reaches_output, keeps_layout, keeps_order, lying_alike. O(values found and their users). Cost: light.
#pragma once

#include <cstddef>
#include <vector>

#include "fxx/ops/effects.hpp"

namespace fxx::inline FXX_ABI {

/// The value and what lies, or may lie, in its memory behind it: views, and views of views; at most so many, in the order
/// of a search in breadth.
std::vector<const Node*> sharing_memory(const Node& value, std::size_t most = static_cast<std::size_t>(-1));
/// Does the value, or what may lie in its memory, leave the graph?
bool reaches_output(const Node& value);

/// Does what the user makes of `value`, one of its inputs, lie in memory as that does?
bool keeps_layout(const Node& user, const Node& value);
/// Is what the operator makes contiguous wherever all its tensors are? Holds for pointwise operators, reductions, products,
/// norms, softmaxes, and views that keep the order of the elements. False where that is not known.
bool keeps_order(const Operator& op);
/// Is what the operator makes contiguous whatever its tensors are? Holds for products of matrices and `contiguous`.
bool gives_order(const Operator& op);
/// The value and what lies in memory as it does, at most so many: views of it, and what pointwise operators and copies,
/// which keep the strides that they meet, make of it.
std::vector<Node*> lying_alike(Node& value, std::size_t most);

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/ops/sharing.ipp"
#endif
