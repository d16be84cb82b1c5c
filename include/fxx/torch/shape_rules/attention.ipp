// Shape rules of attention, and of recurrent cells and layers.
#pragma once

#include "fxx/torch/shape_rules/shared.ipp"

namespace fxx::inline FXX_ABI::detail::shapes {

/// (batch, heads, length, width), laid out as (batch, length, heads, width).
FXX_INLINE Tensor heads_inside(at::IntArrayRef s, ScalarType dtype) {
  return meta_tensor(s, Sizes{s[2] * s[1] * s[3], s[3], s[1] * s[3], 1}, dtype);
}
FXX_INLINE void flash_attention(ShapeCall& c) {
  const Tensor q = c.tensor(0), k = c.tensor(1), v = c.tensor(2);
  TORCH_CHECK(q.dim() == 4 && k.dim() == 4 && v.dim() == 4, "Accept only 4 dims inputs shape of {B, H, T, K}");
  TORCH_CHECK(q.size(3) == k.size(3) && q.size(3) == v.size(3), "Q/K/V should have the same head size");
  check_floating(q, "flash_attention");
  c.give(like(q));
  const ScalarType sums = q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const Sizes rows = {q.size(0), q.size(1), q.size(2)};
  c.give(meta_tensor(rows, Sizes{rows[2] * rows[1], 1, rows[1]}, sums));
}
FXX_INLINE void flash_attention_backward(ShapeCall& c) {
  for (std::size_t i = 1; i <= 3; ++i) c.give(heads_inside(c.tensor(i).sizes(), c.tensor(i).scalar_type()));
}
/// What the CPU would take decides, by sizes alone.
FXX_INLINE void attention_choice(ShapeCall& c) {
  torch::jit::Stack stack;
  for (std::size_t i = 0; i < c.op().schema().arguments().size(); ++i) stack.push_back(c[i]);
  c.op().redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack);
  c.give(std::move(stack.back()));
}

/// CUDA's cell: gates of the input, gates of the hidden state, the state before; the last result is for the gradient.
FXX_INLINE void fused_gru_cell(ShapeCall& c) {
  const Tensor state = c.tensor(2);
  c.give(contiguous_like(state));
  c.give(meta_tensor({state.size(0), 5 * state.size(1)}, state.scalar_type()));
}

/// input (time, batch, in), four weights, hx, cx, ...: one layer in one direction.
FXX_INLINE void mkldnn_rnn_layer(ShapeCall& c) {
  const Tensor x = c.tensor(0), h = c.tensor(5), state = c.tensor(6);
  TORCH_CHECK(x.dim() == 3, "mkldnn_rnn_layer: expected a 3-dimensional input, but got ", x.sizes());
  c.give(meta_tensor({x.size(0), x.size(1), c.integer(10)}, x.scalar_type()));
  c.give(contiguous_like(h));
  c.give(contiguous_like(state));
  c.give(c.flag(15) ? meta_tensor({0}, at::kByte) : Tensor());
}

// clang-format off
inline constexpr ShapeRuleOf attention_rules[] = {
    {"_fused_sdp_choice", attention_choice},
    {"_scaled_dot_product_flash_attention_for_cpu", flash_attention},
    {"_scaled_dot_product_flash_attention_for_cpu_backward", flash_attention_backward},
    {"_thnn_fused_lstm_cell", contiguous_like_argument<2, 2, 0>},
    {"_thnn_fused_gru_cell", fused_gru_cell},       {"mkldnn_rnn_layer", mkldnn_rnn_layer},
    {"mkldnn_rnn_layer_backward", contiguous_like_argument<0, 1, 2, 3, 4, 5, 6>},
};
// clang-format on

}  // namespace fxx::inline FXX_ABI::detail::shapes
