// Linear maps, convolutions, embeddings, of torch/leaf_modules.hpp.
#pragma once

#include "fxx/torch/leaf_modules/describer.ipp"

namespace fxx::inline FXX_ABI::detail::leaf {

FXX_INLINE void describe(const LinearImpl& m, Describer& d) {
  d.operation(OperatorIndex::linear).input().tensor(m.weight).tensor(m.bias);
  if (m.bias.defined()) d.construct("", m.options.in_features(), m.options.out_features());
  else
    d.construct("torch::nn::LinearOptions", m.options.in_features(), m.options.out_features())
        .with("bias", false, true);
}
FXX_INLINE void describe(const BilinearImpl& m, Describer& d) {
  d.operation(OperatorIndex::bilinear).input().input().tensor(m.weight).tensor(m.bias);
  d.construct("torch::nn::BilinearOptions", m.options.in1_features(), m.options.in2_features(),
              m.options.out_features())
      .with("bias", m.bias.defined(), true);
}
FXX_INLINE void describe(const IdentityImpl&, Describer& d) {
  d.operation(OperatorIndex::fxx_identity).input().construct("");
}
FXX_INLINE void describe(const FlattenImpl& m, Describer& d) {
  d.operation(OperatorIndex::flatten_using_ints).input().constant(m.options.start_dim()).constant(m.options.end_dim());
  d.construct("torch::nn::FlattenOptions")
      .with("start_dim", m.options.start_dim(), 1)
      .with("end_dim", m.options.end_dim(), -1);
}

template <std::size_t D, class Impl>
void describe_convolution(const Impl& m, Describer& d, OperatorIndex plain, OperatorIndex padded,
                          const char* options_type) {
  const auto& o = m.options;
  d.construct(options_type, o.in_channels(), o.out_channels(), o.kernel_size())
      .with("stride", o.stride(), 1)
      .with("dilation", o.dilation(), 1)
      .with("groups", o.groups(), 1)
      .with("bias", m.bias.defined(), true);
  const bool zeros = std::holds_alternative<enumtype::kZeros>(o.padding_mode());
  if (std::holds_alternative<enumtype::kReflect>(o.padding_mode())) d.with("padding_mode", "torch::kReflect", "");
  if (std::holds_alternative<enumtype::kReplicate>(o.padding_mode())) d.with("padding_mode", "torch::kReplicate", "");
  if (std::holds_alternative<enumtype::kCircular>(o.padding_mode())) d.with("padding_mode", "torch::kCircular", "");
  if (const auto* padding = std::get_if<torch::ExpandingArray<D>>(&o.padding())) {
    d.with("padding", *padding, 0);
    d.operation(plain)
        .input()
        .tensor(m.weight)
        .tensor(m.bias)
        .constant(to_list_argument(o.stride()))
        .constant(to_list_argument(*padding));
  } else {
    const bool same = std::holds_alternative<enumtype::kSame>(o.padding());
    d.with("padding", same ? "torch::kSame" : "torch::kValid", "");
    d.operation(padded)
        .input()
        .tensor(m.weight)
        .tensor(m.bias)
        .constant(to_list_argument(o.stride()))
        .constant(same ? "same" : "valid");
  }
  d.constant(to_list_argument(o.dilation())).constant(o.groups());
  if (!zeros) d.no_operation();  // pads first
}
FXX_INLINE void describe(const Conv1dImpl& m, Describer& d) {
  describe_convolution<1>(m, d, OperatorIndex::conv1d, OperatorIndex::conv1d_padding, "torch::nn::Conv1dOptions");
}
FXX_INLINE void describe(const Conv2dImpl& m, Describer& d) {
  describe_convolution<2>(m, d, OperatorIndex::conv2d, OperatorIndex::conv2d_padding, "torch::nn::Conv2dOptions");
}
FXX_INLINE void describe(const Conv3dImpl& m, Describer& d) {
  describe_convolution<3>(m, d, OperatorIndex::conv3d, OperatorIndex::conv3d_padding, "torch::nn::Conv3dOptions");
}
template <std::size_t D, class Impl>
void describe_transposed(const Impl& m, Describer& d, OperatorIndex op, const char* options_type) {
  const auto& o = m.options;
  const auto& padding = std::get<torch::ExpandingArray<D>>(o.padding());
  d.operation(op)
      .input()
      .tensor(m.weight)
      .tensor(m.bias)
      .constant(to_list_argument(o.stride()))
      .constant(to_list_argument(padding));
  d.constant(to_list_argument(o.output_padding())).constant(o.groups()).constant(to_list_argument(o.dilation()));
  d.construct(options_type, o.in_channels(), o.out_channels(), o.kernel_size())
      .with("stride", o.stride(), 1)
      .with("padding", padding, 0)
      .with("output_padding", o.output_padding(), 0)
      .with("groups", o.groups(), 1)
      .with("bias", m.bias.defined(), true)
      .with("dilation", o.dilation(), 1);
}
FXX_INLINE void describe(const ConvTranspose1dImpl& m, Describer& d) {
  describe_transposed<1>(m, d, OperatorIndex::conv_transpose1d, "torch::nn::ConvTranspose1dOptions");
}
FXX_INLINE void describe(const ConvTranspose2dImpl& m, Describer& d) {
  describe_transposed<2>(m, d, OperatorIndex::conv_transpose2d_input, "torch::nn::ConvTranspose2dOptions");
}
FXX_INLINE void describe(const ConvTranspose3dImpl& m, Describer& d) {
  describe_transposed<3>(m, d, OperatorIndex::conv_transpose3d_input, "torch::nn::ConvTranspose3dOptions");
}

FXX_INLINE void describe(const EmbeddingImpl& m, Describer& d) {
  const auto& o = m.options;
  d.operation(OperatorIndex::embedding).tensor(m.weight).input().constant(o.padding_idx().value_or(-1));
  d.constant(o.scale_grad_by_freq()).constant(o.sparse());
  d.construct("torch::nn::EmbeddingOptions", o.num_embeddings(), o.embedding_dim())
      .with("padding_idx", o.padding_idx(), std::optional<std::int64_t>())
      .with("max_norm", o.max_norm(), std::optional<double>())
      .with("norm_type", o.norm_type(), 2.0)
      .with("scale_grad_by_freq", o.scale_grad_by_freq(), false)
      .with("sparse", o.sparse(), false);
  if (o.max_norm()) d.no_operation();  // renormalises its weight first
}

FXX_INLINE void describe(const EmbeddingBagImpl& m, Describer& d) {
  const auto& o = m.options;
  d.construct("torch::nn::EmbeddingBagOptions", o.num_embeddings(), o.embedding_dim())
      .with("max_norm", o.max_norm(), std::optional<double>())
      .with("norm_type", o.norm_type(), 2.0)
      .with("scale_grad_by_freq", o.scale_grad_by_freq(), false)
      .with("mode", "torch::" + enumtype::get_enum_name(o.mode()), "torch::kMean")
      .with("sparse", o.sparse(), false)
      .with("include_last_offset", o.include_last_offset(), false)
      .with("padding_idx", o.padding_idx(), std::optional<std::int64_t>());
}

}  // namespace fxx::inline FXX_ABI::detail::leaf
