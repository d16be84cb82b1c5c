// Rotary position embedding, which LibTorch has no operator for, as a function that says what it computes.
//
// Main names: rotary_embedding_function, is_rotary_embedding. Cost: light.
#pragma once

#include "fxx/ir/node.hpp"

namespace fxx::inline FXX_ABI {

/// "fxx::rotary_embedding(Tensor x, Tensor cos, Tensor sin, bool interleaved) -> Tensor": x cos + turned(x) sin, where
/// the last dimension of x, which is even, is turned: [-x2, x1] of its halves x1 and x2, or interleaved, [-x1, x0, -x3,
/// x2, ...]. It takes its arguments by position, the last as a number. Runs as these operators, and is they in
/// generated code.
const UserFunction& rotary_embedding_function();
/// Does the node call it?
bool is_rotary_embedding(const Node& node);

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/ops/rotary_embedding.ipp"
#endif
