// Recurrence and attention: more than one operator each, of torch/leaf_modules.hpp.
#pragma once

#include "fxx/torch/leaf_modules/describer.ipp"

namespace fxx::inline FXX_ABI::detail::leaf {

template <class Options>
void describe_recurrent(const Options& o, Describer& d, const char* options_type) {
  d.construct(options_type, o.input_size(), o.hidden_size())
      .with("num_layers", o.num_layers(), 1)
      .with("bias", o.bias(), true)
      .with("batch_first", o.batch_first(), false)
      .with("dropout", o.dropout(), 0.0)
      .with("bidirectional", o.bidirectional(), false);
}
FXX_INLINE void describe(const LSTMImpl& m, Describer& d) {
  describe_recurrent(m.options_base, d, "torch::nn::LSTMOptions");
  d.with("proj_size", m.options_base.proj_size(), 0);
  d.result("std::tuple<torch::Tensor, std::tuple<torch::Tensor, torch::Tensor>>");
}
FXX_INLINE void describe(const GRUImpl& m, Describer& d) {
  describe_recurrent(m.options_base, d, "torch::nn::GRUOptions");
  d.result("std::tuple<torch::Tensor, torch::Tensor>");
}
FXX_INLINE void describe(const RNNImpl& m, Describer& d) {
  describe_recurrent(m.options_base, d, "torch::nn::RNNOptions");
  d.result("std::tuple<torch::Tensor, torch::Tensor>");
  if (std::holds_alternative<enumtype::kRNN_RELU>(m.options_base.mode())) d.with("nonlinearity", "torch::kReLU", "");
}
FXX_INLINE void describe(const MultiheadAttentionImpl& m, Describer& d) {
  const auto& o = m.options;
  d.construct("torch::nn::MultiheadAttentionOptions", o.embed_dim(), o.num_heads())
      .with("dropout", o.dropout(), 0.0)
      .with("bias", o.bias(), true)
      .with("add_bias_kv", o.add_bias_kv(), false)
      .with("add_zero_attn", o.add_zero_attn(), false)
      .with("kdim", o.kdim(), o.embed_dim())
      .with("vdim", o.vdim(), o.embed_dim());
  d.result("std::tuple<torch::Tensor, torch::Tensor>");
}

}  // namespace fxx::inline FXX_ABI::detail::leaf
