// Normalisation, of torch/leaf_modules.hpp.
#pragma once

#include "fxx/torch/leaf_modules/describer.ipp"

namespace fxx::inline FXX_ABI::detail::leaf {

template <class Impl>
void describe_batch_norm(const Impl& m, Describer& d) {
  const auto& o = m.options;
  d.operation(OperatorIndex::batch_norm)
      .input()
      .tensor(m.weight)
      .tensor(m.bias)
      .tensor(m.running_mean)
      .tensor(m.running_var);
  if (o.track_running_stats()) d.training();
  else d.constant(true);
  d.constant(o.momentum().value_or(0.0)).constant(o.eps()).constant(at::globalContext().userEnabledCuDNN());
  d.construct("torch::nn::BatchNormOptions", o.num_features())
      .with("eps", o.eps(), 1e-5)
      .with("momentum", o.momentum(), 0.1)
      .with("affine", o.affine(), true)
      .with("track_running_stats", o.track_running_stats(), true);
  if (!m.is_training() || !o.track_running_stats()) return;
  d.counts(m.num_batches_tracked);
  if (!o.momentum()) d.no_operation();  // the share of a batch follows from the count
}
FXX_INLINE void describe(const BatchNorm1dImpl& m, Describer& d) { describe_batch_norm(m, d); }
FXX_INLINE void describe(const BatchNorm2dImpl& m, Describer& d) { describe_batch_norm(m, d); }
FXX_INLINE void describe(const BatchNorm3dImpl& m, Describer& d) { describe_batch_norm(m, d); }
template <class Impl>
void describe_instance_norm(const Impl& m, Describer& d) {
  const auto& o = m.options;
  d.operation(OperatorIndex::instance_norm)
      .input()
      .tensor(m.weight)
      .tensor(m.bias)
      .tensor(m.running_mean)
      .tensor(m.running_var);
  if (o.track_running_stats()) d.training();
  else d.constant(true);
  d.constant(o.momentum()).constant(o.eps()).constant(at::globalContext().userEnabledCuDNN());
  d.construct("torch::nn::InstanceNormOptions", o.num_features())
      .with("eps", o.eps(), 1e-5)
      .with("momentum", o.momentum(), 0.1)
      .with("affine", o.affine(), false)
      .with("track_running_stats", o.track_running_stats(), false);
}
FXX_INLINE void describe(const InstanceNorm1dImpl& m, Describer& d) { describe_instance_norm(m, d); }
FXX_INLINE void describe(const InstanceNorm2dImpl& m, Describer& d) { describe_instance_norm(m, d); }
FXX_INLINE void describe(const InstanceNorm3dImpl& m, Describer& d) { describe_instance_norm(m, d); }
FXX_INLINE void describe(const LayerNormImpl& m, Describer& d) {
  const auto& o = m.options;
  d.operation(OperatorIndex::layer_norm)
      .input()
      .constant(Argument::list({o.normalized_shape().begin(), o.normalized_shape().end()}));
  d.tensor(m.weight).tensor(m.bias).constant(o.eps()).constant(true);
  d.construct("torch::nn::LayerNormOptions", o.normalized_shape())
      .with("eps", o.eps(), 1e-5)
      .with("elementwise_affine", o.elementwise_affine(), true);
}
FXX_INLINE void describe(const GroupNormImpl& m, Describer& d) {
  const auto& o = m.options;
  d.operation(OperatorIndex::group_norm)
      .input()
      .constant(o.num_groups())
      .tensor(m.weight)
      .tensor(m.bias)
      .constant(o.eps());
  d.constant(at::globalContext().userEnabledCuDNN());
  d.construct("torch::nn::GroupNormOptions", o.num_groups(), o.num_channels())
      .with("eps", o.eps(), 1e-5)
      .with("affine", o.affine(), true);
}

}  // namespace fxx::inline FXX_ABI::detail::leaf
