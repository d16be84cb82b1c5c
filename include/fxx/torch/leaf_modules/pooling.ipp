// Pooling, resizing, shuffling, of torch/leaf_modules.hpp.
#pragma once

#include "fxx/torch/leaf_modules/describer.ipp"

namespace fxx::inline FXX_ABI::detail::leaf {

template <class Impl>
void describe_max_pool(const Impl& m, Describer& d, OperatorIndex op, const char* options_type) {
  const auto& o = m.options;
  d.operation(op).input().constant(to_list_argument(o.kernel_size())).constant(to_list_argument(o.stride()));
  d.constant(to_list_argument(o.padding())).constant(to_list_argument(o.dilation())).constant(o.ceil_mode());
  d.construct(options_type, o.kernel_size())
      .with("stride", o.stride(), o.kernel_size())
      .with("padding", o.padding(), 0)
      .with("dilation", o.dilation(), 1)
      .with("ceil_mode", o.ceil_mode(), false);
}
FXX_INLINE void describe(const MaxPool1dImpl& m, Describer& d) {
  describe_max_pool(m, d, OperatorIndex::max_pool1d, "torch::nn::MaxPool1dOptions");
}
FXX_INLINE void describe(const MaxPool2dImpl& m, Describer& d) {
  describe_max_pool(m, d, OperatorIndex::max_pool2d, "torch::nn::MaxPool2dOptions");
}
FXX_INLINE void describe(const MaxPool3dImpl& m, Describer& d) {
  describe_max_pool(m, d, OperatorIndex::max_pool3d, "torch::nn::MaxPool3dOptions");
}
template <class Impl>
void describe_average_pool(const Impl& m, Describer& d, OperatorIndex op, const char* options_type) {
  const auto& o = m.options;
  d.operation(op)
      .input()
      .constant(to_list_argument(o.kernel_size()))
      .constant(to_list_argument(o.stride()))
      .constant(to_list_argument(o.padding()));
  d.constant(o.ceil_mode()).constant(o.count_include_pad()).constant(Argument(o.divisor_override()));
  d.construct(options_type, o.kernel_size())
      .with("stride", o.stride(), o.kernel_size())
      .with("padding", o.padding(), 0)
      .with("ceil_mode", o.ceil_mode(), false)
      .with("count_include_pad", o.count_include_pad(), true)
      .with("divisor_override", o.divisor_override(), std::optional<std::int64_t>());
}
FXX_INLINE void describe(const AvgPool2dImpl& m, Describer& d) {
  describe_average_pool(m, d, OperatorIndex::avg_pool2d, "torch::nn::AvgPool2dOptions");
}
FXX_INLINE void describe(const AvgPool3dImpl& m, Describer& d) {
  describe_average_pool(m, d, OperatorIndex::avg_pool3d, "torch::nn::AvgPool3dOptions");
}
FXX_INLINE void describe(const AvgPool1dImpl& m, Describer& d) {
  const auto& o = m.options;
  d.operation(OperatorIndex::avg_pool1d)
      .input()
      .constant(to_list_argument(o.kernel_size()))
      .constant(to_list_argument(o.stride()));
  d.constant(to_list_argument(o.padding())).constant(o.ceil_mode()).constant(o.count_include_pad());
  d.construct("torch::nn::AvgPool1dOptions", o.kernel_size())
      .with("stride", o.stride(), o.kernel_size())
      .with("padding", o.padding(), 0)
      .with("ceil_mode", o.ceil_mode(), false)
      .with("count_include_pad", o.count_include_pad(), true);
}
/// Sizes that the module takes from its input cannot be constants of the operator.
template <std::size_t D, class Impl>
void describe_adaptive_pool(const Impl& m, Describer& d, OperatorIndex op, const char* options_type) {
  const auto& size = *m.options.output_size();
  std::vector<std::int64_t> known;
  std::string text;
  for (std::size_t i = 0; i < size.size(); ++i) {
    std::optional<std::int64_t> one = size[i];
    known.push_back(one.value_or(-1));
    text += (i ? ", " : "") + Describer::text(one);
  }
  d.operation(op).input().constant(Argument::list({known.begin(), known.end()}));
  d.construct(options_type, D == 1 ? text : "{" + text + "}");
  if (std::find(known.begin(), known.end(), -1) != known.end()) d.no_operation();
}
FXX_INLINE void describe(const AdaptiveAvgPool1dImpl& m, Describer& d) {
  const std::vector<std::int64_t> size((*m.options.output_size()).begin(), (*m.options.output_size()).end());
  d.operation(OperatorIndex::adaptive_avg_pool1d).input().constant(Argument::list({size.begin(), size.end()}));
  d.construct("torch::nn::AdaptiveAvgPool1dOptions", m.options.output_size());
}
FXX_INLINE void describe(const AdaptiveAvgPool2dImpl& m, Describer& d) {
  describe_adaptive_pool<2>(m, d, OperatorIndex::adaptive_avg_pool2d, "torch::nn::AdaptiveAvgPool2dOptions");
}
FXX_INLINE void describe(const AdaptiveAvgPool3dImpl& m, Describer& d) {
  describe_adaptive_pool<3>(m, d, OperatorIndex::adaptive_avg_pool3d, "torch::nn::AdaptiveAvgPool3dOptions");
}
FXX_INLINE void describe(const PixelShuffleImpl& m, Describer& d) {
  d.operation(OperatorIndex::pixel_shuffle)
      .input()
      .constant(m.options.upscale_factor())
      .construct("", m.options.upscale_factor());
}
FXX_INLINE void describe(const PixelUnshuffleImpl& m, Describer& d) {
  d.operation(OperatorIndex::pixel_unshuffle)
      .input()
      .constant(m.options.downscale_factor())
      .construct("", m.options.downscale_factor());
}

#define FXX_ADAPTIVE(D)                                                        \
  FXX_INLINE void describe(const AdaptiveMaxPool##D##dImpl& m, Describer& d) { \
    describe_adaptive_pool<D>(m, d, OperatorIndex::adaptive_max_pool##D##d,    \
                              "torch::nn::AdaptiveMaxPool" #D "dOptions");     \
    d.no_operation(); /* of two results the module gives one */                \
  }
FXX_ADAPTIVE(2)
FXX_ADAPTIVE(3)
#undef FXX_ADAPTIVE
FXX_INLINE void describe(const AdaptiveMaxPool1dImpl& m, Describer& d) {
  d.construct("torch::nn::AdaptiveMaxPool1dOptions", m.options.output_size());
}
#define FXX_POOL(D)                                                                \
  FXX_INLINE void describe(const LPPool##D##dImpl& m, Describer& d) {              \
    const auto& o = m.options;                                                     \
    d.construct("torch::nn::LPPool" #D "dOptions", o.norm_type(), o.kernel_size()) \
        .with("stride", o.stride(), o.kernel_size())                               \
        .with("ceil_mode", o.ceil_mode(), false);                                  \
  }                                                                                \
  FXX_INLINE void describe(const MaxUnpool##D##dImpl& m, Describer& d) {           \
    const auto& o = m.options;                                                     \
    d.construct("torch::nn::MaxUnpool" #D "dOptions", o.kernel_size())             \
        .with("stride", o.stride(), o.kernel_size())                               \
        .with("padding", o.padding(), 0);                                          \
  }
FXX_POOL(1)
FXX_POOL(2)
FXX_POOL(3)
#undef FXX_POOL
#define FXX_PADS(D)                                                                                                  \
  FXX_INLINE void describe(const ReflectionPad##D##dImpl& m, Describer& d) {                                         \
    d.operation(OperatorIndex::reflection_pad##D##d).input().constant(to_list_argument(m.options.padding()));        \
    d.construct("torch::nn::ReflectionPad" #D "dOptions", m.options.padding());                                      \
  }                                                                                                                  \
  FXX_INLINE void describe(const ReplicationPad##D##dImpl& m, Describer& d) {                                        \
    d.operation(OperatorIndex::replication_pad##D##d).input().constant(to_list_argument(m.options.padding()));       \
    d.construct("torch::nn::ReplicationPad" #D "dOptions", m.options.padding());                                     \
  }                                                                                                                  \
  FXX_INLINE void describe(const ZeroPad##D##dImpl& m, Describer& d) {                                               \
    d.operation(OperatorIndex::constant_pad_nd).input().constant(to_list_argument(m.options.padding())).constant(0); \
    d.construct("torch::nn::ZeroPad" #D "dOptions", m.options.padding());                                            \
  }                                                                                                                  \
  FXX_INLINE void describe(const ConstantPad##D##dImpl& m, Describer& d) {                                           \
    d.operation(OperatorIndex::constant_pad_nd).input().constant(to_list_argument(m.options.padding()));             \
    d.constant(m.options.value());                                                                                   \
    d.construct("torch::nn::ConstantPad" #D "dOptions", m.options.padding(), m.options.value());                     \
  }
FXX_PADS(1)
FXX_PADS(2)
FXX_PADS(3)
#undef FXX_PADS
FXX_INLINE void describe(const UpsampleImpl& m, Describer& d) {
  const auto& o = m.options;
  d.construct("torch::nn::UpsampleOptions");
  if (o.size()) d.with("size", "std::vector<int64_t>" + Describer::text(*o.size()), "");
  if (o.scale_factor()) d.with("scale_factor", "std::vector<double>" + Describer::text(*o.scale_factor()), "");
  d.with("mode", enumerator(o.mode()), "torch::kNearest")
      .with("align_corners", o.align_corners(), std::optional<bool>());
}
FXX_INLINE void describe(const FoldImpl& m, Describer& d) {
  const auto& o = m.options;
  d.construct("torch::nn::FoldOptions", o.output_size(), o.kernel_size());
  d.with("dilation", o.dilation(), 1).with("padding", o.padding(), 0).with("stride", o.stride(), 1);
}
FXX_INLINE void describe(const UnfoldImpl& m, Describer& d) {
  const auto& o = m.options;
  d.construct("torch::nn::UnfoldOptions", o.kernel_size());
  d.with("dilation", o.dilation(), 1).with("padding", o.padding(), 0).with("stride", o.stride(), 1);
}
FXX_INLINE void describe(const UnflattenImpl& m, Describer& d) {
  d.construct("torch::nn::UnflattenOptions", m.options.dim(), m.options.sizes());
}
FXX_INLINE void describe(const LocalResponseNormImpl& m, Describer& d) {
  const auto& o = m.options;
  d.construct("torch::nn::LocalResponseNormOptions", o.size());
  d.with("alpha", o.alpha(), 1e-4).with("beta", o.beta(), 0.75).with("k", o.k(), 1.0);
}
FXX_INLINE void describe(const CrossMapLRN2dImpl& m, Describer& d) {
  const auto& o = m.options;
  d.construct("torch::nn::CrossMapLRN2dOptions", o.size());
  d.with("alpha", o.alpha(), 1e-4).with("beta", o.beta(), 0.75).with("k", o.k(), 1);
}

}  // namespace fxx::inline FXX_ABI::detail::leaf
