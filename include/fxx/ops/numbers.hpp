// What is known of the numbers in a graph before it runs.
//
// Main names: is_never_negative. Cost: light.
#pragma once

#include "fxx/ir/graph.hpp"

namespace fxx::inline FXX_ABI {

/// Is the number at least 0 whatever the inputs are? Sizes and what tensors say of themselves are, literals that are,
/// and what arithmetic that keeps to them makes of them. C++ and Python divide such numbers alike. O(nodes that compute
/// it).
bool is_never_negative(const Argument& number);

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/ops/numbers.ipp"
#endif
