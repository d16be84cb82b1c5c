// Element by element, and dropout, of torch/leaf_modules.hpp.
#pragma once

#include "fxx/torch/leaf_modules/describer.ipp"

namespace fxx::inline FXX_ABI::detail::leaf {

#define FXX_PLAIN(Impl, index) \
  FXX_INLINE void describe(const Impl&, Describer& d) { d.operation(OperatorIndex::index).input().construct(""); }
FXX_PLAIN(SigmoidImpl, sigmoid)
FXX_PLAIN(TanhImpl, tanh)
FXX_PLAIN(SiLUImpl, silu)
FXX_PLAIN(MishImpl, mish)
FXX_PLAIN(LogSigmoidImpl, log_sigmoid)
#undef FXX_PLAIN
#define FXX_IN_PLACE(Impl, index, options_type)                                                \
  FXX_INLINE void describe(const Impl& m, Describer& d) {                                      \
    d.operation(m.options.inplace() ? OperatorIndex::index##_ : OperatorIndex::index).input(); \
    if (m.options.inplace()) d.construct(options_type).with("inplace", true, false);           \
  }
FXX_IN_PLACE(ReLUImpl, relu, "torch::nn::ReLUOptions")
FXX_IN_PLACE(ReLU6Impl, relu6, "torch::nn::ReLU6Options")
FXX_IN_PLACE(SELUImpl, selu, "torch::nn::SELUOptions")
#undef FXX_IN_PLACE
FXX_INLINE void describe(const GELUImpl& m, Describer& d) {
  d.operation(OperatorIndex::gelu).input().constant(m.options.approximate());
  d.construct("torch::nn::GELUOptions").with("approximate", m.options.approximate() == "tanh" ? "\"tanh\"" : "", "");
}
FXX_INLINE void describe(const ELUImpl& m, Describer& d) {
  d.operation(m.options.inplace() ? OperatorIndex::elu_ : OperatorIndex::elu).input().constant(m.options.alpha());
  d.construct("torch::nn::ELUOptions")
      .with("alpha", m.options.alpha(), 1.0)
      .with("inplace", m.options.inplace(), false);
}
FXX_INLINE void describe(const LeakyReLUImpl& m, Describer& d) {
  d.operation(m.options.inplace() ? OperatorIndex::leaky_relu_ : OperatorIndex::leaky_relu)
      .input()
      .constant(m.options.negative_slope());
  d.construct("torch::nn::LeakyReLUOptions")
      .with("negative_slope", m.options.negative_slope(), 1e-2)
      .with("inplace", m.options.inplace(), false);
}
FXX_INLINE void describe(const HardtanhImpl& m, Describer& d) {
  d.operation(m.options.inplace() ? OperatorIndex::hardtanh_ : OperatorIndex::hardtanh).input();
  d.constant(m.options.min_val()).constant(m.options.max_val());
  d.construct("torch::nn::HardtanhOptions")
      .with("min_val", m.options.min_val(), -1.0)
      .with("max_val", m.options.max_val(), 1.0)
      .with("inplace", m.options.inplace(), false);
}
FXX_INLINE void describe(const SoftplusImpl& m, Describer& d) {
  d.operation(OperatorIndex::softplus).input().constant(m.options.beta()).constant(m.options.threshold());
  d.construct("torch::nn::SoftplusOptions")
      .with("beta", m.options.beta(), 1.0)
      .with("threshold", m.options.threshold(), 20.0);
}
FXX_INLINE void describe(const PReLUImpl& m, Describer& d) {
  d.operation(OperatorIndex::prelu).input().tensor(m.weight);
  d.construct("torch::nn::PReLUOptions")
      .with("num_parameters", m.options.num_parameters(), 1)
      .with("init", m.options.init(), 0.25);
}
FXX_INLINE void describe(const SoftmaxImpl& m, Describer& d) {
  d.operation(OperatorIndex::softmax_int).input().constant(m.options.dim()).constant({}).construct("", m.options.dim());
}
FXX_INLINE void describe(const LogSoftmaxImpl& m, Describer& d) {
  d.operation(OperatorIndex::log_softmax_int)
      .input()
      .constant(m.options.dim())
      .constant({})
      .construct("", m.options.dim());
}
FXX_INLINE void describe(const HardshrinkImpl& m, Describer& d) {
  d.operation(OperatorIndex::hardshrink).input().constant(m.options.lambda()).construct("", m.options.lambda());
}
FXX_INLINE void describe(const SoftshrinkImpl& m, Describer& d) {
  d.operation(OperatorIndex::softshrink).input().constant(m.options.lambda()).construct("", m.options.lambda());
}
FXX_INLINE void describe(const CELUImpl& m, Describer& d) {
  d.operation(m.options.inplace() ? OperatorIndex::celu_ : OperatorIndex::celu).input().constant(m.options.alpha());
  d.construct("torch::nn::CELUOptions")
      .with("alpha", m.options.alpha(), 1.0)
      .with("inplace", m.options.inplace(), false);
}
FXX_INLINE void describe(const GLUImpl& m, Describer& d) {
  d.operation(OperatorIndex::glu).input().constant(m.options.dim()).construct("", m.options.dim());
}
FXX_INLINE void describe(const RReLUImpl& m, Describer& d) {
  const auto& o = m.options;
  d.operation(o.inplace() ? OperatorIndex::rrelu_ : OperatorIndex::rrelu).input().constant(o.lower());
  d.constant(o.upper()).training().construct("torch::nn::RReLUOptions");
  d.with("lower", o.lower(), 1.0 / 8.0).with("upper", o.upper(), 1.0 / 3.0).with("inplace", o.inplace(), false);
}
FXX_INLINE void describe(const ThresholdImpl& m, Describer& d) {
  const auto& o = m.options;
  d.operation(o.inplace() ? OperatorIndex::threshold_ : OperatorIndex::threshold).input().constant(o.threshold());
  d.constant(o.value()).construct("torch::nn::ThresholdOptions", o.threshold(), o.value());
  d.with("inplace", o.inplace(), false);
}
FXX_INLINE void describe(const SoftminImpl& m, Describer& d) { d.construct("", m.options.dim()); }
FXX_INLINE void describe(const Softmax2dImpl&, Describer& d) { d.construct(""); }
FXX_INLINE void describe(const SoftsignImpl&, Describer& d) { d.construct(""); }
FXX_INLINE void describe(const TanhshrinkImpl&, Describer& d) { d.construct(""); }
template <class Impl>
void describe_dropout(const Impl& m, Describer& d, OperatorIndex plain, OperatorIndex in_place,
                      const char* options_type) {
  d.operation(m.options.inplace() ? in_place : plain).input().constant(m.options.p()).training();
  d.construct(options_type).with("p", m.options.p(), 0.5).with("inplace", m.options.inplace(), false);
}
FXX_INLINE void describe(const DropoutImpl& m, Describer& d) {
  describe_dropout(m, d, OperatorIndex::dropout, OperatorIndex::dropout_, "torch::nn::DropoutOptions");
}
FXX_INLINE void describe(const Dropout2dImpl& m, Describer& d) {
  describe_dropout(m, d, OperatorIndex::feature_dropout, OperatorIndex::feature_dropout_,
                   "torch::nn::Dropout2dOptions");
}
FXX_INLINE void describe(const Dropout3dImpl& m, Describer& d) {
  describe_dropout(m, d, OperatorIndex::feature_dropout, OperatorIndex::feature_dropout_,
                   "torch::nn::Dropout3dOptions");
}
// These two never work in place, whatever their options say.
FXX_INLINE void describe(const FeatureAlphaDropoutImpl& m, Describer& d) {
  describe_dropout(m, d, OperatorIndex::feature_alpha_dropout, OperatorIndex::feature_alpha_dropout,
                   "torch::nn::FeatureAlphaDropoutOptions");
}
FXX_INLINE void describe(const AlphaDropoutImpl& m, Describer& d) {
  describe_dropout(m, d, OperatorIndex::alpha_dropout, OperatorIndex::alpha_dropout, "torch::nn::AlphaDropoutOptions");
}

}  // namespace fxx::inline FXX_ABI::detail::leaf
