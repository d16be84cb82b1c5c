// Attention as it is written by hand, which LibTorch's scaled_dot_product_attention is but for queries that see no key,
// as a function that says what it computes.
//
// Main names: softmax_attention_function, is_softmax_attention. Cost: light.
#pragma once

#include "fxx/ir/node.hpp"

namespace fxx::inline FXX_ABI {

/// "fxx::softmax_attention(Tensor query, Tensor key, Tensor value, Tensor? mask, float? fill, float scale) -> Tensor":
/// softmax(scale query key^T + mask) value, over the keys. With a fill the mask is of booleans, and where it is true the
/// fill stands in place of the score. A query that is hidden from all keys by minus infinity gets nan. It takes its
/// arguments by position. Runs as these operators, and is they in generated code.
const UserFunction& softmax_attention_function();
/// Does the node call it?
bool is_softmax_attention(const Node& node);

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/ops/softmax_attention.ipp"
#endif
