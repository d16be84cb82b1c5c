// Bodies of torch/leaf_modules.hpp: the modules of torch::nn, one entry each, which makes it long.
#pragma once

#include <c10/util/Type.h>
#include <torch/nn/modules.h>

#include <algorithm>
#include <mutex>
#include <typeindex>
#include <unordered_map>

#include "fxx/error.hpp"
#include "fxx/ir/print.hpp"
#include "fxx/ops/registry.hpp"
#include "fxx/torch/leaf_modules.hpp"

namespace fxx::inline FXX_ABI {

FXX_INLINE c10::IValue result_traits<torch::nn::ASMoutput>::box(const torch::nn::ASMoutput& value) {
  return c10::ivalue::Tuple::create({value.output, value.loss});
}

namespace detail::leaf {

using namespace torch::nn;  // the types of this namespace are LibTorch's
namespace enumtype = torch::enumtype;

/// Fills a ModuleInfo: the operator with its parts, and the constructor's text.
class Describer {
 public:
  /// Not `whole`: only asks for the names of the tensors, and keeps nothing.
  Describer(ModuleInfo& info, const TensorNames& names, bool whole = true) : info_(info), names_(names), whole_(whole) {}

  // --- the operator --------------------------------------------------------------------------------------------------
  Describer& operation(OperatorIndex index) {
    info_.operation = &table_operator(index);
    return *this;
  }
  Describer& input() { return part({.kind = ModuleInfo::Part::Kind::input}); }
  Describer& training() { return part({.kind = ModuleInfo::Part::Kind::training}); }
  Describer& constant(Argument value) {
    return part({.kind = ModuleInfo::Part::Kind::constant, .constant = std::move(value)});
  }
  Describer& tensor(const at::Tensor& value) {
    if (!value.defined()) return constant({});
    return part({.kind = ModuleInfo::Part::Kind::attribute, .attribute = names_(value)});
  }
  /// A call adds one to this tensor besides.
  Describer& counts(const at::Tensor& value) {
    if (value.defined()) info_.counter = names_(value);
    return *this;
  }
  /// More than one operator after all.
  Describer& no_operation() {
    info_.operation = nullptr;
    info_.parts.clear();
    return *this;
  }

  // --- the constructor -----------------------------------------------------------------------------------------------
  template <class... A>
  Describer& construct(const char* options, const A&... arguments) {
    if (!whole_) return *this;
    std::string list;
    ((list += (list.empty() ? "" : ", ") + text(arguments)), ...);
    info_.construct = options[0] ? std::string(options) + "(" + list + ")" : list;
    return *this;
  }
  /// Options that have no text: tensors, functions.
  Describer& unknown(bool when = true) {
    info_.construct_unknown = when;
    return *this;
  }
  Describer& result(const char* type) {
    info_.result = type;
    return *this;
  }
  /// `.name(value)`, when it is not the default.
  template <class T, class D>
  Describer& with(const char* name, const T& value, const D& standard) {
    if (whole_ && text(value) != text(standard)) info_.construct += std::string(".") + name + "(" + text(value) + ")";
    return *this;
  }

  static std::string text(bool value) { return value ? "true" : "false"; }
  static std::string text(double value) { return repr(value); }
  template <std::integral T>
  static std::string text(T value) {
    return std::to_string(value);
  }
  static std::string text(const char* value) { return value; }
  static std::string text(const std::string& value) { return value; }
  static std::string text(const std::vector<double>& values) {
    std::string list;
    for (double v : values) list += (list.empty() ? "" : ", ") + repr(v);
    return "{" + list + "}";
  }
  static std::string text(const std::vector<std::int64_t>& values) {
    std::string list;
    for (std::int64_t v : values) list += (list.empty() ? "" : ", ") + std::to_string(v);
    return "{" + list + "}";
  }
  template <std::size_t D, class T>
  static std::string text(const torch::ExpandingArray<D, T>& values) {
    bool same = true;
    for (std::size_t i = 1; i < D; ++i) same = same && (*values)[i] == (*values)[0];
    return same ? text((*values)[0]) : text(std::vector<std::int64_t>((*values).begin(), (*values).end()));
  }
  template <class T>
  static std::string text(const std::optional<T>& value) {
    return value ? text(*value) : "std::nullopt";
  }

 private:
  Describer& part(ModuleInfo::Part p) {
    if (whole_) info_.parts.push_back(std::move(p));
    return *this;
  }
  ModuleInfo& info_;
  const TensorNames& names_;
  bool whole_;
};

template <std::size_t D, class T>
Argument to_list_argument(const torch::ExpandingArray<D, T>& values) {
  return Argument::list({(*values).begin(), (*values).end()});
}

// --- linear ----------------------------------------------------------------------------------------------------------

FXX_INLINE void describe(const LinearImpl& m, Describer& d) {
  d.operation(OperatorIndex::linear).input().tensor(m.weight).tensor(m.bias);
  if (m.options.bias()) d.construct("", m.options.in_features(), m.options.out_features());
  else
    d.construct("torch::nn::LinearOptions", m.options.in_features(), m.options.out_features())
        .with("bias", false, true);
}
FXX_INLINE void describe(const BilinearImpl& m, Describer& d) {
  d.operation(OperatorIndex::bilinear).input().input().tensor(m.weight).tensor(m.bias);
  d.construct("torch::nn::BilinearOptions", m.options.in1_features(), m.options.in2_features(),
              m.options.out_features())
      .with("bias", m.options.bias(), true);
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

// --- convolution -----------------------------------------------------------------------------------------------------

template <std::size_t D, class Impl>
void describe_convolution(const Impl& m, Describer& d, OperatorIndex plain, OperatorIndex padded,
                          const char* options_type) {
  const auto& o = m.options;
  d.construct(options_type, o.in_channels(), o.out_channels(), o.kernel_size())
      .with("stride", o.stride(), 1)
      .with("dilation", o.dilation(), 1)
      .with("groups", o.groups(), 1)
      .with("bias", o.bias(), true);
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
      .with("bias", o.bias(), true)
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

// --- normalisation ---------------------------------------------------------------------------------------------------

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

// --- embedding -------------------------------------------------------------------------------------------------------

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

// --- pointwise -------------------------------------------------------------------------------------------------------

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
FXX_INLINE void describe(const FeatureAlphaDropoutImpl& m, Describer& d) {
  describe_dropout(m, d, OperatorIndex::feature_alpha_dropout, OperatorIndex::feature_alpha_dropout_,
                   "torch::nn::FeatureAlphaDropoutOptions");
}
FXX_INLINE void describe(const AlphaDropoutImpl& m, Describer& d) {
  describe_dropout(m, d, OperatorIndex::alpha_dropout, OperatorIndex::alpha_dropout_, "torch::nn::AlphaDropoutOptions");
}

// --- pooling, shuffling ----------------------------------------------------------------------------------------------

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

FXX_INLINE std::string enumerator(const auto& value) { return "torch::" + enumtype::get_enum_name(value); }

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

// --- distances and losses --------------------------------------------------------------------------------------------

FXX_INLINE void describe(const CosineSimilarityImpl& m, Describer& d) {
  d.operation(OperatorIndex::cosine_similarity).input().input().constant(m.options.dim()).constant(m.options.eps());
  d.construct("torch::nn::CosineSimilarityOptions").with("dim", m.options.dim(), 1).with("eps", m.options.eps(), 1e-8);
}
FXX_INLINE void describe(const PairwiseDistanceImpl& m, Describer& d) {
  const auto& o = m.options;
  d.operation(OperatorIndex::pairwise_distance).input().input().constant(o.p()).constant(o.eps()).constant(o.keepdim());
  d.construct("torch::nn::PairwiseDistanceOptions");
  d.with("p", o.p(), 2.0).with("eps", o.eps(), 1e-6).with("keepdim", o.keepdim(), false);
}
/// Options of a loss, the reduction last; a weight is a tensor, which has no text.
#define FXX_LOSS(name, weight, ...)                                             \
  FXX_INLINE void describe(const name##Impl& m, Describer& d) {                 \
    [[maybe_unused]] const auto& o = m.options;                                 \
    d.construct("torch::nn::" #name "Options").unknown(weight);                 \
    d __VA_ARGS__.with("reduction", enumerator(o.reduction()), "torch::kMean"); \
  }
FXX_LOSS(L1Loss, false)
FXX_LOSS(MSELoss, false)
FXX_LOSS(SmoothL1Loss, false, .with("beta", o.beta(), std::optional<double>()))
FXX_LOSS(HuberLoss, false, .with("delta", o.delta(), 1.0))
FXX_LOSS(BCELoss, o.weight().defined())
FXX_LOSS(BCEWithLogitsLoss, o.weight().defined() || o.pos_weight().defined())
FXX_LOSS(KLDivLoss, false, .with("log_target", o.log_target(), false))
FXX_LOSS(HingeEmbeddingLoss, false, .with("margin", o.margin(), 1.0))
FXX_LOSS(MultiMarginLoss, o.weight().defined(), .with("p", o.p(), 1).with("margin", o.margin(), 1.0))
FXX_LOSS(CosineEmbeddingLoss, false, .with("margin", o.margin(), 0.0))
FXX_LOSS(MultiLabelMarginLoss, false)
FXX_LOSS(SoftMarginLoss, false)
FXX_LOSS(MultiLabelSoftMarginLoss, o.weight().defined())
FXX_LOSS(
    TripletMarginLoss, false,
    .with("margin", o.margin(), 1.0).with("p", o.p(), 2.0).with("eps", o.eps(), 1e-6).with("swap", o.swap(), false))
FXX_LOSS(CTCLoss, false, .with("blank", o.blank(), 0).with("zero_infinity", o.zero_infinity(), false))
FXX_LOSS(PoissonNLLLoss, false,
         .with("log_input", o.log_input(), true).with("full", o.full(), false).with("eps", o.eps(), 1e-8))
FXX_LOSS(MarginRankingLoss, false, .with("margin", o.margin(), 0.0))
FXX_LOSS(NLLLoss, o.weight().defined(), .with("ignore_index", o.ignore_index(), -100))
FXX_LOSS(CrossEntropyLoss, o.weight().defined(),
         .with("ignore_index", o.ignore_index(), -100).with("label_smoothing", o.label_smoothing(), 0.0))
#undef FXX_LOSS

// --- recurrence and attention: more than one operator ----------------------------------------------------------------

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

/// need_weights and average_attn_weights are true when they are left out.
FXX_INLINE c10::IValue call_attention(torch::nn::Module& module, std::vector<c10::IValue> args) {
  args.resize(std::max<std::size_t>(args.size(), 3));
  const c10::IValue defaults[] = {{}, {}, {}, at::Tensor(), true, at::Tensor(), true};
  for (std::size_t i = args.size(); i < std::size(defaults); ++i) args.push_back(defaults[i]);
  return call_typed<MultiheadAttentionImpl>(module, std::move(args));
}

struct LeafEntry {
  void (*describe)(const torch::nn::Module&, Describer&) = nullptr;
  ModuleCall call;
  bool leaf = true;  // otherwise a tracer asked for it to be called
};

class LeafTable {
 public:
  static LeafTable& instance() {
    static LeafTable table;
    return table;
  }
  const LeafEntry* find(const torch::nn::Module& module) {
    std::lock_guard lock(mutex_);
    const auto found = entries_.find(typeid(module));
    return found == entries_.end() ? nullptr : &found->second;
  }
  void add_call(std::type_index type, ModuleCall call, bool leaf) {
    std::lock_guard lock(mutex_);
    const auto [entry, fresh] = entries_.try_emplace(type);  // references to entries stay good, and so do calls
    if (fresh) entry->second.leaf = false;
    if (!entry->second.call) entry->second.call = std::move(call);
    entry->second.leaf = entry->second.leaf || leaf;
  }

 private:
  template <class... Impls>
  void described() {
    (entries_.emplace(typeid(Impls), LeafEntry{[](const torch::nn::Module& m, Describer& d) {
                                                 describe(dynamic_cast<const Impls&>(m), d);
                                               },
                                               &call_typed<Impls>}),
     ...);
  }
  template <class... Impls>
  void callable() {
    (entries_.emplace(typeid(Impls), LeafEntry{nullptr, &call_typed<Impls>}), ...);
  }
  LeafTable() {
    described<
        LinearImpl, BilinearImpl, IdentityImpl, FlattenImpl, Conv1dImpl, Conv2dImpl, Conv3dImpl, ConvTranspose1dImpl,
        ConvTranspose2dImpl, ConvTranspose3dImpl, BatchNorm1dImpl, BatchNorm2dImpl, BatchNorm3dImpl, InstanceNorm1dImpl,
        InstanceNorm2dImpl, InstanceNorm3dImpl, LayerNormImpl, GroupNormImpl, EmbeddingImpl, SigmoidImpl, TanhImpl,
        SiLUImpl, MishImpl, LogSigmoidImpl, ReLUImpl, ReLU6Impl, SELUImpl, GELUImpl, ELUImpl, LeakyReLUImpl,
        HardtanhImpl, SoftplusImpl, PReLUImpl, SoftmaxImpl, LogSoftmaxImpl, DropoutImpl, Dropout2dImpl, Dropout3dImpl,
        AlphaDropoutImpl, MaxPool1dImpl, MaxPool2dImpl, MaxPool3dImpl, AvgPool1dImpl, AvgPool2dImpl, AvgPool3dImpl,
        AdaptiveAvgPool1dImpl, AdaptiveAvgPool2dImpl, AdaptiveAvgPool3dImpl, PixelShuffleImpl, PixelUnshuffleImpl,
        LSTMImpl, GRUImpl, RNNImpl, MultiheadAttentionImpl, UnflattenImpl, EmbeddingBagImpl, FeatureAlphaDropoutImpl,
        HardshrinkImpl, SoftminImpl, Softmax2dImpl, RReLUImpl, CELUImpl, GLUImpl, SoftshrinkImpl, SoftsignImpl,
        TanhshrinkImpl, ThresholdImpl, AdaptiveMaxPool1dImpl, AdaptiveMaxPool2dImpl, AdaptiveMaxPool3dImpl,
        LPPool1dImpl, LPPool2dImpl, LPPool3dImpl, LocalResponseNormImpl, ReflectionPad1dImpl, ReflectionPad2dImpl,
        ReflectionPad3dImpl, ReplicationPad1dImpl, ReplicationPad2dImpl, ReplicationPad3dImpl, ZeroPad1dImpl,
        ZeroPad2dImpl, ZeroPad3dImpl, ConstantPad1dImpl, ConstantPad2dImpl, ConstantPad3dImpl, UpsampleImpl, FoldImpl,
        UnfoldImpl, CosineSimilarityImpl, PairwiseDistanceImpl, BCELossImpl, BCEWithLogitsLossImpl, CTCLossImpl,
        CosineEmbeddingLossImpl, CrossEntropyLossImpl, CrossMapLRN2dImpl, HingeEmbeddingLossImpl, HuberLossImpl,
        KLDivLossImpl, L1LossImpl, MSELossImpl, MarginRankingLossImpl, MaxUnpool1dImpl, MaxUnpool2dImpl,
        MaxUnpool3dImpl, MultiLabelMarginLossImpl, MultiLabelSoftMarginLossImpl, MultiMarginLossImpl, NLLLossImpl,
        PoissonNLLLossImpl, SmoothL1LossImpl, SoftMarginLossImpl, TripletMarginLossImpl>();
    callable<RNNCellImpl, LSTMCellImpl, GRUCellImpl, TransformerEncoderLayerImpl, TransformerEncoderImpl,
             TransformerDecoderLayerImpl, TransformerDecoderImpl, TransformerImpl, AdaptiveLogSoftmaxWithLossImpl,
             FractionalMaxPool2dImpl, FractionalMaxPool3dImpl, FunctionalImpl, TripletMarginWithDistanceLossImpl>();
    entries_[typeid(MultiheadAttentionImpl)].call = &call_attention;
  }

  std::mutex mutex_;
  std::unordered_map<std::type_index, LeafEntry> entries_;
};

}  // namespace detail::leaf

FXX_INLINE void detail::throw_not_held(const c10::IValue& value, std::string_view type) {
  throw RunError(ErrorId::input_mismatch, "wrap: a function of the graph takes a " + std::string(type) +
                                              ", and its argument is " + describe(value) +
                                              "; build the object in the graph, or give it as an input with "
                                              "fxx::box(object)");
}
FXX_INLINE c10::IValue detail::hold_module(std::shared_ptr<torch::nn::Module> module) {
  if (const auto* value = dynamic_cast<const HeldValue*>(module.get())) return value->held_value();
  return hold(std::move(module));
}
FXX_INLINE std::shared_ptr<torch::nn::Module> detail::held_module_of(const c10::IValue& value) {
  return held<std::shared_ptr<torch::nn::Module>>(value);
}

FXX_INLINE void detail::register_leaf_call(const std::type_info& type, ModuleCall call) {
  leaf::LeafTable::instance().add_call(type, std::move(call), true);
}
FXX_INLINE void detail::register_module_call(const std::type_info& type, ModuleCall call) {
  leaf::LeafTable::instance().add_call(type, std::move(call), false);
}

FXX_INLINE std::string module_type_name(const torch::nn::Module& module) {
  std::string name = c10::demangle(typeid(module).name());
  if (name.ends_with("Impl")) name.resize(name.size() - 4);
  return name;
}

FXX_INLINE bool is_leaf_module(const torch::nn::Module& module) {
  const detail::leaf::LeafEntry* entry = detail::leaf::LeafTable::instance().find(module);
  return entry && entry->leaf;
}

FXX_INLINE ModuleInfo describe_module(const torch::nn::Module& module, const std::string& name,
                                      const TensorNames& names) {
  ModuleInfo info;
  info.name = name;
  info.type = module_type_name(module);
  info.training = module.is_training();
  const detail::leaf::LeafEntry* entry = detail::leaf::LeafTable::instance().find(module);
  if (entry && entry->describe) {
    detail::leaf::Describer describer(info, names);
    entry->describe(module, describer);
    // Default options need no mention: `torch::nn::ReLU()`.
    if (info.construct.ends_with("Options()")) info.construct.clear();
  } else {
    info.construct_unknown = true;
  }
  return info;
}

/// Lets the registered parameters of a module be read, which named_parameters() copies into a dictionary.
struct detail::RegisteredParameters : torch::nn::Module {
  static const torch::OrderedDict<std::string, at::Tensor>& of(const torch::nn::Module& module) {
    return module.*(&RegisteredParameters::parameters_);
  }
};
FXX_INLINE const torch::OrderedDict<std::string, at::Tensor>& detail::registered_parameters(
    const torch::nn::Module& module) {
  return RegisteredParameters::of(module);
}

FXX_INLINE bool detail::uses_unregistered(const torch::nn::Module& module) {
  const auto& parameters = registered_parameters(module);
  if (parameters.is_empty()) return false;  // those that an operator may go without are registered, undefined
  const leaf::LeafEntry* entry = leaf::LeafTable::instance().find(module);
  if (!entry || !entry->describe) return false;
  bool all = true;
  std::optional<torch::OrderedDict<std::string, at::Tensor>> buffers;  // copies, so they are read where one is needed
  const TensorNames look = [&](const at::Tensor& tensor) {
    const auto registered = [&](const auto& item) { return item.value().is_same(tensor); };
    if (!all || std::any_of(parameters.begin(), parameters.end(), registered)) return std::string();
    if (!buffers) buffers = module.named_buffers(false);
    all = std::any_of(buffers->begin(), buffers->end(), registered);
    return std::string();
  };
  ModuleInfo info;
  leaf::Describer describer(info, look, false);
  entry->describe(module, describer);
  return !all;
}

FXX_INLINE const ModuleCall& module_call_of(const torch::nn::Module& module) {
  const detail::leaf::LeafEntry* entry = detail::leaf::LeafTable::instance().find(module);
  if (!entry || !entry->call)
    throw RunError(ErrorId::run_failed, "module_call_of: a graph does not know how to call '" +
                                            module_type_name(module) + "'; register the type with fxx::register_leaf<" +
                                            module_type_name(module) + "Impl>() before it runs");
  return entry->call;
}
FXX_INLINE c10::IValue call_module(torch::nn::Module& module, std::vector<c10::IValue> args) {
  return module_call_of(module)(module, std::move(args));
}

}  // namespace fxx::inline FXX_ABI
