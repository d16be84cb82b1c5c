// Bodies of torch/leaf_modules.hpp: the table of the modules of torch::nn. A file for each family, with what describes
// its modules, is in torch/leaf_modules/.
#pragma once

#include <c10/util/Type.h>
#include <torch/nn/modules.h>

#include <algorithm>
#include <mutex>
#include <typeindex>
#include <unordered_map>
#include <unordered_set>

#include "fxx/error.hpp"
#include "fxx/ir/print.hpp"
#include "fxx/ops/registry.hpp"
#include "fxx/torch/leaf_modules.hpp"
#include "fxx/torch/leaf_modules/layers.ipp"
#include "fxx/torch/leaf_modules/losses.ipp"
#include "fxx/torch/leaf_modules/normalisation.ipp"
#include "fxx/torch/leaf_modules/pointwise.ipp"
#include "fxx/torch/leaf_modules/pooling.ipp"
#include "fxx/torch/leaf_modules/recurrent.ipp"
#include "fxx/torch/module_owner.hpp"

namespace fxx::inline FXX_ABI {

FXX_INLINE c10::IValue result_traits<torch::nn::ASMoutput>::box(const torch::nn::ASMoutput& value) {
  return c10::ivalue::Tuple::create({value.output, value.loss});
}

namespace detail::leaf {

struct LeafEntry {
  void (*describe)(const torch::nn::Module&, Describer&) = nullptr;
  ModuleCall call;
  bool leaf = true;                      // otherwise a tracer asked for it to be called
  std::string result = "torch::Tensor";  // of forward, where nothing describes the module
  void (*members)(torch::nn::Module&, std::vector<TensorMember>&) = nullptr;
};

at::Tensor* address_type(at::Tensor*);
void address_type(const void*);

#define FXX_FOR_MEMBERS(f)                                                                                          \
  f(weight) f(bias) f(running_mean) f(running_var) f(num_batches_tracked) f(in_proj_weight) f(in_proj_bias)        \
      f(q_proj_weight) f(k_proj_weight) f(v_proj_weight) f(bias_k) f(bias_v) f(weight_ih) f(weight_hh) f(bias_ih) \
          f(bias_hh)
/// Has the class a member of that name that is a tensor? By overloads: requirements on types crash clang 16 here.
#define FXX_HAS(name)                                                                                  \
  template <class Impl>                                                                                \
  auto type_of_##name(int)->decltype(address_type(&std::declval<Impl&>().name));                       \
  template <class Impl>                                                                                \
  void type_of_##name(long);                                                                           \
  template <class Impl>                                                                                \
  inline constexpr bool has_##name = std::is_same_v<decltype(type_of_##name<Impl>(0)), at::Tensor*>;
FXX_FOR_MEMBERS(FXX_HAS)
#undef FXX_HAS

/// Adds the tensors among the members of a module of torch::nn, which has registered each by its own name.
template <class Impl>
void add_members(torch::nn::Module& module, std::vector<TensorMember>& found) {
  auto& typed = dynamic_cast<Impl&>(module);
#define FXX_ADD(name) \
  if constexpr (has_##name<Impl>) found.push_back({#name, &typed.name, nullptr, false});
  FXX_FOR_MEMBERS(FXX_ADD)
#undef FXX_ADD
}
/// Null where it has none: most modules are activations and the like.
template <class Impl>
constexpr auto members_of() -> void (*)(torch::nn::Module&, std::vector<TensorMember>&) {
#define FXX_OR(name) || has_##name<Impl>
  if constexpr (false FXX_FOR_MEMBERS(FXX_OR)) return &add_members<Impl>;
  else return nullptr;
#undef FXX_OR
}
#undef FXX_FOR_MEMBERS

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
  void add_call(std::type_index type, ModuleCall call, bool leaf, const std::string& result = "torch::Tensor") {
    std::lock_guard lock(mutex_);
    const auto [entry, fresh] = entries_.try_emplace(type);  // references to entries stay good, and so do calls
    if (fresh) entry->second.leaf = false;
    if (!entry->second.call) entry->second.call = std::move(call);
    if (leaf && !entry->second.leaf) entry->second.leaf = true, entry->second.result = result;
  }

 private:
  template <class... Impls>
  void described() {
    (entries_.emplace(typeid(Impls), LeafEntry{[](const torch::nn::Module& m, Describer& d) {
                                                 describe(dynamic_cast<const Impls&>(m), d);
                                               },
                                               &call_typed<Impls>, true, "torch::Tensor", members_of<Impls>()}),
     ...);
  }
  template <class... Impls>
  void callable() {
    (entries_.emplace(typeid(Impls), LeafEntry{nullptr, &call_typed<Impls>, true, forward_result<Impls>(),
                                               members_of<Impls>()}),
     ...);
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
FXX_INLINE void detail::no_such_forward(const torch::nn::Module& module, std::size_t count) {
  throw RunError(ErrorId::input_mismatch, "call_module: forward of " + module_type_name(module) + " does not take " +
                                              std::to_string(count) + " arguments; give it as many as it takes");
}
FXX_INLINE c10::IValue detail::hold_module(std::shared_ptr<torch::nn::Module> module) {
  if (const auto* value = dynamic_cast<const HeldValue*>(module.get())) return value->held_value();
  return hold(std::move(module));
}
FXX_INLINE std::shared_ptr<torch::nn::Module> detail::held_module_of(const c10::IValue& value) {
  return held<std::shared_ptr<torch::nn::Module>>(value);
}

FXX_INLINE void detail::register_leaf_call(const std::type_info& type, ModuleCall call, std::string result) {
  leaf::LeafTable::instance().add_call(type, std::move(call), true, result);
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
    if (entry) info.result = entry->result;
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
namespace detail {
/// The buffers are private, and LibTorch gives copies of their dictionary alone, in which nothing can be replaced. An
/// explicit instantiation may name what is private.
template <auto buffers>
struct RegisteredBuffers {
  friend const torch::OrderedDict<std::string, at::Tensor>& private_buffers(const torch::nn::Module& module) {
    return module.*buffers;
  }
};
const torch::OrderedDict<std::string, at::Tensor>& private_buffers(const torch::nn::Module& module);
template struct RegisteredBuffers<&torch::nn::Module::buffers_>;
}  // namespace detail
FXX_INLINE const torch::OrderedDict<std::string, at::Tensor>& detail::registered_buffers(
    const torch::nn::Module& module) {
  return private_buffers(module);
}

FXX_INLINE bool detail::uses_unregistered(const torch::nn::Module& module) {
  const auto& parameters = registered_parameters(module);
  if (parameters.is_empty()) return false;  // those that an operator may go without are registered, undefined
  const leaf::LeafEntry* entry = leaf::LeafTable::instance().find(module);
  if (!entry || !entry->describe) return false;
  bool all = true;
  const TensorNames look = [&](const at::Tensor& tensor) {
    const auto registered = [&](const auto& item) { return item.value().is_same(tensor); };
    if (!all || std::any_of(parameters.begin(), parameters.end(), registered)) return std::string();
    const auto& buffers = registered_buffers(module);
    all = std::any_of(buffers.begin(), buffers.end(), registered);
    return std::string();
  };
  ModuleInfo info;
  leaf::Describer describer(info, look, false);
  entry->describe(module, describer);
  return !all;
}

FXX_INLINE std::vector<detail::TensorMember> detail::tensor_members(const torch::nn::Module& module) {
  std::vector<TensorMember> found;
  const leaf::LeafEntry* entry = leaf::LeafTable::instance().find(module);
  if (!entry || !entry->members) return found;
  entry->members(const_cast<torch::nn::Module&>(module), found);
  auto& parameters = const_cast<torch::OrderedDict<std::string, at::Tensor>&>(registered_parameters(module));
  auto& buffers = const_cast<torch::OrderedDict<std::string, at::Tensor>&>(registered_buffers(module));
  for (TensorMember& member : found) {
    const std::string name(member.name);
    member.registered = parameters.find(name);
    member.is_parameter = member.registered != nullptr;
    if (!member.registered) member.registered = buffers.find(name);
  }
  return found;
}

FXX_INLINE std::vector<std::pair<std::string, detail::TensorMember>> detail::differing_members(
    const torch::nn::Module& root) {
  std::vector<std::pair<std::string, TensorMember>> found;
  const auto add = [&](const std::string& path, const torch::nn::Module& module) {
    require_depth(path, "the module");
    for (const TensorMember& member : tensor_members(module))
      if (member.differs() && (member.registered || member.member->defined()))
        found.emplace_back(path + (path.empty() ? "" : ".") + std::string(member.name), member);
  };
  root.apply(torch::nn::Module::ConstNamedModuleApplyFunction(add));
  return found;
}

FXX_INLINE std::string detail::note_of_members(const torch::nn::Module& root, std::string_view who,
                                               std::string_view takes) {
  const auto differing = differing_members(root);
  if (differing.empty()) return {};
  std::unordered_set<const c10::TensorImpl*> registered;
  root.apply([&](const torch::nn::Module& module) {
    for (const auto& item : registered_parameters(module)) registered.insert(item.value().unsafeGetTensorImpl());
    for (const auto& item : registered_buffers(module)) registered.insert(item.value().unsafeGetTensorImpl());
  });
  std::string names;
  std::size_t count = 0;
  for (const auto& [name, member] : differing) {
    if (member.member->defined() && registered.contains(member.member->unsafeGetTensorImpl())) continue;
    if (++count <= 3) names += (names.empty() ? "'" : ", '") + name + "'";
  }
  if (count == 0) return {};
  if (count > 3) names += " and " + std::to_string(count - 3) + " more";
  return std::string(who) + ": other tensors were assigned to members of layers than are registered under their names: " +
         names + ". forward reads the members, so " + std::string(takes) +
         "; parameters(), buffers() and optimisers have the registered ones. Write into a registered tensor with "
         "copy_() to keep them the same";
}

FXX_INLINE void detail::register_members(torch::nn::Module& root) {
  for (const auto& [name, member] : differing_members(root))
    if (member.registered) *member.registered = *member.member;
}

FXX_INLINE detail::MembersRegistered::MembersRegistered(const torch::nn::Module& root) {
  for (const auto& [name, member] : differing_members(root)) {
    if (!member.registered) continue;
    before_.emplace_back(member.registered, *member.registered);
    *member.registered = *member.member;
  }
}
FXX_INLINE detail::MembersRegistered::~MembersRegistered() {
  for (auto& [place, tensor] : before_) *place = std::move(tensor);
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
